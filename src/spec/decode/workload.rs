//! `workload:`, against the tasks that the suite has.

use std::collections::BTreeMap;

use super::Context;
use super::deployment::file_mistake;
use super::task::{Decoded, resolve};
use crate::spec::diagnostic::Mistake;
use crate::spec::gate::{Gate, GateKind};
use crate::spec::keys_workload::{DISTRIBUTION, LOGNORMAL, NORMAL, SHARED_PREFIX, UNIFORM, WORKLOAD};
use crate::spec::node::{Entry, Kind, Node};
use crate::spec::scalar;
use crate::spec::suggest;
use crate::spec::suite::{LatencyFigure, SloTarget, SpeedMetric};
use crate::spec::view::{View, text};
use crate::spec::workload::{self, Distribution, NumbersError, Range, SharedPrefix, Workload};

pub fn workload(suite: &View<'_>, tasks: &[Decoded], cx: &mut Context<'_>) -> Option<Workload> {
    let view = suite.present("workload", &WORKLOAD)?;
    let turns = drawn(&view, "turns", Range::TURNS, cx);
    let think_time = drawn(&view, "think_time", Range::THINK_TIME, cx);
    if view.node("think_time").is_some() && view.node("turns").is_none() {
        let message = "`think_time` without `turns`: there is no next turn to think before";
        let mistake = Mistake::new("missing-key", view.key_place("think_time"), message);
        cx.report(mistake.hint("add for example `turns: 3`, or remove it"));
    }
    Some(Workload {
        mix: mix(&view, tasks, cx),
        prompt_tokens: drawn(&view, "prompt_tokens", Range::TOKENS, cx),
        output_tokens: drawn(&view, "output_tokens", Range::TOKENS, cx),
        shared_prefix: shared_prefix(&view),
        turns,
        think_time,
        stream: view.boolean("stream").unwrap_or(true),
    })
}

/// What is judged by its tokens needs a stream.
pub fn check_stream(
    suite: &View<'_>,
    workload: Option<&Workload>,
    slo: &[SloTarget],
    gates: &[Gate],
    cx: &mut Context<'_>,
) {
    if workload.is_none_or(|w| w.stream) {
        return;
    }
    let of_gate = |gate: &Gate| match gate.kind {
        GateKind::Speed { metric, .. } => Some(metric),
        _ => None,
    };
    let by_tokens = |metric: &SpeedMetric| {
        use LatencyFigure::{Itl, Tpot, Ttfa, Ttft};
        matches!(metric, SpeedMetric::Latency { figure: Ttft | Ttfa | Tpot | Itl, .. })
    };
    let judged = slo.iter().map(|target| target.metric).chain(gates.iter().filter_map(of_gate)).find(by_tokens);
    let Some(metric) = judged else { return };
    let view = suite.section("workload", &WORKLOAD);
    let message = format!("`{metric}` is judged, and without a stream no token is timed");
    let mistake = Mistake::new("not-streamed", view.key_place("stream"), message);
    cx.report(mistake.hint("judge `e2e_…` or a rate, or remove `stream: false`"));
}

fn mix(view: &View<'_>, tasks: &[Decoded], cx: &mut Context<'_>) -> BTreeMap<String, f64> {
    let Some(node) = view.node("mix") else { return BTreeMap::new() };
    let names = || tasks.iter().map(|t| t.task.name.as_str());
    let mut mix = BTreeMap::new();
    for entry in node.entries().unwrap_or_default() {
        let name = entry.key.text.as_str();
        if !names().any(|task| task == name) {
            let message = format!("no task has the name `{name}`");
            let mistake = Mistake::new("unknown-task", entry.key.place, message);
            let help = format!("there is: {}", suggest::list(names()));
            cx.report(mistake.maybe_hint(suggest::did_you_mean(name, names())).help(help));
        }
        mix.insert(name.to_owned(), scalar::number(&entry.value, 1e-6, 1e6).unwrap_or(1.0));
    }
    // A name that is no task may be the one that is missing: told once.
    let unknown = mix.keys().any(|name| !names().any(|task| task == name));
    let left_out: Vec<&str> = names().filter(|name| !mix.contains_key(*name)).collect();
    if node.entries().is_some() && !unknown && !left_out.is_empty() {
        let message = format!("the mix leaves out {}", suggest::list(left_out));
        let mistake = Mistake::new("missing-key", view.key_place("mix"), message);
        cx.report(mistake.hint("give every task a weight, or remove the task"));
    }
    mix
}

fn shared_prefix(view: &View<'_>) -> Option<SharedPrefix> {
    let view = view.present("shared_prefix", &SHARED_PREFIX)?;
    Some(SharedPrefix { tokens: view.count("tokens")?, groups: view.count("groups")? })
}

/// A distribution, or the one value that may stand for it.
fn drawn(view: &View<'_>, key: &str, range: Range, cx: &mut Context<'_>) -> Option<Distribution> {
    let node = view.node(key)?;
    match &node.kind {
        Kind::Map(entries) => {
            let entry = entries.iter().find(|e| DISTRIBUTION.kinds.iter().any(|k| k.name == e.key.text))?;
            distribution(entry, range, cx)
        }
        // A duration has a unit, a count has none; the check has told what fits neither.
        _ if key == "think_time" => {
            let span = scalar::duration(node).ok()?;
            within("the pause", span.0.as_secs_f64(), node, range, cx).map(Distribution::Fixed)
        }
        _ => Some(Distribution::Fixed(scalar::number(node, range.min, range.max).ok()?)),
    }
}

fn distribution(entry: &Entry, range: Range, cx: &mut Context<'_>) -> Option<Distribution> {
    let node = &entry.value;
    let view = |section| View::new(Some(node), section, entry.key.place);
    match entry.key.text.as_str() {
        "fixed" => {
            let value = scalar::number(node, 0.0, f64::MAX).ok()?;
            within("`fixed`", value, node, range, cx).map(Distribution::Fixed)
        }
        "uniform" => {
            let view = view(&UNIFORM);
            let (min, max) = (bound(&view, "min", range, cx)?, bound(&view, "max", range, cx)?);
            ordered(&view, ("min", min), ("max", max), cx)?;
            Some(Distribution::Uniform { min, max })
        }
        "normal" => {
            let view = view(&NORMAL);
            let (mean, sd) = (bound(&view, "mean", range, cx)?, view.number("sd")?);
            let (min, max) = (bound(&view, "min", range, cx), bound(&view, "max", range, cx));
            if let (Some(min), Some(max)) = (min, max) {
                ordered(&view, ("min", min), ("max", max), cx)?;
            }
            Some(Distribution::Normal { mean, sd, min, max })
        }
        "lognormal" => {
            let view = view(&LOGNORMAL);
            let (median, p95) = (bound(&view, "median", range, cx)?, bound(&view, "p95", range, cx)?);
            let max = bound(&view, "max", range, cx);
            if median <= 0.0 {
                let message = "the median of a lognormal distribution is above 0";
                cx.report(Mistake::new("out-of-range", view.place_of("median"), message).hint("write a small number"));
                return None;
            }
            ordered(&view, ("median", median), ("p95", p95), cx)?;
            if let Some(max) = max {
                ordered(&view, ("p95", p95), ("max", max), cx)?;
            }
            Some(Distribution::Lognormal { median, p95, max })
        }
        "file" => numbers(node, range, cx),
        _ => None,
    }
}

fn bound(view: &View<'_>, key: &str, range: Range, cx: &mut Context<'_>) -> Option<f64> {
    let (value, node) = view.number(key).zip(view.node(key))?;
    within(&format!("`{key}`"), value, node, range, cx)
}

fn within(what: &str, value: f64, node: &Node, range: Range, cx: &mut Context<'_>) -> Option<f64> {
    if range.holds(value) {
        return Some(value);
    }
    let message = format!("{what} is {}, and {} lies from {} to {}", node.describe(), range.what, range.min, range.max);
    cx.report(Mistake::new("out-of-range", node.place, message).hint("write a number between the two"));
    None
}

/// `lower` must not be above `upper`.
fn ordered(view: &View<'_>, lower: (&str, f64), upper: (&str, f64), cx: &mut Context<'_>) -> Option<()> {
    if lower.1 <= upper.1 {
        return Some(());
    }
    let message = format!("`{}` {} is below `{}` {}", upper.0, upper.1, lower.0, lower.1);
    let hint = format!("write a `{}` of at least {}", upper.0, lower.1);
    cx.report(Mistake::new("bad-distribution", view.place_of(upper.0), message).hint(hint));
    None
}

fn numbers(node: &Node, range: Range, cx: &mut Context<'_>) -> Option<Distribution> {
    let written = text(node)?;
    let path = resolve(&written, node.place, cx)?;
    let real = cx.filled(&written).and_then(|filled| cx.root.resolve(&filled).ok())?;
    match workload::read_numbers(&real, range) {
        Ok(_) => Some(Distribution::File { path }),
        Err(NumbersError::File(error)) => {
            cx.report(file_mistake(&error, node.place));
            None
        }
        Err(error) => {
            let mistake = Mistake::new("bad-lengths", node.place, format!("`{written}`: {error}"));
            cx.report(mistake.hint("the file holds one number a line"));
            None
        }
    }
}
