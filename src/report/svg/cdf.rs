//! Cumulative latency distributions of all arms over each other.

use std::fmt::Write as _;

use super::axis::{Axis, hull};
use super::{line, open, text};
use crate::report::format;

/// One arm's curve.
pub struct Series<'a> {
    /// Number of the arm: its colour and dash.
    pub index: usize,
    pub twin: bool,
    /// (milliseconds, share at or below).
    pub points: &'a [(f64, f64)],
}

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 40.0;

/// Colours repeat after eight arms, dashes after five, so forty arms stay apart.
const COLOURS: usize = 8;
const DASHES: [&str; 5] = ["", "7 3", "2 3", "9 3 2 3", "4 2"];

/// Class and dash of an arm's line.
pub(super) fn stroke(index: usize, twin: bool) -> String {
    let dash = if twin { "2 4" } else { DASHES.get(index % DASHES.len()).copied().unwrap_or_default() };
    let twin = if twin { " twin" } else { "" };
    let dash = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
    format!("class=\"curve s{}{twin}\"{dash}", index % COLOURS)
}

/// A sample of an arm's line, for the legend.
pub fn swatch(index: usize, twin: bool) -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 34 10\" width=\"34\" height=\"10\" aria-hidden=\"true\"><path {} d=\"M1 5L33 5\"/></svg>",
        stroke(index, twin)
    )
}

/// `None` where no arm has the figure.
pub fn cdf(title: &str, series: &[Series<'_>]) -> Option<String> {
    let usable = |ms: f64| ms.is_finite() && ms > 0.0;
    let all = series.iter().flat_map(|series| series.points.iter().map(|point| point.0)).filter(|ms| usable(*ms));
    let (least, greatest) = hull(all)?;
    let x = Axis::new((least * 0.9, greatest * 1.1), (LEFT, WIDTH - RIGHT), true)?;
    let y = Axis::new((0.0, 1.0), (HEIGHT - BOTTOM, TOP), false)?;
    let alternative = format!(
        "{title}: share of answered requests at or below each latency, by arm; the table below gives the percentiles"
    );
    let mut out = open(WIDTH, HEIGHT, "chart cdf", &alternative);
    for share in [0.0, 0.25, 0.5, 0.75, 0.9, 1.0] {
        line(&mut out, "grid", (LEFT, y.at(share)), (WIDTH - RIGHT, y.at(share)));
        text(&mut out, "tick", "end", (LEFT - 6.0, y.at(share) + 4.0), &format!("{:.0}%", share * 100.0));
    }
    let mut last_label = f64::MIN;
    for tick in x.ticks(5) {
        let at = x.at(tick);
        line(&mut out, "grid", (at, TOP), (at, HEIGHT - BOTTOM));
        // A label needs room of its own; a grid line does not.
        if at - last_label > 46.0 && at < WIDTH - 20.0 {
            text(&mut out, "tick", "middle", (at, HEIGHT - BOTTOM + 16.0), &round_ms(tick));
            last_label = at;
        }
    }
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    text(&mut out, "axis-title", "middle", (middle, HEIGHT - 6.0), &format!("{title}, log scale"));
    for series in series {
        curve(&mut out, series, &x, &y);
    }
    out.push_str("</svg>");
    Some(out)
}

fn curve(out: &mut String, series: &Series<'_>, x: &Axis, y: &Axis) {
    let mut path = String::new();
    for (ms, share) in series.points.iter().filter(|(ms, share)| ms.is_finite() && *ms > 0.0 && share.is_finite()) {
        let verb = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{verb}{:.1} {:.1}", x.at(*ms), y.at(*share));
    }
    if !path.is_empty() {
        let _ = write!(out, "<path {} d=\"{path}\"/>", stroke(series.index, series.twin));
    }
}

/// A tick's label: `5 ms`, `2 s`, without the zeros that a figure would keep.
fn round_ms(ms: f64) -> String {
    let text = format::duration(ms);
    match text.split_once(' ') {
        Some((digits, unit)) if digits.contains('.') => {
            format!("{} {unit}", digits.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_lose_their_zeros() {
        assert_eq!(round_ms(5.0), "5 ms");
        assert_eq!(round_ms(200.0), "200 ms");
        assert_eq!(round_ms(2_500.0), "2.5 s");
    }

    #[test]
    fn strange_points_leave_no_trace() {
        let points = [(f64::NAN, 0.1), (0.0, 0.2), (5.0, 0.5), (9.0, 1.0)];
        let drawn = cdf("TTFT", &[Series { index: 0, twin: false, points: &points }]).unwrap();
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        assert!(cdf("TTFT", &[Series { index: 0, twin: false, points: &[(f64::NAN, 0.1)] }]).is_none());
    }
}
