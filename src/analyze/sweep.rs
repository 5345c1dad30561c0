//! A load raised step by step, and what it says about capacity, as `summary.json` holds it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::estimate::Estimate;
use super::summary::{Latency, Throughput};

/// The steps of a sweep, or the stages of a load that has several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepSummary {
    /// What is raised: `concurrency`, `rate_per_s`; `stage` where the load has stages of its own.
    pub over: String,
    pub arms: BTreeMap<String, ArmSweep>,
    pub comparisons: Vec<StepComparison>,
}

/// One arm's steps and what they show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmSweep {
    /// In the order in which they ran.
    pub steps: Vec<StepSummary>,
    /// The first step from which more load brings no more work.
    pub saturation: Option<SweepPoint>,
    /// Why there is none.
    pub saturation_absent: Option<String>,
    /// The first step whose latency is certainly twice that of the first step.
    pub degradation: Option<SweepPoint>,
    pub degradation_absent: Option<String>,
    /// What a sweep over concurrency says of the rate within the SLO.
    pub bracket: Option<RateBracket>,
    /// What a sweep over lengths says of the longest request within the SLO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<LengthWithin>,
}

/// The longest request that a deployment answers within the SLO, at the sweep's own load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthWithin {
    /// The longest step below the first one that does not hold; absent where none holds.
    pub tokens: Option<f64>,
    /// Whether the longest step holds too.
    pub at_least: bool,
    /// What ended the search.
    pub reason: String,
}

/// What one arm did in one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepSummary {
    /// Index into the load's stages.
    pub stage: u16,
    /// The step's concurrency or requests per second; absent for a stage that is no step.
    pub value: Option<f64>,
    /// The load in words: `4 at a time`, `poisson, 5/s`.
    pub load: String,
    /// Answered: `completed` or `truncated`.
    pub requests: u64,
    /// With an outcome, dropped ones included.
    pub attempted: u64,
    pub outcomes: BTreeMap<String, u64>,
    /// Of requests that began after the step's warm-up.
    pub latency: Latency,
    pub throughput: Throughput,
    /// Which part of the slots the rates are of: `steady`, `whole`.
    pub window: String,
    /// Length of that part.
    pub counted_s: f64,
    pub error_rate: Option<Estimate>,
    /// Passed ÷ scored of the step's own answers.
    pub accuracy: Option<Estimate>,
    /// Answers per second that are within the SLO's numbers; absent without a latency SLO.
    pub goodput_per_s: Option<f64>,
    /// The same of answers that passed.
    pub correct_goodput_per_s: Option<f64>,
    /// Share of attempted requests that are within the SLO's numbers.
    pub attainment: Option<Estimate>,
    /// One line for each line of `slo:`.
    pub slo: Vec<SloLine>,
    /// `planned`, `time_up`, `saturated`, `skipped`, `stopped`, `not_run`.
    pub end: String,
    /// The same in words, with the reason.
    pub end_text: String,
}

/// Whether a step certainly holds one line of `slo:`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SloLine {
    pub metric: String,
    pub at_most: f64,
    pub verdict: StepVerdict,
    pub estimate: Option<Estimate>,
    pub reason: String,
}

/// Ordered from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepVerdict {
    /// The figure's bound is within.
    Pass,
    Inconclusive,
    Fail,
}

impl StepVerdict {
    pub fn word(self) -> &'static str {
        match self {
            StepVerdict::Pass => "holds",
            StepVerdict::Inconclusive => "is open",
            StepVerdict::Fail => "fails",
        }
    }
}

/// A step that stands out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    pub stage: u16,
    pub value: Option<f64>,
    pub reason: String,
    /// What decides it: the share of proportional growth, or the percentile in milliseconds.
    pub estimate: Option<Estimate>,
}

/// A closed sweep's requests per second at its last step within the SLO and at the next one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateBracket {
    pub low_per_s: Option<f64>,
    pub high_per_s: Option<f64>,
    pub note: String,
}

/// Candidate ÷ baseline, step by step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepComparison {
    pub baseline: String,
    pub candidate: String,
    pub steps: Vec<StepRatios>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRatios {
    pub stage: u16,
    pub value: Option<f64>,
    /// Candidate ÷ baseline by metric: `ttft_p50`, `tpot_p50`, `e2e_p50`, `requests_per_s`, `output_tokens_per_s`.
    pub speed: BTreeMap<String, Estimate>,
    /// Candidate − baseline over the step's pairs.
    pub accuracy_delta: Option<Estimate>,
}

/// How many replicas carry the demand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapacitySummary {
    pub rate_per_s: f64,
    pub peak_factor: f64,
    pub headroom: f64,
    /// One-sided level at which a step must hold the SLO.
    pub confidence: f64,
    /// What the numbers rest on beside the measurement.
    pub assumption: String,
    pub arms: BTreeMap<String, ArmCapacity>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArmCapacity {
    /// The highest step below the first one that does not hold the SLO.
    pub rate_per_replica: Option<f64>,
    /// Whether the sweep's highest step holds too, so that the replica carries at least that.
    pub at_least: bool,
    pub replicas: Option<u64>,
    /// By the price of a GPU hour; an exact decimal.
    pub usd_per_hour: Option<String>,
    /// What ended the search, or why there is no number.
    pub reason: String,
}
