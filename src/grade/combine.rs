//! From verdicts to one: the sample's own, and the combinators `all`, `any` and `not`.

use super::build::Built;
use super::grader::{AnswerText, FieldRenderer, Grader, no_answer};
use super::score::{GraderRecord, Score, Unscored, Verdict};
use crate::spec::Row;

/// A sample's verdict.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Combined {
    /// Absent where unscored, or where no grader decides.
    pub pass: Option<bool>,
    /// Weighted mean over the scored graders of weight > 0; absent where `pass` is.
    pub value: Option<f64>,
    /// What the deciding grader extracted: the first failing one of weight > 0, else the first of weight > 0.
    pub answer: Option<String>,
    pub unscored: Option<Unscored>,
}

/// Any failed → failed; else any unscored → unscored; else passed. Graders of weight 0 measure and never decide.
pub fn combine(records: &[GraderRecord]) -> Combined {
    let deciding: Vec<&GraderRecord> = records.iter().filter(|record| record.weight > 0.0).collect();
    let scores: Vec<(f64, &Score)> = deciding.iter().filter_map(|r| Some((r.weight, r.verdict.score()?))).collect();
    let failed = scores.iter().map(|(_, score)| *score).find(|score| !score.pass);
    let unscored = deciding.iter().find_map(|record| match &record.verdict {
        Verdict::Unscored { why, .. } => Some(why.clone()),
        Verdict::Scored(_) => None,
    });
    match (failed, unscored) {
        (Some(score), _) => {
            Combined { pass: Some(false), value: weighted_mean(&scores), answer: score.answer.clone(), unscored: None }
        }
        (None, Some(why)) => Combined { unscored: Some(why), ..Combined::default() },
        (None, None) => match scores.first() {
            None => Combined::default(),
            Some((_, first)) => Combined {
                pass: Some(true),
                value: weighted_mean(&scores),
                answer: first.answer.clone(),
                unscored: None,
            },
        },
    }
}

fn weighted_mean(scores: &[(f64, &Score)]) -> Option<f64> {
    let total: f64 = scores.iter().map(|(weight, _)| weight).sum();
    (total > 0.0).then(|| scores.iter().map(|(weight, score)| weight * score.value).sum::<f64>() / total)
}

impl Verdict {
    pub fn score(&self) -> Option<&Score> {
        match self {
            Verdict::Scored(score) => Some(score),
            Verdict::Unscored { .. } => None,
        }
    }
}

/// Passes where every part passes; value is the weighted mean of the parts.
pub struct All(pub Vec<Built>);

/// Passes where any part passes; value is the best part's.
pub struct Any(pub Vec<Built>);

/// Passes where its part fails with an answer: what could not be parsed cannot pass by negation.
pub struct Not(pub Box<Built>);

fn parts(parts: &[Built], answer: &AnswerText<'_>, row: &Row, fields: &FieldRenderer<'_>) -> Vec<GraderRecord> {
    parts.iter().map(|part| part.record(part.grader.grade(answer, row, fields))).collect()
}

fn named(record: &GraderRecord, score: &Score) -> String {
    format!("{}: {}", record.name, score.explanation.as_deref().unwrap_or("no reason given"))
}

impl Grader for All {
    fn kind(&self) -> &'static str {
        "all"
    }

    fn version(&self) -> u32 {
        1
    }

    fn grade(&self, answer: &AnswerText<'_>, row: &Row, fields: &FieldRenderer<'_>) -> Verdict {
        let records = parts(&self.0, answer, row, fields);
        let combined = combine(&records);
        let failing = || records.iter().filter(|r| r.weight > 0.0 && r.verdict.score().is_some_and(|s| !s.pass));
        match combined.pass {
            None => first_unscored(&records),
            Some(true) => verdict(true, combined.value, combined.answer, "every part passes".to_owned()),
            Some(false) => {
                // A part that failed with an answer decides also under `not`, so it goes before parts without.
                let answered = failing().find_map(|r| r.verdict.score()?.answer.clone());
                let why = failing().next().and_then(|r| Some(named(r, r.verdict.score()?))).unwrap_or_default();
                verdict(false, combined.value, answered, why)
            }
        }
    }
}

impl Grader for Any {
    fn kind(&self) -> &'static str {
        "any"
    }

    fn version(&self) -> u32 {
        1
    }

    fn grade(&self, answer: &AnswerText<'_>, row: &Row, fields: &FieldRenderer<'_>) -> Verdict {
        let records = parts(&self.0, answer, row, fields);
        let deciding = || records.iter().filter(|r| r.weight > 0.0);
        let scores: Vec<(&GraderRecord, &Score)> = deciding().filter_map(|r| Some((r, r.verdict.score()?))).collect();
        let best = scores.iter().map(|(_, score)| score.value).fold(0.0, f64::max);
        if let Some((record, score)) = scores.iter().find(|(_, score)| score.pass) {
            return verdict(true, Some(best), score.answer.clone(), named(record, score));
        }
        if scores.len() < deciding().count() {
            return first_unscored(&records);
        }
        // Under `not`, one part that could not be parsed is enough to fail.
        let all_answered = scores.iter().all(|(_, score)| score.answer.is_some());
        let answer = scores.first().and_then(|(_, score)| score.answer.clone()).filter(|_| all_answered);
        let why = scores.first().map(|(record, score)| named(record, score)).unwrap_or_default();
        verdict(false, Some(best), answer, why)
    }
}

impl Grader for Not {
    fn kind(&self) -> &'static str {
        "not"
    }

    fn version(&self) -> u32 {
        1
    }

    fn grade(&self, answer: &AnswerText<'_>, row: &Row, fields: &FieldRenderer<'_>) -> Verdict {
        let record = self.0.record(self.0.grader.grade(answer, row, fields));
        match &record.verdict {
            Verdict::Unscored { .. } => record.verdict,
            Verdict::Scored(score) if score.answer.is_none() => no_answer(named(&record, score)),
            Verdict::Scored(score) => verdict(
                !score.pass,
                Some(1.0 - score.value),
                score.answer.clone(),
                format!("not {}", named(&record, score)),
            ),
        }
    }
}

fn verdict(pass: bool, value: Option<f64>, answer: Option<String>, why: String) -> Verdict {
    let value = value.unwrap_or(if pass { 1.0 } else { 0.0 });
    Verdict::Scored(Score { value, ..Score::binary(pass, answer, why) })
}

/// The first unscored verdict among the parts of weight > 0.
fn first_unscored(records: &[GraderRecord]) -> Verdict {
    let found = records.iter().find(|r| r.weight > 0.0 && r.verdict.score().is_none());
    found.map_or_else(|| super::grader::suite_fault("no part of weight above 0"), |record| record.verdict.clone())
}
