//! Numbers for people: the one place where a figure gets its digits, sign and unit.
//!
//! A figure that is absent or not finite is [`ABSENT`], whatever the unit; it is never written as zero.

use crate::analyze::Estimate;

/// What stands where a figure is absent.
pub const ABSENT: &str = "–";

/// What a figure is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A difference of two shares (0.02 is `+2.0 pp`).
    Points,
    /// A share (0.02 is `2.0%`).
    Percent,
    /// Candidate ÷ baseline (`×0.87`).
    Ratio,
    /// Milliseconds.
    Ms,
    Usd,
    PerSecond,
    Plain,
}

impl Unit {
    /// The value that means "no change", where there is one.
    pub fn no_change(self) -> Option<f64> {
        match self {
            Unit::Points => Some(0.0),
            Unit::Ratio => Some(1.0),
            _ => None,
        }
    }
}

/// The figure with its unit, or [`ABSENT`].
pub fn figure(unit: Unit, value: Option<f64>) -> String {
    match value.filter(|value| value.is_finite()) {
        Some(value) => present(unit, value),
        None => ABSENT.to_owned(),
    }
}

fn present(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Points => format!("{} pp", signed(value * 100.0)),
        Unit::Percent => format!("{}%", percent_digits(value * 100.0)),
        Unit::Ratio => format!("×{}", ratio_digits(value)),
        Unit::Ms => duration(value),
        Unit::Usd => usd(value),
        Unit::PerSecond => format!("{}/s", significant(value)),
        Unit::Plain => significant(value),
    }
}

/// The figure without its unit, for the ends of an interval that stands beside a figure with one.
fn bare(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Points => signed(value * 100.0),
        Unit::Percent => percent_digits(value * 100.0),
        Unit::Ratio => ratio_digits(value),
        // With its unit: one end may be in seconds where the other is in milliseconds.
        Unit::Ms => duration(value),
        Unit::Usd => usd(value).replace('$', ""),
        Unit::PerSecond | Unit::Plain => significant(value),
    }
}

/// `−6.8 to −1.7`; one-sided where an end is absent; `None` where both are.
pub fn interval(unit: Unit, low: Option<f64>, high: Option<f64>) -> Option<String> {
    let finite = |end: Option<f64>| end.filter(|end| end.is_finite());
    match (finite(low), finite(high)) {
        (Some(low), Some(high)) => {
            let (low, high) = (bare(unit, low), bare(unit, high));
            // `83.3 to 87.0 ms`, but `990 ms to 1.04 s`.
            let same = low.split_once(' ').zip(high.split_once(' ')).filter(|(low, high)| low.1 == high.1);
            let low = same.map_or(low.as_str(), |(low, _)| low.0);
            Some(format!("{low} to {high}"))
        }
        (Some(low), None) => Some(format!("≥ {}", bare(unit, low))),
        (None, Some(high)) => Some(format!("≤ {}", bare(unit, high))),
        (None, None) => None,
    }
}

/// `−4.2 pp (−6.8 to −1.7)`.
pub fn estimate(unit: Unit, estimate: &Estimate) -> String {
    let point = figure(unit, estimate.point);
    match interval(unit, estimate.low, estimate.high) {
        Some(ends) => format!("{point} ({ends})"),
        None => point,
    }
}

/// Whether the interval holds "no change": such a figure is marked `~` and never called better or worse.
/// Only an interval with both its ends can hold anything: without them nothing is said.
pub fn within_noise(unit: Unit, estimate: &Estimate) -> bool {
    let Some(no_change) = unit.no_change() else { return false };
    estimate.low.zip(estimate.high).is_some_and(|(low, high)| low <= no_change && no_change <= high)
}

/// Three significant digits in µs, ms or s.
pub fn duration(ms: f64) -> String {
    match ms.abs() {
        0.0 => "0 ms".to_owned(),
        size if size < 0.999_5 => format!("{} µs", significant(ms * 1e3)),
        size if size < 999.5 => format!("{} ms", significant(ms)),
        _ => format!("{} s", significant(ms / 1e3)),
    }
}

/// A length of wall time: `42.0 s`, `3 min 20 s`, `2 h 05 min`.
pub fn wall(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return ABSENT.to_owned();
    }
    let whole = seconds.round() as u64;
    match whole {
        0..=59 => format!("{} s", significant(seconds)),
        60..=3_599 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3_600, whole % 3_600 / 60),
    }
}

/// Dollars: cents from one dollar up, three significant digits below.
pub fn usd(value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "" };
    match value.abs() {
        0.0 => "$0".to_owned(),
        size if size >= 0.995 => format!("{sign}${}", grouped(&format!("{size:.2}"))),
        size => format!("{sign}${}", significant(size)),
    }
}

/// A decimal from exact arithmetic, kept digit by digit up to six places behind the point.
pub fn usd_exact(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => usd(value),
        _ => ABSENT.to_owned(),
    }
}

/// Bytes in decimal units, three significant digits: `145 MB`, `2.05 kB`.
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    let mut scaled = value;
    let mut units = UNITS.iter().copied();
    let mut unit = units.next().unwrap_or_default();
    while let Some(next) = units.next().filter(|_| scaled.abs() >= 999.5) {
        scaled /= 1e3;
        unit = next;
    }
    format!("{} {unit}", significant(scaled))
}

/// `12,345`.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// Three significant digits, never in exponents, thousands grouped; a true minus sign.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return ABSENT.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let sign = if value < 0.0 { "−" } else { "" };
    let size = value.abs();
    // Rounding may carry into the next power of ten (99.96 → 100), so the digits follow the rounded number.
    let mut places = places_for(size);
    let rounded = rounded_to(size, places);
    if places_for(rounded) < places {
        places = places_for(rounded);
    }
    format!("{sign}{}", grouped(&format!("{rounded:.places$}")))
}

fn places_for(size: f64) -> usize {
    let magnitude = size.log10().floor();
    (2.0 - magnitude).clamp(0.0, 12.0) as usize
}

fn rounded_to(size: f64, places: usize) -> f64 {
    let scale = 10_f64.powi(i32::try_from(places).unwrap_or(12));
    (size * scale).round() / scale
}

/// Percentage points: one decimal, two where one would hide a difference that is there.
fn signed(points: f64) -> String {
    let size = points.abs();
    let digits = if size > 0.0 && size < 0.1 { format!("{size:.2}") } else { format!("{size:.1}") };
    match points {
        points if points > 0.0 => format!("+{digits}"),
        points if points < 0.0 => format!("−{digits}"),
        _ => "0.0".to_owned(),
    }
}

fn percent_digits(percent: f64) -> String {
    let size = percent.abs();
    let sign = if percent < 0.0 { "−" } else { "" };
    if size > 0.0 && size < 0.995 { format!("{sign}{size:.2}") } else { format!("{sign}{size:.1}") }
}

fn ratio_digits(value: f64) -> String {
    match value.abs() {
        size if (0.095..9.995).contains(&size) => format!("{value:.2}").replace('-', "−"),
        _ => significant(value),
    }
}

fn grouped(digits: &str) -> String {
    let (whole, rest) = digits.split_once('.').map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    let mut out = String::with_capacity(digits.len() + 4);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(rest) = rest {
        out.push('.');
        out.push_str(rest);
    }
    out
}

/// `2026-12-01 09:30 UTC` from milliseconds since the epoch.
pub fn date(wall_ms: u64) -> String {
    let minutes = wall_ms / 60_000;
    let (year, month, day) = civil(minutes / 1_440);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60 % 24, minutes % 60)
}

/// `20261201T093000Z`: for names of directories, in the order of time.
pub fn timestamp_compact(wall_ms: u64) -> String {
    let seconds = wall_ms / 1_000;
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Days since 1970-01-01 to year, month and day of the Gregorian calendar (Hinnant, "chrono-compatible low-level
/// date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_ends(point: Option<f64>, low: Option<f64>, high: Option<f64>) -> Estimate {
        Estimate { point, low, high, level: 0.9, n: 10, method: "tango".to_owned() }
    }

    #[test]
    fn durations_keep_three_digits_and_change_unit() {
        for (ms, text) in [
            (0.0451, "45.1 µs"),
            (0.9999, "1.00 ms"),
            (1.2345, "1.23 ms"),
            (99.96, "100 ms"),
            (123.4, "123 ms"),
            (999.6, "1.00 s"),
            (1234.0, "1.23 s"),
            (65_432.0, "65.4 s"),
            (1_234_567.0, "1,235 s"),
        ] {
            assert_eq!(figure(Unit::Ms, Some(ms)), text, "{ms}");
        }
    }

    #[test]
    fn differences_carry_a_sign_and_their_unit() {
        for (share, text) in
            [(0.012, "+1.2 pp"), (-0.042, "−4.2 pp"), (0.0, "0.0 pp"), (-0.0004, "−0.04 pp"), (1.0, "+100.0 pp")]
        {
            assert_eq!(figure(Unit::Points, Some(share)), text);
        }
    }

    #[test]
    fn other_units() {
        assert_eq!(figure(Unit::Percent, Some(0.6341)), "63.4%");
        assert_eq!(figure(Unit::Percent, Some(0.0042)), "0.42%");
        assert_eq!(figure(Unit::Ratio, Some(0.8712)), "×0.87");
        assert_eq!(figure(Unit::Ratio, Some(12.34)), "×12.3");
        assert_eq!(figure(Unit::Usd, Some(0.000_123_4)), "$0.000123");
        assert_eq!(figure(Unit::Usd, Some(12_345.6)), "$12,345.60");
        assert_eq!(figure(Unit::PerSecond, Some(1_234.4)), "1,234/s");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(wall(200.0), "3 min 20 s");
    }

    #[test]
    fn what_is_absent_or_not_finite_is_a_dash() {
        for unit in [Unit::Points, Unit::Percent, Unit::Ratio, Unit::Ms, Unit::Usd, Unit::PerSecond, Unit::Plain] {
            for value in [None, Some(f64::NAN), Some(f64::INFINITY), Some(f64::NEG_INFINITY)] {
                assert_eq!(figure(unit, value), ABSENT);
                assert_eq!(interval(unit, value, value), None);
            }
        }
        assert_eq!(usd_exact("not a number"), ABSENT);
    }

    #[test]
    fn noise_is_an_interval_that_holds_no_change() {
        assert!(within_noise(Unit::Ratio, &with_ends(Some(0.98), Some(0.95), Some(1.01))));
        assert!(!within_noise(Unit::Ratio, &with_ends(Some(0.9), Some(0.88), Some(0.93))));
        assert!(!within_noise(Unit::Points, &with_ends(Some(-0.1), None, None)));
        assert!(!within_noise(Unit::Points, &with_ends(Some(-0.1), None, Some(-0.05))));
        assert!(!within_noise(Unit::Points, &with_ends(Some(-0.1), Some(-0.2), None)));
    }

    #[test]
    fn one_sided_intervals_say_which_side() {
        assert_eq!(estimate(Unit::Ratio, &with_ends(Some(0.9), None, Some(0.95))), "×0.90 (≤ 0.95)");
        assert_eq!(interval(Unit::Ms, Some(83.3), Some(87.0)).unwrap(), "83.3 to 87.0 ms");
        assert_eq!(interval(Unit::Ms, Some(990.0), Some(1_040.0)).unwrap(), "990 ms to 1.04 s");
        assert_eq!(interval(Unit::Usd, Some(0.5), Some(1.5)).unwrap(), "0.500 to 1.50");
        assert_eq!(estimate(Unit::Points, &with_ends(Some(-0.04), Some(-0.07), Some(-0.02))), "−4.0 pp (−7.0 to −2.0)");
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400_000), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_796_117_460_000), "2026-12-01 09:31 UTC");
    }
}
