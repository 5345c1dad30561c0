//! What attempts and arms cost. An unknown spend stays unknown.

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use crate::deploy::{Deadline, Outcome};
use crate::drive::Attempt;
use crate::spec::Price;
use crate::spec::money::{has_request_price, spend};

/// USD of one attempt by its usage; `None` where unknown.
///
/// Without usage an attempt is unknown, except where it certainly cost nothing: no connection stood or the request was
/// never sent whole, or the server turned it away (401, 403, 429, 400, a prompt beyond the context) before any token.
pub fn attempt_spend(price: &Price, attempt: &Attempt) -> Option<Decimal> {
    if turned_away(attempt) && has_request_price(price) {
        return Some(Decimal::ZERO);
    }
    let usage = &attempt.usage;
    spend(price, usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens)
}

/// No token was made and the outcome says that none will be billed.
fn turned_away(attempt: &Attempt) -> bool {
    let no_token =
        attempt.arrival_gaps_us.is_empty() && attempt.text.is_empty() && attempt.usage.completion_tokens.is_none();
    let by_outcome = match attempt.outcome {
        Outcome::Unreachable
        | Outcome::Auth
        | Outcome::BadRequest
        | Outcome::RateLimited
        | Outcome::Dropped
        | Outcome::Timeout(Deadline::Connect) => true,
        Outcome::ContextOverflow => attempt.status.is_some_and(|status| status >= 400),
        Outcome::Transport => attempt.timeline.sent_us.is_none(),
        _ => false,
    };
    no_token && by_outcome
}

/// A sum that remembers how many of its parts are unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpendSum {
    pub known: Decimal,
    pub unknown: u64,
}

impl SpendSum {
    pub fn add(&mut self, part: Option<Decimal>) {
        match part.and_then(|usd| self.known.checked_add(usd)) {
            Some(sum) => self.known = sum,
            None => self.unknown += 1,
        }
    }

    pub fn merge(&mut self, other: SpendSum) {
        self.add(Some(other.known));
        self.unknown += other.unknown;
    }

    /// The whole sum; absent where any part is unknown.
    pub fn total(&self) -> Option<Decimal> {
        (self.unknown == 0).then_some(self.known)
    }
}

pub fn to_f64(usd: Decimal) -> Option<f64> {
    usd.to_f64().filter(|v| v.is_finite())
}
