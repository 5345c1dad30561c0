//! Expected answers that no reply could be compared with, found before anything is sent.

use super::build::{GradeError, build_task};
use super::grader::{AnswerText, FieldRenderer};
use super::score::{Unscored, Verdict};
use crate::spec::{Row, Task};

/// Failures that are listed one by one.
const MAX_LISTED: usize = 20;

/// A row whose expected answer a grader can't use.
#[derive(Clone, Debug, PartialEq)]
pub struct GoldFailure {
    /// Position in the dataset, from 0.
    pub row: usize,
    pub grader: String,
    pub detail: String,
}

impl std::fmt::Display for GoldFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "row {}: grader `{}`: {}", self.row + 1, self.grader, self.detail)
    }
}

/// What [`check_golds`] found: the first failures and how many more there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GoldFailures {
    pub listed: Vec<GoldFailure>,
    pub more: usize,
}

/// Grades an empty reply to every row: what is the suite's fault even then is an expected answer that can't be used.
pub fn check_golds(task: &Task, rows: &[Row], render: &FieldRenderer<'_>) -> Result<GoldFailures, GradeError> {
    let graders = build_task(task)?;
    let empty = AnswerText { text: "", raw: "", reasoning: "", finish_reason: None };
    let mut failures = GoldFailures::default();
    for (row, values) in rows.iter().enumerate() {
        for built in &graders {
            let Verdict::Unscored { why: Unscored::Suite, detail } = built.grader.grade(&empty, values, render) else {
                continue;
            };
            if failures.listed.len() < MAX_LISTED {
                let detail = detail.unwrap_or_default();
                failures.listed.push(GoldFailure { row, grader: built.name.clone(), detail });
            } else {
                failures.more += 1;
            }
        }
    }
    Ok(failures)
}
