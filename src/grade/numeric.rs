//! `numeric`: one number, compared exactly or within tolerances.
//!
//! What wins, in this order:
//! 1. the last balanced `\boxed{…}` that holds exactly one number;
//! 2. the last anchored clause ("the answer is …", "Answer: …", "#### …") with a number. Where the number comes first in the clause (after
//!    words such as "about", or after the last `=` of an equation), that one; else the clause's last number. A formal answer line
//!    without any number ("Answer: unknown") is no answer, and nothing further is tried;
//! 3. the last number of the reply.
//!
//! Numbers in parentheses or brackets count only where no other is there: `5 (see eq. 3)` is 5, `(42)!` is 42. The token that wins
//! is read whole or not at all (see [`super::number_scan`]): `10-15` is a range, hence no answer, never −15.
//!
//! Percent: `12%` equals gold `12%` only, never gold `12` or `0.12`; a bare `0.12` equals gold `12%`, a bare `12` does not.
//! List both as golds to accept both. Magnitude words count (`5 million` = 5 000 000); units and currency signs are ignored.

use serde_json::Value;

use super::gold;
use super::grader::{AnswerText, FieldRenderer, Grader, clip, no_answer, scored, suite_fault};
use super::number::Number;
use super::number_scan::{Scanner, Token, prepare};
use super::phrase::{anchored, last_boxed};
use super::score::Verdict;
use crate::spec::{Field, NumberLocale, Row};

pub struct Numeric {
    pub answer: Field,
    pub abs_tolerance: f64,
    pub rel_tolerance: f64,
    pub locale: NumberLocale,
}

impl Grader for Numeric {
    fn kind(&self) -> &'static str {
        "numeric"
    }

    fn version(&self) -> u32 {
        1
    }

    fn grade(&self, answer: &AnswerText<'_>, row: &Row, fields: &FieldRenderer<'_>) -> Verdict {
        let golds = match self.golds(row, fields) {
            Ok(golds) => golds,
            Err(detail) => return suite_fault(detail),
        };
        if answer.is_empty() {
            return no_answer("the reply is empty");
        }
        let Some(found) = find(answer.text, self.locale) else { return no_answer("no number in the reply") };
        match found {
            Found { number: None, text } => no_answer(format!("`{}` is no single number", clip(&text))),
            Found { number: Some(number), text } => {
                let pass = golds.iter().any(|gold| self.equal(&number, gold));
                scored(pass, clip(&text), if pass { "equal" } else { "another number" })
            }
        }
    }
}

impl Numeric {
    fn golds(&self, row: &Row, fields: &FieldRenderer<'_>) -> Result<Vec<Number>, String> {
        let value = gold::rendered(&self.answer, row, fields)?;
        gold::accepted(&value)?.into_iter().map(|gold| self.gold(gold)).collect()
    }

    /// JSON numbers are read as JSON writes them; text must hold exactly one number in the grader's notation.
    fn gold(&self, gold: &Value) -> Result<Number, String> {
        let text = gold::scalar_text(gold)?;
        let locale = if gold.is_number() { NumberLocale::En } else { self.locale };
        let chars = prepare(&text);
        let mut tokens = Scanner::new(&chars);
        match (tokens.next(), tokens.next()) {
            (Some(token), None) => token.number(&chars, locale),
            _ => None,
        }
        .ok_or_else(|| format!("the expected answer `{}` is not one number", clip(&text)))
    }

    fn equal(&self, answer: &Number, gold: &Number) -> bool {
        match (answer.percent, gold.percent) {
            (true, false) => false,
            (false, true) => {
                answer.scaled(2).is_some_and(|answer| answer.equals(gold, self.abs_tolerance, self.rel_tolerance))
            }
            _ => answer.equals(gold, self.abs_tolerance, self.rel_tolerance),
        }
    }
}

struct Found {
    /// Absent where the winning token is no single number.
    number: Option<Number>,
    text: String,
}

impl Found {
    fn of(token: &Token, chars: &[char], locale: NumberLocale) -> Found {
        Found { number: token.number(chars, locale), text: token.text(chars) }
    }
}

fn find(text: &str, locale: NumberLocale) -> Option<Found> {
    if let Some(found) = last_boxed(text).and_then(|inner| in_box(inner, locale)) {
        return Some(found);
    }
    let mut last = None;
    for clause in anchored(text) {
        match in_clause(clause.text, locale) {
            Some(found) => last = Some(Some(found)),
            None if clause.formal => last = Some(None),
            None => {}
        }
    }
    if let Some(found) = last {
        return found;
    }
    let chars = prepare(text);
    last_token(&chars).map(|token| Found::of(&token, &chars, locale))
}

fn in_box(inner: &str, locale: NumberLocale) -> Option<Found> {
    let chars = prepare(inner);
    let value = chars.get(equation_end(&chars)..)?;
    let mut tokens = Scanner::new(value);
    let token = tokens.next()?;
    match tokens.next() {
        None => Some(Found::of(&token, value, locale)),
        Some(_) => Some(Found { number: None, text: inner.to_owned() }),
    }
}

fn in_clause(clause: &str, locale: NumberLocale) -> Option<Found> {
    if abstains(clause) {
        return None;
    }
    let chars = prepare(clause);
    let value = chars.get(equation_end(&chars)..)?;
    let first = Scanner::new(value).find(|token| !token.remark).or_else(|| Scanner::new(value).next())?;
    let leads = is_filler(value.get(..first.start).unwrap_or_default());
    let token = if leads { first } else { last_token(value)? };
    Some(Found::of(&token, value, locale))
}

/// A clause that begins by saying that there is no answer; later numbers in it are none.
fn abstains(clause: &str) -> bool {
    const WORDS: [&str; 11] = [
        "unknown",
        "none",
        "undefined",
        "unclear",
        "n/a",
        "cannot",
        "can't",
        "i don't know",
        "i do not know",
        "not enough",
        "indeterminate",
    ];
    WORDS.iter().any(|word| clause.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word)))
}

/// The last token that is no remark, else the last remark.
fn last_token(chars: &[char]) -> Option<Token> {
    let (mut plain, mut remark) = (None, None);
    for token in Scanner::new(chars) {
        if token.remark {
            remark = Some(token);
        } else {
            plain = Some(token);
        }
    }
    plain.or(remark)
}

/// Where the last `=` of a leading equation ends: `x = 3 + 4 = 7 apples` gives the place of `7`.
fn equation_end(chars: &[char]) -> usize {
    let mut end = 0;
    let mut word = 0;
    for (at, c) in chars.iter().enumerate() {
        match c {
            '=' | '≈' => end = at + 1,
            ',' | '.' if !chars.get(at + 1).is_some_and(char::is_ascii_digit) => return end,
            ';' | '?' | '!' | '\n' => return end,
            _ => {}
        }
        word = if c.is_alphabetic() { word + 1 } else { 0 };
        // A word of prose ends the equation; one or two letters may be a variable.
        if word > 2 {
            return end;
        }
    }
    end
}

/// Whether nothing but signs and words such as "about" stands before a clause's first number.
fn is_filler(lead: &[char]) -> bool {
    const WORDS: [&str; 27] = [
        "about",
        "approximately",
        "roughly",
        "around",
        "exactly",
        "precisely",
        "simply",
        "just",
        "therefore",
        "thus",
        "equal",
        "equals",
        "to",
        "is",
        "a",
        "an",
        "the",
        "of",
        "total",
        "number",
        "value",
        "now",
        "be",
        "usd",
        "eur",
        "only",
        "approx",
    ];
    let text: String = lead.iter().collect();
    text.split(|c: char| !c.is_alphabetic())
        .all(|word| word.chars().count() <= 1 || WORDS.contains(&word.to_ascii_lowercase().as_str()))
}
