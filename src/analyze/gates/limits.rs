//! Gates that hold a figure against a number: speed, SLOs, stability, cost.

use super::{Evidence, Finding, in_scope, is_everything, number, percent};
use crate::analyze::SHOWN_LEVEL;
use crate::analyze::arms::stability_counts;
use crate::analyze::costs;
use crate::analyze::estimate::{Estimate, two_sided_level};
use crate::analyze::rows::Row;
use crate::analyze::slo::Tail;
use crate::analyze::speed::ArmPair;
use crate::analyze::stats::{FEWEST_BLOCKS, clopper_pearson, is_printable, wilson};
use crate::analyze::summary::GateVerdict;
use crate::spec::{CostMetric, LatencyFigure, Scope, SloTarget, SpeedMetric};

/// Where a ratio must lie.
#[derive(Clone, Copy)]
pub struct Range {
    pub at_most: Option<f64>,
    pub at_least: Option<f64>,
}

impl Range {
    pub fn text(self) -> String {
        let most = self.at_most.map(|limit| format!("at most {}", number(limit)));
        let least = self.at_least.map(|limit| format!("at least {}", number(limit)));
        most.into_iter().chain(least).collect::<Vec<_>>().join(" and ")
    }

    fn bound(self) -> Option<f64> {
        self.at_most.or(self.at_least)
    }
}

fn level(confidence: f64) -> f64 {
    two_sided_level(confidence).unwrap_or(SHOWN_LEVEL)
}

/// The gate is held by the interval's ends, never by its point.
fn by_interval(estimate: Estimate, range: Range, blocks_needed: bool) -> Finding {
    let passes_most = range.at_most.is_none_or(|limit| estimate.high.is_some_and(|high| high <= limit));
    let passes_least = range.at_least.is_none_or(|limit| estimate.low.is_some_and(|low| low >= limit));
    let above = range.at_most.is_some_and(|limit| estimate.low.is_some_and(|low| low > limit));
    let below = range.at_least.is_some_and(|limit| estimate.high.is_some_and(|high| high < limit));
    let asked = range.bound().is_some();
    let shown = ratio_text(&estimate);
    let (verdict, reason) = if above || below {
        (GateVerdict::Fail, format!("ratio {shown}: certainly not {}", range.text()))
    } else if asked && passes_most && passes_least {
        (GateVerdict::Pass, format!("ratio {shown}: {}", range.text()))
    } else if blocks_needed && estimate.n < FEWEST_BLOCKS as u64 {
        let reason = format!("ratio {shown}: {} blocks carry no interval, {FEWEST_BLOCKS} are needed", estimate.n);
        (GateVerdict::Inconclusive, reason)
    } else {
        (GateVerdict::Inconclusive, format!("ratio {shown}: the interval doesn't decide {}", range.text()))
    };
    Finding { verdict, estimate: Some(estimate), bound: range.bound(), reason }
}

fn withdrawn(code: &str, bound: Option<f64>) -> Finding {
    let reason = format!("the figure is withdrawn ({code}): see the validity findings");
    Finding { verdict: GateVerdict::Inconclusive, estimate: None, bound, reason }
}

pub fn speed(
    evidence: &Evidence<'_>,
    arms: ArmPair,
    metric: SpeedMetric,
    range: Range,
    confidence: f64,
    scope: &Scope,
) -> Finding {
    if let Some(code) = evidence.withdrawn.ratio(arms, metric) {
        return withdrawn(code, range.bound());
    }
    let keep = |row: &Row| in_scope(row, scope);
    let rows: Option<&dyn Fn(&Row) -> bool> = if is_everything(scope) { None } else { Some(&keep) };
    match evidence.speeds.ratio(arms, metric, level(confidence), rows) {
        Some(estimate) => by_interval(estimate, range, true),
        None => Finding::not_evaluable(format!("`{metric}` is missing in an arm, or has too few values to be told")),
    }
}

pub fn cost(
    evidence: &Evidence<'_>,
    arms: ArmPair,
    metric: CostMetric,
    range: Range,
    confidence: f64,
    scope: &Scope,
) -> Finding {
    let keep = |row: &Row| in_scope(row, scope);
    let rows: Option<&dyn Fn(&Row) -> bool> = if is_everything(scope) { None } else { Some(&keep) };
    match costs::ratio(evidence.plan, &evidence.speeds, arms, metric, level(confidence), rows) {
        Ok(estimate) => by_interval(estimate, range, true),
        Err(why) => Finding::not_evaluable(why),
    }
}

/// One answer for each line of `slo:`: (what is asked, unit, answer).
pub fn slo(
    evidence: &Evidence<'_>,
    arm: usize,
    confidence: Option<f64>,
    scope: &Scope,
) -> Vec<(String, &'static str, Finding)> {
    if evidence.plan.suite.slo.is_empty() {
        let found = Finding::not_evaluable("the suite sets no `slo:`");
        return vec![("slo: all".to_owned(), "ms", found)];
    }
    let rows = evidence.rows(arm, scope);
    let one = |target: &SloTarget| {
        let (unit, limit) = match target.metric {
            SpeedMetric::Latency { .. } => ("ms", format!("{} ms", number(target.at_most))),
            SpeedMetric::ErrorRate => ("share", percent(target.at_most)),
            _ => ("per_s", format!("{}/s", number(target.at_most))),
        };
        let found = match evidence.withdrawn.figure(arm, target.metric) {
            Some(code) => withdrawn(code, Some(target.at_most)),
            None if rows.is_empty() => Finding::not_evaluable("no request was made"),
            None => slo_target(evidence, arm, &rows, target, confidence, scope),
        };
        (format!("slo: {} at most {limit}", target.metric), unit, found)
    };
    evidence.plan.suite.slo.iter().map(one).collect()
}

fn slo_target(
    evidence: &Evidence<'_>,
    arm: usize,
    rows: &[&Row],
    target: &SloTarget,
    confidence: Option<f64>,
    scope: &Scope,
) -> Finding {
    match target.metric {
        SpeedMetric::Latency { figure, percentile } => {
            slo_latency(rows, figure, f64::from(percentile) / 100.0, target.at_most, confidence)
        }
        SpeedMetric::ErrorRate => by_rate(stability_counts(rows, "error_rate"), target.at_most, confidence),
        metric if is_everything(scope) => {
            let throughput = evidence.speeds.rates.throughput(arm);
            let value = match metric {
                SpeedMetric::RequestsPerS => throughput.requests_per_s,
                SpeedMetric::OutputTokensPerS => throughput.output_tokens_per_s,
                _ => throughput.input_tokens_per_s,
            };
            value.map_or_else(
                || Finding::not_evaluable(format!("`{metric}` can't be told")),
                |value| {
                    observed(
                        Estimate::point_only(Some(value), SHOWN_LEVEL, rows.len() as u64, "observed"),
                        target.at_most,
                        "",
                        per_s,
                    )
                },
            )
        }
        metric => Finding::not_evaluable(format!("`{metric}` belongs to the whole slot and has no scope")),
    }
}

/// A percentile in which every failed request counts as +∞.
fn slo_latency(rows: &[&Row], figure: LatencyFigure, q: f64, at_most: f64, confidence: Option<f64>) -> Finding {
    let tail = match Tail::of(rows, figure) {
        Ok(tail) => tail,
        Err(why) => return Finding::not_evaluable(why),
    };
    let n = tail.n();
    let failures =
        if tail.failed > 0 { format!(" ({} failures count as infinite)", tail.failed) } else { String::new() };
    if !is_printable(n, q) {
        let needed = (10.0 / (1.0 - q).min(q)).ceil();
        let reason = format!("{n} requests don't carry this percentile, {needed} do{failures}");
        return Finding { bound: Some(at_most), verdict: GateVerdict::Inconclusive, ..Finding::not_evaluable(reason) };
    }
    let level = confidence.map_or(SHOWN_LEVEL, level);
    let estimate = tail.estimate(q, level);
    let failed = |reason: String| Finding {
        verdict: GateVerdict::Fail,
        estimate: Some(estimate.clone()),
        bound: Some(at_most),
        reason,
    };
    match confidence {
        None if tail.percentile(q).is_some_and(f64::is_infinite) => {
            failed(format!("the percentile is a failed request{failures}"))
        }
        None => observed(estimate, at_most, &failures, ms),
        Some(_) if tail.ends(q, level).0.is_some_and(f64::is_infinite) => {
            failed(format!("certainly a failed request{failures}"))
        }
        Some(_) => bounded(estimate, at_most, &failures, ms),
    }
}

pub fn stability(
    evidence: &Evidence<'_>,
    arm: usize,
    metric: &str,
    at_most: f64,
    confidence: Option<f64>,
    scope: &Scope,
) -> Finding {
    by_rate(stability_counts(&evidence.rows(arm, scope), metric), at_most, confidence)
}

fn by_rate(counts: Option<(u64, u64)>, at_most: f64, confidence: Option<f64>) -> Finding {
    let Some((count, n)) = counts.filter(|(_, n)| *n > 0) else {
        return Finding::not_evaluable("no request was made");
    };
    let seen = format!(" ({count} of {n})");
    match confidence {
        None => observed(wilson(count, n, SHOWN_LEVEL), at_most, &seen, percent),
        Some(confidence) => bounded(clopper_pearson(count, n, level(confidence)), at_most, &seen, percent),
    }
}

/// How a figure's values are written.
type Write = fn(f64) -> String;

fn ms(value: f64) -> String {
    format!("{} ms", short(value))
}

fn per_s(value: f64) -> String {
    format!("{}/s", short(value))
}

/// By the observed value alone.
fn observed(estimate: Estimate, at_most: f64, seen: &str, write: Write) -> Finding {
    let Some(point) = estimate.point else {
        return Finding::not_evaluable("there is no value");
    };
    let (verdict, word) = if point <= at_most { (GateVerdict::Pass, "within") } else { (GateVerdict::Fail, "above") };
    let reason = format!("observed {}{seen}, {word} {}", write(point), write(at_most));
    Finding { verdict, estimate: Some(estimate), bound: Some(at_most), reason }
}

/// By the interval's ends.
fn bounded(estimate: Estimate, at_most: f64, seen: &str, write: Write) -> Finding {
    let (verdict, word) = match (estimate.low, estimate.high) {
        (_, Some(high)) if high <= at_most => (GateVerdict::Pass, "certainly within"),
        (Some(low), _) if low > at_most => (GateVerdict::Fail, "certainly above"),
        _ => (GateVerdict::Inconclusive, "not certainly within"),
    };
    let end = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), write);
    let interval = format!("{} [{}, {}]", end(estimate.point), end(estimate.low), end(estimate.high));
    let reason = format!("{interval}{seen}, {word} {}", write(at_most));
    Finding { verdict, estimate: Some(estimate), bound: Some(at_most), reason }
}

fn ratio_text(estimate: &Estimate) -> String {
    let of = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), |v| format!("{v:.3}"));
    match (estimate.low, estimate.high) {
        (None, None) => of(estimate.point),
        (low, high) => format!("{} [{}, {}]", of(estimate.point), of(low), of(high)),
    }
}

/// Three significant digits.
fn short(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 100.0 {
        format!("{value:.0}")
    } else if magnitude >= 10.0 {
        format!("{value:.1}")
    } else if magnitude >= 1.0 || value == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}
