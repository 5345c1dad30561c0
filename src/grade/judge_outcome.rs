//! One request's score: what its outcome says first, then what its text says.

use super::build::Built;
use super::combine::combine;
use super::grader::{AnswerText, FieldRenderer};
use super::reasoning::{ReasoningEnd, split_reasoning};
use super::score::{GraderRecord, Score, ScoreRecord, Unscored, Verdict};
use crate::deploy::{Grading, Outcome};
use crate::drive::Attempt;
use crate::spec::{Row, Task};

/// Grades the attempt that decided a request.
///
/// A completed reply is graded by its text. Truncated, empty, refused and overflown ones fail as no answer and count
/// (`grade_truncated` grades a truncated one's text). Errors are unscored, by the outcome's name. A task whose graders
/// all have weight 0, or that has none, gives neither pass nor a reason.
pub fn grade_request(
    task: &Task,
    graders: &[Built],
    sample_row: &Row,
    attempt: &Attempt,
    render: &FieldRenderer<'_>,
) -> ScoreRecord {
    let by_text = match attempt.outcome.grading() {
        Grading::ByText => true,
        Grading::NoAnswer => attempt.outcome == Outcome::Truncated && task.grade_truncated,
        Grading::Unscored => return record(attempt, unscored(graders, attempt.outcome)),
    };
    let split = if by_text { split_reasoning(&attempt.text, &attempt.reasoning) } else { split_reasoning("", "") };
    let answer = AnswerText {
        text: &split.answer,
        raw: &attempt.text,
        reasoning: &split.reasoning,
        finish_reason: attempt.finish_reason.as_deref(),
    };
    let why_empty = match (by_text, split.end) {
        (false, _) => Some(format!("{}: no answer", attempt.outcome.name())),
        (true, ReasoningEnd::Unclosed) if answer.is_empty() => Some("the reasoning never ended: no answer".to_owned()),
        (true, _) => None,
    };
    let graded = graders.iter().map(|built| {
        let verdict = built.grader.grade(&answer, sample_row, render);
        built.record(explained(verdict, why_empty.as_deref()))
    });
    record(attempt, graded.collect())
}

/// Puts the outcome's reason in place of the grader's "the reply is empty".
fn explained(verdict: Verdict, why: Option<&str>) -> Verdict {
    match (verdict, why) {
        (Verdict::Scored(score), Some(why)) => {
            Verdict::Scored(Score { explanation: Some(why.to_owned()), pass: false, answer: None, ..score })
        }
        (verdict, _) => verdict,
    }
}

fn unscored(graders: &[Built], outcome: Outcome) -> Vec<GraderRecord> {
    let why = Unscored::Outcome(outcome.name().to_owned());
    graders.iter().map(|built| built.record(Verdict::Unscored { why: why.clone(), detail: None })).collect()
}

fn record(attempt: &Attempt, graders: Vec<GraderRecord>) -> ScoreRecord {
    let combined = combine(&graders);
    ScoreRecord {
        unit: attempt.unit,
        pair: attempt.pair,
        arm: attempt.arm.clone(),
        task: attempt.task.clone(),
        sample: attempt.sample,
        repeat: attempt.repeat,
        pass: combined.pass,
        value: combined.value,
        answer: combined.answer,
        unscored_why: combined.unscored.map(|why| why.name()),
        graders,
    }
}
