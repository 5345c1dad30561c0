//! Where the instrument's own limits spoil a figure: the rules, and the findings that they raise.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::gates::in_scope;
use super::latency;
use super::rows::{Row, Run};
use super::stats::{is_printable, percentile, sorted};
use crate::drive::{Attempt, Calibration, Finding, Instrument, LATE_EDGES_MS, Severity};
use crate::plan::Plan;
use crate::spec::{GateKind, LatencyFigure, Scope, SpeedMetric};

/// Shares and floors of the rules: an error below either is told and spoils nothing.
const TTFT_P50_FLOOR_MS: f64 = 1.0;
const TTFT_P50_SHARE: f64 = 0.05;
const TTFT_P99_FLOOR_MS: f64 = 5.0;
const TTFT_P99_SHARE: f64 = 0.25;
/// The lanes' thread has no reserve beyond this share of a core.
const CPU_SHARE_MAX: f64 = 0.9;
/// A slot with fewer looks says little of its thread's share.
const CPU_LOOKS_MIN: u64 = 20;
const STALL_FLOOR_MS: f64 = 5.0;
const STALL_SHARE: f64 = 0.01;
/// Late looks that are needed before a share of them is told.
const STALL_LOOKS_MIN: u64 = 10;
const LAG_FLOOR_MS: f64 = 10.0;
const LAG_SHARE: f64 = 0.05;
/// An answer of fewer tokens doesn't show whether it was streamed.
const BATCH_TOKENS_MIN: u64 = 8;
/// Tokens that are all there within this time came together.
const BATCH_US: u64 = 1_000;
/// Reads closer than this are one flush of whoever stands between.
const READ_US: u64 = 100;
/// More tokens than this in a read are no step of a speculative decoder.
const TOKENS_PER_READ_MAX: u64 = 8;
/// Share of an arm's answers from which on its stream counts as batched.
const BATCHED_SHARE: f64 = 0.5;

/// What the instrument recorded of itself, from the journal.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// By arm.
    slots: BTreeMap<usize, Vec<Instrument>>,
    /// The last one of the run.
    pub calibration: Option<Calibration>,
}

impl Watched {
    pub fn slot(&mut self, arm: usize, figures: Instrument) {
        self.slots.entry(arm).or_default().push(figures);
    }

    pub fn of(&self, arm: usize) -> &[Instrument] {
        self.slots.get(&arm).map_or(&[], Vec::as_slice)
    }

    /// For the summary; `None` where nothing was watched, as in simulation and in older journals.
    pub fn summary(&self, plan: &Plan) -> Option<InstrumentSummary> {
        let name = |arm: &usize| plan.arms.get(*arm).map(|a| a.name.clone());
        let arms: BTreeMap<String, ArmInstrument> =
            self.slots.iter().filter_map(|(arm, slots)| Some((name(arm)?, ArmInstrument::of(slots)))).collect();
        let calibration = self.calibration.clone();
        (!arms.is_empty() || calibration.is_some()).then_some(InstrumentSummary { arms, calibration })
    }
}

/// What `environment.instrument` of the summary holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstrumentSummary {
    pub arms: BTreeMap<String, ArmInstrument>,
    /// The client's own error; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// An arm's slots together: the worst of each figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmInstrument {
    pub slots: u64,
    /// How often the reading thread was looked at.
    pub looks: u64,
    pub stall_p99_ms: f64,
    pub stall_max_ms: f64,
    pub lanes_cpu_share: Option<f64>,
    pub open_sockets: Option<u64>,
    pub clock_step_ms: Option<f64>,
}

impl ArmInstrument {
    fn of(slots: &[Instrument]) -> ArmInstrument {
        let worst = |figure: fn(&Instrument) -> f64| slots.iter().map(figure).fold(0.0, f64::max);
        ArmInstrument {
            slots: slots.len() as u64,
            looks: slots.iter().map(|slot| slot.n).sum(),
            stall_p99_ms: worst(|slot| slot.stall_p99_ms),
            stall_max_ms: worst(|slot| slot.stall_max_ms),
            lanes_cpu_share: slots.iter().filter_map(|slot| slot.lanes_cpu_share).max_by(f64::total_cmp),
            open_sockets: slots.iter().filter_map(|slot| slot.open_sockets).max(),
            clock_step_ms: largest_step(slots),
        }
    }
}

/// The largest jump of the wall clock, with its sign.
fn largest_step(slots: &[Instrument]) -> Option<f64> {
    slots.iter().filter_map(|slot| slot.clock_step_ms).max_by(|a, b| a.abs().total_cmp(&b.abs()))
}

/// What an arm's figures are held against.
#[derive(Clone, Debug, Default)]
pub struct Shown<'a> {
    pub ttft_median_ms: Option<f64>,
    /// Median gap between tokens.
    pub gap_median_ms: Option<f64>,
    /// Open load only.
    pub dispatch_lag_p99_ms: Option<f64>,
    pub calibration: Option<&'a Calibration>,
    /// Of each slot.
    pub slots: Vec<&'a Instrument>,
}

/// Why the client, and not the server, may be what was measured; none where it kept up.
pub fn limits(shown: &Shown<'_>) -> Vec<String> {
    let share_of_ttft = |share: f64| shown.ttft_median_ms.map_or(0.0, |ttft| share * ttft);
    let mut reasons = Vec::new();
    if let Some(calibration) = shown.calibration {
        let mut check = |what: &str, error: Option<f64>, limit: f64| {
            if let Some(error) = error.filter(|error| *error > limit) {
                reasons.push(format!(
                    "its first tokens are stamped {error:.1} ms late ({what}; {limit:.1} ms are tolerated)"
                ));
            }
        };
        let error = calibration.ttft_error_ms;
        check("p50", error.p50, TTFT_P50_FLOOR_MS.max(share_of_ttft(TTFT_P50_SHARE)));
        check("p99", error.p99, TTFT_P99_FLOOR_MS.max(share_of_ttft(TTFT_P99_SHARE)));
    }
    let shares = shown.slots.iter().filter(|slot| slot.n >= CPU_LOOKS_MIN).filter_map(|slot| slot.lanes_cpu_share);
    if let Some(share) = shares.max_by(f64::total_cmp).filter(|share| *share >= CPU_SHARE_MAX) {
        reasons.push(format!("its reading thread was busy for {:.0} % of a slot", 100.0 * share));
    }
    reasons.extend(stalled(&shown.slots, STALL_FLOOR_MS.max(shown.gap_median_ms.unwrap_or(0.0))));
    let lag_limit = LAG_FLOOR_MS.max(share_of_ttft(LAG_SHARE));
    if let Some(lag) = shown.dispatch_lag_p99_ms.filter(|lag| *lag > lag_limit) {
        reasons
            .push(format!("it sent requests {lag:.1} ms after they were due (p99; {lag_limit:.1} ms are tolerated)"));
    }
    reasons
}

/// Whether more than 1 % of the looks of all slots were later than `limit_ms`, rounded up to the next mark.
fn stalled(slots: &[&Instrument], limit_ms: f64) -> Option<String> {
    let (index, edge) = LATE_EDGES_MS.iter().enumerate().find(|(_, edge)| **edge as f64 >= limit_ms)?;
    let late: u64 = slots.iter().filter_map(|slot| slot.late.get(index)).sum();
    let looks: u64 = slots.iter().filter(|slot| !slot.late.is_empty()).map(|slot| slot.n).sum();
    let many = late >= STALL_LOOKS_MIN && late as f64 > STALL_SHARE * looks as f64;
    many.then(|| format!("its reading thread woke more than {edge} ms late {late} times of {looks}"))
}

/// Whether the tokens of an answer came together: all within a millisecond, or more than eight to a read. A server whose
/// events hold a few tokens each, as in speculative decoding, is not batched.
pub fn batched(attempt: &Attempt) -> Option<bool> {
    if !attempt.stream || !attempt.outcome.is_answered() {
        return None;
    }
    let gaps = attempt.arrival_gaps_us.get(1..)?;
    let hidden = if attempt.reasoning_streamed { 0 } else { attempt.usage.reasoning_tokens.unwrap_or(0) };
    let tokens = attempt.output_tokens?.0.saturating_sub(hidden);
    if tokens < BATCH_TOKENS_MIN {
        return None;
    }
    let span_us = gaps.iter().fold(0, |sum: u64, gap| sum.saturating_add(*gap));
    let reads = 1 + gaps.iter().filter(|gap| **gap >= READ_US).count() as u64;
    Some(span_us <= BATCH_US || reads.saturating_mul(TOKENS_PER_READ_MAX) < tokens)
}

/// The findings that the instrument's own limits, and those of the sample, raise.
pub fn findings(plan: &Plan, run: &Run) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (arm, planned) in plan.arms.iter().enumerate() {
        let name = planned.name.as_str();
        let mut raise = |code: &str, message: String| {
            let (code, arm) = (code.to_owned(), Some(name.to_owned()));
            findings.push(Finding { code, severity: Severity::WithdrawsFigures, arm, message });
        };
        let reasons = limits(&shown(run, arm));
        if !reasons.is_empty() {
            let message = format!(
                "while `{name}` was measured the client itself was at its limit: {}; give it a core of its own, or lower \
                 the load",
                reasons.join("; ")
            );
            raise("client_limited", message);
        }
        if let Some(step_ms) = largest_step(run.watched.of(arm)) {
            let message = format!(
                "the wall clock jumped by {:+.1} s while `{name}` was measured: it was set, or the machine was suspended; \
                 run again",
                step_ms / 1e3
            );
            raise("clock_stepped", message);
        }
        if let Some((batched, n)) = batched_answers(run, arm) {
            let message = format!(
                "{batched} of {n} answers of `{name}` came in one piece though they were asked for as a stream: a proxy or \
                 the server holds tokens back (look for response buffering), so when each was made can't be told"
            );
            raise("stream_batched", message);
        }
    }
    findings.extend(too_few(plan, run));
    findings
}

/// What an arm's figures are held against.
fn shown(run: &Run, arm: usize) -> Shown<'_> {
    let rows: Vec<&Row> = run.rows_of(arm).collect();
    let median = |figure| percentile(&sorted(latency::values(rows.iter().copied(), figure)), 0.5);
    let lag = sorted(rows.iter().filter(|row| row.is_answered()).filter_map(|row| row.dispatch_lag_ms));
    Shown {
        ttft_median_ms: median(LatencyFigure::Ttft),
        gap_median_ms: median(LatencyFigure::Itl).or_else(|| median(LatencyFigure::Tpot)),
        dispatch_lag_p99_ms: percentile(&lag, 0.99).filter(|_| is_printable(lag.len() as u64, 0.99)),
        calibration: run.watched.calibration.as_ref(),
        slots: run.watched.of(arm).iter().collect(),
    }
}

/// (answers that came in one piece, answers that tell) where they are at least half.
fn batched_answers(run: &Run, arm: usize) -> Option<(usize, usize)> {
    let told: Vec<bool> = run.rows_of(arm).filter(|row| row.timed).filter_map(|row| row.batched).collect();
    let batched = told.iter().filter(|batched| **batched).count();
    (batched > 0 && batched as f64 >= BATCHED_SHARE * told.len() as f64).then_some((batched, told.len()))
}

/// One finding for each percentile that a gate asks for and that the answers of an arm it judges don't carry.
fn too_few(plan: &Plan, run: &Run) -> Vec<Finding> {
    let mut messages = BTreeSet::new();
    for gate in &plan.suite.gates {
        let (asked, against_baseline): (Vec<SpeedMetric>, bool) = match &gate.kind {
            GateKind::Speed { metric, .. } => (vec![*metric], true),
            GateKind::Slo { .. } => (plan.suite.slo.iter().map(|target| target.metric).collect(), false),
            _ => continue,
        };
        let arms = judged(plan, against_baseline);
        for metric in asked {
            let SpeedMetric::Latency { figure, percentile } = metric else { continue };
            let q = f64::from(percentile) / 100.0;
            // A failed request has no latency to compare, and counts as infinite where an SLO is asked.
            let n = |arm: usize| values(run, arm, &gate.scope, figure, !against_baseline);
            let short = arms.iter().map(|arm| (*arm, n(*arm))).filter(|(_, n)| *n > 0 && !is_printable(*n, q));
            let name = |arm: usize| plan.arms.get(arm).map_or("", |a| a.name.as_str());
            let short: Vec<String> = short.map(|(arm, n)| format!("{n} of `{}`", name(arm))).collect();
            if !short.is_empty() {
                let needed = (10.0 / (1.0 - q).min(q) * (1.0 - 1e-12)).ceil();
                messages.insert(format!(
                    "a gate asks for `{metric}`, which takes {needed} values, and there are {}; ask more samples, or for a \
                     lower percentile",
                    short.join(", ")
                ));
            }
        }
    }
    let finding = |message| Finding {
        code: "too_few_samples".to_owned(),
        severity: Severity::WithdrawsFigures,
        arm: None,
        message,
    };
    messages.into_iter().map(finding).collect()
}

/// The arms that a gate judges: candidates, with what they are compared to; without a comparison each arm by itself.
fn judged(plan: &Plan, against_baseline: bool) -> Vec<usize> {
    let compared = &plan.suite.comparisons;
    let is_judged = |arm: &crate::plan::Arm| {
        let named = |c: &crate::spec::Comparison| {
            c.candidate == arm.deployment || against_baseline && c.baseline == arm.deployment
        };
        arm.twin_of.is_none() && (if compared.is_empty() { !against_baseline } else { compared.iter().any(named) })
    };
    plan.arms.iter().enumerate().filter(|(_, arm)| is_judged(arm)).map(|(index, _)| index).collect()
}

fn values(run: &Run, arm: usize, scope: &Scope, figure: LatencyFigure, with_failures: bool) -> u64 {
    let rows: Vec<&Row> = run.rows_of(arm).filter(|row| row.timed && in_scope(row, scope)).collect();
    let failed = rows.iter().filter(|row| with_failures && row.outcome.is_error()).count();
    (latency::values(rows.iter().copied(), figure).len() + failed) as u64
}
