//! Gates of a resolved suite.

use serde::{Deserialize, Serialize};

use super::suite::SpeedMetric;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    pub kind: GateKind,
    pub scope: Scope,
    /// An advisory gate is shown and never decides.
    pub advisory: bool,
}

/// Restricts a gate to a task or a category; empty means the whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    pub task: Option<String>,
    pub category: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Each {
    Task,
    Category,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateKind {
    /// Non-inferiority of a quality metric: `margin` and `at_least` are shares (0.02 for 2pp).
    Quality { metric: String, margin: f64, confidence: f64, at_least: Option<f64>, each: Option<Each> },
    /// Ratio candidate ÷ baseline; decided by the interval's end at `confidence` (one-sided).
    Speed { metric: SpeedMetric, ratio_at_most: Option<f64>, ratio_at_least: Option<f64>, confidence: f64 },
    /// All of `slo:`; by the observed value, by a bound where `confidence` is set.
    Slo { confidence: Option<f64> },
    /// A rate of the candidate's requests (`error_rate`, `timeout_rate`, `truncated_rate`, `empty_rate`, `retry_rate`).
    Stability { metric: String, at_most: f64, confidence: Option<f64> },
    /// `usd_per_request` or `usd_per_success`, candidate ÷ baseline.
    Cost { metric: CostMetric, ratio_at_most: f64, confidence: f64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostMetric {
    UsdPerRequest,
    UsdPerSuccess,
}

impl Gate {
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            GateKind::Quality { .. } => "quality",
            GateKind::Speed { .. } => "speed",
            GateKind::Slo { .. } => "slo",
            GateKind::Stability { .. } => "stability",
            GateKind::Cost { .. } => "cost",
        }
    }
}

/// The rates that a stability gate may name.
pub const STABILITY_METRICS: [&str; 5] = ["error_rate", "timeout_rate", "truncated_rate", "empty_rate", "retry_rate"];
