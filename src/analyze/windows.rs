//! An arm's own windows: what was done between the start and the end of each of its measured slots.
//!
//! Tokens count by event time, those of unfinished requests included. Beside the whole slot stands its steady part. In a
//! closed load it runs from the first instant at which as many requests are in flight as ever in the slot, to the last
//! one; in an open load while requests arrive: until the last one is due. Whether a run's
//! throughput is told from whole slots or from their steady parts is one decision for all arms
//! ([`Windows::trimmed`]), so that no ratio compares one with the other.

use std::collections::BTreeMap;

use super::figures;
use crate::drive::Attempt;

/// A steady part shorter than this share of its slot is noise at its borders: then whole slots count.
const STEADY_SHARE_NEEDED: f64 = 0.5;
/// Equal parts that a window is cut into, to see how much its rates vary.
pub const PARTS: u64 = 10;

/// What one slot (or its steady part) did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    pub us: u64,
    pub output_tokens: f64,
    pub input_tokens: u64,
    /// Requests answered, by the instant of their end.
    pub requests: u64,
    /// The same in [`PARTS`] equal parts, in their order; empty where the window has no length.
    pub parts: Vec<Part>,
}

/// What a part of a window did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    pub output_tokens: f64,
    /// Requests answered, by the instant of their end.
    pub requests: u64,
    /// Open load: requests that were due, dropped ones included.
    pub arrivals: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    pub arm: usize,
    pub stage: u16,
    pub block: u32,
    pub slot: u32,
    /// Whether requests came at instants of their own.
    pub open: bool,
    pub whole: Counts,
    pub steady: Counts,
    /// Answers whose tokens nobody counted: the token rates are then unknown.
    pub output_unknown: u64,
    pub input_unknown: u64,
}

#[derive(Debug, Default)]
struct OpenSlot {
    arm: usize,
    stage: u16,
    block: u32,
    start_us: u64,
    spans: Vec<(u64, u64)>,
    arrivals: Vec<u64>,
    tokens: Vec<(u64, f64)>,
    prompts: Vec<(u64, u64)>,
    ends: Vec<u64>,
    output_unknown: u64,
    input_unknown: u64,
}

/// Collects windows from the event stream; a slot's details are dropped when it ends.
#[derive(Debug, Default)]
pub struct Windows {
    open: BTreeMap<u32, OpenSlot>,
    pub closed: Vec<Window>,
}

impl Windows {
    /// `at_us`: when the slot begins to count.
    pub fn start(&mut self, slot: u32, block: u32, stage: u16, arm: usize, at_us: u64) {
        self.open.insert(slot, OpenSlot { arm, stage, block, start_us: at_us, ..OpenSlot::default() });
    }

    pub fn attempt(&mut self, attempt: &Attempt) {
        let Some(open) = self.open.get_mut(&attempt.slot) else {
            return;
        };
        let end = figures::end_us(attempt);
        let tokens = figures::token_events(attempt);
        // A retry has arrived once.
        open.arrivals.extend(attempt.timeline.intended_us.filter(|_| attempt.attempt == 1));
        if let Some(sent) = attempt.timeline.sent_us.filter(|_| end > open.start_us) {
            open.spans.push((sent.max(open.start_us), end));
        }
        if let Some(prompt) = attempt.usage.prompt_tokens {
            open.prompts.push((attempt.timeline.first_token_us.unwrap_or(end), prompt));
        }
        if attempt.outcome.is_answered() {
            open.ends.push(end);
            open.output_unknown += u64::from(tokens.is_empty() && attempt.output_tokens.is_none());
            open.input_unknown += u64::from(attempt.usage.prompt_tokens.is_none());
        }
        open.tokens.extend(tokens);
    }

    pub fn end(&mut self, slot: u32, at_us: u64) {
        if let Some(open) = self.open.remove(&slot) {
            self.closed.push(close(slot, &open, at_us));
        }
    }

    /// The session is over: a slot that was cut off ends with its last event.
    pub fn end_session(&mut self) {
        for (slot, open) in std::mem::take(&mut self.open) {
            let end = open.spans.iter().map(|&(_, end)| end).fold(open.start_us, u64::max);
            self.closed.push(close(slot, &open, end));
        }
    }

    /// Whether throughput is told from the steady parts: only where each slot that did anything has one that is long
    /// enough.
    pub fn trimmed<'a>(closed: impl Iterator<Item = &'a Window>) -> bool {
        let mut busy = closed.filter(|w| w.whole.requests > 0).peekable();
        // While requests arrive an open load is as it is meant to be, however long the rest takes to drain.
        let long_enough = |w: &Window| w.open || w.steady.us as f64 >= STEADY_SHARE_NEEDED * w.whole.us as f64;
        busy.peek().is_some() && busy.all(|w| long_enough(w) && w.steady.requests > 0)
    }
}

fn close(slot: u32, open: &OpenSlot, end_us: u64) -> Window {
    let arriving = open.arrivals.iter().max().map(|&last| (open.start_us, last.max(open.start_us)));
    let steady = arriving.or_else(|| steady_part(&open.spans)).unwrap_or((open.start_us, open.start_us));
    Window {
        arm: open.arm,
        stage: open.stage,
        block: open.block,
        slot,
        open: arriving.is_some(),
        whole: open.counts(open.start_us, end_us),
        steady: open.counts(steady.0, steady.1),
        output_unknown: open.output_unknown,
        input_unknown: open.input_unknown,
    }
}

impl OpenSlot {
    fn counts(&self, from: u64, to: u64) -> Counts {
        let us = to.saturating_sub(from);
        let part = |at: u64| (at >= from && at <= to && us > 0).then(|| ((at - from) * PARTS / us).min(PARTS - 1));
        let mut parts = vec![Part::default(); if us > 0 { PARTS as usize } else { 0 }];
        let mut into = |at: u64, add: &dyn Fn(&mut Part)| {
            if let Some(part) = part(at).and_then(|index| parts.get_mut(index as usize)) {
                add(part);
            }
        };
        for &(at, tokens) in &self.tokens {
            into(at, &|part| part.output_tokens += tokens);
        }
        for &at in &self.ends {
            into(at, &|part| part.requests += 1);
        }
        for &at in &self.arrivals {
            into(at, &|part| part.arrivals += 1);
        }
        let prompts = self.prompts.iter().filter(|(at, _)| part(*at).is_some());
        Counts {
            us,
            output_tokens: parts.iter().map(|part| part.output_tokens).sum(),
            input_tokens: prompts.fold(0, |sum: u64, (_, tokens)| sum.saturating_add(*tokens)),
            requests: parts.iter().map(|part| part.requests).sum(),
            parts,
        }
    }
}

/// From the first instant with the most requests in flight to the last one.
fn steady_part(spans: &[(u64, u64)]) -> Option<(u64, u64)> {
    // At one instant an end comes before a start: a lane that goes on at once is one request, not two.
    let mut edges: Vec<(u64, i64)> = spans.iter().flat_map(|&(start, end)| [(start, 1), (end, -1)]).collect();
    edges.sort_unstable();
    let mut level = 0;
    let levels: Vec<(u64, i64)> = edges
        .into_iter()
        .map(|(at, change)| {
            level += change;
            (at, level)
        })
        .collect();
    let most = levels.iter().map(|&(_, level)| level).max().filter(|most| *most > 0)?;
    let from = levels.iter().find(|(_, level)| *level == most)?.0;
    let last = levels.iter().rposition(|(_, level)| *level == most)?;
    let to = levels.get(last + 1).map_or(from, |&(at, _)| at);
    Some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_part_leaves_ramp_and_drain_out() {
        // Three lanes that start one after the other and end one after the other.
        let spans = [(0, 100), (10, 110), (20, 120), (100, 200), (110, 210), (120, 220)];
        assert_eq!(steady_part(&spans), Some((20, 200)));
        assert_eq!(steady_part(&[]), None);
    }

    #[test]
    fn whole_slots_count_where_one_has_no_steady_part() {
        let counts = |us, requests| Counts { us, requests, ..Counts::default() };
        let window = |whole, steady| Window {
            arm: 0,
            stage: 0,
            block: 0,
            slot: 0,
            open: false,
            whole: counts(whole, 8),
            steady: counts(steady, 4),
            output_unknown: 0,
            input_unknown: 0,
        };
        assert!(Windows::trimmed([window(100, 60), window(100, 50)].iter()));
        assert!(!Windows::trimmed([window(100, 60), window(100, 49)].iter()));
        assert!(!Windows::trimmed([].iter()));
    }

    #[test]
    fn a_cut_slot_ends_with_its_last_event() {
        let mut windows = Windows::default();
        windows.start(3, 0, 0, 1, 1_000);
        windows.end_session();
        assert_eq!(windows.closed.first().map(|w| (w.arm, w.whole.us)), Some((1, 0)));
    }
}
