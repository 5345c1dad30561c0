//! Tango's score statistic and interval for a paired difference of shares.
//!
//! T. Tango, "Equivalence test and confidence interval for the difference in proportions for the paired-sample
//! design", Statistics in Medicine 17 (1998) 891–908. Unlike Wald's, the interval has a width where no answer flipped
//! (± z² ÷ (n + z²)), and it never leaves [−1, 1].

use super::paired::PairedCounts;
use super::special::{bisect, normal_sf, two_sided_z};
use crate::analyze::estimate::Estimate;

/// The score statistic for H: Δ = `delta`; positive where the data lie above it. Standard normal for large n if H holds.
///
/// Infinite where `delta` is impossible in the light of the data (±1), 0 where data and hypothesis are both without
/// any flip; absent without pairs or with `delta` outside [−1, 1].
pub fn tango_statistic(counts: &PairedCounts, delta: f64) -> Option<f64> {
    let valid = counts.n() > 0 && (-1.0..=1.0).contains(&delta);
    valid.then(|| statistic(counts.lost as f64, counts.gained as f64, counts.n() as f64, delta))
}

/// The score statistic on plain floats: `lost` and `gained` of `n` > 0 pairs, |delta| ≤ 1.
pub(super) fn statistic(lost: f64, gained: f64, n: f64, delta: f64) -> f64 {
    let above = gained - lost - n * delta;
    let deviation = deviation(lost, gained, n, delta);
    if deviation > 0.0 {
        above / deviation
    } else if above == 0.0 {
        0.0
    } else {
        above.signum() * f64::INFINITY
    }
}

/// √(n (2q + Δ(1 − Δ))): the standard deviation of gained − lost if Δ = `delta`, with q, the share of the losing kind
/// of flip, at its maximum likelihood under that constraint.
///
/// q solves 2n q² + B q − lost · Δ (1 − Δ) = 0 with B = Δ (2n + lost − gained) − (lost + gained). For Δ < 0 the arms
/// are exchanged, so that the product term is never negative, and the root is taken in the form that doesn't cancel.
pub(super) fn deviation(lost: f64, gained: f64, n: f64, delta: f64) -> f64 {
    if delta < 0.0 {
        return deviation(gained, lost, n, -delta);
    }
    let rest = delta * (1.0 - delta);
    let linear = delta * (2.0 * n + lost - gained) - (lost + gained);
    let product = lost * rest;
    let root = (linear * linear + 8.0 * n * product).sqrt();
    let share = if linear > 0.0 { 2.0 * product / (linear + root) } else { (root - linear) / (4.0 * n) };
    let share = share.clamp(0.0, (1.0 - delta) / 2.0);
    (n * (2.0 * share + rest)).max(0.0).sqrt()
}

/// Tango's score interval for Δ = candidate − baseline at a two-sided `level`.
///
/// The ends are where the score statistic equals ±z; each is found by halving between Δ and ±1. Absent without pairs.
pub fn tango(counts: &PairedCounts, level: f64) -> Estimate {
    let n = counts.n();
    let Some((point, z)) = counts.delta().zip(two_sided_z(level)) else {
        return Estimate::point_only(counts.delta(), level, n, "tango");
    };
    let low = lower_end(counts, point, z);
    let high = -lower_end(&counts.swapped(), -point, z);
    Estimate::new(Some(point), Some(low), Some(high), level, n, "tango")
}

fn lower_end(counts: &PairedCounts, point: f64, z: f64) -> f64 {
    let (lost, gained, n) = (counts.lost as f64, counts.gained as f64, counts.n() as f64);
    if counts.lost == counts.n() {
        return -1.0;
    }
    // Written without a division: the statistic has none where nothing flips.
    let end = bisect(-1.0, point, |delta| gained - lost - n * delta > z * deviation(lost, gained, n, delta));
    end.clamp(-1.0, point)
}

/// Half the width of Tango's interval where no answer flips, z² ÷ (n + z²): the least uncertainty of any Δ of shares.
/// `n` may be an effective number and needn't be whole. Absent unless n > 0 and 0 < level < 1.
pub fn zero_discordance_half_width(n: f64, level: f64) -> Option<f64> {
    let z = two_sided_z(level)?;
    (n > 0.0 && n.is_finite()).then(|| z * z / (n + z * z))
}

/// Large-sample one-sided p-values around a hypothetical Δ: (for "above it", for "below it"). Absent without pairs.
pub fn tango_p_values(counts: &PairedCounts, delta: f64) -> Option<(f64, f64)> {
    let statistic = tango_statistic(counts, delta)?;
    Some((normal_sf(statistic), normal_sf(-statistic)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(both_right: u64, gained: u64, lost: u64, both_wrong: u64) -> PairedCounts {
        PairedCounts { both_right, gained, lost, both_wrong }
    }

    #[test]
    fn no_flip_still_has_a_width() {
        let interval = tango(&counts(25, 0, 0, 5), 0.95);
        let half = 1.959_963_984_540_054_f64.powi(2) / (30.0 + 1.959_963_984_540_054_f64.powi(2));
        assert!((interval.low.unwrap() + half).abs() < 1e-12);
        assert!((interval.high.unwrap() - half).abs() < 1e-12);
        assert!((zero_discordance_half_width(30.0, 0.95).unwrap() - half).abs() < 1e-14);
    }

    #[test]
    fn the_statistic_at_no_change_is_mcnemars() {
        let statistic = tango_statistic(&counts(40, 9, 4, 7), 0.0).unwrap();
        assert!((statistic - 5.0 / 13.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn published_interval() {
        // Airway hyper-responsiveness (Bentur et al. 2009): 1, 1, 7, 12 of 21; the textbook by Fagerland, Lydersen and
        // Laake prints −0.517 to −0.026.
        let interval = tango(&counts(1, 1, 7, 12), 0.95);
        assert!((interval.low.unwrap() + 0.517).abs() < 5e-4);
        assert!((interval.high.unwrap() + 0.026).abs() < 5e-4);
    }

    #[test]
    fn every_pair_lost_or_gained() {
        let lost = tango(&counts(0, 0, 8, 0), 0.9);
        assert_eq!((lost.point, lost.low), (Some(-1.0), Some(-1.0)));
        assert!(lost.high.unwrap() > -1.0 && lost.high.unwrap() < 0.0);
        let gained = tango(&counts(0, 8, 0, 0), 0.9);
        assert_eq!(gained.high, Some(1.0));
        assert_eq!(tango(&PairedCounts::default(), 0.9).point, None);
    }

    prop_compose! {
        fn any_counts()(a in 0_u64..600, b in 0_u64..60, c in 0_u64..60, d in 0_u64..600) -> PairedCounts {
            counts(a, b, c, d + u64::from(a + b + c == 0))
        }
    }

    proptest! {
        #[test]
        fn the_interval_holds_its_point_and_turns_with_the_arms(pairs in any_counts(), level in 0.5_f64..0.98) {
            let interval = tango(&pairs, level);
            let (point, low, high) = (interval.point.unwrap(), interval.low.unwrap(), interval.high.unwrap());
            prop_assert!(-1.0 <= low && low <= point && point <= high && high <= 1.0);
            prop_assert!(low < high);
            let turned = tango(&pairs.swapped(), level);
            prop_assert_eq!(turned.low, Some(-high));
            prop_assert_eq!(turned.high, Some(-low));
            let wider = tango(&pairs, level + 0.01);
            prop_assert!(wider.low.unwrap() <= low && high <= wider.high.unwrap());
        }

        #[test]
        fn the_ends_are_where_the_statistic_meets_z(pairs in any_counts(), level in 0.5_f64..0.98) {
            let z = two_sided_z(level).unwrap();
            let interval = tango(&pairs, level);
            if interval.low.unwrap() > -1.0 {
                prop_assert!((tango_statistic(&pairs, interval.low.unwrap()).unwrap() - z).abs() < 1e-6);
            }
            if interval.high.unwrap() < 1.0 {
                prop_assert!((tango_statistic(&pairs, interval.high.unwrap()).unwrap() + z).abs() < 1e-6);
            }
        }

        #[test]
        fn the_statistic_falls_with_the_hypothesis(pairs in any_counts(), first in -0.99_f64..0.99, second in -0.99_f64..0.99) {
            let at = |delta| tango_statistic(&pairs, delta).unwrap();
            prop_assert!(at(first.min(second)) >= at(first.max(second)) - 1e-9);
        }
    }
}
