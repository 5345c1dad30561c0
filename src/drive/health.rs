//! What an arm's answers say of its deployment: whether it is there, whether it refuses, whether the run can go on.

use std::time::Duration;

use super::arm::ArmRunner;
use super::event::EndReason;
use super::shared::Shared;
use crate::deploy::{EndOfBody, Exchanged, Outcome, Reply};
use crate::units::Mono;

/// A baseline that answered and cannot be connected to any more, this often and this long, is lost.
const LOST_CONNECTIONS: u32 = 8;
const LOST_AFTER: Duration = Duration::from_secs(10);
/// Between two looks at a baseline that may come back.
pub(super) const LOST_PAUSE: Duration = Duration::from_secs(1);

/// A candidate that refuses this many requests in a row, and has answered none, is not asked further.
const REFUSALS_MAX: u32 = 8;

impl ArmRunner {
    /// Whether the baseline, which has answered before, cannot be connected to at the moment.
    pub(super) fn is_lost(&mut self, now: Mono, exchanged: &Exchanged) -> bool {
        if !never_connected(exchanged) {
            self.lost = None;
            return false;
        }
        if !self.answered || !self.is_baseline {
            return false;
        }
        let (count, since) = self.lost.unwrap_or((0, now));
        self.lost = Some((count + 1, since));
        true
    }

    pub(super) fn watch_loss(&mut self, shared: &Shared, now: Mono, message: &str) {
        let Some((count, since)) = self.lost else { return };
        let long = now.since(since).is_some_and(|ns| u128::from(ns) >= LOST_AFTER.as_nanos());
        if count >= LOST_CONNECTIONS && long {
            let reason = format!("the baseline `{}` has answered and is gone: {message}", self.name);
            shared.stop.request(EndReason::Aborted(reason));
        }
    }

    /// Outcomes after which nothing can be concluded from this arm, so that the run ends.
    pub(super) fn ends_run(&self, outcome: Outcome) -> bool {
        outcome == Outcome::Auth || self.is_baseline && matches!(outcome, Outcome::BadRequest | Outcome::Unreachable)
    }

    /// A connection that never stood is no answer of this deployment at all.
    pub(super) fn judge(&self, mut reply: Reply, exchanged: &Exchanged) -> Reply {
        if never_connected(exchanged) {
            reply.outcome = if self.answered { Outcome::Transport } else { Outcome::Unreachable };
        }
        reply
    }

    pub(super) fn watch_health(&mut self, shared: &Shared, outcome: Outcome, message: &str) {
        match outcome {
            Outcome::Auth => {
                let reason = format!("`{}` refuses the credentials: {message}{}", self.name, self.key_hint());
                shared.stop.request(EndReason::Aborted(reason));
            }
            Outcome::BadRequest | Outcome::Unreachable if !self.answered => {
                self.refusals += 1;
                let enough = self.refusals >= REFUSALS_MAX;
                self.refuse(shared, outcome, message, enough);
            }
            Outcome::BadRequest if self.is_baseline => self.refuse(shared, outcome, message, false),
            _ if !outcome.is_error() => {
                self.answered = true;
                self.refusals = 0;
            }
            _ => {}
        }
    }

    /// A refusing baseline ends the run: nothing can be compared. A candidate is given up once that is sure.
    pub(super) fn refuse(&mut self, shared: &Shared, outcome: Outcome, message: &str, sure: bool) {
        if self.is_baseline {
            let what = if outcome == Outcome::Unreachable { "cannot be reached" } else { "refuses the request" };
            let reason = format!("the baseline `{}` {what}: {message}", self.name);
            shared.stop.request(EndReason::Aborted(reason));
        } else if sure {
            self.down = Some((outcome, message.to_owned()));
        }
    }
}

/// Whether no connection stood at all.
fn never_connected(exchanged: &Exchanged) -> bool {
    matches!(&exchanged.end, EndOfBody::Broken(error) if error.before_connection())
}
