//! Small interval bars that stand in a table's cell.

use super::axis::{Axis, hull, padded};
use super::scatter::points_label;
use super::{line, open, rect, text};
use crate::report::format::{self, Unit};
use crate::report::words::Better;

/// A point with its interval; ends may be absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    pub point: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl Span {
    pub fn of(estimate: &crate::analyze::Estimate) -> Span {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        Span { point: finite(estimate.point), low: finite(estimate.low), high: finite(estimate.high) }
    }

    fn values(self) -> impl Iterator<Item = f64> {
        [self.point, self.low, self.high].into_iter().flatten()
    }
}

const WIDTH: f64 = 220.0;
const HEIGHT: f64 = 34.0;

/// The interval against the bound; the side on which the gate fails is shaded. `None` where there is nothing to draw.
pub fn gate_bar(unit: Unit, span: Span, bound: f64, passes: Better, class: &str) -> Option<String> {
    span.point?;
    let fixed = [Some(bound), unit.no_change()].into_iter().flatten();
    let range = padded(hull(span.values().chain(fixed))?, 0.12);
    let axis = Axis::new(range, (4.0, WIDTH - 4.0), false)?;
    let alternative = format!(
        "interval {} against bound {}",
        format::interval(unit, span.low, span.high).unwrap_or_else(|| format::figure(unit, span.point)),
        format::figure(unit, Some(bound))
    );
    let mut out = open(WIDTH, HEIGHT, "bar", &alternative);
    let edge = axis.at(bound);
    match passes {
        Better::Higher => rect(&mut out, "failing", 0.0, 2.0, edge, 18.0),
        Better::Lower => rect(&mut out, "failing", edge, 2.0, WIDTH - edge, 18.0),
    }
    if let Some(no_change) = unit.no_change() {
        line(&mut out, "zero", (axis.at(no_change), 2.0), (axis.at(no_change), 20.0));
    }
    line(&mut out, "bound", (edge, 0.0), (edge, 22.0));
    whisker(&mut out, &axis, span, 11.0, class);
    let anchor = if edge < 40.0 {
        "start"
    } else if edge > WIDTH - 40.0 {
        "end"
    } else {
        "middle"
    };
    text(&mut out, "tick", anchor, (edge, HEIGHT - 2.0), &format::figure(unit, Some(bound)));
    out.push_str("</svg>");
    Some(out)
}

/// A dot on the point and a line from end to end; an end that is absent or off the axis is drawn as an arrow. A figure
/// without an interval (an observed value) is a dot alone.
fn whisker(out: &mut String, axis: &Axis, span: Span, y: f64, class: &str) {
    use std::fmt::Write as _;
    if let Some(point) = span.point.filter(|point| axis.holds(*point)) {
        let _ = write!(out, "<circle class=\"dot {class}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/>", axis.at(point));
    }
    if span.low.is_none() && span.high.is_none() {
        return;
    }
    let left = axis.at(span.low.unwrap_or(f64::MIN));
    let right = axis.at(span.high.unwrap_or(f64::MAX));
    line(out, &format!("whisker {class}"), (left, y), (right, y));
    for (end, x, toward) in [(span.low, left, 1.0), (span.high, right, -1.0)] {
        if end.is_some_and(|end| axis.holds(end)) {
            line(out, &format!("whisker {class}"), (x, y - 4.0), (x, y + 4.0));
        } else {
            let back = x + 5.0 * toward;
            let _ = write!(
                out,
                "<path class=\"arrow {class}\" d=\"M{x:.1} {y:.1}L{back:.1} {:.1}L{back:.1} {:.1}Z\"/>",
                y - 4.0,
                y + 4.0
            );
        }
    }
}

/// One row of a forest plot: a difference of shares on the range that all rows have in common.
pub fn forest(span: Span, range: (f64, f64), margin: Option<f64>, class: &str) -> Option<String> {
    span.point?;
    let axis = Axis::new(range, (4.0, WIDTH - 4.0), false)?;
    let alternative = format!(
        "difference {}, interval {}",
        format::figure(Unit::Points, span.point),
        format::interval(Unit::Points, span.low, span.high).unwrap_or_else(|| "absent".to_owned())
    );
    let mut out = open(WIDTH, 24.0, "bar forest", &alternative);
    if let Some(margin) = margin {
        line(&mut out, "margin", (axis.at(margin), 0.0), (axis.at(margin), 24.0));
    }
    line(&mut out, "zero", (axis.at(0.0), 0.0), (axis.at(0.0), 24.0));
    whisker(&mut out, &axis, span, 12.0, class);
    out.push_str("</svg>");
    Some(out)
}

/// The axis that stands over a forest plot.
pub fn forest_axis(range: (f64, f64)) -> Option<String> {
    let axis = Axis::new(range, (4.0, WIDTH - 4.0), false)?;
    let mut out = open(WIDTH, 18.0, "bar axis", "axis of the differences, in percentage points");
    for tick in axis.ticks(4) {
        let x = axis.at(tick);
        line(&mut out, "grid", (x, 14.0), (x, 18.0));
        let anchor = if x < 20.0 {
            "start"
        } else if x > WIDTH - 20.0 {
            "end"
        } else {
            "middle"
        };
        text(&mut out, "tick", anchor, (x, 11.0), &points_label(tick));
    }
    out.push_str("</svg>");
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failing_side_is_shaded() {
        let span = Span { point: Some(-0.04), low: Some(-0.07), high: Some(-0.03) };
        let left = gate_bar(Unit::Points, span, -0.02, Better::Higher, "fail").unwrap();
        assert!(left.contains("class=\"failing\" x=\"0.0\""), "{left}");
        let span = Span { point: Some(0.8), low: Some(0.7), high: Some(0.85) };
        let right = gate_bar(Unit::Ratio, span, 0.9, Better::Lower, "pass").unwrap();
        assert!(!right.contains("class=\"failing\" x=\"0.0\""), "{right}");
    }

    #[test]
    fn nothing_is_drawn_for_an_absent_figure() {
        assert!(gate_bar(Unit::Points, Span::default(), -0.02, Better::Higher, "fail").is_none());
        assert!(forest(Span::default(), (-0.1, 0.1), None, "").is_none());
        let unbounded = Span { point: Some(0.01), low: None, high: Some(0.5) };
        let drawn = forest(unbounded, (-0.1, 0.1), Some(-0.02), "").unwrap();
        assert_eq!(drawn.matches("class=\"arrow").count(), 2);
        let observed = forest(Span { point: Some(0.01), low: None, high: None }, (-0.1, 0.1), None, "").unwrap();
        assert!(observed.contains("<circle") && !observed.contains("whisker"), "{observed}");
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
    }
}
