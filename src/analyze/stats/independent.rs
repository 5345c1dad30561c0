//! The ratio of two independent means.

use super::graded::mean_error;
use super::special::two_sided_t;
use crate::analyze::estimate::Estimate;

const METHOD: &str = "welch-t";

/// Mean of `above` ÷ mean of `below`, two independent sets of positive measurements such as the rates of equal parts of
/// two windows.
///
/// The interval is Student's, with the variance of the ratio to first order and Welch's degrees of freedom (Welch,
/// Biometrika 34 (1947)). Its ends are absent with fewer than two values on a side, the point where the lower mean is not
/// positive. `n` is the smaller number of values.
pub fn ratio_of_means(above: &[f64], below: &[f64], level: f64) -> Estimate {
    let n = above.len().min(below.len()) as u64;
    let (Some(above), Some(below)) = (mean_error(above), mean_error(below)) else {
        return Estimate::absent(level, n, METHOD);
    };
    if below.mean <= 0.0 {
        return Estimate::absent(level, n, METHOD);
    }
    let ratio = above.mean / below.mean;
    let (Some(error_above), Some(error_below)) = (above.standard_error, below.standard_error) else {
        return Estimate::point_only(Some(ratio), level, n, METHOD);
    };
    let parts = [
        ((error_above / below.mean).powi(2), above.degrees_of_freedom),
        ((ratio * error_below / below.mean).powi(2), below.degrees_of_freedom),
    ];
    let variance: f64 = parts.iter().map(|(variance, _)| variance).sum();
    let weight: f64 = parts.iter().map(|(variance, freedom)| variance * variance / *freedom as f64).sum();
    let half = if weight > 0.0 {
        two_sided_t(level, variance * variance / weight).map(|t| t * variance.sqrt())
    } else {
        Some(0.0)
    };
    Estimate::new(Some(ratio), half.map(|h| ratio - h), half.map(|h| ratio + h), level, n, METHOD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::stats::random::{below, seeded};

    #[test]
    fn the_textbook_interval_of_a_difference_is_met_where_the_lower_mean_is_certain() {
        // With a certain lower mean of 1 the ratio is a mean: 4 values, s = 1, t(3) = 2.353.
        let estimate = ratio_of_means(&[9.0, 10.0, 10.0, 11.0], &[1.0; 4], 0.90);
        let half = 2.353_363 * (2.0_f64 / 3.0).sqrt() / 2.0;
        assert!((estimate.point.unwrap() - 10.0).abs() < 1e-12);
        assert!((estimate.high.unwrap() - 10.0 - half).abs() < 1e-4, "{estimate:?}");
    }

    #[test]
    fn what_has_no_ratio_has_no_point() {
        assert_eq!(ratio_of_means(&[], &[1.0], 0.9).point, None);
        assert_eq!(ratio_of_means(&[1.0, 2.0], &[0.0, 0.0], 0.9).point, None);
        let single = ratio_of_means(&[2.0], &[1.0], 0.9);
        assert_eq!((single.point, single.low), (Some(2.0), None));
        let exact = ratio_of_means(&[3.0; 5], &[2.0; 5], 0.9);
        assert_eq!((exact.low, exact.high), (Some(1.5), Some(1.5)));
    }

    #[test]
    fn the_interval_covers_the_true_ratio_as_often_as_it_says() {
        let mut rng = seeded(11, 3);
        let mut uniform = |mean: f64| mean * (0.8 + 0.4 * below(&mut rng, 10_001) as f64 / 1e4);
        let covered = (0..4_000).filter(|_| {
            let above: Vec<f64> = (0..10).map(|_| uniform(150.0)).collect();
            let lower: Vec<f64> = (0..10).map(|_| uniform(100.0)).collect();
            let estimate = ratio_of_means(&above, &lower, 0.90);
            estimate.low.unwrap() <= 1.5 && 1.5 <= estimate.high.unwrap()
        });
        let share = covered.count() as f64 / 4_000.0;
        assert!((0.88..0.93).contains(&share), "{share}");
    }
}
