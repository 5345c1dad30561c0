//! The table of keys as a page for people: `suites/REFERENCE.md`. Regenerate the file with
//! `UPDATE_SCHEMA=1 cargo nextest run --lib spec::reference`.

use std::fmt::Write as _;

use super::keys::SUITE;
use super::shape::{KeySpec, Section, Shape, Status, Variants, Word};

/// A Markdown page of all keys, each with its type, default and meaning.
pub fn suite_reference() -> String {
    let mut page = Page { text: HEAD.to_owned(), todo: vec![Part::Section(&SUITE)], done: vec![] };
    while let Some(part) = page.next() {
        page.part(part);
    }
    page.text
}

const HEAD: &str = "\
# Keys of a suite

Generated from the table that the reader itself uses (`src/spec/keys.rs`). Durations are written `1500ms`, `30s`, `10m`
or `2h`; shares `2%`, `2pp` or `0.02`; money as plain decimals in USD. Texts stay what was written: `no` and `012` are
texts, and only fields that want a boolean or a number read one. `${env:NAME}` stands for an environment variable in any
text but keys and rows of data. Paths start from `root` and may not leave it. *Not yet* marks what this version knows by
name and refuses.
";

#[derive(Clone, Copy)]
enum Part {
    Section(&'static Section),
    Variants(&'static Variants),
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Section(section) => section.name,
            Part::Variants(variants) => variants.name,
        }
    }
}

struct Page {
    text: String,
    todo: Vec<Part>,
    done: Vec<&'static str>,
}

impl Page {
    /// The next part that was not written yet, in the order in which they are named.
    fn next(&mut self) -> Option<Part> {
        while !self.todo.is_empty() {
            let part = self.todo.remove(0);
            if !self.done.contains(&part.name()) {
                self.done.push(part.name());
                return Some(part);
            }
        }
        None
    }

    fn part(&mut self, part: Part) {
        let title = part.name().trim_start_matches("a ").trim_start_matches("an ").trim_start_matches("the ");
        let _ = write!(self.text, "\n## {title}\n\n");
        let keys = match part {
            Part::Section(section) => section.keys,
            Part::Variants(variants) => {
                self.text.push_str("A map with one key, which names the kind.");
                if !variants.beside.is_empty() {
                    let beside: Vec<String> = variants.beside.iter().map(|b| format!("`{b}`")).collect();
                    let _ = write!(self.text, " {} may stand beside it or inside it.", beside.join(" and "));
                }
                self.text.push_str("\n\n");
                variants.kinds
            }
        };
        self.text.push_str("| key | value | default | meaning |\n|---|---|---|---|\n");
        for key in keys {
            self.row(key);
        }
    }

    fn row(&mut self, key: &'static KeySpec) {
        let value = self.shape(&key.shape);
        let default = match (key.default, key.required) {
            (Some(default), _) => format!("`{default}`"),
            (None, true) => "required".to_owned(),
            (None, false) => String::new(),
        };
        let later = if key.status == Status::NotYet { "*Not yet.* " } else { "" };
        let doc = key.doc.replace('|', "\\|");
        let _ = writeln!(self.text, "| `{}` | {} | {default} | {later}{doc} |", key.name, value.replace('|', "\\|"));
    }

    fn shape(&mut self, shape: &'static Shape) -> String {
        match shape {
            Shape::Text => "text".to_owned(),
            Shape::Name => "name".to_owned(),
            Shape::EnvName => "name of a variable".to_owned(),
            Shape::Path => "path".to_owned(),
            Shape::Url => "URL".to_owned(),
            Shape::Template => "template".to_owned(),
            Shape::Field => "template, value, list or map".to_owned(),
            Shape::Bool => "`true` or `false`".to_owned(),
            Shape::Int { min, max } if *max > 1_000_000_000_000 => format!("whole number from {min}"),
            Shape::Int { min, max } => format!("whole number, {min} to {max}"),
            Shape::Number { .. } => "number".to_owned(),
            Shape::Duration => "duration".to_owned(),
            Shape::Share => "share".to_owned(),
            Shape::Usd => "USD".to_owned(),
            Shape::Words(words) => self::words(words),
            Shape::SpeedMetric => "speed metric, such as `ttft_p50`".to_owned(),
            Shape::Json => "any value".to_owned(),
            Shape::JsonMap => "map of any values".to_owned(),
            Shape::Row => "map of columns".to_owned(),
            Shape::List(item) => format!("list of: {}", self.shape(item)),
            Shape::OneOrList(item) => format!("{}, or a list", self.shape(item)),
            Shape::MapOf(value) => format!("map of names to: {}", self.shape(value)),
            Shape::Targets => "map of speed metrics to durations, `error_rate` to a share".to_owned(),
            Shape::Section(section) => self.link(Part::Section(section)),
            Shape::Variants(variants) => self.link(Part::Variants(variants)),
            Shape::ListOr(item, section) => {
                format!("list of: {}, or {}", self.shape(item), self.link(Part::Section(section)))
            }
            Shape::Or(shape, variants) => {
                format!("{}, or {}", self.shape(shape), self.link(Part::Variants(variants)))
            }
            Shape::VariantOr(variants, section) => {
                format!("{}, or {}", self.link(Part::Variants(variants)), self.link(Part::Section(section)))
            }
        }
    }

    fn link(&mut self, part: Part) -> String {
        self.todo.push(part);
        let bare = part.name().replace('`', "");
        let anchor = bare.trim_start_matches("a ").trim_start_matches("an ").trim_start_matches("the ");
        format!("[{bare}](#{})", anchor.replace(' ', "-"))
    }
}

fn words(words: &[Word]) -> String {
    let shown = words.iter().map(|w| match w.status {
        Status::Live => format!("`{}`", w.text),
        Status::NotYet => format!("`{}` (not yet)", w.text),
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{RealWorld, World};

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/suites/REFERENCE.md");

    #[test]
    fn the_committed_page_is_fresh() {
        let text = suite_reference();
        if RealWorld::new().env("UPDATE_SCHEMA").is_some() {
            std::fs::write(FILE, &text).unwrap();
        }
        let committed = std::fs::read_to_string(FILE).unwrap_or_default();
        assert!(
            committed == text,
            "suites/REFERENCE.md is stale: UPDATE_SCHEMA=1 cargo nextest run --lib spec::reference"
        );
    }

    #[test]
    fn every_link_leads_to_a_heading() {
        let text = suite_reference();
        let headings: Vec<String> = text
            .lines()
            .filter_map(|line| line.strip_prefix("## "))
            .map(|title| title.replace('`', "").replace(' ', "-"))
            .collect();
        let links: Vec<&str> = text.split("](#").skip(1).filter_map(|rest| rest.split(')').next()).collect();
        assert!(links.len() > 30);
        for link in links {
            assert!(headings.iter().any(|h| h == link), "{link}");
        }
        let mut unique = headings.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), headings.len());
    }
}
