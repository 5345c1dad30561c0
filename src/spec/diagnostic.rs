//! Mistakes of a suite as values. Rendering is in [`super::render`].

use std::collections::HashSet;

use serde::Serialize;

use super::secrets;
use super::source::{Place, Sources};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
}

/// One mistake, or one thing to know, with its place in the file. Lines and columns count from 1, in characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Stable name of the kind of mistake: `unknown-key`, `not-yet`.
    pub code: &'static str,
    pub severity: Severity,
    /// The suite's path as the user gave it, or `--set`.
    pub file: String,
    pub line: usize,
    pub column: usize,
    /// Characters to underline, at least 1.
    pub span_len: usize,
    /// What is wrong: lowercase, one sentence, no full stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Longer help: the names that are allowed, the rule behind.
    pub help: Option<String>,
    /// The line that the place is on, with secrets masked. Absent where there is no text (a missing file).
    pub source_line: Option<String>,
}

impl Diagnostic {
    /// A mistake that has no place in a text, such as a suite that can't be read.
    pub fn without_place(code: &'static str, file: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            file: file.to_owned(),
            line: 1,
            column: 1,
            span_len: 1,
            message: message.into(),
            hint: None,
            help: None,
            source_line: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }
}

/// Everything that a load has to say, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter().filter(|d| d.severity == Severity::Error)
    }

    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(one: Diagnostic) -> Diagnostics {
        Diagnostics(vec![one])
    }
}

/// A mistake before its place is turned into line and column.
#[derive(Clone, Debug)]
pub struct Mistake {
    pub code: &'static str,
    pub severity: Severity,
    pub place: Place,
    pub message: String,
    pub hint: Option<String>,
    pub help: Option<String>,
    /// An earlier place that this one clashes with, and how to call it (`first written`).
    pub earlier: Option<(Place, &'static str)>,
    /// The text at the place must not be shown.
    pub secret: bool,
}

impl Mistake {
    pub fn new(code: &'static str, place: Place, message: impl Into<String>) -> Mistake {
        Mistake {
            code,
            severity: Severity::Error,
            place,
            message: message.into(),
            hint: None,
            help: None,
            earlier: None,
            secret: false,
        }
    }

    #[must_use]
    pub fn warning(mut self) -> Mistake {
        self.severity = Severity::Warning;
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Mistake {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<String>) -> Mistake {
        self.hint = hint.or(self.hint);
        self
    }

    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Mistake {
        self.help = Some(help.into());
        self
    }

    #[must_use]
    pub fn earlier(mut self, place: Place, what: &'static str) -> Mistake {
        self.earlier = Some((place, what));
        self
    }

    #[must_use]
    pub fn secret(mut self) -> Mistake {
        self.secret = true;
        self
    }
}

/// Collects mistakes while a suite is read, so that all of them are told at once.
#[derive(Debug, Default)]
pub struct Sink {
    mistakes: Vec<Mistake>,
}

/// More than this says nothing more, and a hostile file must not fill the terminal.
const MOST_SHOWN: usize = 200;

impl Sink {
    pub fn report(&mut self, mistake: Mistake) {
        self.mistakes.push(mistake);
    }

    /// Whether an error at this very place was told already.
    pub fn has_error_at(&self, place: Place) -> bool {
        self.mistakes.iter().any(|m| m.severity == Severity::Error && m.place == place)
    }

    pub fn has_errors(&self) -> bool {
        self.mistakes.iter().any(|m| m.severity == Severity::Error)
    }

    /// All mistakes in the order of the file, each place and message once (an inherited key is read more than once).
    pub fn finish(mut self, sources: &Sources) -> Diagnostics {
        self.mistakes.sort_by_key(|m| (m.place.source, m.place.start, m.severity));
        let mut seen = HashSet::new();
        let unique = self.mistakes.into_iter().filter(|m| seen.insert((m.place, m.code, m.message.clone())));
        Diagnostics(unique.take(MOST_SHOWN).map(|m| locate(m, sources)).collect())
    }
}

fn locate(mistake: Mistake, sources: &Sources) -> Diagnostic {
    let position = sources.locate(mistake.place);
    let mut span_len = position.span_len;
    let line = if mistake.secret {
        let masked = secrets::mask_range(&position.line_text, position.column - 1, span_len);
        span_len = secrets::MASK.chars().count().min(span_len.max(1));
        masked
    } else {
        secrets::mask_line(&position.line_text)
    };
    let earlier = mistake.earlier.map(|(place, what)| format!("{what} on line {}", sources.locate(place).line));
    Diagnostic {
        code: mistake.code,
        severity: mistake.severity,
        file: position.file,
        line: position.line,
        column: position.column,
        span_len,
        message: secrets::mask_line(&mistake.message),
        hint: mistake.hint.or(earlier),
        help: mistake.help,
        source_line: Some(line),
    }
}
