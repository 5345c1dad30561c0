//! Latency: the distributions of all arms over each other, and their percentiles with n and intervals.

use serde::Serialize;

use super::{Cell, arm_names, name};
use crate::analyze::Summary;
use crate::analyze::summary::{ArmSummary, Distribution};
use crate::report::format::{self, Unit};
use crate::report::svg::{Series, cdf, swatch};

#[derive(Serialize)]
pub struct LatencyView {
    pub legend: Vec<Legend>,
    pub charts: Vec<Chart>,
    pub groups: Vec<Group>,
}

#[derive(Serialize)]
pub struct Legend {
    pub name: String,
    pub twin: bool,
    pub swatch_svg: String,
}

#[derive(Serialize)]
pub struct Chart {
    pub title: &'static str,
    pub chart_svg: String,
}

/// One figure's rows, an arm each.
#[derive(Serialize)]
pub struct Group {
    pub title: String,
    /// Shown at once; the others on demand.
    pub main: bool,
    pub rows: Vec<Row>,
}

#[derive(Serialize)]
pub struct Row {
    pub arm: String,
    pub percentiles: Vec<Cell>,
    pub mean: Cell,
    pub max: Cell,
    pub n: String,
}

type Pick = fn(&ArmSummary) -> Option<&Distribution>;

const FIGURES: [(&str, Pick); 9] = [
    ("TTFT: time to first token", |arm| arm.latency.ttft_ms.as_ref()),
    ("TTFA: time to first answer token", |arm| arm.latency.ttfa_ms.as_ref()),
    ("TPOT: time per output token", |arm| arm.latency.tpot_ms.as_ref()),
    ("ITL: inter-token latency", |arm| arm.latency.itl_ms.as_ref()),
    ("E2E: end-to-end latency", |arm| arm.latency.e2e_ms.as_ref()),
    ("Response: from the intended start", |arm| arm.latency.response_ms.as_ref()),
    ("Dispatch lag: sent − intended", |arm| arm.latency.dispatch_lag_ms.as_ref()),
    ("ICL: gap between events", |arm| arm.latency.icl_ms.as_ref()),
    ("TTFT from the intended start", |arm| arm.latency.ttft_response_ms.as_ref()),
];
/// Figures that are drawn, by their place in [`FIGURES`].
const DRAWN: [usize; 3] = [0, 2, 4];
const PERCENTILES: [&str; 4] = ["p50", "p90", "p95", "p99"];

pub fn latency(summary: &Summary) -> LatencyView {
    let arms: Vec<(&str, &ArmSummary)> =
        arm_names(summary).into_iter().filter_map(|name| summary.arms.get(name).map(|arm| (name, arm))).collect();
    let legend = arms.iter().enumerate().map(|(index, (arm, figures))| Legend {
        name: name(arm),
        twin: figures.twin_of.is_some(),
        swatch_svg: swatch(index, figures.twin_of.is_some()),
    });
    let figures = FIGURES.iter().enumerate();
    let mut groups: Vec<Group> = figures
        .filter_map(|(index, (title, pick))| {
            group((*title).to_owned(), &arms, *pick).map(|group| Group { main: DRAWN.contains(&index), ..group })
        })
        .collect();
    groups.extend(parts(&arms));
    LatencyView { legend: legend.collect(), charts: charts(&arms), groups }
}

fn charts(arms: &[(&str, &ArmSummary)]) -> Vec<Chart> {
    DRAWN
        .iter()
        .filter_map(|index| FIGURES.get(*index))
        .filter_map(|(title, pick)| {
            let series: Vec<Series<'_>> = arms
                .iter()
                .enumerate()
                .filter_map(|(index, (_, arm))| {
                    pick(arm).map(|figure| Series { index, twin: arm.twin_of.is_some(), points: &figure.cdf })
                })
                .collect();
            cdf(title, &series).map(|chart_svg| Chart { title, chart_svg })
        })
        .collect()
}

fn group(
    title: String,
    arms: &[(&str, &ArmSummary)],
    pick: impl Fn(&ArmSummary) -> Option<&Distribution>,
) -> Option<Group> {
    arms.iter().any(|(_, arm)| pick(arm).is_some()).then(|| Group {
        title,
        main: false,
        rows: arms.iter().map(|(arm, figures)| row(name(arm), pick(figures))).collect(),
    })
}

/// The parts of TTFT that the server tells, one group each.
fn parts(arms: &[(&str, &ArmSummary)]) -> Vec<Group> {
    let mut parts: Vec<&String> = arms.iter().flat_map(|(_, arm)| arm.latency.ttft_parts_ms.keys()).collect();
    parts.sort();
    parts.dedup();
    parts
        .into_iter()
        .filter_map(|part| {
            group(format!("Part of TTFT: {}", name(part)), arms, |arm: &ArmSummary| arm.latency.ttft_parts_ms.get(part))
        })
        .collect()
}

fn row(arm: String, figure: Option<&Distribution>) -> Row {
    let Some(figure) = figure else {
        let absent = || Cell::absent("no answered request has this figure, or it is withdrawn");
        return Row {
            arm,
            percentiles: PERCENTILES.iter().map(|_| absent()).collect(),
            mean: absent(),
            max: absent(),
            n: format::ABSENT.to_owned(),
        };
    };
    let value = |percentile: &str| match percentile {
        "p50" => figure.p50,
        "p90" => figure.p90,
        "p95" => figure.p95,
        _ => figure.p99,
    };
    let percentiles = PERCENTILES.iter().map(|percentile| {
        let ends = figure.intervals.get(*percentile);
        Cell {
            sub: ends.and_then(|(low, high)| format::interval(Unit::Ms, Some(*low), Some(*high))).unwrap_or_default(),
            ..Cell::figure(Unit::Ms, value(percentile), "fewer than ten requests lie beyond this percentile")
        }
    });
    Row {
        arm,
        percentiles: percentiles.collect(),
        mean: Cell::figure(Unit::Ms, figure.mean, "no answered request"),
        max: Cell::figure(Unit::Ms, figure.max, "no answered request"),
        n: format::count(figure.n),
    }
}
