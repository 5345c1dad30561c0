//! The shape of requests beside the tasks' own: in which mix they come, how long they are, what they share, and whether
//! they form conversations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::{self, FileError};

/// What `workload:` says. What is left out changes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Weight of each task; empty: all samples of all tasks.
    pub mix: BTreeMap<String, f64>,
    /// Length of a request's own prompt in tokens, by an estimate of 4 characters each.
    pub prompt_tokens: Option<Distribution>,
    /// A request's `max_tokens`, never above `sampling.max_tokens`.
    pub output_tokens: Option<Distribution>,
    pub shared_prefix: Option<SharedPrefix>,
    /// Turns of a conversation.
    pub turns: Option<Distribution>,
    /// Seconds between an answer and the next turn.
    pub think_time: Option<Distribution>,
    pub stream: bool,
}

impl Default for Workload {
    /// Changes nothing.
    fn default() -> Self {
        Workload {
            mix: BTreeMap::new(),
            prompt_tokens: None,
            output_tokens: None,
            shared_prefix: None,
            turns: None,
            think_time: None,
            stream: true,
        }
    }
}

/// Prompts of one group begin with the same text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedPrefix {
    /// Estimated tokens of the text.
    pub tokens: u32,
    pub groups: u32,
}

/// How a number is drawn. Values beyond `min` or `max` become `min` or `max`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    Fixed(f64),
    Uniform {
        min: f64,
        max: f64,
    },
    Normal {
        mean: f64,
        sd: f64,
        min: Option<f64>,
        max: Option<f64>,
    },
    Lognormal {
        median: f64,
        p95: f64,
        max: Option<f64>,
    },
    /// One number a line, drawn with replacement. The path is absolute or `builtin:…`.
    File {
        path: PathBuf,
    },
}

/// Values that a use of a distribution can take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// What is drawn, for messages: `a length`.
    pub what: &'static str,
    pub min: f64,
    pub max: f64,
}

impl Range {
    pub const TOKENS: Range = Range { what: "a length in tokens", min: 1.0, max: 2e6 };
    pub const TURNS: Range = Range { what: "a number of turns", min: 1.0, max: 1e3 };
    /// Seconds, up to an hour.
    pub const THINK_TIME: Range = Range { what: "a think time in seconds", min: 0.0, max: 3_600.0 };

    pub fn holds(&self, value: f64) -> bool {
        (self.min..=self.max).contains(&value)
    }
}

const MAX_FILE_BYTES: u64 = 64 << 20;
/// Beyond this a line is no number.
const MAX_LINE_CHARS: usize = 64;

/// Why a file of numbers is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumbersError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("line {line}: {why}")]
    Line { line: usize, why: String },
    #[error("it has no numbers")]
    Empty,
}

/// The numbers of a file, one a line; empty lines are skipped.
pub fn read_numbers(path: &Path, range: Range) -> Result<Vec<f64>, NumbersError> {
    let bytes = files::read(path, MAX_FILE_BYTES)?;
    let mut numbers = vec![];
    for (index, line) in bytes.split(|b| *b == b'\n').enumerate() {
        let wrong = |why: String| NumbersError::Line { line: index + 1, why };
        let text = String::from_utf8_lossy(line);
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        if text.chars().count() > MAX_LINE_CHARS {
            return Err(wrong(format!("a number has at most {MAX_LINE_CHARS} characters")));
        }
        let number = text.parse::<f64>().ok().filter(|n| n.is_finite());
        match number.ok_or_else(|| wrong(format!("`{text}` is not a number")))? {
            number if range.holds(number) => numbers.push(number),
            _ => return Err(wrong(format!("`{text}` is not {}: {} to {}", range.what, range.min, range.max))),
        }
    }
    if numbers.is_empty() { Err(NumbersError::Empty) } else { Ok(numbers) }
}
