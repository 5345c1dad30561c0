//! What a success costs, also where there is none.

use super::blocks::{BlockSums, Resampling, Sums, sums_ratio};
use super::rates::wilson;
use crate::analyze::estimate::Estimate;

/// Spend and successes of one arm.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spend {
    /// Everything spent, failures and retries included, in USD (or seconds, or tokens).
    pub total: f64,
    /// Requests that succeeded.
    pub successes: u64,
    /// Requests that were attempted.
    pub attempted: u64,
}

/// Spend ÷ successes of one arm, its interval from Wilson's for the success rate: the mean spend of an attempt is known,
/// how many attempts a success takes is not.
///
/// Without a success the point and the upper end are absent and the lower end stays: a success costs at least that.
pub fn cost_per_success(spend: &Spend, level: f64) -> Estimate {
    let method = "wilson-cost";
    if spend.attempted == 0 || !spend.total.is_finite() || spend.total < 0.0 {
        return Estimate::absent(level, spend.attempted, method);
    }
    let rate = wilson(spend.successes, spend.attempted, level);
    let each = spend.total / spend.attempted as f64;
    let cost = |rate: Option<f64>| rate.filter(|r| *r > 0.0).map(|r| each / r);
    Estimate::new(cost(rate.point), cost(rate.high), cost(rate.low), level, spend.attempted, method)
}

/// Ratio of the arms' cost per success, candidate ÷ baseline: bootstrap over blocks (amount = spend, per = successes).
///
/// Where an arm has no success at all there is no ratio and nothing to resample. What stays is one end, from each arm's
/// own interval at a level that leaves half the error to either: a lower end if the candidate never succeeded, an
/// upper end if the baseline never did. `attempted` is (baseline, candidate).
pub fn cost_ratio(blocks: &[BlockSums], attempted: (u64, u64), resampling: &Resampling) -> Estimate {
    let estimate = sums_ratio(blocks, resampling);
    let baseline = total(blocks.iter().map(|block| &block.baseline), attempted.0);
    let candidate = total(blocks.iter().map(|block| &block.candidate), attempted.1);
    if baseline.successes > 0 && candidate.successes > 0 {
        return estimate;
    }
    let each_level = f64::midpoint(1.0, resampling.level);
    let (baseline, candidate) = (cost_per_success(&baseline, each_level), cost_per_success(&candidate, each_level));
    let quotient = |above: Option<f64>, below: Option<f64>| above.zip(below.filter(|b| *b > 0.0)).map(|(a, b)| a / b);
    let (low, high) = (quotient(candidate.low, baseline.high), quotient(candidate.high, baseline.low));
    Estimate::new(None, low, high, resampling.level, estimate.n, "wilson-cost-bound")
}

fn total<'a>(sums: impl Iterator<Item = &'a Sums>, attempted: u64) -> Spend {
    let all = sums.fold(Sums::default(), |a, b| Sums { amount: a.amount + b.amount, per: a.per + b.per });
    Spend { total: all.amount, successes: all.per.max(0.0) as u64, attempted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_rests_on_the_success_rate() {
        let estimate = cost_per_success(&Spend { total: 10.0, successes: 80, attempted: 100 }, 0.9);
        assert!((estimate.point.unwrap() - 0.125).abs() < 1e-12);
        let rate = wilson(80, 100, 0.9);
        assert!((estimate.low.unwrap() - 0.1 / rate.high.unwrap()).abs() < 1e-12);
        assert!((estimate.high.unwrap() - 0.1 / rate.low.unwrap()).abs() < 1e-12);
    }

    #[test]
    fn no_success_leaves_a_lower_bound() {
        let estimate = cost_per_success(&Spend { total: 10.0, successes: 0, attempted: 100 }, 0.9);
        assert_eq!((estimate.point, estimate.high), (None, None));
        assert!(estimate.low.unwrap() > 3.0);
        assert_eq!(cost_per_success(&Spend::default(), 0.9).low, None);
        assert_eq!(cost_per_success(&Spend { total: f64::NAN, successes: 1, attempted: 2 }, 0.9).point, None);
    }

    #[test]
    fn a_candidate_that_never_succeeds_is_bounded_from_below() {
        let block = BlockSums { baseline: Sums { amount: 1.0, per: 8.0 }, candidate: Sums { amount: 0.5, per: 0.0 } };
        let resampling = Resampling::new(0.9, 1);
        let estimate = cost_ratio(&[block; 12], (120, 120), &resampling);
        assert_eq!((estimate.point, estimate.high), (None, None));
        assert!(estimate.low.unwrap() > 1.05, "half the price and no answer is no bargain: {estimate:?}");
        let turned = BlockSums { baseline: block.candidate, candidate: block.baseline };
        let estimate = cost_ratio(&[turned; 12], (120, 120), &resampling);
        assert!(estimate.low.is_none() && estimate.high.unwrap() < 1.0);
    }

    #[test]
    fn both_arms_with_success_are_resampled() {
        let block = BlockSums { baseline: Sums { amount: 1.0, per: 8.0 }, candidate: Sums { amount: 0.5, per: 8.0 } };
        let estimate = cost_ratio(&[block; 20], (200, 200), &Resampling::new(0.9, 1));
        assert_eq!((estimate.point, estimate.method.as_str()), (Some(0.5), "block-bootstrap"));
    }
}
