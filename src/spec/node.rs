//! The untyped tree between YAML text and suite: every node and key keeps its place.

use serde_json::{Map, Number, Value};

use super::diagnostic::{Mistake, Sink};
use super::source::Place;

#[derive(Clone, Debug)]
pub struct Node {
    pub place: Place,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub enum Kind {
    /// The text as written; `plain` where neither quotes nor a block nor `!!str` make it text for sure. `literal` is a
    /// `|` block, whose place starts at its first line that is not blank.
    Scalar {
        text: String,
        plain: bool,
        literal: bool,
    },
    Seq(Vec<Node>),
    /// Keys are unique.
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub key: Key,
    pub value: Node,
}

#[derive(Clone, Debug)]
pub struct Key {
    pub text: String,
    pub plain: bool,
    pub place: Place,
}

/// How a plain number becomes JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Any JSON number is a number: request bodies, schemas.
    Values,
    /// Only where JSON writes it the same way; `1.20` and a 30-digit integer stay text. Rows of data, whose answers
    /// are compared as written.
    AsWritten,
}

impl Node {
    pub fn scalar(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    pub fn items(&self) -> Option<&[Node]> {
        match &self.kind {
            Kind::Seq(items) => Some(items),
            _ => None,
        }
    }

    pub fn entries(&self) -> Option<&[Entry]> {
        match &self.kind {
            Kind::Map(entries) => Some(entries),
            _ => None,
        }
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries()?.iter().find(|e| e.key.text == key)
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|e| &e.value)
    }

    /// `null`, `~` or nothing at all.
    pub fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true, .. } if is_null(text))
    }

    /// What the node is, for messages.
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Seq(_) => "a list".to_owned(),
            Kind::Map(_) => "a map".to_owned(),
            Kind::Scalar { text, plain: true, .. } if text.is_empty() => "nothing".to_owned(),
            Kind::Scalar { text, plain, .. } => {
                let short: String = text.chars().take(40).collect();
                let more = if short.len() < text.len() { "…" } else { "" };
                if *plain { format!("`{short}{more}`") } else { format!("the text `{short}{more}`") }
            }
        }
    }

    /// Nodes in this tree, itself included.
    pub fn size(&self) -> usize {
        1 + match &self.kind {
            Kind::Scalar { .. } => 0,
            Kind::Seq(items) => items.iter().map(Node::size).sum(),
            Kind::Map(entries) => entries.iter().map(|e| 1 + e.value.size()).sum(),
        }
    }

    /// Levels of lists and maps, 0 for a scalar.
    pub fn height(&self) -> usize {
        let below = |heights: &mut dyn Iterator<Item = usize>| 1 + heights.max().unwrap_or(0);
        match &self.kind {
            Kind::Scalar { .. } => 0,
            Kind::Seq(items) => below(&mut items.iter().map(Node::height)),
            Kind::Map(entries) => below(&mut entries.iter().map(|e| e.value.height())),
        }
    }

    /// The node as JSON, plain scalars typed by YAML 1.2's core schema, save that a number which JSON can't write
    /// (`012`, `0x10`) stays text. NaN and infinities are mistakes.
    pub fn to_json(&self, numbers: Numbers, sink: &mut Sink) -> Value {
        match &self.kind {
            Kind::Scalar { text, plain: false, .. } => Value::String(text.clone()),
            Kind::Scalar { text, .. } => plain_json(text, numbers).unwrap_or_else(|| {
                let message = format!("`{text}` is not a number that JSON can hold");
                sink.report(Mistake::new("bad-number", self.place, message).hint("put it in quotes if it is text"));
                Value::Null
            }),
            Kind::Seq(items) => Value::Array(items.iter().map(|n| n.to_json(numbers, sink)).collect()),
            Kind::Map(_) => Value::Object(self.to_object(numbers, sink)),
        }
    }

    /// A map as a JSON object; empty for anything else.
    pub fn to_object(&self, numbers: Numbers, sink: &mut Sink) -> Map<String, Value> {
        let entries = self.entries().unwrap_or_default();
        entries.iter().map(|e| (e.key.text.clone(), e.value.to_json(numbers, sink))).collect()
    }
}

pub fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// A plain scalar as JSON; `None` for NaN and infinities.
fn plain_json(text: &str, numbers: Numbers) -> Option<Value> {
    let value = match text {
        text if is_null(text) => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        text if is_not_finite(text) => return None,
        text => match json_number(text) {
            Some(number) if numbers == Numbers::Values || number.to_string() == text => Value::Number(number),
            _ => Value::String(text.to_owned()),
        },
    };
    Some(value)
}

/// `.nan`, `.inf` and their kin.
pub fn is_not_finite(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(unsigned, ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF")
}

/// A number in JSON's own notation that is finite.
fn json_number(text: &str) -> Option<Number> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Number(number)) => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn typed(text: &str, numbers: Numbers) -> Value {
        let node =
            Node { place: Place::default(), kind: Kind::Scalar { text: text.into(), plain: true, literal: false } };
        node.to_json(numbers, &mut Sink::default())
    }

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        let cases = [
            ("no", json!("no")),
            ("012", json!("012")),
            ("0x10", json!("0x10")),
            ("1_000", json!("1_000")),
            ("12", json!(12)),
            ("-3", json!(-3)),
            ("true", json!(true)),
            ("~", json!(null)),
            ("0.5", json!(0.5)),
            ("2026-12-01", json!("2026-12-01")),
        ];
        for (text, want) in cases {
            assert_eq!(typed(text, Numbers::Values), want, "{text}");
            assert_eq!(typed(text, Numbers::AsWritten), want, "{text}");
        }
    }

    #[test]
    fn rows_keep_numbers_that_json_would_rewrite() {
        for text in ["1.20", "1e3", "123456789012345678901234567890"] {
            assert_eq!(typed(text, Numbers::AsWritten), json!(text));
            assert!(typed(text, Numbers::Values).is_number());
        }
    }

    #[test]
    fn nan_is_a_mistake() {
        let node =
            Node { place: Place::default(), kind: Kind::Scalar { text: ".nan".into(), plain: true, literal: false } };
        let mut sink = Sink::default();
        node.to_json(Numbers::Values, &mut sink);
        assert!(sink.has_errors());
    }
}
