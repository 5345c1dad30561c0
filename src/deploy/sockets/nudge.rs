//! Connection and body of an exchange are polled in one task, one after the other, and wake each other through it. Such a
//! nudge would send the task through the scheduler once more for each frame, for nothing: it is looked at on the spot.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Looks on the spot before the task is woken after all, so that others have their turn.
const LOOKS_MAX: u32 = 3;

/// A waker that only takes note while its own task is polling.
pub(super) struct Nudge {
    state: Arc<State>,
    waker: Waker,
}

struct State {
    task: Mutex<Option<Waker>>,
    polling: AtomicBool,
    nudged: AtomicBool,
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Noted before the look at `polling`, as the task looks for notes after it has stopped polling: one of both sees
        // the other.
        self.nudged.store(true, Ordering::SeqCst);
        if !self.polling.load(Ordering::SeqCst) {
            self.wake_task();
        }
    }
}

impl State {
    fn wake_task(&self) {
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            task.wake_by_ref();
        }
    }

    fn belongs_to(&self, task: &Waker) {
        let mut known = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.as_ref().is_some_and(|known| known.will_wake(task)) {
            *known = Some(task.clone());
        }
    }
}

impl Nudge {
    pub(super) fn new() -> Nudge {
        let state =
            Arc::new(State { task: Mutex::new(None), polling: AtomicBool::new(false), nudged: AtomicBool::new(false) });
        Nudge { waker: Waker::from(Arc::clone(&state)), state }
    }

    /// Polls until there is something, or nothing nudges any more.
    pub(super) fn quietly<T>(&self, cx: &Context<'_>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        let state = &self.state;
        state.belongs_to(cx.waker());
        state.polling.store(true, Ordering::SeqCst);
        let mut polled = Poll::Pending;
        for _ in 0..LOOKS_MAX {
            state.nudged.store(false, Ordering::SeqCst);
            polled = poll(&mut Context::from_waker(&self.waker));
            if polled.is_ready() || !state.nudged.load(Ordering::SeqCst) {
                break;
            }
        }
        state.polling.store(false, Ordering::SeqCst);
        if polled.is_pending() && state.nudged.load(Ordering::SeqCst) {
            state.wake_task();
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// What polling gave, how often it polled, and how often the task was woken by it and by one wake afterwards.
    fn play(mut poll: impl FnMut(u32, &mut Context<'_>) -> Poll<()>) -> (Poll<()>, u32, u32, u32) {
        let count = Arc::new(Count(AtomicU32::new(0)));
        let task = Waker::from(Arc::clone(&count));
        let nudge = Nudge::new();
        let (mut polls, mut kept) = (0, None);
        let polled = nudge.quietly(&Context::from_waker(&task), |cx| {
            polls += 1;
            kept = Some(cx.waker().clone());
            poll(polls, cx)
        });
        let during = count.0.load(Ordering::SeqCst);
        kept.unwrap().wake();
        (polled, polls, during, count.0.load(Ordering::SeqCst))
    }

    #[test]
    fn a_wake_from_outside_reaches_the_task() {
        assert_eq!(play(|_, _| Poll::Pending), (Poll::Pending, 1, 0, 1));
        assert_eq!(play(|_, _| Poll::Ready(())), (Poll::Ready(()), 1, 0, 1));
    }

    #[test]
    fn a_nudge_of_its_own_is_looked_at_on_the_spot() {
        let nudged_once = |polls: u32, cx: &mut Context<'_>| {
            if polls == 1 {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        };
        assert_eq!(play(nudged_once), (Poll::Pending, 2, 0, 1));
    }

    #[test]
    fn who_nudges_without_end_goes_through_the_scheduler() {
        let always = |_: u32, cx: &mut Context<'_>| {
            cx.waker().wake_by_ref();
            Poll::Pending
        };
        assert_eq!(play(always), (Poll::Pending, LOOKS_MAX, 1, 2));
    }
}
