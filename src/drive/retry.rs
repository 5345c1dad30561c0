//! Which outcomes are asked again, and after how long.

use std::time::Duration;

use crate::deploy::Outcome;
use crate::spec::{Retry, RetryOn};
use crate::units::Id;

/// A server may ask for a longer pause than the policy's cap; never for a longer one than this.
const RETRY_AFTER_MAX_S: f64 = 600.0;

/// The pause before the next attempt; `None` where this attempt decides the request.
///
/// Exponential backoff with a jitter in [0.5, 1) that is seeded by unit and attempt, so that it repeats.
pub fn pause(policy: &Retry, outcome: Outcome, attempt: u32, unit: Id, retry_after_s: Option<f64>) -> Option<Duration> {
    if attempt >= policy.max_attempts || !retryable(policy, outcome) {
        return None;
    }
    let doubled = policy.base.0.saturating_mul(1_u32.checked_shl(attempt - 1).unwrap_or(u32::MAX));
    let seed = Id::of("retry", &[&unit.0, &attempt.to_le_bytes()]).as_u64();
    let jitter = 0.5 + (seed >> 11) as f64 / (1_u64 << 53) as f64 / 2.0;
    let backoff = doubled.min(policy.cap.0).mul_f64(jitter);
    let asked = retry_after_s.filter(|s| s.is_finite() && *s > 0.0).map_or(0.0, |s| s.min(RETRY_AFTER_MAX_S));
    Some(backoff.max(Duration::from_secs_f64(asked)))
}

fn retryable(policy: &Retry, outcome: Outcome) -> bool {
    let on = match outcome {
        Outcome::RateLimited => RetryOn::RateLimited,
        Outcome::ServerError => RetryOn::ServerError,
        Outcome::Transport | Outcome::InterruptedStream => RetryOn::Transport,
        Outcome::Timeout(_) => RetryOn::Timeout,
        _ => return false,
    };
    policy.on.contains(&on)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    fn policy() -> Retry {
        Retry {
            max_attempts: 3,
            on: vec![RetryOn::RateLimited, RetryOn::ServerError],
            base: Span::from_ms(1_000),
            cap: Span::from_ms(1_500),
        }
    }

    fn pause_ms(outcome: Outcome, attempt: u32, after: Option<f64>) -> Option<u128> {
        pause(&policy(), outcome, attempt, Id([0; 16]), after).map(|d| d.as_millis())
    }

    #[test]
    fn backs_off_within_base_and_cap() {
        let first = pause_ms(Outcome::ServerError, 1, None).unwrap();
        let second = pause_ms(Outcome::ServerError, 2, None).unwrap();
        assert!((500..1_000).contains(&first), "{first}");
        assert!((750..1_500).contains(&second), "{second}");
    }

    #[test]
    fn ends_at_the_last_attempt_and_for_outcomes_not_named() {
        assert_eq!(pause_ms(Outcome::ServerError, 3, None), None);
        assert_eq!(pause_ms(Outcome::Transport, 1, None), None);
        assert_eq!(pause_ms(Outcome::Completed, 1, None), None);
        assert_eq!(pause_ms(Outcome::BadRequest, 1, None), None);
    }

    #[test]
    fn honours_retry_after_within_reason() {
        assert_eq!(pause_ms(Outcome::RateLimited, 1, Some(3.0)), Some(3_000));
        assert_eq!(pause_ms(Outcome::RateLimited, 1, Some(1e9)), Some(600_000));
        assert!(pause_ms(Outcome::RateLimited, 1, Some(f64::NAN)).unwrap() < 1_000);
    }
}
