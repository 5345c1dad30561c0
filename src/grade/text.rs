//! Graders that compare text: `exact`, `contains`, `regex`.

use regex::Regex;

use super::fold::{fold, fold_inner, is_unspaced};
use super::gold;
use super::grader::{AnswerText, FieldRenderer, Grader, clip, no_answer, scored, suite_fault};
use super::score::Verdict;
use crate::spec::{Field, Row, Which};

/// The whole (extracted) reply equals one of the golds after [`fold`].
pub struct Exact {
    pub answer: Field,
}

impl Grader for Exact {
    fn kind(&self) -> &'static str {
        "exact"
    }

    fn version(&self) -> u32 {
        1
    }

    fn grade(&self, answer: &AnswerText<'_>, row: &Row, fields: &FieldRenderer<'_>) -> Verdict {
        match folded_golds(&self.answer, row, fields, fold) {
            Err(detail) => suite_fault(detail),
            Ok(_) if answer.is_empty() => no_answer("the reply is empty"),
            Ok(golds) => {
                let said = fold(answer.text);
                let pass = golds.contains(&said);
                scored(pass, clip(answer.text), if pass { "equal" } else { "differs from every expected answer" })
            }
        }
    }
}

/// One of the golds stands in the reply at word borders: `1` is not in `10`, `1.5` or `-1`.
pub struct Contains {
    pub answer: Field,
}

impl Grader for Contains {
    fn kind(&self) -> &'static str {
        "contains"
    }

    fn version(&self) -> u32 {
        1
    }

    fn grade(&self, answer: &AnswerText<'_>, row: &Row, fields: &FieldRenderer<'_>) -> Verdict {
        match folded_golds(&self.answer, row, fields, fold_inner) {
            Err(detail) => suite_fault(detail),
            Ok(_) if answer.is_empty() => no_answer("the reply is empty"),
            Ok(golds) => {
                let said = fold_inner(answer.text);
                match golds.iter().find(|gold| stands_in(gold, &said)) {
                    Some(gold) => scored(true, clip(gold), "found"),
                    None => scored(false, clip(answer.text), "none of the expected answers is in the reply"),
                }
            }
        }
    }
}

fn folded_golds(
    field: &Field,
    row: &Row,
    fields: &FieldRenderer<'_>,
    how: fn(&str) -> String,
) -> Result<Vec<String>, String> {
    let golds: Vec<String> = gold::texts(field, row, fields)?.iter().map(|text| how(text)).collect();
    if golds.iter().any(String::is_empty) {
        Err("an expected answer is empty after folding".to_owned())
    } else {
        Ok(golds)
    }
}

/// Whether `needle` occurs in `text` as words of its own. Both are folded, `needle` is not empty.
fn stands_in(needle: &str, text: &str) -> bool {
    let step = needle.chars().next().map_or(1, char::len_utf8);
    let finder = memchr::memmem::Finder::new(needle);
    let mut from = 0;
    while let Some(found) = text.get(from..).and_then(|rest| finder.find(rest.as_bytes())) {
        let start = from + found;
        let end = start + needle.len();
        if starts_word(text, start) && ends_word(text, end) {
            return true;
        }
        from = start + step;
    }
    false
}

fn starts_word(text: &str, at: usize) -> bool {
    let mut before = text.get(..at).unwrap_or_default().chars().rev();
    let Some(first) = text.get(at..).and_then(|t| t.chars().next()) else { return true };
    let Some(last) = before.next() else { return true };
    if first.is_ascii_digit() {
        let beyond = before.next();
        match last {
            '.' | ',' => return !beyond.is_some_and(|c| c.is_ascii_digit()),
            '-' => return beyond.is_some_and(char::is_alphanumeric),
            _ => {}
        }
    }
    !glued(last, first)
}

fn ends_word(text: &str, at: usize) -> bool {
    let mut after = text.get(at..).unwrap_or_default().chars();
    let Some(last) = text.get(..at).and_then(|t| t.chars().next_back()) else { return true };
    let Some(next) = after.next() else { return true };
    if last.is_ascii_digit() && matches!(next, '.' | ',') {
        return !after.next().is_some_and(|c| c.is_ascii_digit());
    }
    !glued(last, next)
}

fn glued(left: char, right: char) -> bool {
    left.is_alphanumeric() && right.is_alphanumeric() && !is_unspaced(left) && !is_unspaced(right)
}

/// What a pattern finds. With `answer` it extracts (group `answer`, else group 1, else the whole match) and the
/// extraction is compared folded; a pattern that does not match is then no answer. Without `answer` it is a predicate
/// on the reply, and a reply that does not match is wrong.
pub struct Pattern {
    pub regex: Regex,
    pub which: Which,
    pub answer: Option<Field>,
}

/// Matches looked at from the start before the search jumps to the end of the text. With the text's cap it bounds the
/// work of an iteration that is quadratic in the worst case.
const MAX_MATCHES: usize = 10_000;
const TAIL_BYTES: usize = 16 * 1024;
/// Bytes of a reply that a pattern sees: the first of them, or the last with `which: last`.
const MAX_SEARCHED_BYTES: usize = 256 * 1024;

impl Grader for Pattern {
    fn kind(&self) -> &'static str {
        "regex"
    }

    fn version(&self) -> u32 {
        1
    }

    fn grade(&self, answer: &AnswerText<'_>, row: &Row, fields: &FieldRenderer<'_>) -> Verdict {
        let golds = match self.answer.as_ref().map(|field| folded_golds(field, row, fields, fold)).transpose() {
            Ok(golds) => golds,
            Err(detail) => return suite_fault(detail),
        };
        if answer.is_empty() {
            return no_answer("the reply is empty");
        }
        match (self.find(answer.text), golds) {
            (None, Some(_)) => no_answer("the pattern does not match"),
            (None, None) => scored(false, clip(answer.text), "the pattern does not match"),
            (Some(found), None) => scored(true, clip(found), "the pattern matches"),
            (Some(found), Some(_)) if found.trim().is_empty() => no_answer("the pattern captured nothing"),
            (Some(found), Some(golds)) => {
                let pass = golds.contains(&fold(found));
                scored(pass, clip(found), if pass { "equal" } else { "differs from every expected answer" })
            }
        }
    }
}

impl Pattern {
    fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        let text = self.searched(text);
        let start = match self.which {
            Which::First => self.regex.find(text)?.start(),
            Which::Last => self.last_start(text)?,
        };
        let groups = self.regex.captures_at(text, start)?;
        let whole = || groups.get(0);
        let group = match self.regex.capture_names().any(|name| name == Some("answer")) {
            true => groups.name("answer"),
            false if self.regex.captures_len() > 1 => groups.get(1),
            false => whole(),
        };
        match self.answer {
            Some(_) => Some(group.map_or("", |m| m.as_str())),
            None => group.or_else(whole).map(|m| m.as_str()),
        }
    }

    fn searched<'t>(&self, text: &'t str) -> &'t str {
        if text.len() <= MAX_SEARCHED_BYTES {
            return text;
        }
        match self.which {
            Which::First => text.get(..text.floor_char_boundary(MAX_SEARCHED_BYTES)),
            Which::Last => text.get(text.ceil_char_boundary(text.len() - MAX_SEARCHED_BYTES)..),
        }
        .unwrap_or_default()
    }

    fn last_start(&self, text: &str) -> Option<usize> {
        let mut last = None;
        let mut at = 0;
        let mut seen = 0;
        while let Some(found) = text.get(at..).and_then(|_| self.regex.find_at(text, at)) {
            last = Some(found.start());
            at = if found.is_empty() { text.ceil_char_boundary(found.end() + 1) } else { found.end() };
            if at >= text.len() {
                break;
            }
            seen += 1;
            if seen == MAX_MATCHES {
                at = at.max(text.floor_char_boundary(text.len().saturating_sub(TAIL_BYTES)));
            }
        }
        last
    }
}
