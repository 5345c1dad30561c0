//! Figures that a finding withdraws: they are not printed, and no gate passes on them.

use std::collections::BTreeMap;

use super::estimate::Estimate;
use super::speed::ArmPair;
use super::summary::{ArmSummary, Latency, Throughput};
use crate::drive::{Finding, Severity};
use crate::plan::Plan;
use crate::spec::{LatencyFigure, SpeedMetric};

/// The method of a ratio whose arms didn't run side by side: shown, marked, never decided on.
pub const NOT_CONCURRENT: &str = "not_concurrent";
/// Withdraws figures over all stages and none of a single one.
const LOADS_MIXED: &str = "loads_mixed";

#[derive(Clone, Debug, Default)]
pub struct Withdrawn {
    /// (code, the arm it concerns or all).
    entries: Vec<(String, Option<usize>)>,
    arms_differ_in_time: bool,
}

impl Withdrawn {
    pub fn by(plan: &Plan, findings: &[Finding]) -> Withdrawn {
        let mut withdrawn = Withdrawn::default();
        for finding in findings.iter().filter(|f| f.severity == Severity::WithdrawsFigures) {
            match finding.code.as_str() {
                NOT_CONCURRENT => withdrawn.arms_differ_in_time = true,
                // The figures that it concerns are absent by themselves.
                "too_few_samples" => {}
                code => {
                    let arm = finding.arm.as_deref();
                    let index = arm.and_then(|name| plan.arms.iter().position(|a| a.name == name));
                    withdrawn.entries.push((code.to_owned(), index));
                }
            }
        }
        withdrawn
    }

    /// The finding that withdraws one arm's own figure.
    pub fn figure(&self, arm: usize, metric: SpeedMetric) -> Option<&str> {
        let concerns = |(code, of): &&(String, Option<usize>)| of.is_none_or(|of| of == arm) && covers(code, metric);
        self.entries.iter().find(concerns).map(|(code, _)| code.as_str())
    }

    /// The finding that withdraws a ratio of two arms.
    pub fn ratio(&self, arms: ArmPair, metric: SpeedMetric) -> Option<&str> {
        let own = self.figure(arms.baseline, metric).or_else(|| self.figure(arms.candidate, metric));
        own.or((self.arms_differ_in_time && metric != SpeedMetric::ErrorRate).then_some(NOT_CONCURRENT))
    }

    /// What is left of a comparison's ratios. Arms that ran one after the other keep their points, marked.
    pub fn ratios(&self, arms: ArmPair, ratios: BTreeMap<String, Estimate>) -> BTreeMap<String, Estimate> {
        let kept = |(name, estimate): (String, Estimate)| {
            let metric: SpeedMetric = name.parse().ok()?;
            match self.ratio(arms, metric) {
                None => Some((name, estimate)),
                Some(NOT_CONCURRENT) => {
                    let marked = Estimate::point_only(estimate.point, estimate.level, estimate.n, NOT_CONCURRENT);
                    Some((name, marked))
                }
                Some(_) => None,
            }
        };
        ratios.into_iter().filter_map(kept).collect()
    }

    /// The finding that withdraws an arm's figure of one step.
    pub fn step_figure(&self, arm: usize, metric: SpeedMetric) -> Option<&str> {
        let concerns = |(code, of): &&(String, Option<usize>)| {
            code != LOADS_MIXED && of.is_none_or(|of| of == arm) && covers(code, metric)
        };
        self.entries.iter().find(concerns).map(|(code, _)| code.as_str())
    }

    /// What is left of a step's ratios.
    pub fn step_ratios(&self, arms: ArmPair, ratios: BTreeMap<String, Estimate>) -> BTreeMap<String, Estimate> {
        let steps = Withdrawn {
            entries: self.entries.iter().filter(|(code, _)| code != LOADS_MIXED).cloned().collect(),
            arms_differ_in_time: self.arms_differ_in_time,
        };
        steps.ratios(arms, ratios)
    }

    /// Takes an arm's withdrawn figures out of its summary.
    pub fn apply(&self, arm: usize, summary: &mut ArmSummary) {
        take_out(&mut summary.latency, &mut summary.throughput, |metric| self.figure(arm, metric).is_some());
    }

    /// The same of one step.
    pub fn apply_to_step(&self, arm: usize, latency: &mut Latency, throughput: &mut Throughput) {
        take_out(latency, throughput, |metric| self.step_figure(arm, metric).is_some());
    }
}

fn take_out(latency: &mut Latency, rates: &mut Throughput, gone: impl Fn(SpeedMetric) -> bool) {
    let spoiled = |figure| gone(SpeedMetric::Latency { figure, percentile: 50 });
    let Latency {
        ttft_ms, ttfa_ms, tpot_ms, itl_ms, e2e_ms, response_ms, ttft_parts_ms, ttft_response_ms, icl_ms, ..
    } = latency;
    let figures = [
        (LatencyFigure::Ttft, ttft_ms),
        (LatencyFigure::Ttfa, ttfa_ms),
        (LatencyFigure::Tpot, tpot_ms),
        (LatencyFigure::Itl, itl_ms),
        (LatencyFigure::E2e, e2e_ms),
        (LatencyFigure::Response, response_ms),
    ];
    for (figure, distribution) in figures {
        if spoiled(figure) {
            *distribution = None;
        }
    }
    if spoiled(LatencyFigure::Ttft) {
        ttft_parts_ms.clear();
        *ttft_response_ms = None;
    }
    // What spoils both is no property of the stream: the client itself can't be trusted.
    if spoiled(LatencyFigure::Itl) && spoiled(LatencyFigure::E2e) {
        *icl_ms = None;
    }
    for (metric, rate) in [
        (SpeedMetric::RequestsPerS, &mut rates.requests_per_s),
        (SpeedMetric::OutputTokensPerS, &mut rates.output_tokens_per_s),
        (SpeedMetric::InputTokensPerS, &mut rates.input_tokens_per_s),
    ] {
        if gone(metric) {
            *rate = None;
        }
    }
}

/// Which figures a code spoils. A code that isn't known here spoils every one.
fn covers(code: &str, metric: SpeedMetric) -> bool {
    use LatencyFigure::{Itl, Tpot};
    let decode = matches!(metric, SpeedMetric::Latency { figure: Tpot | Itl, .. });
    match (code, metric) {
        (_, SpeedMetric::ErrorRate) => false,
        // A cached prompt shortens what comes before the first token, and with it the whole.
        ("cache_contaminated" | "prompts_reused", _) => !decode,
        // Tokens that arrive in batches hide when each was made; the end of the answer stands.
        ("stream_batched", SpeedMetric::Latency { figure, .. }) => {
            !matches!(figure, LatencyFigure::E2e | LatencyFigure::Response)
        }
        ("stream_batched", _) => false,
        _ => true,
    }
}
