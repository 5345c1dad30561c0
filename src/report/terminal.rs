//! The result for a terminal: the verdict first, then the gates, then the trade-off.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

use crate::analyze::Summary;
use crate::analyze::summary::{GateResult, GateVerdict};
use crate::drive::Severity;

use super::instrument;
use super::text::{clipped, one_line};
use super::view::{Cell, Row, sentence, tradeoff};
use super::{terminal_steps, words};

/// Below this the table's figures would break inside their digits.
const NARROWEST: usize = 80;
/// Columns after the arm's: quality, flips, four speeds, cost. A space parts any two.
const FIXED_WIDTHS: [u16; 7] = [10, 6, 9, 9, 9, 9, 10];
/// Beyond this many gates only those that don't pass are listed.
const GATES_LISTED: usize = 60;
const QUALITY_CHARS: usize = 10;
const RATIO_CHARS: usize = 9;

/// The result in `width` columns (at least 80). `colour` adds ANSI colours to verdicts and to nothing else.
pub fn terminal(summary: &Summary, width: usize, colour: bool) -> String {
    let width = width.max(NARROWEST);
    let paint = Paint(colour);
    let mut out = String::new();
    let word = words::verdict(summary.verdict).to_uppercase();
    let _ =
        writeln!(out, "{}  {}", paint.verdict(words::verdict_name(summary.verdict), &word), clean(&summary.suite, 60));
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
    terminal_steps::write(&mut out, summary, width);
    if let Some(instrument) = instrument::sentence(summary) {
        out.push('\n');
        wrapped(&mut out, &format!("Instrument: {instrument}"), "", width);
    }
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
    // Where there are many, those that pass are only counted.
    let long = summary.gates.len() > GATES_LISTED;
    for gate in &summary.gates {
        if arm != Some(&gate.arm) {
            arm = Some(&gate.arm);
            let passed = |other: &&GateResult| other.arm == gate.arm && other.verdict == GateVerdict::Pass;
            let passed = summary.gates.iter().filter(passed).count();
            let passed = if long { format!(" ({passed} pass and are not listed)") } else { String::new() };
            let _ = writeln!(out, "\nGates of {}{passed}", clean(&gate.arm, 40));
        }
        if !long || gate.verdict != GateVerdict::Pass {
            line(out, gate, width, paint);
        }
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
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.force_no_tty();
    let arm = width.saturating_sub(FIXED_WIDTHS.iter().map(|width| usize::from(*width) + 1).sum()).min(40);
    let mut header =
        vec!["Arm".to_owned(), format!("Quality Δ\n{}", clean(&view.metric, QUALITY_CHARS)), "Flips\n− +".to_owned()];
    header.extend(["TTFT\np50", "TPOT\np50", "E2E\np50", "Requests\nper s", "USD per\nsuccess"].map(str::to_owned));
    table.set_header(header);
    for row in &view.rows {
        table.add_row(columns(row));
    }
    let widths = std::iter::once(u16::try_from(arm).unwrap_or(u16::MAX)).chain(FIXED_WIDTHS);
    for (column, width) in table.column_iter_mut().zip(widths) {
        column.set_padding((0, 0));
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        if column.index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let run = &summary.run;
    let by_step = if summary.sweep.is_some() { "; speed stands step by step below" } else { "" };
    let heading = format!(
        "Trade-off against the baseline (ratios are candidate ÷ baseline over {} blocks; intervals are 90%; ~ means that \
         the interval includes no change{by_step}):",
        super::format::count(run.blocks)
    );
    out.push('\n');
    wrapped(out, &heading, "", width);
    for line in table.lines() {
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

fn columns(row: &Row) -> Vec<String> {
    let n = row.quality.n.map(|n| format!("\nn {}", super::format::count(n))).unwrap_or_default();
    let note = clean(&row.note, 24);
    let flips = match row.lost_gained {
        Some((lost, gained)) => format!("−{lost} +{gained}\n{}", row.flip_rate),
        None => row.flips.main.clone(),
    };
    let mut columns =
        vec![format!("{}\n{note}", clean(&row.name, 40)), format!("{}{n}", cell(&row.quality, QUALITY_CHARS)), flips];
    columns.extend(row.speed.iter().map(|figure| cell(figure, RATIO_CHARS)));
    columns.push(cell(&row.cost, QUALITY_CHARS));
    columns
}

/// The figure over its interval, which is broken after the dots where it is too long for one line.
pub(super) fn cell(cell: &Cell, room: usize) -> String {
    let noise = if cell.word.starts_with('~') { "~ " } else { "" };
    let mut sub = cell.sub.replace(" to ", "…");
    if sub.chars().count() > room {
        sub = sub.replace('…', "…\n");
    }
    let break_line = if sub.is_empty() { "" } else { "\n" };
    format!("{noise}{}{break_line}{sub}", cell.main)
}

/// Breaks at spaces; a word that is longer than the line stays whole.
pub(super) fn wrapped(out: &mut String, text: &str, indent: &str, width: usize) {
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
