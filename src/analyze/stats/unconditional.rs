//! The exact unconditional test on Tango's statistic: what a gate decides by while n is small.
//!
//! **Hypothesis.** H: Δ ≤ δ against Δ > δ. The pairs are multinomial; beside Δ they have one free share, the nuisance.
//! Tables are ordered by Tango's statistic at δ, and the p-value is the greatest probability, over the nuisance, of a
//! table at least as extreme as the one seen. The test keeps its level at every n and every share of flips.
//!
//! **Why the edge suffices.** Tango's statistic rises with gains and falls with losses, so the set of extreme tables is
//! closed under more gains and fewer losses, and its probability over H is greatest at Δ = δ (Hsueh, Liu & Chen,
//! "Unconditional exact tests for equivalence or noninferiority for paired binary endpoints", Biometrics 57 (2001)
//! 478–483).
//!
//! **Algorithm.** For each number of losses b the extreme tables are those with at least `first(b)` gains, and `first`
//! never falls as b grows, so one walk along the staircase finds it in O(n). For a given nuisance,
//! P = Σ P(lost = b) · P(gained ≥ first(b) | lost = b), both binomial. The sum runs over the losses that carry all but
//! some 10⁻¹⁵ of the mass, from many to few: then the tail of one row follows from the last by adding single
//! probabilities, never by subtracting. The nuisance is searched on a grid of a quarter of a standard deviation
//! (the probability is smooth on that scale), then by golden section around the highest peaks. n = 2000 takes some
//! hundredths of a second.

use super::paired::PairedCounts;
use super::special::{binomial_tails, ln_factorial, times_ln};
use super::tango::{statistic, tango_p_values};

/// Largest number of pairs that a gate decides exactly; above it the large-sample test agrees to well under the
/// resolution of a decision.
pub const EXACT_UP_TO: u64 = 2000;

/// Statistics this close are ties: they differ by rounding only.
const TIE: f64 = 1e-10;

/// How a non-inferiority comparison came out, as two one-sided p-values.
#[derive(Debug, Clone, PartialEq)]
pub struct NonInferiority {
    /// p for H: Δ ≤ −margin. Small: the loss is certainly within the margin.
    pub p_within: f64,
    /// p for H: Δ ≥ −margin. Small: the loss is certainly beyond the margin.
    pub p_beyond: f64,
    /// `unconditional-exact` or `tango`.
    pub method: &'static str,
}

/// Both p-values of a non-inferiority gate: exact up to [`EXACT_UP_TO`] pairs, by Tango's statistic above.
///
/// Absent without pairs or with a margin outside [0, 1).
pub fn non_inferiority(counts: &PairedCounts, margin: f64) -> Option<NonInferiority> {
    if !(0.0..1.0).contains(&margin) {
        return None;
    }
    if counts.n() <= EXACT_UP_TO {
        let p_within = exact_p_above(counts, -margin)?;
        let p_beyond = exact_p_below(counts, -margin)?;
        return Some(NonInferiority { p_within, p_beyond, method: "unconditional-exact" });
    }
    let (p_within, p_beyond) = tango_p_values(counts, -margin)?;
    Some(NonInferiority { p_within, p_beyond, method: "tango" })
}

/// Exact unconditional p for H: Δ ≤ `delta` against Δ > `delta`. Absent without pairs, with |delta| ≥ 1, or beyond
/// [`EXACT_UP_TO`] pairs.
pub fn exact_p_above(counts: &PairedCounts, delta: f64) -> Option<f64> {
    let n = counts.n();
    if n == 0 || n > EXACT_UP_TO || !(delta > -1.0 && delta < 1.0) {
        return None;
    }
    let region = Region::at_least_as_extreme(counts, delta);
    Some(region.greatest_probability(delta).clamp(0.0, 1.0))
}

/// Exact unconditional p for H: Δ ≥ `delta` against Δ < `delta`. Absent as [`exact_p_above`].
pub fn exact_p_below(counts: &PairedCounts, delta: f64) -> Option<f64> {
    exact_p_above(&counts.swapped(), -delta)
}

/// The tables at least as extreme as one, as a staircase.
pub(super) struct Region {
    n: u64,
    /// `first[b]` gains or more are extreme beside b losses; ends where no number of gains is.
    first: Vec<u64>,
    ln_factorials: Vec<f64>,
}

impl Region {
    fn at_least_as_extreme(counts: &PairedCounts, delta: f64) -> Self {
        let n = counts.n();
        let seen = statistic(counts.lost as f64, counts.gained as f64, n as f64, delta);
        Self::from_rule(n, |lost, gained| {
            (lost == counts.lost && gained == counts.gained) || {
                let other = statistic(lost as f64, gained as f64, n as f64, delta);
                other >= seen || (other - seen).abs() <= TIE * seen.abs().max(1.0)
            }
        })
    }

    /// All tables of `n` pairs whose statistic at `delta` is at least `threshold`.
    pub(super) fn above_threshold(n: u64, delta: f64, threshold: f64) -> Self {
        Self::from_rule(n, |lost, gained| statistic(lost as f64, gained as f64, n as f64, delta) >= threshold)
    }

    /// Walks the staircase: a table that is extreme stays so with more gains or fewer losses.
    fn from_rule(n: u64, is_extreme: impl Fn(u64, u64) -> bool) -> Self {
        let mut first = Vec::new();
        let mut gained = 0;
        for lost in 0..=n {
            while gained <= n - lost && !is_extreme(lost, gained) {
                gained += 1;
            }
            if gained > n - lost {
                break;
            }
            first.push(gained);
        }
        Self { n, first, ln_factorials: (0..=n).map(ln_factorial).collect() }
    }

    /// Maximum of the region's probability over the nuisance share at Δ = `delta`.
    pub(super) fn greatest_probability(&self, delta: f64) -> f64 {
        let rest = 1.0 - delta.abs();
        // The angle spreads the smaller share of flips so that a step is the same part of a standard deviation everywhere.
        let at = |angle: f64| {
            let smaller = rest / 2.0 * angle.sin().powi(2);
            let (lost, gained) = if delta < 0.0 { (smaller - delta, smaller) } else { (smaller, smaller + delta) };
            self.probability(lost, gained)
        };
        let quarter_turn = std::f64::consts::FRAC_PI_2;
        let steps = (quarter_turn * (2.0 * self.n as f64).sqrt() / 0.25).ceil().max(40.0);
        let grid: Vec<f64> = (0..=steps as u64).map(|i| at(quarter_turn * i as f64 / steps)).collect();
        let value = |i: usize| grid.get(i).copied().unwrap_or(0.0);
        let mut peaks: Vec<usize> =
            (0..grid.len()).filter(|&i| (i == 0 || value(i) >= value(i - 1)) && value(i) >= value(i + 1)).collect();
        peaks.sort_by(|&i, &j| value(j).total_cmp(&value(i)));
        let step = quarter_turn / steps;
        let refine = |&i: &usize| {
            let center = i as f64 * step;
            golden_maximum((center - step).max(0.0), (center + step).min(quarter_turn), at)
        };
        let on_grid = grid.iter().copied().fold(0.0, f64::max);
        peaks.iter().take(4).map(refine).fold(on_grid, f64::max)
    }

    /// Probability of the region if a share `p_lost` of pairs is lost and `p_gained` gained.
    pub(super) fn probability(&self, p_lost: f64, p_gained: f64) -> f64 {
        let Some(most) = (self.first.len() as u64).checked_sub(1) else {
            return 0.0;
        };
        let (from, to) = self.window(p_lost, most);
        let kept = 1.0 - p_lost;
        let p = if kept > 0.0 { (p_gained / kept).clamp(0.0, 1.0) } else { 0.0 };
        let (mut row, mut gains) = (self.n - to, self.first_at(to));
        let mut tail = if gains == 0 { 1.0 } else { binomial_tails(gains - 1, row, p).1 };
        let mut sum = self.pmf(to, self.n, p_lost) * tail;
        for lost in (from..to).rev() {
            // One pair more in the row: it adds the rows that stood one gain short.
            if gains > 0 {
                tail += p * self.pmf(gains - 1, row, p);
            }
            row += 1;
            let wanted = self.first_at(lost);
            while gains > wanted {
                gains -= 1;
                tail += self.pmf(gains, row, p);
            }
            sum += self.pmf(lost, self.n, p_lost) * tail.min(1.0);
        }
        sum
    }

    /// The losses, up to `most`, that hold all but a negligible part of Bin(n, `p`).
    fn window(&self, p: f64, most: u64) -> (u64, u64) {
        let mean = self.n as f64 * p;
        // Bernstein: beyond this distance the mass is under e⁻³⁶.
        let reach = (72.0 * mean * (1.0 - p)).sqrt() + 24.0;
        let from = (mean - reach).floor().max(0.0) as u64;
        let to = ((mean + reach).ceil().max(0.0) as u64).min(most);
        (from.min(to), to)
    }

    fn first_at(&self, lost: u64) -> u64 {
        self.first.get(lost as usize).copied().unwrap_or(self.n + 1)
    }

    fn pmf(&self, k: u64, n: u64, p: f64) -> f64 {
        if k > n {
            return 0.0;
        }
        let ln = |i: u64| self.ln_factorials.get(i as usize).copied().unwrap_or_else(|| ln_factorial(i));
        (ln(n) - ln(k) - ln(n - k) + times_ln(k as f64, p) + times_ln((n - k) as f64, 1.0 - p)).exp()
    }
}

/// Greatest value of a function with one peak in [low, high], by golden section.
fn golden_maximum(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    let ratio = (5.0_f64.sqrt() - 1.0) / 2.0;
    let (mut left, mut right) = (high - ratio * (high - low), low + ratio * (high - low));
    let (mut at_left, mut at_right) = (f(left), f(right));
    for _ in 0..32 {
        if at_left >= at_right {
            high = right;
            (right, at_right) = (left, at_left);
            left = high - ratio * (high - low);
            at_left = f(left);
        } else {
            low = left;
            (left, at_left) = (right, at_right);
            right = low + ratio * (high - low);
            at_right = f(right);
        }
    }
    at_left.max(at_right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(n: u64, lost: u64, gained: u64) -> PairedCounts {
        PairedCounts { both_right: n - lost - gained, gained, lost, both_wrong: 0 }
    }

    /// Sums the multinomial over every extreme table, with no staircase and no window.
    fn brute_probability(seen: &PairedCounts, delta: f64, p_lost: f64, p_gained: f64) -> f64 {
        let n = seen.n();
        let of = |b: u64, c: u64| statistic(b as f64, c as f64, n as f64, delta);
        let mut sum = 0.0;
        for b in 0..=n {
            for c in 0..=n - b {
                if of(b, c) >= of(seen.lost, seen.gained) - 1e-10 {
                    let ln_ways = ln_factorial(n) - ln_factorial(b) - ln_factorial(c) - ln_factorial(n - b - c);
                    let rest = (1.0 - p_lost - p_gained).max(0.0);
                    let ln_p =
                        times_ln(b as f64, p_lost) + times_ln(c as f64, p_gained) + times_ln((n - b - c) as f64, rest);
                    sum += (ln_ways + ln_p).exp();
                }
            }
        }
        sum
    }

    #[test]
    fn the_sum_over_the_staircase_is_the_sum_over_all_tables() {
        for (n, lost, gained, delta) in
            [(12, 2, 1, -0.1), (30, 4, 3, -0.2), (25, 0, 0, -0.1), (40, 1, 9, 0.1), (9, 9, 0, 0.0)]
        {
            let seen = counts(n, lost, gained);
            let region = Region::at_least_as_extreme(&seen, delta);
            for smaller in [0.0, 0.01, 0.1, 0.3, (1.0 - delta.abs()) / 2.0] {
                let (p_lost, p_gained) =
                    if delta < 0.0 { (smaller - delta, smaller) } else { (smaller, smaller + delta) };
                let (quick, brute) =
                    (region.probability(p_lost, p_gained), brute_probability(&seen, delta, p_lost, p_gained));
                assert!((quick - brute).abs() < 1e-11, "{n} {lost} {gained} {delta} {smaller}: {quick} {brute}");
            }
        }
    }

    #[test]
    fn no_flip_among_few_is_no_pass() {
        // Five pairs without a flip: H: Δ = −2 points gives that table with probability up to 0.98⁵.
        let p = non_inferiority(&counts(5, 0, 0), 0.02).unwrap();
        assert!((p.p_within - 0.98_f64.powi(5)).abs() < 1e-9, "{p:?}");
        assert!(p.p_beyond > 0.05);
    }

    #[test]
    fn large_tables_agree_with_the_large_sample_test() {
        let seen = counts(2000, 90, 85);
        let p = non_inferiority(&seen, 0.02).unwrap();
        let (within, beyond) = tango_p_values(&seen, -0.02).unwrap();
        assert_eq!(p.method, "unconditional-exact");
        assert!(p.p_within >= within * 0.9 && p.p_within < within + 0.02, "{p:?} {within}");
        assert!((p.p_beyond - beyond).abs() < 0.02, "{p:?} {beyond}");
        assert_eq!(non_inferiority(&counts(2001, 90, 85), 0.02).unwrap().method, "tango");
    }

    #[test]
    fn senseless_questions_have_no_answer() {
        assert_eq!(non_inferiority(&PairedCounts::default(), 0.02), None);
        assert_eq!(non_inferiority(&counts(10, 1, 1), 1.0), None);
        assert_eq!(non_inferiority(&counts(10, 1, 1), f64::NAN), None);
        assert_eq!(exact_p_above(&counts(10, 1, 1), -1.0), None);
    }

    #[test]
    fn no_nuisance_between_the_grid_points_is_more_likely() {
        for (n, lost, gained, delta) in
            [(400, 3, 5, -0.02), (400, 60, 30, -0.1), (2000, 12, 3, -0.01), (2000, 0, 0, -0.002)]
        {
            let region = Region::at_least_as_extreme(&counts(n, lost, gained), delta);
            let greatest = region.greatest_probability(delta);
            for i in 0..=3000 {
                // Twice as dense where the smaller share is small and the probability may turn quickest.
                let smaller = f64::midpoint(1.0, delta) * (f64::from(i) / 3000.0).powi(2);
                let p = region.probability(smaller - delta, smaller);
                assert!(p <= greatest + 1e-9, "{n} {lost} {gained} {delta} {smaller}: {p} {greatest}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// The size over the whole null set, not its edge alone, stays under the p-value.
        #[test]
        fn no_point_of_the_null_is_more_likely(n in 3_u64..22, a in 0.0_f64..1.0, b in 0.0_f64..1.0, margin in 0.01_f64..0.3,
                                               inside in prop::collection::vec((0.0_f64..1.0, 0.0_f64..1.0), 12)) {
            let lost = (a * n as f64) as u64;
            let gained = (b * (n - lost) as f64) as u64;
            let seen = counts(n, lost, gained);
            let p = exact_p_above(&seen, -margin).unwrap();
            for (x, y) in inside {
                let delta = -margin - x * (1.0 - margin);
                let smaller = y * (1.0 + delta) / 2.0;
                let (p_lost, p_gained) = (smaller - delta, smaller);
                prop_assert!(brute_probability(&seen, -margin, p_lost, p_gained) <= p + 1e-9);
            }
        }
    }
}
