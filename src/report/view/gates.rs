//! Gates by candidate, each with its numbers, its bar and its reason.

use serde::Serialize;

use super::{Cell, name};
use crate::analyze::Summary;
use crate::analyze::summary::GateResult;
use crate::report::format;
use crate::report::svg::{Span, gate_bar};
use crate::report::text::{clipped, one_line};
use crate::report::words;

#[derive(Serialize)]
pub struct Group {
    pub arm: String,
    pub rows: Vec<Row>,
    /// Gates beyond those shown; only passing ones are left out before others.
    pub more: u64,
}

/// Gates of one arm that the page shows: `each: task` may make thousands.
const GATES_SHOWN: usize = 150;

#[derive(Serialize)]
pub struct Row {
    pub gate: String,
    pub scope: String,
    pub advisory: bool,
    pub verdict: &'static str,
    pub class: &'static str,
    pub estimate: Cell,
    pub n: String,
    pub bound: String,
    pub bar_svg: String,
    pub reason: String,
}

pub fn groups(summary: &Summary) -> Vec<Group> {
    let mut arms: Vec<(&str, Vec<&GateResult>)> = Vec::new();
    for gate in &summary.gates {
        match arms.iter_mut().find(|(arm, _)| *arm == gate.arm) {
            Some((_, gates)) => gates.push(gate),
            None => arms.push((&gate.arm, vec![gate])),
        }
    }
    arms.into_iter()
        .map(|(arm, mut gates)| {
            let more = gates.len().saturating_sub(GATES_SHOWN) as u64;
            if more > 0 {
                gates.sort_by_key(|gate| std::cmp::Reverse(gate.verdict));
            }
            Group { arm: name(arm), rows: gates.into_iter().take(GATES_SHOWN).map(row).collect(), more }
        })
        .collect()
}

fn row(gate: &GateResult) -> Row {
    let unit = words::gate_unit(gate);
    let class = words::gate_class(gate.verdict);
    let bar = gate.estimate.as_ref().zip(gate.bound.filter(|bound| bound.is_finite()));
    let bar =
        bar.and_then(|(estimate, bound)| gate_bar(unit, Span::of(estimate), bound, words::gate_fails(gate), class));
    Row {
        gate: name(&gate.gate),
        scope: if gate.scope == "all" { String::new() } else { name(&gate.scope) },
        advisory: gate.advisory,
        verdict: words::gate_verdict(gate.verdict),
        class,
        estimate: Cell::estimate(unit, gate.estimate.as_ref(), "no estimate: the reason says why"),
        n: gate.estimate.as_ref().map_or_else(|| format::ABSENT.to_owned(), |estimate| format::count(estimate.n)),
        bound: format::figure(unit, gate.bound),
        bar_svg: bar.unwrap_or_default(),
        reason: clipped(&one_line(&gate.reason), 600),
    }
}
