//! Finds numbers in prose, whole tokens only.
//!
//! A token is read in one piece or not at all: `1.234,56` in English notation, `10-15`, `1.2.3`, `12/31/2024`, `10:30`
//! and `0x1F` are *unreadable* numbers, never one of their parts. No number at all are digits of a word (`H2O`, `GPT-4`, `v1.2`), of an
//! exponent or index (`x^2`, `a_1`) and ordinals (`3rd`).

use super::fold::is_unspaced;
use super::number::Number;
use super::number_prepare::GROUP_SPACE;
pub use super::number_prepare::prepare;
use crate::spec::NumberLocale;

#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Where the token stands in the prepared text.
    pub start: usize,
    pub end: usize,
    /// Inside parentheses or brackets of one line: a remark, such as `(see eq. 3)` or `[2]`.
    pub remark: bool,
    shape: Shape,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Unreadable,
    /// Spans within the prepared text.
    Number {
        core: (usize, usize),
        exponent: i64,
        denominator: Option<(usize, usize)>,
        whole: Option<(usize, usize)>,
        negative: bool,
        percent: bool,
    },
}

/// Walks prepared text from one token to the next.
pub struct Scanner<'t> {
    chars: &'t [char],
    at: usize,
    depth: usize,
}

impl<'t> Scanner<'t> {
    pub fn new(chars: &'t [char]) -> Scanner<'t> {
        Scanner { chars, at: 0, depth: 0 }
    }

    fn get(&self, at: usize) -> Option<char> {
        self.chars.get(at).copied()
    }

    fn before(&self, at: usize) -> Option<char> {
        at.checked_sub(1).and_then(|i| self.get(i))
    }

    fn is_digit(&self, at: usize) -> bool {
        self.get(at).is_some_and(|c| c.is_ascii_digit())
    }

    fn digits_from(&self, at: usize) -> usize {
        self.chars.iter().skip(at).take_while(|c| c.is_ascii_digit()).count()
    }

    fn skip_spaces(&self, at: usize) -> usize {
        let spaces = self.chars.iter().skip(at).take_while(|c| matches!(c, ' ' | '\t' | '\u{a0}')).count();
        at + spaces
    }
}

impl Iterator for Scanner<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        while let Some(c) = self.get(self.at) {
            let starts = c.is_ascii_digit()
                || (c == '.'
                    && self.is_digit(self.at + 1)
                    && self.before(self.at).is_none_or(|b| b != '.' && !b.is_alphanumeric()));
            if !starts {
                match c {
                    '(' | '[' => self.depth += 1,
                    ')' | ']' => self.depth = self.depth.saturating_sub(1),
                    '\n' => self.depth = 0,
                    _ => {}
                }
                self.at += 1;
                continue;
            }
            if self.is_part_of_word() {
                self.skip_word();
                continue;
            }
            if let Some(token) = self.token() {
                return Some(token);
            }
        }
        None
    }
}

/// Letters that stand before an amount without a space.
const CURRENCY_CODES: [&str; 12] = ["usd", "eur", "gbp", "jpy", "cny", "inr", "chf", "aud", "cad", "rs", "us", "a"];

pub fn is_currency(c: char) -> bool {
    matches!(c, '$' | '€' | '£' | '¥' | '₹' | '₽' | '₩' | '₺' | '₿' | '¢')
}

fn is_word_letter(c: char) -> bool {
    c.is_alphabetic() && !is_unspaced(c)
}

impl Scanner<'_> {
    /// Whether the digits at the position belong to a word, an exponent or an index.
    fn is_part_of_word(&self) -> bool {
        let Some(before) = self.before(self.at) else { return false };
        match before {
            '^' | '_'
                if self.before(self.at - 1).is_some_and(|c| c.is_alphanumeric() || matches!(c, '}' | ')' | '^')) =>
            {
                true
            }
            '-' => self.before(self.at - 1).is_some_and(is_word_letter) || (self.before(self.at - 1) == Some('^')),
            c if is_word_letter(c) => !self.follows_currency_code(),
            _ => false,
        }
    }

    fn follows_currency_code(&self) -> bool {
        let letters: Vec<char> = self
            .chars
            .get(..self.at)
            .unwrap_or_default()
            .iter()
            .rev()
            .take(4)
            .take_while(|c| is_word_letter(**c))
            .copied()
            .collect();
        let word: String = letters.iter().rev().collect::<String>().to_ascii_lowercase();
        word.len() > 1 && CURRENCY_CODES.contains(&word.as_str())
    }

    fn skip_word(&mut self) {
        while let Some(c) = self.get(self.at) {
            let inner = matches!(c, '.' | ',') && self.is_digit(self.at + 1);
            if !(c.is_ascii_digit() || is_word_letter(c) || inner) {
                break;
            }
            self.at += 1;
        }
    }

    /// The token at the position; moves past it. `None` for an ordinal or a word that begins with a digit.
    fn token(&mut self) -> Option<Token> {
        let start = self.at;
        let core_end = self.core_end(start);
        let mut end = core_end;
        let (mut exponent, mut readable) = (0, true);
        if let Some((power, after)) = self.exponent(core_end) {
            end = after;
            match power {
                Some(power) => exponent = power,
                None => readable = false,
            }
        }
        let core: String = self.chars.get(start..core_end).unwrap_or_default().iter().collect();
        if end == core_end && self.get(end) == Some('^') {
            let (power, after) = self.signed_digits(end + 1);
            end = after.max(end + 1);
            match power {
                Some(power) if core == "10" => exponent = power - 1,
                _ => readable = false,
            }
        }
        let plain = end == core_end && exponent == 0;
        let (whole, core_span, denominator) = self.fraction((start, core_end), &mut end, plain, &mut readable);
        if self.skip_chain(&mut end) {
            readable = false;
        }
        if self.is_glued_word(end) {
            self.at = end;
            self.skip_word();
            return (core == "0").then(|| self.unreadable(start));
        }
        let currency = self.currency_before(start);
        let (magnitude, after) = self.magnitude(end, currency);
        exponent += magnitude;
        let (percent, after) = self.percent(after);
        let token = Token {
            start,
            end: after,
            remark: self.depth > 0,
            shape: if readable {
                Shape::Number {
                    core: core_span,
                    exponent,
                    denominator,
                    whole,
                    negative: self.is_negative(start),
                    percent,
                }
            } else {
                Shape::Unreadable
            },
        };
        self.at = after;
        Some(token)
    }

    fn unreadable(&self, start: usize) -> Token {
        Token { start, end: self.at, remark: self.depth > 0, shape: Shape::Unreadable }
    }

    /// End of digits with their separators.
    fn core_end(&self, start: usize) -> usize {
        let mut at = start;
        loop {
            at += self.digits_from(at);
            let joins = match self.get(at) {
                Some('.' | ',') => self.is_digit(at + 1),
                Some('\'' | '_' | GROUP_SPACE) => self.digits_from(at + 1) == 3,
                _ => false,
            };
            if !joins {
                return at;
            }
            at += 1;
        }
    }

    /// Digits with an optional sign: their value, and where they end.
    fn signed_digits(&self, at: usize) -> (Option<i64>, usize) {
        let signed = matches!(self.get(at), Some('-' | '+'));
        let from = at + usize::from(signed);
        let count = self.digits_from(from);
        let text: String = self.chars.iter().skip(from).take(count.min(7)).collect();
        let value = text.parse::<i64>().ok().filter(|_| count <= 6);
        (value.map(|v| if self.get(at) == Some('-') { -v } else { v }), from + count)
    }

    /// `e5`, `× 10^5`, `*10**5` behind a core: the power (`None` where it can't be read), and where it ends.
    fn exponent(&self, at: usize) -> Option<(Option<i64>, usize)> {
        if matches!(self.get(at), Some('e' | 'E')) {
            let (power, end) = self.signed_digits(at + 1);
            let bare = !self.get(end).is_some_and(|c| is_word_letter(c) || c == '_');
            return (self.is_digit(end.saturating_sub(1)) && end > at + 1 && bare).then_some((power, end));
        }
        let sign = self.skip_spaces(at);
        if !matches!(self.get(sign), Some('×' | 'x' | 'X' | '*')) {
            return None;
        }
        let ten = self.skip_spaces(sign + 1);
        if !(self.get(ten) == Some('1') && self.get(ten + 1) == Some('0')) {
            return None;
        }
        let caret = match (self.get(ten + 2), self.get(ten + 3)) {
            (Some('^'), _) => ten + 3,
            (Some('*'), Some('*')) => ten + 4,
            _ => return None,
        };
        let (power, end) = self.signed_digits(caret);
        Some((power, end))
    }

    /// Reads `a/b` and `w a/b` behind or from a core that ends at `end`: whole part, core and denominator as spans.
    #[expect(clippy::type_complexity, reason = "three spans, named where they are used")]
    fn fraction(
        &self,
        core: (usize, usize),
        end: &mut usize,
        plain: bool,
        readable: &mut bool,
    ) -> (Option<(usize, usize)>, (usize, usize), Option<(usize, usize)>) {
        let integral =
            |span: (usize, usize)| self.chars.get(span.0..span.1).is_some_and(|s| s.iter().all(char::is_ascii_digit));
        if let Some(den) = self.denominator(*end) {
            *end = den.1;
            *readable &= plain && integral(core);
            return (None, core, Some(den));
        }
        let gap = self.skip_spaces(*end);
        let digits = self.digits_from(gap);
        let mixed = plain && integral(core) && gap == *end + 1 && digits > 0 && self.get(gap + digits) == Some('/');
        if mixed && let Some(den) = self.denominator(gap + digits) {
            *end = den.1;
            return (Some(core), (gap, gap + digits), Some(den));
        }
        (None, core, None)
    }

    /// Digits behind a slash at `at`, which may have one space on each side.
    fn denominator(&self, at: usize) -> Option<(usize, usize)> {
        let slash = if self.get(at) == Some(' ') && self.get(at + 1) == Some('/') { at + 1 } else { at };
        let from = if slash > at && self.get(slash + 1) == Some(' ') { slash + 2 } else { slash + 1 };
        let count = self.digits_from(from);
        (self.get(slash) == Some('/') && count > 0).then_some((from, from + count))
    }

    /// A range, date, time or version goes on behind the number: moves past all of it.
    fn skip_chain(&self, end: &mut usize) -> bool {
        let mut chained = false;
        while matches!(self.get(*end), Some('-' | '/' | ':')) && self.is_digit(*end + 1) {
            chained = true;
            *end = self.core_end(*end + 1);
        }
        chained
    }

    /// Letters that hold further digits (`3D4`, `0x1F`), or an ordinal's ending.
    fn is_glued_word(&self, at: usize) -> bool {
        let letters: String = self.chars.iter().skip(at).take(64).take_while(|c| is_word_letter(**c)).collect();
        let after = at + letters.chars().count();
        !letters.is_empty() && (self.is_digit(after) || ["st", "nd", "rd", "th"].contains(&letters.as_str()))
    }

    fn currency_before(&self, start: usize) -> bool {
        self.before(start).is_some_and(is_currency)
            || (self.before(start) == Some(' ')
                && start.checked_sub(2).and_then(|i| self.get(i)).is_some_and(is_currency))
    }

    /// `million` and the like, `k`, `M`, `bn` behind an amount of money: the power of ten, and where the word ends.
    fn magnitude(&self, at: usize, currency: bool) -> (i64, usize) {
        let from = self.skip_spaces(at);
        let word: String = self.chars.iter().skip(from).take(12).take_while(|c| is_word_letter(**c)).collect();
        let length = word.chars().count();
        let power = match word.to_ascii_lowercase().as_str() {
            "thousand" => 3,
            "million" | "millions" => 6,
            "billion" | "billions" => 9,
            "trillion" | "trillions" => 12,
            "k" if currency && from == at => 3,
            "m" | "mn" if currency && from == at => 6,
            "b" | "bn" if currency && from == at => 9,
            _ => return (0, at),
        };
        (power, from + length)
    }

    fn percent(&self, at: usize) -> (bool, usize) {
        let from = self.skip_spaces(at);
        if self.get(from) == Some('%') {
            return (true, from + 1);
        }
        let tail: String = self.chars.iter().skip(from).take(11).collect::<String>().to_ascii_lowercase();
        for word in ["percent", "per cent", "pct"] {
            let ends = tail.strip_prefix(word).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()));
            if ends {
                return (true, from + word.len());
            }
        }
        (false, at)
    }

    /// A minus before the token (and before its currency sign) that is no operator between two operands.
    fn is_negative(&self, start: usize) -> bool {
        let mut at = start;
        while at.checked_sub(1).and_then(|i| self.get(i)).is_some_and(|c| is_currency(c) || c == '\\') {
            at -= 1;
        }
        if self.before(at) != Some('-') {
            return false;
        }
        let sign = at - 1;
        let operand = self.chars.get(..sign).unwrap_or_default().iter().rev().take(8).find(|c| **c != ' ');
        !operand.is_some_and(|c| c.is_ascii_digit() || matches!(c, ')' | ']' | '%'))
    }
}

impl Token {
    /// The token as written, without a sign that is not part of it.
    pub fn text(&self, chars: &[char]) -> String {
        let text: String = chars.get(self.start..self.end).unwrap_or_default().iter().collect();
        let negative = matches!(self.shape, Shape::Number { negative: true, .. });
        format!("{}{}", if negative { "-" } else { "" }, text.trim())
    }

    /// The number in this notation; `None` where the token is no single number.
    pub fn number(&self, chars: &[char], locale: NumberLocale) -> Option<Number> {
        let Shape::Number { core, exponent, denominator, whole, negative, percent } = &self.shape else { return None };
        let read = |span: &(usize, usize)| {
            let text: String = chars.get(span.0..span.1).unwrap_or_default().iter().collect();
            read_core(&text, locale)
        };
        let (int, frac) = read(core)?;
        let mut number = Number::decimal(false, &int, &frac, *exponent)?;
        if let Some(span) = denominator {
            let (den, _) = read(span)?;
            let den = Number::decimal(false, &den, "", 0)?;
            number = Number::fraction(&Number::decimal(false, &int, "", 0)?, &den)?;
            if let Some(span) = whole {
                let (int, _) = read(span)?;
                if !number.is_below(&Number::decimal(false, "1", "", 0)?) {
                    return None;
                }
                number = number.plus(&Number::decimal(false, &int, "", 0)?)?;
            }
            number = number.scaled(*exponent)?;
        }
        let mut number = if *negative { number.negated() } else { number };
        number.percent = *percent;
        Some(number)
    }
}

/// Digits before and after the decimal point of a core such as `1,234.5`; `None` where it does not follow the notation.
fn read_core(core: &str, locale: NumberLocale) -> Option<(String, String)> {
    let (group, point) = match locale {
        NumberLocale::En => (',', '.'),
        NumberLocale::De => ('.', ','),
    };
    let (int, frac) = match core.split_once(point) {
        Some((int, frac)) => (int, frac),
        None => (core, ""),
    };
    if !frac.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let Some(separator) = int.chars().find(|c| !c.is_ascii_digit()) else {
        return Some((int.to_owned(), frac.to_owned()));
    };
    if separator != group && !matches!(separator, '\'' | '_' | GROUP_SPACE) {
        return None;
    }
    let groups: Vec<&str> = int.split(separator).collect();
    let (first, rest) = groups.split_first()?;
    let (last, middle) = rest.split_last()?;
    let digits = |text: &str, sizes: &[usize]| sizes.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let western = digits(first, &[1, 2, 3]) && middle.iter().all(|g| digits(g, &[3]));
    let indian =
        separator == ',' && !middle.is_empty() && digits(first, &[1, 2]) && middle.iter().all(|g| digits(g, &[2]));
    let grouped = digits(last, &[3]) && !first.starts_with('0') && (western || indian);
    grouped.then(|| (groups.concat(), frac.to_owned()))
}

#[cfg(test)]
#[path = "number_scan_tests.rs"]
mod tests;
