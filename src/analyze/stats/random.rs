//! Seeded draws whose values never change between releases: the results are part of recorded summaries.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A generator from a seed and a purpose, so that two analyses with one seed don't share their draws.
pub(super) fn seeded(seed: u64, purpose: u64) -> Pcg64 {
    Pcg64::seed_from_u64(seed ^ purpose.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// A whole number in 0..`count` without bias (Lemire 2019); 0 for a count of 0.
pub(super) fn below(rng: &mut Pcg64, count: usize) -> usize {
    let count = count as u64;
    if count == 0 {
        return 0;
    }
    let threshold = count.wrapping_neg() % count;
    loop {
        let wide = u128::from(rng.next_u64()) * u128::from(count);
        if wide as u64 >= threshold {
            return (wide >> 64) as usize;
        }
    }
}

/// How often each of `count` items is drawn in `count` draws with replacement, written into `times`.
pub(super) fn resample_into(rng: &mut Pcg64, times: &mut [u32]) {
    times.fill(0);
    for _ in 0..times.len() {
        let drawn = below(rng, times.len());
        if let Some(slot) = times.get_mut(drawn) {
            *slot += 1;
        }
    }
}

/// 64 random signs at once.
pub(super) fn sign_bits(rng: &mut Pcg64) -> u64 {
    rng.next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_stable_even_and_in_range() {
        let mut rng = seeded(7, 1);
        let mut seen = [0_u32; 6];
        for _ in 0..6000 {
            seen[below(&mut rng, 6)] += 1;
        }
        assert!(seen.iter().all(|&times| (880..1120).contains(&times)), "{seen:?}");
        assert_eq!(below(&mut rng, 0), 0);
        assert_ne!(sign_bits(&mut seeded(7, 1)), sign_bits(&mut seeded(7, 2)));
        assert_eq!(sign_bits(&mut seeded(7, 1)), sign_bits(&mut seeded(7, 1)));
    }

    #[test]
    fn a_resample_draws_as_many_as_there_are() {
        let mut times = [9_u32; 13];
        resample_into(&mut seeded(1, 1), &mut times);
        assert_eq!(times.iter().sum::<u32>(), 13);
    }
}
