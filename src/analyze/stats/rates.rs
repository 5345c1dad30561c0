//! Intervals for one rate: Wilson to show, Clopper–Pearson to gate.

use super::special::{beta_quantile, two_sided_z};
use crate::analyze::estimate::Estimate;

/// Wilson's score interval for `successes` of `n` at a two-sided `level` (Wilson 1927): 30 of 30 → [0.886, 1] at 95 %.
///
/// Absent at n = 0. More successes than n are taken as n.
pub fn wilson(successes: u64, n: u64, level: f64) -> Estimate {
    let Some((share, z)) = share(successes, n).zip(two_sided_z(level)) else {
        return Estimate::point_only(share(successes, n), level, n, "wilson");
    };
    let count = n as f64;
    let z2 = z * z;
    let center = (share + z2 / (2.0 * count)) / (1.0 + z2 / count);
    let half = z / (1.0 + z2 / count) * (share * (1.0 - share) / count + z2 / (4.0 * count * count)).sqrt();
    // At the rim the interval ends there exactly; rounding must not move it inside.
    let low = if successes == 0 { 0.0 } else { (center - half).clamp(0.0, share) };
    let high = if successes >= n { 1.0 } else { (center + half).clamp(share, 1.0) };
    Estimate::new(Some(share), Some(low), Some(high), level, n, "wilson")
}

/// Clopper–Pearson's exact interval at a two-sided `level` (Clopper & Pearson 1934). Absent at n = 0.
pub fn clopper_pearson(successes: u64, n: u64, level: f64) -> Estimate {
    let confidence = f64::midpoint(1.0, level);
    let low = clopper_pearson_lower(successes, n, confidence);
    let high = clopper_pearson_upper(successes, n, confidence);
    Estimate::new(share(successes, n), low, high, level, n, "clopper-pearson")
}

/// Exact one-sided lower bound of a rate at `confidence`; 0 where nothing succeeded. Absent at n = 0.
pub fn clopper_pearson_lower(successes: u64, n: u64, confidence: f64) -> Option<f64> {
    let successes = checked(successes, n, confidence)?;
    if successes == 0 {
        return Some(0.0);
    }
    Some(beta_quantile(successes as f64, (n - successes) as f64 + 1.0, 1.0 - confidence))
}

/// Exact one-sided upper bound of a rate at `confidence`; 1 where all succeeded. Absent at n = 0.
pub fn clopper_pearson_upper(successes: u64, n: u64, confidence: f64) -> Option<f64> {
    let successes = checked(successes, n, confidence)?;
    if successes == n {
        return Some(1.0);
    }
    // The bound for failures from below is the bound for successes from above, and its tail is exact.
    Some(1.0 - beta_quantile((n - successes) as f64, successes as f64 + 1.0, 1.0 - confidence))
}

fn checked(successes: u64, n: u64, confidence: f64) -> Option<u64> {
    (n > 0 && confidence > 0.0 && confidence < 1.0).then(|| successes.min(n))
}

fn share(successes: u64, n: u64) -> Option<f64> {
    (n > 0).then(|| successes.min(n) as f64 / n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wilson_at_the_rim() {
        let all = wilson(30, 30, 0.95);
        assert!((all.low.unwrap() - 0.886).abs() < 5e-4);
        assert_eq!(all.high, Some(1.0));
        let none = wilson(0, 30, 0.95);
        assert_eq!(none.low, Some(0.0));
        assert!((none.high.unwrap() - 0.114).abs() < 5e-4);
    }

    #[test]
    fn no_trials_give_no_rate() {
        for estimate in [wilson(0, 0, 0.9), clopper_pearson(0, 0, 0.9)] {
            assert_eq!((estimate.point, estimate.low, estimate.high), (None, None, None));
        }
        assert_eq!(clopper_pearson_upper(0, 0, 0.95), None);
        assert_eq!(clopper_pearson_upper(1, 5, 1.0), None);
    }

    #[test]
    fn rule_of_three() {
        // No failure in n bounds the rate by 1 − 0.05^(1/n), some 3/n.
        let bound = clopper_pearson_upper(0, 300, 0.95).unwrap();
        assert!((bound - (1.0 - 0.05_f64.powf(1.0 / 300.0))).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn intervals_hold_their_point_and_grow_with_level(n in 1_u64..3000, share in 0.0_f64..=1.0, level in 0.5_f64..0.98) {
            let k = (share * n as f64).round() as u64;
            for f in [wilson, clopper_pearson] {
                let (narrow, wide) = (f(k, n, level), f(k, n, level + 0.01));
                let (point, low, high) = (narrow.point.unwrap(), narrow.low.unwrap(), narrow.high.unwrap());
                prop_assert!(0.0 <= low && low <= point && point <= high && high <= 1.0);
                prop_assert!(wide.low.unwrap() <= low && high <= wide.high.unwrap());
                let mirror = f(n - k, n, level);
                prop_assert!((mirror.low.unwrap() - (1.0 - high)).abs() < 1e-9);
            }
        }
    }
}
