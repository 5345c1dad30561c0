//! Speed of light: how fast an arm could be by its hardware's bandwidth and arithmetic, and how near it comes.
//!
//! After Arseny Kapoulkine, "LLM inference speed of light" (2024): decoding reads every active weight and the sequence's
//! KV cache for each token, and reading is what takes the time; a prompt's tokens share one reading, so that
//! arithmetic bounds them. Both bounds hold for one sequence, however many run beside it, and neither counts attention's
//! own arithmetic: no request can be faster, unless one step gives several tokens (speculative decoding).

use serde::{Deserialize, Serialize};

use super::SHOWN_LEVEL;
use super::arms::name_of;
use super::estimate::Estimate;
use super::rows::{Row, Run};
use super::stats::{percentile, percentile_estimate, sorted};
use super::summary::{Latency, Summary};
use crate::drive::{Finding, Severity};
use crate::plan::Plan;
use crate::spec::{CacheMode, Deployment, Hardware, ModelShape, Optimization, ShapeSource};

/// A median this far below the bound, by its whole interval, contradicts what the suite states.
const BELOW_BOUND: f64 = 0.98;

/// An arm's bounds and how near its requests come to them. Absent what hardware or shape do not tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedOfLight {
    /// Where the model's sizes come from, for people.
    pub source: String,
    pub weight_bytes: Option<f64>,
    pub kv_bytes_per_token: Option<f64>,
    /// Median over answered requests of what each can't undercut, as `prefill_bound_ms`.
    pub tpot_bound_ms: Option<f64>,
    /// Median of measured ÷ bound, each request by its own bound: 1 is the speed of light, 2 is half of it.
    pub tpot_over_bound: Option<Estimate>,
    pub prefill_bound_ms: Option<f64>,
    pub prefill_over_bound: Option<Estimate>,
    /// `server` (its own time for the prompt) or `ttft` (queue and network included).
    pub prefill_measured_by: Option<String>,
    /// Prompt and answer together, mean over answered requests.
    pub mean_sequence_tokens: Option<f64>,
    /// Sequences of that length whose KV caches fit into memory beside the weights.
    pub sequences_that_fit: Option<u64>,
}

/// Fills in the bounds of every arm whose deployment states what they need. Ratios stand only where the latency itself
/// does, so this comes after figures are withdrawn.
pub fn fill(plan: &Plan, run: &Run, summary: &mut Summary) {
    let mut findings = Vec::new();
    for (index, arm) in plan.arms.iter().enumerate() {
        let Some(deployment) = plan.suite.deployment(&arm.deployment) else { continue };
        let Some(figures) = summary.arms.get_mut(&arm.name) else { continue };
        let rows: Vec<&Row> = run.rows_of(index).filter(|row| row.is_answered()).collect();
        figures.speed_of_light = of_arm(deployment, plan.suite.cache, &rows, &figures.latency);
        findings.extend(figures.speed_of_light.as_ref().and_then(|light| beaten(&arm.name, deployment, &rows, light)));
    }
    summary.validity.extend(findings);
}

fn of_arm(deployment: &Deployment, cache: CacheMode, rows: &[&Row], latency: &Latency) -> Option<SpeedOfLight> {
    let shape = deployment.model_shape.as_ref()?;
    let hardware = deployment.hardware.unwrap_or_default();
    let tpot = ratios(rows, |row| row.tpot_ms, |row| tpot_bound_ms(&hardware, shape, row));
    let (prefill, measured_by) = prefill(&hardware, shape, cache, rows);
    let mean_sequence_tokens =
        mean(rows.iter().filter_map(|row| Some((row.input_tokens? + row.output_tokens?) as f64)));
    let over = |ratios: &Ratios, stands: bool| ratios.over.clone().filter(|_| stands);
    Some(SpeedOfLight {
        source: source(shape),
        weight_bytes: shape.weight_bytes,
        kv_bytes_per_token: shape.kv_bytes_per_token(),
        tpot_bound_ms: tpot.bound_ms,
        tpot_over_bound: over(&tpot, latency.tpot_ms.is_some()),
        prefill_bound_ms: prefill.bound_ms,
        prefill_over_bound: over(&prefill, latency.ttft_ms.is_some() || measured_by == "server"),
        prefill_measured_by: prefill.over.is_some().then(|| measured_by.to_owned()),
        mean_sequence_tokens,
        sequences_that_fit: mean_sequence_tokens.and_then(|tokens| fitting(&hardware, shape, tokens)),
    })
}

fn source(shape: &ModelShape) -> String {
    match &shape.source {
        ShapeSource::Stated => "stated in the suite".to_owned(),
        ShapeSource::Gguf(name) | ShapeSource::Config(name) => format!("read from {name}"),
    }
}

/// The least time between two tokens in milliseconds: every active weight, and the KV cache at the middle of the answer,
/// read once. Without a known KV cache the weights alone, which bound it too.
pub fn tpot_bound_ms(hardware: &Hardware, shape: &ModelShape, row: &Row) -> Option<f64> {
    let context = row.input_tokens? as f64 + row.output_tokens? as f64 / 2.0;
    let bytes = shape.read_bytes? + shape.kv_bytes_per_token().map_or(0.0, |each| each * context);
    Some(bytes / (hardware.bandwidth_gb_s? * 1e6))
}

/// The least time to process a prompt of so many tokens in milliseconds: two operations for each weight and token, or one
/// reading of the weights, whichever takes longer.
pub fn prefill_bound_ms(hardware: &Hardware, shape: &ModelShape, tokens: f64) -> Option<f64> {
    let arithmetic =
        shape.active_params.zip(hardware.tflops).map(|(params, tflops)| 2.0 * params * tokens / (tflops * 1e9));
    let reading = shape.read_bytes.zip(hardware.bandwidth_gb_s).map(|(bytes, gb_s)| bytes / (gb_s * 1e6));
    match (arithmetic, reading) {
        (Some(arithmetic), Some(reading)) => Some(arithmetic.max(reading)),
        (arithmetic, reading) => arithmetic.or(reading),
    }
    .filter(|_| tokens >= 1.0)
}

/// Sequences of so many tokens whose KV caches fit beside the weights.
fn fitting(hardware: &Hardware, shape: &ModelShape, tokens: f64) -> Option<u64> {
    let free = hardware.memory_gb? * 1e9 - shape.weight_bytes?;
    let each = shape.kv_bytes_per_token()? * tokens;
    (each > 0.0).then(|| (free / each).floor().max(0.0) as u64)
}

#[derive(Clone, Debug, Default)]
struct Ratios {
    /// Median of the requests' bounds.
    bound_ms: Option<f64>,
    /// Median of measured ÷ bound, each request by its own.
    over: Option<Estimate>,
}

fn ratios(rows: &[&Row], measured: impl Fn(&Row) -> Option<f64>, bound: impl Fn(&Row) -> Option<f64>) -> Ratios {
    let bounds = sorted(rows.iter().filter_map(|row| bound(row)));
    let over = sorted(rows.iter().filter_map(|row| Some(measured(row)? / bound(row).filter(|b| *b > 0.0)?)));
    Ratios {
        bound_ms: percentile(&bounds, 0.5),
        over: (!over.is_empty()).then(|| percentile_estimate(&over, 0.5, SHOWN_LEVEL)),
    }
}

/// A prompt's processing by the server's own clock where every answer tells it, else by TTFT, which holds queue and
/// network too. Tokens that came from a cache were not processed: a prompt whose cached tokens are not told has no bound.
fn prefill(hardware: &Hardware, shape: &ModelShape, cache: CacheMode, rows: &[&Row]) -> (Ratios, &'static str) {
    let bound = |row: &Row| {
        let cached = row.cached_tokens.or((cache == CacheMode::Cold).then_some(0))?;
        prefill_bound_ms(hardware, shape, row.input_tokens?.saturating_sub(cached) as f64)
    };
    let told = !rows.is_empty() && rows.iter().all(|row| row.server.prompt_ms.is_some());
    if told {
        (ratios(rows, |row| row.server.prompt_ms.filter(|ms| *ms > 0.0), bound), "server")
    } else {
        (ratios(rows, |row| row.ttft_ms, bound), "ttft")
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0_u64), |(sum, n), value| (sum + value, n + 1));
    (n > 0).then(|| sum / n as f64)
}

/// An arm that is faster than its bound: bandwidth, arithmetic or sizes are not what the suite states.
fn beaten(arm: &str, deployment: &Deployment, rows: &[&Row], light: &SpeedOfLight) -> Option<Finding> {
    let drafts = deployment.optimization == Optimization::Speculative
        || rows.iter().any(|row| row.server.draft_n.is_some_and(|n| n > 0));
    let below =
        |over: &Option<Estimate>| over.as_ref().and_then(|over| over.high).is_some_and(|high| high < BELOW_BOUND);
    let what = match (below(&light.tpot_over_bound) && !drafts, below(&light.prefill_over_bound)) {
        (true, _) => "makes tokens faster than the stated bandwidth can read the weights",
        (false, true) => "processes prompts faster than the stated hardware can",
        (false, false) => return None,
    };
    Some(Finding {
        code: "beats_speed_of_light".to_owned(),
        severity: Severity::Informs,
        arm: Some(arm.to_owned()),
        message: format!(
            "`{arm}` ({}) {what}: check `hardware` and `model_shape` (sizes {})",
            name_of(&deployment.optimization),
            light.source
        ),
    })
}
