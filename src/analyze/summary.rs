//! What a run comes to: the one input of every report, and the shape of `summary.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::estimate::Estimate;
use super::histogram::Histogram;
use super::light::SpeedOfLight;
use super::sweep::{CapacitySummary, SweepSummary};
use crate::drive::Finding;

pub const SUMMARY_FORMAT: &str = "counterpoise.summary/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub format: String,
    pub suite: String,
    pub verdict: RunVerdict,
    pub run: RunInfo,
    pub gates: Vec<GateResult>,
    /// Arm names in the plan's order.
    pub arm_order: Vec<String>,
    pub arms: BTreeMap<String, ArmSummary>,
    pub comparisons: Vec<ComparisonSummary>,
    /// The load's steps or stages, where it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepSummary>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacitySummary>,
    pub validity: Vec<Finding>,
    pub environment: BTreeMap<String, Value>,
}

/// Ordered from best to worst; the run's verdict is the worst of its comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunVerdict {
    /// No gates.
    None,
    Pass,
    Inconclusive,
    Fail,
    Invalid,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    pub started_wall_ms: u64,
    pub harness_version: String,
    pub suite_hash: String,
    pub seed: u64,
    /// Some deployment is simulated: said in banner and report.
    pub simulated: bool,
    pub complete: bool,
    /// Why the run ended early, for people; absent where it did not.
    pub end_reason: Option<String>,
    /// `alternate`, `together`, `sequential`.
    pub arms_mode: String,
    pub samples: u64,
    pub repeats: u64,
    pub blocks: u64,
    /// Sum of the sessions' wall time.
    pub wall_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
    Pass,
    Inconclusive,
    NotEvaluable,
    Fail,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateResult {
    /// What is asked, in one line: `quality: accuracy loses at most 2 pp`.
    pub gate: String,
    /// `quality`, `speed`, `slo`, `stability`, `cost`.
    pub kind: String,
    /// The candidate arm.
    pub arm: String,
    /// `all`, `task capitals`, `category qa`.
    pub scope: String,
    pub verdict: GateVerdict,
    /// Unit of estimate and bound: `share` (0.02 = 2 pp), `ratio`, `ms`, `usd`, `per_s`.
    pub unit: String,
    pub estimate: Option<Estimate>,
    /// The limit that the estimate's end is held against.
    pub bound: Option<f64>,
    pub reason: String,
    pub advisory: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmSummary {
    pub deployment: String,
    pub optimization: String,
    pub model: Option<String>,
    pub twin_of: Option<String>,
    /// `planned`, then one entry for each outcome that occurred.
    pub requests: BTreeMap<String, u64>,
    /// Why samples are unscored, by count.
    pub unscored: BTreeMap<String, u64>,
    /// `accuracy` (passed ÷ scored), `success` (passed ÷ attempted), and each grader's name.
    pub quality: BTreeMap<String, QualityFigure>,
    pub latency: Latency,
    /// The first warm-up request; absent without one.
    #[serde(default)]
    pub cold_start: Option<ColdStart>,
    pub throughput: Throughput,
    pub tokens: Tokens,
    pub cost: Cost,
    pub stability: Stability,
    /// Server's own figures: medians of `timings`, counter deltas.
    pub server: BTreeMap<String, Value>,
    /// Only where the deployment states `model_shape`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_of_light: Option<SpeedOfLight>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QualityFigure {
    pub overall: Estimate,
    pub by_task: BTreeMap<String, Estimate>,
    pub by_category: BTreeMap<String, Estimate>,
}

/// Latencies of answered measured requests. Absent where no request has the figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub ttft_ms: Option<Distribution>,
    pub ttfa_ms: Option<Distribution>,
    pub tpot_ms: Option<Distribution>,
    pub itl_ms: Option<Distribution>,
    /// Whether ITL stands; absent without a streamed answer.
    #[serde(default)]
    pub itl_validity: Option<ItlValidity>,
    /// Gaps between token-bearing events, whatever they hold.
    #[serde(default)]
    pub icl_ms: Option<Distribution>,
    pub e2e_ms: Option<Distribution>,
    pub response_ms: Option<Distribution>,
    /// Open load: first token − intended instant.
    #[serde(default)]
    pub ttft_response_ms: Option<Distribution>,
    pub dispatch_lag_ms: Option<Distribution>,
    pub ttft_parts_ms: BTreeMap<String, Distribution>,
}

/// Whether gaps between events stand for gaps between tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ItlValidity {
    pub valid: bool,
    /// Share of streamed answers for which they do.
    pub share: f64,
    /// Why ITL is absent.
    pub reason: Option<String>,
}

/// What the first request to a deployment took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ColdStart {
    pub ttft_ms: Option<f64>,
    pub e2e_ms: Option<f64>,
}

/// A percentile is absent where n(1 − q) < 10.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub mean: Option<f64>,
    pub max: Option<f64>,
    pub n: u64,
    /// Order-statistic intervals (90 %) by percentile name.
    pub intervals: BTreeMap<String, (f64, f64)>,
    /// Up to 100 points (milliseconds, share at or below) for drawing.
    pub cdf: Vec<(f64, f64)>,
    /// All values, to be merged with those of other runs.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub histogram: Histogram,
}

/// Inside the arm's own windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    pub requests_per_s: Option<f64>,
    pub output_tokens_per_s: Option<f64>,
    pub input_tokens_per_s: Option<f64>,
    /// Length of the arm's own windows, together.
    pub window_s: f64,
}

/// Absent where any measured request lacks the count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    pub input: Option<u64>,
    pub cached_input: Option<u64>,
    pub output: Option<u64>,
    /// Share of answered requests whose server told the usage.
    pub usage_share: Option<f64>,
    /// Answers by where their output count comes from: `server`, `events`.
    #[serde(default)]
    pub provenance: BTreeMap<String, u64>,
}

/// Exact decimals as text; absent where unknown (no price, lost usage).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    pub total_usd: Option<String>,
    pub usd_per_request: Option<f64>,
    pub usd_per_success: Option<Estimate>,
    /// Why a figure is absent or what it leaves out.
    pub note: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stability {
    pub error_rate: Option<Estimate>,
    pub timeout_rate: Option<Estimate>,
    pub truncated_rate: Option<Estimate>,
    pub empty_rate: Option<Estimate>,
    pub retry_rate: Option<Estimate>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonSummary {
    pub baseline: String,
    pub candidate: String,
    pub optimization: String,
    pub verdict: RunVerdict,
    pub quality: BTreeMap<String, QualityDelta>,
    /// Candidate ÷ baseline by metric name: `ttft_p50`, `tpot_p50`, `requests_per_s`, …
    pub speed: BTreeMap<String, Estimate>,
    pub cost: CostRatios,
    pub noise_floor: Option<NoiseFloor>,
    /// Share of paired answers whose text is another.
    pub answers_changed: Option<Estimate>,
    /// Share of paired samples whose verdict is another.
    pub flip_rate: Option<Estimate>,
    /// Output tokens, candidate ÷ baseline, over paired answers.
    pub token_inflation: Option<Estimate>,
    /// Characters until the first difference, median over changed answers.
    pub first_divergence_chars: Option<f64>,
    /// At most 200, lost ones first.
    pub flips: Vec<Flip>,
    pub flips_total: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QualityDelta {
    /// Candidate − baseline, a share.
    pub delta: Estimate,
    pub gained: u64,
    pub lost: u64,
    pub both_right: u64,
    pub both_wrong: u64,
    /// Exact McNemar, two-sided.
    pub mcnemar_p: Option<f64>,
    /// The same for each task and category; empty inside those.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_task: BTreeMap<String, QualityDelta>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_category: BTreeMap<String, QualityDelta>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostRatios {
    pub usd_per_success_ratio: Option<Estimate>,
    pub usd_per_request_ratio: Option<Estimate>,
}

/// The twin's figures against the baseline: what the same deployment does to itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloor {
    pub twin: String,
    pub flip_rate: Option<f64>,
    pub answers_changed: Option<f64>,
    pub delta: Option<Estimate>,
    /// Twin ÷ baseline by metric.
    pub speed: BTreeMap<String, Estimate>,
    pub n: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flip {
    pub task: String,
    pub sample: u32,
    pub id: Option<String>,
    pub repeat: u32,
    pub direction: FlipDirection,
    /// The last user message, at most 400 characters; with a workload its end.
    pub prompt: String,
    /// Texts of at most 2000 characters.
    pub baseline_text: String,
    pub candidate_text: String,
    pub baseline_answer: Option<String>,
    pub candidate_answer: Option<String>,
    /// What the deciding grader says of the candidate's answer.
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlipDirection {
    Lost,
    Gained,
}
