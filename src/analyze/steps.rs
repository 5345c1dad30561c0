//! The steps of a sweep, and the stages of a load that has several: what each arm did in each of them.

use std::collections::BTreeMap;

use super::SHOWN_LEVEL;
use super::arms::{metric_rate, tally};
use super::capacity;
use super::compare::{self, Matched};
use super::estimate::Estimate;
use super::goodput;
use super::latency;
use super::points::{self, Step};
use super::rows::{Row, Run};
use super::speed::Speeds;
use super::stats::{percentile_estimate, ratio_of_means, sorted, wilson};
use super::summary::Summary;
use super::sweep::{ArmSweep, StepComparison, StepRatios, StepSummary, SweepSummary};
use super::throughput::Rates;
use super::withdrawn::Withdrawn;
use crate::drive::{Finding, Severity, SlotEnd};
use crate::plan::Plan;
use crate::spec::{Arrivals, LatencyFigure, LoadShape, SpeedMetric, Stage};

/// A window must be at least this long, and this share of its slots, for its rates to stand without a warning.
const WINDOW_LEAST_S: f64 = 10.0;
const WINDOW_LEAST_SHARE: f64 = 0.1;
/// One-sided level at which steps hold an SLO where the suite says none.
const CONFIDENCE: f64 = 0.95;

/// Latencies whose ratios are told step by step.
const RATIO_FIGURES: [LatencyFigure; 3] = [LatencyFigure::Ttft, LatencyFigure::Tpot, LatencyFigure::E2e];

/// Whether an arm's figures are told by stage.
pub fn is_staged(plan: &Plan) -> bool {
    plan.is_sweep() || mixes_loads(plan)
}

/// Whether an arm's figures over the whole run would mix several loads.
pub fn mixes_loads(plan: &Plan) -> bool {
    plan.suite.load.stages().len() > 1
}

/// What withdraws the arms' own figures, and which steps are too short.
pub fn findings(plan: &Plan, run: &Run) -> Vec<Finding> {
    let finding = |code: &str, severity, arm: Option<&str>, message| Finding {
        code: code.to_owned(),
        severity,
        arm: arm.map(str::to_owned),
        message,
    };
    let mut findings = Vec::new();
    if mixes_loads(plan) {
        let message = format!(
            "the run asks {} loads one after the other: latencies and rates over all of them would mix them; read them step \
             by step",
            plan.suite.load.stages().len()
        );
        findings.push(finding("loads_mixed", Severity::WithdrawsFigures, None, message));
    }
    if !is_staged(plan) {
        return findings;
    }
    for (arm, named) in plan.arms.iter().enumerate() {
        let short: Vec<String> =
            plan.suite.load.stages().iter().enumerate().filter_map(short_window(run, arm)).collect();
        if !short.is_empty() {
            let message = format!(
                "rates rest on a short window at {}: at least {WINDOW_LEAST_S} s and a tenth of the slot make them steady; \
                 give the steps a longer duration",
                short.join(", ")
            );
            findings.push(finding("steady_window_short", Severity::Informs, Some(&named.name), message));
        }
    }
    findings
}

fn short_window(run: &Run, arm: usize) -> impl Fn((usize, &Stage)) -> Option<String> {
    move |(index, stage)| {
        let (counted, whole) = Rates::of_stage(&run.windows, index as u16).counted_us(arm);
        let (counted_s, whole_s) = (counted as f64 / 1e6, whole as f64 / 1e6);
        let short = whole > 0 && counted_s < WINDOW_LEAST_S.max(WINDOW_LEAST_SHARE * whole_s);
        short.then(|| format!("{} ({counted_s:.1} s of {whole_s:.1} s)", stage_name(index, stage)))
    }
}

/// `step 4`, `stage 2`.
fn stage_name(index: usize, stage: &Stage) -> String {
    stage.step.map_or_else(|| format!("stage {}", index + 1), |value| format!("step {value}"))
}

/// The steps of all arms; absent where the load has one stage that is no step.
pub fn summary(
    plan: &Plan,
    speeds: &Speeds<'_>,
    withdrawn: &Withdrawn,
    matched: &[Matched<'_>],
) -> Option<SweepSummary> {
    if !is_staged(plan) {
        return None;
    }
    let arms =
        plan.arms.iter().enumerate().map(|(arm, named)| (named.name.clone(), of_arm(plan, speeds.run, withdrawn, arm)));
    Some(SweepSummary {
        over: over(plan).to_owned(),
        arms: arms.collect(),
        comparisons: matched.iter().map(|matched| comparison(plan, speeds, withdrawn, matched)).collect(),
    })
}

fn over(plan: &Plan) -> &'static str {
    match &plan.suite.sweep {
        Some(sweep) if plan.is_sweep() => sweep.over.name(),
        _ => "stage",
    }
}

/// Takes out of the arms' own figures what mixes several loads; it stands in the steps.
pub fn withhold(summary: &mut Summary) {
    for arm in summary.arms.values_mut() {
        arm.latency = super::summary::Latency::default();
        arm.throughput = super::summary::Throughput { window_s: arm.throughput.window_s, ..Default::default() };
    }
    for comparison in &mut summary.comparisons {
        comparison.speed.clear();
        if let Some(floor) = &mut comparison.noise_floor {
            floor.speed.clear();
        }
    }
}

fn of_arm(plan: &Plan, run: &Run, withdrawn: &Withdrawn, arm: usize) -> ArmSweep {
    let stages = plan.suite.load.stages();
    let steps: Vec<Step> = stages
        .iter()
        .enumerate()
        .map(|(index, stage)| step(plan, run, withdrawn, arm, (index as u16, stage)))
        .collect();
    let raised = plan.is_sweep();
    let length = plan.suite.sweep.as_ref().is_some_and(|sweep| raised && sweep.over.is_length());
    let saturation =
        if length { Err("a sweep over lengths raises no load".to_owned()) } else { points::saturation(&steps, raised) };
    let (saturation, saturation_absent) = points::split(saturation);
    let (degradation, degradation_absent) = points::split(points::degradation(&steps, raised));
    let steps: Vec<StepSummary> = steps.into_iter().map(|step| step.summary).collect();
    let bracket = (over(plan) == "concurrency").then(|| capacity::bracket(&steps)).flatten();
    let longest = length.then(|| capacity::longest(&steps)).flatten();
    ArmSweep { steps, saturation, saturation_absent, degradation, degradation_absent, bracket, longest }
}

fn step(plan: &Plan, run: &Run, withdrawn: &Withdrawn, arm: usize, (index, stage): (u16, &Stage)) -> Step {
    let rows: Vec<&Row> = run.rows_of(arm).filter(|row| row.stage == index).collect();
    let rates = Rates::of_stage(&run.windows, index);
    let mut latency = latency::of_arm(&rows);
    let mut throughput = rates.throughput(arm);
    withdrawn.apply_to_step(arm, &mut latency, &mut throughput);
    let confidence = plan.suite.capacity.as_ref().map_or(CONFIDENCE, |capacity| capacity.confidence);
    let slo = capacity::lines(&plan.suite.slo, &rows, &throughput, confidence, &|metric| {
        withdrawn.step_figure(arm, metric).map(str::to_owned)
    });
    let spoiled = goodput::limits(&plan.suite.slo)
        .keys()
        .any(|&figure| withdrawn.step_figure(arm, SpeedMetric::Latency { figure, percentile: 50 }).is_some());
    let good = if spoiled {
        goodput::Goodput::default()
    } else {
        goodput::of_step(&rows, &plan.suite.slo, throughput.requests_per_s)
    };
    let errors = rows.iter().filter(|row| row.outcome.is_error()).count() as u64;
    let (end, end_text) = how_it_ended(plan, run, arm, index);
    let (answer_rates, token_rates) = rates.parts(arm);
    let rates_stand = throughput.requests_per_s.is_some();
    let summary = StepSummary {
        stage: index,
        value: stage.step,
        load: load_text(&stage.shape),
        requests: rows.iter().filter(|row| row.is_answered()).count() as u64,
        attempted: rows.len() as u64,
        outcomes: tally(rows.iter().map(|row| row.outcome.name())),
        latency,
        throughput,
        window: if rates.is_trimmed() { "steady" } else { "whole" }.to_owned(),
        counted_s: rates.counted_us(arm).0 as f64 / 1e6,
        error_rate: (!rows.is_empty()).then(|| wilson(errors, rows.len() as u64, SHOWN_LEVEL)),
        accuracy: Some(metric_rate(&rows, "accuracy").estimate(SHOWN_LEVEL)).filter(|estimate| estimate.n > 0),
        goodput_per_s: good.per_s,
        correct_goodput_per_s: good.correct_per_s,
        attainment: good.attainment,
        slo,
        end: end.to_owned(),
        end_text,
    };
    Step {
        summary,
        answer_rates: if rates_stand { answer_rates } else { Vec::new() },
        token_rates: token_rates.filter(|_| rates_stand),
        flow: rates.flow(arm),
        ttft_p95: p95(withdrawn, arm, &rows, LatencyFigure::Ttft),
        e2e_p95: p95(withdrawn, arm, &rows, LatencyFigure::E2e),
    }
}

fn p95(withdrawn: &Withdrawn, arm: usize, rows: &[&Row], figure: LatencyFigure) -> Option<Estimate> {
    let stands = withdrawn.step_figure(arm, SpeedMetric::Latency { figure, percentile: 95 }).is_none();
    let values = sorted(latency::values(rows.iter().copied(), figure));
    (stands && !values.is_empty()).then(|| percentile_estimate(&values, 0.95, SHOWN_LEVEL))
}

fn load_text(shape: &LoadShape) -> String {
    match shape {
        LoadShape::Closed { concurrency, .. } => format!("{concurrency} at a time"),
        LoadShape::Open { arrivals, .. } => {
            let process = match arrivals {
                Arrivals::Constant { .. } => "constant",
                Arrivals::Poisson { .. } => "poisson",
                Arrivals::Gamma { .. } => "gamma",
                Arrivals::Burst { .. } => "burst",
                Arrivals::Trace { .. } => return "trace".to_owned(),
            };
            let rate = arrivals.rate().map_or_else(String::new, |rate| match rate.ramp_to_per_s {
                Some(to) => format!(", {} to {to}/s", rate.per_s),
                None => format!(", {}/s", rate.per_s),
            });
            format!("{process}{rate}")
        }
    }
}

/// The worst end of the arm's slots of a stage, for files and for people.
fn how_it_ended(plan: &Plan, run: &Run, arm: usize, stage: u16) -> (&'static str, String) {
    let of_stage = |block: u32| plan.blocks.get(block as usize).is_some_and(|block| block.stage == stage);
    let slots = plan.slots().into_iter().filter(|slot| slot.arm == arm && of_stage(slot.block));
    let rank = |end: Option<&SlotEnd>| match end {
        Some(SlotEnd::Planned) => 0,
        Some(SlotEnd::TimeUp) => 1,
        Some(SlotEnd::Saturated(_)) => 3,
        Some(SlotEnd::Skipped(_)) => 4,
        Some(SlotEnd::Stopped) => 5,
        None => 2,
    };
    match slots.map(|slot| run.slot_ends.get(&slot.index)).max_by_key(|end| rank(*end)).flatten() {
        Some(SlotEnd::Planned) => ("planned", "as planned".to_owned()),
        Some(SlotEnd::TimeUp) => ("time_up", "its time was over".to_owned()),
        Some(SlotEnd::Saturated(why)) => ("saturated", format!("ended early: {why}")),
        Some(SlotEnd::Skipped(why)) => ("skipped", format!("not run: {why}")),
        Some(SlotEnd::Stopped) => ("stopped", "the run stopped in it".to_owned()),
        None => ("not_run", "not run to its end".to_owned()),
    }
}

fn comparison(plan: &Plan, speeds: &Speeds<'_>, withdrawn: &Withdrawn, matched: &Matched<'_>) -> StepComparison {
    let name = |arm: usize| plan.arms.get(arm).map(|arm| arm.name.clone()).unwrap_or_default();
    let stages = plan.suite.load.stages();
    let steps = stages.iter().enumerate().map(|(index, stage)| {
        let index = index as u16;
        let pairs: Vec<_> = matched.pairs.iter().filter(|pair| pair.baseline.stage == index).copied().collect();
        StepRatios {
            stage: index,
            value: stage.step,
            speed: speed(speeds, withdrawn, matched, index),
            accuracy_delta: compare::quality_delta(&pairs, "accuracy").map(|delta| delta.delta),
        }
    });
    StepComparison {
        baseline: name(matched.arms.baseline),
        candidate: name(matched.arms.candidate),
        steps: steps.collect(),
    }
}

/// Ratios of rates by the equal parts of both windows; of percentiles by blocks, so that a step of one slot has a point
/// that is marked.
fn speed(speeds: &Speeds<'_>, withdrawn: &Withdrawn, matched: &Matched<'_>, stage: u16) -> BTreeMap<String, Estimate> {
    let arms = matched.arms;
    let of_stage = |row: &Row| row.stage == stage;
    let latencies = RATIO_FIGURES.map(|figure| SpeedMetric::Latency { figure, percentile: 50 });
    let mut ratios: BTreeMap<String, Estimate> = latencies
        .into_iter()
        .filter_map(|metric| {
            let ratio = speeds.ratio(arms, metric, SHOWN_LEVEL, Some(&of_stage))?;
            Some((metric.to_string(), ratio))
        })
        .collect();
    let rates = Rates::of_stage(&speeds.run.windows, stage);
    let (baseline, candidate) = (rates.parts(arms.baseline), rates.parts(arms.candidate));
    let answers = ratio_of_means(&candidate.0, &baseline.0, SHOWN_LEVEL);
    ratios.insert(SpeedMetric::RequestsPerS.to_string(), answers);
    if let (Some(baseline), Some(candidate)) = (baseline.1, candidate.1) {
        ratios.insert(SpeedMetric::OutputTokensPerS.to_string(), ratio_of_means(&candidate, &baseline, SHOWN_LEVEL));
    }
    ratios.retain(|_, estimate| estimate.point.is_some());
    withdrawn.step_ratios(arms, ratios)
}
