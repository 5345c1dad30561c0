//! Where a raised load saturates a deployment, and where it slows it down.

use super::SHOWN_LEVEL;
use super::estimate::Estimate;
use super::stats::{clopper_pearson_upper, ratio_of_means};
use super::sweep::{StepSummary, SweepPoint};

/// Of what proportional growth would bring, the next step must bring at least this share.
const GROWTH_NEEDED: f64 = 0.05;
/// An open step that answers a smaller share of what arrives does not keep up.
const ANSWERED_NEEDED: f64 = 0.9;
/// One-sided level of the share answered.
const CONFIDENCE: f64 = 0.95;
/// A percentile that has grown so many times marks degradation.
const DEGRADED_TIMES: f64 = 2.0;
/// Requests that give a p95 an upper bound at 95 %: 0.95⁵⁹ < 0.05.
const BOUND_NEEDS: u64 = 59;

/// A step with what its points are judged by.
pub struct Step {
    pub summary: StepSummary,
    /// Answers per second in equal parts of the step's window.
    pub answer_rates: Vec<f64>,
    /// Output tokens per second in the same parts; absent where some are unknown.
    pub token_rates: Option<Vec<f64>>,
    /// Open load: what arrived and was answered in the second half of the window.
    pub flow: Option<(u64, u64)>,
    /// In milliseconds, with the order-statistic interval; absent where no request has the figure.
    pub ttft_p95: Option<Estimate>,
    pub e2e_p95: Option<Estimate>,
}

pub type Found = Result<SweepPoint, String>;

/// The point, or why there is none.
pub fn split(found: Found) -> (Option<SweepPoint>, Option<String>) {
    match found {
        Ok(point) => (Some(point), None),
        Err(why) => (None, Some(why)),
    }
}

const NO_STEPS: &str = "the stages are loads of their own and no steps of one that is raised";

/// The first step from which more load brings no more work: an open step that ended early or certainly answers less than
/// 90 % of what arrives, or a step whose next one certainly brings less than 5 % of proportional growth.
pub fn saturation(steps: &[Step], raised: bool) -> Found {
    if !raised {
        return Err(NO_STEPS.to_owned());
    }
    let mut open = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        if let Some(reason) = falls_behind(step) {
            return Ok(point(&step.summary, reason, None));
        }
        let Some(next) = steps.get(index + 1) else { break };
        let Some(growth) = growth(step, next) else { continue };
        let shown = |end: Option<f64>| end.map_or_else(|| "?".to_owned(), |share| format!("{:.0}", 100.0 * share));
        let text = format!(
            "step {} brings {} % [{}, {}] of proportional growth",
            value(&next.summary),
            shown(growth.point),
            shown(growth.low),
            shown(growth.high)
        );
        if growth.high.is_some_and(|high| high < GROWTH_NEEDED) {
            return Ok(point(&step.summary, text, Some(growth)));
        }
        if growth.low.is_none_or(|low| low < GROWTH_NEEDED) {
            open.push(text);
        }
    }
    if steps.iter().filter(|step| !step.answer_rates.is_empty()).count() < 2 {
        return Err("fewer than two steps have a rate".to_owned());
    }
    match open.first() {
        None => Err("every step brings more work: raise the load further".to_owned()),
        Some(first) => Err(format!("no step certainly shows it, and {first}: longer steps decide")),
    }
}

/// Why an open step does not keep up with what arrives.
fn falls_behind(step: &Step) -> Option<String> {
    if step.summary.end == "saturated" {
        return Some(step.summary.end_text.clone());
    }
    let (arrived, answered) = step.flow?;
    let share = clopper_pearson_upper(answered.min(arrived), arrived, CONFIDENCE)?;
    (share < ANSWERED_NEEDED)
        .then(|| format!("{answered} of {arrived} requests that arrived in its second half were answered in it"))
}

/// Share of proportional growth that the next step brings: 1 where work grows as the load does, 0 where it stays.
fn growth(step: &Step, next: &Step) -> Option<Estimate> {
    let times = next.summary.value? / step.summary.value.filter(|value| *value > 0.0)?;
    let (above, below) = match (&next.token_rates, &step.token_rates) {
        (Some(above), Some(below)) => (above, below),
        _ => (&next.answer_rates, &step.answer_rates),
    };
    if times <= 1.0 || above.is_empty() || below.is_empty() {
        return None;
    }
    let ratio = ratio_of_means(above, below, SHOWN_LEVEL);
    ratio.point?;
    Some(ratio.map(|ratio| (ratio - 1.0) / (times - 1.0)))
}

/// The first step whose p95 of TTFT (of E2E without streams) is certainly above twice that of the first step.
pub fn degradation(steps: &[Step], raised: bool) -> Found {
    if !raised {
        return Err(NO_STEPS.to_owned());
    }
    let Some(first) = steps.first() else { return Err("there is no step".to_owned()) };
    let streamed = steps.iter().any(|step| step.ttft_p95.is_some());
    let (name, pick): (&str, fn(&Step) -> Option<&Estimate>) =
        if streamed { ("TTFT p95", |step| step.ttft_p95.as_ref()) } else { ("E2E p95", |step| step.e2e_p95.as_ref()) };
    let Some(limit) = pick(first).and_then(|p95| p95.high) else {
        let n = pick(first).map_or(0, |p95| p95.n);
        return Err(format!("{n} requests of the first step give {name} no upper bound: {BOUND_NEEDS} do"));
    };
    let mut unknown = Vec::new();
    for step in steps.iter().skip(1) {
        let Some(p95) = pick(step) else { continue };
        match p95.low {
            Some(low) if low > DEGRADED_TIMES * limit => {
                let reason =
                    format!("{name} is at least {low:.0} ms, more than twice the first step's {limit:.0} ms at most");
                return Ok(point(&step.summary, reason, Some(p95.clone())));
            }
            Some(_) => {}
            None => unknown.push(value(&step.summary)),
        }
    }
    if unknown.is_empty() {
        return Err(format!("{name} of no step is certainly above twice that of the first"));
    }
    Err(format!("no step shows it; too few requests carry {name} at {}", unknown.join(", ")))
}

fn point(step: &StepSummary, reason: String, estimate: Option<Estimate>) -> SweepPoint {
    SweepPoint { stage: step.stage, value: step.value, reason, estimate }
}

/// The step's value in words.
fn value(step: &StepSummary) -> String {
    step.value.map_or_else(|| format!("stage {}", step.stage + 1), |value| value.to_string())
}
