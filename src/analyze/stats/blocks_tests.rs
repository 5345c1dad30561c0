use super::*;
use crate::analyze::stats::percentiles::{percentile, sorted};
use crate::analyze::stats::random::below;
use proptest::prelude::*;

fn uniform(rng: &mut rand_pcg::Pcg64) -> f64 {
    below(rng, 1 << 30) as f64 / f64::from(1 << 30)
}

/// Blocks of log-uniform latencies with a common factor per block; the candidate is `speed` times the baseline.
fn blocks(count: usize, rows: usize, speed: f64, seed: u64) -> Vec<BlockPair> {
    let mut rng = seeded(seed, 99);
    (0..count)
        .map(|_| {
            let drift = (0.5 * uniform(&mut rng)).exp();
            let mut arm = |factor: f64| (0..rows).map(|_| factor * drift * uniform(&mut rng).exp()).collect();
            BlockPair { baseline: arm(1.0), candidate: arm(speed) }
        })
        .collect()
}

#[test]
fn the_weighted_percentile_is_that_of_the_repeated_rows() {
    let mut rng = seeded(5, 5);
    for (count, rows) in [(1, 1), (3, 7), (20, 90), (400, 3)] {
        let pairs = blocks(count, rows, 1.0, 11);
        let pooled = Pooled::new(pairs.iter().map(|block| block.baseline.as_slice()));
        let mut times = vec![0; count];
        for q in [0.0, 0.01, 0.5, 0.9, 0.99, 1.0] {
            resample_into(&mut rng, &mut times);
            let repeated = pairs.iter().zip(&times).flat_map(|(b, &t)| (0..t).flat_map(|_| b.baseline.iter().copied()));
            assert_eq!(pooled.percentile(&times, q), percentile(&sorted(repeated), q), "{count} {rows} {q}");
        }
    }
}

#[test]
fn drift_of_the_machine_cancels() {
    let estimate = percentile_ratio(&blocks(20, 200, 0.8, 1), 0.5, &Resampling::new(0.9, 3));
    assert_eq!((estimate.method.as_str(), estimate.n), ("block-bootstrap", 20));
    assert!(!estimate.excludes(0.8), "{estimate:?}");
    assert!(estimate.excludes(1.0) && estimate.width().unwrap() < 0.15, "{estimate:?}");
    assert_eq!(estimate, percentile_ratio(&blocks(20, 200, 0.8, 1), 0.5, &Resampling::new(0.9, 3)));
}

#[test]
fn few_blocks_widen_and_fewer_have_no_interval() {
    let ten = percentile_ratio(&blocks(10, 50, 1.0, 2), 0.5, &Resampling::new(0.9, 3));
    assert_eq!(ten.method, "block-bootstrap-widened");
    assert!(ten.is_bounded());
    let five = percentile_ratio(&blocks(5, 50, 1.0, 2), 0.5, &Resampling::new(0.9, 3));
    assert_eq!((five.method.as_str(), five.low, five.high), ("too-few-blocks", None, None));
    assert!(five.point.is_some());
    let mut half_empty = blocks(10, 50, 1.0, 2);
    half_empty.iter_mut().take(5).for_each(|block| block.candidate.clear());
    assert_eq!(percentile_ratio(&half_empty, 0.5, &Resampling::new(0.9, 3)).method, "too-few-blocks");
}

#[test]
fn nothing_measured_gives_nothing() {
    let resampling = Resampling::new(0.9, 3);
    assert_eq!(percentile_ratio(&[], 0.5, &resampling).point, None);
    let empty = vec![BlockPair::default(); 10];
    assert_eq!(percentile_ratio(&empty, 0.5, &resampling).point, None);
    let senseless = vec![BlockPair { baseline: vec![f64::NAN, f64::INFINITY], candidate: vec![1.0] }; 10];
    assert_eq!(percentile_ratio(&senseless, 0.5, &resampling).point, None);
    let zero = vec![BlockPair { baseline: vec![0.0], candidate: vec![1.0] }; 10];
    assert_eq!(percentile_ratio(&zero, 0.5, &resampling).point, None);
    let none_drawn = percentile_ratio(&blocks(10, 5, 1.0, 2), 0.5, &Resampling { level: 0.9, resamples: 0, seed: 1 });
    assert!(none_drawn.point.is_some() && none_drawn.low.is_none() && none_drawn.high.is_none());
}

#[test]
fn throughput_is_the_ratio_of_sums_not_the_mean_of_ratios() {
    let slot = |tokens: f64, seconds: f64| Sums { amount: tokens, per: seconds };
    let mut all = vec![BlockSums { baseline: slot(100.0, 1.0), candidate: slot(200.0, 1.0) }; 9];
    all.push(BlockSums { baseline: slot(100.0, 11.0), candidate: slot(200.0, 1.0) });
    let estimate = sums_ratio(&all, &Resampling::new(0.9, 1));
    assert!((estimate.point.unwrap() - 4.0).abs() < 1e-12);
    assert!(estimate.low.unwrap() > 1.5 && estimate.high.unwrap() > 4.0);
}

#[test]
fn mean_ratio_weighs_rows() {
    let all = vec![BlockPair { baseline: vec![1.0, 3.0], candidate: vec![1.0] }; 6];
    let estimate = mean_ratio(&all, &Resampling::new(0.9, 1));
    assert!((estimate.point.unwrap() - 0.5).abs() < 1e-12);
    assert!((estimate.low.unwrap() - 0.5).abs() < 1e-12 && (estimate.high.unwrap() - 0.5).abs() < 1e-12);
}

#[test]
fn an_arm_without_success_has_no_ratio() {
    let cost = |usd: f64, successes: f64| Sums { amount: usd, per: successes };
    let none = vec![BlockSums { baseline: cost(1.0, 5.0), candidate: cost(0.5, 0.0) }; 12];
    let estimate = sums_ratio(&none, &Resampling::new(0.9, 1));
    assert_eq!((estimate.point, estimate.low, estimate.high), (None, None, None));
    // One success in one block: resamples without it have an infinite cost, so the upper end is open.
    let mut one = none.clone();
    one[0].candidate.per = 1.0;
    let estimate = sums_ratio(&one, &Resampling::new(0.9, 1));
    assert!((estimate.point.unwrap() - 30.0).abs() < 1e-9);
    assert!(estimate.low.is_some() && estimate.high.is_none(), "{estimate:?}");
}

#[test]
fn a_free_candidate_costs_nothing() {
    let cost = |usd: f64| Sums { amount: usd, per: 4.0 };
    let free = vec![BlockSums { baseline: cost(1.0), candidate: cost(0.0) }; 12];
    let estimate = sums_ratio(&free, &Resampling::new(0.9, 1));
    assert_eq!((estimate.point, estimate.low, estimate.high), (Some(0.0), None, Some(0.0)));
    let both_free = vec![BlockSums { baseline: cost(0.0), candidate: cost(0.0) }; 12];
    assert_eq!(sums_ratio(&both_free, &Resampling::new(0.9, 1)).point, None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn ratio_intervals_hold_their_point_and_invert(count in 6_usize..30, rows in 1_usize..30, seed in 0_u64..1000) {
        let forward = blocks(count, rows, 0.7, seed);
        let backward: Vec<BlockPair> = forward
            .iter()
            .map(|b| BlockPair { baseline: b.candidate.clone(), candidate: b.baseline.clone() })
            .collect();
        let resampling = Resampling { level: 0.9, resamples: 399, seed };
        let (ratio, inverse) = (percentile_ratio(&forward, 0.5, &resampling), percentile_ratio(&backward, 0.5, &resampling));
        let (point, low, high) = (ratio.point.unwrap(), ratio.low.unwrap(), ratio.high.unwrap());
        prop_assert!(0.0 < low && low <= point && point <= high);
        // Ranks of the ends are mirror images of each other but for one place.
        prop_assert!((inverse.point.unwrap() * point - 1.0).abs() < 1e-12);
        prop_assert!((inverse.low.unwrap() * high).ln().abs() < 0.1 && (inverse.high.unwrap() * low).ln().abs() < 0.1);
        let wider = percentile_ratio(&forward, 0.5, &Resampling { level: 0.95, ..resampling });
        prop_assert!(wider.low.unwrap() <= low && high <= wider.high.unwrap());
    }
}
