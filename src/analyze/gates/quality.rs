//! Non-inferiority of a quality metric, its floor, and what unscored answers do to both.

use super::{Evidence, Finding, in_scope, number, percent};
use crate::analyze::compare::{Matched, RowPair};
use crate::analyze::estimate::Estimate;
use crate::analyze::rows::Row;
use crate::analyze::samples::{Delta, Pair, Rate, Value};
use crate::analyze::stats::holm;
use crate::analyze::summary::GateVerdict;
use crate::spec::{GraderSpec, RESERVED_METRICS, Scope};

/// What the gate asks.
pub struct Asked<'a> {
    pub metric: &'a str,
    pub margin: f64,
    pub confidence: f64,
    pub at_least: Option<f64>,
}

/// One scope's data, twice: as scored, and with the candidate's unscored answers as failures.
struct Case {
    scored: Delta,
    harsh: Delta,
    /// The candidate's rate, likewise.
    rate: Rate,
    harsh_rate: Rate,
    /// Pairs that the baseline scored and the candidate didn't.
    candidate_unscored: u64,
    /// Pairs that the baseline didn't score.
    left_out: u64,
    /// (within, beyond) of either.
    p: Option<(f64, f64)>,
    harsh_p: Option<(f64, f64)>,
}

/// Judges a family of scopes: each passes by itself, and fails after Holm's correction over the family.
pub fn family(evidence: &Evidence<'_>, matched: &Matched<'_>, asked: &Asked<'_>, scopes: &[Scope]) -> Vec<Finding> {
    let cases: Vec<Case> = scopes.iter().map(|scope| case(evidence, matched, asked, scope)).collect();
    let beyond: Vec<Option<f64>> = cases.iter().map(Case::p_beyond).collect();
    cases.iter().zip(holm(&beyond)).map(|(case, adjusted)| judge(case, asked, adjusted, scopes.len())).collect()
}

/// Whether the row's task has the metric: `accuracy` and `success` belong to every task, a grader's own name to the
/// tasks that have such a grader.
fn has_metric(evidence: &Evidence<'_>, row: &Row, metric: &str) -> bool {
    let of_grader = |grader: &GraderSpec| metric == grader.name || metric.starts_with(&format!("{}.", grader.name));
    RESERVED_METRICS.contains(&metric)
        || evidence.plan.suite.task(&row.task).is_some_and(|task| task.graders.iter().any(of_grader))
}

fn case(evidence: &Evidence<'_>, matched: &Matched<'_>, asked: &Asked<'_>, scope: &Scope) -> Case {
    let concerns = |row: &Row| in_scope(row, scope) && has_metric(evidence, row, asked.metric);
    let pairs: Vec<&RowPair<'_>> = matched.pairs.iter().filter(|pair| concerns(pair.baseline)).collect();
    let (mut scored, mut harsh) = (Vec::new(), Vec::new());
    let (mut candidate_unscored, mut left_out) = (0, 0);
    for pair in pairs {
        let Some(baseline) = pair.baseline.graded.metric(asked.metric) else {
            left_out += 1;
            continue;
        };
        let candidate = pair.candidate.graded.metric(asked.metric);
        harsh.push(Pair::of(pair.baseline, baseline, candidate.unwrap_or(0.0)));
        match candidate {
            Some(candidate) => scored.push(Pair::of(pair.baseline, baseline, candidate)),
            None => candidate_unscored += 1,
        }
    }
    let rows: Vec<&Row> =
        evidence.rows(matched.arms.candidate, scope).into_iter().filter(|row| concerns(row)).collect();
    let value = |row: &Row| row.graded.metric(asked.metric);
    let own: Vec<Value<'_>> = rows.iter().filter_map(|row| value(row).map(|v| Value::of(row, v))).collect();
    let harsh_own: Vec<Value<'_>> = rows.iter().map(|row| Value::of(row, value(row).unwrap_or(0.0))).collect();
    let (scored, harsh) = (Delta::of(&scored), Delta::of(&harsh));
    let (p, harsh_p) = (scored.margin_p(asked.margin), harsh.margin_p(asked.margin));
    let (rate, harsh_rate) = (Rate::of(&own), Rate::of(&harsh_own));
    Case { scored, harsh, rate, harsh_rate, candidate_unscored, left_out, p, harsh_p }
}

impl Case {
    /// The stronger evidence for a loss beyond the margin: as scored, or with unscored answers as failures.
    fn p_beyond(&self) -> Option<f64> {
        let both = [self.p, self.harsh_p].into_iter().flatten().map(|(_, beyond)| beyond);
        both.reduce(f64::min)
    }

    fn unscored_note(&self) -> String {
        let mut notes = Vec::new();
        if self.candidate_unscored > 0 {
            notes.push(format!("{} answers of the candidate are unscored", self.candidate_unscored));
        }
        if self.left_out > 0 {
            notes.push(format!("{} samples that the baseline didn't score are left out", self.left_out));
        }
        if notes.is_empty() { String::new() } else { format!("; {}", notes.join(", ")) }
    }
}

fn judge(case: &Case, asked: &Asked<'_>, adjusted: Option<f64>, family: usize) -> Finding {
    if case.harsh.n() == 0 {
        let reason = format!("no sample has a `{}` in both arms{}", asked.metric, case.unscored_note());
        return Finding::not_evaluable(reason);
    }
    let (verdict, reason) = loss(case, asked, adjusted, family);
    let (floor_verdict, floor_reason) = floor(case, asked);
    let reasons: Vec<String> = [Some(reason), floor_reason].into_iter().flatten().collect();
    Finding {
        verdict: verdict.max(floor_verdict),
        estimate: (case.scored.n() > 0).then(|| case.scored.at_confidence(asked.confidence)),
        bound: Some(-asked.margin),
        reason: format!("{}{}", reasons.join("; "), case.unscored_note()),
    }
}

/// The verdict on the loss itself.
fn loss(case: &Case, asked: &Asked<'_>, adjusted: Option<f64>, family: usize) -> (GateVerdict, String) {
    let alpha = 1.0 - asked.confidence;
    let estimate = case.scored.at_confidence(asked.confidence);
    let margin = number(100.0 * asked.margin);
    let shown = match case.scored.n() {
        0 => format!("no sample has a `{}` in both arms, margin {margin} pp", asked.metric),
        _ => format!("Δ = {}, margin {margin} pp", points(&estimate)),
    };
    if adjusted.is_some_and(|p| p <= alpha) {
        let harsh = case.harsh.at_confidence(asked.confidence);
        let reason = match case.p.filter(|(_, beyond)| *beyond <= alpha) {
            Some((_, beyond)) => format!("{shown}: the loss is beyond the margin ({})", p_text(beyond)),
            None => format!("{shown}: with its unscored answers as failures Δ = {}, beyond the margin", points(&harsh)),
        };
        return (GateVerdict::Fail, reason);
    }
    let Some((within, beyond)) = case.p else {
        return (GateVerdict::Inconclusive, format!("{shown}: fewer than two independent samples tell nothing"));
    };
    let harsh_within = case.harsh_p.is_some_and(|(within, _)| within <= alpha);
    if within <= alpha && harsh_within {
        return (GateVerdict::Pass, format!("{shown}: within the margin ({})", p_text(within)));
    }
    if within <= alpha {
        let harsh = case.harsh.at_confidence(asked.confidence);
        let reason =
            format!("{shown}: passes as scored, but with its unscored answers as failures Δ = {}", points(&harsh));
        return (GateVerdict::Inconclusive, reason);
    }
    let uncorrected = case.p_beyond().is_some_and(|p| p <= alpha);
    let reason = if uncorrected && family > 1 {
        format!("{shown}: beyond the margin alone ({}), not among {family}", p_text(beyond))
    } else {
        format!("{shown}: {}", undecided(case, asked, &estimate, within))
    };
    (GateVerdict::Inconclusive, reason)
}

fn undecided(case: &Case, asked: &Asked<'_>, estimate: &Estimate, within: f64) -> String {
    let needed = case.scored.n_needed(asked.margin, asked.confidence).filter(|n| *n > case.scored.n());
    let needs = needed.map_or_else(
        || format!("{} samples don't decide ({})", case.scored.n(), p_text(within)),
        |n| format!("needs about {} samples, has {} ({})", rounded(n), case.scored.n(), p_text(within)),
    );
    let worse = estimate.high.is_some_and(|high| high < 0.0);
    if worse { format!("worse, size undecided: {needs}") } else { needs }
}

/// The absolute floor: the candidate's own rate, exact one-sided bounds at the gate's confidence.
fn floor(case: &Case, asked: &Asked<'_>) -> (GateVerdict, Option<String>) {
    let Some(at_least) = asked.at_least else {
        return (GateVerdict::Pass, None);
    };
    let level = crate::analyze::estimate::two_sided_level(asked.confidence).unwrap_or(crate::analyze::SHOWN_LEVEL);
    let (rate, harsh) = (case.rate.estimate(level), case.harsh_rate.estimate(level));
    let said = |what: &str, estimate: &Estimate| {
        format!("{} is {} {what} of {}", asked.metric, share_text(estimate), percent(at_least))
    };
    let as_scored = case.rate.reaches(at_least, asked.confidence);
    let as_failures = case.harsh_rate.reaches(at_least, asked.confidence);
    match (as_scored, as_failures) {
        (Some(false), _) => (GateVerdict::Fail, Some(said("and below the floor", &rate))),
        (_, Some(false)) => {
            (GateVerdict::Fail, Some(said("with unscored answers as failures, below the floor", &harsh)))
        }
        (Some(true), Some(true)) => (GateVerdict::Pass, Some(said("and above the floor", &rate))),
        _ => (GateVerdict::Inconclusive, Some(said("and not certainly above the floor", &rate))),
    }
}

/// `−1.2 pp [−3.1, +0.7]`
fn points(estimate: &Estimate) -> String {
    let pp =
        |value: Option<f64>| value.map_or_else(|| "?".to_owned(), |v| format!("{:+.1}", 100.0 * v).replace('-', "−"));
    match (estimate.low, estimate.high) {
        (None, None) => format!("{} pp", pp(estimate.point)),
        (low, high) => format!("{} pp [{}, {}]", pp(estimate.point), pp(low), pp(high)),
    }
}

fn share_text(estimate: &Estimate) -> String {
    let of = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), |v| format!("{:.1}", 100.0 * v));
    format!("{} % [{}, {}]", of(estimate.point), of(estimate.low), of(estimate.high))
}

fn p_text(p: f64) -> String {
    if p < 0.0005 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") }
}

/// Two digits are all that such a number can promise.
fn rounded(n: u64) -> u64 {
    let mut step = 1;
    while n / step >= 100 {
        step *= 10;
    }
    n.div_ceil(step) * step
}
