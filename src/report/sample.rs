//! The summary that the reports' tests show: `fixtures/report/summary.json`.

use crate::analyze::Summary;

pub fn summary() -> Summary {
    serde_json::from_str(include_str!("../../fixtures/report/summary.json")).unwrap()
}

/// The sweep of two simulated arms: `fixtures/report/sweep.json`.
pub fn sweep() -> Summary {
    serde_json::from_str(include_str!("../../fixtures/report/sweep.json")).unwrap()
}
