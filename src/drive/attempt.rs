//! From an exchange and its reading to the journal's row.

use super::event::{Attempt, Timeline};
use crate::deploy::{ArrivalKind, Exchanged, Outcome, Provenance, Reply, Usage};
use crate::plan::Unit;
use crate::units::{Id, Mono};

/// What the dispatcher knows of an attempt beside the exchange.
pub struct Context<'a> {
    pub unit: &'a Unit,
    pub arm: &'a str,
    pub task: &'a str,
    pub session: u32,
    pub lane: u32,
    pub attempt: u32,
    pub intended: Option<Mono>,
    pub last: bool,
    pub sent_prompt_hash: Option<Id>,
    pub truncated_chars: u64,
}

/// The row of an attempt that was made.
pub fn of_exchange(context: &Context<'_>, exchanged: &Exchanged, reply: Reply) -> Attempt {
    let timeline = Timeline { intended_us: context.intended.map(Mono::as_us), ..timeline(exchanged, &reply) };
    let mut attempt = blank(context, reply.outcome, timeline);
    attempt.arrival_gaps_us = gaps(exchanged, &reply);
    attempt.arrival_bytes = reply.arrivals.iter().map(|a| a.bytes).collect();
    attempt.arrival_tokens = reply.arrivals.iter().map(|a| a.tokens).collect::<Option<_>>().unwrap_or_default();
    attempt.output_tokens = output_tokens(&reply);
    attempt.reasoning_streamed =
        reply.arrivals.iter().any(|a| matches!(a.kind, ArrivalKind::Reasoning | ArrivalKind::Mixed));
    attempt.status = exchanged.status;
    attempt.stream = reply.streamed;
    attempt.lane_reopened = exchanged.reopened;
    attempt.error = reply.error;
    attempt.text = reply.text;
    attempt.reasoning = reply.reasoning;
    attempt.finish_reason = reply.finish_reason;
    attempt.usage = reply.usage;
    attempt.server_timings = reply.server_timings;
    attempt.system_fingerprint = reply.system_fingerprint;
    attempt.served_model = reply.model;
    attempt
}

/// The row of a request that was not sent: its arm is known to refuse, or too many were in flight when it was due.
pub fn unsent(context: &Context<'_>, now: Mono, outcome: Outcome, error: String) -> Attempt {
    let intended_us = context.intended.map(Mono::as_us);
    let timeline = Timeline { intended_us, dispatched_us: now.as_us(), ..Timeline::default() };
    Attempt { error: Some(error), ..blank(context, outcome, timeline) }
}

fn blank(context: &Context<'_>, outcome: Outcome, timeline: Timeline) -> Attempt {
    Attempt {
        unit: context.unit.id,
        pair: context.unit.pair,
        arm: context.arm.to_owned(),
        task: context.task.to_owned(),
        sample: context.unit.sample,
        repeat: context.unit.repeat,
        phase: context.unit.phase,
        session: context.session,
        stage: context.unit.stage,
        block: context.unit.block,
        slot: context.unit.slot,
        lane: context.lane,
        attempt: context.attempt,
        last: context.last,
        outcome,
        error: None,
        status: None,
        timeline,
        arrival_gaps_us: Vec::new(),
        arrival_bytes: Vec::new(),
        arrival_tokens: Vec::new(),
        text: String::new(),
        reasoning: String::new(),
        finish_reason: None,
        usage: Usage::default(),
        output_tokens: None,
        reasoning_streamed: false,
        server_timings: None,
        system_fingerprint: None,
        served_model: None,
        sent_prompt_hash: context.sent_prompt_hash,
        truncated_chars: context.truncated_chars,
        stream: false,
        lane_reopened: false,
    }
}

fn timeline(exchanged: &Exchanged, reply: &Reply) -> Timeline {
    let marks = &exchanged.marks;
    let us = |instant: Option<Mono>| instant.map(Mono::as_us);
    let ns_to_us = |ns: Option<u64>| ns.map(|ns| ns / 1_000);
    // Without a stream the text arrives all at once: there is no first token to be timed.
    let streamed = reply.streamed;
    let token = |instant: Option<Mono>| us(instant).filter(|_| streamed);
    Timeline {
        intended_us: None,
        dispatched_us: marks.dispatched.as_us(),
        dns_us: ns_to_us(marks.dns_ns),
        tcp_us: ns_to_us(marks.tcp_ns),
        tls_us: ns_to_us(marks.tls_ns),
        sent_us: us(marks.sent),
        headers_us: us(marks.headers),
        first_byte_us: us(marks.first_byte),
        first_event_us: us(reply.first_event),
        first_token_us: token(reply.first_token()),
        first_answer_us: token(reply.first_answer()),
        last_token_us: token(reply.last_token()),
        finish_us: us(reply.finish_at),
        usage_us: us(reply.usage_at),
        eof_us: us(marks.eof),
    }
}

/// Gaps between token-bearing events in microseconds; the first is from `sent`. Rounded from the instants, so that
/// their sum never drifts from the timeline.
fn gaps(exchanged: &Exchanged, reply: &Reply) -> Vec<u64> {
    let mut before = exchanged.marks.sent.unwrap_or(exchanged.marks.dispatched).as_us();
    let gap = |at: u64| {
        let gap = at.saturating_sub(before);
        before = at;
        gap
    };
    reply.arrivals.iter().map(|a| a.at.as_us()).map(gap).collect()
}

fn output_tokens(reply: &Reply) -> Option<(u64, Provenance)> {
    if let Some(tokens) = reply.usage.completion_tokens {
        return Some((tokens, Provenance::Server));
    }
    let events = reply.arrivals.len() as u64;
    (events > 0).then_some((events, Provenance::Events))
}
