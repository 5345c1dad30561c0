//! One type for every figure that carries uncertainty.

use serde::{Deserialize, Serialize};

/// A point with its confidence interval.
///
/// An end that the data don't bound is absent; so is a point that doesn't exist (a mean of nothing, a cost per
/// success without a success). NaN and infinity are never stored: they become absent.
///
/// # Examples
/// ```
/// use counterpoise::analyze::estimate::Estimate;
/// let delta = Estimate::new(Some(-0.01), Some(-0.03), Some(0.01), 0.90, 400, "tango");
/// assert!(delta.excludes(-0.05));
/// assert!(!delta.excludes(0.0));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The figure itself, in the unit of what it estimates.
    pub point: Option<f64>,
    /// Lower end of the two-sided interval.
    pub low: Option<f64>,
    /// Upper end of the two-sided interval.
    pub high: Option<f64>,
    /// Two-sided confidence level of the interval, in (0, 1).
    pub level: f64,
    /// How many independent units the figure rests on (samples, requests or blocks, as the method says).
    pub n: u64,
    /// Short id of the method, such as `wilson` or `tango`.
    pub method: String,
}

impl Estimate {
    /// Builds an estimate; values that are not finite become absent, and ends are put in order.
    ///
    /// A level outside (0, 1) can't hold an interval: both ends become absent and the level is 0.
    pub fn new(point: Option<f64>, low: Option<f64>, high: Option<f64>, level: f64, n: u64, method: &str) -> Self {
        let (point, mut low, mut high) = (finite(point), finite(low), finite(high));
        if let (Some(l), Some(h)) = (low, high)
            && l > h
        {
            (low, high) = (Some(h), Some(l));
        }
        let level_holds = level > 0.0 && level < 1.0;
        if !level_holds {
            (low, high) = (None, None);
        }
        Self { point, low, high, level: if level_holds { level } else { 0.0 }, n, method: method.to_owned() }
    }

    /// A figure without an interval: too little data for one, or none is defined.
    pub fn point_only(point: Option<f64>, level: f64, n: u64, method: &str) -> Self {
        Self::new(point, None, None, level, n, method)
    }

    /// Nothing is known, and `method` says why.
    pub fn absent(level: f64, n: u64, method: &str) -> Self {
        Self::new(None, None, None, level, n, method)
    }

    /// The estimate in another unit; a negative factor swaps the ends.
    #[must_use]
    pub fn scale(&self, factor: f64) -> Self {
        self.map(|value| value * factor)
    }

    /// The estimate under a monotone function, rising or falling.
    #[must_use]
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        let (low, high) = (self.low.map(&f), self.high.map(&f));
        // With one end absent, its image must end up on the proper side: a falling function swaps the sides.
        let falls = match (self.low, self.point, self.high) {
            (Some(a), _, Some(b)) | (Some(a), Some(b), None) | (None, Some(a), Some(b)) if a < b => f(a) > f(b),
            _ => {
                let at = self.low.or(self.high).or(self.point).unwrap_or(0.0);
                f(at) > f(at + at.abs().max(1.0))
            }
        };
        let (low, high) = if falls { (high, low) } else { (low, high) };
        Self::new(self.point.map(&f), low, high, self.level, self.n, &self.method)
    }

    /// Whether the interval leaves `value` out. An absent end leaves nothing out.
    pub fn excludes(&self, value: f64) -> bool {
        self.low.is_some_and(|low| low > value) || self.high.is_some_and(|high| high < value)
    }

    /// Whether both ends are there.
    pub fn is_bounded(&self) -> bool {
        self.low.is_some() && self.high.is_some()
    }

    /// Width of the interval, where both ends are there.
    pub fn width(&self) -> Option<f64> {
        Some(self.high? - self.low?)
    }

    /// Whether no stored number is NaN or infinite and the ends are in order: true of every value built here, and to
    /// be asked of one that was read from a file.
    pub fn is_sound(&self) -> bool {
        let numbers = [self.point, self.low, self.high];
        let ordered = !matches!((self.low, self.high), (Some(l), Some(h)) if l > h);
        numbers.iter().flatten().all(|value| value.is_finite()) && self.level.is_finite() && ordered
    }
}

/// The two-sided level that is shown for a one-sided `confidence`: 0.95 → 0.90. Its lower end is the one-sided lower
/// bound at that confidence, its upper end the one-sided upper bound. Absent unless 0.5 < confidence < 1.
pub fn two_sided_level(confidence: f64) -> Option<f64> {
    (confidence > 0.5 && confidence < 1.0).then_some(1.0 - 2.0 * (1.0 - confidence))
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|v| v.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_a_number_and_infinity_become_absent() {
        let estimate = Estimate::new(Some(f64::NAN), Some(f64::NEG_INFINITY), Some(1.0), 0.9, 3, "t");
        assert_eq!((estimate.point, estimate.low, estimate.high), (None, None, Some(1.0)));
        assert!(estimate.is_sound());
        let json = serde_json::to_string(&estimate).unwrap();
        assert_eq!(json, r#"{"point":null,"low":null,"high":1.0,"level":0.9,"n":3,"method":"t"}"#);
        assert_eq!(serde_json::from_str::<Estimate>(&json).unwrap(), estimate);
    }

    #[test]
    fn a_level_that_is_none_holds_no_interval() {
        for level in [0.0, 1.0, -0.5, f64::NAN, f64::INFINITY] {
            let estimate = Estimate::new(Some(0.5), Some(0.4), Some(0.6), level, 3, "t");
            assert_eq!((estimate.low, estimate.high, estimate.level), (None, None, 0.0));
        }
    }

    #[test]
    fn a_negative_scale_swaps_the_ends() {
        let estimate = Estimate::new(Some(1.0), Some(0.5), Some(2.0), 0.9, 3, "t").scale(-2.0);
        assert_eq!((estimate.point, estimate.low, estimate.high), (Some(-2.0), Some(-4.0), Some(-1.0)));
    }

    #[test]
    fn a_falling_map_moves_a_lone_end_to_the_other_side() {
        let lower_bound_only = Estimate::new(None, Some(4.0), None, 0.9, 3, "t");
        let inverse = lower_bound_only.map(|v| 1.0 / v);
        assert_eq!((inverse.low, inverse.high), (None, Some(0.25)));
        let half_open = Estimate::new(Some(8.0), Some(4.0), None, 0.9, 3, "t").map(|v| 1.0 / v);
        assert_eq!((half_open.point, half_open.low, half_open.high), (Some(0.125), None, Some(0.25)));
        let negated = Estimate::new(None, Some(-4.0), None, 0.9, 3, "t").scale(-1.0);
        assert_eq!((negated.low, negated.high), (None, Some(4.0)));
    }

    #[test]
    fn excludes_needs_the_end_on_that_side() {
        let estimate = Estimate::new(Some(0.0), None, Some(0.1), 0.9, 3, "t");
        assert!(estimate.excludes(0.2));
        assert!(!estimate.excludes(-5.0));
        assert!(!Estimate::absent(0.9, 0, "t").excludes(0.0));
    }

    #[test]
    fn a_one_sided_confidence_is_shown_two_sided() {
        assert!((two_sided_level(0.95).unwrap() - 0.90).abs() < 1e-15);
        assert_eq!(two_sided_level(0.5), None);
        assert_eq!(two_sided_level(1.0), None);
        assert_eq!(two_sided_level(f64::NAN), None);
    }
}
