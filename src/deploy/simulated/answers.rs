//! What a simulated model knows: the prompts of the datasets it answers from, with right and wrong answers.

use std::collections::HashMap;

use rand_pcg::Pcg64;
use serde_json::Value;

use super::draw::{number, pick, share};
use super::profile::{ErrorModel, Nondeterminism};
use super::{tokens, wrong};
use crate::units::Id;
use crate::world::rng;

/// One known prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The untruncated messages' contents, joined by [`prompt_text`].
    pub prompt: String,
    /// The right answer: text, number, list of alternatives (the first is given) or object (given as JSON).
    pub right: Value,
    /// A wrong answer; none: a plausible one is made up.
    pub wrong: Option<String>,
    /// Text without which a model can't know: where it does not stand in the received prompt, the answer is wrong.
    pub evidence: Option<String>,
    pub category: Option<String>,
    /// How the answer may be put, with `{answer}` and `{chatter}`; none: the answer alone.
    pub wordings: Vec<String>,
}

impl Entry {
    pub fn new(prompt: impl Into<String>, right: impl Into<Value>) -> Entry {
        Entry {
            prompt: prompt.into(),
            right: right.into(),
            wrong: None,
            evidence: None,
            category: None,
            wordings: Vec::new(),
        }
    }
}

/// The text that prompts are known by: all contents, in order, with a line feed between them.
pub fn prompt_text<'a>(contents: impl IntoIterator<Item = &'a str>) -> String {
    contents.into_iter().collect::<Vec<_>>().join("\n")
}

/// Characters at a prompt's end by which a truncated prompt is recognized.
const TAIL_CHARS: usize = 80;
/// Lines at a prompt's end behind which a known prompt may begin.
const LINES_SEARCHED: usize = 16;

/// All that a simulated model knows. Prompts are found by hash; a prompt that has lost its beginning, by its end.
#[derive(Clone, Debug, Default)]
pub struct AnswerBook {
    entries: Vec<Entry>,
    by_prompt: HashMap<Id, usize>,
    by_tail: HashMap<Id, Vec<usize>>,
}

/// How a model's answers are drawn.
pub struct Draws<'a> {
    pub errors: &'a ErrorModel,
    pub nondeterminism: Nondeterminism,
    /// Of this server: seeds what differs between calls.
    pub seed: u64,
    /// How many requests asked this prompt before.
    pub call: u64,
    /// Above 0 the wording hangs on the request's own seed.
    pub temperature: f64,
    pub request_seed: u64,
    pub chatter_tokens: u32,
}

/// An answer, and whether it was meant to be right (`None`: the prompt is unknown).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
    pub right: Option<bool>,
}

impl AnswerBook {
    /// Where two entries have one prompt, the first counts.
    pub fn from_entries(entries: Vec<Entry>) -> AnswerBook {
        let mut book = AnswerBook::default();
        for entry in entries {
            let index = book.entries.len();
            book.by_prompt.entry(prompt_key(&entry.prompt)).or_insert(index);
            book.by_tail.entry(tail_key(&entry.prompt)).or_default().push(index);
            book.entries.push(entry);
        }
        book
    }

    /// One entry of each row; rows for which `entry` gives `None` are left out.
    pub fn from_rows<R>(rows: &[R], entry: impl Fn(&R) -> Option<Entry>) -> AnswerBook {
        AnswerBook::from_entries(rows.iter().filter_map(entry).collect())
    }

    pub fn merged(books: impl IntoIterator<Item = AnswerBook>) -> AnswerBook {
        AnswerBook::from_entries(books.into_iter().flat_map(|book| book.entries).collect())
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Index of the entry that a received prompt asks.
    fn find(&self, prompt: &str) -> Option<usize> {
        if let Some(index) = self.by_prompt.get(&prompt_key(prompt)) {
            return Some(*index);
        }
        if let Some(index) = self.behind_a_line(prompt) {
            return Some(index);
        }
        let alike = self.by_tail.get(&tail_key(prompt))?;
        let common = |index: &usize| {
            let known = self.entries.get(*index).map_or("", |entry| entry.prompt.as_str());
            known.bytes().rev().zip(prompt.bytes().rev()).take_while(|(a, b)| a == b).count()
        };
        // The first of equals, so that order decides nothing by chance.
        alike.iter().rev().max_by_key(|index| common(index)).copied()
    }

    /// The entry whose prompt stands at the end, behind a line feed: after a passage or a conversation. The longest counts.
    fn behind_a_line(&self, prompt: &str) -> Option<usize> {
        let starts: Vec<usize> = prompt.rmatch_indices('\n').map(|(at, _)| at + 1).take(LINES_SEARCHED).collect();
        let known = |start: &usize| self.by_prompt.get(&prompt_key(prompt.get(*start..)?)).copied();
        starts.iter().rev().find_map(known)
    }

    /// What the model says to a prompt.
    pub fn answer(&self, prompt: &str, draws: &Draws<'_>) -> Answer {
        let Some((index, entry)) = self.find(prompt).and_then(|i| Some((i, self.entries.get(i)?))) else {
            return Answer { text: unknown(prompt, draws), right: None };
        };
        let key = prompt_key(&entry.prompt);
        let seen = entry.evidence.as_ref().is_none_or(|evidence| prompt.contains(evidence.as_str()));
        let errs = draws.errors.errs(key, entry.category.as_deref());
        let flips = draws.nondeterminism.verdict > 0.0
            && share(draws.seed, "verdict", &[&key.0, &draws.call.to_le_bytes()]) < draws.nondeterminism.verdict;
        let right = seen && (errs == flips);
        let mut words = draws.wording_rng(key);
        let value = if right { plain(&entry.right) } else { self.wrong_value(index, entry, key, draws) };
        let wording = pick(&mut words, &entry.wordings).map_or("{answer}", String::as_str);
        let chatter =
            if wording.contains("{chatter}") { tokens::idle(&mut words, draws.chatter_tokens) } else { String::new() };
        Answer { text: wording.replace("{chatter}", &chatter).replace("{answer}", &value), right: Some(right) }
    }

    /// The wrong value of a sample: equal for related models, so that they err alike.
    fn wrong_value(&self, index: usize, entry: &Entry, key: Id, draws: &Draws<'_>) -> String {
        if let Some(given) = &entry.wrong {
            return given.clone();
        }
        let mut rng = rng(number(draws.errors.seed, "wrong", &[&key.0]), "wrong");
        let others = self.entries.iter().cycle().skip(index + 1).take(self.entries.len().min(64));
        let alike: Vec<&Value> = others.filter(|o| o.category == entry.category).map(|o| &o.right).collect();
        wrong::plausible(&mut rng, &entry.right, &alike)
    }
}

impl ErrorModel {
    /// Whether this model errs at a sample, evidence and call aside.
    pub fn errs(&self, prompt: Id, category: Option<&str>) -> bool {
        let harder = category.and_then(|c| self.by_category.get(c)).copied().unwrap_or(1.0);
        let draw = |seed: u64, what: &str| share(seed, what, &[&prompt.0]);
        let common = draw(self.seed, "common") < self.common * harder;
        let recovered = common && self.recovers > 0.0 && draw(self.own_seed, "recovers") < self.recovers;
        (common && !recovered) || draw(self.own_seed, "own") < self.own
    }
}

impl Draws<'_> {
    /// Decides wording and chatter: the same for related models and in every call, but where a draw says otherwise.
    fn wording_rng(&self, key: Id) -> Pcg64 {
        let mut seed = number(self.errors.seed, "wording", &[&key.0]);
        if self.errors.rewords > 0.0 && share(self.errors.own_seed, "rewords", &[&key.0]) < self.errors.rewords {
            seed = number(self.errors.own_seed, "reworded", &[&key.0]);
        }
        if self.temperature > 0.0 {
            seed = number(seed, "sampled", &[&self.request_seed.to_le_bytes()]);
        }
        let call = self.call.to_le_bytes();
        if self.nondeterminism.wording > 0.0
            && share(self.seed, "wavers", &[&key.0, &call]) < self.nondeterminism.wording
        {
            seed = number(self.seed, "wavered", &[&key.0, &call]);
        }
        rng(seed, "wording")
    }
}

fn unknown(prompt: &str, draws: &Draws<'_>) -> String {
    let mut rng = draws.wording_rng(prompt_key(prompt));
    let length = pick(&mut rng, &[12_u32, 18, 24, 36, 48]).copied().unwrap_or(18);
    tokens::idle(&mut rng, length)
}

/// A right answer as text.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.first().map(plain).unwrap_or_default(),
        other => other.to_string(),
    }
}

/// The hash that a prompt's draws hang on.
pub fn prompt_key(prompt: &str) -> Id {
    Id::of("simulated.prompt", &[prompt.as_bytes()])
}

fn tail_key(prompt: &str) -> Id {
    let start = prompt.char_indices().rev().nth(TAIL_CHARS - 1).map_or(0, |(at, _)| at);
    Id::of("simulated.tail", &[prompt.get(start..).unwrap_or_default().as_bytes()])
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
