//! The texts that a suite comes from, and places in them.
//!
//! A suite is read from one file and any number of `--set path=value` texts. A [`Place`] is a byte range in one of
//! them; line and column are computed only when a mistake is shown.

/// A byte range in one of the [`Sources`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub source: u16,
    pub start: u32,
    pub end: u32,
}

impl Place {
    pub fn new(source: u16, start: usize, end: usize) -> Place {
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Place { source, start: small(start), end: small(end.max(start)) }
    }
}

#[derive(Clone, Debug)]
struct Source {
    name: String,
    text: String,
    /// Byte offset of each line's first byte.
    line_starts: Vec<usize>,
}

/// All texts of one load; the first is the suite file.
#[derive(Clone, Debug, Default)]
pub struct Sources(Vec<Source>);

/// Where a place lies, for people: 1-based line and column in characters, and the line itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub file: String,
    pub line: usize,
    pub column: usize,
    /// Characters of the place on its first line; at least 1.
    pub span_len: usize,
    pub line_text: String,
}

impl Sources {
    /// Adds a text and returns its number.
    pub fn add(&mut self, name: &str, text: &str) -> u16 {
        let line_starts = line_starts(text);
        self.0.push(Source { name: name.to_owned(), text: text.to_owned(), line_starts });
        u16::try_from(self.0.len() - 1).unwrap_or(u16::MAX)
    }

    /// The text of the line that lies `below` lines under the start of a place, without its indentation.
    pub fn line_below(&self, place: Place, below: usize) -> Option<Place> {
        let source = self.0.get(usize::from(place.source))?;
        let index = source.line_starts.partition_point(|&s| s <= place.start as usize).checked_sub(1)? + below;
        let start = *source.line_starts.get(index)?;
        let end = source.line_starts.get(index + 1).copied().unwrap_or(source.text.len());
        let line = source.text.get(start..end)?;
        let indent = line.len() - line.trim_start().len();
        Some(Place::new(place.source, start + indent, start + line.trim_end().len()))
    }

    pub fn locate(&self, place: Place) -> Position {
        let Some(source) = self.0.get(usize::from(place.source)) else {
            return Position { file: String::new(), line: 1, column: 1, span_len: 1, line_text: String::new() };
        };
        let start = floor_char(&source.text, place.start as usize);
        let index = source.line_starts.partition_point(|&s| s <= start).saturating_sub(1);
        let line_start = source.line_starts.get(index).copied().unwrap_or(0);
        let line_end = source.line_starts.get(index + 1).copied().unwrap_or(source.text.len());
        let slice = |from: usize, to: usize| source.text.get(from..to).unwrap_or("");
        let line_text = slice(line_start, line_end).trim_end_matches(['\n', '\r']).to_owned();
        let end = floor_char(&source.text, (place.end as usize).min(line_start + line_text.len())).max(start);
        let span_len = slice(start, end).trim_end().chars().count().max(1);
        Position {
            file: source.name.clone(),
            line: index + 1,
            column: slice(line_start, start).chars().count() + 1,
            span_len,
            line_text,
        }
    }
}

fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut starts = vec![0];
    for (at, byte) in bytes.iter().enumerate() {
        // A carriage return alone ends a line in YAML; before a line feed it is part of one break.
        let ends = *byte == b'\n' || (*byte == b'\r' && bytes.get(at + 1) != Some(&b'\n'));
        if ends {
            starts.push(at + 1);
        }
    }
    starts
}

/// The nearest character boundary at or before `at`.
fn floor_char(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_become_lines_and_columns_in_characters() {
        let mut sources = Sources::default();
        let id = sources.add("s.yaml", "a: 1\r\nüß: zwei\rc: 3\n");
        let at = "a: 1\r\nüß: ".len();
        let position = sources.locate(Place::new(id, at, at + 4));
        assert_eq!((position.line, position.column, position.span_len), (2, 5, 4));
        assert_eq!(position.line_text, "üß: zwei");
        let c = sources.locate(Place::new(id, "a: 1\r\nüß: zwei\r".len(), 99));
        assert_eq!((c.line, c.column, c.span_len), (3, 1, 4));
    }

    #[test]
    fn a_place_past_the_end_is_on_the_last_line() {
        let mut sources = Sources::default();
        let id = sources.add("s.yaml", "abc");
        let position = sources.locate(Place::new(id, 50, 60));
        assert_eq!((position.line, position.column, position.span_len), (1, 4, 1));
    }
}
