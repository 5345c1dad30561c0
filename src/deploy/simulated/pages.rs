//! What a server shows of itself: health, models, properties and counters, as llama.cpp does.

use std::fmt::Write;

use serde_json::{Value, json as value};

use super::chat::Counts;
use super::profile::Profile;
use super::script::Script;
use super::stream::Step;
use crate::units::Mono;

pub fn json(at: Mono, status: u16, body: &Value) -> Script {
    Script::page(0, at, status, "application/json; charset=utf-8", body.to_string())
}

pub fn models(at: Mono, profile: &Profile) -> Script {
    let model = value!({"id": profile.model, "object": "model", "owned_by": "counterpoise-simulated"});
    json(at, 200, &value!({"object": "list", "data": [model]}))
}

pub fn props(at: Mono, profile: &Profile) -> Script {
    let body = value!({
        "model_path": profile.model,
        "total_slots": profile.slots,
        "default_generation_settings": {"n_ctx": profile.context_window_tokens},
        "build_info": "counterpoise-simulated",
    });
    json(at, 200, &body)
}

/// Work of one request, counted when its time has come.
#[derive(Clone, Copy, Debug)]
struct Work {
    start: Mono,
    first: Mono,
    end: Mono,
    counts: Counts,
    steps: u64,
}

/// Counters of a server's life.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pending: Vec<Work>,
    prompt_tokens: u64,
    cached_tokens: u64,
    prompt_ns: u64,
    predicted_tokens: u64,
    predicted_ns: u64,
    decodes: u64,
    longest: u64,
    drafted: u64,
    accepted: u64,
}

impl Totals {
    pub fn add(&mut self, start: Mono, first: Mono, prompt: &Counts, steps: &[Step]) {
        let completion = steps.iter().map(|s| u64::from(s.tokens)).sum();
        let end = steps.last().map_or(first, |step| step.at);
        self.settle(start);
        self.pending.push(Work {
            start,
            first,
            end,
            counts: Counts { completion, ..*prompt },
            steps: steps.len() as u64,
        });
    }

    /// Counts what ended before `now`.
    fn settle(&mut self, now: Mono) {
        let (done, pending): (Vec<Work>, Vec<Work>) = self.pending.iter().partition(|work| work.end <= now);
        self.pending = pending;
        for work in done {
            self.prompt_tokens += work.counts.prompt - work.counts.cached;
            self.cached_tokens += work.counts.cached;
            self.prompt_ns += work.first.since(work.start).unwrap_or(0);
            self.predicted_tokens += work.counts.completion;
            self.predicted_ns += work.end.since(work.first).unwrap_or(0);
            self.decodes += work.steps;
            self.longest = self.longest.max(work.counts.prompt + work.counts.completion);
            let beyond_one = work.counts.completion.saturating_sub(work.steps);
            self.accepted += beyond_one;
            self.drafted += if beyond_one > 0 { work.steps * 2 } else { 0 }.max(beyond_one);
        }
    }

    /// `/metrics`, in the Prometheus text format with llama.cpp's names.
    pub fn page(&mut self, now: Mono, processing: usize, waiting: usize) -> Script {
        self.settle(now);
        let seconds = |ns: u64| ns as f64 / 1e9;
        let rate = |tokens: u64, ns: u64| if ns == 0 { 0.0 } else { tokens as f64 / seconds(ns) };
        let rows = [
            (
                "prompt_tokens_total",
                "counter",
                "Number of prompt tokens processed, excluding cached tokens",
                self.prompt_tokens as f64,
            ),
            (
                "prompt_tokens_cached_total",
                "counter",
                "Number of prompt tokens reused from the cache",
                self.cached_tokens as f64,
            ),
            ("prompt_seconds_total", "counter", "Total time spent processing prompts", seconds(self.prompt_ns)),
            (
                "tokens_predicted_total",
                "counter",
                "Number of generation tokens processed",
                self.predicted_tokens as f64,
            ),
            (
                "tokens_predicted_seconds_total",
                "counter",
                "Total time spent generating tokens",
                seconds(self.predicted_ns),
            ),
            ("n_decode_total", "counter", "Total number of decode steps", self.decodes as f64),
            ("n_tokens_max", "counter", "Largest observed sequence length (prompt + generation)", self.longest as f64),
            (
                "spec_decode_num_draft_tokens_total",
                "counter",
                "Speculative: Total draft tokens generated",
                self.drafted as f64,
            ),
            (
                "spec_decode_num_accepted_tokens_total",
                "counter",
                "Speculative: Total draft tokens accepted",
                self.accepted as f64,
            ),
            (
                "prompt_tokens_seconds",
                "gauge",
                "Average prompt throughput in tokens/s",
                rate(self.prompt_tokens, self.prompt_ns),
            ),
            (
                "predicted_tokens_seconds",
                "gauge",
                "Average generation throughput in tokens/s",
                rate(self.predicted_tokens, self.predicted_ns),
            ),
            ("requests_processing", "gauge", "Number of requests processing", processing as f64),
            ("requests_deferred", "gauge", "Number of requests deferred", waiting as f64),
        ];
        let mut page = String::new();
        for (name, kind, help, value) in rows {
            // Writing to a string can't fail.
            let _ =
                write!(page, "# HELP llamacpp:{name} {help}\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value}\n");
        }
        Script::page(0, now, 200, "text/plain; version=0.0.4", page)
    }
}
