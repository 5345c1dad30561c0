//! Phrases by which replies announce their answer, and LaTeX's `\boxed{…}`.

use std::collections::VecDeque;
use std::sync::LazyLock;

use regex::Regex;

/// How much text after an anchor can be its clause.
const MAX_CLAUSE_BYTES: usize = 1_000;
const MAX_ANCHORS: usize = 64;
const MAX_LEAD_BYTES: usize = 60;

#[expect(clippy::unwrap_used, reason = "a literal pattern, compiled by a test")]
static ANCHOR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)(?:\b(?:answers?|ans|result|solution|(?:correct|right|best|final|my)[ \t]+(?:choice|option|letter)|antwort|ergebnis|lösung|réponse|respuesta|risposta|resposta)\b",
        r#"(?:[ \t]+(?:to|for|of)\b[^\n.:=?!]{0,80}?)?[ \t*_`"')\]]{0,8}"#,
        r"(?:(?:is|are|was|would be|should be|must be|equals|ist|lautet|est|es|é|è)\b|[:=：])",
        r#"|####)[ \t*_`"':=]{0,12}"#,
    ))
    .unwrap()
});

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clause<'t> {
    /// Where the anchor starts in the text.
    pub at: usize,
    /// From right after the anchor to the end of its line, or the next line that says something where that is empty.
    pub text: &'t str,
    /// The line begins with the anchor, and a colon or `####` ends it: the reply states its answer in form.
    pub formal: bool,
}

/// Clauses that an anchor such as "the answer is", "Answer:" or "####" opens, in the text's order: of the last [`MAX_ANCHORS`]
/// anchors, so that a text of nothing but anchors stays cheap. Denials ("the answer is not …", "the wrong answer is …") are left out.
pub fn anchored(text: &str) -> Vec<Clause<'_>> {
    let mut last: VecDeque<(usize, usize)> = VecDeque::with_capacity(MAX_ANCHORS);
    for found in ANCHOR.find_iter(text) {
        if last.len() == MAX_ANCHORS {
            last.pop_front();
        }
        last.push_back((found.start(), found.end()));
    }
    last.into_iter().filter_map(|(start, end)| clause(text, start, end)).collect()
}

fn clause(text: &str, start: usize, end: usize) -> Option<Clause<'_>> {
    let anchor = text.get(start..end)?;
    // A formal line's lead is short; no more of the line is looked at.
    let lead = text.get(text.ceil_char_boundary(start.saturating_sub(MAX_LEAD_BYTES))..start)?;
    let whole_line = lead.len() == start || lead.contains('\n');
    let lead = lead.rsplit('\n').next()?;
    let mut words = lead.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let is_one_of = |word: &str, known: &[&str]| known.contains(&word.to_ascii_lowercase().as_str());
    let last_word = words.clone().next_back().unwrap_or_default();
    if is_one_of(last_word, &["incorrect", "wrong", "other", "another", "initial", "previous"]) {
        return None;
    }
    let leads = whole_line && words.all(|word| is_one_of(word, &["final", "the", "correct", "my", "so"]));
    let formal = leads && anchor.contains([':', '#', '：']);
    let clause = clause_after(text, end);
    let denied = clause.get(..4).is_some_and(|head| head.eq_ignore_ascii_case("not "));
    (!denied).then_some(Clause { at: start, text: clause, formal })
}

fn clause_after(text: &str, at: usize) -> &str {
    let rest = text.get(at..).unwrap_or_default();
    let rest = rest.get(..rest.floor_char_boundary(MAX_CLAUSE_BYTES)).unwrap_or(rest);
    let says = |line: &&str| line.chars().any(char::is_alphanumeric);
    let mut lines = rest.split('\n');
    let first = lines.next().unwrap_or_default();
    if says(&first) { first } else { lines.find(says).unwrap_or_default() }.trim()
}

/// Content of the last `\boxed{…}` whose braces balance. Nested boxes give the inner one's text within the outer's.
pub fn last_boxed(text: &str) -> Option<&str> {
    const BOXES: [&str; 2] = ["\\boxed{", "\\fbox{"];
    let mut end = text.len();
    // Unbalanced boxes are walked over at most this often, so that a text of nothing but `\boxed{` stays cheap.
    for _ in 0..64 {
        let head = text.get(..end)?;
        let (at, name) =
            BOXES.iter().filter_map(|name| head.rfind(name).map(|at| (at, name))).max_by_key(|(at, _)| *at)?;
        let inner = text.get(at + name.len()..)?;
        if let Some(close) = balanced_end(inner) {
            return inner.get(..close);
        }
        end = at;
    }
    None
}

/// Where the brace that was opened before `inner` closes.
fn balanced_end(inner: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut escaped = false;
    for (at, c) in inner.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clauses(text: &str) -> Vec<&str> {
        anchored(text).iter().map(|c| c.text).collect()
    }

    #[test]
    fn anchors_open_clauses() {
        assert_eq!(clauses("The answer is 5.\n**Answer:** B"), ["5.", "B"]);
        assert_eq!(clauses("Answer:\n\n42"), ["42"]);
        assert_eq!(clauses("#### 18"), ["18"]);
        assert_eq!(clauses("The answer to the question is 7"), ["7"]);
        assert_eq!(clauses("the answer is not 5"), Vec::<&str>::new());
        assert_eq!(clauses("The wrong answer is 5"), Vec::<&str>::new());
        assert_eq!(clauses("I answered him"), Vec::<&str>::new());
    }

    #[test]
    fn a_line_that_begins_with_the_anchor_is_formal() {
        let formal = |text: &str| anchored(text).iter().map(|c| c.formal).collect::<Vec<_>>();
        assert_eq!(formal("Final answer: unknown"), [true]);
        assert_eq!(formal("I think that the answer is unknown"), [false]);
    }

    #[test]
    fn the_last_balanced_box_wins() {
        assert_eq!(last_boxed(r"\boxed{1} and \boxed{\frac{3}{4}}"), Some(r"\frac{3}{4}"));
        assert_eq!(last_boxed(r"\boxed{7} then \boxed{8"), Some("7"));
        assert_eq!(last_boxed("none"), None);
        assert_eq!(last_boxed(&"\\boxed{".repeat(100_000)), None);
    }
}
