//! What the page shows: the summary turned into cells, sentences and charts, so that the template holds no arithmetic.

mod arms;
mod cell;
mod flips;
mod gates;
mod head;
mod latency;
mod light;
mod methods;
mod quality;
mod steps;
mod tradeoff;

use serde::Serialize;

use crate::analyze::Summary;
use crate::analyze::summary::ComparisonSummary;

use super::text::{clipped, one_line};

pub(crate) use cell::Cell;
pub(crate) use head::sentence;
pub(crate) use steps::{RATIO_COLUMNS, STEP_COLUMNS, Steps, steps};
pub(crate) use tradeoff::{Row, SPEED_COLUMNS, tradeoff};

/// The page. Fields that end in `_svg` hold markup that was made here; all else is text that the template escapes.
#[derive(Serialize)]
pub struct Page {
    pub head: head::Head,
    pub gates: Vec<gates::Group>,
    pub tradeoff: tradeoff::Tradeoff,
    pub steps: Option<Steps>,
    pub quality: quality::Quality,
    pub latency: latency::LatencyView,
    pub light: Option<light::Light>,
    pub arms: arms::Arms,
    pub flips: flips::Flips,
    pub methods: Vec<methods::Definition>,
}

/// Builds the page's content.
pub fn page(summary: &Summary, generated_wall_ms: u64) -> Page {
    Page {
        head: head::head(summary, generated_wall_ms),
        gates: gates::groups(summary),
        tradeoff: tradeoff(summary),
        steps: steps(summary),
        quality: quality::quality(summary),
        latency: latency::latency(summary),
        light: light::light(summary),
        arms: arms::arms(summary),
        flips: flips::flips(summary),
        methods: methods::definitions(summary),
    }
}

/// A name from outside on one line of bounded length.
pub(crate) fn name(text: &str) -> String {
    clipped(&one_line(text), 120)
}

/// Minus the tolerated loss of the main metric over the whole run, where a gate states one for this candidate.
fn margin(summary: &Summary, comparison: &ComparisonSummary) -> Option<f64> {
    let metric = main_metric(comparison)?;
    let whole = summary.gates.iter().filter(|gate| gate.kind == "quality" && gate.scope == "all");
    let own = whole.filter(|gate| gate.arm == comparison.candidate && gate.gate.split(' ').any(|word| word == metric));
    let bounds = own.filter_map(|gate| gate.bound);
    bounds.filter(|bound| *bound <= 0.0).reduce(f64::max)
}

/// The metric that stands for quality: accuracy, else the first by name.
pub(crate) fn main_metric(comparison: &ComparisonSummary) -> Option<&str> {
    if comparison.quality.contains_key("accuracy") {
        return Some("accuracy");
    }
    comparison.quality.keys().next().map(String::as_str)
}

/// Arms in the plan's order; arms that the order forgot come last.
pub(crate) fn arm_names(summary: &Summary) -> Vec<&str> {
    let mut names: Vec<&str> =
        summary.arm_order.iter().map(String::as_str).filter(|name| summary.arms.contains_key(*name)).collect();
    let forgotten =
        summary.arms.keys().map(String::as_str).filter(|name| !summary.arm_order.iter().any(|known| known == name));
    names.extend(forgotten);
    names
}
