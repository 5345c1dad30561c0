//! The trade-off: what each candidate costs in quality beside what it buys in speed and money.

use serde::Serialize;

use super::{Cell, main_metric, margin, name};
use crate::analyze::summary::{ArmSummary, ComparisonSummary, Distribution, NoiseFloor, QualityDelta};
use crate::analyze::{Estimate, Summary};
use crate::report::format::{self, Unit};
use crate::report::svg::{Point, Scatter, Span, scatter};
use crate::report::words::{self, Better, COST_WORDS, QUALITY_WORDS};

/// The speed ratios that the table shows, in order, with their headings.
pub const SPEED_COLUMNS: [(&str, &str); 4] =
    [("ttft_p50", "TTFT p50"), ("tpot_p50", "TPOT p50"), ("e2e_p50", "E2E p50"), ("requests_per_s", "Requests/s")];

const NO_RATIO: &str = "no ratio: the figure is withdrawn, or too few blocks carry it";
const NO_COST: &str = "no ratio: an arm's spend is unknown";

#[derive(Serialize)]
pub struct Tradeoff {
    pub metric: String,
    pub rows: Vec<Row>,
    pub scatter_svg: String,
    /// Every speed ratio by metric, one column for each candidate.
    pub candidates: Vec<String>,
    pub ratios: Vec<RatioRow>,
}

#[derive(Serialize)]
pub struct Row {
    pub name: String,
    pub note: String,
    pub verdict: &'static str,
    pub class: &'static str,
    /// `baseline`, `twin`, or empty for a candidate.
    pub kind: &'static str,
    pub quality: Cell,
    pub flips: Cell,
    pub lost_gained: Option<(u64, u64)>,
    /// Share of paired samples that flipped, or a dash.
    pub flip_rate: String,
    pub changed: Cell,
    pub speed: Vec<Cell>,
    pub cost: Cell,
}

#[derive(Serialize)]
pub struct RatioRow {
    pub metric: String,
    pub cells: Vec<Cell>,
}

pub fn tradeoff(summary: &Summary) -> Tradeoff {
    let metric = summary.comparisons.first().and_then(main_metric).unwrap_or("accuracy");
    let mut rows = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for comparison in &summary.comparisons {
        if !seen.contains(&comparison.baseline.as_str()) {
            seen.push(&comparison.baseline);
            rows.extend(
                summary.arms.get(&comparison.baseline).map(|arm| baseline_row(&comparison.baseline, arm, metric)),
            );
        }
    }
    rows.extend(summary.comparisons.iter().map(candidate_row));
    for noise in summary.comparisons.iter().filter_map(|comparison| comparison.noise_floor.as_ref()) {
        if !seen.contains(&noise.twin.as_str()) {
            seen.push(&noise.twin);
            rows.push(twin_row(noise));
        }
    }
    rows.extend(alone(summary, metric));
    Tradeoff {
        metric: words::metric(metric),
        rows,
        scatter_svg: chart(summary).unwrap_or_default(),
        candidates: summary.comparisons.iter().map(|comparison| name(&comparison.candidate)).collect(),
        ratios: ratios(summary),
    }
}

/// Arms that no comparison names: their own figures.
fn alone(summary: &Summary, metric: &str) -> Vec<Row> {
    let compared = |arm: &str| {
        let named = summary.comparisons.iter().any(|c| c.baseline == arm || c.candidate == arm);
        named || summary.arms.get(arm).is_some_and(|arm| arm.twin_of.is_some())
    };
    let own = |arm_name: &String| {
        let arm = summary.arms.get(arm_name)?;
        Some(Row { note: String::new(), kind: "", ..baseline_row(arm_name, arm, metric) })
    };
    summary.arm_order.iter().filter(|arm| !compared(arm)).filter_map(own).collect()
}

/// The comparison of a speed metric, in the words of the trade-off table.
fn candidates_speed(speed: &std::collections::BTreeMap<String, Estimate>, metric: &str) -> Cell {
    Cell::compared(Unit::Ratio, speed.get(metric), words::better(metric), words::speed_words(metric), NO_RATIO)
}

/// The baseline's own figures: what the differences and ratios below are of.
fn baseline_row(baseline: &str, arm: &ArmSummary, metric: &str) -> Row {
    let latency = |figure: &Option<Distribution>| {
        let n = figure.as_ref().map(|figure| format!("n {}", format::count(figure.n))).unwrap_or_default();
        Cell {
            sub: n,
            ..Cell::figure(Unit::Ms, figure.as_ref().and_then(|figure| figure.p50), "too few requests, or withdrawn")
        }
    };
    let quality = arm.quality.get(metric).map(|figure| &figure.overall);
    let cost = arm.cost.usd_per_success.as_ref();
    Row {
        name: name(baseline),
        note: "baseline".to_owned(),
        verdict: "",
        class: "none",
        kind: "baseline",
        quality: Cell::estimate(Unit::Percent, quality, "no scored samples"),
        flips: Cell::absent("the baseline is what flips are counted against"),
        lost_gained: None,
        flip_rate: format::ABSENT.to_owned(),
        changed: Cell::absent("the baseline is what changes are counted against"),
        speed: vec![
            latency(&arm.latency.ttft_ms),
            latency(&arm.latency.tpot_ms),
            latency(&arm.latency.e2e_ms),
            Cell::figure(Unit::PerSecond, arm.throughput.requests_per_s, "no window of its own, or withdrawn"),
        ],
        cost: Cell::estimate(Unit::Usd, cost, arm.cost.note.as_deref().unwrap_or("no price is given")),
    }
}

fn candidate_row(comparison: &ComparisonSummary) -> Row {
    let delta = main_metric(comparison).and_then(|metric| comparison.quality.get(metric));
    let cost = comparison.cost.usd_per_success_ratio.as_ref();
    Row {
        name: name(&comparison.candidate),
        note: name(&comparison.optimization),
        verdict: words::verdict(comparison.verdict),
        class: words::verdict_name(comparison.verdict),
        kind: "",
        quality: quality_cell(delta.map(|delta| &delta.delta)),
        flips: flips_cell(delta, comparison.flip_rate.as_ref(), comparison.noise_floor.as_ref()),
        lost_gained: delta.map(|delta| (delta.lost, delta.gained)),
        flip_rate: format::figure(Unit::Percent, comparison.flip_rate.as_ref().and_then(|rate| rate.point)),
        changed: Cell::estimate(Unit::Percent, comparison.answers_changed.as_ref(), "no paired answers"),
        speed: SPEED_COLUMNS.iter().map(|(metric, _)| candidates_speed(&comparison.speed, metric)).collect(),
        cost: Cell::compared(Unit::Ratio, cost, Better::Lower, COST_WORDS, NO_COST),
    }
}

fn quality_cell(delta: Option<&Estimate>) -> Cell {
    Cell::compared(Unit::Points, delta, Better::Higher, QUALITY_WORDS, "no paired scored samples")
}

/// Lost and gained, their rate, and the twin's rate as what the baseline does to itself.
fn flips_cell(delta: Option<&QualityDelta>, rate: Option<&Estimate>, noise: Option<&NoiseFloor>) -> Cell {
    let Some(delta) = delta else { return Cell::absent("no paired scored samples") };
    let rate = rate.and_then(|rate| rate.point);
    let twin = noise.and_then(|noise| noise.flip_rate);
    let word = match twin {
        Some(twin) => format!("twin {}", format::figure(Unit::Percent, Some(twin))),
        None => "no twin".to_owned(),
    };
    Cell {
        main: format!("{} lost, {} gained", format::count(delta.lost), format::count(delta.gained)),
        sub: format!("{} of n {}", format::figure(Unit::Percent, rate), format::count(delta.delta.n)),
        word,
        tone: "noise",
        title: match delta.mcnemar_p {
            Some(p) => format!("exact McNemar, two-sided: p = {}", probability(p)),
            None => "no verdict flipped: McNemar has nothing to test".to_owned(),
        },
        n: Some(delta.delta.n),
    }
}

fn probability(p: f64) -> String {
    match p {
        p if !p.is_finite() => format::ABSENT.to_owned(),
        p if p < 0.001 => "below 0.001".to_owned(),
        p => format!("{p:.3}"),
    }
}

fn twin_row(noise: &NoiseFloor) -> Row {
    Row {
        name: name(&noise.twin),
        note: "noise floor".to_owned(),
        verdict: "",
        class: "twin",
        kind: "twin",
        quality: quality_cell(noise.delta.as_ref()),
        flips: Cell {
            sub: format!("n {}", format::count(noise.n)),
            ..Cell::figure(Unit::Percent, noise.flip_rate, "no paired scored samples")
        },
        lost_gained: None,
        flip_rate: format::figure(Unit::Percent, noise.flip_rate),
        changed: Cell::figure(Unit::Percent, noise.answers_changed, "no paired answers"),
        speed: SPEED_COLUMNS.iter().map(|(metric, _)| candidates_speed(&noise.speed, metric)).collect(),
        cost: Cell::absent("the twin costs what the baseline costs"),
    }
}

fn ratios(summary: &Summary) -> Vec<RatioRow> {
    let mut metrics: Vec<&String> = summary.comparisons.iter().flat_map(|comparison| comparison.speed.keys()).collect();
    metrics.sort();
    metrics.dedup();
    metrics
        .into_iter()
        .map(|metric| RatioRow {
            metric: words::metric(metric),
            cells: summary.comparisons.iter().map(|comparison| candidates_speed(&comparison.speed, metric)).collect(),
        })
        .collect()
}

/// The ratio that stands for speed in the chart: end to end where some arm has it.
fn chart(summary: &Summary) -> Option<String> {
    let has = |metric: &str| {
        summary.comparisons.iter().any(|c| c.speed.get(metric).is_some_and(|ratio| ratio.point.is_some()))
    };
    let (metric, title) = ["e2e_p50", "tpot_p50", "ttft_p50", "requests_per_s"]
        .iter()
        .find(|metric| has(metric))
        .and_then(|metric| SPEED_COLUMNS.iter().find(|column| column.0 == *metric))?;
    let mut points = Vec::new();
    let mut twins: Vec<&str> = Vec::new();
    for comparison in &summary.comparisons {
        let delta = main_metric(comparison).and_then(|name| comparison.quality.get(name)).map(|delta| &delta.delta);
        points.push(point(
            &comparison.candidate,
            words::verdict_name(comparison.verdict),
            comparison.speed.get(*metric),
            delta,
            metric,
        ));
        if let Some(noise) = comparison.noise_floor.as_ref().filter(|noise| !twins.contains(&noise.twin.as_str())) {
            twins.push(&noise.twin);
            points.push(point(&noise.twin, "twin", noise.speed.get(*metric), noise.delta.as_ref(), metric));
        }
    }
    let margin = summary.comparisons.iter().filter_map(|comparison| margin(summary, comparison)).reduce(f64::max);
    scatter(&Scatter { points: &points, margin, metric: title })
}

fn point(arm: &str, class: &'static str, ratio: Option<&Estimate>, delta: Option<&Estimate>, metric: &str) -> Point {
    let ratio = ratio.map(Span::of).unwrap_or_default();
    let speedup = if words::better(metric) == Better::Higher { ratio } else { inverse(ratio) };
    Point { name: arm.to_owned(), class, speedup, delta: delta.map(Span::of).unwrap_or_default() }
}

/// Latency ratios are candidate ÷ baseline; a speed-up is the other way round, and so its ends change places.
fn inverse(span: Span) -> Span {
    let flip = |value: Option<f64>| value.filter(|value| *value > 0.0).map(|value| 1.0 / value);
    Span { point: flip(span.point), low: flip(span.high), high: flip(span.low) }
}
