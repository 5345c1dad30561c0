//! The steps of a raised load for a terminal.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

use crate::analyze::Summary;

use super::terminal::{cell, wrapped};
use super::view::{Steps, steps};

/// Step, then n, four latencies and rates, errors, goodput, how it ended.
const STEP_WIDTHS: [u16; 9] = [9, 6, 8, 8, 8, 9, 6, 8, 10];
const STEP_HEADINGS: [&str; 9] =
    ["Step", "n", "TTFT\np50", "p95", "TPOT\np50", "Output\ntok/s", "Errors", "Good/s", "Ended"];
/// The view's columns that have room here.
const SHOWN: [usize; 7] = [0, 1, 2, 3, 4, 6, 7];
const RATIO_WIDTHS: [u16; 5] = [9, 15, 15, 15, 15];

/// Nothing where the load has one stage.
pub fn write(out: &mut String, summary: &Summary, width: usize) {
    let Some(steps) = steps(summary) else { return };
    for arm in &steps.arms {
        let rows = arm.rows.iter().map(|row| {
            let mut columns = vec![row.step.clone()];
            columns.extend(SHOWN.iter().filter_map(|at| row.cells.get(*at)).map(|cell| cell.main.clone()));
            columns.push(row.end.to_owned());
            columns
        });
        out.push('\n');
        wrapped(out, &format!("Steps of {} ({}):", arm.name, steps.over.to_lowercase()), "", width);
        table(out, &STEP_HEADINGS, &STEP_WIDTHS, rows);
        for point in &arm.points {
            wrapped(out, point, "  ", width);
        }
        for row in arm.rows.iter().filter(|row| !row.tone.is_empty()) {
            wrapped(out, &format!("Step {} {}.", row.step, row.end_text), "  ", width);
        }
    }
    for comparison in &steps.comparisons {
        let rows = comparison.rows.iter().map(|row| {
            std::iter::once(row.step.clone()).chain(row.cells.iter().map(|figure| cell(figure, 15))).collect()
        });
        out.push('\n');
        wrapped(out, &format!("Step by step, {}:", comparison.title), "", width);
        table(out, &["Step", "TTFT p50", "TPOT p50", "Requests/s", "Accuracy Δ"], &RATIO_WIDTHS, rows);
    }
    capacity(out, &steps, width);
}

fn capacity(out: &mut String, steps: &Steps, width: usize) {
    if steps.capacity.is_empty() {
        return;
    }
    out.push('\n');
    for row in &steps.capacity {
        wrapped(out, &row.sentence(), "", width);
    }
    wrapped(out, &steps.capacity_text, "  ", width);
}

fn table(out: &mut String, headings: &[&str], widths: &[u16], rows: impl Iterator<Item = Vec<String>>) {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.force_no_tty();
    table.set_header(headings.iter().map(|heading| (*heading).to_owned()).collect::<Vec<_>>());
    for row in rows {
        table.add_row(row);
    }
    for (column, width) in table.column_iter_mut().zip(widths) {
        column.set_padding((0, 0));
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(*width)));
        if column.index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        let _ = writeln!(out, "{}", line.trim_end());
    }
}
