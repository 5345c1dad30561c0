//! The state of one slot's units: waiting for their instant, in flight, or settled.

use std::collections::BTreeSet;

use super::exchange::Job;
use crate::deploy::WireRequest;
use crate::plan::Unit;
use crate::units::{Id, Mono};

/// A unit's request in bytes, with what the journal says of it.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub request: WireRequest,
    pub sent_prompt_hash: Option<Id>,
    pub truncated_chars: u64,
}

struct Entry {
    unit: Unit,
    prepared: Option<Prepared>,
    attempts: u32,
    settled: bool,
}

/// Every unit is settled exactly once.
pub struct SlotWork {
    entries: Vec<Entry>,
    /// (earliest instant, position) of what is to be offered.
    due: BTreeSet<(Mono, usize)>,
    in_flight: usize,
    open: usize,
}

impl SlotWork {
    pub fn new(units: Vec<Unit>) -> SlotWork {
        let due = (0..units.len()).map(|position| (Mono(0), position)).collect();
        let open = units.len();
        let entry = |unit| Entry { unit, prepared: None, attempts: 0, settled: false };
        SlotWork { entries: units.into_iter().map(entry).collect(), due, in_flight: 0, open }
    }

    /// Units without an outcome.
    pub fn open(&self) -> usize {
        self.open
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// When the next waiting unit may be offered; `None` where none waits.
    pub fn next_due(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next waiting unit.
    pub fn peek(&self) -> Option<&Unit> {
        let (_, position) = self.due.first()?;
        self.entries.get(*position).map(|entry| &entry.unit)
    }

    /// Takes the next waiting unit as a job.
    pub fn take(&mut self, prepare: impl FnOnce(&Unit) -> Prepared) -> Option<Job> {
        let (_, position) = self.due.pop_first()?;
        let entry = self.entries.get_mut(position)?;
        entry.attempts += 1;
        self.in_flight += 1;
        let prepared = entry.prepared.get_or_insert_with(|| prepare(&entry.unit));
        let request = prepared.request.clone();
        Some(Job { unit: entry.unit.id, position, attempt: entry.attempts, request })
    }

    pub fn unit(&self, position: usize) -> Option<(&Unit, &Prepared)> {
        let entry = self.entries.get(position).filter(|e| !e.settled)?;
        Some((&entry.unit, entry.prepared.as_ref()?))
    }

    /// The unit is asked again at `at`.
    pub fn again(&mut self, position: usize, at: Mono) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.due.insert((at, position));
    }

    /// The unit has its outcome; its bytes are no longer needed.
    pub fn settled(&mut self, position: usize) {
        let Some(entry) = self.entries.get_mut(position) else {
            return;
        };
        debug_assert!(!entry.settled, "a unit is settled once");
        entry.settled = true;
        entry.prepared = None;
        self.in_flight = self.in_flight.saturating_sub(1);
        self.open = self.open.saturating_sub(1);
    }

    /// Units that were offered at least once and have no outcome.
    pub fn unsettled_offers(&self) -> impl Iterator<Item = &Unit> {
        let waiting: BTreeSet<usize> = self.due.iter().map(|(_, position)| *position).collect();
        let offered = move |(position, entry): (usize, &'_ Entry)| {
            !entry.settled && entry.attempts > 0 && !waiting.contains(&position)
        };
        self.entries.iter().enumerate().filter(move |&(p, e)| offered((p, e))).map(|(_, entry)| &entry.unit)
    }

    pub fn into_unsettled(self) -> Vec<Unit> {
        self.entries.into_iter().filter(|e| !e.settled).map(|e| e.unit).collect()
    }
}
