//! Quality against speed: each candidate with both of its intervals, the margin, and the twin as the noise floor.

use std::fmt::Write as _;

use super::axis::{Axis, hull};
use super::bars::Span;
use super::{line, open, rect, text};
use crate::report::format::{self, Unit};

/// One arm of the chart.
pub struct Point {
    pub name: String,
    /// Class of its verdict; `twin` for the noise floor.
    pub class: &'static str,
    /// How many times as fast as the baseline (above 1 is faster).
    pub speedup: Span,
    /// Candidate − baseline, a share.
    pub delta: Span,
}

pub struct Scatter<'a> {
    pub points: &'a [Point],
    /// −0.02 for a tolerated loss of 2 pp.
    pub margin: Option<f64>,
    /// What the speed-up is of: `E2E p50`.
    pub metric: &'a str,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 48.0;

/// `None` where no arm has both figures.
pub fn scatter(chart: &Scatter<'_>) -> Option<String> {
    let points: Vec<&Point> =
        chart.points.iter().filter(|point| point.speedup.point.is_some() && point.delta.point.is_some()).collect();
    if points.is_empty() {
        return None;
    }
    let (x, y) = axes(&points, chart.margin)?;
    let alternative = format!(
        "quality change against speed-up of {}: {}",
        chart.metric,
        points.iter().map(|point| spoken(point)).collect::<Vec<_>>().join("; ")
    );
    let mut out = open(WIDTH, HEIGHT, "chart scatter", &alternative);
    frame(&mut out, &x, &y, chart);
    let mut taken = Vec::new();
    for point in &points {
        mark(&mut out, &x, &y, point);
        taken.extend(covered(&x, &y, point));
    }
    if let Some(margin) = chart.margin {
        margin_name(&mut out, y.at(margin), margin, &mut taken);
    }
    for point in &points {
        name(&mut out, (x.at(point.speedup.point?), y.at(point.delta.point?)), point, &mut taken);
    }
    out.push_str("</svg>");
    Some(out)
}

fn spoken(point: &Point) -> String {
    format!(
        "{} {} at {}",
        point.name,
        format::figure(Unit::Points, point.delta.point),
        format::figure(Unit::Ratio, point.speedup.point)
    )
}

fn axes(points: &[&Point], margin: Option<f64>) -> Option<(Axis, Axis)> {
    let ends = |span: Span| [span.point, span.low, span.high].into_iter().flatten();
    let speeds = points.iter().flat_map(|point| ends(point.speedup)).filter(|speed| *speed > 0.0);
    let (least, greatest) = hull(speeds.chain([0.95, 1.05]))?;
    let room = (greatest / least).powf(0.08);
    let deltas = points.iter().flat_map(|point| ends(point.delta));
    let (low, high) = hull(deltas.chain(margin).chain([-0.005, 0.005]))?;
    let headroom = (high - low) * 0.12;
    let x = Axis::new((least / room, greatest * room), (LEFT, WIDTH - RIGHT), true)?;
    let y = Axis::new((low - headroom, high + headroom), (HEIGHT - BOTTOM, TOP), false)?;
    Some((x, y))
}

fn frame(out: &mut String, x: &Axis, y: &Axis, chart: &Scatter<'_>) {
    let (right, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let limit = chart.margin.unwrap_or(0.0);
    rect(out, "failing", LEFT, y.at(limit), right - LEFT, floor - y.at(limit));
    for tick in x.ticks(6) {
        line(out, "grid", (x.at(tick), TOP), (x.at(tick), floor));
        text(out, "tick", "middle", (x.at(tick), floor + 16.0), &format!("×{}", trimmed(tick)));
    }
    for tick in y.ticks(6) {
        line(out, "grid", (LEFT, y.at(tick)), (right, y.at(tick)));
        text(out, "tick", "end", (LEFT - 6.0, y.at(tick) + 4.0), &points_label(tick));
    }
    line(out, "zero", (x.at(1.0), TOP), (x.at(1.0), floor));
    line(out, "zero", (LEFT, y.at(0.0)), (right, y.at(0.0)));
    if let Some(margin) = chart.margin {
        line(out, "bound", (LEFT, y.at(margin)), (right, y.at(margin)));
    }
    quadrants(out, x, y, limit);
    let middle = f64::midpoint(LEFT, right);
    let title = format!("Speed-up: baseline ÷ candidate, {} (log scale)", chart.metric);
    text(out, "axis-title", "middle", (middle, HEIGHT - 8.0), &title);
    let centre = f64::midpoint(TOP, floor);
    let _ = write!(
        out,
        "<text class=\"axis-title\" text-anchor=\"middle\" transform=\"translate(14 {centre:.1}) rotate(-90)\">Quality change (pp)</text>"
    );
}

/// What a corner of the chart means, said where there is room for it.
fn quadrants(out: &mut String, x: &Axis, y: &Axis, limit: f64) {
    let (right, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let even = x.at(1.0);
    let roomy = |from: f64, to: f64| to - from > 150.0;
    let words = [
        (roomy(even, right), "end", right - 8.0, TOP + 16.0, "faster, quality held"),
        (roomy(LEFT, even), "start", LEFT + 8.0, TOP + 16.0, "slower, quality held"),
    ];
    let below = [
        (roomy(even, right), "end", right - 8.0, floor - 8.0, "faster, quality lost"),
        (roomy(LEFT, even), "start", LEFT + 8.0, floor - 8.0, "slower, quality lost"),
    ];
    let below = below.into_iter().filter(|_| floor - y.at(limit) > 30.0);
    for (fits, anchor, at_x, at_y, words) in words.into_iter().chain(below) {
        if fits {
            text(out, "quadrant", anchor, (at_x, at_y), words);
        }
    }
}

fn mark(out: &mut String, x: &Axis, y: &Axis, point: &Point) {
    let (Some(speed), Some(delta)) = (point.speedup.point, point.delta.point) else { return };
    let at = (x.at(speed), y.at(delta));
    let class = format!("whisker {}", point.class);
    if let (Some(low), Some(high)) = (point.speedup.low, point.speedup.high) {
        line(out, &class, (x.at(low), at.1), (x.at(high), at.1));
    }
    if let (Some(low), Some(high)) = (point.delta.low, point.delta.high) {
        line(out, &class, (at.0, y.at(low)), (at.0, y.at(high)));
    }
    // Shape says what colour says: the twin is hollow, a failing candidate a square, an undecided one a diamond.
    let (px, py) = at;
    let _ = match point.class {
        "fail" | "invalid" => write!(
            out,
            "<rect class=\"dot {}\" x=\"{:.1}\" y=\"{:.1}\" width=\"11\" height=\"11\"/>",
            point.class,
            px - 5.5,
            py - 5.5
        ),
        "inconclusive" => write!(
            out,
            "<path class=\"dot inconclusive\" d=\"M{px:.1} {:.1}L{:.1} {py:.1}L{px:.1} {:.1}L{:.1} {py:.1}Z\"/>",
            py - 7.5,
            px + 7.5,
            py + 7.5,
            px - 7.5
        ),
        class => write!(out, "<circle class=\"dot {class}\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"6\"/>"),
    };
}

/// The places that a point and its whiskers take.
fn covered(x: &Axis, y: &Axis, point: &Point) -> Vec<Area> {
    let (Some(speed), Some(delta)) = (point.speedup.point, point.delta.point) else { return Vec::new() };
    let (px, py) = (x.at(speed), y.at(delta));
    let mut areas = vec![Area { left: px - 7.0, right: px + 7.0, top: py - 7.0, bottom: py + 7.0 }];
    if let (Some(low), Some(high)) = (point.speedup.low, point.speedup.high) {
        areas.push(Area { left: x.at(low), right: x.at(high), top: py - 2.0, bottom: py + 2.0 });
    }
    if let (Some(low), Some(high)) = (point.delta.low, point.delta.high) {
        areas.push(Area { left: px - 2.0, right: px + 2.0, top: y.at(high), bottom: y.at(low) });
    }
    areas
}

/// Names the margin's line at the first end where no point is in the way.
fn margin_name(out: &mut String, edge: f64, margin: f64, taken: &mut Vec<Area>) {
    let words = format!("margin {}", format::figure(Unit::Points, Some(margin)));
    let width = 100.0;
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT) - width / 2.0;
    let places = [
        (LEFT + 6.0, 15.0),
        (WIDTH - RIGHT - width - 6.0, 15.0),
        (LEFT + 6.0, -5.0),
        (WIDTH - RIGHT - width - 6.0, -5.0),
        (middle, 15.0),
    ];
    let area =
        |(left, dy): (f64, f64)| Area { left, right: left + width, top: edge + dy - 11.0, bottom: edge + dy + 3.0 };
    let free =
        places.into_iter().find(|place| area(*place).inside() && !taken.iter().any(|other| other.meets(&area(*place))));
    let place = free.unwrap_or((LEFT + 6.0, 15.0));
    text(out, "tick strong", "start", (place.0, edge + place.1), &words);
    taken.push(area(place));
}

/// A tick on an axis of differences, in percentage points: `−2.5`, `0`, `+5`.
pub(super) fn points_label(share: f64) -> String {
    let points = (share * 1e4).round() / 100.0;
    if points == 0.0 { "0".to_owned() } else { format!("{points:+}").replace('-', "−") }
}

struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Area {
    fn meets(&self, other: &Area) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn inside(&self) -> bool {
        self.left >= LEFT && self.right <= WIDTH - RIGHT && self.top >= TOP && self.bottom <= HEIGHT - BOTTOM
    }
}

/// Writes the arm's name at the first place beside its point where it covers no other point or name.
fn name(out: &mut String, (px, py): (f64, f64), point: &Point, taken: &mut Vec<Area>) {
    let words = super::clipped(&point.name, 28);
    let width = words.chars().count() as f64 * 7.2;
    let places =
        [(10.0, -9.0), (10.0, 19.0), (-10.0 - width, -9.0), (-10.0 - width, 19.0), (10.0, -26.0), (10.0, 36.0)];
    let area = |(dx, dy): (f64, f64)| Area {
        left: px + dx,
        right: px + dx + width,
        top: py + dy - 11.0,
        bottom: py + dy + 3.0,
    };
    let free = places.into_iter().find(|place| {
        let area = area(*place);
        area.inside() && !taken.iter().any(|other| other.meets(&area))
    });
    let (dx, dy) = free.unwrap_or((10.0, -9.0));
    text(out, &format!("name {}", point.class), "start", (px + dx, py + dy), &words);
    taken.push(area((dx, dy)));
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &str, speed: f64, delta: f64) -> Point {
        let around = |value: f64| Span { point: Some(value), low: Some(value - 0.01), high: Some(value + 0.01) };
        Point { name: name.to_owned(), class: "pass", speedup: around(speed), delta: around(delta) }
    }

    #[test]
    fn names_do_not_cover_each_other() {
        let points = [point("first", 1.2, -0.01), point("second", 1.2, -0.01), point("third", 1.201, -0.01)];
        let drawn = scatter(&Scatter { points: &points, margin: Some(-0.02), metric: "E2E p50" }).unwrap();
        let places: Vec<&str> =
            drawn.split("class=\"name pass\"").skip(1).filter_map(|rest| rest.split('>').next()).collect();
        assert_eq!(places.len(), 3);
        assert!(places[0] != places[1] && places[1] != places[2] && places[0] != places[2], "{places:?}");
    }

    #[test]
    fn hostile_names_are_text() {
        let drawn = scatter(&Scatter { points: &[point("<b>&\"\u{202e}", 1.2, 0.0)], margin: None, metric: "E2E p50" })
            .unwrap();
        assert!(drawn.contains("&lt;b&gt;&amp;&quot;⟨U+202E⟩") && !drawn.contains("<b>"), "{drawn}");
    }

    #[test]
    fn no_point_no_chart() {
        let mut absent = point("a", 1.0, 0.0);
        absent.delta = Span::default();
        assert!(scatter(&Scatter { points: &[absent], margin: None, metric: "E2E p50" }).is_none());
    }
}
