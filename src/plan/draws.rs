//! Numbers drawn from a distribution of the suite.

use rand::RngExt;
use rand_distr::{Distribution as _, StandardNormal};
use rand_pcg::Pcg64;

use crate::spec::Distribution;
use crate::spec::workload::{NumbersError, Range, read_numbers};

/// The 95th percentile of the standard normal distribution.
const Z95: f64 = 1.644_853_626_951_472_2;

/// A distribution with its file read. What is drawn lies in its use's range.
pub struct Sampler {
    distribution: Distribution,
    numbers: Vec<f64>,
    range: Range,
}

impl Sampler {
    pub fn new(distribution: &Distribution, range: Range) -> Result<Sampler, NumbersError> {
        let numbers = match distribution {
            Distribution::File { path } => read_numbers(path, range)?,
            _ => Vec::new(),
        };
        Ok(Sampler { distribution: distribution.clone(), numbers, range })
    }

    pub fn number(&self, rng: &mut Pcg64) -> f64 {
        let between = |value: f64, min: Option<f64>, max: Option<f64>| {
            value.max(min.unwrap_or(self.range.min)).min(max.unwrap_or(self.range.max))
        };
        let value = match self.distribution {
            Distribution::Fixed(value) => value,
            Distribution::Uniform { min, max } => min + (max - min) * rng.random::<f64>(),
            Distribution::Normal { mean, sd, min, max } => {
                let z: f64 = StandardNormal.sample(rng);
                between(mean + sd * z, min, max)
            }
            Distribution::Lognormal { median, p95, max } => {
                let z: f64 = StandardNormal.sample(rng);
                between(median * (z * (p95 / median).ln() / Z95).exp(), None, max)
            }
            Distribution::File { .. } => {
                let index = rng.random_range(0..self.numbers.len().max(1));
                self.numbers.get(index).copied().unwrap_or(self.range.min)
            }
        };
        value.clamp(self.range.min, self.range.max)
    }

    /// A whole number. A uniform distribution gives each whole number of its range the same chance.
    pub fn whole(&self, rng: &mut Pcg64) -> u32 {
        if let Distribution::Uniform { min, max } = self.distribution {
            let (low, high) = (min.ceil() as u32, max.floor() as u32);
            if low <= high {
                return rng.random_range(low..=high);
            }
        }
        self.number(rng).round() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::rng;

    fn drawn(distribution: Distribution) -> Vec<f64> {
        let sampler = Sampler::new(&distribution, Range::TOKENS).unwrap();
        let mut rng = rng(7, "draws");
        let mut all: Vec<f64> = (0..20_000).map(|_| sampler.number(&mut rng)).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// Within `share` of the value.
    fn near(value: f64, want: f64, share: f64) {
        assert!((value / want - 1.0).abs() < share, "{value} is not near {want}");
    }

    #[test]
    fn a_lognormal_has_its_median_and_its_95th_percentile() {
        let all = drawn(Distribution::Lognormal { median: 800.0, p95: 4000.0, max: None });
        near(all[10_000], 800.0, 0.03);
        near(all[19_000], 4000.0, 0.05);
        let cut = drawn(Distribution::Lognormal { median: 800.0, p95: 4000.0, max: Some(5000.0) });
        near(cut[19_000], 4000.0, 0.05);
        assert_eq!(cut.last(), Some(&5000.0));
    }

    #[test]
    fn a_normal_has_its_mean_and_deviation_and_keeps_its_ends() {
        let all = drawn(Distribution::Normal { mean: 500.0, sd: 50.0, min: None, max: None });
        near(all.iter().sum::<f64>() / 20_000.0, 500.0, 0.01);
        near(all[19_000] - all[10_000], 50.0 * Z95, 0.05);
        let cut = drawn(Distribution::Normal { mean: 500.0, sd: 500.0, min: Some(100.0), max: Some(600.0) });
        assert_eq!((cut[0], cut[19_999]), (100.0, 600.0));
    }

    #[test]
    fn a_uniform_one_is_even_and_whole_numbers_have_one_chance_each() {
        let all = drawn(Distribution::Uniform { min: 100.0, max: 300.0 });
        near(all[5_000], 150.0, 0.02);
        near(all[15_000], 250.0, 0.02);
        let sampler = Sampler::new(&Distribution::Uniform { min: 1.0, max: 4.0 }, Range::TURNS).unwrap();
        let mut counts = [0_u32; 4];
        let mut rng = rng(7, "whole");
        for _ in 0..40_000 {
            counts[sampler.whole(&mut rng) as usize - 1] += 1;
        }
        assert!(counts.iter().all(|n| (9_600..10_400).contains(n)), "{counts:?}");
    }

    #[test]
    fn a_file_gives_its_numbers_and_no_other() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "100\n100\n100\n900\n").unwrap();
        let all = drawn(Distribution::File { path: file.path().to_owned() });
        let few = all.iter().filter(|n| **n == 100.0).count();
        assert!((14_700..15_300).contains(&few) && all.iter().all(|n| [100.0, 900.0].contains(n)), "{few}");
    }
}
