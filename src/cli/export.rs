//! CSV exports: one row for each request, or for each request and grader.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use rust_decimal::Decimal;

use super::error::CliError;
use crate::analyze::{figures, money};
use crate::drive::{Attempt, Event};
use crate::grade::{GraderRecord, ScoreRecord, Verdict};
use crate::plan::{Phase, Plan};
use crate::record::{RecordError, RunDir};
use crate::report::rows::{GradeRow, RequestRow, write_csv, write_grades_csv};
use crate::units::Id;

/// One row for each measured request, in the order in which they ended.
pub fn requests_csv(dir: &RunDir, plan: &Plan, path: &Path) -> Result<(), CliError> {
    let mut scores: HashMap<Id, ScoreRecord> = HashMap::new();
    for score in dir.scores::<ScoreRecord>()? {
        let score = score?;
        scores.insert(score.unit, score);
    }
    let mut requests = Requests { plan, scores, spent: HashMap::new(), failure: None };
    let journal = dir.journal()?;
    write_csv(journal.filter_map(|event| requests.row(event)), create(path)?)?;
    requests.failure.map_or(Ok(()), |error| Err(error.into()))
}

/// Carries what spans several attempts of a request, and the first line that can't be read.
struct Requests<'a> {
    plan: &'a Plan,
    scores: HashMap<Id, ScoreRecord>,
    /// Spend of earlier attempts; `None` once a part is unknown.
    spent: HashMap<Id, Option<Decimal>>,
    failure: Option<RecordError>,
}

impl Requests<'_> {
    fn row(&mut self, event: Result<Event, RecordError>) -> Option<RequestRow> {
        let attempt = match event {
            Ok(Event::Attempt(attempt)) if attempt.phase == Phase::Measured => attempt,
            Ok(_) => return None,
            Err(error) => {
                self.failure.get_or_insert(error);
                return None;
            }
        };
        let arm = self.plan.arms.iter().find(|arm| arm.name == attempt.arm)?;
        let price = self.plan.suite.deployment(&arm.deployment).and_then(|d| d.price.as_ref());
        let usd = price.and_then(|price| money::attempt_spend(price, &attempt));
        let before = self.spent.entry(attempt.unit).or_insert(Some(Decimal::ZERO));
        *before = before.zip(usd).map(|(sum, usd)| sum + usd);
        if !attempt.last {
            return None;
        }
        let usd = self.spent.remove(&attempt.unit).flatten();
        // A unit that two sessions answered has one row: the score stands with the first.
        let score = self.scores.remove(&attempt.unit)?;
        Some(self.of(&attempt, &score, usd))
    }

    fn of(&self, attempt: &Attempt, score: &ScoreRecord, usd: Option<Decimal>) -> RequestRow {
        RequestRow {
            unit: attempt.unit.to_string(),
            arm: attempt.arm.clone(),
            task: attempt.task.clone(),
            category: self.plan.suite.task(&attempt.task).and_then(|t| t.category.clone()),
            sample: sample_name(self.plan, attempt.sample),
            repeat: attempt.repeat,
            phase: "measured".to_owned(),
            slot: attempt.slot,
            attempts: attempt.attempt,
            outcome: attempt.outcome.name().to_owned(),
            finish_reason: attempt.finish_reason.clone(),
            pass: score.pass,
            value: score.value,
            answer: score.answer.clone(),
            unscored_why: score.unscored_why.clone(),
            ttft_ms: figures::ttft_ms(attempt),
            tpot_ms: figures::tpot_ms(attempt),
            e2e_ms: figures::e2e_ms(attempt),
            input_tokens: attempt.usage.prompt_tokens,
            cached_tokens: attempt.usage.cached_tokens,
            output_tokens: attempt.output_tokens.map(|(tokens, _)| tokens),
            usd: usd.map(|usd| usd.normalize().to_string()),
            stage: attempt.stage,
        }
    }
}

/// One row for each request and grader.
pub fn grades_csv(dir: &RunDir, plan: &Plan, path: &Path) -> Result<(), CliError> {
    let mut failure = None;
    let rows = dir.scores::<ScoreRecord>()?.map_while(|score| match score {
        Ok(score) => Some(score),
        Err(error) => {
            failure = Some(error);
            None
        }
    });
    let rows = rows.flat_map(|score| grade_rows(plan, &score));
    write_grades_csv(rows, create(path)?)?;
    failure.map_or(Ok(()), |error| Err(error.into()))
}

fn grade_rows(plan: &Plan, score: &ScoreRecord) -> Vec<GradeRow> {
    score.graders.iter().map(|grader| grade_row(plan, score, grader)).collect()
}

fn grade_row(plan: &Plan, score: &ScoreRecord, grader: &GraderRecord) -> GradeRow {
    let row = GradeRow {
        unit: score.unit.to_string(),
        arm: score.arm.clone(),
        task: score.task.clone(),
        sample: sample_name(plan, score.sample),
        repeat: score.repeat,
        grader: grader.name.clone(),
        kind: grader.kind.clone(),
        version: grader.version,
        weight: grader.weight,
        ..GradeRow::default()
    };
    match &grader.verdict {
        Verdict::Scored(verdict) => GradeRow {
            pass: Some(verdict.pass),
            value: Some(verdict.value),
            answer: verdict.answer.clone(),
            explanation: verdict.explanation.clone(),
            ..row
        },
        Verdict::Unscored { why, detail } => {
            GradeRow { unscored_why: Some(why.name()), explanation: detail.clone(), ..row }
        }
    }
}

/// The row's own id, else its index.
fn sample_name(plan: &Plan, sample: u32) -> String {
    let own = plan.samples.get(sample as usize).and_then(|s| s.id.clone());
    own.unwrap_or_else(|| sample.to_string())
}

fn create(path: &Path) -> Result<BufWriter<File>, CliError> {
    let file = File::create(path).map_err(|error| CliError::Output { path: path.display().to_string(), error })?;
    Ok(BufWriter::new(file))
}
