//! What a comparison of n pairs can decide: power before the run, and the n that would decide after it.

use super::special::{bisect, normal_cdf, normal_quantile};
use super::tango::deviation;
use super::unconditional::{EXACT_UP_TO, Region};

/// Above this many pairs the normal approximation is as good as summing over tables, and quicker.
const SUMMED_UP_TO: u64 = 20_000;

/// What a non-inferiority comparison is planned or judged with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Design {
    /// Tolerated loss as a share (2 points = 0.02), ≥ 0.
    pub margin: f64,
    /// One-sided confidence, such as 0.95.
    pub confidence: f64,
    /// Wanted probability of a decision, such as 0.8.
    pub power: f64,
}

/// Pairs needed to decide whether Δ is above or below −margin, if Δ is `delta` and a share `psi` of pairs flips.
///
/// n = ((z₁₋α σ₀ + z₁₋β σ₁) ÷ (margin + Δ))², with σ₁² = ψ − Δ² and σ₀² the variance that Tango's statistic would estimate
/// at the margin (Nam, Biometrics 53 (1997) 1422–1430). Where ψ is large beside the margin σ₀ = σ₁, and at Δ = 0 this is
/// the familiar 6.18 · ψ ÷ margin². Never less than what a run without a single flip would need: with d = |margin + Δ|,
/// z² (1 − d) ÷ d for Tango's interval to clear the margin and (1 − d)ⁿ ≤ α for the exact test.
///
/// An approximation: among few hundred pairs the exact test's coarse steps cost some points of power, which
/// [`pass_power`] and [`fail_power`] tell exactly. A ψ below |Δ| is taken as |Δ|. Absent where Δ lies on the margin (no n decides) or an argument is senseless.
pub fn n_to_decide(psi: f64, delta: f64, design: &Design) -> Option<u64> {
    let shares = Shares::new(psi, delta, design)?;
    let distance = (design.margin + delta).abs();
    if distance <= 1e-9 {
        return None;
    }
    let (z_alpha, z_beta) = (normal_quantile(design.confidence)?, normal_quantile(design.power)?);
    let by_flips = ((z_alpha * shares.deviation_at_margin + z_beta * shares.deviation) / distance).powi(2);
    let n = by_flips.max(n_without_flips(distance, design.confidence)?).ceil().max(1.0);
    (n < 1e15).then_some(n as u64)
}

/// P(the gate passes) with `n` pairs if Δ is `delta` and a share `psi` flips: its test finds Δ above −margin.
///
/// Summed over all tables with the critical value of the gate's own test (the exact one up to
/// [`EXACT_UP_TO`] pairs, Tango's above); by the normal approximation for very many pairs. Absent for senseless arguments.
pub fn pass_power(n: u64, psi: f64, delta: f64, design: &Design) -> Option<f64> {
    let shares = Shares::new(psi, delta, design)?;
    power(n, -design.margin, shares.lost, shares.gained, delta + design.margin, &shares, design)
}

/// P(the gate fails) with `n` pairs if Δ is `delta` and a share `psi` flips: its test finds Δ below −margin.
pub fn fail_power(n: u64, psi: f64, delta: f64, design: &Design) -> Option<f64> {
    let shares = Shares::new(psi, delta, design)?;
    // The same question with the arms exchanged.
    power(n, design.margin, shares.gained, shares.lost, -(delta + design.margin), &shares, design)
}

/// The assumed truth: shares of either flip and the deviations per pair that follow.
struct Shares {
    lost: f64,
    gained: f64,
    deviation: f64,
    deviation_at_margin: f64,
}

impl Shares {
    fn new(psi: f64, delta: f64, design: &Design) -> Option<Self> {
        let sane = (0.0..=1.0).contains(&psi)
            && (-1.0..=1.0).contains(&delta)
            && (0.0..1.0).contains(&design.margin)
            && design.confidence > 0.5
            && design.confidence < 1.0;
        if !sane {
            return None;
        }
        let psi = psi.max(delta.abs());
        let (lost, gained) = (f64::midpoint(psi, -delta), f64::midpoint(psi, delta));
        Some(Self {
            lost,
            gained,
            deviation: (psi - delta * delta).max(0.0).sqrt(),
            deviation_at_margin: deviation(lost, gained, 1.0, -design.margin),
        })
    }
}

/// Probability that the test of H: Δ ≤ `null` rejects, the truth being `p_lost`, `p_gained`, `distance` above `null`.
fn power(
    n: u64,
    null: f64,
    p_lost: f64,
    p_gained: f64,
    distance: f64,
    shares: &Shares,
    design: &Design,
) -> Option<f64> {
    let z = normal_quantile(design.confidence)?;
    if n == 0 {
        return None;
    }
    if n <= SUMMED_UP_TO {
        let threshold = if n <= EXACT_UP_TO { exact_threshold(n, null, design.confidence, z) } else { z };
        let p = Region::above_threshold(n, null, threshold).probability(p_lost, p_gained);
        return Some(p.clamp(0.0, 1.0));
    }
    let pull = distance * (n as f64).sqrt() - z * shares.deviation_at_margin;
    Some(match (shares.deviation > 0.0, pull > 0.0) {
        (true, _) => normal_cdf(pull / shares.deviation),
        (false, certain) => f64::from(u8::from(certain)),
    })
}

/// Critical value of Tango's statistic for the exact unconditional test at a one-sided confidence.
fn exact_threshold(n: u64, null: f64, confidence: f64, z: f64) -> f64 {
    let alpha = 1.0 - confidence;
    let too_likely = |threshold: f64| Region::above_threshold(n, null, threshold).greatest_probability(null) > alpha;
    let mut high = z + 0.25;
    while too_likely(high) && high < 40.0 {
        high += high;
    }
    // A thousandth of a standard deviation is finer than the steps between tables that matter.
    let (mut low, mut high) = (z - 0.5, high);
    while high - low > 1e-3 {
        let middle = f64::midpoint(low, high);
        if too_likely(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Pairs without a flip that clear a distance to the margin, for Tango's interval and for the exact test.
fn n_without_flips(distance: f64, confidence: f64) -> Option<f64> {
    let z = normal_quantile(confidence)?;
    if distance >= 1.0 {
        return Some(1.0);
    }
    let exact = (1.0 - confidence).ln() / (-distance).ln_1p();
    Some(exact.max(z * z * (1.0 - distance) / distance))
}

/// The smallest true loss below −margin, as a share, that a run of `n` pairs fails with probability `power`, if a share
/// `psi` flips (more, where the loss alone needs more). Absent where even the loss of everything wouldn't do.
pub fn smallest_detectable_loss(n: u64, psi: f64, design: &Design) -> Option<f64> {
    let missed = |loss: f64| n_to_decide(psi, -loss, design).is_none_or(|needed| needed > n);
    (n > 0 && !missed(1.0)).then(|| bisect(design.margin, 1.0, missed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(margin: f64) -> Design {
        Design { margin, confidence: 0.95, power: 0.8 }
    }

    #[test]
    fn many_flips_beside_the_margin_give_the_familiar_sizes() {
        for (psi, margin, familiar) in [(0.05, 0.01, 3091.0), (0.10, 0.01, 6183.0), (0.10, 0.02, 1546.0)] {
            let found = n_to_decide(psi, 0.0, &design(margin)).unwrap() as f64;
            assert!(found >= familiar && found < familiar * 1.05, "{psi} {margin}: {found}");
        }
    }

    #[test]
    fn a_run_without_a_flip_needs_pairs_too() {
        // 0.98ⁿ ≤ 0.05 first holds at 149.
        assert_eq!(n_to_decide(0.0, 0.0, &design(0.02)), Some(149));
    }

    #[test]
    fn senseless_plans_have_no_size() {
        assert_eq!(n_to_decide(0.1, -0.02, &design(0.02)), None);
        assert_eq!(n_to_decide(f64::NAN, 0.0, &design(0.02)), None);
        assert_eq!(n_to_decide(0.1, 0.0, &Design { confidence: 1.0, ..design(0.02) }), None);
        assert_eq!(pass_power(0, 0.1, 0.0, &design(0.02)), None);
        assert_eq!(fail_power(100, 0.1, f64::INFINITY, &design(0.02)), None);
    }

    #[test]
    fn the_planned_size_has_the_planned_power() {
        for (psi, margin) in [(0.05, 0.03), (0.1, 0.05), (0.2, 0.05)] {
            let n = n_to_decide(psi, 0.0, &design(margin)).unwrap();
            let found = pass_power(n, psi, 0.0, &design(margin)).unwrap();
            assert!((found - 0.8).abs() < 0.05, "{psi} {margin} {n}: {found}");
            let n = n_to_decide(psi, -2.0 * margin, &design(margin)).unwrap();
            let found = fail_power(n, psi, -2.0 * margin, &design(margin)).unwrap();
            assert!((found - 0.8).abs() < 0.08, "{psi} {margin} {n}: {found}");
        }
    }

    #[test]
    fn a_loss_of_the_margin_passes_seldom() {
        for n in [30, 200, 1000] {
            for psi in [0.02, 0.05, 0.2] {
                let passed = pass_power(n, psi, -0.02, &design(0.02)).unwrap();
                let failed = fail_power(n, psi, -0.02, &design(0.02)).unwrap();
                assert!(passed <= 0.05 && failed <= 0.05, "{n} {psi}: {passed} {failed}");
            }
        }
        // So few pairs that even a run without a flip proves nothing.
        assert!(pass_power(30, 0.0, 0.0, &design(0.02)).unwrap() < 1e-12);
    }

    #[test]
    fn sums_and_approximation_meet() {
        let summed = pass_power(SUMMED_UP_TO, 0.05, 0.0, &design(0.004)).unwrap();
        let approximated = pass_power(SUMMED_UP_TO + 1, 0.05, 0.0, &design(0.004)).unwrap();
        assert!((summed - approximated).abs() < 0.01, "{summed} {approximated}");
    }

    #[test]
    fn the_smallest_detectable_loss_shrinks_with_n() {
        let at = |n| smallest_detectable_loss(n, 0.05, &design(0.02)).unwrap();
        assert!(at(200) > at(800) && at(800) > 0.02);
        assert_eq!(smallest_detectable_loss(1, 0.05, &design(0.02)), None);
    }
}
