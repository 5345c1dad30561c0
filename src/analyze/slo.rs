//! Percentiles for SLOs: a failed request counts as one that never ends.

use super::estimate::Estimate;
use super::latency;
use super::rows::Row;
use super::stats::{interval_ranks, percentile, percentile_estimate, sorted};
use crate::spec::LatencyFigure;

/// The values of one figure, failures as +∞.
pub struct Tail {
    sorted: Vec<f64>,
    /// Requests that failed.
    pub failed: u64,
}

impl Tail {
    /// Rows that carry no latency are left out; so a task without latencies has none to be failed. The error says why the
    /// figure can't be told.
    ///
    /// A request has one value, but many gaps between tokens: one that failed stands for as many infinite gaps as an
    /// answered one has on average.
    pub fn of(rows: &[&Row], figure: LatencyFigure) -> Result<Tail, String> {
        let timed = || rows.iter().copied().filter(|row| row.timed);
        let failed = timed().filter(|row| row.outcome.is_error()).count();
        let answered = latency::values(timed(), figure);
        let mut each = 1;
        if figure == LatencyFigure::Itl && timed().any(Row::is_answered) {
            if !latency::itl_stands(timed()) {
                return Err("gaps between events do not stand for gaps between tokens".to_owned());
            }
            each = answered.len().div_ceil(timed().filter(|row| row.is_answered()).count().max(1)).max(1);
        }
        if answered.is_empty() && failed == 0 {
            return Err(format!("no answer has a {}", figure.name()));
        }
        let failures = std::iter::repeat_n(f64::INFINITY, failed * each);
        Ok(Tail { sorted: sorted(answered.into_iter().chain(failures)), failed: failed as u64 })
    }

    pub fn n(&self) -> u64 {
        self.sorted.len() as u64
    }

    /// May be infinite.
    pub fn percentile(&self, q: f64) -> Option<f64> {
        percentile(&self.sorted, q)
    }

    /// Ends of the order-statistic interval at a two-sided level; they may be infinite, and are absent where their rank
    /// lies outside the sample.
    pub fn ends(&self, q: f64, level: f64) -> (Option<f64>, Option<f64>) {
        let (low, high) = interval_ranks(self.n(), q, level);
        let at = |rank: Option<u64>| rank.and_then(|rank| self.sorted.get((rank - 1) as usize)).copied();
        (at(low), at(high))
    }

    /// For files and reports: what is infinite is absent.
    pub fn estimate(&self, q: f64, level: f64) -> Estimate {
        percentile_estimate(&self.sorted, q, level)
    }
}
