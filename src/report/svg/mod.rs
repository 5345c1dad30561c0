//! Charts as inline SVG, drawn here so that they show without a script, print, and can be tested as text.
//!
//! Colours and fonts come from the page's style by class; no `style=` attribute is written (the page's policy forbids
//! it), and all text goes through [`label`].

mod axis;
mod bars;
mod cdf;
mod curve;
mod scatter;

pub use bars::{Span, forest, forest_axis, gate_bar};
pub use cdf::{Series, cdf, swatch};
pub use curve::{Line, curves};
pub use scatter::{Point, Scatter, scatter};

use std::fmt::Write as _;

use super::text::{clipped, escaped, one_line};

/// Text for a chart: made visible, cut, escaped. The slash is escaped too, so that no address stands in the page's
/// source.
fn label(text: &str, limit: usize) -> String {
    escaped(&clipped(&one_line(text), limit)).replace('/', "&#x2f;")
}

/// Opens a chart with its text alternative.
fn open(width: f64, height: f64, class: &str, alternative: &str) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{}\">",
        label(alternative, 400)
    );
    out
}

fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = write!(
        out,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn rect(out: &mut String, class: &str, x: f64, y: f64, width: f64, height: f64) {
    if width > 0.0 && height > 0.0 {
        let _ = write!(
            out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }
}

fn text(out: &mut String, class: &str, anchor: &str, at: (f64, f64), content: &str) {
    let _ = write!(
        out,
        "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        at.0,
        at.1,
        label(content, 60)
    );
}
