//! Folds the events of a stream into what it said.

use serde_json::Value;

use super::errors::{Said, excerpt, name};
use super::wire::{self, Body, Choice, Delta, objects, parse, predicted_so_far, text, timings, usage_anywhere};
use crate::deploy::dialect::{Arrival, ArrivalKind, Usage};
use crate::deploy::sse::Event;
use crate::units::Mono;

/// The most text and reasoning of one answer that is kept.
pub(super) const MAX_TEXT_BYTES: usize = 4 << 20;

/// What a stream, or a whole answer, has said so far.
#[derive(Debug, Default)]
pub(super) struct Fold {
    pub text: String,
    pub reasoning: String,
    pub refusal: String,
    pub tool_call: bool,
    pub finish_reason: Option<String>,
    pub finish_at: Option<Mono>,
    pub usage: Usage,
    pub usage_at: Option<Mono>,
    pub server_timings: Option<Value>,
    pub system_fingerprint: Option<String>,
    pub model: Option<String>,
    pub arrivals: Vec<Arrival>,
    pub first_event: Option<Mono>,
    /// The first error object.
    pub said: Option<Said>,
    /// There was more text than is kept.
    pub overlong: bool,
    /// `[DONE]` came.
    pub done: bool,
    /// Chunks with choices, whatever they held.
    pub answers: u32,
    /// The first event that is not this dialect's JSON.
    pub bad_event: Option<String>,
    /// The choice that is read: the first index seen.
    choice: Option<u64>,
    counted: Counted,
}

/// Tokens so far, from counts that the server repeats with every event.
#[derive(Debug, Default)]
struct Counted {
    /// The count at the last token-bearing event.
    at_last: u64,
    /// A token-bearing event came without a count, so that no difference is one event's own.
    broken: bool,
}

impl Counted {
    /// Tokens that came since the last token-bearing event.
    fn take(&mut self, chunk_count: Option<u64>) -> Option<u32> {
        let Some(count) = chunk_count else {
            self.broken = true;
            return None;
        };
        let fresh = count.checked_sub(self.at_last);
        self.at_last = count;
        self.broken |= fresh.is_none();
        fresh.filter(|_| !self.broken).and_then(|fresh| u32::try_from(fresh).ok())
    }
}

impl Fold {
    pub(super) fn event(&mut self, event: &Event) {
        self.first_event.get_or_insert(event.at);
        let data = event.data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return;
        }
        if data.is_empty() || self.done {
            return;
        }
        let data = String::from_utf8_lossy(data);
        let body = wire::body(&data);
        let is_error = event.event.as_deref() == Some("error");
        if self.said.is_none() {
            let unsaid = || is_error.then(|| Said { message: excerpt(data.as_bytes()), ..Said::default() });
            self.said = body.as_ref().and_then(|body| Said::of(body, is_error)).or_else(unsaid);
        }
        match body {
            Some(body) => self.body(&body, event.at, true),
            // The rest of a stream that broke off is no fault of its own.
            None if event.unterminated => {}
            // Events of another name (`ping`) are no part of this dialect.
            None if event.event.as_deref().is_some_and(|name| name != "message") => {}
            None => {
                self.bad_event.get_or_insert_with(|| excerpt(data.as_bytes()));
            }
        }
    }

    /// Takes a chunk, or with `streamed` unset a whole answer, whose parts have no arrival of their own.
    pub(super) fn body(&mut self, body: &Body<'_>, at: Mono, streamed: bool) {
        let choices: Vec<Choice<'_>> = objects(body.choices);
        self.answers += u32::from(!choices.is_empty());
        let usage = usage_anywhere(body, &choices);
        if let Some(usage) = usage {
            self.take_usage(usage, at, streamed);
        }
        if let Some(timings) = timings(body.timings) {
            self.server_timings = Some(timings);
        }
        if let Some(model) = text(body.model) {
            self.model = Some(name(&model));
        }
        if let Some(fingerprint) = text(body.system_fingerprint) {
            self.system_fingerprint = Some(name(&fingerprint));
        }
        let counted = usage.and_then(|usage| usage.completion_tokens).or_else(|| predicted_so_far(body.timings));
        for choice in &choices {
            self.choice(choice, counted, at, streamed);
        }
    }

    fn choice(&mut self, choice: &Choice<'_>, counted: Option<u64>, at: Mono, streamed: bool) {
        let index = parse::<u64>(choice.index).unwrap_or(0);
        if *self.choice.get_or_insert(index) != index {
            return;
        }
        if let (None, Some(raw)) = (&self.said, choice.error) {
            self.said = Some(Said::of_error(raw));
        }
        let delta = choice.delta();
        if streamed && delta.carries_token() {
            let tokens = choice.listed_tokens();
            let fresh = self.counted.take(counted);
            self.arrivals.push(Arrival { at, kind: kind(&delta), bytes: bytes(&delta), tokens: tokens.or(fresh) });
        }
        let mut room = MAX_TEXT_BYTES.saturating_sub(self.text.len() + self.reasoning.len() + self.refusal.len());
        let kept = [&mut self.reasoning, &mut self.text, &mut self.refusal];
        for (kept, fresh) in kept.into_iter().zip([&delta.reasoning, &delta.content, &delta.refusal]) {
            let fits = &fresh[..fresh.floor_char_boundary(room)];
            kept.push_str(fits);
            // What comes after a cut is not the text that follows.
            self.overlong |= fits.len() < fresh.len();
            room = if self.overlong { 0 } else { room - fits.len() };
        }
        self.tool_call |= delta.tool_call;
        if let Some(reason) = text(choice.finish_reason) {
            self.finish_reason = Some(name(&reason));
            self.finish_at = streamed.then_some(at);
        }
    }

    /// The last word on each count wins: servers that repeat usage send what is true so far.
    fn take_usage(&mut self, usage: Usage, at: Mono, streamed: bool) {
        self.usage_at = streamed.then_some(at);
        let newest = &mut self.usage;
        newest.prompt_tokens = usage.prompt_tokens.or(newest.prompt_tokens);
        newest.completion_tokens = usage.completion_tokens.or(newest.completion_tokens);
        newest.cached_tokens = usage.cached_tokens.or(newest.cached_tokens);
        newest.reasoning_tokens = usage.reasoning_tokens.or(newest.reasoning_tokens);
        self.usage = wire::consistent(self.usage);
    }
}

fn kind(delta: &Delta) -> ArrivalKind {
    let answers = !delta.content.is_empty() || !delta.refusal.is_empty();
    match (delta.reasoning.is_empty(), answers) {
        (true, true) => ArrivalKind::Content,
        (true, false) => ArrivalKind::ToolCall,
        (false, false) if !delta.tool_call => ArrivalKind::Reasoning,
        (false, _) => ArrivalKind::Mixed,
    }
}

fn bytes(delta: &Delta) -> u32 {
    let bytes = delta.content.len() + delta.reasoning.len() + delta.refusal.len() + delta.tool_bytes;
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
