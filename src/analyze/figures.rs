//! The figures of one attempt, from its timeline and counts. What the attempt doesn't show is absent, never 0.

use serde_json::Value;

use crate::deploy::Provenance;
use crate::drive::Attempt;

/// Share of events among tokens from which on gaps between events pass for gaps between tokens.
const EVENTS_PER_TOKEN_NEEDED: f64 = 0.8;

/// First token-bearing delta − sent. Absent without streaming (the timeline then holds no token instants).
pub fn ttft_ms(attempt: &Attempt) -> Option<f64> {
    let t = &attempt.timeline;
    since_ms(t.first_token_us, t.sent_us).filter(|_| attempt.stream)
}

/// First content or tool-call delta − sent. Absent without streaming.
pub fn ttfa_ms(attempt: &Attempt) -> Option<f64> {
    let t = &attempt.timeline;
    since_ms(t.first_answer_us, t.sent_us).filter(|_| attempt.stream)
}

/// End of stream − sent.
pub fn e2e_ms(attempt: &Attempt) -> Option<f64> {
    since_ms(attempt.timeline.eof_us, attempt.timeline.sent_us)
}

/// Last token − sent.
pub fn last_token_ms(attempt: &Attempt) -> Option<f64> {
    since_ms(attempt.timeline.last_token_us, attempt.timeline.sent_us)
}

/// What opening the connection took: name, TCP and TLS. Absent on a connection that stood.
pub fn connect_ms(attempt: &Attempt) -> Option<f64> {
    let t = &attempt.timeline;
    let opened = [t.dns_us, t.tcp_us, t.tls_us].into_iter().flatten();
    opened.reduce(u64::saturating_add).map(|us| us as f64 / 1e3)
}

/// Open load: last token − intended, for the attempt that decided the request, so that retries count.
pub fn response_ms(attempt: &Attempt) -> Option<f64> {
    let t = &attempt.timeline;
    since_ms(t.last_token_us.or(t.eof_us), t.intended_us)
}

/// Open load: first token − intended. Absent without streaming.
pub fn ttft_response_ms(attempt: &Attempt) -> Option<f64> {
    let t = &attempt.timeline;
    since_ms(t.first_token_us, t.intended_us).filter(|_| attempt.stream)
}

/// Open load: sent − intended, of the first attempt: a retry is late on purpose.
pub fn dispatch_lag_ms(attempt: &Attempt) -> Option<f64> {
    since_ms(attempt.timeline.sent_us, attempt.timeline.intended_us).filter(|_| attempt.attempt == 1)
}

/// (last − first token) ÷ (`N_out` − reasoning tokens that were not streamed − tokens of the first chunk, else 1).
///
/// Absent where the divisor is under 1 or all tokens came at one instant.
pub fn tpot_ms(attempt: &Attempt) -> Option<f64> {
    if !attempt.stream {
        return None;
    }
    let (tokens, _) = attempt.output_tokens?;
    let hidden = if attempt.reasoning_streamed { 0 } else { attempt.usage.reasoning_tokens.unwrap_or(0) };
    let first_chunk = attempt.arrival_tokens.first().map_or(1, |&tokens| u64::from(tokens.max(1)));
    let divisor = tokens.checked_sub(hidden)?.checked_sub(first_chunk).filter(|d| *d >= 1)?;
    let span = since_ms(attempt.timeline.last_token_us, attempt.timeline.first_token_us)?;
    (span > 0.0).then(|| span / divisor as f64)
}

/// Gaps between token-bearing events in microseconds, the wait for the first one left out. Absent without streaming.
pub fn icl_us(attempt: &Attempt) -> Option<Vec<u32>> {
    let gaps = attempt.arrival_gaps_us.get(1..).filter(|_| attempt.stream)?;
    Some(gaps.iter().map(|&gap| u32::try_from(gap).unwrap_or(u32::MAX)).collect())
}

/// Gaps between tokens in microseconds, the wait for the first one left out.
///
/// Where the server tells the tokens of each event, an event's gap is shared equally by its tokens. Else the gaps
/// between events stand, if there are at least 0.8 events for each streamed token; absent otherwise. Events that arrived
/// in one read have no gap between them: absent too where under 0.8 of the events have an instant of their own.
pub fn itl_us(attempt: &Attempt) -> Option<Vec<u32>> {
    if !attempt.stream {
        return None;
    }
    let gaps = attempt.arrival_gaps_us.get(1..)?;
    let own_instant = gaps.iter().filter(|gap| **gap > 0).count();
    if (own_instant as f64) < EVENTS_PER_TOKEN_NEEDED * gaps.len() as f64 {
        return None;
    }
    let saturated = |gap: u64| u32::try_from(gap).unwrap_or(u32::MAX);
    if attempt.arrival_tokens.len() == attempt.arrival_gaps_us.len() {
        let tokens = attempt.arrival_tokens.iter().skip(1);
        let shares = gaps.iter().zip(tokens).flat_map(|(&gap, &tokens)| {
            let count = tokens.clamp(1, 10_000);
            std::iter::repeat_n(saturated(gap / u64::from(count)), count as usize)
        });
        return Some(shares.collect());
    }
    let (tokens, provenance) = attempt.output_tokens?;
    if provenance == Provenance::Events {
        // Tokens that are counted by events say nothing about tokens per event.
        return None;
    }
    let hidden = if attempt.reasoning_streamed { 0 } else { attempt.usage.reasoning_tokens.unwrap_or(0) };
    let streamed = tokens.saturating_sub(hidden);
    let events = attempt.arrival_gaps_us.len() as f64;
    let valid = streamed > 0 && events / streamed as f64 >= EVENTS_PER_TOKEN_NEEDED;
    valid.then(|| gaps.iter().map(|&gap| saturated(gap)).collect())
}

/// How many streamed tokens the events do not account for, one to each. Absent where the server tells the tokens of each
/// event, or does not count them at all.
pub fn tokens_beyond_events(attempt: &Attempt) -> Option<u64> {
    let (tokens, provenance) = attempt.output_tokens?;
    let events = attempt.arrival_gaps_us.len();
    if provenance == Provenance::Events || !attempt.stream || attempt.arrival_tokens.len() == events {
        return None;
    }
    let hidden = if attempt.reasoning_streamed { 0 } else { attempt.usage.reasoning_tokens.unwrap_or(0) };
    tokens.checked_sub(hidden)?.checked_sub(events as u64)
}

/// Output tokens and where the count comes from.
pub fn output_tokens(attempt: &Attempt) -> Option<(u64, Provenance)> {
    attempt.output_tokens
}

/// Token-bearing events as (instant in µs, tokens), for counting by event time.
///
/// Tokens of an event are the server's; else the output tokens are spread evenly over the events; else an event counts
/// as one token (an interrupted stream has no usage). An answer without streaming is one event at its end.
pub fn token_events(attempt: &Attempt) -> Vec<(u64, f64)> {
    let t = &attempt.timeline;
    let events = attempt.arrival_gaps_us.len();
    if events == 0 || !attempt.stream {
        let at_end = t.eof_us.zip(attempt.output_tokens).filter(|(_, (tokens, _))| *tokens > 0);
        return at_end.map(|(at, (tokens, _))| (at, tokens as f64)).into_iter().collect();
    }
    let known = attempt.arrival_tokens.len() == events;
    let hidden = if attempt.reasoning_streamed { 0 } else { attempt.usage.reasoning_tokens.unwrap_or(0) };
    let even = attempt.output_tokens.map_or(1.0, |(tokens, _)| tokens.saturating_sub(hidden) as f64 / events as f64);
    let mut at = t.sent_us.unwrap_or(t.dispatched_us);
    let mut each = Vec::with_capacity(events);
    for (index, &gap) in attempt.arrival_gaps_us.iter().enumerate() {
        at = at.saturating_add(gap);
        let told = attempt.arrival_tokens.get(index).filter(|_| known);
        each.push((at, told.map_or(even, |&tokens| f64::from(tokens))));
    }
    each
}

/// When the attempt was over, in µs of its session: the latest instant that its timeline holds.
pub fn end_us(attempt: &Attempt) -> u64 {
    let t = &attempt.timeline;
    let instants = [t.sent_us, t.headers_us, t.first_byte_us, t.last_token_us, t.finish_us, t.usage_us, t.eof_us];
    instants.into_iter().flatten().fold(t.dispatched_us, u64::max)
}

/// What the server itself says of one request (llama.cpp's `timings`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerTimings {
    pub prompt_ms: Option<f64>,
    pub predicted_per_token_ms: Option<f64>,
    pub draft_n: Option<u64>,
    pub draft_accepted: Option<u64>,
}

pub fn server_timings(attempt: &Attempt) -> ServerTimings {
    let Some(timings) = &attempt.server_timings else {
        return ServerTimings::default();
    };
    let number = |name: &str| timings.get(name).and_then(Value::as_f64).filter(|v| v.is_finite() && *v >= 0.0);
    let count = |name: &str| timings.get(name).and_then(Value::as_u64);
    ServerTimings {
        prompt_ms: number("prompt_ms"),
        // A request of one token has no time per token.
        predicted_per_token_ms: number("predicted_per_token_ms").filter(|v| *v > 0.0),
        draft_n: count("draft_n"),
        draft_accepted: count("draft_n_accepted"),
    }
}

fn since_ms(later_us: Option<u64>, earlier_us: Option<u64>) -> Option<f64> {
    Some(later_us?.checked_sub(earlier_us?)? as f64 / 1e3)
}
