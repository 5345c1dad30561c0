//! Samples whose verdict is another in the candidate, with both texts: a second pass over the journal, for these only.

use std::collections::HashMap;

use super::AnalyzeError;
use super::compare::{Matched, RowPair};
use super::stats::{percentile, sorted};
use super::summary::{ComparisonSummary, Flip, FlipDirection};
use crate::drive::Event;
use crate::plan::{Phase, Plan};
use crate::spec::Role;
use crate::units::Id;

const FLIPS_SHOWN: usize = 200;
const PROMPT_CHARS: usize = 400;
const TEXT_CHARS: usize = 2_000;
/// Changed answers of a comparison whose first difference is looked for; the first ones in the order of samples.
const DIVERGENCES: usize = 500;

/// Texts of chosen units.
pub type Texts = HashMap<Id, Option<String>>;

/// The units whose texts a comparison needs.
pub fn wanted(matched: &Matched<'_>) -> impl Iterator<Item = Id> {
    let pairs = flipped(matched).into_iter().map(|(_, pair)| pair).chain(changed(matched));
    pairs.flat_map(|pair| [pair.baseline.unit, pair.candidate.unit]).collect::<Vec<_>>().into_iter()
}

/// Reads the texts of the units in `texts`; the first deciding attempt of each stands, as in the rows.
pub fn read(texts: &mut Texts, journal: impl Iterator<Item = Result<Event, String>>) -> Result<(), AnalyzeError> {
    let mut missing = texts.len();
    for event in journal {
        if missing == 0 {
            break;
        }
        let Event::Attempt(attempt) = event.map_err(AnalyzeError::Journal)? else { continue };
        if !attempt.last || attempt.phase != Phase::Measured {
            continue;
        }
        if let Some(slot) = texts.get_mut(&attempt.unit).filter(|slot| slot.is_none()) {
            *slot = Some(attempt.text);
            missing -= 1;
        }
    }
    Ok(())
}

/// Puts flips and first divergence into a comparison.
pub fn fill(plan: &Plan, matched: &Matched<'_>, texts: &Texts, summary: &mut ComparisonSummary) {
    let text = |unit: &Id| texts.get(unit).and_then(Option::as_deref);
    let flip = |(direction, pair): (FlipDirection, RowPair<'_>)| {
        let sample = plan.samples.get(pair.baseline.sample as usize);
        // A workload's passage stands before what is asked.
        let shown = if plan.suite.workload.is_some() { end } else { cut };
        let asked = sample.and_then(|s| s.messages.iter().rev().find(|m| m.role == Role::User));
        Flip {
            task: pair.baseline.task.to_string(),
            sample: pair.baseline.sample,
            id: sample.and_then(|s| s.id.clone()),
            repeat: pair.baseline.repeat,
            direction,
            prompt: shown(asked.map_or("", |m| m.content.as_str()), PROMPT_CHARS),
            baseline_text: cut(text(&pair.baseline.unit).unwrap_or_default(), TEXT_CHARS),
            candidate_text: cut(text(&pair.candidate.unit).unwrap_or_default(), TEXT_CHARS),
            baseline_answer: pair.baseline.graded.answer.as_deref().map(str::to_owned),
            candidate_answer: pair.candidate.graded.answer.as_deref().map(str::to_owned),
            reason: pair.candidate.graded.explanation.as_deref().map(str::to_owned),
        }
    };
    summary.flips = flipped(matched).into_iter().map(flip).collect();
    let divergence = |pair: RowPair<'_>| {
        let (baseline, candidate) = (text(&pair.baseline.unit)?, text(&pair.candidate.unit)?);
        Some(baseline.chars().zip(candidate.chars()).take_while(|(a, b)| a == b).count() as f64)
    };
    summary.first_divergence_chars = percentile(&sorted(changed(matched).filter_map(divergence)), 0.5);
}

/// At most 200 flips, lost ones first, each kind in the order of samples.
fn flipped<'a>(matched: &Matched<'a>) -> Vec<(FlipDirection, RowPair<'a>)> {
    let direction = |pair: &RowPair<'a>| match pair.passes()? {
        (true, false) => Some((FlipDirection::Lost, *pair)),
        (false, true) => Some((FlipDirection::Gained, *pair)),
        _ => None,
    };
    let mut flips: Vec<_> = matched.pairs.iter().filter_map(direction).collect();
    flips.sort_by_key(|(direction, _)| *direction);
    flips.truncate(FLIPS_SHOWN);
    flips
}

fn changed<'a>(matched: &Matched<'a>) -> impl Iterator<Item = RowPair<'a>> {
    matched.pairs.iter().filter(|pair| pair.both_answered() && pair.changed()).take(DIVERGENCES).copied()
}

fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some(_) => text.chars().take(chars - 1).chain(std::iter::once('…')).collect(),
    }
}

/// The end of a text.
fn end(text: &str, chars: usize) -> String {
    let count = text.chars().count();
    if count <= chars {
        return text.to_owned();
    }
    std::iter::once('…').chain(text.chars().skip(count + 1 - chars)).collect()
}
