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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::deploy::{Deadline, Usage};
    use crate::drive::Timeline;
    use crate::grade::{build_task, check_examples};
    use crate::plan::Phase;
    use crate::spec::{Dataset, Example, Field, GraderKind, GraderSpec, NumberLocale};
    use crate::units::Id;

    fn spec(name: &str, weight: f64, kind: GraderKind) -> GraderSpec {
        GraderSpec { name: name.to_owned(), weight, threshold: None, extract: None, kind }
    }

    fn task(graders: Vec<GraderSpec>) -> Task {
        Task {
            name: "t".to_owned(),
            category: None,
            dataset: Dataset::Cases(Vec::new()),
            messages: Vec::new(),
            cluster_by: None,
            graders,
            examples: Vec::new(),
            weight: 1.0,
            grade_truncated: false,
            latency: true,
            response_format: None,
            stop: Vec::new(),
        }
    }

    fn exact() -> GraderKind {
        GraderKind::Exact { answer: Field(json!("gold")) }
    }

    fn numeric() -> GraderKind {
        let answer = Field(json!("gold"));
        GraderKind::Numeric { answer, abs_tolerance: 0.0, rel_tolerance: 0.0, locale: NumberLocale::En }
    }

    fn attempt(outcome: Outcome, text: &str) -> Attempt {
        Attempt {
            unit: Id([1; 16]),
            pair: Id([2; 16]),
            arm: "q4".to_owned(),
            task: "t".to_owned(),
            sample: 3,
            repeat: 1,
            phase: Phase::Measured,
            session: 0,
            stage: 0,
            block: 0,
            slot: 0,
            lane: 0,
            attempt: 1,
            last: true,
            outcome,
            error: None,
            status: None,
            timeline: Timeline::default(),
            arrival_gaps_us: Vec::new(),
            arrival_bytes: Vec::new(),
            arrival_tokens: Vec::new(),
            text: text.to_owned(),
            reasoning: String::new(),
            finish_reason: None,
            usage: Usage::default(),
            output_tokens: None,
            reasoning_streamed: false,
            server_timings: None,
            system_fingerprint: None,
            served_model: None,
            sent_prompt_hash: None,
            truncated_chars: 0,
            stream: true,
            lane_reopened: false,
        }
    }

    /// The field names a column.
    fn column(field: &Field, row: &Row) -> Result<Value, String> {
        let name = field.0.as_str().ok_or("no column name")?;
        row.get(name).cloned().ok_or_else(|| format!("no column `{name}`"))
    }

    fn graded(task: &Task, outcome: Outcome, text: &str, gold: &Value) -> ScoreRecord {
        let row: Row = [("gold".to_owned(), gold.clone())].into_iter().collect();
        grade_request(task, &build_task(task).unwrap(), &row, &attempt(outcome, text), &column)
    }

    #[test]
    fn completed_replies_are_graded_by_their_text() {
        let task = task(vec![spec("exact", 1.0, exact())]);
        let right = graded(&task, Outcome::Completed, "Rome.", &json!("Rome"));
        assert_eq!((right.pass, right.value, right.answer.as_deref()), (Some(true), Some(1.0), Some("Rome.")));
        assert_eq!((right.sample, right.repeat, right.arm.as_str()), (3, 1, "q4"));
        assert_eq!(graded(&task, Outcome::Completed, "Oslo", &json!("Rome")).pass, Some(false));
        let thought = graded(&task, Outcome::Completed, "<think>Rome", &json!("Rome"));
        assert_eq!((thought.pass, thought.answer), (Some(false), None));
    }

    #[test]
    fn every_outcome_is_treated_as_the_table_says() {
        let task = task(vec![spec("exact", 1.0, exact())]);
        for outcome in Outcome::ALL {
            let record = graded(&task, outcome, "Rome", &json!("Rome"));
            let said = (record.pass, record.value, record.unscored_why.as_deref());
            match outcome.grading() {
                Grading::ByText => assert_eq!(said, (Some(true), Some(1.0), None)),
                Grading::NoAnswer => assert_eq!(said, (Some(false), Some(0.0), None), "{outcome:?}"),
                Grading::Unscored => assert_eq!(said, (None, None, Some(outcome.name())), "{outcome:?}"),
            }
            assert_eq!(record.graders.len(), 1);
        }
        let timeout = graded(&task, Outcome::Timeout(Deadline::FirstToken), "", &json!("Rome"));
        assert_eq!(timeout.unscored_why.as_deref(), Some("timeout"));
    }

    #[test]
    fn truncated_replies_are_graded_where_the_task_asks() {
        let mut task = task(vec![spec("exact", 1.0, exact())]);
        task.grade_truncated = true;
        assert_eq!(graded(&task, Outcome::Truncated, "Rome", &json!("Rome")).pass, Some(true));
        assert_eq!(graded(&task, Outcome::Truncated, "<think>Rome", &json!("Rome")).pass, Some(false));
        assert_eq!(graded(&task, Outcome::Empty, "", &json!("Rome")).pass, Some(false));
        assert_eq!(graded(&task, Outcome::RefusedByProvider, "Rome", &json!("Rome")).pass, Some(false));
    }

    #[test]
    fn negation_does_not_pass_what_has_no_answer() {
        let task = task(vec![spec("not", 1.0, GraderKind::Not(Box::new(spec("exact", 1.0, exact()))))]);
        assert_eq!(graded(&task, Outcome::Completed, "Oslo", &json!("Rome")).pass, Some(true));
        for outcome in [Outcome::Truncated, Outcome::Empty, Outcome::RefusedByProvider, Outcome::ContextOverflow] {
            assert_eq!(graded(&task, outcome, "Oslo", &json!("Rome")).pass, Some(false), "{outcome:?}");
        }
    }

    #[test]
    fn graders_combine_by_weight() {
        let specs = |a: f64, b: f64| task(vec![spec("text", a, exact()), spec("number", b, numeric())]);
        let run = |task: &Task, text: &str, gold: &str| graded(task, Outcome::Completed, text, &json!(gold));
        let both = run(&specs(3.0, 1.0), "the 5", "5");
        assert_eq!((both.pass, both.value, both.answer.as_deref()), (Some(false), Some(0.25), Some("the 5")));
        // Weight 0 measures and never decides, nor do its unscored rows count.
        let measured = run(&specs(1.0, 0.0), "x", "x");
        assert_eq!((measured.pass, measured.value), (Some(true), Some(1.0)));
        assert_eq!(measured.graders.len(), 2);
        // Any failed is failed; else any unscored is unscored.
        assert_eq!(run(&specs(1.0, 1.0), "y", "x").pass, Some(false));
        let unscored = run(&specs(1.0, 1.0), "x", "x");
        assert_eq!((unscored.pass, unscored.value), (None, None));
        assert_eq!(unscored.unscored_why.as_deref(), Some("suite_error"));
        // Nothing decides: neither a verdict nor a reason.
        let nothing = run(&specs(0.0, 0.0), "x", "x");
        assert_eq!((nothing.pass, nothing.unscored_why), (None, None));
    }

    #[test]
    fn an_unusable_gold_is_unscored_whatever_the_outcome() {
        let task = task(vec![spec("exact", 1.0, exact())]);
        for outcome in [Outcome::Completed, Outcome::Truncated] {
            assert_eq!(graded(&task, outcome, "Rome", &json!(null)).unscored_why.as_deref(), Some("suite_error"));
        }
    }

    #[test]
    fn examples_tell_which_verdict_they_missed() {
        let mut task = task(vec![spec("exact", 1.0, exact())]);
        let row: Row = [("gold".to_owned(), json!("Rome"))].into_iter().collect();
        let example = |row: &Row, reply: &str, pass| Example { row: row.clone(), reply: reply.to_owned(), pass };
        task.examples = vec![
            example(&row, "Rome.", Some(true)),
            example(&row, "Oslo", Some(true)),
            example(&Row::new(), "Oslo", None),
            example(&Row::new(), "Oslo", Some(false)),
        ];
        let failures = check_examples(&task, &column).unwrap();
        let told: Vec<_> = failures.iter().map(|f| (f.index, f.expected, f.got)).collect();
        assert_eq!(told, [(1, Some(true), Some(false)), (3, Some(false), None)]);
        assert!(failures[0].detail.contains("Oslo") && failures[1].detail.contains("no column `gold`"), "{failures:?}");
    }
}
