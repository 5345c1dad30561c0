//! Waits that end within a fraction of a millisecond: tokio's timer has a granularity of one millisecond, and tokens
//! come every few. A thread of its own sleeps until the next instant that somebody waits for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::units::Mono;
use crate::world::Clock;

/// Wakes tasks at instants of a clock that is not paused. Clones share the thread; it ends with the last of them.
#[derive(Clone)]
pub struct Pacer {
    clock: Clock,
    shared: Arc<Shared>,
    /// Counts the clones: when it goes, the thread is told to end.
    _alive: Arc<Alive>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Earliest first; the number breaks ties in the order of asking.
    waits: BinaryHeap<Reverse<Wait>>,
    asked: u64,
    ended: bool,
}

struct Wait {
    at: Mono,
    number: u64,
    wake: oneshot::Sender<()>,
}

impl PartialEq for Wait {
    fn eq(&self, other: &Wait) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Wait {}

impl PartialOrd for Wait {
    fn partial_cmp(&self, other: &Wait) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Wait {
    fn cmp(&self, other: &Wait) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

struct Alive(Arc<Shared>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.locked().ended = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pacer {
    pub fn start(clock: Clock) -> std::io::Result<Pacer> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let thread = Arc::clone(&shared);
        std::thread::Builder::new().name("simulated-pace".to_owned()).spawn(move || pace(clock, &thread))?;
        let alive = Arc::new(Alive(Arc::clone(&shared)));
        Ok(Pacer { clock, shared, _alive: alive })
    }

    pub async fn until(&self, at: Mono) {
        if at <= self.clock.now() {
            return;
        }
        let (wake, woken) = oneshot::channel();
        {
            let mut state = self.shared.locked();
            state.asked += 1;
            let number = state.asked;
            let earliest = state.waits.peek().is_none_or(|Reverse(first)| at < first.at);
            state.waits.push(Reverse(Wait { at, number, wake }));
            if earliest {
                self.shared.changed.notify_one();
            }
        }
        // An error means that the thread is gone: waiting longer would wait for ever.
        let _ = woken.await;
    }
}

fn pace(clock: Clock, shared: &Shared) {
    let mut state = shared.locked();
    while !state.ended {
        let now = clock.now();
        while state.waits.peek().is_some_and(|Reverse(first)| first.at <= now) {
            if let Some(Reverse(due)) = state.waits.pop() {
                // Whoever stopped waiting is not woken.
                let _ = due.wake.send(());
            }
        }
        let next = state.waits.peek().map(|Reverse(first)| first.at.since(now).unwrap_or(0));
        state = match next {
            None => shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(ns) => {
                let slept = shared.changed.wait_timeout(state, Duration::from_nanos(ns));
                slept.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_end_in_order_and_never_early() {
        let clock = Clock::start();
        let pacer = Pacer::start(clock).unwrap();
        let waits = [9_u64, 3, 6, 3].map(|ms| {
            let pacer = pacer.clone();
            let at = Mono(ms * 1_000_000);
            tokio::spawn(async move {
                pacer.until(at).await;
                (at, clock.now())
            })
        });
        let mut ends = Vec::new();
        for wait in waits {
            ends.push(wait.await.unwrap());
        }
        assert!(ends.iter().all(|(at, woken)| at <= woken), "{ends:?}");
        ends.sort_by_key(|(_, woken)| *woken);
        assert!(ends.is_sorted_by_key(|(at, _)| *at), "{ends:?}");
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_holds_nothing_back() {
        let pacer = Pacer::start(Clock::start()).unwrap();
        drop(tokio::time::timeout(Duration::from_millis(1), pacer.until(Mono(1_000_000_000_000))).await);
        pacer.until(pacer.clock.now().plus_ns(1_000_000)).await;
    }
}
