//! A task's own examples: replies whose verdicts are known.

use super::build::{GradeError, build_task};
use super::combine::combine;
use super::grader::{AnswerText, FieldRenderer};
use super::reasoning::split_reasoning;
use super::score::Verdict;
use crate::spec::Task;

/// An example that does not get its verdict. `None` means unscored.
#[derive(Clone, Debug, PartialEq)]
pub struct ExampleFailure {
    /// Position in the task's `examples`.
    pub index: usize,
    pub expected: Option<bool>,
    pub got: Option<bool>,
    /// What each grader said.
    pub detail: String,
}

impl std::fmt::Display for ExampleFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = |verdict: Option<bool>| match verdict {
            Some(true) => "pass",
            Some(false) => "fail",
            None => "unscored",
        };
        let (number, expected, got) = (self.index + 1, word(self.expected), word(self.got));
        write!(f, "example {number} should be {expected}, but the graders say {got}: {}", self.detail)
    }
}

/// Runs the task's examples as completed replies.
pub fn check_examples(task: &Task, render: &FieldRenderer<'_>) -> Result<Vec<ExampleFailure>, GradeError> {
    let graders = build_task(task)?;
    let mut failures = Vec::new();
    for (index, example) in task.examples.iter().enumerate() {
        let split = split_reasoning(&example.reply, "");
        let answer =
            AnswerText { text: &split.answer, raw: &example.reply, reasoning: &split.reasoning, finish_reason: None };
        let records: Vec<_> =
            graders.iter().map(|built| built.record(built.grader.grade(&answer, &example.row, render))).collect();
        let got = combine(&records).pass;
        if got != example.pass {
            let said = records.iter().map(|record| format!("{}: {}", record.name, told(&record.verdict)));
            let detail = said.collect::<Vec<_>>().join("; ");
            failures.push(ExampleFailure { index, expected: example.pass, got, detail });
        }
    }
    Ok(failures)
}

fn told(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Scored(score) => {
            let word = if score.pass { "passes" } else { "fails" };
            let answer = score.answer.as_deref().map_or("no answer".to_owned(), |answer| format!("answer `{answer}`"));
            format!("{word}, {answer}, {}", score.explanation.as_deref().unwrap_or_default())
        }
        Verdict::Unscored { why, detail } => {
            format!("unscored ({}), {}", why.name(), detail.as_deref().unwrap_or_default())
        }
    }
}
