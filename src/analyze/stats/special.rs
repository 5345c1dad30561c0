//! Distribution functions and their inverses, made to be monotone and total: no argument panics.

use statrs::function::{erf, gamma};

/// P(Z ≤ z) of the standard normal.
pub fn normal_cdf(z: f64) -> f64 {
    normal_sf(-z)
}

/// P(Z > z) of the standard normal, to some 10⁻¹³ of itself far out. The crate's own `erfc` keeps only ten digits.
pub fn normal_sf(z: f64) -> f64 {
    let distance = z.abs();
    let tail = if distance < 3.0 { 0.5 - normal_center(distance) } else { normal_far_tail(distance) };
    if z >= 0.0 { tail } else { 1.0 - tail }
}

/// P(0 < Z < z), by φ(z) Σ z^(2k+1) ÷ (1·3·…·(2k+1)) (Abramowitz & Stegun 26.2.11): every term is positive.
fn normal_center(z: f64) -> f64 {
    let mut term = z;
    let mut sum = z;
    let mut odd = 3.0;
    while term > sum * 1e-17 {
        term *= z * z / odd;
        sum += term;
        odd += 2.0;
    }
    normal_density(z) * sum
}

/// P(Z > z) for z ≥ 3, by the continued fraction φ(z) ÷ (z + 1 ÷ (z + 2 ÷ (z + …))) (Abramowitz & Stegun 26.2.14).
fn normal_far_tail(z: f64) -> f64 {
    let fraction = (1..=60).rev().fold(z, |rest, k| z + f64::from(k) / rest);
    normal_density(z) / fraction
}

fn normal_density(z: f64) -> f64 {
    (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt()
}

/// The z with P(Z ≤ z) = `p`; absent unless 0 < p < 1.
pub fn normal_quantile(p: f64) -> Option<f64> {
    (p > 0.0 && p < 1.0).then(|| -std::f64::consts::SQRT_2 * erf::erfc_inv(2.0 * p))
}

/// The positive z that a two-sided interval at `level` uses; absent unless 0 < level < 1.
pub fn two_sided_z(level: f64) -> Option<f64> {
    if !(level > 0.0 && level < 1.0) {
        return None;
    }
    Some(-normal_quantile((1.0 - level) / 2.0)?)
}

/// Both tails of the regularized incomplete beta function: (`I_x(a, b)`, `1 − I_x(a, b)`).
///
/// Each tail comes from its own side of the continued fraction (modified Lentz, Numerical Recipes §6.4), so that a
/// small one keeps its relative accuracy. Needs a, b > 0; x is clamped to [0, 1].
pub fn beta_tails(a: f64, b: f64, x: f64) -> (f64, f64) {
    if x <= 0.0 {
        return (0.0, 1.0);
    }
    if x >= 1.0 {
        return (1.0, 0.0);
    }
    let ln_front = a * x.ln() + b * (-x).ln_1p() - ln_beta(a, b);
    let front = ln_front.exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        let lower = (front * beta_fraction(a, b, x) / a).clamp(0.0, 1.0);
        (lower, 1.0 - lower)
    } else {
        let upper = (front * beta_fraction(b, a, 1.0 - x) / b).clamp(0.0, 1.0);
        (1.0 - upper, upper)
    }
}

fn ln_beta(a: f64, b: f64) -> f64 {
    gamma::ln_gamma(a) + gamma::ln_gamma(b) - gamma::ln_gamma(a + b)
}

/// The continued fraction of the incomplete beta function; it needs some √max(a, b) terms near the mean.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let keep_off_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let most = (500.0 + 20.0 * a.max(b).sqrt()).min(2e5);
    let mut c = 1.0;
    let mut d = 1.0 / keep_off_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    let mut m = 1.0;
    while m < most {
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / keep_off_zero(1.0 + even * d);
        c = keep_off_zero(1.0 + even / c);
        h *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / keep_off_zero(1.0 + odd * d);
        c = keep_off_zero(1.0 + odd / c);
        let step = d * c;
        h *= step;
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
        m += 1.0;
    }
    h
}

/// The x with `I_x(a, b)` = `p`, by bisection. Needs a, b > 0; p is clamped to [0, 1].
pub fn beta_quantile(a: f64, b: f64, p: f64) -> f64 {
    if p <= 0.0 {
        return 0.0;
    }
    if p >= 1.0 {
        return 1.0;
    }
    bisect(0.0, 1.0, |x| {
        let (lower, upper) = beta_tails(a, b, x);
        // The smaller tail is the accurate one.
        if p <= 0.5 { lower < p } else { upper > 1.0 - p }
    })
}

/// P(|T| > |t|) / 2 of Student's t with `df` > 0 degrees of freedom: the upper tail beyond |t|.
fn t_upper_tail(t: f64, df: f64) -> f64 {
    let t2 = t * t;
    // x = df / (df + t²), from the side that loses no digits.
    if t2 < df {
        0.5 * beta_tails(0.5, df / 2.0, t2 / (df + t2)).1
    } else {
        0.5 * beta_tails(df / 2.0, 0.5, df / (df + t2)).0
    }
}

/// P(T > t) of Student's t with `df` degrees of freedom; absent unless df > 0 and t is a number.
pub fn t_sf(t: f64, df: f64) -> Option<f64> {
    if df.is_nan() || df <= 0.0 || t.is_nan() {
        return None;
    }
    let tail = if df > 1e6 { normal_sf(t.abs()) } else { t_upper_tail(t, df) };
    Some(if t >= 0.0 { tail } else { 1.0 - tail })
}

/// The positive t that a two-sided interval at `level` uses; absent unless df > 0 and 0 < level < 1.
pub fn two_sided_t(level: f64, df: f64) -> Option<f64> {
    let z = two_sided_z(level)?;
    if df.is_nan() || df <= 0.0 {
        return None;
    }
    if df >= 1e5 {
        // Cornish–Fisher (Abramowitz & Stegun 26.7.5); the next term is of order df⁻³.
        let (z3, z5) = (z.powi(3), z.powi(5));
        return Some(z + (z3 + z) / (4.0 * df) + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * df * df));
    }
    let tail = (1.0 - level) / 2.0;
    let mut high = z.max(1.0);
    while t_upper_tail(high, df) > tail && high < 1e300 {
        high *= 2.0;
    }
    Some(bisect(0.0, high, |t| t_upper_tail(t, df) > tail))
}

/// P(X ≤ k) and P(X > k) for X ~ Bin(n, p).
pub fn binomial_tails(k: u64, n: u64, p: f64) -> (f64, f64) {
    if k >= n {
        return (1.0, 0.0);
    }
    let (upper, lower) = beta_tails(k as f64 + 1.0, (n - k) as f64, p);
    (lower, upper)
}

/// P(X = k) for X ~ Bin(n, p).
pub fn binomial_pmf(k: u64, n: u64, p: f64) -> f64 {
    if k > n {
        return 0.0;
    }
    let ln_choose = ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    (ln_choose + times_ln(k as f64, p) + times_ln((n - k) as f64, 1.0 - p)).exp()
}

/// ln n!
pub fn ln_factorial(n: u64) -> f64 {
    gamma::ln_gamma(n as f64 + 1.0)
}

/// `count · ln(share)` with 0 · ln 0 = 0.
pub fn times_ln(count: f64, share: f64) -> f64 {
    if count == 0.0 { 0.0 } else { count * share.ln() }
}

/// The point where `goes_on` turns from true to false between `low` and `high`, to the last digit.
///
/// Halving needs no derivative, can't leave the bracket and can't fail to end.
pub fn bisect(mut low: f64, mut high: f64, goes_on: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if goes_on(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low + (high - low) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_invert_their_distribution() {
        for p in [1e-9, 0.025, 0.3, 0.5, 0.9, 1.0 - 1e-9] {
            assert!((normal_cdf(normal_quantile(p).unwrap()) - p).abs() < 1e-12);
            for (a, b) in [(1.5, 0.8), (3.0, 40.0), (1.0, 1.0), (800.0, 1201.0)] {
                assert!((beta_tails(a, b, beta_quantile(a, b, p)).0 - p).abs() < 1e-10, "{a} {b} {p}");
            }
        }
        for df in [1.0, 2.0, 19.0, 99_999.0] {
            let t = two_sided_t(0.9, df).unwrap();
            assert!((t_sf(t, df).unwrap() - 0.05).abs() < 1e-10);
        }
    }

    #[test]
    fn t_joins_the_normal_smoothly() {
        let (below, above) = (two_sided_t(0.95, 99_999.9).unwrap(), two_sided_t(0.95, 100_000.0).unwrap());
        assert!((below - above).abs() < 1e-9);
    }

    #[test]
    fn senseless_arguments_are_absent() {
        assert_eq!(normal_quantile(0.0), None);
        assert_eq!(two_sided_z(1.0), None);
        assert_eq!(two_sided_z(f64::NAN), None);
        assert_eq!(two_sided_t(0.9, 0.0), None);
        assert_eq!(two_sided_t(0.9, f64::NAN), None);
        assert_eq!(t_sf(f64::NAN, 3.0), None);
    }

    #[test]
    fn large_binomials_converge() {
        let (lower, upper) = binomial_tails(500_000, 1_000_000, 0.5);
        assert!((lower - 0.5).abs() < 5e-4 && (lower + upper - 1.0).abs() < 1e-12);
        assert!((lower - upper - binomial_pmf(500_000, 1_000_000, 0.5)).abs() < 1e-9);
    }
}
