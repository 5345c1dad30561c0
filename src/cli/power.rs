//! The power table: before a run is paid for, what can it decide?

use std::fmt::Write as _;

use crate::analyze::stats::{Design, fail_power, n_to_decide, pass_power};
use crate::plan::Plan;
use crate::spec::{Gate, GateKind};

/// Discordant shares that are shown while none is measured: a faithful copy, a usual quantization, a coarse one.
const DISCORDANT_SHARES: [f64; 3] = [0.02, 0.05, 0.10];
const POWER_WANTED: f64 = 0.8;

/// P(pass if lossless) and P(fail at twice the margin) for each quality gate at this n.
pub fn table(plan: &Plan) -> String {
    let gates: Vec<&Gate> =
        plan.suite.gates.iter().filter(|gate| matches!(gate.kind, GateKind::Quality { .. })).collect();
    if gates.is_empty() {
        return String::new();
    }
    let mut text =
        "\npower of the quality gates (ψ = share of samples whose verdict differs between the arms)\n".to_owned();
    for gate in gates {
        let GateKind::Quality { metric, margin, confidence, .. } = &gate.kind else { continue };
        let n = samples_in_scope(plan, gate);
        let design = Design { margin: *margin, confidence: *confidence, power: POWER_WANTED };
        let _ = writeln!(text, "  {metric}, margin {:.1} pp, n = {n}{}", margin * 100.0, scope(gate));
        for share in DISCORDANT_SHARES {
            text.push_str(&line(n, share, &design));
        }
    }
    text
}

fn line(n: u64, share: f64, design: &Design) -> String {
    let percent = |p: Option<f64>| p.map_or_else(|| "–".to_owned(), |p| format!("{:.0} %", p * 100.0));
    // A loss of twice the margin cannot come from fewer flips than that loss.
    let loss = -2.0 * design.margin;
    let fails = if share >= -loss { fail_power(n, share, loss, design) } else { None };
    let needed = n_to_decide(share, 0.0, design).map_or_else(|| "–".to_owned(), |n| n.to_string());
    format!(
        "    ψ {:>4.1} %: passes if lossless {:>5}, fails at twice the margin {:>5}, n for 80 % {needed}\n",
        share * 100.0,
        percent(pass_power(n, share, 0.0, design)),
        percent(fails),
    )
}

fn samples_in_scope(plan: &Plan, gate: &Gate) -> u64 {
    let in_scope = |task: &str| {
        let category = plan.suite.task(task).and_then(|t| t.category.clone());
        gate.scope.task.as_deref().is_none_or(|t| t == task)
            && (gate.scope.category.is_none() || gate.scope.category == category)
    };
    plan.samples.iter().filter(|sample| in_scope(&sample.task)).count() as u64
}

fn scope(gate: &Gate) -> String {
    let task = gate.scope.task.iter().map(|t| format!(", task {t}"));
    let category = gate.scope.category.iter().map(|c| format!(", category {c}"));
    task.chain(category).collect()
}
