//! Flips: samples whose verdict is another on the candidate, both answers side by side, words that differ marked.

use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use super::name;
use crate::analyze::Summary;
use crate::analyze::summary::{ComparisonSummary, Flip, FlipDirection};
use crate::report::format;
use crate::report::text::{clipped, one_line, visible};

/// Bytes that all flips may take in the page. A page that a browser opens at once is worth more than the last flip;
/// what is left out is counted and stands in `summary.json`.
const BUDGET_BYTES: usize = 1_100_000;
/// Characters of an answer; the summary holds no more.
const ANSWER_CHARS: usize = 2_000;

#[derive(Serialize)]
pub struct Flips {
    pub blocks: Vec<Block>,
    pub shown: u64,
    pub total: u64,
}

#[derive(Serialize)]
pub struct Block {
    pub candidate: String,
    pub baseline: String,
    pub total: u64,
    pub lost: u64,
    pub gained: u64,
    /// Flips that the page leaves out.
    pub more: u64,
    pub rows: Vec<Row>,
    /// Median characters until answers part; a dash where no answer changed.
    pub divergence: String,
}

#[derive(Serialize)]
pub struct Row {
    pub lost: bool,
    pub task: String,
    pub sample: String,
    pub prompt: String,
    pub before: Vec<Piece>,
    pub after: Vec<Piece>,
    pub before_answer: Option<String>,
    pub after_answer: Option<String>,
    pub reason: String,
}

/// A run of text; marked where the other answer lacks it.
#[derive(Debug, PartialEq, Serialize)]
pub struct Piece {
    pub marked: bool,
    pub text: String,
}

pub fn flips(summary: &Summary) -> Flips {
    let share = BUDGET_BYTES / summary.comparisons.len().max(1);
    let blocks: Vec<Block> = summary.comparisons.iter().map(|comparison| block(comparison, share)).collect();
    Flips {
        shown: blocks.iter().map(|block| block.rows.len() as u64).sum(),
        total: blocks.iter().map(|block| block.total).sum(),
        blocks,
    }
}

fn block(comparison: &ComparisonSummary, budget: usize) -> Block {
    let mut rows = Vec::new();
    let mut spent = 0;
    for flip in &comparison.flips {
        let row = row(flip);
        spent += row.weight();
        if spent > budget {
            break;
        }
        rows.push(row);
    }
    let delta = super::main_metric(comparison).and_then(|metric| comparison.quality.get(metric));
    Block {
        candidate: name(&comparison.candidate),
        baseline: name(&comparison.baseline),
        total: comparison.flips_total,
        lost: delta.map_or(0, |delta| delta.lost),
        gained: delta.map_or(0, |delta| delta.gained),
        more: comparison.flips_total.saturating_sub(rows.len() as u64),
        divergence: comparison
            .first_divergence_chars
            .filter(|chars| chars.is_finite())
            .map_or_else(|| format::ABSENT.to_owned(), |chars| format!("{} characters", format::significant(chars))),
        rows,
    }
}

fn row(flip: &Flip) -> Row {
    let (before, after) = word_diff(&shown(&flip.baseline_text), &shown(&flip.candidate_text));
    let id = flip.id.as_deref().map(|id| format!(" · {}", clipped(&one_line(id), 60))).unwrap_or_default();
    let repeat = if flip.repeat > 0 { format!(" · repeat {}", flip.repeat) } else { String::new() };
    let answer = |answer: &Option<String>| answer.as_deref().map(|text| clipped(&one_line(text), 160));
    Row {
        lost: flip.direction == FlipDirection::Lost,
        task: name(&flip.task),
        sample: format!("#{}{id}{repeat}", flip.sample),
        prompt: clipped(&visible(&flip.prompt), 400),
        before,
        after,
        before_answer: answer(&flip.baseline_answer),
        after_answer: answer(&flip.candidate_answer),
        reason: flip.reason.as_deref().map(|reason| clipped(&one_line(reason), 400)).unwrap_or_default(),
    }
}

fn shown(text: &str) -> String {
    visible(&clipped(text, ANSWER_CHARS))
}

impl Row {
    /// What the row takes in the page, markup and entities counted.
    fn weight(&self) -> usize {
        let text = |text: &str| text.bytes().map(|byte| if b"<>&\"'/".contains(&byte) { 6 } else { 1 }).sum::<usize>();
        let pieces = self.before.iter().chain(&self.after).map(|piece| text(&piece.text) + 11).sum::<usize>();
        let answers =
            [&self.before_answer, &self.after_answer].into_iter().flatten().map(|answer| text(answer)).sum::<usize>();
        900 + text(&self.task) * 2 + text(&self.prompt) + text(&self.reason) + pieces + answers
    }
}

/// Both texts cut into pieces, marked where the other text lacks them. Without a word in common nothing is marked: a
/// text that is one mark shows nothing.
fn word_diff(before: &str, after: &str) -> (Vec<Piece>, Vec<Piece>) {
    let diff = TextDiff::from_words(before, after);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for change in diff.iter_all_changes() {
        match change.tag() {
            ChangeTag::Equal => {
                push(&mut left, false, change.value());
                push(&mut right, false, change.value());
            }
            ChangeTag::Delete => push(&mut left, true, change.value()),
            ChangeTag::Insert => push(&mut right, true, change.value()),
        }
    }
    let common =
        |pieces: &[Piece]| pieces.iter().any(|piece| !piece.marked && piece.text.contains(char::is_alphanumeric));
    if !common(&left) {
        for side in [&mut left, &mut right] {
            for piece in side.iter_mut() {
                piece.marked = false;
            }
        }
    }
    (left, right)
}

fn push(pieces: &mut Vec<Piece>, marked: bool, text: &str) {
    match pieces.last_mut() {
        // White space between two marks is marked along, so that a changed phrase is one mark and not ten.
        Some(last) if last.marked == marked => last.text.push_str(text),
        _ => pieces.push(Piece { marked, text: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(marked: bool, text: &str) -> Piece {
        Piece { marked, text: text.to_owned() }
    }

    #[test]
    fn words_that_differ_are_marked_on_their_side() {
        let (before, after) = word_diff("It is Canberra, surely.", "It is Sydney, surely.");
        assert_eq!(before, [piece(false, "It is "), piece(true, "Canberra,"), piece(false, " surely.")]);
        assert_eq!(after, [piece(false, "It is "), piece(true, "Sydney,"), piece(false, " surely.")]);
    }

    #[test]
    fn texts_without_a_word_in_common_are_not_marked() {
        let (before, after) = word_diff("yes, of course", "no. never! not now");
        assert!(before.iter().chain(&after).all(|piece| !piece.marked));
    }

    #[test]
    fn both_sides_keep_their_whole_text() {
        let (before, after) = ("a\n\nb  c שלום", "x b\tc d שלום");
        let (left, right) = word_diff(before, after);
        let joined = |pieces: &[Piece]| pieces.iter().map(|piece| piece.text.as_str()).collect::<String>();
        assert_eq!(joined(&left), before);
        assert_eq!(joined(&right), after);
    }
}
