//! The seam: what every grader is, and the verdicts they all share.

use serde_json::Value;

use super::score::{Score, Unscored, Verdict};
use crate::spec::{Field, Row};

/// Renders a grader's field against a row. The error says what is wrong with the field or the row.
pub type FieldRenderer<'a> = dyn Fn(&Field, &Row) -> Result<Value, String> + 'a;

/// A reply as graders see it.
#[derive(Clone, Copy, Debug)]
pub struct AnswerText<'a> {
    /// The reply without its reasoning, or the part of it that an extraction chose.
    pub text: &'a str,
    /// The reply as the server sent it.
    pub raw: &'a str,
    /// Reasoning, from tags in the reply or from the server's own field.
    pub reasoning: &'a str,
    pub finish_reason: Option<&'a str>,
}

impl AnswerText<'_> {
    /// Whether there is nothing to grade. Empty never passes, whatever the grader.
    pub fn is_empty(&self) -> bool {
        self.text.chars().all(|c| c.is_whitespace() || super::fold::is_invisible(c))
    }
}

/// One way to judge an answer. Implementations are pure, and linear in the reply's size but for stated caps.
pub trait Grader: Send + Sync {
    /// The name in suites and files.
    fn kind(&self) -> &'static str;

    /// Bumped whenever scores of this kind can move.
    fn version(&self) -> u32;

    fn grade(&self, answer: &AnswerText<'_>, row: &Row, fields: &FieldRenderer<'_>) -> Verdict;
}

/// Extracted answers are cut to this many characters in verdicts.
const MAX_ANSWER_CHARS: usize = 400;

/// `text` without edge whitespace, cut to a length that a table carries.
pub fn clip(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MAX_ANSWER_CHARS) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
    }
}

/// A failing score without an answer.
pub fn no_answer(why: impl Into<String>) -> Verdict {
    Verdict::Scored(Score::binary(false, None, why))
}

pub fn scored(pass: bool, answer: impl Into<String>, why: impl Into<String>) -> Verdict {
    Verdict::Scored(Score::binary(pass, Some(answer.into()), why))
}

/// The suite's own expectation can't be used for this row.
pub fn suite_fault(detail: impl Into<String>) -> Verdict {
    Verdict::Unscored { why: Unscored::Suite, detail: Some(detail.into()) }
}
