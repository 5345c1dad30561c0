//! Two arms that answered the same samples, pass or fail: the four counts, McNemar's tests and sample sizes.

use super::special::{binomial_pmf, binomial_tails, normal_cdf, normal_quantile};
use serde::{Deserialize, Serialize};

/// How the pairs fell. Δ is candidate − baseline, so `gained` raises it and `lost` lowers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct PairedCounts {
    /// Both arms passed.
    pub both_right: u64,
    /// The candidate passed where the baseline failed.
    pub gained: u64,
    /// The candidate failed where the baseline passed.
    pub lost: u64,
    /// Both arms failed.
    pub both_wrong: u64,
}

impl PairedCounts {
    /// Counts pairs given as (baseline passed, candidate passed).
    pub fn from_pairs(pairs: impl IntoIterator<Item = (bool, bool)>) -> Self {
        let mut counts = Self::default();
        for (baseline, candidate) in pairs {
            match (baseline, candidate) {
                (true, true) => counts.both_right += 1,
                (false, true) => counts.gained += 1,
                (true, false) => counts.lost += 1,
                (false, false) => counts.both_wrong += 1,
            }
        }
        counts
    }

    /// Number of pairs.
    pub fn n(&self) -> u64 {
        self.both_right
            .saturating_add(self.gained)
            .saturating_add(self.lost)
            .saturating_add(self.both_wrong)
    }

    /// Pairs in which exactly one arm passed: the flips.
    pub fn discordant(&self) -> u64 {
        self.gained.saturating_add(self.lost)
    }

    /// Δ = (gained − lost) ÷ n; absent without pairs.
    pub fn delta(&self) -> Option<f64> {
        let n = self.n();
        (n > 0).then(|| (self.gained as f64 - self.lost as f64) / n as f64)
    }

    /// Share of discordant pairs ψ; absent without pairs.
    pub fn discordant_share(&self) -> Option<f64> {
        let n = self.n();
        (n > 0).then(|| self.discordant() as f64 / n as f64)
    }

    /// Passed ÷ n of the baseline; absent without pairs.
    pub fn baseline_rate(&self) -> Option<f64> {
        let n = self.n();
        (n > 0).then(|| self.both_right.saturating_add(self.lost) as f64 / n as f64)
    }

    /// Passed ÷ n of the candidate; absent without pairs.
    pub fn candidate_rate(&self) -> Option<f64> {
        let n = self.n();
        (n > 0).then(|| self.both_right.saturating_add(self.gained) as f64 / n as f64)
    }

    /// The same pairs with the arms' parts exchanged: Δ changes its sign.
    #[must_use]
    pub fn swapped(&self) -> Self {
        Self {
            gained: self.lost,
            lost: self.gained,
            ..*self
        }
    }
}

/// McNemar's exact conditional tests: given the flips, each is a loss with probability ½ if nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mcnemar {
    /// One-sided p for "the candidate is worse": P(losses ≥ those seen).
    pub p_worse: f64,
    /// One-sided p for "the candidate is better": P(gains ≥ those seen).
    pub p_better: f64,
    /// Two-sided p: twice the smaller of both, at most 1.
    pub p_two_sided: f64,
    /// Two-sided mid-p (Fagerland, Lydersen & Laake 2013): the seen table counts half; less conservative.
    pub p_mid: f64,
}

/// McNemar's exact tests (McNemar 1947). Without a flip every p is 1: no evidence, which is not evidence of sameness.
pub fn mcnemar(counts: &PairedCounts) -> Mcnemar {
    let flips = counts.discordant();
    if flips == 0 {
        return Mcnemar {
            p_worse: 1.0,
            p_better: 1.0,
            p_two_sided: 1.0,
            p_mid: 1.0,
        };
    }
    let at_least = |k: u64| {
        if k == 0 {
            1.0
        } else {
            binomial_tails(k - 1, flips, 0.5).1
        }
    };
    let (p_worse, p_better) = (at_least(counts.lost), at_least(counts.gained));
    let smaller = p_worse.min(p_better);
    let mid = smaller - 0.5 * binomial_pmf(counts.lost, flips, 0.5);
    Mcnemar {
        p_worse,
        p_better,
        p_two_sided: (2.0 * smaller).min(1.0),
        p_mid: (2.0 * mid).clamp(0.0, 1.0),
    }
}

/// What a non-inferiority comparison is planned or judged with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Design {
    /// Tolerated loss as a share (2 points = 0.02), ≥ 0.
    pub margin: f64,
    /// One-sided confidence, such as 0.95.
    pub confidence: f64,
    /// Wanted probability of a decision, such as 0.8.
    pub power: f64,
}

/// Pairs needed to decide whether Δ is above or below −margin, if Δ is `delta` and a share `psi` of pairs flips.
///
/// n = (z₁₋α + z₁₋β)² · (ψ − Δ²) ÷ (margin + Δ)², the normal approximation for paired shares (Nam 1997; at Δ = 0
/// the familiar 6.18 · ψ ÷ margin²). Never less than what a run without a single flip would need: with d = |margin + Δ|,
/// z² (1 − d) ÷ d for Tango's interval to clear the margin and (1 − d)ⁿ ≤ α for the exact test. Absent where Δ lies on
/// the margin (no n decides) or an argument is senseless.
pub fn n_to_decide(psi: f64, delta: f64, design: &Design) -> Option<u64> {
    let distance = (design.margin + delta).abs();
    let z_alpha = normal_quantile(design.confidence)?;
    let z_power = normal_quantile(design.power)?;
    let sane = (0.0..=1.0).contains(&psi)
        && (-1.0..=1.0).contains(&delta)
        && distance.is_finite()
        && distance > 1e-9;
    if !sane {
        return None;
    }
    let variance = (psi.max(delta.abs()) - delta * delta).max(0.0);
    let by_flips = (z_alpha + z_power).powi(2) * variance / (distance * distance);
    let n = by_flips
        .max(n_without_flips(distance, design.confidence)?)
        .ceil()
        .max(1.0);
    (n < 1e15).then_some(n as u64)
}

/// P(the lower bound of Δ lies above −margin) at `n` pairs, if Δ is `delta` and a share `psi` flips.
///
/// Normal approximation with the variance ψ − Δ², as in [`n_to_decide`]; 0 where even a run without a flip would not
/// clear the margin.
pub fn pass_power(n: u64, psi: f64, delta: f64, design: &Design) -> Option<f64> {
    power(n, psi, delta + design.margin, delta, design.confidence)
}

/// P(the upper bound of Δ lies below −margin) at `n` pairs, if Δ is `delta` and a share `psi` flips.
pub fn fail_power(n: u64, psi: f64, delta: f64, design: &Design) -> Option<f64> {
    power(n, psi, -(delta + design.margin), delta, design.confidence)
}

/// Pairs without a flip that clear a distance to the margin, for Tango's interval and for the exact test.
fn n_without_flips(distance: f64, confidence: f64) -> Option<f64> {
    let z = normal_quantile(confidence)?;
    if distance >= 1.0 {
        return Some(1.0);
    }
    let exact = (1.0 - confidence).ln() / (-distance).ln_1p();
    Some(exact.max(z * z * (1.0 - distance) / distance))
}

fn power(n: u64, psi: f64, distance: f64, delta: f64, confidence: f64) -> Option<f64> {
    let z = normal_quantile(confidence)?;
    let sane = n > 0
        && (0.0..=1.0).contains(&psi)
        && (-1.0..=1.0).contains(&delta)
        && distance.is_finite();
    if !sane {
        return None;
    }
    let pairs = n as f64;
    if distance > 0.0 && pairs < n_without_flips(distance, confidence)? {
        return Some(0.0);
    }
    let variance = (psi.max(delta.abs()) - delta * delta).max(0.0);
    if variance == 0.0 {
        return Some(if distance > 0.0 { 1.0 } else { 0.0 });
    }
    Some(normal_cdf(distance * (pairs / variance).sqrt() - z))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flips(lost: u64, gained: u64) -> PairedCounts {
        PairedCounts {
            both_right: 20,
            gained,
            lost,
            both_wrong: 5,
        }
    }

    #[test]
    fn mcnemar_on_known_tables() {
        assert!((mcnemar(&flips(8, 1)).p_worse - 10.0 / 512.0).abs() < 1e-12);
        assert!((mcnemar(&flips(10, 4)).p_worse - 1471.0 / 16384.0).abs() < 1e-12);
        let none = mcnemar(&flips(0, 0));
        assert_eq!(
            (none.p_worse, none.p_better, none.p_two_sided, none.p_mid),
            (1.0, 1.0, 1.0, 1.0)
        );
        // Airway hyper-responsiveness, 7 against 1 (Bentur et al. 2009): exact .0703, mid-p .0391.
        let published = mcnemar(&flips(7, 1));
        assert!((published.p_two_sided - 0.0703).abs() < 5e-5);
        assert!((published.p_mid - 0.0391).abs() < 5e-5);
    }

    #[test]
    fn even_flips_are_no_evidence() {
        let even = mcnemar(&flips(5, 5));
        assert!((even.p_two_sided - 1.0).abs() < 1e-12);
        assert!((even.p_mid - 1.0).abs() < 1e-12);
    }

    #[test]
    fn pairs_are_counted_by_kind() {
        let counts = PairedCounts::from_pairs([
            (true, true),
            (true, false),
            (true, false),
            (false, true),
            (false, false),
        ]);
        assert_eq!(
            counts,
            PairedCounts {
                both_right: 1,
                gained: 1,
                lost: 2,
                both_wrong: 1
            }
        );
        assert_eq!(counts.delta(), Some(-0.2));
        assert_eq!(counts.swapped().delta(), Some(0.2));
        assert_eq!(
            (counts.baseline_rate(), counts.candidate_rate()),
            (Some(0.6), Some(0.4))
        );
        assert_eq!(PairedCounts::default().delta(), None);
    }

    #[test]
    fn sample_sizes_of_the_power_table() {
        let design = |margin| Design {
            margin,
            confidence: 0.95,
            power: 0.8,
        };
        for (psi, margin, n) in [
            (0.05, 0.01, 3091.0),
            (0.05, 0.05, 124.0),
            (0.10, 0.02, 1546.0),
            (0.10, 0.03, 687.0),
        ] {
            let found = n_to_decide(psi, 0.0, &design(margin)).unwrap() as f64;
            assert!((found - n).abs() <= 1.0, "{psi} {margin}: {found}");
        }
        // Without a flip 2 points still need 0.98ⁿ ≤ 0.05.
        assert_eq!(n_to_decide(0.0, 0.0, &design(0.02)), Some(149));
        assert_eq!(n_to_decide(0.1, -0.02, &design(0.02)), None);
        assert_eq!(n_to_decide(f64::NAN, 0.0, &design(0.02)), None);
    }

    #[test]
    fn power_meets_its_sample_size() {
        let design = Design {
            margin: 0.02,
            confidence: 0.95,
            power: 0.8,
        };
        let n = n_to_decide(0.1, 0.0, &design).unwrap();
        assert!((pass_power(n, 0.1, 0.0, &design).unwrap() - 0.8).abs() < 1e-3);
        let n = n_to_decide(0.1, -0.04, &design).unwrap();
        assert!((fail_power(n, 0.1, -0.04, &design).unwrap() - 0.8).abs() < 1e-3);
        assert!((pass_power(500, 0.1, -0.02, &design).unwrap() - 0.05).abs() < 1e-9);
        assert_eq!(pass_power(20, 0.01, 0.0, &design), Some(0.0));
    }
}
