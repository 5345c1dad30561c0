//! An answer's bytes: server-sent events with their instants, well formed or broken as the struck faults say.

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value, json};

use super::chat::{Counts, Envelope, Timings, error_body};
use super::fault::{FaultKind, Struck};
use super::profile::Profile;
use super::script::End;
use super::shape::RoleChunk;
use crate::deploy::Frame;
use crate::units::Mono;

/// Tokens that one forward pass yields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub at: Mono,
    pub reasoning: String,
    pub content: String,
    pub tokens: u32,
    pub reasoning_tokens: u32,
}

/// Everything that an answer's bytes are made of.
pub struct Speech<'a> {
    pub profile: &'a Profile,
    pub struck: &'a Struck<'a>,
    pub envelope: Envelope,
    /// Start of service.
    pub start: Mono,
    /// When the first step is, or would be, finished.
    pub first: Mono,
    pub steps: Vec<Step>,
    pub finish: &'static str,
    /// Of the prompt; completion counts are taken from the steps.
    pub prompt: Counts,
    pub usage: bool,
}

/// A body that has been written.
pub struct Written {
    pub frames: Vec<Frame>,
    pub end: End,
    pub end_at: Mono,
    /// Length that the head promises, where the body is not streamed.
    pub content_length: Option<usize>,
}

impl Speech<'_> {
    fn has(&self, kind: FaultKind) -> bool {
        self.struck.has(kind)
    }

    fn counts(&self, steps: &[Step]) -> Counts {
        let sum = |of: fn(&Step) -> u32| steps.iter().map(|s| u64::from(of(s))).sum();
        Counts { completion: sum(|s| s.tokens), reasoning: sum(|s| s.reasoning_tokens), ..self.prompt }
    }

    fn last(&self) -> Mono {
        self.steps.last().map_or(self.first, |step| step.at)
    }

    fn timings(&self) -> Timings {
        let ms = |to: Mono, from: Mono| to.since(from).unwrap_or(0) as f64 / 1e6;
        Timings { prompt_ms: ms(self.first, self.start), predicted_ms: ms(self.last(), self.first) }
    }

    fn finish_reason(&self) -> Option<&'static str> {
        (!self.has(FaultKind::NoFinish)).then_some(self.finish)
    }

    /// Steps that are still written, and how the body ends, where a fault ends it early.
    fn cut_at(&self) -> Option<(usize, End)> {
        let ends =
            [(FaultKind::Cut, End::Cut), (FaultKind::Hang, End::Hang), (FaultKind::ErrorInStream, End::Complete)];
        ends.into_iter()
            .filter_map(|(kind, end)| Some((self.step_after(self.struck.after(kind)?), end)))
            .min_by_key(|(step, _)| *step)
    }

    /// How many steps bring at least so many tokens.
    fn step_after(&self, tokens: u32) -> usize {
        let mut sum = 0;
        self.steps
            .iter()
            .take_while(|step| {
                let before = sum;
                sum += step.tokens;
                before < tokens
            })
            .count()
    }

    /// The answer as a stream of events.
    pub fn streamed(&self) -> Written {
        let mut out = Events::new(Lines::of(self.struck));
        let cut = self.cut_at();
        let shown = cut.map_or(self.steps.as_slice(), |(n, _)| self.steps.get(..n).unwrap_or(&self.steps));
        self.opening(&mut out);
        let broken_at = self.struck.after(FaultKind::MalformedJson).map(|tokens| self.step_after(tokens));
        for (index, step) in shown.iter().enumerate() {
            if broken_at == Some(index) {
                out.event(step.at, "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"bro");
            }
            let mut chunk = self.envelope.delta(&delta_of(step), None);
            let last = index + 1 == self.steps.len();
            if last && self.has(FaultKind::UsageWithFinish) {
                chunk = self.envelope.delta(&delta_of(step), self.finish_reason());
                self.add_usage(&mut chunk, &self.counts(&self.steps));
            } else if self.has(FaultKind::UsageInEveryChunk) {
                self.add_usage(&mut chunk, &self.counts(shown.get(..=index).unwrap_or(shown)));
            }
            out.json(step.at, chunk);
        }
        let mut end = End::Complete;
        let mut end_at = shown.last().map_or(self.first, |step| step.at);
        if let Some((_, how)) = cut {
            if how == End::Complete {
                out.event(end_at, &engine_stopped());
            }
            end = how;
        } else {
            self.closing(&mut out, end_at);
            if self.has(FaultKind::KeepOpen) {
                end = End::Hang;
            }
        }
        let mut frames = self.shaped(out.finished(self.has(FaultKind::NoFinalBlank)));
        if let Some(last) = frames.last() {
            end_at = end_at.max(last.at);
        }
        frames.retain(|frame| !frame.bytes.is_empty());
        Written { frames, end, end_at, content_length: None }
    }

    /// What comes before the first token.
    fn opening(&self, out: &mut Events) {
        if let Some(padding) = self.struck.get(FaultKind::Padding) {
            out.raw(self.start, format!(": {}\n", "x".repeat(padding.bytes.unwrap_or(1 << 20) as usize)).as_bytes());
        }
        if self.has(FaultKind::FilterResults) {
            let mut chunk = self.envelope.chunk(json!([]));
            chunk
                .insert("prompt_filter_results".to_owned(), json!([{"prompt_index": 0, "content_filter_results": {}}]));
            out.json(self.start, chunk);
        }
        let role = || {
            let mut chunk = self.envelope.delta(&json!({"role": "assistant", "content": null}), None);
            if self.has(FaultKind::UsageInEveryChunk) {
                self.add_usage(&mut chunk, &self.prompt);
            }
            chunk
        };
        if let Some(early) = self.struck.get(FaultKind::EarlyRole) {
            let at = self.start.plus_ns((early.ms.unwrap_or(5.0) * 1e6) as u64).min(self.first);
            out.json(at, role());
            return;
        }
        match self.profile.shape.role {
            _ if self.has(FaultKind::NoRole) => {}
            RoleChunk::None => {}
            RoleChunk::Own => out.json(self.first, role()),
            RoleChunk::WithFirst => {
                out.json(self.first, role());
                out.join_next();
            }
        }
    }

    /// Finish reason, usage and `[DONE]`.
    fn closing(&self, out: &mut Events, at: Mono) {
        let counts = self.counts(&self.steps);
        let with_finish = self.has(FaultKind::UsageWithFinish) && !self.steps.is_empty();
        if !self.has(FaultKind::NoFinish) && !with_finish {
            let mut chunk = self.envelope.delta(&json!({}), Some(self.finish));
            if self.has(FaultKind::UsageInEveryChunk) {
                self.add_usage(&mut chunk, &counts);
            }
            out.json(at, chunk);
        }
        if self.usage && !self.has(FaultKind::NoUsage) && !with_finish {
            let choices = if self.has(FaultKind::UsageNullChoices) { Value::Null } else { json!([]) };
            let mut chunk = self.envelope.chunk(choices);
            self.add_usage(&mut chunk, &counts);
            if self.profile.shape.timings {
                chunk.insert("timings".to_owned(), self.timings().value(&counts));
            }
            if !self.has(FaultKind::NoFinish) {
                out.join_last();
            }
            out.json(at, chunk);
        }
        if self.profile.shape.done && !self.has(FaultKind::NoDone) {
            out.event(at, "[DONE]");
        }
    }

    fn add_usage(&self, chunk: &mut Map<String, Value>, counts: &Counts) {
        if !self.has(FaultKind::NoUsage) {
            chunk.insert("usage".to_owned(), counts.usage());
        }
    }

    /// The answer as one JSON body.
    pub fn whole(&self) -> Written {
        let join = |of: fn(&Step) -> &str| self.steps.iter().map(of).collect::<String>();
        let counts = self.counts(&self.steps);
        let mut body = self.envelope.body(&join(|s| &s.content), &join(|s| &s.reasoning), self.finish_reason());
        self.add_usage(&mut body, &counts);
        if self.profile.shape.timings && self.usage {
            body.insert("timings".to_owned(), self.timings().value(&counts));
        }
        let mut text = Value::Object(body).to_string();
        if self.has(FaultKind::ErrorInStream) {
            text = engine_stopped();
        } else if self.has(FaultKind::MalformedJson) {
            text.truncate(text.len() / 2);
        }
        let at = self.last();
        let content_length = Some(text.len());
        let mut bytes = Bytes::from(text);
        let end = match (self.has(FaultKind::Cut), self.has(FaultKind::Hang)) {
            (true, _) => End::Cut,
            (_, true) => End::Hang,
            _ => End::Complete,
        };
        if end != End::Complete {
            bytes.truncate(bytes.len() / 2);
        }
        let frames = self.shaped(vec![Frame { at, bytes }]);
        let end_at = frames.last().map_or(at, |frame| frame.at);
        Written { frames, end, end_at, content_length }
    }

    /// Frames in pieces as the profile cuts them, or in one.
    fn shaped(&self, frames: Vec<Frame>) -> Vec<Frame> {
        if self.has(FaultKind::OnePacket) {
            let at = frames.last().map_or(self.first, |frame| frame.at);
            let mut all = BytesMut::new();
            for frame in &frames {
                all.extend_from_slice(&frame.bytes);
            }
            return vec![Frame { at, bytes: all.freeze() }];
        }
        let Some(size) = self.profile.shape.chunk_bytes else { return frames };
        let gap_ns = u64::from(self.profile.shape.chunk_gap_us) * 1_000;
        let mut pieces: Vec<Frame> = Vec::new();
        for mut frame in frames {
            // A late piece holds up what comes after it, as one connection does.
            let mut at = pieces.last().map_or(frame.at, |last: &Frame| frame.at.max(last.at));
            while !frame.bytes.is_empty() {
                let piece = frame.bytes.split_to(size.min(frame.bytes.len()));
                pieces.push(Frame { at, bytes: piece });
                at = at.plus_ns(gap_ns);
            }
        }
        pieces
    }
}

fn engine_stopped() -> String {
    error_body(500, "server_error", "the engine stopped while it was decoding").to_string()
}

fn delta_of(step: &Step) -> Value {
    match (step.reasoning.is_empty(), step.content.is_empty()) {
        (false, false) => json!({"reasoning_content": step.reasoning, "content": step.content}),
        (false, true) => json!({"reasoning_content": step.reasoning}),
        _ => json!({"content": step.content}),
    }
}

/// How an event is put in lines.
struct Lines {
    eol: &'static str,
    space: &'static str,
    extra: bool,
    comments: bool,
    spread: bool,
}

impl Lines {
    fn of(struck: &Struck<'_>) -> Lines {
        let eol = if struck.has(FaultKind::Crlf) {
            "\r\n"
        } else if struck.has(FaultKind::Cr) {
            "\r"
        } else {
            "\n"
        };
        Lines {
            eol,
            space: if struck.has(FaultKind::NoSpace) { "" } else { " " },
            extra: struck.has(FaultKind::EventLines),
            comments: struck.has(FaultKind::Comments),
            spread: struck.has(FaultKind::MultiLine),
        }
    }

    fn event(&self, number: usize, data: &str) -> String {
        let Lines { eol, space, .. } = self;
        let mut parts: Vec<String> = Vec::new();
        if self.comments {
            parts.push(format!(": ping {number}{eol}{eol}"));
        }
        if self.extra {
            parts.push(format!("event: message{eol}id: {number}{eol}"));
        }
        parts.extend(data.split('\n').map(|line| format!("data:{space}{line}{eol}")));
        parts.push((*eol).to_owned());
        parts.concat()
    }
}

/// Collects events into writes.
struct Events {
    lines: Lines,
    frames: Vec<(Mono, BytesMut)>,
    number: usize,
    join: bool,
}

impl Events {
    fn new(lines: Lines) -> Events {
        Events { lines, frames: Vec::new(), number: 0, join: false }
    }

    fn json(&mut self, at: Mono, value: Map<String, Value>) {
        let value = Value::Object(value);
        let text = if self.lines.spread { format!("{value:#}") } else { value.to_string() };
        self.event(at, &text);
    }

    fn event(&mut self, at: Mono, data: &str) {
        let text = self.lines.event(self.number, data);
        self.number += 1;
        self.raw(at, text.as_bytes());
    }

    fn raw(&mut self, at: Mono, bytes: &[u8]) {
        match self.frames.last_mut().filter(|_| std::mem::take(&mut self.join)) {
            Some((last, buffer)) => {
                *last = at.max(*last);
                buffer.extend_from_slice(bytes);
            }
            None => self.frames.push((at, BytesMut::from(bytes))),
        }
    }

    /// The next event goes into the same write as the last one.
    fn join_next(&mut self) {
        self.join = true;
    }

    fn join_last(&mut self) {
        self.join = !self.frames.is_empty();
    }

    fn finished(mut self, without_last_blank: bool) -> Vec<Frame> {
        if let (true, Some((_, last))) = (without_last_blank, self.frames.last_mut()) {
            last.truncate(last.len() - self.lines.eol.len().min(last.len()));
        }
        self.frames.into_iter().map(|(at, bytes)| Frame { at, bytes: bytes.freeze() }).collect()
    }
}
