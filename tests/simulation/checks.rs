//! Invariants that every run keeps, whatever the servers do.

use std::collections::HashMap;

use counterpoise::drive::{Attempt, Event};
use counterpoise::plan::Phase;

use crate::harness::Run;

fn attempts(run: &Run) -> impl Iterator<Item = &Attempt> {
    run.events.iter().filter_map(|event| match event {
        Event::Attempt(attempt) => Some(attempt.as_ref()),
        _ => None,
    })
}

pub fn every_unit_has_one_final_attempt(run: &Run) {
    let mut finals = HashMap::new();
    let mut made = HashMap::new();
    for attempt in attempts(run).filter(|a| a.phase == Phase::Measured) {
        *finals.entry(attempt.unit).or_insert(0) += u32::from(attempt.last);
        let count = made.entry(attempt.unit).or_insert(0);
        *count += 1;
        assert_eq!(attempt.attempt, *count, "attempts are numbered in order");
    }
    let mut planned = 0;
    for slot in run.plan.slots() {
        for unit in run.plan.units_of(slot) {
            planned += 1;
            assert_eq!(finals.get(&unit.id), Some(&1), "unit {} of arm {}", unit.id, unit.arm);
        }
    }
    assert_eq!(finals.len(), planned, "an attempt belongs to no planned unit");
}

pub fn timelines_are_ordered(run: &Run) {
    for attempt in attempts(run) {
        let t = &attempt.timeline;
        let marks = [Some(t.dispatched_us), t.sent_us, t.headers_us, t.first_token_us, t.last_token_us, t.eof_us];
        let seen: Vec<u64> = marks.into_iter().flatten().collect();
        assert!(seen.windows(2).all(|w| w[0] <= w[1]), "{t:?}");
        let last = t.sent_us.zip(t.last_token_us);
        if let Some((sent, last)) = last {
            assert_eq!(attempt.arrival_gaps_us.iter().sum::<u64>(), last - sent);
        }
    }
}

/// (arm, slot, from, to) of each slot in order.
fn slots(run: &Run) -> Vec<(&str, u32, u64, u64)> {
    let mut open: HashMap<(&str, u32, bool), u64> = HashMap::new();
    let mut closed = Vec::new();
    for event in &run.events {
        match event {
            Event::SlotStarted { slot, arm, at_us, phase, .. } => {
                open.insert((arm, *slot, *phase == Phase::Measured), *at_us);
            }
            Event::SlotEnded { slot, arm, at_us, phase, .. } => {
                let from = open.remove(&(arm.as_str(), *slot, *phase == Phase::Measured)).expect("ended, not started");
                closed.push((arm.as_str(), *slot, from, *at_us));
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "slots without an end: {open:?}");
    closed
}

pub fn slots_do_not_overlap(run: &Run) {
    let slots = slots(run);
    assert!(slots.windows(2).all(|w| w[0].3 <= w[1].2), "{slots:?}");
}

pub fn attempts_lie_in_their_slots(run: &Run) {
    let slots = slots(run);
    for attempt in attempts(run).filter(|a| a.phase == Phase::Measured && a.timeline.sent_us.is_some()) {
        let end = attempt.timeline.eof_us.unwrap_or(attempt.timeline.dispatched_us);
        let inside = slots.iter().any(|(arm, slot, from, to)| {
            *arm == attempt.arm && *slot == attempt.slot && *from <= attempt.timeline.dispatched_us && end <= *to
        });
        assert!(inside, "{} slot {} {:?} not in {slots:?}", attempt.arm, attempt.slot, attempt.timeline);
    }
}

/// Counts overlaps of [sent, end of response) within each arm.
pub fn in_flight_is_at_most(run: &Run, concurrency: i64) {
    let mut edges: HashMap<&str, Vec<(u64, i64)>> = HashMap::new();
    for attempt in attempts(run) {
        if let (Some(sent), Some(end)) = (attempt.timeline.sent_us, attempt.timeline.eof_us) {
            edges.entry(&attempt.arm).or_default().extend([(sent, 1), (end, -1)]);
        }
    }
    for (arm, mut edges) in edges {
        edges.sort_unstable();
        let mut now = 0;
        for (at, change) in edges {
            now += change;
            assert!(now <= concurrency, "{arm} has {now} in flight at {at} µs");
        }
    }
}
