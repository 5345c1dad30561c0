//! The sign-flip test for graded scores: under "no change" every paired difference is as likely with the other sign.

use super::random::{seeded, sign_bits};

/// Differences up to this many, zeros aside, are tested against all 2ⁿ sign patterns.
pub const EXACT_SIGN_FLIPS: usize = 16;

/// p-values of the sign-flip permutation test on a mean of paired differences (Fisher 1935; Pitman 1937).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignFlip {
    /// One-sided p for "the candidate is worse": P(sum ≤ the one seen).
    pub p_worse: f64,
    /// One-sided p for "the candidate is better": P(sum ≥ the one seen).
    pub p_better: f64,
    /// Two-sided p: P(|sum| ≥ the one seen).
    pub p_two_sided: f64,
    /// Whether all sign patterns were counted rather than drawn.
    pub exact: bool,
}

/// Tests whether the mean of `differences` (candidate − baseline) is 0; with the margin added to each, whether the loss
/// is the margin.
///
/// Zeros carry no sign and are left out; without any other every p is 1. Up to [`EXACT_SIGN_FLIPS`] differences all
/// patterns are counted, above that `draws` patterns are drawn from `seed` and the seen one is counted among them
/// ((hits + 1) ÷ (draws + 1), Phipson & Smyth 2010), so that p is never 0. Absent without differences, with one that
/// isn't finite, or with no draw to make.
pub fn sign_flip(differences: &[f64], draws: u32, seed: u64) -> Option<SignFlip> {
    if differences.is_empty() || differences.iter().any(|d| !d.is_finite()) {
        return None;
    }
    let signed: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    if signed.is_empty() {
        return Some(SignFlip { p_worse: 1.0, p_better: 1.0, p_two_sided: 1.0, exact: true });
    }
    let mut tally = Tally::new(&signed);
    if signed.len() <= EXACT_SIGN_FLIPS {
        for pattern in 0..1_u64 << signed.len() {
            tally.count(sum_with_signs(&signed, pattern));
        }
        return Some(tally.p_values(true));
    }
    if draws == 0 {
        return None;
    }
    tally.count(tally.seen);
    let mut rng = seeded(seed, 0x5167);
    for _ in 0..draws {
        let sum = signed.chunks(64).map(|chunk| sum_with_signs(chunk, sign_bits(&mut rng))).sum();
        tally.count(sum);
    }
    Some(tally.p_values(false))
}

fn sum_with_signs(values: &[f64], pattern: u64) -> f64 {
    values.iter().enumerate().map(|(i, value)| if pattern >> i & 1 == 1 { -value } else { *value }).sum()
}

struct Tally {
    seen: f64,
    /// Sums that differ by rounding only are equal.
    tie: f64,
    all: u64,
    as_low: u64,
    as_high: u64,
    as_far: u64,
}

impl Tally {
    fn new(values: &[f64]) -> Self {
        let scale: f64 = values.iter().map(|v| v.abs()).sum();
        Self { seen: values.iter().sum(), tie: scale * 1e-12, all: 0, as_low: 0, as_high: 0, as_far: 0 }
    }

    fn count(&mut self, sum: f64) {
        self.all += 1;
        self.as_low += u64::from(sum <= self.seen + self.tie);
        self.as_high += u64::from(sum >= self.seen - self.tie);
        self.as_far += u64::from(sum.abs() >= self.seen.abs() - self.tie);
    }

    fn p_values(&self, exact: bool) -> SignFlip {
        let share = |hits: u64| hits as f64 / self.all as f64;
        SignFlip { p_worse: share(self.as_low), p_better: share(self.as_high), p_two_sided: share(self.as_far), exact }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::stats::{PairedCounts, mcnemar};

    #[test]
    fn pass_fail_differences_give_mcnemar() {
        let mut differences = vec![0.0; 20];
        differences.extend([-1.0; 8]);
        differences.push(1.0);
        let test = sign_flip(&differences, 0, 1).unwrap();
        let exact = mcnemar(&PairedCounts { both_right: 20, gained: 1, lost: 8, both_wrong: 0 });
        assert!(test.exact);
        assert!((test.p_worse - exact.p_worse).abs() < 1e-12);
        assert!((test.p_two_sided - exact.p_two_sided).abs() < 1e-12);
    }

    #[test]
    fn drawn_patterns_come_near_the_exact_answer() {
        let mut differences = vec![-1.0; 30];
        differences.extend([1.0; 14]);
        let test = sign_flip(&differences, 20_000, 3).unwrap();
        let exact = mcnemar(&PairedCounts { both_right: 0, gained: 14, lost: 30, both_wrong: 0 });
        assert!(!test.exact);
        assert!((test.p_worse - exact.p_worse).abs() < 0.003, "{test:?} {exact:?}");
        assert_eq!(test, sign_flip(&differences, 20_000, 3).unwrap());
    }

    #[test]
    fn nothing_to_flip() {
        assert_eq!(sign_flip(&[], 100, 1), None);
        assert_eq!(sign_flip(&[0.1, f64::INFINITY], 100, 1), None);
        assert!((sign_flip(&[0.0, 0.0], 100, 1).unwrap().p_two_sided - 1.0).abs() < 1e-12);
        assert_eq!(sign_flip(&[0.1; 40], 0, 1), None);
        let drawn = sign_flip(&[0.1; 40], 99, 1).unwrap();
        assert!(drawn.p_better >= 0.01, "the seen pattern counts among the drawn");
    }
}
