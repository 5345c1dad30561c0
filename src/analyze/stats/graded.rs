//! Means of scores and of paired score differences, with and without clusters.
//!
//! The unit is the sample: repeats are averaged before they come here. Samples that share a passage, a document or a
//! conversation are one cluster; the error of a mean then rests on the clusters, with G − 1 degrees of freedom
//! (Miller, "Adding error bars to evals", arXiv 2411.00640; Cameron & Miller, Journal of Human Resources 50 (2015)).

use super::special::{normal_sf, t_sf, two_sided_t};
use super::tango::zero_discordance_half_width;
use crate::analyze::estimate::Estimate;
use std::collections::BTreeMap;

/// A mean with its standard error, and what clustering did to it.
#[derive(Debug, Clone, PartialEq)]
pub struct MeanError {
    /// The mean of all values.
    pub mean: f64,
    /// Its standard error; absent with fewer than two independent units.
    pub standard_error: Option<f64>,
    /// Degrees of freedom: values − 1, or clusters − 1.
    pub degrees_of_freedom: u64,
    /// Number of values.
    pub n: u64,
    /// Variance of the mean ÷ what it would be without clusters; 1 without clusters, absent where it can't be told.
    pub design_effect: Option<f64>,
    /// Number of independent values that would be as informative: n ÷ design effect, at most n.
    pub effective_n: f64,
}

/// Mean and standard error of independent values. Absent without values or with one that isn't finite.
pub fn mean_error(values: &[f64]) -> Option<MeanError> {
    let (mean, variance) = mean_and_variance(values)?;
    let n = values.len() as f64;
    Some(MeanError {
        mean,
        standard_error: variance.map(|v| (v / n).sqrt()),
        degrees_of_freedom: values.len() as u64 - 1,
        n: values.len() as u64,
        design_effect: Some(1.0),
        effective_n: n,
    })
}

/// Mean and cluster-robust standard error of (cluster, value) pairs.
///
/// Var = G ÷ (G − 1) · Σ over clusters of (Σ (value − mean))² ÷ n². Where no value differs from another the design
/// effect can't be told; the effective n is then the number of clusters, its least. Absent without values or with one
/// that isn't finite.
pub fn clustered_mean_error<K: Ord>(values: &[(K, f64)]) -> Option<MeanError> {
    let plain: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    let (mean, variance) = mean_and_variance(&plain)?;
    let mut deviations: BTreeMap<&K, f64> = BTreeMap::new();
    for (cluster, value) in values {
        *deviations.entry(cluster).or_default() += value - mean;
    }
    let (n, clusters) = (plain.len() as f64, deviations.len() as f64);
    let squares: f64 = deviations.values().map(|d| d * d).sum();
    let robust = (clusters > 1.0).then(|| clusters / (clusters - 1.0) * squares / (n * n));
    let design_effect = match (robust, variance) {
        (Some(robust), Some(v)) if v > 0.0 => Some(robust / (v / n)),
        _ => None,
    };
    let effective_n = design_effect.map_or(clusters, |effect| n / effect.max(1.0));
    Some(MeanError {
        mean,
        standard_error: robust.map(f64::sqrt),
        degrees_of_freedom: deviations.len() as u64 - 1,
        n: plain.len() as u64,
        design_effect,
        effective_n,
    })
}

impl MeanError {
    /// Student's t interval at a two-sided `level`; the ends are absent with fewer than two units.
    ///
    /// For values that all are equal the interval has no width: use it for measurements, not for scores.
    pub fn interval(&self, level: f64) -> Estimate {
        let half = self.half_width(level);
        let method = self.method();
        Estimate::new(Some(self.mean), half.map(|h| self.mean - h), half.map(|h| self.mean + h), level, self.n, method)
    }

    /// The t interval of scores or score differences, within [`least`, `most`] and never narrower on either side than
    /// Tango's interval without a flip: `z² ÷ (n_eff + z²)` × `unit`, the distance between the worst and the best score.
    ///
    /// With scores in [0, 1]: a mean has `unit` 1 within (0, 1), a difference `unit` 1 within (−1, 1).
    pub fn score_interval(&self, level: f64, unit: f64, (least, most): (f64, f64)) -> Estimate {
        let floor = zero_discordance_half_width(self.effective_n, level).map(|h| h * unit.abs());
        let half = self.half_width(level).zip(floor).map(|(t, floor)| t.max(floor));
        let (low, high) = (half.map(|h| (self.mean - h).max(least)), half.map(|h| (self.mean + h).min(most)));
        Estimate::new(Some(self.mean), low, high, level, self.n, self.method())
    }

    /// One-sided p-values for scores: (for H: the mean ≤ `null`, for H: the mean ≥ `null`), small where the mean lies
    /// above and below it. They fall below α exactly where [`MeanError::score_interval`] at level 1 − 2α leaves `null`
    /// out: the larger of Student's p and the p at which an interval without a flip would reach `null`.
    ///
    /// Absent with fewer than two units.
    pub fn score_p_values(&self, null: f64, unit: f64) -> Option<(f64, f64)> {
        let error = self.standard_error?;
        let distance = self.mean - null;
        let share = (distance / unit).abs();
        if self.degrees_of_freedom == 0 || share.is_nan() {
            return None;
        }
        let steps = match (error > 0.0, distance == 0.0) {
            (true, _) => distance / error,
            (false, true) => 0.0,
            (false, false) => distance.signum() * f64::INFINITY,
        };
        let by_t = t_sf(steps.abs(), self.degrees_of_freedom as f64)?;
        let least = if share < 1.0 { normal_sf((self.effective_n * share / (1.0 - share)).sqrt()) } else { 0.0 };
        let near = by_t.max(least);
        Some(if distance >= 0.0 { (near, 1.0 - by_t) } else { (1.0 - by_t, near) })
    }

    fn half_width(&self, level: f64) -> Option<f64> {
        Some(self.standard_error? * two_sided_t(level, self.degrees_of_freedom as f64)?)
    }

    fn method(&self) -> &'static str {
        if self.degrees_of_freedom + 1 == self.n { "t" } else { "cluster-t" }
    }
}

/// Mean of paired differences of scores (candidate − baseline), scores lying `unit` apart at most.
///
/// Absent point without differences; absent ends with fewer than two.
pub fn paired_mean(differences: &[f64], level: f64, unit: f64) -> Estimate {
    estimate(mean_error(differences), level, unit)
}

/// [`paired_mean`] where differences of one cluster hang together; needs two clusters for an interval.
pub fn clustered_paired_mean<K: Ord>(differences: &[(K, f64)], level: f64, unit: f64) -> Estimate {
    estimate(clustered_mean_error(differences), level, unit)
}

fn estimate(error: Option<MeanError>, level: f64, unit: f64) -> Estimate {
    error.map_or_else(
        || Estimate::absent(level, 0, "t"),
        |error| error.score_interval(level, unit, (-unit.abs(), unit.abs())),
    )
}

/// Mean and sample variance (÷ n − 1; absent for one value). Absent without values or with one that isn't finite.
fn mean_and_variance(values: &[f64]) -> Option<(f64, Option<f64>)> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let n = values.len() as f64;
    let rough = values.iter().sum::<f64>() / n;
    // A second pass takes out the rounding of the first; equal values then have a variance of exactly 0.
    let mean = rough + values.iter().map(|value| value - rough).sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, (values.len() > 1).then(|| squares / (n - 1.0))))
}

/// Variance between samples and within samples (between repeats of one sample).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VarianceParts {
    /// Variance of the true per-sample means, freed from repeat noise; ≥ 0.
    pub between: f64,
    /// Mean variance of a repeat around its sample's mean.
    pub within: f64,
}

/// Splits the variance of repeated scores, one inner slice per sample (one-way random effects, ANOVA estimate; the
/// repeat count is n₀ for unequal groups). Absent with fewer than two samples or without any repeated sample.
pub fn variance_parts(samples: &[Vec<f64>]) -> Option<VarianceParts> {
    let groups: Vec<&Vec<f64>> = samples.iter().filter(|group| !group.is_empty()).collect();
    let total: f64 = groups.iter().map(|group| group.len() as f64).sum();
    let count = groups.len() as f64;
    if groups.len() < 2 || total <= count || groups.iter().any(|group| group.iter().any(|v| !v.is_finite())) {
        return None;
    }
    let grand = groups.iter().map(|group| group.iter().sum::<f64>()).sum::<f64>() / total;
    let (mut inner, mut outer, mut squared_sizes) = (0.0, 0.0, 0.0);
    for group in &groups {
        let size = group.len() as f64;
        let mean = group.iter().sum::<f64>() / size;
        inner += group.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        outer += size * (mean - grand).powi(2);
        squared_sizes += size * size;
    }
    let within = inner / (total - count);
    let typical_size = (total - squared_sizes / total) / (count - 1.0);
    let between = ((outer / (count - 1.0) - within) / typical_size).max(0.0);
    Some(VarianceParts { between, within })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_differences_still_have_a_width() {
        let estimate = paired_mean(&[0.0; 30], 0.95, 1.0);
        let half = zero_discordance_half_width(30.0, 0.95).unwrap();
        assert_eq!((estimate.point, estimate.low, estimate.high), (Some(0.0), Some(-half), Some(half)));
        let judged_to_ten = paired_mean(&[0.0; 30], 0.95, 10.0);
        assert!((judged_to_ten.high.unwrap() - 10.0 * half).abs() < 1e-12);
    }

    #[test]
    fn too_few_values_have_no_interval() {
        assert_eq!(paired_mean(&[], 0.9, 1.0).point, None);
        let single = paired_mean(&[0.25], 0.9, 1.0);
        assert_eq!((single.point, single.low, single.high), (Some(0.25), None, None));
        assert_eq!(paired_mean(&[0.1, f64::NAN], 0.9, 1.0).point, None);
        let one_cluster = clustered_paired_mean(&[("a", 0.1), ("a", 0.3)], 0.9, 1.0);
        assert!(one_cluster.point.is_some() && one_cluster.low.is_none());
    }

    #[test]
    fn paraphrases_in_clusters_widen_the_interval() {
        let flat: Vec<(usize, f64)> = (0..100).map(|i| (i, if (i / 10) % 3 == 0 { 1.0 } else { 0.0 })).collect();
        let nested: Vec<(usize, f64)> = flat.iter().map(|&(i, d)| (i / 10, d)).collect();
        let (alone, together) = (clustered_mean_error(&flat).unwrap(), clustered_mean_error(&nested).unwrap());
        assert!((alone.design_effect.unwrap() - 1.0).abs() < 1e-12);
        assert!((together.design_effect.unwrap() - 11.0).abs() < 0.01, "{together:?}");
        assert_eq!(together.degrees_of_freedom, 9);
        assert!(together.interval(0.9).width() > alone.interval(0.9).width().map(|w| 3.0 * w));
    }

    #[test]
    fn clusters_without_a_difference_count_once() {
        let values: Vec<(u8, f64)> = (0..40).map(|i| (i / 10, 0.0)).collect();
        let error = clustered_mean_error(&values).unwrap();
        assert_eq!((error.design_effect, error.effective_n), (None, 4.0));
    }

    #[test]
    fn repeat_noise_is_told_from_sample_spread() {
        let noisy = vec![vec![0.0, 1.0, 0.0, 1.0], vec![1.0, 0.0, 1.0, 0.0]];
        let parts = variance_parts(&noisy).unwrap();
        assert!(parts.between.abs() < 1e-12);
        assert!((parts.within - 1.0 / 3.0).abs() < 1e-12);
        let steady = vec![vec![0.0, 0.0], vec![1.0, 1.0], vec![0.0, 0.0], vec![1.0, 1.0]];
        let parts = variance_parts(&steady).unwrap();
        assert!(parts.within.abs() < 1e-12 && (parts.between - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(variance_parts(&[vec![1.0], vec![0.0]]), None);
    }

    proptest! {
        #[test]
        fn mean_intervals_hold_their_point(values in prop::collection::vec(-1.0_f64..=1.0, 2..80), level in 0.5_f64..0.98) {
            let narrow = paired_mean(&values, level, 1.0);
            let (point, low, high) = (narrow.point.unwrap(), narrow.low.unwrap(), narrow.high.unwrap());
            prop_assert!(-1.0 <= low && low <= point && point <= high && high <= 1.0);
            let wide = paired_mean(&values, level + 0.01, 1.0);
            prop_assert!(wide.low.unwrap() <= low && high <= wide.high.unwrap());
            // The p-values say what the interval says, at the same level.
            let (null, alpha) = (-0.1, (1.0 - level) / 2.0);
            let (above, below) = mean_error(&values).unwrap().score_p_values(null, 1.0).unwrap();
            prop_assert!((low - null).abs() < 1e-9 || (above < alpha) == (low > null), "{above} {low}");
            prop_assert!((high - null).abs() < 1e-9 || (below < alpha) == (high < null), "{below} {high}");
            let negated: Vec<f64> = values.iter().map(|v| -v).collect();
            let turned = paired_mean(&negated, level, 1.0);
            prop_assert!((turned.low.unwrap() + high).abs() < 1e-12 && (turned.high.unwrap() + low).abs() < 1e-12);
        }
    }
}
