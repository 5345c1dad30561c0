//! A candidate against its baseline, on the same samples.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::SHOWN_LEVEL;
use super::arms::metric_names;
use super::costs;
use super::estimate::Estimate;
use super::rows::{Row, Run};
use super::samples::{Delta, Pair, Rate, Value, counts};
use super::speed::{ArmPair, Speeds, join};
use super::stats::{Sums, sums_ratio};
use super::summary::{ComparisonSummary, NoiseFloor, QualityDelta, RunVerdict};
use super::withdrawn::Withdrawn;
use crate::plan::Plan;

/// One comparison: its arms and their rows, matched by pair key.
pub struct Matched<'a> {
    pub arms: ArmPair,
    /// In the order of samples and repeats.
    pub pairs: Vec<RowPair<'a>>,
    /// The baseline's twin, if it has one.
    pub twin: Option<usize>,
}

#[derive(Clone, Copy)]
pub struct RowPair<'a> {
    pub baseline: &'a Row,
    pub candidate: &'a Row,
}

impl<'a> RowPair<'a> {
    /// Both arms' values of a metric; absent where either is unscored.
    pub fn values(&self, metric: &str) -> Option<Pair<'a>> {
        let (baseline, candidate) = (self.baseline.graded.metric(metric)?, self.candidate.graded.metric(metric)?);
        Some(Pair::of(self.baseline, baseline, candidate))
    }

    pub fn both_answered(&self) -> bool {
        self.baseline.is_answered() && self.candidate.is_answered()
    }

    pub fn changed(&self) -> bool {
        self.baseline.text_hash != self.candidate.text_hash
    }

    /// Pass or fail of both, where both are scored.
    pub fn passes(&self) -> Option<(bool, bool)> {
        self.baseline.graded.pass.zip(self.candidate.graded.pass)
    }
}

/// Matches the rows of two arms, within each stage of the load. The first row of a pair key stands.
pub fn matched(run: &Run, arms: ArmPair) -> Vec<RowPair<'_>> {
    let mut baseline = HashMap::new();
    for row in run.rows_of(arms.baseline) {
        baseline.entry((row.stage, row.pair)).or_insert(row);
    }
    let mut pairs: Vec<RowPair<'_>> = Vec::new();
    for candidate in run.rows_of(arms.candidate) {
        if let Some(baseline) = baseline.remove(&(candidate.stage, candidate.pair)) {
            pairs.push(RowPair { baseline, candidate });
        }
    }
    pairs.sort_by_key(|pair| (pair.baseline.sample, pair.baseline.repeat, pair.baseline.unit));
    pairs
}

/// The suite's comparisons by arm. One that names an arm the plan doesn't have is left out.
pub fn comparisons<'a>(plan: &Plan, run: &'a Run) -> Vec<Matched<'a>> {
    let index = |name: &str| plan.arms.iter().position(|arm| arm.name == name);
    let matched_of = |comparison: &crate::spec::Comparison| {
        let arms = ArmPair { baseline: index(&comparison.baseline)?, candidate: index(&comparison.candidate)? };
        let twin = plan.arms.iter().position(|arm| arm.twin_of.as_deref() == Some(comparison.baseline.as_str()));
        Some(Matched { arms, pairs: matched(run, arms), twin })
    };
    plan.suite.comparisons.iter().filter_map(matched_of).collect()
}

/// The comparison without its verdict and flips, which come after gates and texts.
pub fn summary(plan: &Plan, speeds: &Speeds<'_>, withdrawn: &Withdrawn, matched: &Matched<'_>) -> ComparisonSummary {
    let name = |arm: usize| plan.arms.get(arm).map(|a| a.name.clone()).unwrap_or_default();
    let arms = matched.arms;
    let deployment = plan.arms.get(arms.candidate).and_then(|arm| plan.suite.deployment(&arm.deployment));
    ComparisonSummary {
        baseline: name(arms.baseline),
        candidate: name(arms.candidate),
        optimization: deployment.map(|d| super::arms::name_of(&d.optimization)).unwrap_or_default(),
        verdict: RunVerdict::None,
        quality: quality(&matched.pairs),
        speed: withdrawn.ratios(arms, speeds.all(arms, SHOWN_LEVEL)),
        cost: costs::ratios(plan, speeds, arms),
        noise_floor: matched.twin.map(|twin| noise_floor(plan, speeds, withdrawn, arms.baseline, twin)),
        answers_changed: answers_changed(&matched.pairs),
        flip_rate: flip_rate(&matched.pairs),
        token_inflation: token_inflation(speeds, arms, &matched.pairs),
        first_divergence_chars: None,
        flips: Vec::new(),
        flips_total: matched.pairs.iter().filter(|p| p.passes().is_some_and(|(b, c)| b != c)).count() as u64,
    }
}

fn quality(pairs: &[RowPair<'_>]) -> BTreeMap<String, QualityDelta> {
    let baseline = metric_names(pairs.iter().map(|p| p.baseline));
    let candidate = metric_names(pairs.iter().map(|p| p.candidate));
    let metrics: BTreeSet<&String> = baseline.intersection(&candidate).collect();
    let of = |metric: &String| {
        let mut delta = quality_delta(pairs, metric)?;
        delta.by_task = by(pairs, metric, |row| Some(&row.task));
        delta.by_category = by(pairs, metric, |row| row.category.as_deref());
        Some((metric.clone(), delta))
    };
    metrics.into_iter().filter_map(of).collect()
}

fn by(pairs: &[RowPair<'_>], metric: &str, key: fn(&Row) -> Option<&str>) -> BTreeMap<String, QualityDelta> {
    let groups = group(pairs, key);
    groups.into_iter().filter_map(|(name, pairs)| Some((name, quality_delta(&pairs, metric)?))).collect()
}

pub fn group<'a>(pairs: &[RowPair<'a>], key: fn(&Row) -> Option<&str>) -> BTreeMap<String, Vec<RowPair<'a>>> {
    let mut groups: BTreeMap<String, Vec<RowPair<'a>>> = BTreeMap::new();
    for pair in pairs {
        if let Some(name) = key(pair.baseline) {
            groups.entry(name.to_owned()).or_default().push(*pair);
        }
    }
    groups
}

/// Absent where no pair is scored in both arms.
pub fn quality_delta(pairs: &[RowPair<'_>], metric: &str) -> Option<QualityDelta> {
    let values: Vec<Pair<'_>> = pairs.iter().filter_map(|pair| pair.values(metric)).collect();
    if values.is_empty() {
        return None;
    }
    let (delta, counts) = (Delta::of(&values), counts(&values));
    Some(QualityDelta {
        delta: delta.estimate(SHOWN_LEVEL),
        gained: counts.gained,
        lost: counts.lost,
        both_right: counts.both_right,
        both_wrong: counts.both_wrong,
        mcnemar_p: delta.mcnemar_p(),
        by_task: BTreeMap::new(),
        by_category: BTreeMap::new(),
    })
}

/// Share of pairs for which `is` holds, where it can be told.
fn share(pairs: &[RowPair<'_>], is: impl Fn(&RowPair<'_>) -> Option<bool>) -> Option<Estimate> {
    let told = |pair: &RowPair<'_>| is(pair).map(|holds| f64::from(u8::from(holds)));
    let values: Vec<Value<'_>> =
        pairs.iter().filter_map(|pair| told(pair).map(|value| Value::of(pair.baseline, value))).collect();
    (!values.is_empty()).then(|| Rate::of(&values).estimate(SHOWN_LEVEL))
}

pub fn answers_changed(pairs: &[RowPair<'_>]) -> Option<Estimate> {
    share(pairs, |pair| pair.both_answered().then(|| pair.changed()))
}

pub fn flip_rate(pairs: &[RowPair<'_>]) -> Option<Estimate> {
    share(pairs, |pair| pair.passes().map(|(baseline, candidate)| baseline != candidate))
}

/// Output tokens over pairs that both arms answered with a known count.
fn token_inflation(speeds: &Speeds<'_>, arms: ArmPair, pairs: &[RowPair<'_>]) -> Option<Estimate> {
    let (mut baseline, mut candidate) = (BTreeMap::new(), BTreeMap::new());
    for pair in pairs.iter().filter(|pair| pair.both_answered()) {
        // Counts of different provenance don't compare: a stream's events are no tokens.
        if pair.baseline.output_provenance != pair.candidate.output_provenance {
            continue;
        }
        let (Some(b), Some(c)) = (pair.baseline.output_tokens, pair.candidate.output_tokens) else { continue };
        for (blocks, row, tokens) in [(&mut baseline, pair.baseline, b), (&mut candidate, pair.candidate, c)] {
            let sums: &mut Sums = blocks.entry(row.block).or_default();
            sums.amount += tokens as f64;
            sums.per += 1.0;
        }
    }
    let estimate = sums_ratio(&join(&baseline, &candidate), &speeds.resampling(arms, "token_inflation", SHOWN_LEVEL));
    estimate.point.is_some().then_some(estimate)
}

fn noise_floor(plan: &Plan, speeds: &Speeds<'_>, withdrawn: &Withdrawn, baseline: usize, twin: usize) -> NoiseFloor {
    let arms = ArmPair { baseline, candidate: twin };
    let pairs = matched(speeds.run, arms);
    let point = |estimate: Option<Estimate>| estimate.and_then(|e| e.point);
    NoiseFloor {
        twin: plan.arms.get(twin).map(|a| a.name.clone()).unwrap_or_default(),
        flip_rate: point(flip_rate(&pairs)),
        answers_changed: point(answers_changed(&pairs)),
        delta: quality_delta(&pairs, "accuracy").map(|q| q.delta),
        speed: withdrawn.ratios(arms, speeds.all(arms, SHOWN_LEVEL)),
        n: pairs.len() as u64,
    }
}
