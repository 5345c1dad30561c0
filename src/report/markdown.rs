//! GitHub's markdown, for a step summary or a comment: the verdict, the gates, the trade-off.

use std::fmt::Write as _;

use crate::analyze::Summary;
use crate::analyze::summary::{GateResult, GateVerdict};
use crate::drive::Severity;

use super::format;
use super::text::markdown as safe;
use super::view::{Cell, RATIO_COLUMNS, Row, SPEED_COLUMNS, STEP_COLUMNS, sentence, steps, tradeoff};
use super::words;

/// Rows that a table holds at most: a step summary is cut by GitHub at 1 MiB.
const ROWS: usize = 200;

pub fn markdown(summary: &Summary) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "## {}: {}\n", safe(&summary.suite), words::verdict(summary.verdict));
    if summary.run.simulated {
        out.push_str(
            "> **SIMULATED** Figures come from simulated deployments and say nothing about a real engine.\n\n",
        );
    }
    let _ = writeln!(out, "{}\n", safe(&sentence(summary)));
    if !summary.run.complete {
        let reason = summary.run.end_reason.as_deref().unwrap_or("not every planned request has an outcome");
        let _ = writeln!(out, "**Incomplete run**: {}\n", safe(reason));
    }
    findings(&mut out, summary);
    gates(&mut out, &summary.gates);
    trade(&mut out, summary);
    by_step(&mut out, summary);
    let run = &summary.run;
    let _ = writeln!(
        out,
        "\n<sub>n {} samples, {} blocks, seed {}, suite {}, counterpoise {}</sub>",
        format::count(run.samples),
        format::count(run.blocks),
        run.seed,
        safe(&run.suite_hash),
        safe(&run.harness_version)
    );
    out
}

fn findings(out: &mut String, summary: &Summary) {
    let mut told = summary.validity.iter().filter(|finding| finding.severity > Severity::Informs).peekable();
    if told.peek().is_none() {
        return;
    }
    for finding in told {
        let arm = finding.arm.as_deref().map(|arm| format!(" {}", safe(arm))).unwrap_or_default();
        let (severity, _) = words::severity(finding.severity);
        let _ = writeln!(out, "- **{severity}** {}{arm}: {}", safe(&finding.code), safe(&finding.message));
    }
    out.push('\n');
}

fn gates(out: &mut String, gates: &[GateResult]) {
    if gates.is_empty() {
        return;
    }
    out.push_str("### Gates\n\n| | Arm | Gate | Estimate | n | Bound | Reason |\n|---|---|---|--:|--:|--:|---|\n");
    let mut sorted: Vec<&GateResult> = gates.iter().collect();
    sorted.sort_by_key(|gate| (gate.advisory, std::cmp::Reverse(gate.verdict)));
    for gate in sorted.iter().take(ROWS) {
        let unit = words::gate_unit(gate);
        let sign = match gate.verdict {
            GateVerdict::Pass => "✅",
            GateVerdict::Fail => "❌",
            GateVerdict::Inconclusive => "🔶",
            GateVerdict::NotEvaluable => "⬜",
        };
        let scope = if gate.scope == "all" { String::new() } else { format!(" ({})", safe(&gate.scope)) };
        let advisory = if gate.advisory { ", advisory" } else { "" };
        let estimate = gate.estimate.as_ref();
        let _ = writeln!(
            out,
            "| {sign} {}{advisory} | {} | {}{scope} | {} | {} | {} | {} |",
            words::gate_verdict(gate.verdict),
            safe(&gate.arm),
            safe(&gate.gate),
            estimate.map_or_else(|| format::ABSENT.to_owned(), |estimate| format::estimate(unit, estimate)),
            estimate.map_or_else(|| format::ABSENT.to_owned(), |estimate| format::count(estimate.n)),
            format::figure(unit, gate.bound),
            safe(&gate.reason)
        );
    }
    if gates.len() > ROWS {
        let _ = writeln!(out, "\n{} more gates stand in the full report.", gates.len() - ROWS);
    }
}

fn trade(out: &mut String, summary: &Summary) {
    let table = tradeoff(summary);
    if table.rows.is_empty() {
        return;
    }
    let speed: Vec<&str> = SPEED_COLUMNS.iter().map(|column| column.1).collect();
    let _ = writeln!(
        out,
        "\n### Trade-off\n\n| Arm | Verdict | Quality Δ, {} | Flips | {} | Cost per success |",
        safe(&table.metric),
        speed.join(" | ")
    );
    let _ = writeln!(out, "|---|---|--:|--:|{}--:|", "--:|".repeat(speed.len()));
    for row in table.rows.iter().take(ROWS) {
        line(out, row);
    }
    out.push_str("\n`~`: the interval includes no change. Ratios are candidate ÷ baseline; intervals are 90%.\n");
}

fn line(out: &mut String, row: &Row) {
    let speed: Vec<String> = row.speed.iter().map(cell).collect();
    let _ = writeln!(
        out,
        "| {} ({}) | {} | {} | {} | {} | {} |",
        safe(&row.name),
        safe(&row.note),
        row.verdict,
        cell(&row.quality),
        cell(&row.flips),
        speed.join(" | "),
        cell(&row.cost)
    );
}

fn by_step(out: &mut String, summary: &Summary) {
    let Some(steps) = steps(summary) else { return };
    for arm in &steps.arms {
        let _ = writeln!(
            out,
            "\n### Steps of {}\n\n| {} | {} | Ended |",
            safe(&arm.name),
            steps.over,
            STEP_COLUMNS.join(" | ")
        );
        let _ = writeln!(out, "|--:|{}---|", "--:|".repeat(STEP_COLUMNS.len()));
        for row in arm.rows.iter().take(ROWS) {
            let cells: Vec<String> = row.cells.iter().map(cell).collect();
            let _ = writeln!(out, "| {} | {} | {} |", safe(&row.step), cells.join(" | "), safe(&row.end_text));
        }
        out.push('\n');
        for point in &arm.points {
            let _ = writeln!(out, "- {}", safe(point));
        }
    }
    for comparison in &steps.comparisons {
        let _ = writeln!(
            out,
            "\n### Step by step: {}\n\n| Step | {} |",
            safe(&comparison.title),
            RATIO_COLUMNS.join(" | ")
        );
        let _ = writeln!(out, "|--:|{}", "--:|".repeat(RATIO_COLUMNS.len()));
        for row in comparison.rows.iter().take(ROWS) {
            let cells: Vec<String> = row.cells.iter().map(cell).collect();
            let _ = writeln!(out, "| {} | {} |", safe(&row.step), cells.join(" | "));
        }
    }
    if steps.capacity.is_empty() {
        return;
    }
    out.push_str("\n### Capacity\n\n| Arm | Rate of a replica | Replicas | Per hour | Why |\n|---|--:|--:|--:|---|\n");
    for row in &steps.capacity {
        let reason = safe(&row.reason);
        let _ =
            writeln!(out, "| {} | {} | {} | {} | {reason} |", safe(&row.arm), row.rate, row.replicas, row.usd_per_hour);
    }
    let _ = writeln!(out, "\n{}", safe(&steps.capacity_text));
}

/// `~ ×0.99 (0.94 to 1.03)`. The tilde is escaped: two of them would strike the text through.
fn cell(cell: &Cell) -> String {
    let noise = if cell.word.starts_with('~') { "\\~ " } else { "" };
    let sub = if cell.sub.is_empty() { String::new() } else { format!(" ({})", safe(&cell.sub)) };
    format!("{noise}{}{sub}", safe(&cell.main))
}
