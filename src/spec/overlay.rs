//! What changes a tree before it is read: `--set path=value`, and `extends` between deployments.

use super::diagnostic::{Mistake, Sink};
use super::node::{Entry, Key, Kind, Node};
use super::source::{Place, Sources};
use super::{suggest, yaml};

/// Applies `--set` texts in their order. Each becomes a source of its own, so that mistakes point into it.
pub fn apply_sets(root: &mut Node, sets: &[String], sources: &mut Sources, sink: &mut Sink) {
    for set in sets {
        let source = sources.add("--set", set);
        let Some((path, value_text)) = set.split_once('=') else {
            let place = Place::new(source, 0, set.len());
            sink.report(
                Mistake::new("bad-set", place, "`--set` needs `path=value`").hint("`--set load.concurrency=8`"),
            );
            continue;
        };
        let start = path.len() + 1;
        let Some(value) = yaml::parse(source, value_text, start, sink).or_else(|| empty(value_text, source, start))
        else {
            continue;
        };
        let mut place = Place::new(source, 0, path.len());
        if path.trim().is_empty() {
            sink.report(Mistake::new("bad-set", place, "the path is empty").hint("`--set load.concurrency=8`"));
            continue;
        }
        if let Err(mistake) = set_at(root, path, &mut place, value) {
            sink.report(*mistake);
        }
    }
}

/// Nothing after the `=` removes the key, as `null` does.
fn empty(text: &str, source: u16, start: usize) -> Option<Node> {
    text.trim().is_empty().then(|| Node {
        place: Place::new(source, start, start + text.len()),
        kind: Kind::Scalar { text: String::new(), plain: true, literal: false },
    })
}

fn set_at(node: &mut Node, path: &str, place: &mut Place, value: Node) -> Result<(), Box<Mistake>> {
    let described = node.describe();
    match &mut node.kind {
        Kind::Map(entries) => {
            let (segment, rest) = split_path(path, entries.iter().map(|e| e.key.text.as_str()));
            let at = Place { end: place.start + small(segment.len()), ..*place };
            let Some(rest) = rest else {
                set_key(entries, segment, at, value);
                return Ok(());
            };
            place.start = at.end + 1;
            if let Some(entry) = entries.iter_mut().find(|e| e.key.text == segment) {
                return set_at(&mut entry.value, rest, place, value);
            }
            let mut fresh = Node { place: at, kind: Kind::Map(vec![]) };
            set_at(&mut fresh, rest, place, value)?;
            entries.push(Entry { key: key(segment, at), value: fresh });
            Ok(())
        }
        Kind::Seq(items) => {
            let names: Vec<String> = items.iter().map(|n| item_name(n).unwrap_or_default().to_owned()).collect();
            let (segment, rest) = split_path(path, names.iter().map(String::as_str));
            let at = Place { end: place.start + small(segment.len()), ..*place };
            place.start = at.end + 1;
            let index = names.iter().position(|n| n == segment).or_else(|| segment.parse().ok());
            let count = items.len();
            let Some(item) = index.and_then(|i| items.get_mut(i)) else {
                let message = format!("`{segment}` is no item of this list of {count}");
                let hint = suggest::did_you_mean(segment, names.iter().map(String::as_str));
                let hint = hint.unwrap_or_else(|| "write a number from 0, or an item's `name`".into());
                return Err(Box::new(Mistake::new("bad-set", at, message).hint(hint)));
            };
            if let Some(rest) = rest {
                return set_at(item, rest, place, value);
            }
            *item = value;
            Ok(())
        }
        Kind::Scalar { .. } => {
            let message = format!("there is nothing below {described}");
            Err(Box::new(Mistake::new("bad-set", *place, message)))
        }
    }
}

fn set_key(entries: &mut Vec<Entry>, name: &str, at: Place, value: Node) {
    if value.is_null() {
        entries.retain(|e| e.key.text != name);
    } else if let Some(entry) = entries.iter_mut().find(|e| e.key.text == name) {
        *entry = Entry { key: key(name, at), value };
    } else {
        entries.push(Entry { key: key(name, at), value });
    }
}

fn key(text: &str, place: Place) -> Key {
    Key { text: text.to_owned(), plain: true, place }
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn item_name(item: &Node) -> Option<&str> {
    item.get("name").and_then(Node::scalar)
}

/// The first segment of a path. A name that is there may hold dots itself (`llama-3.1`): the longest one wins.
fn split_path<'p, 'n>(path: &'p str, names: impl Iterator<Item = &'n str>) -> (&'p str, Option<&'p str>) {
    let fits = |name: &&str| {
        !name.is_empty() && path.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let known = names.filter(fits).map(str::len).max();
    let end = known.or_else(|| path.find('.')).unwrap_or(path.len());
    let (segment, rest) = path.split_at_checked(end).unwrap_or((path, ""));
    (segment, rest.strip_prefix('.'))
}

/// Replaces each deployment that `extends` another by the merge of both: the child's keys win, maps merge, `null`
/// deletes (RFC 7396).
pub fn resolve_extends(root: &mut Node, sink: &mut Sink) {
    let Some(deployments) = root.get("deployments").and_then(Node::entries) else { return };
    let deployments = deployments.to_vec();
    let resolved: Vec<Entry> = deployments
        .iter()
        .map(|entry| Entry { key: entry.key.clone(), value: merged(entry, &deployments, &mut vec![], sink) })
        .collect();
    let Kind::Map(entries) = &mut root.kind else { return };
    if let Some(entry) = entries.iter_mut().find(|e| e.key.text == "deployments") {
        entry.value.kind = Kind::Map(resolved);
    }
}

fn merged<'d>(entry: &'d Entry, all: &'d [Entry], chain: &mut Vec<&'d str>, sink: &mut Sink) -> Node {
    let Some(parent_node) = entry.value.get("extends") else { return entry.value.clone() };
    let Some(parent_name) = parent_node.scalar() else { return entry.value.clone() };
    chain.push(&entry.key.text);
    let Some(parent) = all.iter().find(|e| e.key.text == parent_name) else {
        let names = || all.iter().map(|e| e.key.text.as_str()).filter(|n| *n != entry.key.text);
        let message = format!("`{parent_name}` is not a deployment of this suite");
        let hint = suggest::did_you_mean(parent_name, names());
        let mistake = Mistake::new("unknown-deployment", parent_node.place, message).maybe_hint(hint);
        sink.report(mistake.help(format!("deployments: {}", suggest::list(names()))));
        return entry.value.clone();
    };
    if let Some(from) = chain.iter().position(|name| *name == parent_name) {
        let round: Vec<&str> = chain.iter().skip(from).copied().chain([parent_name]).collect();
        // Each member of the round would tell it again; the one that is written first does.
        let places = all.iter().filter(|e| round.contains(&e.key.text.as_str()));
        if let Some(first) = places.filter_map(|e| e.value.get("extends")).map(|n| n.place).min() {
            let mut names: Vec<&str> = round.iter().copied().skip(1).collect();
            names.sort_unstable();
            let message = format!("`extends` goes round in a circle: {}", names.join(", "));
            sink.report(Mistake::new("extends-cycle", first, message).hint("let one of them stand alone"));
        }
        return entry.value.clone();
    }
    let base = merged(parent, all, chain, sink);
    merge_patch(base, &entry.value, false)
}

/// Sections whose `null` is a value of its own: it deletes from the request, not from the parent deployment.
const KEEP_NULLS: [&str; 2] = ["body", "sampling"];

/// RFC 7396 on trees. Places stay those of the text that a value came from.
fn merge_patch(base: Node, patch: &Node, keep_nulls: bool) -> Node {
    let Kind::Map(changes) = &patch.kind else { return patch.clone() };
    let mut entries = match base.kind {
        Kind::Map(entries) => entries,
        _ => vec![],
    };
    for change in changes {
        let found = entries.iter().position(|e| e.key.text == change.key.text);
        let keep_below = keep_nulls || KEEP_NULLS.contains(&change.key.text.as_str());
        match found {
            _ if change.value.is_null() && !keep_nulls => entries.retain(|e| e.key.text != change.key.text),
            Some(at) => {
                if let Some(entry) = entries.get_mut(at) {
                    let value = merge_patch(entry.value.clone(), &change.value, keep_below);
                    *entry = Entry { key: change.key.clone(), value };
                }
            }
            None => {
                let nothing = Node { place: change.value.place, kind: Kind::Map(vec![]) };
                let value = merge_patch(nothing, &change.value, keep_below);
                entries.push(Entry { key: change.key.clone(), value });
            }
        }
    }
    Node { place: patch.place, kind: Kind::Map(entries) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::node::Numbers;
    use serde_json::{Value, json};

    fn set(text: &str, sets: &[&str]) -> (Value, Vec<String>) {
        let mut sources = Sources::default();
        let mut sink = Sink::default();
        let id = sources.add("t", text);
        let mut root = yaml::parse(id, text, 0, &mut sink).unwrap();
        let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
        apply_sets(&mut root, &sets, &mut sources, &mut sink);
        resolve_extends(&mut root, &mut sink);
        let value = root.to_json(Numbers::Values, &mut sink);
        let told = sink.finish(&sources).0;
        (value, told.into_iter().map(|d| format!("{}:{}:{} {}", d.file, d.line, d.column, d.code)).collect())
    }

    #[test]
    fn set_reaches_maps_lists_and_names_with_dots() {
        let text = "deployments: {llama-3.1: {url: a}}\ntasks: [{name: t1, weight: 1}, {name: t2}]\nload: {x: 1}\n";
        let sets = [
            "deployments.llama-3.1.url=http://x:1/v1",
            "tasks.t2.weight=2",
            "tasks.0.weight=3",
            "load.x=",
            "a.b=[1, 2]",
        ];
        let (value, told) = set(text, &sets);
        assert_eq!(told, Vec::<String>::new());
        let want = json!({
            "deployments": {"llama-3.1": {"url": "http://x:1/v1"}},
            "tasks": [{"name": "t1", "weight": 3}, {"name": "t2", "weight": 2}],
            "load": {},
            "a": {"b": [1, 2]},
        });
        assert_eq!(value, want);
    }

    #[test]
    fn a_bad_set_is_told_in_its_own_text() {
        let text = "tasks: [{name: t1}]\nload: 3\n";
        let (_, told) = set(text, &["nonsense", "tasks.t9.weight=1", "load.x=1", "a=[1"]);
        assert_eq!(told, ["--set:1:1 bad-set", "--set:1:7 bad-set", "--set:1:6 bad-set", "--set:1:3 yaml-syntax"]);
    }

    #[test]
    fn extends_merges_maps_and_null_deletes() {
        let text = "deployments:\n  a: {url: u, price: {x: 1, y: 2}, host: h}\n  b: {extends: a, price: {y: 3}, host: null}\n  c: {extends: b, url: v}\n";
        let (value, told) = set(text, &[]);
        assert_eq!(told, Vec::<String>::new());
        assert_eq!(value["deployments"]["b"], json!({"url": "u", "price": {"x": 1, "y": 3}, "extends": "a"}));
        assert_eq!(value["deployments"]["c"]["url"], "v");
        assert_eq!(value["deployments"]["c"]["price"], json!({"x": 1, "y": 3}));
    }

    #[test]
    fn null_in_a_body_or_in_sampling_stays() {
        let text = "deployments:\n  a: {body: {x: 1, y: 2}}\n  b: {extends: a, body: {x: null, z: null}, sampling: {top_p: null}}\n";
        let (value, _) = set(text, &[]);
        assert_eq!(value["deployments"]["b"]["body"], json!({"x": null, "y": 2, "z": null}));
        assert_eq!(value["deployments"]["b"]["sampling"], json!({"top_p": null}));
    }

    #[test]
    fn a_circle_is_told_once() {
        let text = "deployments:\n  a: {extends: b}\n  b: {extends: c}\n  c: {extends: a}\n  d: {extends: a}\n";
        assert_eq!(set(text, &[]).1, ["t:2:16 extends-cycle"]);
        assert_eq!(set("deployments: {a: {extends: a}}", &[]).1, ["t:1:28 extends-cycle"]);
        assert_eq!(set("deployments: {a: {extends: z}}", &[]).1, ["t:1:28 unknown-deployment"]);
    }
}
