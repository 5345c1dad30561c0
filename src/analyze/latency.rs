//! Latencies of answered measured requests: percentiles with their intervals, and a curve to draw.

use std::collections::BTreeMap;

use super::SHOWN_LEVEL;
use super::histogram::Histogram;
use super::rows::Row;
use super::stats::{is_printable, percentile, percentile_estimate, sorted};
use super::summary::{Distribution, ItlValidity, Latency};
use crate::spec::{LatencyFigure, PERCENTILES};

const CDF_POINTS: usize = 100;
/// Share of answered streamed requests whose gaps between events must stand for gaps between tokens.
const ITL_VALID_NEEDED: f64 = 0.9;

/// Whether a request's figure counts. An answer that is empty or refused has taken its time, and has no tokens to time.
pub fn has(row: &Row, figure: LatencyFigure) -> bool {
    match figure {
        LatencyFigure::E2e | LatencyFigure::Response => row.outcome.is_served(),
        _ => row.is_answered(),
    }
}

/// A figure's values of answered requests, in milliseconds.
pub fn values<'a>(rows: impl Iterator<Item = &'a Row> + Clone, figure: LatencyFigure) -> Vec<f64> {
    let answered = rows.filter(|row| has(row, figure));
    if figure == LatencyFigure::Itl {
        let gaps = answered.filter_map(Row::itl_us).flatten();
        return gaps.map(|&us| f64::from(us) / 1e3).collect();
    }
    answered.filter_map(|row| value(row, figure)).collect()
}

/// One request's figure in milliseconds; ITL has many and none here.
pub fn value(row: &Row, figure: LatencyFigure) -> Option<f64> {
    match figure {
        LatencyFigure::Ttft => row.ttft_ms,
        LatencyFigure::Ttfa => row.ttfa_ms,
        LatencyFigure::Tpot => row.tpot_ms,
        LatencyFigure::E2e => row.e2e_ms,
        LatencyFigure::Response => row.response_ms,
        LatencyFigure::Itl => None,
    }
}

/// Whether an arm's gaps between events are gaps between tokens for (nearly) all of its streamed answers. A subset
/// that happens to be valid would flatter an arm that sends several tokens at once.
pub fn itl_stands<'a>(rows: impl Iterator<Item = &'a Row>) -> bool {
    itl_validity(rows).is_some_and(|validity| validity.valid)
}

/// The same with its share and reason; absent without a streamed answer.
fn itl_validity<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<ItlValidity> {
    let (mut streamed, mut known) = (0_u64, 0_u64);
    for row in rows.filter(|row| row.is_answered() && row.ttft_ms.is_some()) {
        streamed += 1;
        known += u64::from(row.itl_us().is_some());
    }
    let valid = known as f64 >= ITL_VALID_NEEDED * streamed as f64;
    let reason = (!valid).then(|| {
        format!(
            "in {} of {streamed} streamed answers an event carries several tokens, or nobody told how many tokens there are",
            streamed - known
        )
    });
    (streamed > 0).then(|| ItlValidity { valid, share: known as f64 / streamed as f64, reason })
}

/// All latencies of one arm.
pub fn of_arm(rows: &[&Row]) -> Latency {
    let all = rows.iter().copied();
    let of = |figure| distribution(values(all.clone(), figure));
    let lag = all.clone().filter(|row| row.is_answered()).filter_map(|row| row.dispatch_lag_ms).collect();
    let answered = || all.clone().filter(|row| row.is_answered());
    let icl = answered().filter_map(|row| row.icl_us.as_deref()).flatten().map(|&us| f64::from(us) / 1e3);
    let from_intended = answered().filter_map(|row| row.ttft_response_ms);
    Latency {
        ttft_ms: of(LatencyFigure::Ttft),
        ttfa_ms: of(LatencyFigure::Ttfa),
        tpot_ms: of(LatencyFigure::Tpot),
        itl_ms: itl_stands(all.clone()).then(|| of(LatencyFigure::Itl)).flatten(),
        itl_validity: itl_validity(all.clone()),
        icl_ms: distribution(icl.collect()),
        ttft_response_ms: distribution(from_intended.collect()),
        e2e_ms: of(LatencyFigure::E2e),
        response_ms: of(LatencyFigure::Response),
        dispatch_lag_ms: distribution(lag),
        ttft_parts_ms: parts(rows),
    }
}

/// TTFT's parts where the server tells them: `prefill` is its own prompt time, `rest` what is left (queue, network,
/// first decode); `connect` where the request opened its connection.
fn parts(rows: &[&Row]) -> BTreeMap<String, Distribution> {
    let answered = || rows.iter().filter(|row| row.is_answered());
    let prefill = answered().filter(|row| row.ttft_ms.is_some()).filter_map(|row| row.server.prompt_ms).collect();
    let rest = answered().filter_map(|row| Some(row.ttft_ms? - row.server.prompt_ms?)).filter(|ms| *ms >= 0.0);
    let parts = [
        ("connect", answered().filter_map(|row| row.connect_ms).collect()),
        ("prefill", prefill),
        ("rest", rest.collect()),
    ];
    let named = parts.into_iter().map(|(name, values): (_, Vec<f64>)| (name, distribution(values)));
    named.filter_map(|(name, found)| Some((name.to_owned(), found?))).collect()
}

/// Absent without values.
pub fn distribution(values: Vec<f64>) -> Option<Distribution> {
    let values = sorted(values.into_iter().filter(|v| v.is_finite()));
    let n = values.len() as u64;
    let max = values.last().copied()?;
    let at = |q: u8| {
        let q = f64::from(q) / 100.0;
        percentile(&values, q).filter(|_| is_printable(n, q))
    };
    let mut intervals = BTreeMap::new();
    for q in PERCENTILES {
        let estimate = percentile_estimate(&values, f64::from(q) / 100.0, SHOWN_LEVEL);
        if let (Some(_), Some(low), Some(high)) = (at(q), estimate.low, estimate.high) {
            intervals.insert(format!("p{q}"), (low, high));
        }
    }
    Some(Distribution {
        p50: at(50),
        p90: at(90),
        p95: at(95),
        p99: at(99),
        mean: Some(values.iter().sum::<f64>() / n as f64).filter(|mean| mean.is_finite()),
        max: Some(max),
        n,
        intervals,
        cdf: cdf(&values),
        histogram: Histogram::of_ms(values.iter().copied()),
    })
}

/// Up to 100 points (value, share at or below), evenly spaced in share.
fn cdf(sorted: &[f64]) -> Vec<(f64, f64)> {
    let n = sorted.len();
    let points = n.min(CDF_POINTS);
    (1..=points)
        .filter_map(|k| {
            let rank = (k * n).div_ceil(points);
            Some((*sorted.get(rank - 1)?, rank as f64 / n as f64))
        })
        .collect()
}
