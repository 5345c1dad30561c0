//! How much work a schema that refers to itself may cost: with k such references at one place, an answer nested d deep
//! is validated k^d times, so a small answer could keep a validator busy for ever.

use std::collections::BTreeSet;

use serde_json::Value;

/// Visits of one place in an answer that are allowed.
const MAX_VISITS: u64 = 1_000_000;

/// How often one level of nesting multiplies the visits; 0 or 1 is linear.
pub fn branching(root: &Value) -> u64 {
    let mut most = weight(root, root);
    for defs in ["$defs", "definitions"] {
        let members = root.get(defs).and_then(Value::as_object).into_iter().flat_map(|map| map.values());
        most = members.fold(most, |most, schema| most.max(weight(schema, root)));
    }
    most
}

/// Whether `answer` may be validated by a schema of this branching.
pub fn affordable(branching: u64, answer: &Value) -> bool {
    branching < 2 || branching.saturating_pow(depth(answer)) <= MAX_VISITS
}

fn depth(value: &Value) -> u32 {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn weight(schema: &Value, root: &Value) -> u64 {
    match schema {
        Value::Array(items) => items.iter().map(|item| weight(item, root)).sum(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| match (key.as_str(), value) {
                ("$ref" | "$dynamicRef", Value::String(target)) => u64::from(is_cyclic(target, root)),
                ("$defs" | "definitions" | "const" | "enum" | "default" | "examples", _) => 0,
                // Members of different names are different places of the answer.
                ("properties", Value::Object(map)) => map.values().map(|v| weight(v, root)).max().unwrap_or(0),
                _ => weight(value, root),
            })
            .sum(),
        _ => 0,
    }
}

/// Whether following the reference leads back to it. What can't be followed counts as if it did.
fn is_cyclic(target: &str, root: &Value) -> bool {
    let mut seen = BTreeSet::new();
    let mut pending = vec![target];
    while let Some(next) = pending.pop() {
        let Some(schema) = next.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) else { return true };
        let mut inner = vec![];
        references(schema, &mut inner);
        for reference in inner {
            if reference == target {
                return true;
            }
            if seen.insert(reference) {
                pending.push(reference);
            }
        }
    }
    false
}

fn references<'s>(schema: &'s Value, found: &mut Vec<&'s str>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("$ref" | "$dynamicRef", Value::String(target)) => found.push(target),
                    _ => references(value, found),
                }
            }
        }
        _ => {}
    }
}
