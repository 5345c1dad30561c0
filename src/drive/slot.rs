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
    intended: Option<Mono>,
    prepared: Option<Prepared>,
    attempts: u32,
    settled: bool,
}

/// Every unit is settled exactly once.
pub struct SlotWork {
    entries: Vec<Entry>,
    /// (earliest instant, position) of what is to be offered.
    due: BTreeSet<(Mono, usize)>,
    /// The same of turns that follow an answer: a conversation that goes on comes before one that begins.
    following: BTreeSet<(Mono, usize)>,
    /// Turns that wait for the one before.
    held: BTreeSet<usize>,
    in_flight: usize,
    open: usize,
}

impl SlotWork {
    /// Work that starts at `started`: units of an open load are due at their own instants, others at once. Positions in
    /// `held` wait for another one.
    pub fn new(units: Vec<Unit>, started: Mono, held: &[usize]) -> SlotWork {
        let entry = |unit: Unit| {
            let intended = unit.intended_us.map(|us| started.plus_ns(us.saturating_mul(1_000)));
            Entry { unit, intended, prepared: None, attempts: 0, settled: false }
        };
        let entries: Vec<Entry> = units.into_iter().map(entry).collect();
        let held: BTreeSet<usize> = held.iter().copied().collect();
        let due = entries.iter().enumerate().map(|(at, entry)| (entry.intended.unwrap_or_default(), at));
        let due = due.filter(|(_, position)| !held.contains(position)).collect();
        let open = entries.len();
        SlotWork { entries, due, following: BTreeSet::new(), held, in_flight: 0, open }
    }

    /// Instants of arrival, rising; none in a closed load.
    pub fn arrivals(&self) -> Vec<Mono> {
        let mut arrivals: Vec<Mono> = self.entries.iter().filter_map(|entry| entry.intended).collect();
        arrivals.sort_unstable();
        arrivals
    }

    /// Lets go of units that were never offered, and of those at `withdrawn` positions, which no lane took: they stay
    /// unasked. Gives back the units of the latter.
    pub fn let_go(&mut self, withdrawn: &[usize]) -> Vec<Unit> {
        let entries = &self.entries;
        let before = self.due.len() + self.following.len() + self.held.len();
        for waiting in [&mut self.due, &mut self.following] {
            waiting.retain(|(_, position)| entries.get(*position).is_some_and(|entry| entry.attempts > 0));
        }
        self.held.clear();
        self.open = self.open.saturating_sub(before - self.due.len() - self.following.len());
        let mut back = Vec::new();
        for position in withdrawn {
            let Some(entry) = self.entries.get_mut(*position) else { continue };
            entry.attempts = 0;
            entry.prepared = None;
            self.in_flight = self.in_flight.saturating_sub(1);
            self.open = self.open.saturating_sub(1);
            back.push(entry.unit.clone());
        }
        back
    }

    /// Units without an outcome.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Turns that wait for the one before.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The waiting unit that is next at `now`, and when it may be offered; `None` where none waits.
    pub fn next(&self, now: Mono) -> Option<(Mono, &Unit)> {
        let (at, position) = self.first(now)?;
        self.entries.get(position).map(|entry| (at, &entry.unit))
    }

    fn first(&self, now: Mono) -> Option<(Mono, usize)> {
        let (due, following) = (self.due.first().copied(), self.following.first().copied());
        following.filter(|(at, _)| *at <= now).or_else(|| due.into_iter().chain(following).min())
    }

    /// A turn whose predecessor was answered follows at `at`, or at its own instant of an open load if that is later.
    pub fn follows(&mut self, position: usize, at: Mono) {
        let Some(entry) = self.entries.get_mut(position).filter(|_| self.held.remove(&position)) else { return };
        let at = at.max(entry.intended.unwrap_or_default());
        entry.intended = entry.intended.map(|_| at);
        self.following.insert((at, position));
    }

    /// Turns that are never asked have their outcome: gives back their units.
    pub fn lost(&mut self, positions: &[usize]) -> Vec<Unit> {
        let mut units = Vec::new();
        for position in positions {
            let Some(entry) = self.entries.get_mut(*position).filter(|entry| !entry.settled) else { continue };
            let due = (entry.intended.unwrap_or_default(), *position);
            if !self.held.remove(position) && !self.due.remove(&due) {
                continue;
            }
            entry.settled = true;
            self.open = self.open.saturating_sub(1);
            units.push(entry.unit.clone());
        }
        units
    }

    /// Takes the unit that is next at `now` as a job.
    pub fn take(&mut self, now: Mono, prepare: impl FnOnce(&Unit, u32) -> Prepared) -> Option<Job> {
        let (at, position) = self.first(now)?;
        if !self.following.remove(&(at, position)) {
            self.due.remove(&(at, position));
        }
        let entry = self.entries.get_mut(position)?;
        entry.attempts += 1;
        self.in_flight += 1;
        let prepared = entry.prepared.insert(prepare(&entry.unit, entry.attempts));
        let request = prepared.request.clone();
        Some(Job { unit: entry.unit.id, position, attempt: entry.attempts, intended: entry.intended, request })
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
        let waiting: BTreeSet<usize> = self.due.iter().chain(&self.following).map(|(_, position)| *position).collect();
        let offered = move |(position, entry): (usize, &'_ Entry)| {
            !entry.settled && entry.attempts > 0 && !waiting.contains(&position)
        };
        self.entries.iter().enumerate().filter(move |&(p, e)| offered((p, e))).map(|(_, entry)| &entry.unit)
    }

    pub fn into_unsettled(self) -> Vec<Unit> {
        self.entries.into_iter().filter(|e| !e.settled).map(|e| e.unit).collect()
    }
}
