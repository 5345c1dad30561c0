//! `json`: whether a reply is JSON, fits a schema, and holds the expected fields.
//!
//! Measures, each 0 or 1 unless said otherwise: `raw` (the reply is one JSON document), `unwrapped` (it is, or one fence that encloses the whole reply
//! is), `in_prose` (the JSON had to be searched: the only fence, or the only object, amid other text), `schema_valid` (JSON
//! Schema 2020-12), `fields` (the share of expected fields that are right), and the findings `duplicate_keys`,
//! `big_integers`, `lone_surrogates`, `trailing_text`, `nan` where they occur. Passes: JSON was found, unwrapped or in prose, the schema (if any) holds,
//! and every expected field (if any) is right. Several objects in prose are no answer: which one was meant is unknown.
//!
//! Fields compare by name on the top level, further members are the schema's matter: null equals null and is not the same as
//! missing, numbers are equal by value (`1` = `1.0`, exactly), text after NFKC and trimming, lists in order, nested objects by all their members.

use std::collections::BTreeMap;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization;

use super::gold;
use super::grader::{AnswerText, FieldRenderer, Grader, clip, no_answer, suite_fault};
use super::json_scan::{Fault, Json, NOT_A_NUMBER, Read, TOO_DEEP, TRAILING_TEXT, read_document, read_value};
use super::json_work;
use super::number::Number;
use super::score::{Score, Verdict};
use crate::spec::{Field, JsonSchemaRef, Row};

/// Larger replies are not searched for JSON: they fail.
const MAX_BYTES: usize = 4 * 1024 * 1024;

pub struct JsonGrader {
    /// `Err` says why the schema can't be used; every row is then unscored, never failed.
    schema: Option<Result<Validator, String>>,
    /// See [`json_work::branching`].
    branching: u64,
    fields: Option<Field>,
}

impl JsonGrader {
    pub fn new(schema: Option<&JsonSchemaRef>, fields: Option<Field>) -> JsonGrader {
        let branching = schema.map_or(0, |schema| json_work::branching(&schema.schema));
        JsonGrader { schema: schema.map(compile_schema), branching, fields }
    }
}

/// Compiles a schema as JSON Schema 2020-12. Nothing is ever fetched; patterns run in linear time.
pub fn compile_schema(schema: &JsonSchemaRef) -> Result<Validator, String> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(PatternOptions::regex().size_limit(super::build::MAX_PATTERN_BYTES))
        .offline()
        .build(&schema.schema)
        .map_err(|error| format!("the schema {} can't be used: {error}", schema.source))
}

impl Grader for JsonGrader {
    fn kind(&self) -> &'static str {
        "json"
    }

    fn version(&self) -> u32 {
        1
    }

    fn grade(&self, answer: &AnswerText<'_>, row: &Row, fields: &FieldRenderer<'_>) -> Verdict {
        let schema = match self.schema.as_ref().map(Result::as_ref).transpose() {
            Ok(schema) => schema,
            Err(detail) => return suite_fault(detail.as_str()),
        };
        let expected = match self.expected(row, fields) {
            Ok(expected) => expected,
            Err(detail) => return suite_fault(detail),
        };
        if answer.is_empty() {
            return no_answer("the reply is empty");
        }
        if answer.text.len() > MAX_BYTES {
            return no_answer("the reply is too long to be read as JSON");
        }
        let found = search(answer.text);
        if schema.is_some()
            && let Some((read, _)) = &found.json
            && !json_work::affordable(self.branching, &read.json.to_value())
        {
            return suite_fault(
                "the schema refers to itself more than once, and the answer is nested too deeply to be validated",
            );
        }
        judge(&found, schema, expected.as_ref())
    }
}

impl JsonGrader {
    fn expected(&self, row: &Row, fields: &FieldRenderer<'_>) -> Result<Option<Map<String, Value>>, String> {
        let Some(field) = &self.fields else { return Ok(None) };
        match gold::rendered(field, row, fields)? {
            Value::Object(map) if !map.is_empty() => Ok(Some(map)),
            _ => Err("the expected fields must be a map from name to value that is not empty".to_owned()),
        }
    }
}

/// What was found in a reply.
struct Found<'t> {
    raw: bool,
    unwrapped: bool,
    /// JSON and its text; absent where there is none, or no single one.
    json: Option<(Read, &'t str)>,
    /// Why the reply as a whole is no JSON document.
    fault: Option<Fault>,
    several: bool,
}

fn search(text: &str) -> Found<'_> {
    let text = text.trim().trim_start_matches('\u{feff}').trim();
    let fault = match read_document(text) {
        Ok(read) => return Found { raw: true, unwrapped: true, json: Some((read, text)), fault: None, several: false },
        Err(fault) => fault,
    };
    let nothing = Found { raw: false, unwrapped: false, json: None, fault: Some(fault), several: false };
    let fences = fences(text);
    if let [fence] = fences.as_slice() {
        return match read_document(fence.inner.trim()) {
            Ok(read) => Found { unwrapped: fence.encloses, json: Some((read, fence.inner.trim())), ..nothing },
            Err(fault) => Found { fault: Some(fault), ..nothing },
        };
    }
    if fences.len() > 1 {
        let mut documents = fences.iter().filter_map(|f| Some((read_document(f.inner.trim()).ok()?, f.inner.trim())));
        let (first, second) = (documents.next(), documents.next());
        return match second {
            Some(_) => Found { several: true, ..nothing },
            None => Found { json: first, ..nothing },
        };
    }
    match object_in_prose(text) {
        Prose::One(read, inner) => Found { json: Some((read, inner)), ..nothing },
        Prose::Several => Found { several: true, ..nothing },
        Prose::None => nothing,
    }
}

struct Fence<'t> {
    inner: &'t str,
    /// Nothing but the fence is in the reply.
    encloses: bool,
}

/// Fenced blocks by lines: a fence opens with at least three backticks or tildes at a line's start (at most an info string behind) and closes with at least as many
/// alone on a line. Backticks inside a JSON string never stand alone on a line, so they close nothing.
fn fences(text: &str) -> Vec<Fence<'_>> {
    let mut found: Vec<Fence<'_>> = Vec::new();
    let mut open: Option<(char, usize, usize, bool)> = None;
    let mut outside = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let bare = line.trim();
        let mark = bare.chars().next().filter(|c| matches!(c, '`' | '~'));
        let count = mark.map_or(0, |m| bare.chars().take_while(|c| *c == m).count());
        let info = bare.get(count..).unwrap_or_default();
        match (open, mark) {
            (None, Some(mark)) if count >= 3 && !info.contains('`') => open = Some((mark, count, at, outside)),
            (Some((mark, width, from, before)), Some(close)) if close == mark && count >= width && info.is_empty() => {
                found.push(Fence { inner: text.get(from..start).unwrap_or_default(), encloses: !before });
                open = None;
                outside = false;
            }
            (None, _) if !bare.is_empty() => {
                outside = true;
                if let Some(fence) = found.last_mut() {
                    fence.encloses = false;
                }
            }
            _ => {}
        }
    }
    if found.len() > 1 {
        for fence in &mut found {
            fence.encloses = false;
        }
    }
    found
}

enum Prose<'t> {
    None,
    One(Read, &'t str),
    Several,
}

/// The only JSON object amid prose. What lies within an object that breaks off is a part of it and never taken for the
/// whole, so the search goes on where reading stopped; that makes it linear.
fn object_in_prose(text: &str) -> Prose<'_> {
    let mut found = None;
    let mut at = 0;
    while let Some(start) = text.get(at..).and_then(|rest| rest.find('{')).map(|offset| at + offset) {
        let rest = text.get(start..).unwrap_or_default();
        match read_value(rest) {
            Ok(_) if found.is_some() => return Prose::Several,
            Ok(read) => {
                at = start + read.end;
                let inner = rest.get(..read.end).unwrap_or_default();
                found = Some((read, inner));
            }
            Err(fault) if fault.what == TOO_DEEP => return Prose::None,
            Err(fault) => at = text.ceil_char_boundary(start + fault.at.max(1)),
        }
    }
    found.map_or(Prose::None, |(read, inner)| Prose::One(read, inner))
}

fn judge(found: &Found<'_>, schema: Option<&Validator>, expected: Option<&Map<String, Value>>) -> Verdict {
    let mut measures = BTreeMap::new();
    let mut measure = |name: &str, value: f64| measures.insert(name.to_owned(), value);
    let flag = |yes: bool| if yes { 1.0 } else { 0.0 };
    measure("raw", flag(found.raw));
    measure("unwrapped", flag(found.unwrapped));
    let fault = found.fault.as_ref();
    for (name, what) in [("trailing_text", TRAILING_TEXT), ("nan", NOT_A_NUMBER)] {
        if fault.is_some_and(|f| f.what == what) {
            measure(name, 1.0);
        }
    }
    let Some((read, text)) = &found.json else {
        if schema.is_some() {
            measure("schema_valid", 0.0);
        }
        let why = match (found.several, fault) {
            (true, _) => "several JSON values; which one is meant is unknown".to_owned(),
            (false, Some(fault)) => format!("no JSON: {} at byte {}", fault.what, fault.at),
            (false, None) => "no JSON".to_owned(),
        };
        return Verdict::Scored(Score { pass: false, value: 0.0, answer: None, explanation: Some(why), measures });
    };
    measure("in_prose", flag(!found.unwrapped));
    for (name, odd) in [
        ("duplicate_keys", read.oddities.duplicate_keys),
        ("big_integers", read.oddities.big_integers),
        ("lone_surrogates", read.oddities.lone_surrogates),
    ] {
        if odd {
            measure(name, 1.0);
        }
    }
    let mut pass = true;
    let mut why = if found.unwrapped { "JSON".to_owned() } else { "JSON amid other text".to_owned() };
    if let Some(schema) = schema {
        let value = read.json.to_value();
        let error = schema.iter_errors(&value).next();
        measure("schema_valid", flag(error.is_none()));
        if let Some(error) = error {
            pass = false;
            why = format!("the schema does not hold at `{}`: {}", error.instance_path(), clip(&error.to_string()));
        }
    }
    let mut value = flag(pass);
    if let Some(expected) = expected {
        let wrong: Vec<&str> = expected
            .iter()
            .filter(|(name, gold)| !read.json.member(name).is_some_and(|said| equal(said, gold)))
            .map(|(name, _)| name.as_str())
            .collect();
        value = (expected.len() - wrong.len()) as f64 / expected.len() as f64;
        measure("fields", value);
        if !wrong.is_empty() {
            if pass {
                why = format!("wrong or missing: {}", clip(&wrong.join(", ")));
            }
            pass = false;
        }
    }
    Verdict::Scored(Score { pass, value, answer: Some(clip(text)), explanation: Some(why), measures })
}

fn equal(said: &Json, gold: &Value) -> bool {
    match (said, gold) {
        (Json::Null, Value::Null) => true,
        (Json::Bool(said), Value::Bool(gold)) => said == gold,
        (Json::Number(said), Value::Number(gold)) => equal_numbers(said, &gold.to_string()),
        (Json::Text(said), Value::String(gold)) => said.trim().nfkc().eq(gold.trim().nfkc()),
        (Json::List(said), Value::Array(gold)) => {
            said.len() == gold.len() && said.iter().zip(gold).all(|(said, gold)| equal(said, gold))
        }
        (Json::Object(_), Value::Object(gold)) => {
            let Value::Object(names) = said.to_value() else { return false };
            names.len() == gold.len()
                && gold.iter().all(|(name, gold)| said.member(name).is_some_and(|said| equal(said, gold)))
        }
        _ => false,
    }
}

fn equal_numbers(said: &str, gold: &str) -> bool {
    match (exact(said), exact(gold)) {
        (Some(said), Some(gold)) => said.equals(&gold, 0.0, 0.0),
        _ => said == gold,
    }
}

/// A number in JSON's notation.
fn exact(text: &str) -> Option<Number> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (int, frac) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    Number::decimal(negative, int, frac, exponent.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measures(reply: &str, schema: Option<Value>, fields: Option<Value>) -> BTreeMap<String, f64> {
        let schema = schema.map(|schema| JsonSchemaRef { source: "inline".to_owned(), schema });
        let grader = JsonGrader::new(schema.as_ref(), fields.map(Field));
        let answer = AnswerText { text: reply, raw: reply, reasoning: "", finish_reason: None };
        let itself = |field: &Field, _: &Row| Ok(field.0.clone());
        match grader.grade(&answer, &Row::new(), &itself) {
            Verdict::Scored(score) => score.measures,
            Verdict::Unscored { detail, .. } => panic!("unscored: {detail:?}"),
        }
    }

    fn flags(reply: &str) -> Vec<String> {
        measures(reply, None, None).into_iter().filter(|(_, value)| *value == 1.0).map(|(name, _)| name).collect()
    }

    #[test]
    fn three_levels_and_the_findings_are_told_apart() {
        for (reply, want) in [
            ("{\"a\": 1}", vec!["raw", "unwrapped"]),
            ("```json\n{\"a\": 1}\n```", vec!["unwrapped"]),
            ("So:\n```json\n{\"a\": 1}\n```", vec!["in_prose"]),
            ("```json\n{\"a\": 1}\n```\nDone.", vec!["in_prose"]),
            ("{\"a\": 1} it is", vec!["in_prose", "trailing_text"]),
            ("{\"a\": NaN}", vec!["nan"]),
            ("{\"a\": 1, \"a\": 2}", vec!["duplicate_keys", "raw", "unwrapped"]),
            ("{\"a\": 12345678901234567890}", vec!["big_integers", "raw", "unwrapped"]),
            ("{\"a\": \"\\udc00\"}", vec!["lone_surrogates", "raw", "unwrapped"]),
            ("nothing", vec![]),
        ] {
            assert_eq!(flags(reply), want, "{reply}");
        }
    }

    #[test]
    fn fields_and_schema_are_measured_beside_each_other() {
        let schema = json!({"type": "object", "required": ["c"]});
        let found = measures("{\"a\": 1, \"b\": 3}", Some(schema.clone()), Some(json!({"a": 1, "b": 2})));
        assert_eq!((found["fields"], found["schema_valid"]), (0.5, 0.0));
        assert_eq!(measures("prose", Some(schema), None)["schema_valid"], 0.0);
    }

    #[test]
    fn a_schema_that_refers_to_itself_cannot_keep_the_validator_busy() {
        let recursive = |alternatives: usize| {
            let refs = vec![json!({"$ref": "#"}); alternatives];
            let schema = json!({"properties": {"a": {"anyOf": refs}}, "required": ["zz"]});
            JsonGrader::new(Some(&JsonSchemaRef { source: "inline".to_owned(), schema }), None)
        };
        let unscored = |grader: &JsonGrader, depth: usize| {
            let text = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
            let answer = AnswerText { text: &text, raw: &text, reasoning: "", finish_reason: None };
            let itself = |field: &Field, _: &Row| Ok(field.0.clone());
            matches!(grader.grade(&answer, &Row::new(), &itself), Verdict::Unscored { .. })
        };
        assert!(unscored(&recursive(2), 100));
        assert!(!unscored(&recursive(2), 5));
        assert!(!unscored(&recursive(1), 100));
    }
}
