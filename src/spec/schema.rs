//! The table of keys as a JSON Schema, for editors: `suites/suite.schema.json`. Regenerate the file with
//! `UPDATE_SCHEMA=1 cargo nextest run --lib spec::schema`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::keys::{DEPLOYMENT, SUITE};
use super::shape::{KeySpec, Section, Shape, Status, Variants, Word};
use super::suite::{LatencyFigure, PERCENTILES, SpeedMetric};
use super::{diagnostic::Sink, node::Numbers, yaml};

/// The schema of a suite file (draft 2020-12). What is not built yet matches nothing, and says so.
pub fn suite_schema() -> Value {
    let mut definitions = Definitions::default();
    let suite = definitions.section(&SUITE);
    let mut root = Map::new();
    root.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
    root.insert("title".into(), json!("Counterpoise suite"));
    root.insert("$ref".into(), suite["$ref"].clone());
    root.insert("$defs".into(), json!(definitions.0));
    Value::Object(root)
}

/// Definitions by name; a section is entered before its keys are read, so that recursion ends.
#[derive(Default)]
struct Definitions(BTreeMap<String, Value>);

impl Definitions {
    fn shape(&mut self, shape: &'static Shape) -> Value {
        match shape {
            Shape::Text | Shape::Path | Shape::Url | Shape::Template => text(),
            Shape::Name => json!({"type": ["string", "number"], "pattern": "^[\\p{L}\\p{N}][\\p{L}\\p{N}._+-]{0,63}$"}),
            Shape::EnvName => json!({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}),
            Shape::Field | Shape::Json => json!({}),
            Shape::Bool => json!({"type": "boolean"}),
            Shape::Int { min, max } if *max == u64::MAX => json!({"type": "integer", "minimum": min}),
            Shape::Int { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
            Shape::Number { min, max } => json!({"type": "number", "minimum": min, "maximum": max}),
            Shape::Duration => json!({"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(us|ms|s|m|h)$"}),
            Shape::Share => json!({"anyOf": [
                {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(%|pp)$"},
                {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
            ]}),
            Shape::Usd => json!({"type": "number", "minimum": 0}),
            Shape::Words(words) => json!({"enum": live(words)}),
            Shape::SpeedMetric => json!({"enum": SpeedMetric::all_names()}),
            Shape::JsonMap | Shape::Row => json!({"type": "object"}),
            Shape::List(item) => json!({"type": "array", "items": self.shape(item)}),
            Shape::OneOrList(item) => {
                let one = self.shape(item);
                json!({"anyOf": [one, {"type": "array", "items": one}]})
            }
            Shape::MapOf(value) => json!({"type": "object", "additionalProperties": self.shape(value)}),
            Shape::Targets => self.targets(),
            Shape::Section(section) => self.section(section),
            Shape::Variants(variants) => self.variants(variants),
            Shape::ListOr(item, section) => {
                json!({"anyOf": [{"type": "array", "items": self.shape(item)}, self.section(section)]})
            }
            Shape::Or(shape, variants) => json!({"anyOf": [self.shape(shape), self.variants(variants)]}),
            Shape::VariantOr(variants, section) => {
                json!({"anyOf": [self.variants(variants), self.section(section)]})
            }
        }
    }

    fn targets(&mut self) -> Value {
        let duration = self.shape(&Shape::Duration);
        let names = LatencyFigure::ALL
            .into_iter()
            .flat_map(|figure| PERCENTILES.map(|percentile| SpeedMetric::Latency { figure, percentile }.to_string()));
        let mut properties: Map<String, Value> = names.map(|name| (name, duration.clone())).collect();
        properties.insert(SpeedMetric::ErrorRate.to_string(), self.shape(&Shape::Share));
        json!({"type": "object", "additionalProperties": false, "properties": properties})
    }

    fn section(&mut self, section: &'static Section) -> Value {
        let name = slug(section.name);
        if !self.0.contains_key(&name) {
            self.0.insert(name.clone(), Value::Null);
            let nulls = std::ptr::eq(section, &raw const DEPLOYMENT);
            let mut properties = Map::new();
            for key in section.keys {
                let mut value = self.key(key);
                if nulls {
                    // A deployment that extends another takes a key away with null.
                    value = json!({"anyOf": [value, {"type": "null"}]});
                }
                properties.insert(key.name.to_owned(), value);
            }
            let required: Vec<&str> = section.keys.iter().filter(|k| k.required).map(|k| k.name).collect();
            let definition = json!({
                "type": "object", "additionalProperties": false, "properties": properties, "required": required,
            });
            self.0.insert(name.clone(), definition);
        }
        json!({"$ref": format!("#/$defs/{name}")})
    }

    fn variants(&mut self, variants: &'static Variants) -> Value {
        let name = slug(variants.name);
        if !self.0.contains_key(&name) {
            self.0.insert(name.clone(), Value::Null);
            let mut properties: Map<String, Value> = Map::new();
            for kind in variants.kinds {
                let value = self.key(kind);
                // `- exact:` alone takes all defaults.
                let bare = matches!(kind.shape, Shape::Section(section) if !section.keys.iter().any(|k| k.required))
                    && kind.status == Status::Live;
                let value = if bare { json!({"anyOf": [value, {"type": "null"}]}) } else { value };
                properties.insert(kind.name.to_owned(), value);
            }
            let beside = variants.kinds.first().and_then(|kind| match kind.shape {
                Shape::Section(section) => Some(section),
                _ => None,
            });
            for key in variants.beside.iter().filter_map(|name| beside?.key(name)) {
                let value = self.key(key);
                properties.insert(key.name.to_owned(), value);
            }
            let one_of: Vec<Value> = variants.kinds.iter().map(|kind| json!({"required": [kind.name]})).collect();
            let definition = json!({
                "type": "object", "additionalProperties": false, "properties": properties, "oneOf": one_of,
            });
            self.0.insert(name.clone(), definition);
        }
        json!({"$ref": format!("#/$defs/{name}")})
    }

    fn key(&mut self, key: &'static KeySpec) -> Value {
        if key.status == Status::NotYet {
            return json!({"description": format!("Not built yet. {}", key.doc), "not": {}});
        }
        let mut value = self.shape(&key.shape);
        if key.nullable {
            value = json!({"anyOf": [value, {"type": "null"}]});
        }
        if let Value::Object(map) = &mut value {
            map.insert("description".into(), json!(key.doc));
            if let Some(default) = key.default.and_then(default) {
                map.insert("default".into(), default);
            }
        }
        value
    }
}

fn text() -> Value {
    json!({"type": ["string", "number", "boolean"]})
}

fn live(words: &[Word]) -> Vec<&'static str> {
    words.iter().filter(|w| w.status == Status::Live).map(|w| w.text).collect()
}

fn default(text: &str) -> Option<Value> {
    let mut sink = Sink::default();
    yaml::parse(0, text, 0, &mut sink).map(|node| node.to_json(Numbers::Values, &mut sink))
}

/// `a speed gate` → `speed-gate`.
fn slug(name: &str) -> String {
    let bare = name.trim_start_matches("the ").trim_start_matches("an ").trim_start_matches("a ");
    bare.replace('`', "").replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::keys_task::{GATES, GRADERS};
    use crate::world::{RealWorld, World};

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/suites/suite.schema.json");

    #[test]
    fn the_committed_schema_is_fresh() {
        let text = format!("{}\n", serde_json::to_string_pretty(&suite_schema()).unwrap());
        if RealWorld::new().env("UPDATE_SCHEMA").is_some() {
            std::fs::write(FILE, &text).unwrap();
        }
        let committed = std::fs::read_to_string(FILE).unwrap_or_default();
        assert!(
            committed == text,
            "suites/suite.schema.json is stale: UPDATE_SCHEMA=1 cargo nextest run --lib spec::schema"
        );
    }

    #[test]
    fn names_of_definitions_are_unique() {
        let mut seen: BTreeMap<String, *const Section> = BTreeMap::new();
        let mut todo: Vec<&'static Section> = vec![&SUITE];
        let mut shapes: Vec<&'static Shape> = GRADERS.kinds.iter().chain(GATES.kinds).map(|k| &k.shape).collect();
        while let Some(section) = todo.pop() {
            match seen.insert(slug(section.name), section) {
                Some(before) if !std::ptr::eq(before, section) => panic!("two sections are {}", section.name),
                Some(_) => continue,
                None => {}
            }
            shapes.extend(section.keys.iter().map(|k| &k.shape));
            while let Some(shape) = shapes.pop() {
                match shape {
                    Shape::Section(below) | Shape::ListOr(_, below) | Shape::VariantOr(_, below) => todo.push(below),
                    Shape::List(below) | Shape::MapOf(below) | Shape::OneOrList(below) => shapes.push(below),
                    _ => {}
                }
            }
        }
        assert!(seen.len() > 30);
    }

    fn as_json(text: &str) -> Value {
        let mut sink = Sink::default();
        yaml::parse(0, text, 0, &mut sink).unwrap().to_json(Numbers::Values, &mut sink)
    }

    #[test]
    fn the_schema_takes_suites_and_refuses_mistakes() {
        let schema = suite_schema();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for name in crate::spec::builtin::suite_names() {
            let bytes = crate::spec::builtin::file(&format!("suites/{name}.yaml")).unwrap();
            let suite = as_json(std::str::from_utf8(bytes).unwrap());
            assert!(validator.is_valid(&suite), "{name}: {:?}", validator.iter_errors(&suite).next());
        }
        let good = crate::spec::init_template(None, None);
        let told = |text: &str| validator.iter_errors(&as_json(text)).map(|e| e.to_string()).collect::<Vec<_>>();
        assert_eq!(told(&good), Vec::<String>::new());
        for (from, to) in [
            ("suite: my", "suit: my"),
            ("margin: 5pp", "margin: five"),
            ("concurrency: 2", "concurrency: 0"),
            ("contains:", "containz:"),
            ("optimization: weight-quantized", "optimization: quantized"),
            ("load: {", "sweep: {}\nload: {"),
        ] {
            assert_ne!(told(&good.replacen(from, to, 1)), Vec::<String>::new(), "{to}");
        }
    }

    #[test]
    fn every_default_fits_its_own_shape() {
        let mut definitions = Definitions::default();
        let mut count = 0;
        let sections = [&SUITE, &DEPLOYMENT, &super::super::keys::LOAD, &super::super::keys::TIMEOUTS];
        for key in sections.into_iter().flat_map(|s| s.keys).filter(|k| k.default.is_some()) {
            let shape = definitions.shape(&key.shape);
            let value = default(key.default.unwrap()).unwrap();
            assert!(jsonschema::is_valid(&shape, &value), "{}: {value}", key.name);
            count += 1;
        }
        assert!(count > 10);
    }
}
