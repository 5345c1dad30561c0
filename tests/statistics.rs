//! The statistics agree with reference values (`fixtures/stats/`) and keep the levels they promise.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "statistics/hostile.rs"]
mod hostile;
#[path = "statistics/levels.rs"]
mod levels;

use counterpoise::analyze::estimate::Estimate;
use counterpoise::analyze::stats::special::{binomial_pmf, binomial_tails, two_sided_t, two_sided_z};
use counterpoise::analyze::stats::{
    BlockPair, PairedCounts, Resampling, clopper_pearson, clopper_pearson_lower, clopper_pearson_upper,
    clustered_mean_error, holm, interval_ranks, mcnemar, mean_error, mean_ratio, non_inferiority, percentile,
    percentile_ratio, sign_flip, sorted, tango, tango_statistic, wilson,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

fn rows<T: DeserializeOwned>(key: &str) -> Vec<T> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/stats/reference.json");
    let mut all: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let rows: Vec<T> = serde_json::from_value(all[key].take()).unwrap();
    assert!(!rows.is_empty(), "{key} has reference rows");
    rows
}

/// Agreement to 1e-9, and of small p-values to 1e-7 of themselves.
#[track_caller]
fn assert_near(found: f64, wanted: f64, what: impl std::fmt::Debug) {
    let off = (found - wanted).abs();
    assert!(off <= 1e-9 && off <= 1e-7 * wanted.abs().max(1e-12), "{found} instead of {wanted}: {what:?}");
}

#[track_caller]
fn assert_interval(found: &Estimate, low: f64, high: f64, what: impl std::fmt::Debug) {
    assert_near(found.low.unwrap(), low, &what);
    assert_near(found.high.unwrap(), high, &what);
}

/// `n` pairs of which some flipped; the rest is right in both arms.
fn pairs(n: u64, lost: u64, gained: u64) -> PairedCounts {
    PairedCounts { both_right: n - lost - gained, gained, lost, both_wrong: 0 }
}

#[derive(Debug, Deserialize)]
struct Quantile {
    level: f64,
    df: Option<f64>,
    value: f64,
}

#[test]
fn normal_and_t_quantiles() {
    for row in rows::<Quantile>("quantiles") {
        let found = row.df.map_or_else(|| two_sided_z(row.level), |df| two_sided_t(row.level, df));
        assert_near(found.unwrap(), row.value, &row);
    }
}

#[derive(Debug, Deserialize)]
struct Tails {
    n: u64,
    k: u64,
    p: f64,
    cdf: f64,
    sf: f64,
    pmf: f64,
}

#[test]
fn binomial_probabilities() {
    for row in rows::<Tails>("binomial_tails") {
        let (lower, upper) = binomial_tails(row.k, row.n, row.p);
        assert_near(lower, row.cdf, &row);
        assert_near(upper, row.sf, &row);
        assert_near(binomial_pmf(row.k, row.n, row.p), row.pmf, &row);
    }
}

#[derive(Debug, Deserialize)]
struct Rate {
    n: u64,
    successes: u64,
    level: f64,
    wilson: (f64, f64),
    clopper_pearson: (f64, f64),
    lower: f64,
    upper: f64,
}

#[test]
fn intervals_of_a_rate() {
    for row in rows::<Rate>("rates") {
        assert_interval(&wilson(row.successes, row.n, row.level), row.wilson.0, row.wilson.1, &row);
        let exact = clopper_pearson(row.successes, row.n, row.level);
        assert_interval(&exact, row.clopper_pearson.0, row.clopper_pearson.1, &row);
        assert_near(clopper_pearson_lower(row.successes, row.n, row.level).unwrap(), row.lower, &row);
        assert_near(clopper_pearson_upper(row.successes, row.n, row.level).unwrap(), row.upper, &row);
    }
}

#[derive(Debug, Deserialize)]
struct Flips {
    lost: u64,
    gained: u64,
    worse: f64,
    better: f64,
    two_sided: f64,
    mid: f64,
}

#[test]
fn mcnemar_tests() {
    for row in rows::<Flips>("mcnemar") {
        let found = mcnemar(&pairs(row.lost + row.gained + 7, row.lost, row.gained));
        assert_near(found.p_worse, row.worse, &row);
        assert_near(found.p_better, row.better, &row);
        assert_near(found.p_two_sided, row.two_sided, &row);
        assert_near(found.p_mid, row.mid, &row);
    }
}

#[derive(Debug, Deserialize)]
struct Score {
    n: u64,
    lost: u64,
    gained: u64,
    level: f64,
    low: f64,
    high: f64,
    at: f64,
    statistic: f64,
}

#[test]
fn tango_intervals_by_brute_force() {
    for row in rows::<Score>("tango") {
        let counts = pairs(row.n, row.lost, row.gained);
        assert_interval(&tango(&counts, row.level), row.low, row.high, &row);
        assert_near(tango_statistic(&counts, row.at).unwrap(), row.statistic, &row);
    }
}

#[derive(Debug, Deserialize)]
struct Unconditional {
    n: u64,
    lost: u64,
    gained: u64,
    margin: f64,
    within: f64,
    beyond: f64,
}

#[test]
fn unconditional_tests_by_brute_force() {
    for row in rows::<Unconditional>("unconditional") {
        let found = non_inferiority(&pairs(row.n, row.lost, row.gained), row.margin).unwrap();
        assert_eq!(found.method, "unconditional-exact");
        assert_near(found.p_within, row.within, &row);
        assert_near(found.p_beyond, row.beyond, &row);
    }
}

#[derive(Debug, Deserialize)]
struct Sample {
    values: Vec<f64>,
    level: f64,
    mean: f64,
    low: f64,
    high: f64,
}

#[test]
fn t_intervals() {
    for row in rows::<Sample>("means") {
        let found = mean_error(&row.values).unwrap().interval(row.level);
        assert_near(found.point.unwrap(), row.mean, row.values.len());
        assert_interval(&found, row.low, row.high, row.values.len());
    }
}

#[derive(Debug, Deserialize)]
struct Clustered {
    clusters: Vec<u32>,
    values: Vec<f64>,
    level: f64,
    mean: f64,
    standard_error: f64,
    low: f64,
    high: f64,
    design_effect: f64,
}

#[test]
fn cluster_robust_errors() {
    for row in rows::<Clustered>("clustered") {
        let values: Vec<(u32, f64)> = row.clusters.iter().copied().zip(row.values.iter().copied()).collect();
        let found = clustered_mean_error(&values).unwrap();
        assert_near(found.mean, row.mean, row.values.len());
        assert_near(found.standard_error.unwrap(), row.standard_error, row.values.len());
        assert_near(found.design_effect.unwrap(), row.design_effect, row.values.len());
        assert_interval(&found.interval(row.level), row.low, row.high, row.values.len());
    }
}

#[derive(Debug, Deserialize)]
struct Signs {
    values: Vec<f64>,
    worse: f64,
    better: f64,
    two_sided: f64,
}

#[test]
fn sign_flips() {
    for row in rows::<Signs>("sign_flip") {
        let found = sign_flip(&row.values, 0, 1).unwrap();
        assert_near(found.p_worse, row.worse, &row);
        assert_near(found.p_better, row.better, &row);
        assert_near(found.p_two_sided, row.two_sided, &row);
    }
}

#[derive(Debug, Deserialize)]
struct Ranks {
    n: u64,
    q: f64,
    level: f64,
    low: Option<u64>,
    high: Option<u64>,
}

#[test]
fn order_statistic_ranks() {
    for row in rows::<Ranks>("order_statistics") {
        assert_eq!(interval_ranks(row.n, row.q, row.level), (row.low, row.high), "{row:?}");
    }
}

#[derive(Debug, Deserialize)]
struct Percentile {
    values: Vec<f64>,
    q: f64,
    value: f64,
}

#[test]
fn percentiles_are_nearest_rank() {
    for row in rows::<Percentile>("percentiles") {
        assert_eq!(percentile(&sorted(row.values.iter().copied()), row.q), Some(row.value), "{row:?}");
    }
}

#[derive(Debug, Deserialize)]
struct Family {
    p: Vec<f64>,
    adjusted: Vec<f64>,
}

#[test]
fn holm_adjustment() {
    for row in rows::<Family>("holm") {
        let family: Vec<Option<f64>> = row.p.iter().copied().map(Some).collect();
        for (found, wanted) in holm(&family).into_iter().zip(&row.adjusted) {
            assert_near(found.unwrap(), *wanted, &row);
        }
    }
}

#[derive(Debug, Deserialize)]
struct Bootstrap {
    q: f64,
    level: f64,
    resamples: u32,
    seed: u64,
    blocks: Vec<Block>,
    percentile: (f64, f64, f64),
    mean: (f64, f64, f64),
}

#[derive(Debug, Deserialize)]
struct Block {
    baseline: Vec<f64>,
    candidate: Vec<f64>,
}

#[test]
fn block_bootstrap_draw_by_draw() {
    for row in rows::<Bootstrap>("block_bootstrap") {
        let resampling = Resampling { level: row.level, resamples: row.resamples, seed: row.seed };
        let blocks: Vec<BlockPair> =
            row.blocks.into_iter().map(|b| BlockPair { baseline: b.baseline, candidate: b.candidate }).collect();
        let of_percentiles = percentile_ratio(&blocks, row.q, &resampling);
        assert_near(of_percentiles.point.unwrap(), row.percentile.0, row.seed);
        assert_interval(&of_percentiles, row.percentile.1, row.percentile.2, row.seed);
        let of_means = mean_ratio(&blocks, &resampling);
        assert_near(of_means.point.unwrap(), row.mean.0, row.seed);
        assert_interval(&of_means, row.mean.1, row.mean.2, row.seed);
    }
}
