//! What holds a request back beside the load itself: a deployment's rate limits and the run's budget.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rust_decimal::Decimal;

use crate::spec::{Budget, Limits};
use crate::units::{Mono, nanos};

const MINUTE_NS: u64 = 60_000_000_000;

/// A deployment's own limits: requests and tokens of the last 60 seconds.
#[derive(Debug, Default)]
pub struct Pacer {
    limits: Limits,
    requests: VecDeque<Mono>,
    tokens: VecDeque<(Mono, u64)>,
}

impl Pacer {
    pub fn new(limits: Limits) -> Pacer {
        Pacer { limits, ..Pacer::default() }
    }

    /// The earliest instant at which the next request may be sent.
    pub fn next_at(&mut self, now: Mono) -> Mono {
        let recent = |at: &Mono| now.since(*at).is_none_or(|ns| ns < MINUTE_NS);
        self.requests.retain(recent);
        self.tokens.retain(|(at, _)| recent(at));
        let free_again = |at: Mono| at.plus_ns(MINUTE_NS);
        let by_requests = match (self.limits.requests_per_min, self.requests.len() as u64) {
            (Some(limit), used) if used >= u64::from(limit) => self.requests.front().copied().map(free_again),
            _ => None,
        };
        let used: u64 = self.tokens.iter().map(|(_, tokens)| tokens).sum();
        let by_tokens = match self.limits.tokens_per_min {
            Some(limit) if used >= u64::from(limit) => self.tokens.front().map(|(at, _)| free_again(*at)),
            _ => None,
        };
        by_requests.max(by_tokens).unwrap_or(now).max(now)
    }

    pub fn sent(&mut self, now: Mono) {
        if self.limits.requests_per_min.is_some() {
            self.requests.push_back(now);
        }
    }

    pub fn spent(&mut self, now: Mono, tokens: u64) {
        if self.limits.tokens_per_min.is_some() && tokens > 0 {
            self.tokens.push_back((now, tokens));
        }
    }
}

/// What earlier sessions of a run have used of its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    pub requests: u64,
    pub usd: Decimal,
    pub time_ns: u64,
}

/// Why a request may not be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The budget is spent, and how.
    Spent(String),
    /// Not while the requests in flight may use up what is left.
    HeldBack,
}

/// The run's budget, shared by all arms.
#[derive(Debug)]
pub struct BudgetState {
    budget: Budget,
    /// Time that earlier sessions took.
    before_ns: u64,
    state: Mutex<Money>,
}

#[derive(Debug)]
struct Money {
    requests: u64,
    spent: Decimal,
    /// The most that requests in flight may still cost.
    reserved: Decimal,
}

impl BudgetState {
    pub fn new(budget: Budget, used: Used) -> BudgetState {
        let state = Money { requests: used.requests, spent: used.usd, reserved: Decimal::ZERO };
        BudgetState { budget, before_ns: used.time_ns, state: Mutex::new(state) }
    }

    /// Takes one request from the budget, with the most that it may cost.
    pub fn take_request(&self, now: Mono, reserve: Decimal) -> Result<(), Refused> {
        let mut state = self.lock();
        if let Some(limit) = self.budget.requests
            && state.requests >= limit
        {
            return Err(Refused::Spent(format!("budget.requests: {limit} requests are made")));
        }
        if self.ends_at().is_some_and(|end| now >= end) {
            return Err(Refused::Spent(self.time_is_over()));
        }
        if let Some(limit) = self.budget.usd {
            if state.spent + reserve > limit {
                let spent = state.spent.round_dp(6).normalize();
                let reason = format!("budget.usd: {spent} of {limit} USD are spent, and the next request may go over");
                return Err(Refused::Spent(reason));
            }
            if state.spent + state.reserved + reserve > limit {
                return Err(Refused::HeldBack);
            }
        }
        state.requests += 1;
        state.reserved += reserve;
        Ok(())
    }

    /// Gives back a request that was taken and never sent.
    pub fn give_back(&self, reserve: Decimal) {
        let mut state = self.lock();
        state.requests = state.requests.saturating_sub(1);
        state.reserved = (state.reserved - reserve).max(Decimal::ZERO);
    }

    /// Gives a request's reserve back and counts what it cost.
    pub fn settle(&self, reserve: Decimal, spent: Decimal) {
        let mut state = self.lock();
        state.reserved = (state.reserved - reserve).max(Decimal::ZERO);
        state.spent = state.spent.checked_add(spent).unwrap_or(Decimal::MAX);
    }

    /// When `budget.time` is over, on this session's clock.
    pub fn ends_at(&self) -> Option<Mono> {
        let limit = nanos(self.budget.time?.0);
        Some(Mono(limit.saturating_sub(self.before_ns)))
    }

    pub fn time_is_over(&self) -> String {
        let limit = self.budget.time.map(|limit| limit.to_string()).unwrap_or_default();
        format!("budget.time: {limit} are over")
    }

    fn lock(&self) -> MutexGuard<'_, Money> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn holds_requests_until_the_minute_has_passed() {
        let mut pacer = Pacer::new(Limits { requests_per_min: Some(2), ..Limits::default() });
        for at in [0, SECOND] {
            assert_eq!(pacer.next_at(Mono(at)), Mono(at));
            pacer.sent(Mono(at));
        }
        assert_eq!(pacer.next_at(Mono(2 * SECOND)), Mono(60 * SECOND));
        assert_eq!(pacer.next_at(Mono(60 * SECOND)), Mono(60 * SECOND));
    }

    #[test]
    fn holds_tokens_too() {
        let mut pacer = Pacer::new(Limits { tokens_per_min: Some(100), ..Limits::default() });
        pacer.spent(Mono(5), 100);
        assert_eq!(pacer.next_at(Mono(6)), Mono(60 * SECOND + 5));
    }

    fn spent(refused: Result<(), Refused>) -> String {
        match refused {
            Err(Refused::Spent(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_budget_ends_the_run_with_its_reason() {
        let zero = Decimal::ZERO;
        let state = BudgetState::new(Budget { requests: Some(1), ..Budget::default() }, Used::default());
        assert!(state.take_request(Mono(0), zero).is_ok());
        assert!(spent(state.take_request(Mono(0), zero)).contains("budget.requests"));
        let time = Budget { time: Some(Span::from_ms(5)), ..Budget::default() };
        let state = BudgetState::new(time, Used { time_ns: 1_000_000, ..Used::default() });
        assert!(state.take_request(Mono(3_999_999), zero).is_ok());
        assert!(spent(state.take_request(Mono(4_000_000), zero)).contains("budget.time"));
    }

    #[test]
    fn money_in_flight_is_held_back() {
        let cents = |n: i64| Decimal::new(n, 2);
        let state = BudgetState::new(Budget { usd: Some(cents(10)), ..Budget::default() }, Used::default());
        assert!(state.take_request(Mono(0), cents(6)).is_ok());
        assert_eq!(state.take_request(Mono(0), cents(6)), Err(Refused::HeldBack), "two of 6 cents do not fit into 10");
        state.settle(cents(6), cents(1));
        assert!(state.take_request(Mono(0), cents(6)).is_ok());
        let resumed = Used { usd: cents(8), ..Used::default() };
        let state = BudgetState::new(Budget { usd: Some(cents(10)), ..Budget::default() }, resumed);
        assert!(spent(state.take_request(Mono(0), cents(6))).contains("0.08 of 0.10"));
    }
}
