//! Rates of one arm inside its own windows.

use std::collections::BTreeMap;

use super::stats::Sums;
use super::summary::Throughput;
use super::windows::{Counts, Window, Windows};
use crate::spec::SpeedMetric;

/// Which part of the windows counts, decided once for all arms of the run.
#[derive(Clone, Copy)]
pub struct Rates<'a> {
    windows: &'a [Window],
    trimmed: bool,
}

impl<'a> Rates<'a> {
    pub fn new(windows: &'a [Window]) -> Self {
        Rates { windows, trimmed: Windows::trimmed(windows) }
    }

    pub fn is_trimmed(self) -> bool {
        self.trimmed
    }

    fn of_arm(self, arm: usize) -> impl Iterator<Item = &'a Window> {
        self.windows.iter().filter(move |w| w.arm == arm)
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
