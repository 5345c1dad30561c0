//! The result for a terminal: the verdict first, then the gates, then the trade-off.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::analyze::Summary;
use crate::analyze::summary::{GateResult, GateVerdict};
use crate::drive::Severity;

use super::text::{clipped, one_line};
use super::view::{Cell, Row, sentence, tradeoff};
use super::words;

const NARROWEST: usize = 60;

/// The result in `width` columns (at least 60). `colour` adds ANSI colours to verdicts and to nothing else.
pub fn terminal(summary: &Summary, width: usize, colour: bool) -> String {
    let width = width.max(NARROWEST);
    let paint = Paint(colour);
    let mut out = String::new();
    let word = words::verdict(summary.verdict).to_uppercase();
    let _ = writeln!(out, "{}  {}", paint.verdict(words::verdict_name(summary.verdict), &word), clean(&summary.suite, 60));
    wrapped(&mut out, &sentence(summary), "", width);
    if summary.run.simulated {
        wrapped(&mut out, "SIMULATED: figures come from simulated deployments, not from a real engine.", "", width);
    }
    if !summary.run.complete {
        let reason = summary.run.end_reason.as_deref().unwrap_or("not every planned request has an outcome");
        wrapped(&mut out, &format!("Incomplete run: {}", clean(reason, 300)), "", width);
    }
    for finding in summary.validity.iter().filter(|finding| finding.severity > Severity::Informs) {
        let arm = finding.arm.as_deref().map(|arm| format!(" {}", clean(arm, 40))).unwrap_or_default();
        let (severity, _) = words::severity(finding.severity);
        let line = format!("{severity}: {}{arm}: {}", clean(&finding.code, 40), clean(&finding.message, 300));
        wrapped(&mut out, &line, "! ", width);
    }
    gates(&mut out, summary, width, paint);
    trade(&mut out, summary, width);
    out
}

#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn verdict(self, class: &str, word: &str) -> String {
        let code = match class {
            "pass" => "1;32",
            "fail" => "1;31",
            "inconclusive" => "1;33",
            "invalid" => "1;35",
            _ => "1",
        };
        if self.0 { format!("\u{1b}[{code}m{word}\u{1b}[0m") } else { word.to_owned() }
    }
}

/// Text from outside on one line: what would act on the terminal is shown instead.
fn clean(text: &str, limit: usize) -> String {
    clipped(&one_line(text), limit)
}

fn gates(out: &mut String, summary: &Summary, width: usize, paint: Paint) {
    let mut arm = None;
    for gate in &summary.gates {
        if arm != Some(&gate.arm) {
            arm = Some(&gate.arm);
            let _ = writeln!(out, "\nGates of {}", clean(&gate.arm, 60));
        }
        line(out, gate, width, paint);
    }
}

/// The verdict in its column, then the rule, its numbers and, where it does not pass, the reason.
fn line(out: &mut String, gate: &GateResult, width: usize, paint: Paint) {
    const INDENT: &str = "                 ";
    let word = words::gate_verdict(gate.verdict).to_uppercase();
    let padding = " ".repeat(INDENT.len().saturating_sub(2 + word.chars().count()));
    let scope = if gate.scope == "all" { String::new() } else { format!(" ({})", clean(&gate.scope, 60)) };
    let advisory = if gate.advisory { " [advisory]" } else { "" };
    let mut body = String::new();
    wrapped(&mut body, &format!("{}{scope}{advisory}", clean(&gate.gate, 100)), INDENT, width);
    let _ = write!(out, "  {}{padding}{}", paint.verdict(words::gate_class(gate.verdict), &word), body.trim_start());
    wrapped(out, &words::gate_numbers(gate), INDENT, width);
    if gate.verdict != GateVerdict::Pass {
        wrapped(out, &clean(&gate.reason, 300), INDENT, width);
    }
}

fn trade(out: &mut String, summary: &Summary, width: usize) {
    let view = tradeoff(summary);
    if view.rows.is_empty() {
        return;
    }
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.force_no_tty();
    table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    let quality = format!("Quality Δ\n{}", clean(&view.metric, 12));
    table.set_header(vec!["Arm", &quality, "Flips", "TTFT\np50", "TPOT\np50", "E2E\np50", "Requests\nper s", "USD per\nsuccess"]);
    for row in &view.rows {
        table.add_row(columns(row));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
        if column.index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let heading = "Trade-off against the baseline, ratios candidate ÷ baseline, with 90% intervals. ~ means that the interval includes no change.";
    out.push('\n');
    wrapped(out, heading, "", width);
    for line in table.lines() {
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let run = &summary.run;
    let blocks = super::format::count(run.blocks);
    let _ = writeln!(out, "n {} samples, {blocks} blocks", super::format::count(run.samples));
}

fn columns(row: &Row) -> Vec<String> {
    let note = if row.note == row.name { String::new() } else { format!("\n{}", clean(&row.note, 16)) };
    let mut columns = vec![format!("{}{note}", clean(&row.name, 16)), cell(&row.quality), flips(&row.flips)];
    columns.extend(row.speed.iter().map(cell));
    columns.push(cell(&row.cost));
    columns
}

fn cell(cell: &Cell) -> String {
    let noise = if cell.word.starts_with('~') { "~ " } else { "" };
    let sub = cell.sub.replace(" to ", "…");
    if sub.is_empty() { format!("{noise}{}", cell.main) } else { format!("{noise}{}\n{sub}", cell.main) }
}

/// `47 lost`, `9 gained` on two lines.
fn flips(cell: &Cell) -> String {
    cell.main.replace(", ", "\n")
}

/// Breaks at spaces; a word that is longer than the line stays whole.
fn wrapped(out: &mut String, text: &str, indent: &str, width: usize) {
    let room = width.saturating_sub(indent.chars().count()).max(20);
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            let _ = writeln!(out, "{indent}{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(out, "{indent}{line}");
}
