//! A figure against the load, one line for each arm.

use std::fmt::Write as _;

use super::axis::{Axis, hull};
use super::cdf::stroke;
use super::{line, open, text};
use crate::report::format::{self, Unit};

/// One arm's line.
pub struct Line {
    /// Number of the arm: its colour and dash.
    pub index: usize,
    pub twin: bool,
    /// (load, value), in the order of the steps.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 42.0;
/// Values that span more than this need a logarithmic axis to be told apart.
const LOG_FROM: f64 = 20.0;
/// Loads that span more than this.
const LOG_LOADS_FROM: f64 = 6.0;

/// `None` where no arm has the figure at two loads.
pub fn curves(title: &str, load: &str, unit: Unit, lines: &[Line]) -> Option<String> {
    let kept: Vec<Line> = lines.iter().map(usable).filter(|line| !line.points.is_empty()).collect();
    let points = || kept.iter().flat_map(|line| line.points.iter().copied());
    let (least, greatest) = hull(points().map(|point| point.0))?;
    let log_x = least > 0.0 && greatest / least > LOG_LOADS_FROM;
    let room = if log_x { (least / 1.08, greatest * 1.08) } else { around(least, greatest) };
    let x = Axis::new(room, (LEFT, WIDTH - RIGHT), log_x).filter(|_| greatest > least)?;
    let (low, high) = hull(points().map(|point| point.1))?;
    let log_y = low > 0.0 && high / low > LOG_FROM;
    let range =
        if log_y { (low / 1.3, high * 1.3) } else { (0.0, if high > 0.0 { high * 1.12 } else { least_top(unit) }) };
    let y = Axis::new(range, (HEIGHT - BOTTOM, TOP), log_y)?;
    let mut out = open(WIDTH, HEIGHT, "chart curve", &spoken(title, load, unit, &kept));
    text(&mut out, "name", "start", (LEFT, 16.0), &format!("{title}{}", if log_y { ", log scale" } else { "" }));
    frame(&mut out, &x, &y, unit, &kept);
    let axis = if log_x { format!("{load}, log scale") } else { load.to_owned() };
    text(&mut out, "axis-title", "middle", (f64::midpoint(LEFT, WIDTH - RIGHT), HEIGHT - 6.0), &axis);
    for line in &kept {
        draw(&mut out, line, &x, &y);
    }
    out.push_str("</svg>");
    Some(out)
}

fn usable(line: &Line) -> Line {
    let points =
        line.points.iter().copied().filter(|(load, value)| load.is_finite() && value.is_finite() && *value >= 0.0);
    Line { points: points.collect(), ..*line }
}

fn around(least: f64, greatest: f64) -> (f64, f64) {
    let room = (greatest - least) * 0.06;
    (least - room, greatest + room)
}

/// Where all values are 0.
fn least_top(unit: Unit) -> f64 {
    if unit == Unit::Percent { 0.01 } else { 1.0 }
}

/// Ticks stand at the loads that were run, where there is room for them.
fn frame(out: &mut String, x: &Axis, y: &Axis, unit: Unit, lines: &[Line]) {
    for tick in y.ticks(4) {
        line(out, "grid", (LEFT, y.at(tick)), (WIDTH - RIGHT, y.at(tick)));
        text(out, "tick", "end", (LEFT - 6.0, y.at(tick) + 4.0), &short(unit, tick));
    }
    let mut loads: Vec<f64> = lines.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let mut last = f64::MIN;
    for load in loads {
        let at = x.at(load);
        line(out, "grid", (at, TOP), (at, HEIGHT - BOTTOM));
        let label = plain(load);
        let width = label.chars().count() as f64 * 7.0;
        if at - width / 2.0 > last + 6.0 {
            text(out, "tick", "middle", (at, HEIGHT - BOTTOM + 16.0), &label);
            last = at + width / 2.0;
        }
    }
}

fn draw(out: &mut String, line: &Line, x: &Axis, y: &Axis) {
    let mut path = String::new();
    for (load, value) in &line.points {
        let verb = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{verb}{:.1} {:.1}", x.at(*load), y.at(*value));
    }
    let _ = write!(out, "<path {} d=\"{path}\"/>", stroke(line.index, line.twin));
    // A dot is drawn as a stroke of its own, so that it has the line's colour.
    for (load, value) in &line.points {
        let (at_x, at_y) = (x.at(*load), y.at(*value));
        let class = stroke(line.index, line.twin).split(" stroke-dasharray").next().unwrap_or_default().to_owned();
        let _ = write!(out, "<circle {class} cx=\"{at_x:.1}\" cy=\"{at_y:.1}\" r=\"2.5\"/>");
    }
}

fn spoken(title: &str, load: &str, unit: Unit, lines: &[Line]) -> String {
    let one = |line: &Line| {
        let points = line
            .points
            .iter()
            .map(|(load, value)| format!("{} at {}", format::figure(unit, Some(*value)), plain(*load)));
        points.collect::<Vec<_>>().join(", ")
    };
    format!("{title} against {load}, by arm: {}", lines.iter().map(one).collect::<Vec<_>>().join("; "))
}

/// A tick without the zeros that a figure keeps.
fn short(unit: Unit, value: f64) -> String {
    let text = if value == 0.0 { "0".to_owned() } else { format::figure(unit, Some(value)) };
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let rest = text.get(digits.len()..).unwrap_or_default();
    let trimmed = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    // The axis has its unit in the title.
    format!("{trimmed}{}", rest.replace("/s", ""))
}

fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(points: &[(f64, f64)]) -> Line {
        Line { index: 1, twin: false, points: points.to_vec() }
    }

    #[test]
    fn one_load_is_no_curve() {
        assert!(curves("TTFT", "rate", Unit::Ms, &[line_of(&[(1.0, 5.0)])]).is_none());
        assert!(curves("TTFT", "rate", Unit::Ms, &[line_of(&[(1.0, f64::NAN), (2.0, f64::INFINITY)])]).is_none());
    }

    #[test]
    fn what_never_errs_is_drawn_at_zero() {
        let drawn = curves("Errors", "rate", Unit::Percent, &[line_of(&[(1.0, 0.0), (2.0, 0.0)])]).unwrap();
        assert!(drawn.contains('M') && !drawn.contains("NaN"), "{drawn}");
    }

    #[test]
    fn every_load_has_its_tick_where_there_is_room() {
        let drawn =
            curves("TTFT", "rate", Unit::Ms, &[line_of(&[(1.0, 5.0), (2.0, 6.0), (4.0, 900.0), (16.0, 950.0)])]);
        let drawn = drawn.unwrap();
        for label in [">1<", ">2<", ">4<", ">16<", "log scale"] {
            assert!(drawn.contains(label), "{label}: {drawn}");
        }
        assert_eq!(drawn.matches("<circle").count(), 4);
    }

    #[test]
    fn ticks_lose_their_zeros_and_rates_their_unit() {
        assert_eq!(short(Unit::PerSecond, 20.0), "20");
        assert_eq!(short(Unit::Ms, 500.0), "500 ms");
        assert_eq!(short(Unit::Percent, 0.05), "5%");
    }
}
