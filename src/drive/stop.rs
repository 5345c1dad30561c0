//! Why and how a run stops early.

use tokio::sync::watch;

use super::event::EndReason;

/// Shared by everyone who may stop the run. The first reason holds, but a hard one takes the place of a spent budget:
/// who interrupts a run that drains wants it to end now.
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
            let replaces = match current {
                None => true,
                Some(EndReason::Budget(_)) => !matches!(reason, EndReason::Budget(_)),
                Some(_) => false,
            };
            if replaces {
                *current = Some(reason);
            }
            replaces
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
