//! Speed of light: each arm's bounds beside how near it comes to them.

use serde::Serialize;

use super::{Cell, arm_names, name};
use crate::analyze::Summary;
use crate::analyze::light::SpeedOfLight;
use crate::report::format::{self, Unit};

#[derive(Serialize)]
pub struct Light {
    pub rows: Vec<Row>,
}

#[derive(Serialize)]
pub struct Row {
    pub arm: String,
    pub source: String,
    pub cells: Vec<Cell>,
}

/// Absent where no arm states what its model is made of.
pub fn light(summary: &Summary) -> Option<Light> {
    let of_arm = |arm: &str| Some((name(arm), summary.arms.get(arm)?.speed_of_light.as_ref()?));
    let rows: Vec<Row> =
        arm_names(summary).into_iter().filter_map(of_arm).map(|(arm, light)| row(arm, light)).collect();
    (!rows.is_empty()).then_some(Light { rows })
}

fn row(arm: String, light: &SpeedOfLight) -> Row {
    let bandwidth = "needs `hardware: bandwidth_gb_s`, the weights' bytes and the server's token counts";
    let arithmetic = "needs `hardware: tflops` or `bandwidth_gb_s`, and told counts of prompt and cached tokens";
    let withdrawn = "no bound, or the latency is withdrawn";
    let measured_by = match light.prefill_measured_by.as_deref() {
        Some("server") => "by the server’s own time for the prompt",
        _ => "by TTFT: queue and network included",
    };
    let mut prefill = Cell::estimate(Unit::Ratio, light.prefill_over_bound.as_ref(), withdrawn);
    if light.prefill_over_bound.is_some() {
        prefill.title = format!("{measured_by}; {}", prefill.title);
    }
    Row {
        arm,
        source: name(&light.source),
        cells: vec![
            Cell::figure(Unit::Ms, light.tpot_bound_ms, bandwidth),
            Cell::estimate(Unit::Ratio, light.tpot_over_bound.as_ref(), withdrawn),
            Cell::figure(Unit::Ms, light.prefill_bound_ms, arithmetic),
            prefill,
            bytes(light.weight_bytes, "the weights' bytes are not stated"),
            bytes(light.kv_bytes_per_token, "the KV cache's sizes are not stated"),
            fitting(light),
        ],
    }
}

fn bytes(value: Option<f64>, why_absent: &str) -> Cell {
    match value.filter(|value| value.is_finite()) {
        Some(value) => Cell::text(format::bytes(value)),
        None => Cell::absent(why_absent),
    }
}

fn fitting(light: &SpeedOfLight) -> Cell {
    let mut cell = Cell::count(light.sequences_that_fit, "needs `hardware: memory_gb`, all sizes and token counts");
    if let Some(tokens) = light.mean_sequence_tokens.filter(|_| light.sequences_that_fit.is_some()) {
        cell.title = format!("of {} tokens each, this run’s mean", format::significant(tokens));
    }
    cell
}
