//! What the shape of an arm's streams says of its figures.

use super::rows::{Row, Run};
use crate::drive::{Finding, Severity};
use crate::plan::Plan;

/// Share of answers that must show it.
const SHARE_NEEDED: f64 = 0.1;
/// The first event is told to hold more than one token where so many tokens are missing from the events.
const MISSING_NEEDED: u64 = 2;

/// Arms whose events hold more tokens than events, without saying which: TPOT then counts one token in the first event
/// and is too low by what else it held.
pub fn first_chunk_unknown(plan: &Plan, run: &Run) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, arm) in plan.arms.iter().enumerate() {
        let timed: Vec<&Row> = run.rows_of(index).filter(|row| row.tpot_ms.is_some()).collect();
        let bundled = timed.iter().filter(|row| row.tokens_beyond_events.is_some_and(|n| n >= MISSING_NEEDED)).count();
        if timed.is_empty() || (bundled as f64) < SHARE_NEEDED * timed.len() as f64 {
            continue;
        }
        let message = format!(
            "`{}` sends several tokens in one event in {bundled} of {} answers and does not say how many: TPOT takes \
             the first event for one token, and is too low by what else it held",
            arm.name,
            timed.len()
        );
        findings.push(Finding {
            code: "first_chunk_unknown".to_owned(),
            severity: Severity::Informs,
            arm: Some(arm.name.clone()),
            message,
        });
    }
    findings
}
