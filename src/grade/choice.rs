//! `choice`: which of the offered options a reply names.
//!
//! What wins, in this order:
//! 1. the last anchored answer ("Answer: B", "the answer is (B)", "option B is correct"), by letter or by an option's exact text; of two anchored
//!    answers that contradict each other the last one counts. A formal answer line that names no option is no answer;
//! 2. the last `\boxed{B}`;
//! 3. the bare letter: the whole reply, its last line, or the head of its first line (`B) Paris`, `B. Paris`) where no
//!    other line begins with another option;
//! 4. the reply is exactly an option's text.
//!
//! There is no fallback to a stray capital, and the article "a" or the word "I" is never an answer. Only offered letters count. Where the
//! gold is a list, all of its options must be named and no other (`A, B and C`, `AC`); where it is one, naming two fails.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::fold::fold;
use super::gold;
use super::grader::{AnswerText, FieldRenderer, Grader, no_answer, scored, suite_fault};
use super::phrase::{anchored, last_boxed};
use super::score::Verdict;
use crate::spec::{Field, Row};

pub struct Choice {
    pub answer: Field,
    pub options: Field,
}

/// Bytes of a reply that are searched: its last ones.
const MAX_SEARCHED_BYTES: usize = 256 * 1024;

impl Grader for Choice {
    fn kind(&self) -> &'static str {
        "choice"
    }

    fn version(&self) -> u32 {
        1
    }

    fn grade(&self, answer: &AnswerText<'_>, row: &Row, fields: &FieldRenderer<'_>) -> Verdict {
        let (options, wanted, many) = match self.expected(row, fields) {
            Ok(expected) => expected,
            Err(detail) => return suite_fault(detail),
        };
        if answer.is_empty() {
            return no_answer("the reply is empty");
        }
        let from = answer.text.ceil_char_boundary(answer.text.len().saturating_sub(MAX_SEARCHED_BYTES));
        let text = super::fold::normalize(answer.text.get(from..).unwrap_or_default());
        let Some((named, how)) = (Reader { options: &options, many }).find(&text) else {
            return no_answer("the reply names no option");
        };
        let labels: Vec<&str> = named.iter().filter_map(|at| options.get(*at)).map(|o| o.label.as_str()).collect();
        scored(named == wanted, labels.join(", "), how)
    }
}

impl Choice {
    /// The options, the indices of those that are right, and whether several may be.
    fn expected(&self, row: &Row, fields: &FieldRenderer<'_>) -> Result<(Vec<Offered>, BTreeSet<usize>, bool), String> {
        let options = offered(&gold::rendered(&self.options, row, fields)?)?;
        let value = gold::rendered(&self.answer, row, fields)?;
        let golds: Vec<String> =
            gold::accepted(&value)?.into_iter().map(gold::scalar_text).collect::<Result<_, _>>()?;
        let wanted = golds.iter().map(|gold| right_option(&options, gold)).collect::<Result<_, _>>()?;
        Ok((options, wanted, value.is_array()))
    }
}

struct Offered {
    label: String,
    /// Folded; empty where only letters are offered.
    text: String,
}

const MAX_OPTIONS: usize = 26;

/// A list of texts is labelled A, B, C …; a list of single letters (or a text such as `ABCD`) offers these letters; a map
/// gives its own labels.
fn offered(value: &Value) -> Result<Vec<Offered>, String> {
    let letter = |text: &str| text.len() == 1 && text.bytes().all(|b| b.is_ascii_alphabetic());
    let options: Vec<Offered> = match value {
        Value::String(text) => text.chars().map(|c| Offered { label: c.to_string(), text: String::new() }).collect(),
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().map(gold::scalar_text).collect::<Result<_, _>>()?;
            if texts.iter().all(|text| letter(text)) {
                texts.into_iter().map(|label| Offered { label, text: String::new() }).collect()
            } else {
                ('A'..='Z')
                    .zip(texts)
                    .map(|(label, text)| Offered { label: label.to_string(), text: fold(&text) })
                    .collect()
            }
        }
        Value::Object(map) => map
            .iter()
            .map(|(label, text)| Ok(Offered { label: label.clone(), text: fold(&gold::scalar_text(text)?) }))
            .collect::<Result<_, String>>()?,
        _ => return Err("the options must be a list, a map from label to text, or letters such as `ABCD`".to_owned()),
    };
    let labels: BTreeSet<String> = options.iter().map(|o| o.label.to_ascii_lowercase()).collect();
    let sound = |label: &str| (1..=8).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric());
    let count = value.as_array().map_or(options.len(), Vec::len);
    if !(2..=MAX_OPTIONS).contains(&count) {
        return Err(format!("there must be 2 to {MAX_OPTIONS} options, not {count}"));
    }
    if labels.len() != options.len() || !labels.iter().all(|label| sound(label)) {
        return Err("option labels must be different, of 1 to 8 ASCII letters and digits".to_owned());
    }
    Ok(options)
}

/// The option that a gold names: by label, else by exact text.
fn right_option(options: &[Offered], gold: &str) -> Result<usize, String> {
    let gold = gold.trim();
    let folded = fold(gold);
    let by_text = || {
        let mut same = options.iter().enumerate().filter(|(_, o)| !o.text.is_empty() && o.text == folded);
        same.next().filter(|_| same.next().is_none()).map(|(at, _)| at)
    };
    let by_label = options.iter().position(|o| o.label.eq_ignore_ascii_case(gold));
    by_label.or_else(by_text).ok_or_else(|| format!("the expected answer `{gold}` is none of the options"))
}

#[expect(clippy::unwrap_used, reason = "a literal pattern, compiled by a test")]
static AFFIRMED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"\b(?i:option|choice|answer)[ \t*_(]{1,6}([A-Za-z0-9]{1,8})[ \t*_)]{1,6}",
        r"(?i:is|would be|must be)[ \t]+(?i:the[ \t]+)?(?i:correct|right|best)\b",
    ))
    .unwrap()
});

type Named = (BTreeSet<usize>, &'static str);

struct Reader<'o> {
    options: &'o [Offered],
    many: bool,
}

impl Reader<'_> {
    fn find(&self, text: &str) -> Option<Named> {
        match self.anchored(text) {
            Some(Some(named)) => return Some((named, "by its answer line")),
            Some(None) => return None,
            None => {}
        }
        if let Some(named) = last_boxed(text).and_then(|inner| self.whole(inner)) {
            return Some((named, "boxed"));
        }
        if let Some(named) = self.bare(text) {
            return Some((named, "by a bare letter"));
        }
        self.by_text(text).map(|named| (named, "by an option's text"))
    }

    /// The last anchored answer; `Some(None)` where the last formal answer line names no option.
    #[expect(clippy::option_option, reason = "no anchor, an anchor without an option, an option")]
    fn anchored(&self, text: &str) -> Option<Option<BTreeSet<usize>>> {
        let mut last: Option<(usize, Option<BTreeSet<usize>>)> = None;
        for clause in anchored(text) {
            let named = self.clause(clause.text);
            if named.is_some() || clause.formal {
                last = Some((clause.at, named));
            }
        }
        let affirmed = AFFIRMED.captures_iter(text).filter_map(|groups| {
            let label = groups.get(1)?;
            let option = self.options.iter().position(|o| o.label == label.as_str())?;
            Some((label.start(), Some(BTreeSet::from([option]))))
        });
        affirmed.last().into_iter().chain(last).max_by_key(|(at, _)| *at).map(|(_, named)| named)
    }

    fn clause(&self, clause: &str) -> Option<BTreeSet<usize>> {
        let labels = self.labels(clause).map(|(named, _)| named);
        labels.or_else(|| self.by_text(clause)).or_else(|| self.by_text(clause.split_once(". ")?.0))
    }

    fn by_text(&self, text: &str) -> Option<BTreeSet<usize>> {
        // An option's text is short; folding a long reply to compare it would be waste.
        let text = fold(text.get(..8_192).unwrap_or(text));
        let mut same = self.options.iter().enumerate().filter(|(_, o)| !o.text.is_empty() && o.text == text);
        let (at, _) = same.next()?;
        same.next().is_none().then(|| BTreeSet::from([at]))
    }

    /// `text` is nothing but labels.
    fn whole(&self, text: &str) -> Option<BTreeSet<usize>> {
        let (named, rest) = self.labels(text)?;
        let closed = rest.chars().all(|c| c.is_whitespace() || is_closer(c) || is_opener(c));
        closed.then_some(named).or_else(|| self.by_text(text))
    }

    fn bare(&self, text: &str) -> Option<BTreeSet<usize>> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next()?;
        let Some(last) = lines.next_back() else {
            return self.whole(first).or_else(|| self.head(first));
        };
        if let Some(named) = self.whole(last).filter(|_| last.chars().count() <= 40) {
            return Some(named);
        }
        let named = self.whole(first).or_else(|| self.head(first))?;
        let others = lines.chain([last]).filter_map(|line| self.head(line)).any(|other| other != named);
        (!others).then_some(named)
    }

    /// `B) Paris`, `(B) Paris`, `**B.** Paris`, `B: Paris`, `B - Paris`.
    fn head(&self, line: &str) -> Option<BTreeSet<usize>> {
        let line = line.trim_start_matches(is_opener);
        let (option, written, rest) = self.label_at(line)?;
        let small = written.chars().any(|c| c.is_ascii_lowercase());
        let rest = rest.trim_start_matches(['*', '_']);
        let marked = match rest.chars().next() {
            Some(')' | ']') => true,
            Some('.' | ':') => {
                !small && rest.chars().nth(1).is_none_or(|c| c.is_whitespace() || matches!(c, '*' | '_'))
            }
            Some(' ') => !small && rest.trim_start().starts_with("- "),
            _ => false,
        };
        marked.then(|| BTreeSet::from([option]))
    }

    /// Labels at the start of `text` and what follows them.
    fn labels<'t>(&self, text: &'t str) -> Option<(BTreeSet<usize>, &'t str)> {
        let text = skip_lead(text);
        if self.many
            && let Some(run) = self.joined(text)
        {
            return Some(run);
        }
        let (option, written, rest) = self.label_at(text)?;
        if !self.follows_well(option, written, rest) {
            return None;
        }
        let mut named = BTreeSet::from([option]);
        let mut rest = rest;
        while named.len() < MAX_OPTIONS {
            let Some(next) = after_separator(rest) else { break };
            let next = skip_lead(next);
            let Some((option, _, after)) = self.label_at(next) else { break };
            let ends = after.trim_start_matches(is_closer).trim().is_empty()
                || after.starts_with(|c: char| is_closer(c) && c != '\'')
                || after_separator(after).is_some_and(|next| self.label_at(skip_lead(next)).is_some());
            if !ends {
                break;
            }
            named.insert(option);
            rest = after;
        }
        Some((named, rest))
    }

    /// `ABD`: several single letters run together.
    fn joined<'t>(&self, text: &'t str) -> Option<(BTreeSet<usize>, &'t str)> {
        let length = text.bytes().take_while(u8::is_ascii_uppercase).count();
        let (letters, rest) = (text.get(..length)?, text.get(length..)?);
        let named: Option<BTreeSet<usize>> = letters
            .chars()
            .map(|c| self.options.iter().position(|o| o.label.eq_ignore_ascii_case(c.encode_utf8(&mut [0; 4]))))
            .collect();
        let named = named.filter(|named| named.len() == length && length > 1)?;
        (!rest.starts_with(|c: char| c.is_alphanumeric())).then_some((named, rest))
    }

    /// The longest label at the start of `text`, as written, with what follows; no letter or digit may follow.
    fn label_at<'t>(&self, text: &'t str) -> Option<(usize, &'t str, &'t str)> {
        let length = text.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let (written, rest) = (text.get(..length)?, text.get(length..)?);
        if rest.starts_with(|c: char| c.is_alphanumeric()) {
            return None;
        }
        let option = self.options.iter().position(|o| o.label.eq_ignore_ascii_case(written))?;
        Some((option, written, rest))
    }

    /// Whether what follows a label lets it be one, and not the article, a pronoun, a formula or a part of a name.
    fn follows_well(&self, option: usize, written: &str, rest: &str) -> bool {
        let mut chars = rest.chars();
        let (next, beyond) = (chars.next(), chars.next());
        let word_like = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        match next {
            Some('\'' | '-' | '"') => !word_like(beyond),
            Some('.') => !(word_like(beyond) && chars.next() == Some('.')),
            Some(c) if c.is_whitespace() => self.word_follows_well(option, written, rest.trim_start()),
            Some('=' | '+' | '#' | '^' | '<' | '>' | '(' | '[' | '{' | '@' | '%') => false,
            Some('/') => after_separator(rest).is_some_and(|next| self.label_at(next).is_some()),
            None | Some(_) => true,
        }
    }

    fn word_follows_well(&self, option: usize, written: &str, rest: &str) -> bool {
        const CONNECTIVES: [&str; 17] = [
            "because", "since", "as", "is", "and", "or", "for", "due", "which", "given", "based", "by", "with",
            "would", "makes", "are", "both",
        ];
        if rest.is_empty() || rest.starts_with(['-', '(', '"', ',', '.', ':', '&', '*']) {
            return true;
        }
        if rest.starts_with(['=', '+', '^', '<', '>', '*', '×']) {
            return false;
        }
        let could_be_word = written.chars().all(|c| c.is_ascii_lowercase()) || ["A", "I"].contains(&written);
        if !could_be_word {
            return true;
        }
        let word: String = rest.chars().take_while(|c| c.is_alphabetic()).collect();
        let own_text = self.options.get(option).map(|o| o.text.as_str()).filter(|text| !text.is_empty());
        let line = rest.lines().next().unwrap_or_default();
        CONNECTIVES.contains(&word.to_lowercase().as_str()) || own_text.is_some_and(|text| fold(line).starts_with(text))
    }
}

fn is_opener(c: char) -> bool {
    matches!(c, '(' | '[' | '{' | '*' | '_' | '"' | '\'' | '`' | '$' | ' ' | '\t' | '#' | '>')
}

fn is_closer(c: char) -> bool {
    matches!(c, ')' | ']' | '}' | '*' | '_' | '"' | '\'' | '`' | '$' | '.' | ',' | ';' | ':' | '!' | '\\')
}

/// Skips brackets, emphasis, LaTeX wrappers and words such as "option" before a label.
fn skip_lead(text: &str) -> &str {
    const WRAPPERS: [&str; 9] =
        ["\\boxed{", "\\text{", "\\textbf{", "\\mathrm{", "\\mathbf{", "\\(", "\\[", "\\$", "\\ "];
    const WORDS: [&str; 7] = ["option", "options", "choice", "choices", "letter", "letters", "answer"];
    let mut text = text;
    // Bounded: a text of nothing but wrappers is no answer.
    for _ in 0..32 {
        let before = text.len();
        text = text.trim_start_matches(is_opener);
        for wrapper in WRAPPERS {
            text = text.strip_prefix(wrapper).unwrap_or(text);
        }
        let word = text.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (head, tail) = text.split_at_checked(word).unwrap_or((text, ""));
        if WORDS.iter().any(|known| known.eq_ignore_ascii_case(head)) && tail.starts_with([' ', '\t', '(', '*', ':']) {
            text = tail.trim_start_matches(':');
        }
        if text.len() == before {
            break;
        }
    }
    text
}

/// What follows a comma, "and", "or", "&", "/" or "+" between two labels.
fn after_separator(rest: &str) -> Option<&str> {
    let rest = rest.trim_start_matches(|c: char| is_closer(c) && c != ',' && c != ';').trim_start_matches([' ', '\t']);
    let punctuated = rest.strip_prefix([',', ';', '/', '&', '+']);
    let after = punctuated.unwrap_or(rest).trim_start_matches([' ', '\t']);
    for word in ["and", "or"] {
        let (head, tail) = after.split_at_checked(word.len()).unwrap_or((after, ""));
        if head.eq_ignore_ascii_case(word) && tail.starts_with([' ', '*', '(', '"']) {
            return Some(tail.trim_start());
        }
    }
    punctuated.map(|_| after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_compiles() {
        assert!(AFFIRMED.is_match("Option B is correct"));
    }

    #[test]
    fn options_must_be_sound() {
        for bad in [r#"["x"]"#, "{}", "3", "null", r#"{"A": "x", "a": "y"}"#, r#"{"A)": "x", "B": "y"}"#, r#""""#] {
            let value: Value = serde_json::from_str(bad).unwrap();
            assert!(offered(&value).is_err(), "{bad} was taken");
        }
        let letters = offered(&Value::from("ABCD")).unwrap();
        assert_eq!(letters.len(), 4);
    }
}
