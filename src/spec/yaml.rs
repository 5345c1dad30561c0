//! YAML text to a tree of [`Node`]s that keep their places. The only file that names the YAML crate.
//!
//! The parser's events are used, not its typed reader: a scalar must stay as it was written (`no`, `012`, `1.20`)
//! until the field that it fills says what it is, and one mistake must not hide the next.

use std::collections::{HashMap, HashSet};

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, Span, StructureStyle, Tag};

use super::diagnostic::{Mistake, Sink};
use super::node::{Entry, Key, Kind, Node};
use super::source::Place;

/// A suite is written by people; its data belong in datasets.
pub const MAX_BYTES: usize = 4 << 20;
/// Nodes of the tree, what aliases expand to included.
const MAX_NODES: usize = 200_000;
const MAX_DEPTH: usize = 48;

/// Reads one document. `base` is where `text` starts in its source. Syntax errors end the reading; duplicate keys,
/// foreign tags and the like are collected and reading goes on.
pub fn parse(source: u16, text: &str, base: usize, sink: &mut Sink) -> Option<Node> {
    if text.len() > MAX_BYTES {
        let message = format!("the text has {} bytes; at most {MAX_BYTES} are read", text.len());
        sink.report(
            Mistake::new("too-large", Place::new(source, base, base), message).hint("put rows into a dataset file"),
        );
        return None;
    }
    let mut builder = Builder { source, base, len: text.len(), sink, stack: vec![], anchors: HashMap::new(), nodes: 0 };
    let options = granit_parser::options! {
        emit_comments: false,
        disallow_directives: true,
        // One more than is taken here, so that depth is told by this reader's own words.
        flow_nesting_limit: MAX_DEPTH + 1,
        block_nesting_limit: MAX_DEPTH + 1,
    };
    let mut root = None;
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) if *error.kind() == ErrorKind::RecursionLimitExceeded => {
                builder.sink.report(*too_deep(builder.point(*error.marker())));
                return None;
            }
            Err(error) => {
                let place = builder.point(*error.marker());
                let info = error.info();
                let message = format!("not valid YAML: {}", info.trim_end_matches('.'));
                builder.sink.report(Mistake::new("yaml-syntax", place, message).hint(syntax_hint(&info)));
                return None;
            }
        };
        match builder.take(event, span) {
            Ok(Some(node)) if root.is_some() => {
                let message = "a second document; a suite is one";
                builder.sink.report(Mistake::new("yaml-syntax", node.place, message).hint("remove the `---` above it"));
            }
            Ok(Some(node)) => root = Some(node),
            Ok(None) => {}
            Err(mistake) => {
                builder.sink.report(*mistake);
                return None;
            }
        }
    }
    root
}

/// The parser says what it did not find; people want to know what they did.
fn syntax_hint(info: &str) -> &'static str {
    let has = |word: &str| info.contains(word);
    if has("tab") {
        "indent with spaces"
    } else if has("anchor") {
        "`*name` repeats what `&name` marked above; put a text that starts with `*` in quotes"
    } else if has("flow") {
        "a `]`, a `}` or a comma is missing, here or on a line above"
    } else if has("quoted") {
        "a closing quote is missing"
    } else {
        "look for wrong indentation, a missing space after `:`, or text that needs quotes"
    }
}

enum Frame {
    Seq {
        start: usize,
        block: bool,
        anchor: usize,
        items: Vec<Node>,
    },
    Map {
        start: usize,
        block: bool,
        anchor: usize,
        entries: Vec<Entry>,
        key: Option<Key>,
        seen: HashMap<String, Place>,
    },
}

struct Builder<'s> {
    source: u16,
    base: usize,
    len: usize,
    sink: &'s mut Sink,
    stack: Vec<Frame>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

type Stop = Box<Mistake>;

impl Builder<'_> {
    fn offset(&self, marker: Marker) -> usize {
        self.base + marker.byte_offset().unwrap_or(self.len).min(self.len)
    }

    fn point(&self, marker: Marker) -> Place {
        let at = self.offset(marker);
        Place::new(self.source, at, at + 1)
    }

    fn place(&self, span: Span) -> Place {
        Place::new(self.source, self.offset(span.start), self.offset(span.end))
    }

    /// Takes one event; yields the root node when it is complete.
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<Option<Node>, Stop> {
        let place = self.place(span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = self.plain(style, tag.as_deref(), span);
                let literal = style == ScalarStyle::Literal;
                let node = Node { place, kind: Kind::Scalar { text: text.into_owned(), plain, literal } };
                self.count(1, place)?;
                self.complete(node, anchor)
            }
            Event::Alias(id) => {
                let Some(node) = self.anchors.get(&id) else {
                    return Err(stop("yaml-syntax", place, "an alias inside what it names"));
                };
                let (size, height) = (node.size(), node.height());
                self.count(size, place)?;
                self.check_depth(height, place)?;
                let node = self.anchors.get(&id).cloned();
                node.map_or(Ok(None), |node| self.complete(node, 0))
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.open(place, tag.as_deref(), span)?;
                let block = style == StructureStyle::Block;
                self.stack.push(Frame::Seq { start: place.start as usize, block, anchor, items: vec![] });
                Ok(None)
            }
            Event::MappingStart(style, anchor, tag) => {
                self.open(place, tag.as_deref(), span)?;
                let (start, block) = (place.start as usize, style == StructureStyle::Block);
                let seen = HashMap::new();
                self.stack.push(Frame::Map { start, block, anchor, entries: vec![], key: None, seen });
                Ok(None)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(place.end as usize),
            _ => Ok(None),
        }
    }

    fn open(&mut self, place: Place, tag: Option<&Tag>, span: Span) -> Result<(), Stop> {
        self.plain(ScalarStyle::Plain, tag, span);
        self.count(1, place)?;
        self.check_depth(1, place)
    }

    fn close(&mut self, end: usize) -> Result<Option<Node>, Stop> {
        match self.stack.pop() {
            Some(Frame::Seq { start, block, anchor, items }) => {
                let first = items.first().map(|item| item.place);
                let place = self.collection(start, end, first.filter(|_| block));
                self.complete(Node { place, kind: Kind::Seq(items) }, anchor)
            }
            Some(Frame::Map { start, block, anchor, entries, .. }) => {
                let first = entries.first().map(|entry| entry.key.place);
                let place = self.collection(start, end, first.filter(|_| block));
                let entries = self.merge(entries);
                self.complete(Node { place, kind: Kind::Map(entries) }, anchor)
            }
            None => Ok(None),
        }
    }

    /// A flow collection's place is all of it. A block goes over many lines and what stands beside them: up to the end
    /// of its first child, it is underlined well.
    fn collection(&self, start: usize, end: usize, first_of_block: Option<Place>) -> Place {
        let end = first_of_block.filter(|first| first.start as usize >= start).map_or(end, |first| first.end as usize);
        Place::new(self.source, start, end)
    }

    /// Puts a finished node where it belongs: key, value, item, or root.
    fn complete(&mut self, node: Node, anchor: usize) -> Result<Option<Node>, Stop> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.stack.last_mut() {
            None => return Ok(Some(node)),
            Some(Frame::Seq { items, .. }) => items.push(node),
            Some(Frame::Map { entries, key: slot, seen, .. }) => {
                if let Some(key) = slot.take() {
                    if let Some(first) = seen.get(&key.text) {
                        let message = format!("the key `{}` is written twice", key.text);
                        self.sink
                            .report(Mistake::new("duplicate-key", key.place, message).earlier(*first, "first written"));
                    } else {
                        seen.insert(key.text.clone(), key.place);
                        entries.push(Entry { key, value: node });
                    }
                } else {
                    let Kind::Scalar { text, plain, .. } = node.kind else {
                        return Err(stop("yaml-syntax", node.place, "a list or a map can't be a key"));
                    };
                    *slot = Some(Key { text, plain, place: node.place });
                }
            }
        }
        Ok(None)
    }

    /// Applies merge keys (`<<: *base`): keys of the map itself win, earlier maps win over later ones.
    fn merge(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        if !entries.iter().any(|e| e.key.plain && e.key.text == "<<") {
            return entries;
        }
        let (merges, mut own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|e| e.key.plain && e.key.text == "<<");
        let mut names: HashSet<String> = own.iter().map(|e| e.key.text.clone()).collect();
        for value in merges.into_iter().map(|e| e.value) {
            let maps = match value.kind {
                Kind::Seq(items) => items,
                _ => vec![value],
            };
            for map in maps {
                let Kind::Map(inherited) = map.kind else {
                    let message = "`<<` merges maps only";
                    let mistake = Mistake::new("yaml-syntax", map.place, message);
                    self.sink.report(mistake.hint("write `<<: *name`, where `&name` marks a map above"));
                    continue;
                };
                own.extend(inherited.into_iter().filter(|e| names.insert(e.key.text.clone())));
            }
        }
        own
    }

    /// Whether a scalar is typed by its text (plain) or is text for sure (quoted, block, `!!str`).
    fn plain(&mut self, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> bool {
        let Some(tag) = tag else { return style == ScalarStyle::Plain };
        match tag.core_suffix() {
            Some("str") => false,
            Some(_) => true,
            None => {
                let place = span.tag_span().map_or_else(|| self.place(span), |tag| self.place(tag));
                let mistake = Mistake::new("yaml-tag", place, "tags such as `!include` or `!!binary` are not read");
                self.sink.report(mistake.hint("remove the tag"));
                false
            }
        }
    }

    fn count(&mut self, nodes: usize, place: Place) -> Result<(), Stop> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            let message = format!("more than {MAX_NODES} values, those that aliases repeat included");
            return Err(Box::new(
                Mistake::new("too-large", place, message).hint("put rows into a dataset file, use fewer aliases"),
            ));
        }
        Ok(())
    }

    fn check_depth(&self, height: usize, place: Place) -> Result<(), Stop> {
        if self.stack.len() + height > MAX_DEPTH {
            return Err(too_deep(place));
        }
        Ok(())
    }
}

fn too_deep(place: Place) -> Stop {
    stop("too-deep", place, format!("nested deeper than {MAX_DEPTH} levels"))
}

fn stop(code: &'static str, place: Place, message: impl Into<String>) -> Stop {
    Box::new(Mistake::new(code, place, message))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::spec::source::Sources;

    fn read(text: &str) -> (Option<Node>, Vec<(&'static str, usize, usize)>) {
        let mut sources = Sources::default();
        let id = sources.add("t.yaml", text);
        let mut sink = Sink::default();
        let node = parse(id, text, 0, &mut sink);
        let found = sink.finish(&sources).0.into_iter().map(|d| (d.code, d.line, d.column)).collect();
        (node, found)
    }

    #[test]
    fn scalars_stay_as_written() {
        let (node, mistakes) = read("[no, 012, 1.20, 0x10, 'yes', ~, 1_000, on]");
        assert_eq!(mistakes, []);
        let node = node.unwrap();
        let texts: Vec<&str> = node.items().unwrap().iter().map(|n| n.scalar().unwrap()).collect();
        assert_eq!(texts, ["no", "012", "1.20", "0x10", "yes", "~", "1_000", "on"]);
    }

    #[test]
    fn places_cover_what_was_written() {
        let text = "a: {b: [1, 2]}\nc: |\n  x\n  y\n";
        let (node, _) = read(text);
        let node = node.unwrap();
        let slice = |n: &Node| &text[n.place.start as usize..n.place.end as usize];
        assert_eq!(slice(node.get("a").unwrap()), "{b: [1, 2]}");
        assert_eq!(slice(node.get("a").unwrap().get("b").unwrap()), "[1, 2]");
        assert_eq!(node.get("c").unwrap().scalar(), Some("x\ny\n"));
        let text = "c: |\n\n  x\n";
        let node = read(text).0.unwrap();
        assert_eq!(node.get("c").unwrap().scalar(), Some("\nx\n"));
        assert_eq!(node.get("c").unwrap().place.start, 8, "a block's place is where its content starts");
    }

    #[test]
    fn duplicate_keys_are_told_at_the_second_one() {
        let (_, mistakes) = read("a: 1\nb: {c: 1, d: 2, c: 3}\na: 2\n");
        assert_eq!(mistakes, [("duplicate-key", 2, 17), ("duplicate-key", 3, 1)]);
    }

    #[test]
    fn merge_keys_fill_what_the_map_leaves_out() {
        let (node, mistakes) = read("base: &b {x: 1, y: 2}\nchild: {<<: *b, y: 3}\n");
        assert_eq!(mistakes, []);
        let node = node.unwrap();
        let child = node.get("child").unwrap();
        assert_eq!(child.get("x").unwrap().scalar(), Some("1"));
        assert_eq!(child.get("y").unwrap().scalar(), Some("3"));
        assert!(child.get("<<").is_none());
    }

    #[test]
    fn nothing_makes_the_reader_run_away() {
        let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..12 {
            let refs = vec![format!("*a{}", i - 1); 10].join(", ");
            writeln!(laughs, "a{i}: &a{i} [{refs}]").unwrap();
        }
        assert_eq!(read(&laughs).1[0].0, "too-large");
        let mut chain = "a0: &a0 [x]\n".to_owned();
        for i in 1..200 {
            writeln!(chain, "a{i}: &a{i} [*a{}]", i - 1).unwrap();
        }
        assert_eq!(read(&chain).1[0].0, "too-deep");
        assert_eq!(read(&"[".repeat(100_000)).1[0].0, "too-deep");
        assert!(read(&"- ".repeat(100_000)).0.is_none());
        assert!(read(&format!("x: {}", "a".repeat(MAX_BYTES))).0.is_none());
        assert!(read("a: &a [*a]").0.is_none());
    }

    #[test]
    fn what_is_not_a_suite_is_told_where() {
        assert_eq!(read("a: [1, 2").1[0].0, "yaml-syntax");
        assert_eq!(read("a: !include x.yaml").1, [("yaml-tag", 1, 4)]);
        assert_eq!(read("a: 1\n---\nb: 2\n").1, [("yaml-syntax", 3, 1)]);
        assert_eq!(read("a: *nope").1[0].0, "yaml-syntax");
        assert_eq!(read("? [a]\n: b").1, [("yaml-syntax", 1, 3)]);
    }
}
