//! Graders of a task.

use std::collections::HashMap;

use serde_json::Value;

use super::Context;
use super::templates::Use;
use crate::spec::diagnostic::Mistake;
use crate::spec::files;
use crate::spec::keys_task::GRADERS;
use crate::spec::node::{Kind, Node, Numbers};
use crate::spec::shape::{Section, Shape};
use crate::spec::source::Place;
use crate::spec::task::{Field, GraderKind, GraderSpec, JsonSchemaRef, NumberLocale, Which};
use crate::spec::view::{View, text};
use crate::spec::{INLINE, RESERVED_METRICS};

const MAX_SCHEMA_BYTES: u64 = 4 << 20;
const MAX_REGEX_BYTES: usize = 4 << 20;

pub fn all(task: &View<'_>, uses: &mut Vec<Use>, cx: &mut Context<'_>) -> Vec<GraderSpec> {
    let nodes = task.items("graders");
    let found: Vec<(Place, GraderSpec)> = nodes.iter().filter_map(|node| one(node, uses, cx)).collect();
    let mut names: HashMap<&str, Place> = HashMap::new();
    for (place, spec) in &found {
        if RESERVED_METRICS.contains(&spec.name.as_str()) {
            let message = format!("a grader can't be called `{}`, which is a metric of every task", spec.name);
            cx.report(Mistake::new("bad-name", *place, message));
        }
        if let Some(first) = names.get(spec.name.as_str()) {
            let message = format!("two graders of the task are called `{}`", spec.name);
            let hint = "give one a `name:`, which is its metric's name";
            cx.report(Mistake::new("duplicate-name", *place, message).hint(hint).earlier(*first, "first written"));
        } else {
            names.insert(&spec.name, *place);
        }
    }
    let complete = found.len() == nodes.len();
    if let Some(node) = task.node("graders").filter(|n| n.items().is_some_and(|_| complete)) {
        if nodes.is_empty() {
            let mistake = Mistake::new("missing-key", node.place, "`graders` is empty");
            cx.report(mistake.hint("write at least one: `- exact: {answer: \"{{ answer }}\"}`"));
        } else if found.iter().all(|(_, spec)| spec.weight == 0.0) {
            let message = "no grader of the task decides: all have weight 0";
            cx.report(Mistake::new("no-decider", task.key_place("graders"), message).hint("give one a weight above 0"));
        }
    }
    found.into_iter().map(|(_, spec)| spec).collect()
}

/// One grader and the place that names it; `None` where its kind is unknown, not built yet, or wrong in its shape.
fn one(node: &Node, uses: &mut Vec<Use>, cx: &mut Context<'_>) -> Option<(Place, GraderSpec)> {
    let entry = node.entries()?.iter().find(|e| GRADERS.kinds.iter().any(|k| k.name == e.key.text))?;
    let spec = GRADERS.kinds.iter().find(|k| k.name == entry.key.text)?;
    let value = &entry.value;
    // Short forms of the combinators have no section: `all: [...]`, `not: {exact: ...}`.
    let (section, in_section): (&'static Section, bool) = match &spec.shape {
        Shape::Section(section) => (section, true),
        Shape::ListOr(_, section) => (section, value.entries().is_some()),
        Shape::VariantOr(_, section) => (section, value.get("grader").is_some()),
        _ => return None,
    };
    let view = View::new(in_section.then_some(value), section, entry.key.place);
    let kind = kind(spec.name, &view, value, uses, cx)?;
    let name = view.text("name");
    let place = if name.is_some() { view.place_of("name") } else { entry.key.place };
    let spec = GraderSpec {
        name: name.unwrap_or_else(|| spec.name.to_owned()),
        weight: view.number("weight").unwrap_or(1.0),
        threshold: view.number("threshold"),
        extract: view.text("extract"),
        kind,
    };
    Some((place, spec))
}

fn kind(name: &str, view: &View<'_>, value: &Node, uses: &mut Vec<Use>, cx: &mut Context<'_>) -> Option<GraderKind> {
    let kind = match name {
        "exact" => GraderKind::Exact { answer: field(view, "answer", uses, cx)? },
        "contains" => GraderKind::Contains { answer: field(view, "answer", uses, cx)? },
        "regex" => GraderKind::Regex {
            pattern: pattern(view, cx)?,
            which: view.word("which").unwrap_or(Which::First),
            answer: field(view, "answer", uses, cx),
        },
        "numeric" => GraderKind::Numeric {
            answer: field(view, "answer", uses, cx)?,
            abs_tolerance: view.number("abs_tolerance").unwrap_or(0.0),
            rel_tolerance: view.number("rel_tolerance").unwrap_or(0.0),
            locale: view.word("locale").unwrap_or(NumberLocale::En),
        },
        "choice" => {
            GraderKind::Choice { answer: field(view, "answer", uses, cx)?, options: field(view, "options", uses, cx)? }
        }
        "json" => GraderKind::Json { schema: schema(view, cx), fields: field(view, "fields", uses, cx) },
        "all" | "any" => {
            let list = if value.entries().is_some() { view.node("graders")? } else { value };
            let items = list.items()?;
            if items.is_empty() {
                let message = format!("`{name}` has no graders in it");
                cx.report(Mistake::new("missing-key", view.place, message));
            }
            let inner = items.iter().filter_map(|node| one(node, uses, cx)).map(|(_, spec)| spec).collect();
            if name == "all" { GraderKind::All(inner) } else { GraderKind::Any(inner) }
        }
        "not" => {
            let inner = view.node("grader").unwrap_or(value);
            GraderKind::Not(Box::new(one(inner, uses, cx)?.1))
        }
        _ => return None,
    };
    Some(kind)
}

fn field(view: &View<'_>, key: &str, uses: &mut Vec<Use>, cx: &mut Context<'_>) -> Option<Field> {
    let node = view.node_or_default(key)?;
    let field = Field(node.to_json(Numbers::AsWritten, cx.sink));
    let implied = view.node(key).is_none().then(|| format!("`{key}` is left out and means {}", field.0));
    uses.push(Use::field(node.place, &field, implied));
    Some(field)
}

fn pattern(view: &View<'_>, cx: &mut Context<'_>) -> Option<String> {
    let pattern = view.text("pattern")?;
    let built = regex::RegexBuilder::new(&pattern).size_limit(MAX_REGEX_BYTES).build();
    if let Err(error) = built {
        // The library draws the pattern over several lines; the last one says what is wrong.
        let text = error.to_string();
        let why = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let message = format!("not a valid regular expression: {why}");
        let hint = "no look-around and no back-references; in double quotes a backslash is written twice";
        cx.report(Mistake::new("bad-regex", view.place_of("pattern"), message).hint(hint));
    }
    Some(pattern)
}

/// A JSON Schema in place, or read from a file below the root: either way it travels in the plan.
fn schema(view: &View<'_>, cx: &mut Context<'_>) -> Option<JsonSchemaRef> {
    let node = view.node("schema")?;
    let found = match &node.kind {
        Kind::Map(_) => JsonSchemaRef { source: INLINE.to_owned(), schema: node.to_json(Numbers::Values, cx.sink) },
        Kind::Scalar { .. } => {
            let written = text(node)?;
            let path = super::task::resolve(&written, node.place, cx)?;
            let real = cx.filled(&path.display().to_string())?;
            let read = files::read(std::path::Path::new(&real), MAX_SCHEMA_BYTES).map_err(|e| e.to_string());
            let parsed = read.and_then(|b| serde_json::from_slice::<Value>(&b).map_err(|e| e.to_string()));
            match parsed {
                Ok(schema) => JsonSchemaRef { source: written, schema },
                Err(why) => {
                    let message = format!("`{written}` is not a JSON Schema: {why}");
                    cx.report(Mistake::new("bad-schema", node.place, message));
                    return None;
                }
            }
        }
        Kind::Seq(_) => {
            let message = "expected a JSON Schema or a file that holds one, found a list";
            cx.report(Mistake::new("wrong-type", node.place, message));
            return None;
        }
    };
    if let Err(error) = jsonschema::validator_for(&found.schema) {
        let message = format!("not a valid JSON Schema, at `{}`: {error}", error.instance_path());
        cx.report(Mistake::new("bad-schema", node.place, message).hint("`$ref` reaches inside the schema only"));
    }
    Some(found)
}
