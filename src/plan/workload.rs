//! What the workload makes of the tasks' own prompts: lengths, shared beginnings, conversations. All of it is drawn here,
//! by the suite's seed, before the first byte is sent, and is the same in all arms.

use std::collections::BTreeMap;
use std::time::Duration;

use super::build::PlanError;
use super::draws::Sampler;
use super::prose;
use super::truncate::CHARS_PER_TOKEN;
use super::types::Message;
use crate::spec::workload::{NumbersError, Range};
use crate::spec::{Distribution, Role, SharedPrefix, Workload};
use crate::units::{Id, Span};
use crate::world;

/// A passage that is shorter says nothing.
const SHORTEST_PASSAGE: u64 = 64;
/// What stands between a passage and what follows it.
const BREAK: &str = "\n\n";

/// A sample's part in the workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Number of the conversation, and turn in it, from 0.
    pub conversation: Option<(u32, u32)>,
    pub max_tokens: Option<u32>,
    /// Between the answer to the turn before and this one.
    pub think_time: Option<Span>,
    /// Text before the first message.
    prefix: String,
    /// Text before the first user message.
    passage: String,
}

/// Deals out the workload to samples, task by task and in their order.
pub struct Shaper {
    seed: u64,
    prompt: Option<Sampler>,
    output: Option<Sampler>,
    turns: Option<Sampler>,
    think: Option<Sampler>,
    shared: Option<SharedPrefix>,
    /// Texts of the groups, as they are needed.
    prefixes: BTreeMap<u32, String>,
    conversations: u32,
    /// Prompts and conversations that begin with a prefix, so far.
    dealt: u32,
}

/// The streams of one task.
pub struct TaskStreams {
    task: String,
    row: u64,
    prompt: rand_pcg::Pcg64,
    output: rand_pcg::Pcg64,
    turns: rand_pcg::Pcg64,
    think: rand_pcg::Pcg64,
    /// The conversation that goes on: its number, its next turn, turns that it has in all.
    open: Option<(u32, u32, u32)>,
}

impl Shaper {
    pub fn new(workload: Option<&Workload>, seed: u64) -> Result<Shaper, PlanError> {
        let sampler = |of: fn(&Workload) -> Option<&Distribution>, key: &str, range: Range| {
            let Some(distribution) = workload.and_then(of) else { return Ok(None) };
            let refused = |e: NumbersError| PlanError::Workload { key: key.to_owned(), reason: e.to_string() };
            Sampler::new(distribution, range).map(Some).map_err(refused)
        };
        Ok(Shaper {
            seed,
            prompt: sampler(|w| w.prompt_tokens.as_ref(), "prompt_tokens", Range::TOKENS)?,
            output: sampler(|w| w.output_tokens.as_ref(), "output_tokens", Range::TOKENS)?,
            turns: sampler(|w| w.turns.as_ref(), "turns", Range::TURNS)?,
            think: sampler(|w| w.think_time.as_ref(), "think_time", Range::THINK_TIME)?,
            shared: workload.and_then(|w| w.shared_prefix),
            prefixes: BTreeMap::new(),
            conversations: 0,
            dealt: 0,
        })
    }

    pub fn task(&self, name: &str) -> TaskStreams {
        let stream = |what: &str| world::rng(self.seed, &format!("workload/{what}/{name}"));
        TaskStreams {
            task: name.to_owned(),
            row: 0,
            prompt: stream("prompt_tokens"),
            output: stream("output_tokens"),
            turns: stream("turns"),
            think: stream("think_time"),
            open: None,
        }
    }

    /// The next sample's part, given its task's own messages, from which those of a later turn are taken.
    pub fn next(&mut self, streams: &mut TaskStreams, messages: &mut Vec<Message>) -> Part {
        let conversation = self.conversation(streams);
        let first = conversation.is_none_or(|(_, turn)| turn == 0);
        own_turn(messages, conversation);
        let mut part = Part { conversation, ..Part::default() };
        if first {
            part.prefix = self.prefix();
        } else {
            let think = self.think.as_ref().map(|sampler| sampler.number(&mut streams.think));
            part.think_time = think.map(|seconds| Span(Duration::from_micros((seconds * 1e6).round() as u64)));
        }
        part.max_tokens = self.output.as_ref().map(|sampler| sampler.whole(&mut streams.output));
        if let Some(sampler) = &self.prompt {
            let target = u64::from(sampler.whole(&mut streams.prompt)) * CHARS_PER_TOKEN;
            let own: u64 = messages.iter().map(|m| m.content.chars().count() as u64).sum();
            let breaks = BREAK.len() * if part.prefix.is_empty() { 1 } else { 2 };
            let before = (part.prefix.len() + breaks) as u64;
            part.passage = self.passage(streams, target.saturating_sub(own + before));
        }
        streams.row += 1;
        part
    }

    fn conversation(&mut self, streams: &mut TaskStreams) -> Option<(u32, u32)> {
        let sampler = self.turns.as_ref()?;
        let (number, turn, turns) = match streams.open {
            Some(open) if open.1 < open.2 => open,
            _ => {
                let number = self.conversations;
                self.conversations += 1;
                (number, 0, sampler.whole(&mut streams.turns))
            }
        };
        streams.open = Some((number, turn + 1, turns));
        Some((number, turn))
    }

    /// The text of the next prompt's group: groups take turns, so that they are of one size.
    fn prefix(&mut self) -> String {
        let Some(shared) = self.shared else { return String::new() };
        let group = self.dealt % shared.groups.max(1);
        self.dealt += 1;
        let seed = self.seed;
        let compose = || {
            let mut rng = world::rng(seed, &format!("workload/shared_prefix/{group}"));
            let head = format!("Reference {}: ", note(seed, &[b"prefix", &group.to_le_bytes()]));
            let chars = u64::from(shared.tokens) * CHARS_PER_TOKEN;
            prose::compose(&head, (chars as usize).saturating_sub(BREAK.len()), &mut rng)
        };
        self.prefixes.entry(group).or_insert_with(compose).clone()
    }

    /// Prose of so many characters that begins as no other passage does: an engine's cache finds nothing in common.
    fn passage(&self, streams: &TaskStreams, chars: u64) -> String {
        if chars < SHORTEST_PASSAGE {
            return String::new();
        }
        let mut rng = world::rng(self.seed, &format!("workload/passage/{}/{}", streams.task, streams.row));
        let note = note(self.seed, &[b"passage", streams.task.as_bytes(), &streams.row.to_le_bytes()]);
        prose::compose(&format!("Background ({note}): "), chars as usize, &mut rng)
    }
}

/// Twelve hex digits that name a passage.
fn note(seed: u64, parts: &[&[u8]]) -> String {
    let seed = seed.to_le_bytes();
    let parts: Vec<&[u8]> = std::iter::once(seed.as_slice()).chain(parts.iter().copied()).collect();
    Id::of("workload/note", &parts).to_string().chars().take(12).collect()
}

/// Leaves what a turn adds to its conversation: the system message is the first turn's.
fn own_turn(messages: &mut Vec<Message>, conversation: Option<(u32, u32)>) {
    if conversation.is_some_and(|(_, turn)| turn > 0) && messages.iter().any(|m| m.role != Role::System) {
        messages.retain(|m| m.role != Role::System);
    }
}

impl Part {
    /// Puts prefix and passage before the task's own text.
    pub fn put_before(&self, messages: &mut [Message]) {
        let user = messages.iter().position(|m| m.role == Role::User).unwrap_or(0);
        for (index, text) in [(user, &self.passage), (0, &self.prefix)] {
            if let Some(message) = messages.get_mut(index).filter(|_| !text.is_empty()) {
                message.content = format!("{text}{BREAK}{}", message.content);
            }
        }
    }

    /// The same for the messages that are sent in place of these, with the environment filled in.
    pub fn put_before_live(&self, mut live: Vec<Message>) -> Vec<Message> {
        own_turn(&mut live, self.conversation);
        self.put_before(&mut live);
        live
    }
}

/// What a recorded sample has before its task's own text, put before the same text as it is sent today.
pub fn reshaped(
    recorded: &[Message],
    conversation: Option<(u32, u32)>,
    mut plain: Vec<Message>,
    mut live: Vec<Message>,
) -> Vec<Message> {
    own_turn(&mut plain, conversation);
    own_turn(&mut live, conversation);
    for ((recorded, plain), live) in recorded.iter().zip(&plain).zip(&mut live) {
        if let Some(before) = recorded.content.strip_suffix(&plain.content) {
            live.content.insert_str(0, before);
        }
    }
    live
}

/// How many samples of each task keep the mix's proportion, of those that there are: as many as can be, in the order of
/// `available`.
pub fn mixed_counts(mix: &BTreeMap<String, f64>, available: &[(&str, usize)]) -> Result<Vec<usize>, PlanError> {
    let weight = |task: &str| mix.get(task).copied().filter(|w| *w > 0.0);
    let scale = available
        .iter()
        .filter_map(|(task, rows)| weight(task).map(|w| *rows as f64 / w))
        .fold(f64::INFINITY, f64::min);
    let count = |&(task, rows): &(&str, usize)| {
        // The addend keeps a product such as 0.1 × 30 from ending a hair below 3.
        let count = weight(task).map_or(rows, |w| (scale * w + 1e-9 * rows.max(1) as f64).floor() as usize);
        if count == 0 && rows > 0 { Err(PlanError::Mix { task: task.to_owned() }) } else { Ok(count.min(rows)) }
    };
    available.iter().map(count).collect()
}
