//! A simulated server without sockets: a request goes in, a [`Script`] of bytes and instants comes out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rand_pcg::Pcg64;
use serde_json::json;

use super::answers::{AnswerBook, Draws, prompt_key};
use super::chat::{Ask, Counts, Envelope, error_body};
use super::draw::{number, weighted};
use super::fault::{FaultKind, Struck};
use super::pages::{self, Totals};
use super::profile::Profile;
use super::queue::{Queue, after_work};
use super::script::{Close, End, Head, Request, Script};
use super::shape::UsagePolicy;
use super::stream::{Speech, Step};
use super::tokens;
use crate::units::{Id, Mono};
use crate::world::rng;

/// Prompts that are remembered, for calls and for the prefix cache; beyond that, prompts count as new.
const REMEMBERED: usize = 1_000_000;
/// The prefix cache knows beginnings of prompts in blocks of this length: some sixteen tokens.
const CACHE_BLOCK_BYTES: usize = 64;
/// Longest answer where neither request nor context window says otherwise.
const LONGEST_ANSWER: u32 = 4_096;

/// What a server has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Chat requests received.
    pub requests: u64,
    /// Requests received whose response has not ended.
    pub in_flight: usize,
    pub peak_in_flight: usize,
}

pub struct Engine {
    profile: Arc<Profile>,
    book: Arc<AnswerBook>,
    seed: u64,
    queue: Queue,
    /// The first request's instant, which stalls are counted from.
    epoch: Option<Mono>,
    calls: HashMap<Id, u64>,
    cached: HashSet<Id>,
    open: HashSet<u64>,
    stats: Stats,
    totals: Totals,
}

impl Engine {
    /// `seed`: of pace, faults and the calls that waver. With the profile's `own_seed` it makes the server's own, so that
    /// two models of one run do not waver together.
    pub fn new(profile: impl Into<Arc<Profile>>, book: impl Into<Arc<AnswerBook>>, seed: u64) -> Engine {
        let profile = profile.into();
        Engine {
            queue: Queue::new(profile.slots),
            seed: number(seed, "server", &[&profile.errors.own_seed.to_le_bytes()]),
            profile,
            book: book.into(),
            epoch: None,
            calls: HashMap::new(),
            cached: HashSet::new(),
            open: HashSet::new(),
            stats: Stats::default(),
            totals: Totals::default(),
        }
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Takes a request whose last byte arrived at `now`. `now` must not go backwards.
    pub fn on_request(&mut self, now: Mono, request: &Request<'_>) -> Script {
        let path = request.path.split(['?', '#']).next().unwrap_or_default();
        let script = match (request.method, path) {
            ("POST", path) if path.ends_with("/chat/completions") => return self.on_chat(now, request),
            ("GET", "/health" | "/v1/health") => pages::json(now, 200, &json!({"status": "ok"})),
            ("GET", path) if path.ends_with("/models") => pages::models(now, &self.profile),
            ("GET", "/props") => pages::props(now, &self.profile),
            ("GET", "/metrics") => {
                let (processing, waiting) = self.queue.loads(now);
                self.totals.page(now, processing, waiting)
            }
            ("GET" | "POST", _) => pages::json(now, 404, &error_body(404, "not_found_error", "File Not Found")),
            _ => pages::json(now, 405, &error_body(405, "invalid_request_error", "method not allowed")),
        };
        Script { number: u64::MAX, ..script }
    }

    /// The response ended, or the client went away.
    pub fn on_end(&mut self, number: u64, now: Mono) {
        if self.open.remove(&number) {
            self.stats.in_flight = self.open.len();
            self.queue.release(number, now);
        }
    }

    fn on_chat(&mut self, now: Mono, request: &Request<'_>) -> Script {
        let number = self.stats.requests;
        self.stats.requests += 1;
        self.open.insert(number);
        self.stats.in_flight = self.open.len();
        self.stats.peak_in_flight = self.stats.peak_in_flight.max(self.open.len());
        let epoch = *self.epoch.get_or_insert(now);
        let script = match self.refusal(now, request) {
            Ok(ask) => self.answer(now, epoch, number, &ask),
            Err(script) => script,
        };
        Script { number, ..script }
    }

    /// Reads a request, or says why it is not served.
    fn refusal(&self, now: Mono, request: &Request<'_>) -> Result<Ask, Script> {
        let profile = &self.profile;
        let authorized = profile.api_key.as_ref().is_none_or(|key| {
            request.header("authorization").and_then(|value| value.strip_prefix("Bearer ")) == Some(key.as_str())
        });
        let refuse = |status, kind, message: &str| Err(pages::json(now, status, &error_body(status, kind, message)));
        if !authorized {
            return refuse(401, "authentication_error", "Invalid API Key");
        }
        let ask = match Ask::read(request.body) {
            Ok(ask) => ask,
            Err(reason) => {
                let mut script = pages::json(now, 400, &error_body(400, "invalid_request_error", &reason));
                script.close = Some(Close::Announced);
                return Err(script);
            }
        };
        if let Some(other) = ask.model.as_ref().filter(|m| profile.strict_model && **m != profile.model) {
            return refuse(404, "NotFoundError", &format!("The model `{other}` does not exist."));
        }
        let tokens = prompt_tokens(&ask);
        let window = u64::from(profile.context_window_tokens);
        if window > 0 && tokens >= window {
            let message = format!(
                "request ({tokens} tokens) exceeds the available context size ({window} tokens), try increasing it"
            );
            let mut body = error_body(400, "exceed_context_size_error", &message);
            if let Some(error) = body.get_mut("error").and_then(|e| e.as_object_mut()) {
                error.insert("n_prompt_tokens".to_owned(), json!(tokens));
                error.insert("n_ctx".to_owned(), json!(window));
            }
            return Err(pages::json(now, 400, &body));
        }
        Ok(ask)
    }

    fn answer(&mut self, now: Mono, epoch: Mono, number_: u64, ask: &Ask) -> Script {
        let profile = Arc::clone(&self.profile);
        let key = prompt_key(&ask.prompt);
        let call = self.count_call(key);
        let struck = Struck::draw(&profile.faults, self.seed, number_, key, call);
        if let Some(script) = at_the_door(now, &struck) {
            return script;
        }
        let mut pace = rng(number(self.seed, "pace", &[&key.0, &call.to_le_bytes()]), "pace");
        let mut prompt = Counts { prompt: prompt_tokens(ask), ..Counts::default() };
        prompt.cached = self.recall(ask, key).min(prompt.prompt.saturating_sub(1));
        let (pieces, finish) = self.words(ask, key, call, &struck, &mut pace, prompt.prompt);
        let turn = self.queue.turn(now);
        let prefill = profile.prefill_ms_per_token * prompt.prompt.saturating_sub(prompt.cached) as f64;
        let to_first = profile.ttft_ms.draw(&mut pace) + prefill;
        let work = |from: Mono, ms: f64| after_work(&profile.stalls, epoch, from, (ms * 1e6).round() as u64);
        let first = work(turn.start, to_first);
        let slowdown = 1.0 + profile.decode_slowdown_per_active * turn.others as f64;
        let steps = paced(&profile, &struck, pieces, first, slowdown, &mut pace, &work);
        let speech = Speech {
            profile: &profile,
            struck: &struck,
            envelope: Envelope {
                id: format!(
                    "chatcmpl-{}",
                    Id::of("completion", &[&self.seed.to_le_bytes(), &key.0, &call.to_le_bytes()])
                ),
                model: ask.model.clone().unwrap_or_else(|| profile.model.clone()),
            },
            start: turn.start,
            first,
            steps,
            finish,
            prompt,
            usage: match profile.shape.usage {
                UsagePolicy::Always => true,
                UsagePolicy::Never => false,
                UsagePolicy::Asked => !ask.stream || ask.include_usage,
            },
        };
        self.queue.occupy(number_, turn.start, speech.steps.last().map_or(first, |step| step.at));
        self.totals.add(turn.start, first, &prompt, &speech.steps);
        respond(&speech, ask.stream)
    }

    fn count_call(&mut self, key: Id) -> u64 {
        if self.calls.len() >= REMEMBERED && !self.calls.contains_key(&key) {
            return 0;
        }
        let calls = self.calls.entry(key).or_insert(0);
        let call = *calls;
        *calls += 1;
        call
    }

    /// How many of the prompt's tokens the prefix cache holds: all of them, or those of its longest beginning in whole
    /// blocks. It holds the whole prompt from now on.
    fn recall(&mut self, ask: &Ask, key: Id) -> u64 {
        if !self.profile.prefix_cache {
            return 0;
        }
        let whole = Id::of("cache", &[ask.cache_salt.as_bytes(), &key.0]);
        let mut known = if self.remember(whole) { u64::MAX } else { 0 };
        let (mut chain, mut length, mut unbroken) = (Id::of("cache-block", &[ask.cache_salt.as_bytes()]), 0, true);
        for block in ask.prompt.as_bytes().chunks_exact(CACHE_BLOCK_BYTES) {
            chain = Id::of("cache-block", &[&chain.0, block]);
            unbroken &= self.remember(chain);
            length += if unbroken { block.len() } else { 0 };
        }
        let beginning = String::from_utf8_lossy(ask.prompt.as_bytes().get(..length).unwrap_or_default());
        known = known.max(tokens::count(&beginning));
        if ask.may_use_cache { known } else { 0 }
    }

    /// Whether the cache has held this; it does from now on, as long as it has room.
    fn remember(&mut self, block: Id) -> bool {
        if self.cached.len() < REMEMBERED { !self.cached.insert(block) } else { self.cached.contains(&block) }
    }

    /// The answer's tokens (reasoning, content) and its finish reason.
    fn words(
        &self,
        ask: &Ask,
        key: Id,
        call: u64,
        struck: &Struck<'_>,
        pace: &mut Pcg64,
        prompt: u64,
    ) -> (Pieces, &'static str) {
        let draws = Draws {
            errors: &self.profile.errors,
            nondeterminism: self.profile.nondeterminism,
            seed: self.seed,
            call,
            temperature: ask.temperature,
            request_seed: ask.seed,
            chatter_tokens: self
                .profile
                .chatter_tokens
                .draw(&mut rng(number(self.profile.errors.seed, "chatter", &[&key.0]), "length"))
                .round() as u32,
        };
        let window = u64::from(self.profile.context_window_tokens);
        let room = if window == 0 {
            u64::from(LONGEST_ANSWER)
        } else {
            window.saturating_sub(prompt).min(u64::from(LONGEST_ANSWER))
        };
        let limit = ask.max_tokens.map_or(room, |most| room.min(u64::from(most))) as usize;
        let mut text = self.book.answer(&ask.prompt, &draws).text;
        let mut finish = "stop";
        if struck.has(FaultKind::EmptyAnswer) || struck.has(FaultKind::Refusal) {
            text.clear();
        }
        if struck.has(FaultKind::Refusal) {
            finish = "content_filter";
        }
        if struck.has(FaultKind::Loop) {
            text = "and so on ".repeat(limit / 3 + 1);
        }
        for stop in ask.stop.iter().filter(|stop| !stop.is_empty()) {
            if let Some(at) = text.find(stop.as_str()) {
                text.truncate(at);
            }
        }
        let reasoning = struck.get(FaultKind::Reasoning).or_else(|| struck.get(FaultKind::MixedReasoning));
        let mut pieces = Pieces {
            reasoning: reasoning.map_or_else(Vec::new, |f| tokens::split(&tokens::idle(pace, f.tokens.unwrap_or(20)))),
            content: tokens::split(&text),
        };
        if pieces.reasoning.len() + pieces.content.len() > limit {
            finish = "length";
            pieces.reasoning.truncate(limit);
            pieces.content.truncate(limit - pieces.reasoning.len());
        }
        (pieces, finish)
    }
}

/// An answer's tokens.
struct Pieces {
    reasoning: Vec<String>,
    content: Vec<String>,
}

fn prompt_tokens(ask: &Ask) -> u64 {
    tokens::count(&ask.prompt) + 4 * ask.messages as u64
}

/// Faults that strike before anything is computed.
fn at_the_door(now: Mono, struck: &Struck<'_>) -> Option<Script> {
    if struck.get(FaultKind::Hang).is_some_and(|f| f.after_tokens.is_none()) {
        return Some(Script::nothing(0, now, End::Hang));
    }
    if struck.has(FaultKind::Drop) {
        return Some(Script::nothing(0, now, End::Cut));
    }
    if struck.get(FaultKind::Quota).is_some() {
        return Some(pages::json(now, 429, &error_body(429, "insufficient_quota", "you have used up your quota")));
    }
    if let Some(fault) = struck.get(FaultKind::Http429) {
        let mut script = pages::json(now, 429, &error_body(429, "rate_limit_error", "too many requests"));
        if let (Some(seconds), Some(head)) = (fault.retry_after_s, script.head.as_mut()) {
            head.headers.push(("retry-after".to_owned(), seconds.to_string()));
        }
        return Some(script);
    }
    if struck.has(FaultKind::Loading) {
        return Some(pages::json(now, 503, &error_body(503, "unavailable_error", "Loading model")));
    }
    if let Some(fault) = struck.get(FaultKind::Http500) {
        let status = fault.status.unwrap_or(500);
        return Some(pages::json(now, status, &error_body(status, "server_error", "the engine has failed")));
    }
    if struck.has(FaultKind::HtmlPage) {
        let page = "<!DOCTYPE html><html><head><title>Gateway</title></head><body><h1>It works!</h1></body></html>\n";
        return Some(Script::page(0, now, 200, "text/html", page));
    }
    struck.has(FaultKind::Empty).then(|| Script::page(0, now, 200, "text/event-stream", ""))
}

/// Groups tokens into steps and gives each its instant.
fn paced(
    profile: &Profile,
    struck: &Struck<'_>,
    pieces: Pieces,
    first: Mono,
    slowdown: f64,
    rng: &mut Pcg64,
    work: &impl Fn(Mono, f64) -> Mono,
) -> Vec<Step> {
    let stall = struck.get(FaultKind::Stall);
    let thinking = pieces.reasoning.len();
    let all = pieces.reasoning.into_iter().map(|t| (true, t)).chain(pieces.content.into_iter().map(|t| (false, t)));
    let mut tokens = all.enumerate().peekable();
    let mut steps: Vec<Step> = Vec::new();
    let (mut at, mut done, mut stalled) = (first, 0_u32, false);
    while tokens.peek().is_some() {
        let mut size = weighted(rng, &profile.tokens_per_event) + 1;
        if let (true, Some(burst)) = (steps.is_empty(), struck.get(FaultKind::BurstFirst)) {
            size = burst.tokens.unwrap_or(5).max(1) as usize;
        }
        if !steps.is_empty() {
            at = work(at, profile.token_gap_ms.draw(rng) * slowdown);
        }
        if let Some(fault) = stall.filter(|f| !stalled && done >= f.after_tokens.unwrap_or(0)) {
            at = at.plus_ns((fault.ms.unwrap_or(2_000.0) * 1e6) as u64);
            stalled = true;
        }
        let mut step = Step { at, ..Step::default() };
        for _ in 0..size {
            // Reasoning and answer share an event only where the fault says so.
            let turns = tokens.peek().is_some_and(|(index, _)| *index == thinking) && step.tokens > 0;
            let mixes = struck.has(FaultKind::MixedReasoning);
            if turns && !mixes {
                break;
            }
            let Some((_, (reasons, text))) = tokens.next() else { break };
            step.tokens += 1;
            step.reasoning_tokens += u32::from(reasons);
            if reasons { step.reasoning.push_str(&text) } else { step.content.push_str(&text) }
        }
        let mixes = struck.has(FaultKind::MixedReasoning) && !step.reasoning.is_empty() && step.content.is_empty();
        if mixes && let Some((_, (_, text))) = tokens.next_if(|(index, _)| *index == thinking) {
            step.tokens += 1;
            step.content.push_str(&text);
        }
        done += step.tokens;
        steps.push(step);
    }
    steps
}

fn respond(speech: &Speech<'_>, stream: bool) -> Script {
    let written = if stream { speech.streamed() } else { speech.whole() };
    let content_type = if stream { "text/event-stream" } else { "application/json; charset=utf-8" };
    let head = Head {
        at: written.frames.first().map_or(written.end_at, |frame| frame.at),
        status: 200,
        headers: vec![
            ("server".to_owned(), "counterpoise-simulated".to_owned()),
            ("content-type".to_owned(), content_type.to_owned()),
        ],
        content_length: written.content_length,
    };
    Script {
        number: 0,
        head: Some(head),
        frames: written.frames,
        end: written.end,
        end_at: written.end_at,
        close: speech.struck.has(FaultKind::CloseAfter).then_some(Close::Silent),
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
