//! From the steps of a sweep to the load that a deployment carries within its SLO, and how many of them carry the demand.

use std::collections::BTreeMap;

use rust_decimal::Decimal;

use super::estimate::two_sided_level;
use super::rows::Row;
use super::slo::Tail;
use super::stats::clopper_pearson;
use super::summary::Throughput;
use super::sweep::{
    ArmCapacity, CapacitySummary, LengthWithin, RateBracket, SloLine, StepSummary, StepVerdict, SweepSummary,
};
use crate::plan::Plan;
use crate::spec::{Capacity, Price, SloTarget, SpeedMetric};

const ASSUMPTION: &str = "replicas share the load evenly and none slows another down: n replicas carry n times the load of \
                          one, which this run does not measure";
/// Rounding of a product must not ask for one replica more.
const ROUNDING: f64 = 1e-9;

/// What withdraws a figure, by its code.
pub type WithdrawnBy<'a> = &'a dyn Fn(SpeedMetric) -> Option<String>;

/// One answer for each line of `slo:`, at a one-sided `confidence`.
pub fn lines(
    slo: &[SloTarget],
    rows: &[&Row],
    throughput: &Throughput,
    confidence: f64,
    withdrawn: WithdrawnBy<'_>,
) -> Vec<SloLine> {
    let line = |target: &SloTarget| {
        let open = |reason: String| (StepVerdict::Inconclusive, None, reason);
        let (verdict, estimate, reason) = match withdrawn(target.metric) {
            Some(code) => open(format!("the figure is withdrawn ({code})")),
            None if rows.is_empty() => open("no request was made".to_owned()),
            None => judge(target, rows, throughput, confidence).unwrap_or_else(open),
        };
        SloLine { metric: target.metric.to_string(), at_most: target.at_most, verdict, estimate, reason }
    };
    slo.iter().map(line).collect()
}

type Judged = (StepVerdict, Option<super::Estimate>, String);

/// By the bound: the figure's upper end must be within. The error says why it can't be told.
fn judge(target: &SloTarget, rows: &[&Row], throughput: &Throughput, confidence: f64) -> Result<Judged, String> {
    let level = two_sided_level(confidence).unwrap_or(super::SHOWN_LEVEL);
    let limit = target.at_most;
    match target.metric {
        SpeedMetric::Latency { figure, percentile } => {
            let tail = Tail::of(rows, figure)?;
            let q = f64::from(percentile) / 100.0;
            let (low, high) = tail.ends(q, level);
            let (verdict, reason) = by_ends(low, high, limit, |ms| format!("{ms:.0} ms"), tail.n());
            let failed = if tail.failed > 0 { format!(", {} failed", tail.failed) } else { String::new() };
            Ok((verdict, Some(tail.estimate(q, level)), format!("{reason}{failed}")))
        }
        SpeedMetric::ErrorRate => {
            let failed = rows.iter().filter(|row| row.outcome.is_error()).count() as u64;
            let n = rows.len() as u64;
            let estimate = clopper_pearson(failed, n, level);
            let write = |share: f64| format!("{:.1} %", 100.0 * share);
            let (verdict, reason) = by_ends(estimate.low, estimate.high, limit, write, n);
            Ok((verdict, Some(estimate), format!("{reason}, {failed} failed")))
        }
        metric => {
            let seen = match metric {
                SpeedMetric::RequestsPerS => throughput.requests_per_s,
                SpeedMetric::OutputTokensPerS => throughput.output_tokens_per_s,
                _ => throughput.input_tokens_per_s,
            };
            let seen = seen.ok_or("the rate can't be told")?;
            let verdict = if seen <= limit { StepVerdict::Pass } else { StepVerdict::Fail };
            Ok((verdict, None, format!("observed {seen:.2}/s")))
        }
    }
}

fn by_ends(
    low: Option<f64>,
    high: Option<f64>,
    limit: f64,
    write: impl Fn(f64) -> String,
    n: u64,
) -> (StepVerdict, String) {
    let of = |value: f64| if value.is_finite() { write(value) } else { "a failed request".to_owned() };
    match (low, high) {
        (_, Some(high)) if high <= limit => (StepVerdict::Pass, format!("at most {}, n {n}", of(high))),
        (Some(low), _) if low > limit => (StepVerdict::Fail, format!("at least {}, n {n}", of(low))),
        (_, Some(high)) => (StepVerdict::Inconclusive, format!("up to {} cannot be excluded, n {n}", of(high))),
        (_, None) => (StepVerdict::Inconclusive, format!("{n} requests give it no upper bound")),
    }
}

/// The worst line of a step; a step that fell behind or was not run to its end can't pass.
fn verdict(step: &StepSummary) -> (StepVerdict, String) {
    match step.end.as_str() {
        "saturated" => return (StepVerdict::Fail, step.end_text.clone()),
        "skipped" | "not_run" | "stopped" => return (StepVerdict::Inconclusive, step.end_text.clone()),
        _ => {}
    }
    let Some(worst) = step.slo.iter().max_by_key(|line| line.verdict) else {
        return (StepVerdict::Inconclusive, "the suite sets no `slo:`".to_owned());
    };
    (worst.verdict, format!("{}, {}", worst.metric, worst.reason))
}

/// The highest step below the first one that does not hold, and what that one says.
fn search(steps: &[StepSummary]) -> (Option<&StepSummary>, Option<(&StepSummary, StepVerdict, String)>) {
    let mut carried = None;
    for step in steps {
        match verdict(step) {
            (StepVerdict::Pass, _) => carried = Some(step),
            (verdict, reason) => return (carried, Some((step, verdict, reason))),
        }
    }
    (carried, None)
}

/// Absent where the suite asks for none.
pub fn summary(plan: &Plan, sweep: &SweepSummary) -> Option<CapacitySummary> {
    let asked = plan.suite.capacity.as_ref()?;
    let mut arms = BTreeMap::new();
    for arm in plan.arms.iter().filter(|arm| arm.twin_of.is_none()) {
        let price = plan.suite.deployment(&arm.deployment).and_then(|deployment| deployment.price.as_ref());
        let found = match sweep.arms.get(&arm.name) {
            Some(steps) if sweep.over == "rate_per_s" => of_arm(asked, &steps.steps, price),
            _ => ArmCapacity {
                reason: "only steps of an open load show it: `sweep: {over: rate_per_s, …}`".to_owned(),
                ..ArmCapacity::default()
            },
        };
        arms.insert(arm.name.clone(), found);
    }
    Some(CapacitySummary {
        rate_per_s: asked.rate_per_s,
        peak_factor: asked.peak_factor,
        headroom: asked.headroom,
        confidence: asked.confidence,
        assumption: ASSUMPTION.to_owned(),
        arms,
    })
}

fn of_arm(asked: &Capacity, steps: &[StepSummary], price: Option<&Price>) -> ArmCapacity {
    let (carried, ended) = search(steps);
    let ended_by = ended
        .map(|(step, verdict, reason)| format!("step {} {}: {reason}", step.value.unwrap_or_default(), verdict.word()));
    let Some(rate) = carried.and_then(|step| step.value) else {
        let reason = ended_by.map_or_else(|| "there is no step".to_owned(), |why| format!("no step holds; {why}"));
        return ArmCapacity { reason, ..ArmCapacity::default() };
    };
    let replicas = replicas(asked, rate);
    let usd = replicas.and_then(|count| {
        let price = price?;
        price.gpu_usd_per_hour?.checked_mul(price.gpus)?.checked_mul(Decimal::from(count))
    });
    ArmCapacity {
        rate_per_replica: Some(rate),
        at_least: ended_by.is_none(),
        replicas,
        usd_per_hour: usd.map(|usd| usd.normalize().to_string()),
        reason: ended_by.unwrap_or_else(|| "the highest step holds too: raise the load to find its limit".to_owned()),
    }
}

/// ⌈rate × peak factor ÷ (rate of one replica × (1 − headroom))⌉
fn replicas(asked: &Capacity, rate_per_replica: f64) -> Option<u64> {
    let needed = asked.rate_per_s * asked.peak_factor / (rate_per_replica * (1.0 - asked.headroom));
    (needed.is_finite() && needed < 1e9).then(|| (needed * (1.0 - ROUNDING)).ceil().max(1.0) as u64)
}

/// What a sweep over lengths says of the longest within the SLO. Absent without an SLO.
pub fn longest(steps: &[StepSummary]) -> Option<LengthWithin> {
    if steps.iter().all(|step| step.slo.is_empty()) {
        return None;
    }
    let (carried, ended) = search(steps);
    let at_least = ended.is_none();
    let reason = ended.map_or_else(
        || "the longest step holds too".to_owned(),
        |(step, verdict, reason)| format!("step {} {}: {reason}", step.value.unwrap_or_default(), verdict.word()),
    );
    Some(LengthWithin { tokens: carried.and_then(|step| step.value), at_least, reason })
}

/// What a closed sweep says of the rate within the SLO. Absent without an SLO.
pub fn bracket(steps: &[StepSummary]) -> Option<RateBracket> {
    if steps.iter().all(|step| step.slo.is_empty()) {
        return None;
    }
    let (carried, ended) = search(steps);
    let rate = |step: &StepSummary| step.throughput.requests_per_s;
    let why = ended.as_ref().map_or_else(
        || "every step holds".to_owned(),
        |(step, verdict, reason)| format!("step {} {}: {reason}", step.value.unwrap_or_default(), verdict.word()),
    );
    Some(RateBracket {
        low_per_s: carried.and_then(rate),
        high_per_s: ended.and_then(|(step, _, _)| rate(step)),
        note: format!(
            "{why}. A closed load waits for its answers, so that it never shows the queue of requests that arrive when they \
             like: confirm the rate with steps over `rate_per_s`"
        ),
    })
}
