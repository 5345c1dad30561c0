//! Goodput: answers within the SLO's numbers, request by request.
//!
//! A request is good if each of its own figures that the SLO names is within the SLO's number. Where the SLO bounds
//! several percentiles of one figure, a single request is held to the widest of them. Gaps between tokens are many for
//! one request and take no part.

use std::collections::BTreeMap;

use super::SHOWN_LEVEL;
use super::estimate::Estimate;
use super::latency;
use super::rows::Row;
use super::stats::wilson;
use crate::spec::{LatencyFigure, SloTarget, SpeedMetric};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Goodput {
    pub per_s: Option<f64>,
    pub correct_per_s: Option<f64>,
    pub attainment: Option<Estimate>,
}

/// The widest number of each figure, in milliseconds.
pub fn limits(slo: &[SloTarget]) -> BTreeMap<LatencyFigure, f64> {
    let mut limits: BTreeMap<LatencyFigure, f64> = BTreeMap::new();
    for target in slo {
        if let SpeedMetric::Latency { figure, .. } = target.metric
            && figure != LatencyFigure::Itl
        {
            limits.entry(figure).and_modify(|limit| *limit = limit.max(target.at_most)).or_insert(target.at_most);
        }
    }
    limits
}

/// Rows are those of one step, `answers_per_s` its rate. All is absent without a latency SLO, and where no answer has a
/// figure that it names. Requests that carry no latency are left out.
pub fn of_step(rows: &[&Row], slo: &[SloTarget], answers_per_s: Option<f64>) -> Goodput {
    let limits = limits(slo);
    let timed: Vec<&Row> = rows.iter().copied().filter(|row| row.timed).collect();
    let answered: Vec<&Row> = timed.iter().copied().filter(|row| row.is_answered()).collect();
    let told = |figure: &LatencyFigure| answered.iter().any(|row| latency::value(row, *figure).is_some());
    if limits.is_empty() || timed.is_empty() || (!answered.is_empty() && !limits.keys().all(told)) {
        return Goodput::default();
    }
    let good: Vec<&Row> = answered.iter().copied().filter(|row| is_good(row, &limits)).collect();
    let correct = good.iter().filter(|row| row.graded.pass == Some(true)).count();
    // Of the answers that end in the window as many are good as of those that carry latencies.
    let rate = |count: usize| answers_per_s.map(|rate| rate * count as f64 / answered.len().max(1) as f64);
    let gradable = answered.iter().any(|row| row.graded.unscored_why.as_deref() != Some("no_grader"));
    Goodput {
        per_s: rate(good.len()),
        correct_per_s: rate(correct).filter(|_| gradable),
        attainment: Some(wilson(good.len() as u64, timed.len() as u64, SHOWN_LEVEL)),
    }
}

fn is_good(row: &Row, limits: &BTreeMap<LatencyFigure, f64>) -> bool {
    limits.iter().all(|(figure, limit)| match latency::value(row, *figure) {
        Some(ms) => ms <= *limit,
        // An answer of one token has no time per further token, and keeps nobody waiting for it.
        None => *figure == LatencyFigure::Tpot,
    })
}
