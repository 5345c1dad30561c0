//! The seam between the dispatcher and whoever asks: a worker takes a unit and puts a result. In process it is a queue
//! for one slot; a message broker can stand here when one machine is not enough.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc};

use crate::deploy::transport::BoxFuture;
use crate::deploy::{Exchanged, WireRequest};
use crate::units::Id;

/// One attempt to be made.
#[derive(Clone, Debug)]
pub struct Job {
    pub unit: Id,
    /// Index of the unit within its slot.
    pub position: usize,
    pub attempt: u32,
    pub request: WireRequest,
}

/// What came of a job.
#[derive(Debug)]
pub struct Done {
    pub unit: Id,
    pub position: usize,
    pub attempt: u32,
    pub lane: u32,
    pub exchanged: Exchanged,
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
    results: mpsc::UnboundedSender<Done>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    closed: bool,
}

impl SlotExchange {
    /// The receiver gets every `put`. It needs no bound of its own: each offered job puts at most one result.
    pub fn new() -> (SlotExchange, mpsc::UnboundedReceiver<Done>) {
        let (results, receiver) = mpsc::unbounded_channel();
        (SlotExchange { state: Mutex::default(), changed: Notify::new(), results }, receiver)
    }

    pub fn offer(&self, job: Job) {
        self.lock().queue.push_back(job);
        self.changed.notify_one();
    }

    /// No job is taken after this.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.queue.clear();
        drop(state);
        self.changed.notify_waiters();
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
        state.queue.pop_front().map(Some)
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
        // The receiver is gone only when the slot has been given up.
        let _ = self.results.send(done);
    }
}
