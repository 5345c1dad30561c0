//! A load raised step by step: a table and curves for each arm, the points that stand out, and the capacity.

use serde::Serialize;

use super::latency::Legend;
use super::{Cell, arm_names, name};
use crate::analyze::Summary;
use crate::analyze::summary::Distribution;
use crate::analyze::sweep::{
    ArmCapacity, ArmSweep, CapacitySummary, LengthWithin, RateBracket, SloLine, StepComparison, StepRatios,
    StepSummary, StepVerdict, SweepPoint, SweepSummary,
};
use crate::report::format::{self, Unit};
use crate::report::svg::{Line, curves, swatch};
use crate::report::text::{clipped, one_line};
use crate::report::words::{self, QUALITY_WORDS};

/// Headings of a step's figures, after the step and before its end.
pub const STEP_COLUMNS: [&str; 8] =
    ["n", "TTFT p50", "TTFT p95", "TPOT p50", "Output tok/s", "Requests/s", "Errors", "Goodput/s"];
/// Headings of a step's ratios.
pub const RATIO_COLUMNS: [&str; 4] = ["TTFT p50", "TPOT p50", "Requests/s", "Accuracy Δ"];
const RATIO_METRICS: [&str; 3] = ["ttft_p50", "tpot_p50", "requests_per_s"];

#[derive(Serialize)]
pub struct Steps {
    /// What is raised, in words.
    pub over: &'static str,
    pub legend: Vec<Legend>,
    pub charts: Vec<String>,
    pub arms: Vec<ArmSteps>,
    pub comparisons: Vec<Ratios>,
    pub capacity: Vec<CapacityRow>,
    /// What was asked and what the answer assumes; empty where no capacity was asked for.
    pub capacity_text: String,
}

#[derive(Serialize)]
pub struct ArmSteps {
    pub name: String,
    pub rows: Vec<StepRow>,
    /// What the steps show, a sentence each.
    pub points: Vec<String>,
}

#[derive(Serialize)]
pub struct StepRow {
    pub step: String,
    /// As [`STEP_COLUMNS`].
    pub cells: Vec<Cell>,
    pub accuracy: Cell,
    pub attainment: Cell,
    pub end: &'static str,
    /// How it ended, in full.
    pub end_text: String,
    /// Whether the step certainly holds the SLO; empty without one.
    pub slo: String,
    pub tone: &'static str,
}

#[derive(Serialize)]
pub struct Ratios {
    pub title: String,
    pub rows: Vec<RatioRow>,
}

#[derive(Serialize)]
pub struct RatioRow {
    pub step: String,
    /// As [`RATIO_COLUMNS`].
    pub cells: Vec<Cell>,
}

#[derive(Serialize)]
pub struct CapacityRow {
    pub arm: String,
    pub rate: String,
    pub replicas: String,
    pub usd_per_hour: String,
    pub reason: String,
}

impl CapacityRow {
    /// All of it in one sentence.
    pub fn sentence(&self) -> String {
        let known = |figure: &str, unit: &str| (figure != format::ABSENT).then(|| format!("{figure} {unit}"));
        let figures = [
            known(&self.rate, "per replica"),
            known(&self.replicas, if self.replicas == "1" { "replica" } else { "replicas" }),
            known(&self.usd_per_hour, "per hour"),
        ];
        let figures: Vec<String> = figures.into_iter().flatten().collect();
        let figures = if figures.is_empty() { "not known".to_owned() } else { figures.join(", ") };
        format!("Capacity of {}: {figures}; {}.", self.arm, self.reason)
    }
}

/// Absent where the load has one stage.
pub fn steps(summary: &Summary) -> Option<Steps> {
    let sweep = summary.sweep.as_ref()?;
    let arms: Vec<(&str, &ArmSweep)> =
        arm_names(summary).into_iter().filter_map(|name| sweep.arms.get(name).map(|arm| (name, arm))).collect();
    let twin = |arm: &str| summary.arms.get(arm).is_some_and(|arm| arm.twin_of.is_some());
    let legend = arms.iter().enumerate().map(|(index, (arm, _))| Legend {
        name: name(arm),
        twin: twin(arm),
        swatch_svg: swatch(index, twin(arm)),
    });
    Some(Steps {
        over: over(sweep),
        legend: legend.collect(),
        charts: if sweep.over == "stage" { Vec::new() } else { charts(sweep, &arms, twin) },
        arms: arms.iter().map(|(name, arm)| arm_steps(name, arm)).collect(),
        comparisons: sweep.comparisons.iter().map(ratios).collect(),
        capacity: summary.capacity.as_ref().map(|capacity| capacity_rows(summary, capacity)).unwrap_or_default(),
        capacity_text: summary.capacity.as_ref().map(capacity_text).unwrap_or_default(),
    })
}

fn over(sweep: &SweepSummary) -> &'static str {
    match sweep.over.as_str() {
        "concurrency" => "Requests at a time",
        "rate_per_s" => "Requests that arrive per second",
        "prompt_tokens" => "Tokens of a prompt, estimated",
        "output_tokens" => "Tokens of an answer at the most",
        _ => "Stage",
    }
}

type Value = fn(&StepSummary) -> Option<f64>;

fn charts(sweep: &SweepSummary, arms: &[(&str, &ArmSweep)], twin: impl Fn(&str) -> bool) -> Vec<String> {
    let figures: [(&str, Unit, Value); 6] = [
        ("TTFT p50", Unit::Ms, |step| step.latency.ttft_ms.as_ref()?.p50),
        ("TTFT p95", Unit::Ms, |step| step.latency.ttft_ms.as_ref()?.p95),
        ("TPOT p50", Unit::Ms, |step| step.latency.tpot_ms.as_ref()?.p50),
        ("Output tokens per second", Unit::PerSecond, |step| step.throughput.output_tokens_per_s),
        ("Goodput per second", Unit::PerSecond, |step| step.goodput_per_s),
        ("Error rate", Unit::Percent, |step| step.error_rate.as_ref()?.point),
    ];
    let drawn = figures.into_iter().filter_map(|(title, unit, value)| {
        let lines: Vec<Line> = arms
            .iter()
            .enumerate()
            .map(|(index, (arm, steps))| Line {
                index,
                twin: twin(arm),
                points: steps.steps.iter().filter_map(|step| step.value.zip(value(step))).collect(),
            })
            .collect();
        curves(title, over(sweep), unit, &lines)
    });
    drawn.collect()
}

fn arm_steps(arm: &str, steps: &ArmSweep) -> ArmSteps {
    let mut points = vec![
        point("Saturation", steps.saturation.as_ref(), steps.saturation_absent.as_deref()),
        point("Degradation", steps.degradation.as_ref(), steps.degradation_absent.as_deref()),
    ];
    points.extend(steps.bracket.as_ref().map(bracket));
    points.extend(steps.longest.as_ref().map(longest));
    ArmSteps { name: name(arm), rows: steps.steps.iter().map(row).collect(), points }
}

fn longest(found: &LengthWithin) -> String {
    let least = if found.at_least { "at least " } else { "" };
    let tokens =
        found.tokens.map_or_else(|| "none of the steps".to_owned(), |tokens| format!("{least}{tokens} tokens"));
    format!("Longest within the SLO: {tokens}; {}.", said(&found.reason))
}

fn bracket(bracket: &RateBracket) -> String {
    let rate = |value: f64| format::figure(Unit::PerSecond, Some(value));
    let range = match (bracket.low_per_s, bracket.high_per_s) {
        (Some(low), Some(high)) => format!("between {} and {}", rate(low), rate(high)),
        (Some(low), None) => format!("at least {}", rate(low)),
        (None, Some(high)) => format!("below {}", rate(high)),
        (None, None) => "not known".to_owned(),
    };
    format!("Rate within the SLO: {range}; {}.", said(&bracket.note))
}

fn said(text: &str) -> String {
    clipped(&one_line(text), 400)
}

fn point(word: &str, found: Option<&SweepPoint>, absent: Option<&str>) -> String {
    match found {
        Some(point) => {
            let step =
                point.value.map_or_else(|| format!("stage {}", point.stage + 1), |value| format!("step {value}"));
            format!("{word} at {step}: {}.", said(&point.reason))
        }
        None => format!("{word}: none seen; {}.", said(absent.unwrap_or("no step shows it"))),
    }
}

fn row(step: &StepSummary) -> StepRow {
    let few = "fewer than ten requests lie beyond this percentile, or the figure is withdrawn";
    let latency = |figure: Option<&Distribution>, of: fn(&Distribution) -> Option<f64>| {
        Cell::figure(Unit::Ms, figure.and_then(of), few)
    };
    let ttft = step.latency.ttft_ms.as_ref();
    let none = "no window, or withdrawn";
    let no_slo = "the suite sets no latency SLO, or no request was made";
    let cells = vec![
        Cell::text(format::count(step.attempted)),
        latency(ttft, |figure| figure.p50),
        latency(ttft, |figure| figure.p95),
        latency(step.latency.tpot_ms.as_ref(), |figure| figure.p50),
        Cell::figure(Unit::PerSecond, step.throughput.output_tokens_per_s, none),
        Cell::figure(Unit::PerSecond, step.throughput.requests_per_s, none),
        Cell::figure(Unit::Percent, step.error_rate.as_ref().and_then(|rate| rate.point), "no request was made"),
        Cell::figure(Unit::PerSecond, step.goodput_per_s, no_slo),
    ];
    let worst = step.slo.iter().max_by_key(|line| line.verdict);
    StepRow {
        step: step.value.map_or_else(|| said(&step.load), |value| value.to_string()),
        cells,
        accuracy: Cell::estimate(Unit::Percent, step.accuracy.as_ref(), "no scored answers"),
        attainment: Cell::estimate(Unit::Percent, step.attainment.as_ref(), no_slo),
        end: match step.end.as_str() {
            "planned" => "planned",
            "time_up" => "time up",
            "saturated" => "saturated",
            "skipped" => "skipped",
            "stopped" => "stopped",
            _ => "not run",
        },
        end_text: said(&step.end_text),
        slo: worst.map(slo_word).unwrap_or_default(),
        tone: match step.end.as_str() {
            "planned" | "time_up" => "",
            "saturated" => "bad",
            _ => "absent",
        },
    }
}

/// What the worst line of the SLO says.
fn slo_word(worst: &SloLine) -> String {
    match worst.verdict {
        StepVerdict::Pass => "holds".to_owned(),
        verdict => format!("{} {}", words::metric(&worst.metric), verdict.word()),
    }
}

fn ratios(comparison: &StepComparison) -> Ratios {
    Ratios {
        title: format!("{} against {}", name(&comparison.candidate), name(&comparison.baseline)),
        rows: comparison.steps.iter().map(ratio_row).collect(),
    }
}

fn ratio_row(step: &StepRatios) -> RatioRow {
    let absent = "an arm has too few requests in the step, or the figure is withdrawn";
    let mut cells: Vec<Cell> = RATIO_METRICS
        .iter()
        .map(|metric| {
            let ratio = step.speed.get(*metric);
            let mut cell =
                Cell::compared(Unit::Ratio, ratio, words::better(metric), words::speed_words(metric), absent);
            if ratio.is_some_and(|ratio| ratio.low.is_none() && ratio.high.is_none()) {
                // One slot has no interval: a point says nothing about better or worse.
                (cell.word, cell.tone) = (String::new(), if cell.tone == "absent" { "absent" } else { "" });
            }
            cell
        })
        .collect();
    cells.push(Cell::compared(
        Unit::Points,
        step.accuracy_delta.as_ref(),
        words::Better::Higher,
        QUALITY_WORDS,
        "no pair of the step is scored in both arms",
    ));
    let step = step.value.map_or_else(|| format!("stage {}", step.stage + 1), |value| value.to_string());
    RatioRow { step, cells }
}

fn capacity_rows(summary: &Summary, capacity: &CapacitySummary) -> Vec<CapacityRow> {
    let named = arm_names(summary).into_iter().filter_map(|name| capacity.arms.get(name).map(|arm| (name, arm)));
    named.map(|(arm, found)| capacity_row(arm, found)).collect()
}

fn capacity_row(arm: &str, found: &ArmCapacity) -> CapacityRow {
    let bound = |text: String| if found.at_least && text != format::ABSENT { format!("≥ {text}") } else { text };
    let most = |text: String| if found.at_least && text != format::ABSENT { format!("≤ {text}") } else { text };
    CapacityRow {
        arm: name(arm),
        rate: bound(format::figure(Unit::PerSecond, found.rate_per_replica)),
        replicas: most(found.replicas.map_or_else(|| format::ABSENT.to_owned(), format::count)),
        usd_per_hour: most(found.usd_per_hour.as_deref().map_or_else(|| format::ABSENT.to_owned(), format::usd_exact)),
        reason: said(&found.reason),
    }
}

fn capacity_text(capacity: &CapacitySummary) -> String {
    format!(
        "Replicas for {} requests per second on average, times {} at the peak, with {} kept free; a step counts where it holds \
         the SLO at {} one-sided confidence. Assumed: {}.",
        capacity.rate_per_s,
        capacity.peak_factor,
        format::figure(Unit::Percent, Some(capacity.headroom)),
        format::figure(Unit::Percent, Some(capacity.confidence)),
        said(&capacity.assumption)
    )
}
