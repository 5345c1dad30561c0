//! The summary that the reports' tests show: `fixtures/report/summary.json`.

use crate::analyze::Summary;

pub fn summary() -> Summary {
    serde_json::from_str(include_str!("../../fixtures/report/summary.json")).unwrap()
}
