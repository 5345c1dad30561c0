//! From values of requests to statements about samples: repeats are averaged first, samples of one cluster hang together,
//! and only where neither matters do the tests for plain pass/fail pairs apply.

use std::collections::{BTreeMap, BTreeSet};

use super::estimate::{Estimate, two_sided_level};
use super::rows::Row;
use super::stats::{
    Design, MeanError, PairedCounts, clopper_pearson_lower, clopper_pearson_upper, clustered_mean_error, mcnemar,
    mean_error, n_to_decide, non_inferiority, sign_flip, tango, wilson,
};

/// Draws of the sign-flip test.
const SIGN_FLIP_DRAWS: u32 = 2_000;
/// The power that the n that would decide is told for.
const POWER: f64 = 0.8;

/// What samples are independent by: a named cluster of a task, or the sample itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cluster<'a> {
    Own(u32),
    Shared(&'a str, &'a str),
}

impl<'a> Cluster<'a> {
    fn of(row: &'a Row) -> Self {
        row.cluster.as_deref().map_or(Cluster::Own(row.sample), |name| Cluster::Shared(&row.task, name))
    }
}

/// One value in [0, 1] of one request.
#[derive(Clone, Debug)]
pub struct Value<'a> {
    pub sample: u32,
    pub cluster: Cluster<'a>,
    pub value: f64,
}

impl<'a> Value<'a> {
    pub fn of(row: &'a Row, value: f64) -> Self {
        Value { sample: row.sample, cluster: Cluster::of(row), value }
    }
}

/// A mean of values over samples.
#[derive(Clone, Debug)]
pub enum Rate {
    /// Pass/fail, one repeat, no clusters: (passed, n).
    Plain(u64, u64),
    Mean(Option<MeanError>),
}

impl Rate {
    pub fn of(values: &[Value<'_>]) -> Rate {
        if is_plain(values.iter().map(|v| (v.sample, &v.cluster, v.value))) {
            return Rate::Plain(values.iter().filter(|v| v.value > 0.5).count() as u64, values.len() as u64);
        }
        Rate::Mean(mean(values.iter().map(|v| (v.sample, v.cluster.clone(), v.value))))
    }

    /// Wilson's interval, or the t interval where repeats, clusters or graded values call for it.
    pub fn estimate(&self, level: f64) -> Estimate {
        match self {
            Rate::Plain(passed, n) => wilson(*passed, *n, level),
            Rate::Mean(Some(error)) => error.score_interval(level, 1.0, (0.0, 1.0)),
            Rate::Mean(None) => Estimate::absent(level, 0, "t"),
        }
    }

    /// Whether the rate is certainly at least `floor`, or certainly below it; absent where neither.
    pub fn reaches(&self, floor: f64, confidence: f64) -> Option<bool> {
        let (at_least, below) = match self {
            Rate::Plain(passed, n) => (
                clopper_pearson_lower(*passed, *n, confidence)? >= floor,
                clopper_pearson_upper(*passed, *n, confidence)? < floor,
            ),
            Rate::Mean(error) => {
                let (above, under) = error.as_ref()?.score_p_values(floor, 1.0)?;
                (above <= 1.0 - confidence, under <= 1.0 - confidence)
            }
        };
        match (at_least, below) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    pub fn n(&self) -> u64 {
        match self {
            Rate::Plain(_, n) => *n,
            Rate::Mean(error) => error.as_ref().map_or(0, |e| e.n),
        }
    }
}

/// Both arms' values of one sample and repeat.
#[derive(Clone, Debug)]
pub struct Pair<'a> {
    pub sample: u32,
    pub cluster: Cluster<'a>,
    pub baseline: f64,
    pub candidate: f64,
}

impl<'a> Pair<'a> {
    pub fn of(row: &'a Row, baseline: f64, candidate: f64) -> Self {
        Pair { sample: row.sample, cluster: Cluster::of(row), baseline, candidate }
    }
}

/// How many pairs moved which way.
pub fn counts(pairs: &[Pair<'_>]) -> PairedCounts {
    let mut counts = PairedCounts { both_right: 0, gained: 0, lost: 0, both_wrong: 0 };
    for pair in pairs {
        let slot = match pair.candidate.total_cmp(&pair.baseline) {
            std::cmp::Ordering::Greater => &mut counts.gained,
            std::cmp::Ordering::Less => &mut counts.lost,
            std::cmp::Ordering::Equal if pair.candidate >= 0.5 => &mut counts.both_right,
            std::cmp::Ordering::Equal => &mut counts.both_wrong,
        };
        *slot += 1;
    }
    counts
}

/// A difference candidate − baseline over samples.
#[derive(Clone, Debug)]
pub enum Delta {
    /// Pass/fail, one repeat, no clusters.
    Plain(PairedCounts),
    Mean(Option<MeanError>, Vec<f64>),
}

impl Delta {
    pub fn of(pairs: &[Pair<'_>]) -> Delta {
        let both = pairs.iter().map(|p| (p.sample, &p.cluster, p.baseline));
        let binary = pairs.iter().all(|p| is_binary(p.candidate));
        if binary && is_plain(both) {
            return Delta::Plain(counts(pairs));
        }
        let differences = pairs.iter().map(|p| (p.sample, p.cluster.clone(), p.candidate - p.baseline));
        let by_sample = by_sample(differences.clone()).into_values().map(|(_, mean)| mean).collect();
        Delta::Mean(mean(differences), by_sample)
    }

    /// Tango's interval, or the t interval that is never narrower than Tango's without a flip.
    pub fn estimate(&self, level: f64) -> Estimate {
        match self {
            Delta::Plain(counts) => tango(counts, level),
            Delta::Mean(Some(error), _) => error.score_interval(level, 1.0, (-1.0, 1.0)),
            Delta::Mean(None, _) => Estimate::absent(level, 0, "t"),
        }
    }

    /// Exact McNemar, two-sided; absent where it doesn't apply.
    pub fn mcnemar_p(&self) -> Option<f64> {
        match self {
            Delta::Plain(counts) if counts.n() > 0 => Some(mcnemar(counts).p_two_sided),
            _ => None,
        }
    }

    /// Two-sided p of "no change": McNemar's, or the sign-flip test's.
    pub fn no_change_p(&self, seed: u64) -> Option<f64> {
        match self {
            Delta::Plain(_) => self.mcnemar_p(),
            Delta::Mean(_, differences) => sign_flip(differences, SIGN_FLIP_DRAWS, seed).map(|test| test.p_two_sided),
        }
    }

    /// One-sided p-values (within, beyond): for H: Δ ≤ −margin and for H: Δ ≥ −margin.
    pub fn margin_p(&self, margin: f64) -> Option<(f64, f64)> {
        match self {
            Delta::Plain(counts) => non_inferiority(counts, margin).map(|test| (test.p_within, test.p_beyond)),
            Delta::Mean(error, _) => error.as_ref()?.score_p_values(-margin, 1.0),
        }
    }

    /// Samples.
    pub fn n(&self) -> u64 {
        match self {
            Delta::Plain(counts) => counts.n(),
            Delta::Mean(error, _) => error.as_ref().map_or(0, |e| e.n),
        }
    }

    /// The one-sided interval shown for a `confidence`.
    pub fn at_confidence(&self, confidence: f64) -> Estimate {
        self.estimate(two_sided_level(confidence).unwrap_or(super::SHOWN_LEVEL))
    }

    /// Samples that would decide with a power of 80 %, if Δ and the share of flips are as seen.
    pub fn n_needed(&self, margin: f64, confidence: f64) -> Option<u64> {
        let design = Design { margin, confidence, power: POWER };
        match self {
            Delta::Plain(counts) => n_to_decide(counts.discordant_share()?, counts.delta()?, &design),
            Delta::Mean(error, differences) => {
                let error = error.as_ref()?;
                // The variance of a sample's difference takes the place of the share of flips.
                let spread = mean_error(differences)?.standard_error?.powi(2) * differences.len() as f64;
                let psi = (spread + error.mean.powi(2)).min(1.0);
                let effect = if error.effective_n > 0.0 { (error.n as f64 / error.effective_n).max(1.0) } else { 1.0 };
                let needed = n_to_decide(psi, error.mean, &design)? as f64 * effect;
                (needed < 1e15).then_some(needed.ceil() as u64)
            }
        }
    }
}

/// Exactly 0 or 1: what pass and fail are stored as.
#[allow(clippy::float_cmp)] // Stored, never computed.
fn is_binary(value: f64) -> bool {
    value == 0.0 || value == 1.0
}

/// All values 0 or 1, no sample twice, no shared cluster.
fn is_plain<'a>(values: impl Iterator<Item = (u32, &'a Cluster<'a>, f64)>) -> bool {
    let mut seen = BTreeSet::new();
    for (sample, cluster, value) in values {
        let plain = is_binary(value) && matches!(cluster, Cluster::Own(_)) && seen.insert(sample);
        if !plain {
            return false;
        }
    }
    true
}

/// Sample → (its cluster, mean of its values).
fn by_sample<'a>(values: impl Iterator<Item = (u32, Cluster<'a>, f64)>) -> BTreeMap<u32, (Cluster<'a>, f64)> {
    let mut sums: BTreeMap<u32, (Cluster<'a>, f64, u64)> = BTreeMap::new();
    for (sample, cluster, value) in values {
        let entry = sums.entry(sample).or_insert((cluster, 0.0, 0));
        entry.1 += value;
        entry.2 += 1;
    }
    sums.into_iter().map(|(sample, (cluster, sum, n))| (sample, (cluster, sum / n as f64))).collect()
}

fn mean<'a>(values: impl Iterator<Item = (u32, Cluster<'a>, f64)>) -> Option<MeanError> {
    let samples: Vec<(Cluster<'a>, f64)> = by_sample(values).into_values().collect();
    if samples.iter().any(|(cluster, _)| matches!(cluster, Cluster::Shared(..))) {
        return clustered_mean_error(&samples);
    }
    let plain: Vec<f64> = samples.iter().map(|(_, value)| *value).collect();
    mean_error(&plain)
}
