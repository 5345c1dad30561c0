//! Exact numbers, read from digits. Nothing is ever evaluated.

/// Digits in one number, and the size of an exponent: what is longer is not read.
const MAX_DIGITS: usize = 1_000;
const MAX_EXPONENT: i64 = 100_000;

/// A number as it was written: decimals of any length are exact, fractions are exact within 128 bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// Written with a percent sign: `12%` keeps 12 here.
    pub percent: bool,
    decimal: Option<Decimal>,
    ratio: Option<Ratio>,
    approx: f64,
}

/// ±`digits` × 10^`exponent`, without leading or trailing zeros, so that equal numbers are equal values.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ratio {
    num: i128,
    /// Positive.
    den: i128,
}

impl Number {
    /// From ASCII digits before and after the decimal point, times 10^`exponent`.
    pub fn decimal(negative: bool, int: &str, frac: &str, exponent: i64) -> Option<Number> {
        let all_digits = int.bytes().chain(frac.bytes()).all(|b| b.is_ascii_digit());
        let size = int.len() + frac.len();
        if !all_digits || size == 0 || size > MAX_DIGITS || exponent.abs() > MAX_EXPONENT {
            return None;
        }
        let joined = format!("{int}{frac}");
        let digits = joined.trim_start_matches('0').trim_end_matches('0');
        let trailing = joined.len() - joined.trim_end_matches('0').len();
        let decimal = if digits.is_empty() {
            Decimal { negative: false, digits: String::new(), exponent: 0 }
        } else {
            Decimal {
                negative,
                digits: digits.to_owned(),
                exponent: exponent - i64::try_from(frac.len()).ok()? + i64::try_from(trailing).ok()?,
            }
        };
        Some(Number { percent: false, ratio: decimal.ratio(), approx: decimal.approx(), decimal: Some(decimal) })
    }

    /// `num` ÷ `den`; `None` where that is no number, or too long to be exact.
    pub fn fraction(num: &Number, den: &Number) -> Option<Number> {
        let (n, d) = (num.ratio?, den.ratio?);
        Some(Number::from_ratio(Ratio::new(n.num.checked_mul(d.den)?, n.den.checked_mul(d.num)?)?))
    }

    /// Sum, where it is exact within 128 bits: mixed numbers such as `1 3/4`.
    pub fn plus(&self, other: &Number) -> Option<Number> {
        let (a, b) = (self.ratio?, other.ratio?);
        let num = a.num.checked_mul(b.den)?.checked_add(b.num.checked_mul(a.den)?)?;
        Some(Number::from_ratio(Ratio::new(num, a.den.checked_mul(b.den)?)?))
    }

    #[must_use]
    pub fn negated(mut self) -> Number {
        self.approx = -self.approx;
        self.ratio = self.ratio.map(|r| Ratio { num: r.num.saturating_neg(), den: r.den });
        if let Some(decimal) = &mut self.decimal {
            decimal.negative = !decimal.negative && !decimal.digits.is_empty();
        }
        self
    }

    /// Times 10^`power`.
    pub fn scaled(&self, power: i64) -> Option<Number> {
        if let Some(decimal) = &self.decimal {
            let exponent = decimal.exponent.checked_add(power).filter(|e| e.abs() <= 2 * MAX_EXPONENT)?;
            let decimal = Decimal { exponent: if decimal.digits.is_empty() { 0 } else { exponent }, ..decimal.clone() };
            return Some(Number {
                percent: self.percent,
                ratio: decimal.ratio(),
                approx: decimal.approx(),
                decimal: Some(decimal),
            });
        }
        let factor = 10_i128.checked_pow(u32::try_from(power.unsigned_abs()).ok()?)?;
        let ratio = self.ratio?;
        let ratio = if power >= 0 {
            Ratio::new(ratio.num.checked_mul(factor)?, ratio.den)?
        } else {
            Ratio::new(ratio.num, ratio.den.checked_mul(factor)?)?
        };
        Some(Number { percent: self.percent, ..Number::from_ratio(ratio) })
    }

    /// Whether the number is smaller than `other`, both exact.
    pub fn is_below(&self, other: &Number) -> bool {
        match (self.ratio, other.ratio) {
            (Some(a), Some(b)) => match (a.num.checked_mul(b.den), b.num.checked_mul(a.den)) {
                (Some(left), Some(right)) => left < right,
                _ => false,
            },
            _ => false,
        }
    }

    fn from_ratio(ratio: Ratio) -> Number {
        Number { percent: false, decimal: None, ratio: Some(ratio), approx: ratio.num as f64 / ratio.den as f64 }
    }

    /// `|self − gold| ≤ max(abs, rel·|gold|)`, exactly where both are exact. Percent signs are the caller's matter.
    pub fn equals(&self, gold: &Number, abs: f64, rel: f64) -> bool {
        if self.decimal.is_some() && self.decimal == gold.decimal {
            return true;
        }
        if let (Some(a), Some(g)) = (self.ratio, gold.ratio) {
            if a == g {
                return true;
            }
            if abs == 0.0 && rel == 0.0 {
                return false;
            }
            if let Some(within) = within_exactly(a, g, abs, rel) {
                return within;
            }
        }
        if abs == 0.0 && rel == 0.0 {
            return false;
        }
        let difference = (self.approx - gold.approx).abs();
        difference.is_finite() && difference <= abs.max(rel * gold.approx.abs())
    }
}

/// `None` where 128 bits do not hold the comparison.
fn within_exactly(a: Ratio, g: Ratio, abs: f64, rel: f64) -> Option<bool> {
    let difference = a.minus(g)?.abs()?;
    let by_rel = g.abs()?.times(Ratio::of_f64(rel)?)?;
    Some(difference.at_most(Ratio::of_f64(abs)?)? || difference.at_most(by_rel)?)
}

impl Decimal {
    fn ratio(&self) -> Option<Ratio> {
        if self.digits.is_empty() {
            return Some(Ratio { num: 0, den: 1 });
        }
        if self.digits.len() > 38 || self.exponent.abs() > 38 {
            return None;
        }
        let magnitude: i128 = self.digits.parse().ok()?;
        let signed = if self.negative { -magnitude } else { magnitude };
        let power = 10_i128.checked_pow(u32::try_from(self.exponent.unsigned_abs()).ok()?)?;
        if self.exponent >= 0 { Ratio::new(signed.checked_mul(power)?, 1) } else { Ratio::new(signed, power) }
    }

    fn approx(&self) -> f64 {
        let sign = if self.negative { "-" } else { "" };
        let digits = if self.digits.is_empty() { "0" } else { &self.digits };
        format!("{sign}{digits}e{}", self.exponent).parse().unwrap_or(f64::INFINITY)
    }
}

impl Ratio {
    fn new(num: i128, den: i128) -> Option<Ratio> {
        if den == 0 || num == i128::MIN || den == i128::MIN {
            return None;
        }
        let divisor = gcd(num.unsigned_abs(), den.unsigned_abs());
        let divisor = i128::try_from(divisor).ok().filter(|d| *d > 0)?;
        let sign = if den < 0 { -1 } else { 1 };
        Some(Ratio { num: sign * (num / divisor), den: sign * (den / divisor) })
    }

    /// The decimal that the float prints as: 0.1 is one tenth.
    fn of_f64(value: f64) -> Option<Ratio> {
        if !value.is_finite() || value < 0.0 {
            return None;
        }
        let text = value.to_string();
        let (int, frac) = text.split_once('.').unwrap_or((&text, ""));
        Number::decimal(false, int, frac, 0)?.ratio
    }

    fn minus(self, other: Ratio) -> Option<Ratio> {
        let num = self.num.checked_mul(other.den)?.checked_sub(other.num.checked_mul(self.den)?)?;
        Ratio::new(num, self.den.checked_mul(other.den)?)
    }

    fn times(self, other: Ratio) -> Option<Ratio> {
        Ratio::new(self.num.checked_mul(other.num)?, self.den.checked_mul(other.den)?)
    }

    fn abs(self) -> Option<Ratio> {
        Some(Ratio { num: self.num.checked_abs()?, den: self.den })
    }

    fn at_most(self, other: Ratio) -> Option<bool> {
        Some(self.num.checked_mul(other.den)? <= other.num.checked_mul(self.den)?)
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n(int: &str, frac: &str) -> Number {
        Number::decimal(false, int, frac, 0).unwrap()
    }

    #[test]
    fn equality_is_exact() {
        assert!(n("1", "50").equals(&n("01", "5"), 0.0, 0.0));
        assert!(n("0", "0").equals(&n("0", "").negated(), 0.0, 0.0));
        assert!(!n("711", "").equals(&n("11", ""), 0.0, 0.0));
        assert!(Number::decimal(false, "15", "", -1).unwrap().equals(&n("1", "5"), 0.0, 0.0));
        // 2^100 and its neighbour differ, though not as floats.
        assert!(!n("1267650600228229401496703205376", "").equals(&n("1267650600228229401496703205377", ""), 0.0, 0.0));
        let long = "9".repeat(200);
        assert!(n(&long, "").equals(&n(&long, ""), 0.0, 0.0));
        assert!(!n(&long, "").equals(&n(&"9".repeat(201), ""), 0.0, 0.0));
    }

    #[test]
    fn tolerances_are_exact_at_their_edge() {
        assert!(n("1", "1").equals(&n("1", ""), 0.1, 0.0));
        assert!(!n("1", "1000001").equals(&n("1", ""), 0.1, 0.0));
        assert!(n("101", "").equals(&n("100", ""), 0.0, 0.01));
        assert!(!n("101", "01").equals(&n("100", ""), 0.0, 0.01));
    }

    #[test]
    fn fractions_reduce() {
        let half = Number::fraction(&n("2", ""), &n("4", "")).unwrap();
        assert!(half.equals(&n("0", "5"), 0.0, 0.0));
        assert!(Number::fraction(&n("1", ""), &n("0", "")).is_none());
        let third = Number::fraction(&n("1", ""), &n("3", "")).unwrap();
        assert!(!n("0", "333333333333333333333333333333").equals(&third, 0.0, 0.0));
        assert!(n("0", "3333").equals(&third, 0.001, 0.0));
        assert!(n("1", "").plus(&half).unwrap().equals(&n("1", "5"), 0.0, 0.0));
    }

    #[test]
    fn what_is_too_long_is_not_read() {
        assert!(Number::decimal(false, &"1".repeat(2_000), "", 0).is_none());
        assert!(Number::decimal(false, "1", "", 1_000_000).is_none());
        assert!(Number::decimal(false, "", "", 0).is_none());
    }
}
