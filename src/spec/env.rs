//! `${env:NAME}`: names of variables in texts, filled in only for the copy that a run works with.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

use super::diagnostic::{Mistake, Sink};
use super::node::{Kind, Node};
use super::suite::Suite;
use crate::world::World;

#[allow(clippy::unwrap_used)] // A constant pattern; every test of this file compiles it.
static VARIABLE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}").unwrap());

/// Whether a text has a variable in it.
pub fn has_variable(text: &str) -> bool {
    VARIABLE.is_match(text)
}

/// The text with all variables filled in, or the names that are not set.
pub fn fill(text: &str, world: &dyn World) -> Result<String, Vec<String>> {
    let mut missing = vec![];
    let filled = VARIABLE.replace_all(text, |found: &Captures<'_>| {
        let name = found.get(1).map_or("", |m| m.as_str());
        world.env(name).unwrap_or_else(|| {
            missing.push(name.to_owned());
            String::new()
        })
    });
    if missing.is_empty() { Ok(filled.into_owned()) } else { Err(missing) }
}

/// Tells of every variable in the tree that is not set, and of every `${env:` that is not in the one form.
pub fn check(root: &Node, world: &dyn World, sink: &mut Sink) {
    check_node(root, &mut vec![], world, sink);
}

fn check_node<'n>(node: &'n Node, path: &mut Vec<&'n str>, world: &dyn World, sink: &mut Sink) {
    if is_data(path) {
        return;
    }
    match &node.kind {
        Kind::Scalar { text, .. } => check_text(text, node, world, sink),
        Kind::Seq(items) => items.iter().for_each(|item| check_node(item, path, world, sink)),
        Kind::Map(entries) => {
            for entry in entries {
                path.push(&entry.key.text);
                check_node(&entry.value, path, world, sink);
                path.pop();
            }
        }
    }
}

fn check_text(text: &str, node: &Node, world: &dyn World, sink: &mut Sink) {
    // A variable where no text may stand was told as such.
    if sink.has_error_at(node.place) {
        return;
    }
    if let Err(missing) = fill(text, world) {
        for name in missing {
            let message = format!("the environment variable `{name}` is not set");
            let hint = format!("set it: `export {name}=…`");
            sink.report(Mistake::new("missing-variable", node.place, message).hint(hint));
        }
    }
    if VARIABLE.replace_all(text, "").contains("${env:") {
        let message = "`${env:` is not followed by a variable's name and `}`";
        let hint = "write `${env:NAME}`: letters, digits and `_`, nothing else";
        sink.report(Mistake::new("bad-variable", node.place, message).hint(hint));
    }
}

/// Rows of data are never interpolated: a dataset that speaks of `${env:X}` means just that.
fn is_data(path: &[&str]) -> bool {
    matches!(path, ["tasks", "cases"] | ["tasks", "dataset", "cases"] | ["tasks", "examples", "row"])
}

/// The suite with every variable filled in, or the names of those that are not set, each once.
pub fn interpolate(suite: &Suite, world: &dyn World) -> Result<Suite, Vec<String>> {
    let failed = |e: serde_json::Error| vec![format!("(the suite does not serialize: {e})")];
    let mut value = serde_json::to_value(suite).map_err(failed)?;
    let mut missing = vec![];
    fill_value(&mut value, &mut vec![], world, &mut missing);
    missing.sort();
    missing.dedup();
    if missing.is_empty() { serde_json::from_value(value).map_err(failed) } else { Err(missing) }
}

fn fill_value(value: &mut Value, path: &mut Vec<String>, world: &dyn World, missing: &mut Vec<String>) {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    if is_data(&names) {
        return;
    }
    match value {
        Value::String(text) => match fill(text, world) {
            Ok(filled) => *text = filled,
            Err(names) => missing.extend(names),
        },
        Value::Array(items) => items.iter_mut().for_each(|item| fill_value(item, path, world, missing)),
        // A schema that was read from a file is data too.
        Value::Object(map) if is_read_schema(map) => {}
        Value::Object(map) => {
            for (key, value) in map {
                path.push(key.clone());
                fill_value(value, path, world, missing);
                path.pop();
            }
        }
        _ => {}
    }
}

fn is_read_schema(map: &serde_json::Map<String, Value>) -> bool {
    map.len() == 2 && map.contains_key("schema") && map.get("source").is_some_and(|s| s != super::INLINE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::FixedWorld;

    #[test]
    fn one_form_is_filled_and_nothing_else() {
        let world = FixedWorld::new(&[("A", "1"), ("B_2", "${env:A}")]);
        assert_eq!(fill("x${env:A}y${env:B_2}", &world), Ok("x1y${env:A}".to_owned()));
        for text in ["$A", "${A}", "${ env:A }", "${env: A}", "$env:A"] {
            assert_eq!(fill(text, &world), Ok(text.to_owned()));
        }
        assert_eq!(fill("${env:NO}${env:A}${env:NEITHER}", &world), Err(vec!["NO".to_owned(), "NEITHER".to_owned()]));
    }
}
