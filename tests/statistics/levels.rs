//! Intervals and tests keep the levels they promise: by exact sums over all tables where that is possible, else by
//! seeded simulation.

use super::pairs;
use counterpoise::analyze::estimate::Estimate;
use counterpoise::analyze::stats::special::binomial_pmf;
use counterpoise::analyze::stats::{
    BlockPair, Design, Resampling, clopper_pearson, clustered_paired_mean, exact_p_above, exact_p_below, paired_mean,
    pass_power, percentile_ratio, tango, wilson,
};

/// Probability of a paired table by its flips, from two binomials.
fn table_probability(n: u64, lost: u64, gained: u64, p_lost: f64, p_gained: f64) -> f64 {
    binomial_pmf(lost, n, p_lost) * binomial_pmf(gained, n - lost, (p_gained / (1.0 - p_lost)).min(1.0))
}

/// Every table of `n` pairs by its flips.
fn tables(n: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..=n).flat_map(move |lost| (0..=n - lost).map(move |gained| (lost, gained)))
}

#[test]
fn wilson_covers_its_level_on_average() {
    for n in [20_u64, 50, 200] {
        for level in [0.9, 0.95] {
            let intervals: Vec<Estimate> = (0..=n).map(|k| wilson(k, n, level)).collect();
            let coverage = |p: f64| -> f64 {
                (0..=n).zip(&intervals).filter(|(_, i)| !i.excludes(p)).map(|(k, _)| binomial_pmf(k, n, p)).sum()
            };
            let shares: Vec<f64> = (1..200).map(|i| f64::from(i) / 200.0).collect();
            let mean = shares.iter().map(|p| coverage(*p)).sum::<f64>() / shares.len() as f64;
            let worst = shares.iter().map(|p| coverage(*p)).fold(1.0, f64::min);
            assert!(mean >= level - 0.003 && mean <= level + 0.02, "{n} {level}: {mean}");
            assert!(worst >= level - 0.1, "{n} {level}: {worst}");
        }
    }
}

#[test]
fn clopper_pearson_never_covers_less_than_its_level() {
    for n in [7_u64, 50] {
        let intervals: Vec<Estimate> = (0..=n).map(|k| clopper_pearson(k, n, 0.9)).collect();
        for p in (1..200).map(|i| f64::from(i) / 200.0) {
            let coverage: f64 =
                (0..=n).zip(&intervals).filter(|(_, i)| !i.excludes(p)).map(|(k, _)| binomial_pmf(k, n, p)).sum();
            assert!(coverage >= 0.9 - 1e-12, "{n} {p}: {coverage}");
        }
    }
}

#[test]
fn tango_covers_its_level_at_every_share_of_flips() {
    for (n, level) in [(40_u64, 0.9), (40, 0.95), (100, 0.9)] {
        let intervals: Vec<((u64, u64), Estimate)> =
            tables(n).map(|(lost, gained)| ((lost, gained), tango(&pairs(n, lost, gained), level))).collect();
        let (mut sum, mut count) = (0.0, 0.0);
        for flips in [0.03, 0.06, 0.12, 0.25, 0.5] {
            for tilt in [-0.8, -0.3, 0.0, 0.5] {
                let (p_lost, p_gained) = (flips * (1.0 - tilt) / 2.0, flips * (1.0 + tilt) / 2.0);
                let delta = p_gained - p_lost;
                let coverage: f64 = intervals
                    .iter()
                    .filter(|(_, interval)| !interval.excludes(delta))
                    .map(|((lost, gained), _)| table_probability(n, *lost, *gained, p_lost, p_gained))
                    .sum();
                assert!(coverage >= level - 0.035, "{n} {level} {flips} {tilt}: {coverage}");
                sum += coverage;
                count += 1.0;
            }
        }
        assert!(sum / count >= level - 0.005, "{n} {level}: {}", sum / count);
    }
}

#[test]
fn the_exact_test_keeps_its_size_where_the_loss_is_the_margin() {
    let n = 50_u64;
    for margin in [0.02, 0.1] {
        let counted: Vec<(u64, u64, f64, f64)> = tables(n)
            .filter(|(lost, gained)| lost + gained <= 30)
            .map(|(lost, gained)| {
                let counts = pairs(n, lost, gained);
                (lost, gained, exact_p_above(&counts, -margin).unwrap(), exact_p_below(&counts, -margin).unwrap())
            })
            .collect();
        for smaller in [0.0, 0.01, 0.03, 0.1] {
            let probability = |wanted: &dyn Fn(f64, f64) -> bool| -> f64 {
                counted
                    .iter()
                    .filter(|(_, _, above, below)| wanted(*above, *below))
                    .map(|(lost, gained, ..)| table_probability(n, *lost, *gained, smaller + margin, smaller))
                    .sum()
            };
            assert!(probability(&|above, _| above <= 0.05) <= 0.05, "false pass at {margin} {smaller}");
            assert!(probability(&|_, below| below <= 0.05) <= 0.05, "false fail at {margin} {smaller}");
            assert!(probability(&|_, _| true) > 0.999);
        }
    }
}

#[test]
fn a_plan_promises_the_power_that_its_gate_has() {
    let design = Design { margin: 0.05, confidence: 0.95, power: 0.8 };
    for (n, psi) in [(60_u64, 0.1), (90, 0.05)] {
        let counted: f64 = tables(n)
            .filter(|(lost, gained)| lost + gained <= 24)
            .filter(|(lost, gained)| exact_p_above(&pairs(n, *lost, *gained), -0.05).unwrap() <= 0.05)
            .map(|(lost, gained)| table_probability(n, lost, gained, psi / 2.0, psi / 2.0))
            .sum();
        let promised = pass_power(n, psi, 0.0, &design).unwrap();
        assert!((counted - promised).abs() < 0.01, "{n} {psi}: {counted} instead of {promised}");
    }
}

/// Seeded uniform numbers, from a generator that the library doesn't use.
struct Draws(u64);

impl Draws {
    fn uniform(&mut self) -> f64 {
        // SplitMix64 (Steele, Lea & Flood 2014).
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (radius, turn) = (self.uniform().max(1e-300), self.uniform());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
    }
}

#[test]
fn clustered_flips_are_covered() {
    // 25 passages of 8 questions; a passage is lost, gained or kept as a whole two times out of three.
    let (mut draws, runs) = (Draws(11), 600);
    let (mut covered, mut too_naive) = (0, 0);
    for _ in 0..runs {
        let mut differences = Vec::new();
        for passage in 0..25 {
            let flip = |u: f64| {
                if u < 0.15 {
                    -1.0
                } else if u < 0.25 {
                    1.0
                } else {
                    0.0
                }
            };
            let shared = flip(draws.uniform());
            for _ in 0..8 {
                let own = flip(draws.uniform());
                differences.push((passage, if draws.uniform() < 0.67 { shared } else { own }));
            }
        }
        let alone: Vec<f64> = differences.iter().map(|(_, d)| *d).collect();
        covered += u32::from(!clustered_paired_mean(&differences, 0.9, 1.0).excludes(-0.05));
        too_naive += u32::from(!paired_mean(&alone, 0.9, 1.0).excludes(-0.05));
    }
    let share = |count: u32| f64::from(count) / f64::from(runs);
    assert!(share(covered) > 0.87 && share(covered) < 0.94, "{}", share(covered));
    assert!(share(too_naive) < 0.8, "rows taken for independent cover too little: {}", share(too_naive));
}

#[test]
fn graded_differences_are_covered() {
    let (mut draws, runs) = (Draws(5), 1000);
    for n in [12, 60] {
        let mut covered = 0;
        for _ in 0..runs {
            // Skewed: most answers stay, some lose half a point or more.
            let differences: Vec<f64> =
                (0..n).map(|_| if draws.uniform() < 0.6 { 0.0 } else { 0.2 - 0.7 * draws.uniform() }).collect();
            covered += u32::from(!paired_mean(&differences, 0.9, 1.0).excludes(0.4 * (0.2 - 0.35)));
        }
        let share = f64::from(covered) / f64::from(runs);
        assert!(share > 0.87, "{n}: {share}");
    }
}

#[test]
fn ratios_of_autocorrelated_latencies_are_covered() {
    for (blocks, rows, q) in [(20, 40, 0.5), (20, 40, 0.9), (6, 32, 0.9)] {
        let (mut draws, runs) = (Draws(77 + blocks), 600);
        let mut covered = 0;
        for seed in 0..runs {
            let pairs: Vec<BlockPair> = (0..blocks)
                .map(|block| {
                    let drift = 0.3 * block as f64 / blocks as f64;
                    BlockPair {
                        baseline: slot(&mut draws, rows, drift),
                        candidate: slot(&mut draws, rows, drift - 0.2),
                    }
                })
                .collect();
            let ratio = percentile_ratio(&pairs, q, &Resampling { level: 0.95, resamples: 600, seed });
            covered += u32::from(!ratio.excludes((-0.2_f64).exp()));
        }
        let share = f64::from(covered) / runs as f64;
        assert!(share > 0.93 && share < 0.975, "{blocks} blocks, q {q}: {share}");
    }
}

/// Log-normal latencies, each pulled to the one before it.
fn slot(draws: &mut Draws, rows: usize, drift: f64) -> Vec<f64> {
    let mut level = draws.normal();
    let mut next = || {
        level = 0.8 * level + 0.6 * draws.normal();
        (4.0 + drift + 0.4 * level).exp()
    };
    (0..rows).map(|_| next()).collect()
}
