//! A checked section as the decoder sees it: values by key, with the table's defaults where a key is left out.
//!
//! Nothing is reported here: what does not fit its type was told by [`super::check`] already and reads as absent.

use rust_decimal::Decimal;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::diagnostic::Sink;
use super::node::{Kind, Node};
use super::shape::{Section, Shape};
use super::source::Place;
use super::{scalar, yaml};
use crate::units::Span;

#[derive(Clone, Copy)]
pub struct View<'n> {
    node: Option<&'n Node>,
    section: &'static Section,
    /// Where to tell of what is not there.
    pub place: Place,
}

impl<'n> View<'n> {
    pub fn new(node: Option<&'n Node>, section: &'static Section, place: Place) -> View<'n> {
        View { node, section, place }
    }

    /// The node that the file has for a key. Asking for a key that the table lacks is a slip that tests catch.
    pub fn node(&self, key: &str) -> Option<&'n Node> {
        debug_assert!(self.section.key(key).is_some(), "{} has no key {key}", self.section.name);
        self.node?.get(key)
    }

    /// Whether the section knows a key of this name.
    pub fn has_key(&self, key: &str) -> bool {
        self.section.key(key).is_some()
    }

    pub fn place_of(&self, key: &str) -> Place {
        self.node(key).map_or(self.place, |n| n.place)
    }

    pub fn key_place(&self, key: &str) -> Place {
        self.node.and_then(|n| n.entry(key)).map_or(self.place, |e| e.key.place)
    }

    /// A section below; empty, with all its defaults, where the file has none.
    pub fn section(&self, key: &str, section: &'static Section) -> View<'n> {
        View { node: self.node(key), section, place: self.key_place(key) }
    }

    /// The same, or nothing where the file has none.
    pub fn present(&self, key: &str, section: &'static Section) -> Option<View<'n>> {
        self.node(key).map(|node| View { node: Some(node), section, place: self.key_place(key) })
    }

    fn with<T>(&self, key: &str, read: impl FnOnce(&Node) -> Option<T>) -> Option<T> {
        match self.node(key) {
            Some(node) => read(node),
            None => self.default_node(key).and_then(|node| read(&node)),
        }
    }

    fn default_node(&self, key: &str) -> Option<Node> {
        let default = self.section.key(key)?.default?;
        yaml::parse(0, default, 0, &mut Sink::default())
    }

    pub fn text(&self, key: &str) -> Option<String> {
        self.with(key, text)
    }

    pub fn boolean(&self, key: &str) -> Option<bool> {
        self.with(key, |n| scalar::boolean(n).ok())
    }

    pub fn integer(&self, key: &str) -> Option<u64> {
        let Shape::Int { min, max } = self.section.key(key)?.shape else { return None };
        self.with(key, |n| scalar::integer(n, min, max).ok())
    }

    pub fn count(&self, key: &str) -> Option<u32> {
        self.integer(key).and_then(|n| u32::try_from(n).ok())
    }

    pub fn number(&self, key: &str) -> Option<f64> {
        let Shape::Number { min, max } = self.section.key(key)?.shape else { return None };
        self.with(key, |n| scalar::number(n, min, max).ok())
    }

    pub fn share(&self, key: &str) -> Option<f64> {
        self.with(key, |n| scalar::share(n).ok())
    }

    pub fn usd(&self, key: &str) -> Option<Decimal> {
        self.with(key, |n| scalar::usd(n).ok())
    }

    pub fn duration(&self, key: &str) -> Option<Span> {
        self.with(key, |n| scalar::duration(n).ok())
    }

    /// A word as the type that it stands for; the type's own names are the table's words.
    pub fn word<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.with(key, |n| word(n))
    }

    pub fn words<T: DeserializeOwned>(&self, key: &str) -> Vec<T> {
        self.with(key, |n| Some(n.items()?.iter().filter_map(word).collect())).unwrap_or_default()
    }

    /// One text or a list of texts.
    pub fn texts(&self, key: &str) -> Option<Vec<String>> {
        let node = self.node(key)?;
        match &node.kind {
            Kind::Seq(items) => Some(items.iter().filter_map(text).collect()),
            _ => text(node).map(|one| vec![one]),
        }
    }

    /// Items of a list, none where it is left out.
    pub fn items(&self, key: &str) -> &'n [Node] {
        self.node(key).and_then(Node::items).unwrap_or_default()
    }

    /// The node, or the table's default as a node at the section's place.
    pub fn node_or_default(&self, key: &str) -> Option<Node> {
        self.node(key).cloned().or_else(|| Some(Node { place: self.place, ..self.default_node(key)? }))
    }
}

pub fn text(node: &Node) -> Option<String> {
    node.scalar().filter(|_| !node.is_null()).map(str::to_owned)
}

fn word<T: DeserializeOwned>(node: &Node) -> Option<T> {
    serde_json::from_value(Value::String(node.scalar()?.to_owned())).ok()
}
