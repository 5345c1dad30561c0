//! Draws that depend on nothing but their seeds.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use crate::units::Id;

/// A number in every call, or a lognormal one given by its median and 95th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Dist {
    Fixed { fixed: f64 },
    Lognormal { median: f64, p95: f64 },
}

/// Largest value that a distribution may hold or yield: ten minutes in milliseconds.
const LARGEST: f64 = 600_000.0;
/// The 95th percentile of the standard normal distribution.
const Z95: f64 = 1.644_853_626_951_472_2;

impl Dist {
    pub fn is_sound(&self) -> bool {
        match *self {
            Dist::Fixed { fixed } => (0.0..=LARGEST).contains(&fixed),
            Dist::Lognormal { median, p95 } => 0.0 < median && median <= p95 && p95 <= LARGEST,
        }
    }

    pub fn draw(&self, rng: &mut Pcg64) -> f64 {
        match *self {
            Dist::Fixed { fixed } => fixed,
            Dist::Lognormal { median, p95 } => {
                let z: f64 = StandardNormal.sample(rng);
                (median * (z * (p95 / median).ln() / Z95).exp()).min(LARGEST)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Dist {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Wire {
            fixed: Option<f64>,
            median: Option<f64>,
            p95: Option<f64>,
        }
        let wire = Wire::deserialize(deserializer)?;
        match (wire.fixed, wire.median, wire.p95) {
            (Some(fixed), None, None) => Ok(Dist::Fixed { fixed }),
            (None, Some(median), Some(p95)) => Ok(Dist::Lognormal { median, p95 }),
            _ => Err(serde::de::Error::custom("a distribution is {fixed} or {median, p95}")),
        }
    }
}

/// A number in [0, 1) by hash: equal for equal parts, for ever.
pub fn share(seed: u64, what: &str, parts: &[&[u8]]) -> f64 {
    unit_interval(number(seed, what, parts))
}

/// A number by hash.
pub fn number(seed: u64, what: &str, parts: &[&[u8]]) -> u64 {
    let seed = seed.to_le_bytes();
    let all: Vec<&[u8]> = std::iter::once(seed.as_slice()).chain(parts.iter().copied()).collect();
    Id::of(what, &all).as_u64()
}

/// A number in [0, 1) from a stream.
pub fn uniform(rng: &mut Pcg64) -> f64 {
    unit_interval(rng.next_u64())
}

/// One of several by a stream; `None` of none.
pub fn pick<'a, T>(rng: &mut Pcg64, items: &'a [T]) -> Option<&'a T> {
    let count = u64::try_from(items.len()).ok().filter(|n| *n > 0)?;
    items.get(usize::try_from(rng.next_u64() % count).ok()?)
}

/// An index by weights; the last one where rounding leaves a rest.
pub fn weighted(rng: &mut Pcg64, weights: &[f64]) -> usize {
    let mut left = uniform(rng) * weights.iter().sum::<f64>();
    for (index, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return index;
        }
    }
    weights.len().saturating_sub(1)
}

fn unit_interval(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lognormal_keeps_its_median_and_95th_percentile() {
        let dist = Dist::Lognormal { median: 20.0, p95: 50.0 };
        let mut rng = crate::world::rng(3, "lognormal");
        let mut draws: Vec<f64> = (0..20_000).map(|_| dist.draw(&mut rng)).collect();
        draws.sort_by(f64::total_cmp);
        let (median, p95) = (draws[10_000], draws[19_000]);
        assert!((19.4..20.6).contains(&median), "{median}");
        assert!((48.0..52.0).contains(&p95), "{p95}");
    }

    #[test]
    fn weights_are_kept() {
        let mut rng = crate::world::rng(3, "weights");
        let mut counts = [0_u32; 3];
        for _ in 0..30_000 {
            counts[weighted(&mut rng, &[1.0, 0.0, 2.0])] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((9_500..10_500).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn hashed_shares_are_uniform() {
        let below = (0..10_000_u32).filter(|i| share(1, "t", &[&i.to_le_bytes()]) < 0.3).count();
        assert!((2_850..3_150).contains(&below), "{below}");
    }
}
