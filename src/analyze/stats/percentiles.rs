//! Percentiles of one sample and their distribution-free intervals.
//!
//! A percentile here is the nearest rank: the smallest value that at least a share q of the sample doesn't exceed. It is
//! a value that was measured, it is defined where failures stand as +∞ among the values, and it is what the
//! order-statistic interval bounds. Interpolating rules differ from it by less than one gap between neighbours.

use super::special::binomial_tails;
use crate::analyze::estimate::Estimate;

/// Values beyond the percentile that are needed before it is printed.
const NEEDED_BEYOND: f64 = 10.0;

/// Whether n values carry the percentile `q`: n (1 − q) ≥ 10. For q below ½ the thinner side, n q, must.
pub fn is_printable(n: u64, q: f64) -> bool {
    let thinner = n as f64 * q.min(1.0 - q);
    thinner >= NEEDED_BEYOND * (1.0 - 1e-12)
}

/// Sorts measurements for the functions below; NaN, which has no rank, is dropped, infinities stay.
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The nearest-rank percentile of sorted values: the value of rank ⌈q n⌉ (1 for q = 0).
///
/// May be +∞ where failures are counted so. Absent without values or with q outside [0, 1].
pub fn percentile(sorted: &[f64], q: f64) -> Option<f64> {
    sorted.get(rank(sorted.len() as u64, q)? as usize - 1).copied()
}

/// Rank ⌈q n⌉ within 1..=n; a product that is whole but for rounding (0.07 × 100) counts as whole.
pub(super) fn rank(n: u64, q: f64) -> Option<u64> {
    if n == 0 || !(0.0..=1.0).contains(&q) {
        return None;
    }
    let exact = q * n as f64;
    Some(((exact - exact * 1e-12).ceil() as u64).clamp(1, n))
}

/// Percentile with the order-statistic interval: ranks l, u with P(Bin(n, q) < l) ≤ α ÷ 2 and P(Bin(n, q) ≥ u) ≤ α ÷ 2,
/// as close to each other as that allows. It covers at least `level` for any distribution of independent values.
///
/// An end that would need a rank outside 1..=n, or whose value is infinite, is absent.
pub fn percentile_estimate(sorted: &[f64], q: f64, level: f64) -> Estimate {
    let n = sorted.len() as u64;
    let point = percentile(sorted, q);
    let (low, high) = interval_ranks(n, q, level);
    let value = |rank: Option<u64>| rank.and_then(|r| sorted.get((r - 1) as usize)).copied();
    Estimate::new(point, value(low), value(high), level, n, "order-statistic")
}

/// Ranks, from 1, of the ends of the order-statistic interval; absent where the sample is too small for an end.
pub fn interval_ranks(n: u64, q: f64, level: f64) -> (Option<u64>, Option<u64>) {
    let tail = (1.0 - level) / 2.0;
    if n == 0 || !(q > 0.0 && q < 1.0) || !(tail > 0.0 && tail < 0.5) {
        return (None, None);
    }
    let cdf = |k: u64| binomial_tails(k, n, q).0;
    let sf = |k: u64| binomial_tails(k, n, q).1;
    // Greatest l with P(B ≤ l − 1) ≤ tail.
    let low = first_where(0, n, |k| cdf(k) > tail);
    // Smallest u with P(B ≥ u) = P(B > u − 1) ≤ tail.
    let high = first_where(0, n, |k| sf(k) <= tail) + 1;
    ((low >= 1).then_some(low), (high <= n).then_some(high))
}

/// The first k in low..=high for which a condition, once true, stays true; `high` if it never is.
fn first_where(mut low: u64, mut high: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one_to(n: u32) -> Vec<f64> {
        (1..=n).map(f64::from).collect()
    }

    #[test]
    fn nearest_rank() {
        let values = one_to(100);
        for (q, wanted) in [(0.0, 1.0), (0.07, 7.0), (0.5, 50.0), (0.95, 95.0), (0.951, 96.0), (1.0, 100.0)] {
            assert_eq!(percentile(&values, q), Some(wanted), "{q}");
        }
        assert_eq!(percentile(&[3.0], 0.99), Some(3.0));
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&values, 1.1), None);
        assert_eq!(percentile(&values, f64::NAN), None);
    }

    #[test]
    fn failures_reach_the_percentile_as_infinity() {
        let mut values = one_to(94);
        values.extend([f64::INFINITY; 6]);
        assert_eq!(percentile(&values, 0.94), Some(94.0));
        assert_eq!(percentile(&values, 0.95), Some(f64::INFINITY));
        assert_eq!(percentile_estimate(&values, 0.95, 0.9).point, None, "an estimate holds no infinity");
        assert!(percentile_estimate(&values, 0.95, 0.9).low.is_some());
    }

    #[test]
    fn median_interval_of_the_sign_test() {
        // The textbook case: n = 20 at 95 % takes ranks 6 and 15 (coverage 95.9 %).
        assert_eq!(interval_ranks(20, 0.5, 0.95), (Some(6), Some(15)));
        assert_eq!(interval_ranks(5, 0.5, 0.95), (None, None));
        assert_eq!(interval_ranks(6, 0.5, 0.95), (Some(1), Some(6)));
    }

    #[test]
    fn a_far_percentile_of_few_values_has_no_upper_end() {
        let estimate = percentile_estimate(&one_to(100), 0.99, 0.9);
        assert!(estimate.low.is_some() && estimate.high.is_none());
    }

    #[test]
    fn printable_with_ten_beyond() {
        assert!(is_printable(200, 0.95) && !is_printable(199, 0.95));
        assert!(is_printable(1000, 0.99) && !is_printable(999, 0.99));
        assert!(is_printable(20, 0.5) && !is_printable(0, 0.5));
        assert!(!is_printable(100, f64::NAN));
    }

    #[test]
    fn values_without_rank_are_dropped() {
        assert_eq!(sorted([2.0, f64::NAN, -1.0, f64::INFINITY]), vec![-1.0, 2.0, f64::INFINITY]);
    }

    proptest! {
        #[test]
        fn the_interval_covers_at_least_its_level(n in 1_u64..2000, q in 0.01_f64..0.99, level in 0.5_f64..0.99) {
            let (low, high) = interval_ranks(n, q, level);
            let below = low.map_or(0.0, |l| binomial_tails(l - 1, n, q).0);
            let above = high.map_or(0.0, |u| binomial_tails(u - 1, n, q).1);
            prop_assert!(below <= (1.0 - level) / 2.0 + 1e-12 && above <= (1.0 - level) / 2.0 + 1e-12);
            let rank = rank(n, q).unwrap();
            prop_assert!(low.is_none_or(|l| l <= rank) && high.is_none_or(|u| u >= rank));
            // The next rank inwards would cover too little.
            if let Some(l) = low { prop_assert!(binomial_tails(l, n, q).0 > (1.0 - level) / 2.0); }
        }
    }
}
