//! The seam between the dispatcher and whoever asks: a worker takes a unit and puts a result. In process it is a queue
//! for one slot; a message broker can stand here when one machine is not enough.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use crate::deploy::transport::BoxFuture;
use crate::deploy::{Exchanged, WireRequest};
use crate::units::{Id, Mono};
use crate::world::Clock;

/// One attempt to be made.
#[derive(Clone, Debug)]
pub struct Job {
    pub unit: Id,
    /// Index of the unit within its slot.
    pub position: usize,
    pub attempt: u32,
    /// Open load: when the request was to be sent.
    pub intended: Option<Mono>,
    pub request: WireRequest,
}

/// What came of a job.
#[derive(Debug)]
pub struct Done {
    pub unit: Id,
    pub position: usize,
    pub attempt: u32,
    pub intended: Option<Mono>,
    pub lane: u32,
    pub came: Came,
}

#[derive(Debug)]
pub enum Came {
    Exchanged(Box<Exchanged>),
    /// It was due while as many requests as allowed were in flight: never sent.
    Dropped {
        at: Mono,
    },
}

/// Takes and puts. `take` waits for work and ends with `None` once the slot is closed.
pub trait Exchange: Send + Sync {
    fn take(&self) -> BoxFuture<'_, Option<Job>>;
    fn put(&self, done: Done);
}

/// The in-process exchange of one slot. The queue holds at most the slot's units.
pub struct SlotExchange {
    state: Mutex<State>,
    changed: Notify,
    /// A job was scheduled, or the slot closed: for whoever releases jobs, on a thread or in a task.
    scheduled: Condvar,
    scheduled_too: Notify,
    results: mpsc::UnboundedSender<Done>,
    /// Open load: the most jobs that may be with lanes.
    in_flight_max: usize,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    /// Jobs that wait for their instant; the number keeps equal instants in order.
    due: BTreeMap<(Mono, u64), Job>,
    scheduled: u64,
    /// Taken and not put.
    running: usize,
    closed: bool,
}

impl SlotExchange {
    /// The receiver gets every `put`. It needs no bound of its own: each offered job puts at most one result.
    pub fn new(in_flight_max: usize) -> (SlotExchange, mpsc::UnboundedReceiver<Done>) {
        let (results, receiver) = mpsc::unbounded_channel();
        let exchange = SlotExchange {
            state: Mutex::default(),
            changed: Notify::new(),
            scheduled: Condvar::new(),
            scheduled_too: Notify::new(),
            results,
            in_flight_max,
        };
        (exchange, receiver)
    }

    pub fn offer(&self, job: Job) {
        self.lock().queue.push_back(job);
        self.changed.notify_one();
    }

    /// Offers a job at its instant. Whoever runs [`SlotExchange::release_on_thread`] or
    /// [`SlotExchange::release_in_task`] hands it on then.
    pub fn schedule(&self, job: Job, at: Mono) {
        let mut state = self.lock();
        let number = state.scheduled;
        state.scheduled += 1;
        let first = state.due.first_key_value().is_none_or(|((earliest, _), _)| at < *earliest);
        state.due.insert((at, number), job);
        drop(state);
        if first {
            self.scheduled.notify_one();
            self.scheduled_too.notify_one();
        }
    }

    /// Hands on what is due, or drops it where as many as allowed are in flight; returns the next instant.
    fn release(&self, state: &mut State, now: Mono) -> Option<Mono> {
        while let Some(entry) = state.due.first_entry() {
            if entry.key().0 > now {
                return Some(entry.key().0);
            }
            let job = entry.remove();
            if state.running + state.queue.len() >= self.in_flight_max {
                let Job { unit, position, attempt, intended, .. } = job;
                let came = Came::Dropped { at: now };
                let _ = self.results.send(Done { unit, position, attempt, intended, lane: 0, came });
            } else {
                state.queue.push_back(job);
                // The lane that was used last is the likeliest to be open: few connections serve a low rate.
                self.changed.notify_last();
            }
        }
        None
    }

    /// Releases jobs from a thread that sleeps until each instant; ends when the slot is closed.
    pub fn release_on_thread(&self, clock: Clock) {
        let mut state = self.lock();
        while !state.closed {
            let now = clock.now();
            let next = self.release(&mut state, now);
            state = match next {
                None => self.scheduled.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(next) => {
                    let wait = Duration::from_nanos(next.since(now).unwrap_or(0));
                    self.scheduled.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// The same in a task, by tokio's timer: for a clock that is paused.
    pub async fn release_in_task(&self, clock: Clock) {
        loop {
            let changed = self.scheduled_too.notified();
            let next = {
                let mut state = self.lock();
                if state.closed {
                    return;
                }
                self.release(&mut state, clock.now())
            };
            match next {
                None => changed.await,
                Some(at) => {
                    tokio::select! {
                        () = changed => {}
                        () = clock.sleep_until(at) => {}
                    }
                }
            }
        }
    }

    /// Takes back first attempts that no lane has taken: their positions.
    pub fn withdraw(&self) -> Vec<usize> {
        let mut state = self.lock();
        let mut back = Vec::new();
        let mut kept = VecDeque::new();
        for job in std::mem::take(&mut state.queue) {
            if job.attempt == 1 { back.push(job.position) } else { kept.push_back(job) }
        }
        state.queue = kept;
        state.due.retain(|_, job| {
            if job.attempt == 1 {
                back.push(job.position);
            }
            job.attempt != 1
        });
        back
    }

    /// No job is taken after this.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.queue.clear();
        state.due.clear();
        drop(state);
        self.changed.notify_waiters();
        self.scheduled.notify_all();
        self.scheduled_too.notify_one();
    }

    /// Resolves when the slot is closed.
    pub async fn closed(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.lock().closed {
                return;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `Some(None)` where the slot is closed, `None` where there is nothing yet.
    #[allow(clippy::option_option)] // Three answers: a job, closed, not yet.
    fn poll_take(&self) -> Option<Option<Job>> {
        let mut state = self.lock();
        if state.closed {
            return Some(None);
        }
        let job = state.queue.pop_front()?;
        state.running += 1;
        Some(Some(job))
    }
}

impl Exchange for SlotExchange {
    fn take(&self) -> BoxFuture<'_, Option<Job>> {
        Box::pin(async move {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                // Registers before the look, so that an offer in between is not missed.
                changed.as_mut().enable();
                if let Some(answer) = self.poll_take() {
                    return answer;
                }
                changed.await;
            }
        })
    }

    fn put(&self, done: Done) {
        {
            let mut state = self.lock();
            state.running = state.running.saturating_sub(1);
        }
        // The receiver is gone only when the slot has been given up.
        let _ = self.results.send(done);
    }
}
