//! Quality by task and category: each arm's share, the paired difference, and a forest plot.

use serde::Serialize;

use super::{Cell, main_metric, margin, name};
use crate::analyze::Summary;
use crate::analyze::summary::{ComparisonSummary, QualityDelta, QualityFigure};
use crate::report::format::{self, Unit};
use crate::report::svg::{Span, forest, forest_axis};
use crate::report::words::{self, Better, QUALITY_WORDS};

/// Tasks that one candidate's table shows; the rest stand in `summary.json`.
const TASKS_SHOWN: usize = 200;
/// Rows of fewer samples don't stretch the plot's range: their intervals end in arrows instead.
const RANGE_FROM_N: u64 = 30;

#[derive(Serialize)]
pub struct Quality {
    pub metric: String,
    pub blocks: Vec<Block>,
}

/// One candidate's table.
#[derive(Serialize)]
pub struct Block {
    pub candidate: String,
    pub baseline: String,
    pub margin: String,
    pub rows: Vec<Row>,
    pub axis_svg: String,
    /// Tasks beyond those shown.
    pub more: u64,
}

#[derive(Serialize)]
pub struct Row {
    /// `all`, `category`, `task`, `metric`: what kind of row it is.
    pub kind: &'static str,
    pub label: String,
    pub baseline: Cell,
    pub candidate: Cell,
    pub delta: Cell,
    pub n: u64,
    pub lost: u64,
    pub gained: u64,
    pub sort_delta: f64,
    pub forest_svg: String,
}

pub fn quality(summary: &Summary) -> Quality {
    let metric = summary.comparisons.first().and_then(main_metric).unwrap_or("accuracy");
    Quality {
        metric: words::metric(metric),
        blocks: summary.comparisons.iter().map(|comparison| block(summary, comparison)).collect(),
    }
}

/// Symmetric around zero, wide enough for the margin and for every row that has samples enough. Each candidate has its
/// own: one that loses much must not press the others' intervals together.
fn range(comparison: &ComparisonSummary, margin: Option<f64>) -> (f64, f64) {
    let delta = main_metric(comparison).and_then(|metric| comparison.quality.get(metric));
    let rows = delta
        .into_iter()
        .flat_map(|delta| [delta].into_iter().chain(delta.by_category.values()).chain(delta.by_task.values()));
    let rows = rows.filter(|row| row.delta.n >= RANGE_FROM_N);
    let ends = rows.flat_map(|row| [row.delta.low, row.delta.high, row.delta.point]).chain([margin]).flatten();
    let reach = ends.filter(|end| end.is_finite()).fold(0.02, |reach: f64, end| reach.max(end.abs()));
    let reach = (reach * 1.1).min(1.0);
    (-reach, reach)
}

/// The shares of one arm, by what a row stands for.
type Shares<'a> = Option<&'a QualityFigure>;

fn block(summary: &Summary, comparison: &ComparisonSummary) -> Block {
    let margin = margin(summary, comparison);
    let range = range(comparison, margin);
    let figure = |arm: &str, metric: &str| summary.arms.get(arm).and_then(|arm| arm.quality.get(metric));
    let mut rows = Vec::new();
    let mut more = 0;
    if let Some(metric) = main_metric(comparison)
        && let Some(delta) = comparison.quality.get(metric)
    {
        let shares = (figure(&comparison.baseline, metric), figure(&comparison.candidate, metric));
        rows.push(Row {
            kind: "all",
            label: format!("all: {}", words::metric(metric)),
            ..row(delta, &overall(shares), range, margin)
        });
        for (category, delta) in worst_first(&delta.by_category) {
            let own = |shares: Shares<'_>| shares.and_then(|shares| shares.by_category.get(category)).cloned();
            rows.push(Row {
                kind: "category",
                label: name(category),
                ..row(delta, &(own(shares.0), own(shares.1)), range, None)
            });
        }
        more = delta.by_task.len().saturating_sub(TASKS_SHOWN) as u64;
        for (task, delta) in worst_first(&delta.by_task).into_iter().take(TASKS_SHOWN) {
            let own = |shares: Shares<'_>| shares.and_then(|shares| shares.by_task.get(task)).cloned();
            rows.push(Row {
                kind: "task",
                label: name(task),
                ..row(delta, &(own(shares.0), own(shares.1)), range, None)
            });
        }
    }
    for (metric, delta) in
        comparison.quality.iter().filter(|(metric, _)| Some(metric.as_str()) != main_metric(comparison))
    {
        let shares = (figure(&comparison.baseline, metric), figure(&comparison.candidate, metric));
        rows.push(Row { kind: "metric", label: name(metric), ..row(delta, &overall(shares), range, None) });
    }
    Block {
        candidate: name(&comparison.candidate),
        baseline: name(&comparison.baseline),
        margin: margin.map(|margin| format::figure(Unit::Points, Some(margin))).unwrap_or_default(),
        axis_svg: forest_axis(range).unwrap_or_default(),
        rows,
        more,
    }
}

type Pair = (Option<crate::analyze::Estimate>, Option<crate::analyze::Estimate>);

fn overall(shares: (Shares<'_>, Shares<'_>)) -> Pair {
    (shares.0.map(|figure| figure.overall.clone()), shares.1.map(|figure| figure.overall.clone()))
}

fn worst_first(rows: &std::collections::BTreeMap<String, QualityDelta>) -> Vec<(&String, &QualityDelta)> {
    let mut rows: Vec<_> = rows.iter().collect();
    let key = |row: &QualityDelta| row.delta.point.filter(|point| point.is_finite()).unwrap_or(f64::MAX);
    rows.sort_by(|a, b| key(a.1).total_cmp(&key(b.1)));
    rows
}

fn row(delta: &QualityDelta, shares: &Pair, range: (f64, f64), margin: Option<f64>) -> Row {
    let cell =
        Cell::compared(Unit::Points, Some(&delta.delta), Better::Higher, QUALITY_WORDS, "no paired scored samples");
    let class = match cell.tone {
        "good" => "pass",
        "bad" => "fail",
        _ => "neutral",
    };
    let why = "no scored samples";
    Row {
        kind: "",
        label: String::new(),
        baseline: Cell::estimate(Unit::Percent, shares.0.as_ref(), why),
        candidate: Cell::estimate(Unit::Percent, shares.1.as_ref(), why),
        n: delta.delta.n,
        lost: delta.lost,
        gained: delta.gained,
        sort_delta: delta.delta.point.filter(|point| point.is_finite()).unwrap_or(0.0),
        forest_svg: forest(Span::of(&delta.delta), range, margin, class).unwrap_or_default(),
        delta: cell,
    }
}
