//! Ratios of two arms' speed, candidate ÷ baseline, by a bootstrap over blocks.

use std::collections::{BTreeMap, BTreeSet};

use super::estimate::Estimate;
use super::latency;
use super::rows::{Row, Run};
use super::stats::{BlockPair, BlockSums, Resampling, Sums, is_printable, percentile_ratio, sums_ratio};
use super::throughput::Rates;
use crate::spec::{LatencyFigure, SpeedMetric};
use crate::units::Id;

/// Two arms of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArmPair {
    pub baseline: usize,
    pub candidate: usize,
}

/// Which rows a figure rests on.
pub type RowFilter<'a> = &'a dyn Fn(&Row) -> bool;

/// What ratios are computed from.
#[derive(Clone, Copy)]
pub struct Speeds<'a> {
    pub run: &'a Run,
    pub rates: Rates<'a>,
    /// The suite's seed: the same files give the same intervals.
    pub seed: u64,
}

impl Speeds<'_> {
    pub fn resampling(&self, arms: ArmPair, what: &str, level: f64) -> Resampling {
        let (baseline, candidate) = ((arms.baseline as u64).to_le_bytes(), (arms.candidate as u64).to_le_bytes());
        let id = Id::of("bootstrap", &[&self.seed.to_le_bytes(), &baseline, &candidate, what.as_bytes()]);
        Resampling::new(level, id.as_u64())
    }

    /// The ratio of a metric; absent where an arm lacks it or has too few values to print it.
    ///
    /// `rows` restricts latencies and error rates. Rates of windows belong to the whole slot: under a restriction they
    /// are absent.
    pub fn ratio(
        &self,
        arms: ArmPair,
        metric: SpeedMetric,
        level: f64,
        rows: Option<RowFilter<'_>>,
    ) -> Option<Estimate> {
        let resampling = self.resampling(arms, &metric.to_string(), level);
        let estimate = match metric {
            SpeedMetric::Latency { figure, percentile } => {
                let q = f64::from(percentile) / 100.0;
                let blocks = self.latency_blocks(arms, figure, q, rows)?;
                percentile_ratio(&blocks, q, &resampling)
            }
            SpeedMetric::ErrorRate => sums_ratio(&self.error_blocks(arms, rows), &resampling),
            _ if rows.is_some() => return None,
            _ => {
                let baseline = self.rates.blocks(arms.baseline, metric)?;
                let candidate = self.rates.blocks(arms.candidate, metric)?;
                sums_ratio(&join(&baseline, &candidate), &resampling)
            }
        };
        (estimate.point.is_some() || estimate.low.is_some() || estimate.high.is_some()).then_some(estimate)
    }

    /// Every speed metric that both arms have.
    pub fn all(&self, arms: ArmPair, level: f64) -> BTreeMap<String, Estimate> {
        let metrics = SpeedMetric::all_names().into_iter().filter_map(|name| name.parse::<SpeedMetric>().ok());
        metrics.filter_map(|m| Some((m.to_string(), self.ratio(arms, m, level, None)?))).collect()
    }

    fn latency_blocks(
        &self,
        arms: ArmPair,
        figure: LatencyFigure,
        q: f64,
        filter: Option<RowFilter<'_>>,
    ) -> Option<Vec<BlockPair>> {
        let rows = |arm| self.run.rows_of(arm).filter(move |row| filter.is_none_or(|keep| keep(row)));
        if figure == LatencyFigure::Itl
            && !(latency::itl_stands(rows(arms.baseline)) && latency::itl_stands(rows(arms.candidate)))
        {
            return None;
        }
        let baseline = by_block(rows(arms.baseline), figure);
        let candidate = by_block(rows(arms.candidate), figure);
        let enough =
            |blocks: &BTreeMap<u32, Vec<f64>>| is_printable(blocks.values().map(|values| values.len() as u64).sum(), q);
        if !enough(&baseline) || !enough(&candidate) {
            return None;
        }
        let names: BTreeSet<u32> = baseline.keys().chain(candidate.keys()).copied().collect();
        let of = |blocks: &BTreeMap<u32, Vec<f64>>, block| blocks.get(block).cloned().unwrap_or_default();
        let pair = |block| BlockPair { baseline: of(&baseline, block), candidate: of(&candidate, block) };
        Some(names.iter().map(pair).collect())
    }

    fn error_blocks(&self, arms: ArmPair, filter: Option<RowFilter<'_>>) -> Vec<BlockSums> {
        let sums = |arm| {
            let mut blocks: BTreeMap<u32, Sums> = BTreeMap::new();
            for row in self.run.rows_of(arm).filter(|row| filter.is_none_or(|keep| keep(row))) {
                let sums = blocks.entry(row.block).or_default();
                sums.amount += f64::from(u8::from(row.outcome.is_error()));
                sums.per += 1.0;
            }
            blocks
        };
        join(&sums(arms.baseline), &sums(arms.candidate))
    }
}

/// Block by block, both arms side by side.
pub fn join(baseline: &BTreeMap<u32, Sums>, candidate: &BTreeMap<u32, Sums>) -> Vec<BlockSums> {
    let blocks: BTreeSet<u32> = baseline.keys().chain(candidate.keys()).copied().collect();
    let of = |sums: &BTreeMap<u32, Sums>, block| sums.get(block).copied().unwrap_or_default();
    blocks.iter().map(|block| BlockSums { baseline: of(baseline, block), candidate: of(candidate, block) }).collect()
}

fn by_block<'a>(rows: impl Iterator<Item = &'a Row>, figure: LatencyFigure) -> BTreeMap<u32, Vec<f64>> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for row in rows.filter(|row| latency::has(row, figure)) {
        let values = blocks.entry(row.block).or_default();
        match figure {
            LatencyFigure::Itl => {
                values.extend(row.itl_us().into_iter().flatten().map(|&us| f64::from(us) / 1e3));
            }
            _ => values.extend(latency::value(row, figure)),
        }
    }
    blocks
}
