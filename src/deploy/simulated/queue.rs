//! Slots: who is served when. First come, first served; all ends are known, so a start is computed on arrival.

use super::profile::Stall;
use crate::units::Mono;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Busy {
    number: u64,
    start: Mono,
    end: Mono,
}

#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// 0: no limit.
    slots: usize,
    busy: Vec<Busy>,
}

/// When a request's service starts, and how many others are being served then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub start: Mono,
    pub others: usize,
}

impl Queue {
    pub fn new(slots: u32) -> Queue {
        Queue { slots: slots as usize, busy: Vec::new() }
    }

    pub fn turn(&mut self, now: Mono) -> Turn {
        self.busy.retain(|b| b.end > now);
        let start = if self.slots == 0 || self.busy.len() < self.slots {
            now
        } else {
            let mut ends: Vec<Mono> = self.busy.iter().map(|b| b.end).collect();
            ends.sort_unstable();
            ends.get(ends.len() - self.slots).copied().unwrap_or(now)
        };
        Turn { start, others: self.busy.iter().filter(|b| b.end > start).count() }
    }

    pub fn occupy(&mut self, number: u64, start: Mono, end: Mono) {
        self.busy.push(Busy { number, start, end });
    }

    /// A client went away: its slot is free from now on. Starts that were already given stay.
    pub fn release(&mut self, number: u64, now: Mono) {
        self.busy.retain_mut(|b| {
            if b.number == number {
                b.end = b.end.min(now.max(b.start));
            }
            b.number != number || b.start < now
        });
    }

    /// Requests in service and waiting at an instant.
    pub fn loads(&self, now: Mono) -> (usize, usize) {
        let processing = self.busy.iter().filter(|b| b.start <= now && now < b.end).count();
        let waiting = self.busy.iter().filter(|b| now < b.start).count();
        (processing, waiting)
    }
}

/// The instant at which work begun at `from` has taken `ns`, given the times at which the server stands still
/// (milliseconds after `epoch`, in order).
pub fn after_work(stalls: &[Stall], epoch: Mono, from: Mono, ns: u64) -> Mono {
    let instant = |ms: f64| epoch.plus_ns((ms * 1e6) as u64);
    let mut done = from.plus_ns(ns);
    let mut at = from;
    for stall in stalls {
        let (begins, ends) = (instant(stall.from_ms), instant(stall.to_ms));
        if begins < done && at < ends {
            let standing_from = at.max(begins);
            let standing_ns = ends.since(standing_from).unwrap_or(0);
            done = done.plus_ns(standing_ns);
            at = ends;
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_free_slot_serves_the_first_that_waits() {
        let mut queue = Queue::new(2);
        for (number, (now, service, start, others)) in
            [(0, 100, 0, 0), (10, 50, 10, 1), (20, 30, 60, 1), (21, 5, 90, 1), (200, 1, 200, 0)].into_iter().enumerate()
        {
            let turn = queue.turn(Mono(now));
            assert_eq!(turn, Turn { start: Mono(start), others }, "request {number}");
            queue.occupy(number as u64, turn.start, turn.start.plus_ns(service));
        }
    }

    #[test]
    fn a_client_that_leaves_frees_its_slot() {
        let mut queue = Queue::new(1);
        queue.occupy(0, Mono(0), Mono(1_000));
        queue.occupy(1, Mono(1_000), Mono(2_000));
        assert_eq!(queue.loads(Mono(5)), (1, 1));
        queue.release(1, Mono(10));
        queue.release(0, Mono(10));
        assert_eq!(queue.turn(Mono(10)), Turn { start: Mono(10), others: 0 });
    }

    #[test]
    fn work_stands_still_in_a_stall() {
        let stalls = [Stall { from_ms: 1.0, to_ms: 3.0 }, Stall { from_ms: 4.0, to_ms: 5.0 }];
        let ms = |n: f64| Mono((n * 1e6) as u64);
        let done = |from: f64, work: u64| after_work(&stalls, Mono(0), ms(from), work * 1_000_000);
        assert_eq!(done(0.0, 1), ms(1.0));
        assert_eq!(done(0.5, 1), ms(3.5));
        assert_eq!(done(2.0, 1), ms(4.0));
        assert_eq!(done(2.0, 2), ms(6.0));
        assert_eq!(done(5.0, 2), ms(7.0));
    }
}
