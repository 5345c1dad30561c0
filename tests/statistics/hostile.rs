//! Whatever the counts and numbers, there is an answer or none.

use counterpoise::analyze::stats::{
    BlockPair, BlockSums, Design, PairedCounts, Resampling, Spend, Sums, clopper_pearson, clustered_paired_mean,
    cost_per_success, cost_ratio, fail_power, holm, mcnemar, mean_ratio, n_to_decide, non_inferiority, paired_mean,
    pass_power, percentile_estimate, percentile_ratio, sign_flip, sorted, sums_ratio, tango, wilson,
};

proptest::proptest! {
    /// Counts and numbers that no run would give end in an answer or in none, never in a panic or a NaN.
    #[test]
    fn no_input_is_fatal(
        counts in proptest::array::uniform4(proptest::prelude::any::<u64>()),
        shift in proptest::array::uniform4(0_u32..64),
        x in proptest::prelude::any::<f64>(),
        y in proptest::prelude::any::<f64>(),
        values in proptest::collection::vec(proptest::prelude::any::<f64>(), 0..9),
    ) {
        let [both_right, gained, lost, both_wrong] = [0, 1, 2, 3].map(|i| counts[i] >> shift[i]);
        let counts = PairedCounts { both_right, gained, lost, both_wrong };
        let design = Design { margin: x, confidence: y, power: x };
        let sane = Design { margin: 0.02, confidence: 0.95, power: 0.8 };
        let sums = Sums { amount: x, per: y };
        let block = BlockSums { baseline: sums, candidate: Sums { amount: y, per: x } };
        let keyed: Vec<(u8, f64)> = values.iter().map(|v| (v.to_bits() as u8 & 3, *v)).collect();
        let pairs = vec![BlockPair { baseline: values.clone(), candidate: vec![x, y] }; 7];
        let draw = Resampling { level: 0.9, resamples: 20, seed: both_right };
        let odd_draw = Resampling { level: x, ..draw };
        for estimate in [
            wilson(gained, lost, y), wilson(gained, lost, 0.9), clopper_pearson(gained, lost, x), clopper_pearson(gained, lost, 0.9),
            tango(&counts, x), tango(&counts, 0.9), paired_mean(&values, y, x), clustered_paired_mean(&keyed, 0.9, x),
            percentile_estimate(&sorted(values.clone()), x, y), percentile_ratio(&pairs, 0.5, &draw), percentile_ratio(&pairs, x, &odd_draw),
            mean_ratio(&pairs, &draw), sums_ratio(&[block; 7], &draw), cost_ratio(&[block; 7], (gained, lost), &draw),
            cost_per_success(&Spend { total: x, successes: gained, attempted: lost }, 0.9),
        ] {
            proptest::prop_assert!(estimate.is_sound(), "{estimate:?}");
        }
        for p in [non_inferiority(&counts, x), non_inferiority(&counts, 0.02)].into_iter().flatten() {
            proptest::prop_assert!((0.0..=1.0).contains(&p.p_within) && (0.0..=1.0).contains(&p.p_beyond), "{p:?}");
        }
        let test = mcnemar(&counts);
        proptest::prop_assert!((0.0..=1.0).contains(&test.p_mid) && (0.0..=1.0).contains(&test.p_worse), "{test:?}");
        let _ = (n_to_decide(x, y, &design), n_to_decide(x, y, &sane), sign_flip(&values, 9, gained), holm(&[Some(x), Some(y)]));
        let _ = (pass_power(lost, x, y, &design), fail_power(gained | 1 << 40, x.abs().fract(), y.fract(), &sane));
    }
}
