//! What holds a request back beside the load itself: a deployment's rate limits and the run's budget.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use rust_decimal::Decimal;

use crate::spec::{Budget, Limits};
use crate::units::Mono;

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

/// The run's budget, shared by all arms.
#[derive(Debug)]
pub struct BudgetState {
    budget: Budget,
    requests: AtomicU64,
    /// Micro-dollars, rounded up: enough for a limit, not for a bill.
    micro_usd: AtomicU64,
}

impl BudgetState {
    pub fn new(budget: Budget) -> BudgetState {
        BudgetState { budget, requests: AtomicU64::new(0), micro_usd: AtomicU64::new(0) }
    }

    /// Takes one request from the budget; the reason where none is left.
    pub fn take_request(&self, now: Mono) -> Result<(), String> {
        let made = self.requests.fetch_add(1, Ordering::Relaxed);
        if let Some(limit) = self.budget.requests
            && made >= limit
        {
            return Err(format!("budget.requests: {limit} requests are made"));
        }
        if let Some(limit) = self.budget.time
            && u128::from(now.0) >= limit.0.as_nanos()
        {
            return Err(format!("budget.time: {limit} are over"));
        }
        let spent = Decimal::from(self.micro_usd.load(Ordering::Relaxed)) / Decimal::from(1_000_000);
        match self.budget.usd {
            Some(limit) if spent >= limit => Err(format!("budget.usd: {limit} USD are spent")),
            _ => Ok(()),
        }
    }

    pub fn spend(&self, usd: Decimal) {
        let micro = (usd * Decimal::from(1_000_000)).ceil();
        let micro = u64::try_from(micro).unwrap_or(0);
        self.micro_usd.fetch_add(micro, Ordering::Relaxed);
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

    #[test]
    fn each_budget_ends_the_run_with_its_reason() {
        let budget = Budget { requests: Some(1), ..Budget::default() };
        let state = BudgetState::new(budget);
        assert!(state.take_request(Mono(0)).is_ok());
        assert!(state.take_request(Mono(0)).unwrap_err().contains("budget.requests"));
        let state = BudgetState::new(Budget { time: Some(Span::from_ms(5)), ..Budget::default() });
        assert!(state.take_request(Mono(4_999_999)).is_ok());
        assert!(state.take_request(Mono(5_000_000)).unwrap_err().contains("budget.time"));
        let state = BudgetState::new(Budget { usd: Some(Decimal::new(1, 2)), ..Budget::default() });
        state.spend(Decimal::new(5, 3));
        assert!(state.take_request(Mono(0)).is_ok());
        state.spend(Decimal::new(5, 3));
        assert!(state.take_request(Mono(0)).unwrap_err().contains("budget.usd"));
    }
}
