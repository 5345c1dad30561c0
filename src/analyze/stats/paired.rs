//! Two arms that answered the same samples, pass or fail: the four counts and McNemar's tests.

use super::special::{binomial_pmf, binomial_tails};
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
        self.both_right.saturating_add(self.gained).saturating_add(self.lost).saturating_add(self.both_wrong)
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
        Self { gained: self.lost, lost: self.gained, ..*self }
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
        return Mcnemar { p_worse: 1.0, p_better: 1.0, p_two_sided: 1.0, p_mid: 1.0 };
    }
    let at_least = |k: u64| {
        if k == 0 { 1.0 } else { binomial_tails(k - 1, flips, 0.5).1 }
    };
    let (p_worse, p_better) = (at_least(counts.lost), at_least(counts.gained));
    let smaller = p_worse.min(p_better);
    let mid = smaller - 0.5 * binomial_pmf(counts.lost, flips, 0.5);
    Mcnemar { p_worse, p_better, p_two_sided: (2.0 * smaller).min(1.0), p_mid: (2.0 * mid).clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flips(lost: u64, gained: u64) -> PairedCounts {
        PairedCounts { both_right: 20, gained, lost, both_wrong: 5 }
    }

    #[test]
    fn mcnemar_on_known_tables() {
        assert!((mcnemar(&flips(8, 1)).p_worse - 10.0 / 512.0).abs() < 1e-12);
        assert!((mcnemar(&flips(10, 4)).p_worse - 1471.0 / 16384.0).abs() < 1e-12);
        let none = mcnemar(&flips(0, 0));
        assert_eq!((none.p_worse, none.p_better, none.p_two_sided, none.p_mid), (1.0, 1.0, 1.0, 1.0));
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
        let counts =
            PairedCounts::from_pairs([(true, true), (true, false), (true, false), (false, true), (false, false)]);
        assert_eq!(counts, PairedCounts { both_right: 1, gained: 1, lost: 2, both_wrong: 1 });
        assert_eq!(counts.delta(), Some(-0.2));
        assert_eq!(counts.swapped().delta(), Some(0.2));
        assert_eq!((counts.baseline_rate(), counts.candidate_rate()), (Some(0.6), Some(0.4)));
        assert_eq!(PairedCounts::default().delta(), None);
    }
}
