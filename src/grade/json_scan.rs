//! A strict JSON reader (RFC 8259) for model output. It tells more than a parser that only accepts or refuses: duplicate keys,
//! numbers that lose digits, lone surrogates, and where exactly a text stops being JSON. Numbers keep their digits.

use std::collections::HashSet;

use serde_json::{Map, Number, Value};

/// Nesting that is read; deeper is refused.
pub const MAX_DEPTH: usize = 128;

#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    /// Digits as written.
    Number(String),
    Text(String),
    List(Vec<Json>),
    /// In the order written, duplicates included.
    Object(Vec<(String, Json)>),
}

/// What is unusual in a text that is JSON all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// A name stands twice in one object; the last one counts, as in most parsers.
    pub duplicate_keys: bool,
    /// An integer beyond ±2^53, which many readers round.
    pub big_integers: bool,
    /// An escaped half of a surrogate pair; it is read as U+FFFD.
    pub lone_surrogates: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Byte offset.
    pub at: usize,
    pub what: &'static str,
}

#[derive(Debug)]
pub struct Read {
    pub json: Json,
    pub oddities: Oddities,
    /// Byte offset behind the value.
    pub end: usize,
}

/// Reads one value at the start of `text` (after white space). What follows it is the caller's matter.
pub fn read_value(text: &str) -> Result<Read, Fault> {
    let mut reader = Reader { bytes: text.as_bytes(), text, at: 0, oddities: Oddities::default() };
    let json = reader.value(0)?;
    Ok(Read { json, oddities: reader.oddities, end: reader.at })
}

/// Reads `text` as one JSON document, white space around it allowed.
pub fn read_document(text: &str) -> Result<Read, Fault> {
    let read = read_value(text)?;
    let rest = text.get(read.end..).unwrap_or_default();
    match rest.find(|c: char| !matches!(c, ' ' | '\t' | '\n' | '\r')) {
        None => Ok(read),
        Some(offset) => Err(Fault { at: read.end + offset, what: TRAILING_TEXT }),
    }
}

/// The fault of text behind a complete value.
pub const TRAILING_TEXT: &str = "text follows the JSON value";
pub const TOO_DEEP: &str = "nested too deeply";
/// The fault of `NaN`, `Infinity` and `-Infinity`.
pub const NOT_A_NUMBER: &str = "NaN and Infinity are no JSON";

struct Reader<'t> {
    bytes: &'t [u8],
    text: &'t str,
    at: usize,
    oddities: Oddities,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn fault<T>(&self, what: &'static str) -> Result<T, Fault> {
        Err(Fault { at: self.at, what })
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes()));
        if found {
            self.at += word.len();
        }
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, Fault> {
        self.skip_space();
        if depth > MAX_DEPTH {
            return self.fault(TOO_DEEP);
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') if self.take("true") => Ok(Json::Bool(true)),
            Some(b'f') if self.take("false") => Ok(Json::Bool(false)),
            Some(b'n') if self.take("null") => Ok(Json::Null),
            Some(b'N' | b'I') => self.fault(NOT_A_NUMBER),
            Some(b'\'') => self.fault("strings need double quotes"),
            Some(b'/') => self.fault("comments are no JSON"),
            Some(_) => self.fault("no JSON value starts here"),
            None => self.fault("the text ends where a value is due"),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, Fault> {
        self.at += 1;
        let mut members: Vec<(String, Json)> = Vec::new();
        let mut names: HashSet<String> = HashSet::new();
        self.skip_space();
        if self.take("}") {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return self.fault("a member's name in double quotes is due");
            }
            let name = self.string()?;
            self.skip_space();
            if !self.take(":") {
                return self.fault("a colon is due");
            }
            let value = self.value(depth + 1)?;
            self.oddities.duplicate_keys |= !names.insert(name.clone());
            members.push((name, value));
            self.skip_space();
            if self.take("}") {
                return Ok(Json::Object(members));
            }
            if !self.take(",") {
                return self.fault("a comma or `}` is due");
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, Fault> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.take("]") {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take("]") {
                return Ok(Json::List(items));
            }
            if !self.take(",") {
                return self.fault("a comma or `]` is due");
            }
        }
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - from
    }

    fn number(&mut self) -> Result<Json, Fault> {
        let start = self.at;
        let _ = self.take("-");
        if self.peek() == Some(b'I') {
            return self.fault(NOT_A_NUMBER);
        }
        let leading_zero = self.peek() == Some(b'0');
        let int = self.digits();
        if int == 0 || (leading_zero && int > 1) {
            return self.fault("a number can't be written like this");
        }
        let mut integer = true;
        if self.take(".") {
            integer = false;
            if self.digits() == 0 {
                return self.fault("digits are due behind the decimal point");
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            integer = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return self.fault("digits are due in the exponent");
            }
        }
        let digits = self.text.get(start..self.at).unwrap_or_default().to_owned();
        match digits.parse::<f64>() {
            Ok(value) if value.is_finite() => {
                self.oddities.big_integers |= integer && value.abs() > 9_007_199_254_740_992.0;
                Ok(Json::Number(digits))
            }
            _ => {
                self.at = start;
                self.fault("the number is out of range")
            }
        }
    }

    fn string(&mut self) -> Result<String, Fault> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let from = self.at;
            while self.peek().is_some_and(|b| b != b'"' && b != b'\\' && b >= 0x20) {
                self.at += 1;
            }
            out.push_str(self.text.get(from..self.at).unwrap_or_default());
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => self.escape(&mut out)?,
                Some(_) => return self.fault("a control character must be escaped"),
                None => return self.fault("a string does not end"),
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), Fault> {
        let plain = match self.bytes.get(self.at + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(out),
            _ => return self.fault("an unknown escape"),
        };
        out.push(plain);
        self.at += 2;
        Ok(())
    }

    /// `\uXXXX`, or two of them that form a pair.
    fn unicode(&mut self, out: &mut String) -> Result<(), Fault> {
        let unit = self.code_unit()?;
        if (0xD800..0xDC00).contains(&unit) && self.bytes.get(self.at..self.at + 2) == Some(b"\\u") {
            let back = self.at;
            let low = self.code_unit()?;
            if (0xDC00..0xE000).contains(&low) {
                let code = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                out.push(char::from_u32(code).unwrap_or('\u{fffd}'));
                return Ok(());
            }
            self.at = back;
        }
        if let Some(c) = char::from_u32(unit) {
            out.push(c);
        } else {
            self.oddities.lone_surrogates = true;
            out.push('\u{fffd}');
        }
        Ok(())
    }

    fn code_unit(&mut self) -> Result<u32, Fault> {
        let digits = self.text.get(self.at + 2..self.at + 6).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|d| u32::from_str_radix(d, 16).ok()) {
            Some(unit) => {
                self.at += 6;
                Ok(unit)
            }
            None => self.fault("four hex digits are due"),
        }
    }
}

impl Json {
    /// The last member of this name.
    pub fn member(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// As `serde_json` holds it: integers beyond 64 bits become floats, the last of duplicate names counts.
    pub fn to_value(&self) -> Value {
        match self {
            Json::Null => Value::Null,
            Json::Bool(flag) => Value::Bool(*flag),
            Json::Number(digits) => digits.parse::<Number>().map_or(Value::Null, Value::Number),
            Json::Text(text) => Value::String(text.clone()),
            Json::List(items) => Value::Array(items.iter().map(Json::to_value).collect()),
            Json::Object(members) => Value::Object(
                members.iter().map(|(name, value)| (name.clone(), value.to_value())).collect::<Map<_, _>>(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odd(text: &str) -> Oddities {
        read_document(text).unwrap().oddities
    }

    #[test]
    fn oddities_are_found() {
        assert!(odd(r#"{"a":1,"a":2}"#).duplicate_keys);
        assert!(odd(r#"{"a":1,"\u0061":2}"#).duplicate_keys);
        assert!(!odd(r#"{"a":{"a":1}}"#).duplicate_keys);
        assert!(odd("12345678901234567890123").big_integers);
        assert!(!odd("9007199254740991").big_integers);
        assert!(odd(r#""\ud800x""#).lone_surrogates);
        assert!(odd(r#""\udc00""#).lone_surrogates);
        assert_eq!(odd(r#""\ud83d\ude00""#), Oddities::default());
    }

    #[test]
    fn faults_say_what_and_where() {
        for (text, at, what) in [
            ("{\"a\":NaN}", 5, NOT_A_NUMBER),
            ("[-Infinity]", 2, NOT_A_NUMBER),
            ("{} x", 3, TRAILING_TEXT),
            ("{'a':1}", 1, "a member's name in double quotes is due"),
            ("[1,]", 3, "no JSON value starts here"),
            ("[01]", 3, "a number can't be written like this"),
            ("\"a", 2, "a string does not end"),
            ("[1e999]", 1, "the number is out of range"),
            ("", 0, "the text ends where a value is due"),
        ] {
            assert_eq!(read_document(text).unwrap_err(), Fault { at, what }, "{text}");
        }
        assert!(read_document(&"[".repeat(1_000_000)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn it_agrees_with_serde_json(text in r#"[\[\]{}",:0-9a-u\\ .eE+\-\n]{0,40}"#) {
            let ours = read_document(&text);
            match serde_json::from_str::<Value>(&text) {
                Ok(theirs) => proptest::prop_assert_eq!(ours.unwrap().json.to_value(), theirs),
                Err(_) => proptest::prop_assert!(ours.is_err() || ours.unwrap().oddities.lone_surrogates, "{}", text),
            }
        }
    }
}
