//! What grading says of one request, held against its outcome: a failure is never graded as an answer.

use std::sync::Arc;

use crate::deploy::{Grading, Outcome};
use crate::grade::{GraderRecord, ScoreRecord, Unscored, Verdict};
use crate::spec::Task;

/// The verdict on one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graded {
    /// Absent where unscored.
    pub pass: Option<bool>,
    pub value: Option<f64>,
    /// What the deciding grader extracted.
    pub answer: Option<Box<str>>,
    /// Why the deciding grader says so.
    pub explanation: Option<Box<str>>,
    pub unscored_why: Option<Arc<str>>,
    /// Each grader's value and further measures (`json.raw`) by name; an unscored one is absent.
    pub metrics: Vec<(Arc<str>, Option<f64>)>,
}

impl Graded {
    /// The verdict by outcome and score line. An error is unscored whatever the line says; an answer that isn't one
    /// (empty, truncated, refused) fails where no line says otherwise.
    pub fn of(
        outcome: Outcome,
        score: Option<&ScoreRecord>,
        task: Option<&Task>,
        name: &mut impl FnMut(&str) -> Arc<str>,
    ) -> Graded {
        let unscored = |why: Arc<str>| Graded { unscored_why: Some(why), ..Graded::default() };
        if outcome.grading() == Grading::Unscored {
            return unscored(name(outcome.name()));
        }
        let graders = task.map(|t| t.graders.as_slice()).unwrap_or_default();
        match (score, outcome.grading()) {
            (Some(score), grading) => {
                let mut graded = of_record(score, name);
                if grading == Grading::NoAnswer && graded.pass == Some(false) && graded.metrics.is_empty() {
                    graded.metrics = graders.iter().map(|g| (name(&g.name), Some(0.0))).collect();
                }
                graded
            }
            (None, Grading::NoAnswer) if !graders.is_empty() => Graded {
                pass: Some(false),
                value: Some(0.0),
                metrics: graders.iter().map(|g| (name(&g.name), Some(0.0))).collect(),
                ..Graded::default()
            },
            (None, _) => unscored(name(if graders.is_empty() { "no_grader" } else { "not_graded" })),
        }
    }

    pub fn metric(&self, wanted: &str) -> Option<f64> {
        match wanted {
            "accuracy" => self.pass.map(|pass| f64::from(u8::from(pass))),
            "success" => Some(f64::from(u8::from(self.pass == Some(true)))),
            _ => self.metrics.iter().find(|(name, _)| **name == *wanted).and_then(|(_, value)| *value),
        }
    }
}

fn of_record(score: &ScoreRecord, name: &mut impl FnMut(&str) -> Arc<str>) -> Graded {
    let mut metrics = Vec::new();
    for grader in &score.graders {
        match &grader.verdict {
            Verdict::Scored(scored) => {
                metrics.push((name(&grader.name), share(scored.value)));
                for (measure, value) in &scored.measures {
                    metrics.push((name(&format!("{}.{measure}", grader.name)), share(*value)));
                }
            }
            Verdict::Unscored { .. } => metrics.push((name(&grader.name), None)),
        }
    }
    let why = match (score.pass, &score.unscored_why) {
        (Some(_), _) => None,
        (None, Some(why)) => Some(name(why)),
        (None, None) => Some(name(&Unscored::Undecided.name())),
    };
    Graded {
        pass: score.pass,
        value: score.value.and_then(share).filter(|_| score.pass.is_some()),
        answer: score.answer.as_deref().map(Box::from),
        explanation: explanation(score).map(Box::from),
        unscored_why: why,
        metrics,
    }
}

/// A value that is no share of 1 is no value.
fn share(value: f64) -> Option<f64> {
    value.is_finite().then(|| value.clamp(0.0, 1.0))
}

/// The first grader that failed, else the first one with a word to say.
fn explanation(score: &ScoreRecord) -> Option<&str> {
    let says = |grader: &&GraderRecord| matches!(&grader.verdict, Verdict::Scored(s) if s.explanation.is_some());
    let failed = |grader: &&GraderRecord| matches!(&grader.verdict, Verdict::Scored(s) if !s.pass);
    let deciding = score.graders.iter().filter(|g| g.weight > 0.0);
    let grader = deciding.clone().find(failed).or_else(|| deciding.clone().find(says))?;
    match &grader.verdict {
        Verdict::Scored(scored) => scored.explanation.as_deref(),
        Verdict::Unscored { detail, .. } => detail.as_deref(),
    }
}
