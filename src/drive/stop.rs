//! Why and how a run stops early.

use tokio::sync::watch;

use super::event::EndReason;

/// Shared by everyone who may stop the run. The first reason holds.
#[derive(Clone)]
pub struct Stop {
    reason: watch::Sender<Option<EndReason>>,
}

impl Default for Stop {
    fn default() -> Self {
        Stop { reason: watch::Sender::new(None) }
    }
}

impl Stop {
    pub fn request(&self, reason: EndReason) {
        self.reason.send_if_modified(|current| {
            let first = current.is_none();
            if first {
                *current = Some(reason);
            }
            first
        });
    }

    pub fn reason(&self) -> Option<EndReason> {
        self.reason.borrow().clone()
    }

    /// Resolves when the run is to stop.
    pub async fn requested(&self) {
        let mut receiver = self.reason.subscribe();
        // The sender lives in `self`, so waiting cannot fail before it resolves.
        let _ = receiver.wait_for(Option::is_some).await;
    }

    /// Resolves when requests in flight are to be given up. A spent budget lets them end: they are paid for.
    pub async fn cancelled(&self) {
        let mut receiver = self.reason.subscribe();
        let hard = |reason: &Option<EndReason>| matches!(reason, Some(EndReason::Interrupted | EndReason::Aborted(_)));
        let _ = receiver.wait_for(hard).await;
    }
}
