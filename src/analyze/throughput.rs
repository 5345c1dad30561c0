//! Rates of one arm inside its own windows.

use std::collections::BTreeMap;

use super::stats::Sums;
use super::summary::Throughput;
use super::windows::{Counts, PARTS, Part, Window, Windows};
use crate::spec::SpeedMetric;

/// Which part of the windows counts, decided once for all arms of the run, or of one stage of it.
#[derive(Clone, Copy)]
pub struct Rates<'a> {
    windows: &'a [Window],
    stage: Option<u16>,
    trimmed: bool,
}

impl<'a> Rates<'a> {
    pub fn new(windows: &'a [Window]) -> Self {
        Rates { windows, stage: None, trimmed: Windows::trimmed(windows.iter()) }
    }

    /// Of one stage alone.
    pub fn of_stage(windows: &'a [Window], stage: u16) -> Self {
        let trimmed = Windows::trimmed(windows.iter().filter(|w| w.stage == stage));
        Rates { windows, stage: Some(stage), trimmed }
    }

    pub fn is_trimmed(self) -> bool {
        self.trimmed
    }

    fn of_arm(self, arm: usize) -> impl Iterator<Item = &'a Window> {
        self.windows.iter().filter(move |w| w.arm == arm && self.stage.is_none_or(|stage| w.stage == stage))
    }

    fn counts(self, window: &'a Window) -> &'a Counts {
        if self.trimmed { &window.steady } else { &window.whole }
    }

    pub fn throughput(self, arm: usize) -> Throughput {
        let rate = |metric| {
            let sums = self.blocks(arm, metric)?;
            let (amount, seconds) = sums.values().fold((0.0, 0.0), |(a, s), sums| (a + sums.amount, s + sums.per));
            (seconds > 0.0).then(|| amount / seconds)
        };
        Throughput {
            requests_per_s: rate(SpeedMetric::RequestsPerS),
            output_tokens_per_s: rate(SpeedMetric::OutputTokensPerS),
            input_tokens_per_s: rate(SpeedMetric::InputTokensPerS),
            window_s: self.window_us(arm) as f64 / 1e6,
        }
    }

    /// Microseconds of the arm's windows as they count, and of the whole slots.
    pub fn counted_us(self, arm: usize) -> (u64, u64) {
        let counted = self.of_arm(arm).map(|w| self.counts(w).us).fold(0, u64::saturating_add);
        (counted, self.window_us(arm))
    }

    /// Rates of the equal parts of the arm's windows: answers per second, and output tokens per second where all are
    /// known.
    pub fn parts(self, arm: usize) -> (Vec<f64>, Option<Vec<f64>>) {
        let of = |amount: fn(&Part) -> f64| -> Vec<f64> {
            let parts = self.of_arm(arm).map(|w| self.counts(w)).filter(|counts| counts.us > 0);
            let rates = parts.flat_map(|counts| {
                let seconds = counts.us as f64 / 1e6 / PARTS as f64;
                counts.parts.iter().map(move |part| amount(part) / seconds)
            });
            rates.collect()
        };
        let tokens = self.of_arm(arm).all(|w| w.output_unknown == 0).then(|| of(|part| part.output_tokens));
        (of(|part| part.requests as f64), tokens)
    }

    /// Open load: what arrived and what was answered in the second halves of the arm's windows, when as much leaves a
    /// server that keeps up as enters it. Absent in a closed load.
    pub fn flow(self, arm: usize) -> Option<(u64, u64)> {
        let late = self.of_arm(arm).filter(|w| w.open).flat_map(|w| w.steady.parts.iter().skip(PARTS as usize / 2));
        let (arrived, answered) = late.fold((0, 0), |(a, r), part| (a + part.arrivals, r + part.requests));
        (arrived > 0).then_some((arrived, answered))
    }

    /// Length of the arm's whole windows: what its GPUs are paid for.
    pub fn window_us(self, arm: usize) -> u64 {
        self.of_arm(arm).map(|w| w.whole.us).fold(0, u64::saturating_add)
    }

    pub fn window_us_by_block(self, arm: usize) -> BTreeMap<u32, u64> {
        let mut by_block = BTreeMap::new();
        for window in self.of_arm(arm) {
            let us: &mut u64 = by_block.entry(window.block).or_default();
            *us = us.saturating_add(window.whole.us);
        }
        by_block
    }

    /// Amount and seconds by block. Absent where an answer's tokens are unknown, and for metrics that are no rates of
    /// windows.
    pub fn blocks(self, arm: usize, metric: SpeedMetric) -> Option<BTreeMap<u32, Sums>> {
        let mut blocks: BTreeMap<u32, Sums> = BTreeMap::new();
        for window in self.of_arm(arm) {
            let counts = self.counts(window);
            let amount = match metric {
                SpeedMetric::RequestsPerS => counts.requests as f64,
                SpeedMetric::OutputTokensPerS if window.output_unknown == 0 => counts.output_tokens,
                SpeedMetric::InputTokensPerS if window.input_unknown == 0 => counts.input_tokens as f64,
                _ => return None,
            };
            let sums = blocks.entry(window.block).or_default();
            sums.amount += amount;
            sums.per += counts.us as f64 / 1e6;
        }
        Some(blocks).filter(|blocks| !blocks.is_empty())
    }
}
