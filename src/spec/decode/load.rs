//! Load, sweep and capacity, and which of their keys go together.

use super::Context;
use super::task::resolve;
use crate::spec::diagnostic::Mistake;
use crate::spec::keys::{ARRIVALS, CAPACITY, DEMAND, LOAD, STAGE, SWEEP, SWEEP_STEP, SWEEP_STOP};
use crate::spec::load_shape::{
    Arrivals, Capacity, DEFAULT_MAX_IN_FLIGHT, Load, LoadShape, Rate, Stage, Start, Sweep, SweepOver,
};
use crate::spec::node::Node;
use crate::spec::scalar;
use crate::spec::suite::{SloTarget, SpeedMetric};
use crate::spec::view::View;
use crate::spec::workload::Range;
use crate::units::Span;

/// More arrivals than this in one stage are a slip of the unit rather than a plan.
const MAX_ARRIVALS: f64 = 5e6;
const MAX_STAGES: usize = 1_000;

pub fn load(suite: &View<'_>, cx: &mut Context<'_>) -> Load {
    let view = suite.section("load", &LOAD);
    let warmup_requests = view.count("warmup_requests").unwrap_or(0);
    if view.node("stages").is_some() {
        for key in ["mode", "concurrency", "start", "arrivals", "max_in_flight"] {
            if view.node(key).is_some() {
                let message = format!("`{key}` beside `stages`");
                cx.report(Mistake::new("misplaced-key", view.key_place(key), message).hint("write it in each stage"));
            }
        }
        let items = view.items("stages");
        if items.is_empty() || items.len() > MAX_STAGES {
            let message = format!("{} stages; write 1 to {MAX_STAGES}", items.len());
            cx.report(Mistake::new("out-of-range", view.place_of("stages"), message));
        }
        let stages = items.iter().filter_map(|node| stage(node, cx)).collect();
        return Load::Stages { stages, warmup_requests };
    }
    match shape(&view, false, cx) {
        Some(LoadShape::Open { arrivals, max_in_flight }) => Load::Open { arrivals, max_in_flight, warmup_requests },
        Some(LoadShape::Closed { concurrency, start, .. }) => Load::Closed { concurrency, warmup_requests, start },
        None => Load::Closed { concurrency: 1, warmup_requests, start: Start::Spread },
    }
}

fn stage(node: &Node, cx: &mut Context<'_>) -> Option<Stage> {
    let view = View::new(Some(node), &STAGE, node.place);
    let duration = view.duration("duration");
    let stage = Stage {
        shape: shape(&view, duration.is_some(), cx)?,
        duration,
        warmup: view.duration("warmup"),
        min_requests: view.integer("min_requests").unwrap_or(0),
        step: None,
    };
    if stage.min_requests > 0 && duration.is_none() {
        let message = "`min_requests` without `duration`: the stage asks every sample anyway";
        let mistake = Mistake::new("misplaced-key", view.key_place("min_requests"), message);
        cx.report(mistake.hint("add a `duration`, or remove `min_requests`"));
    }
    check_warmup(&view, stage.warmup, duration, cx);
    if let (Some(duration), LoadShape::Open { arrivals, .. }) = (duration, &stage.shape) {
        check_size(&view, arrivals, duration, stage.min_requests, cx);
    }
    Some(stage)
}

fn check_warmup(view: &View<'_>, warmup: Option<Span>, duration: Option<Span>, cx: &mut Context<'_>) {
    if let (Some(warmup), Some(duration)) = (warmup, duration)
        && warmup >= duration
    {
        let message = format!("a warm-up of {warmup} leaves nothing of {duration} to measure");
        let place = view.place_of("warmup");
        cx.report(Mistake::new("out-of-range", place, message).hint("shorten `warmup` or lengthen `duration`"));
    }
}

fn check_size(view: &View<'_>, arrivals: &Arrivals, duration: Span, least: u64, cx: &mut Context<'_>) {
    let Some(rate) = arrivals.rate() else { return };
    let count = (rate.highest() * duration.0.as_secs_f64()).max(least as f64);
    if count > MAX_ARRIVALS {
        let message = format!("{} arrivals per second over {duration} are more than {MAX_ARRIVALS}", rate.highest());
        cx.report(Mistake::new("out-of-range", view.place, message).hint("lower the rate or the duration"));
    }
}

/// `timed`: whether the stage has a duration, which a ramp of the rate needs.
fn shape(view: &View<'_>, timed: bool, cx: &mut Context<'_>) -> Option<LoadShape> {
    let open = view.text("mode").as_deref() == Some("open");
    let (foreign, article, of, this): (&[&str], _, _, _) = if open {
        (&["concurrency", "start", "ramp"], "a", "closed", "open")
    } else {
        (&["arrivals", "max_in_flight"], "an", "open", "closed")
    };
    // A stage has `ramp`, the plain load has not.
    for key in foreign.iter().filter(|key| view.has_key(key) && view.node(key).is_some()) {
        let message = format!("`{key}` belongs to {article} {of} load, and this one is {this}");
        let hint = format!("write `mode: {of}`, or remove `{key}`");
        cx.report(Mistake::new("misplaced-key", view.key_place(key), message).hint(hint));
    }
    if !open {
        return Some(LoadShape::Closed {
            concurrency: view.count("concurrency").unwrap_or(1),
            start: view.word("start").unwrap_or(Start::Spread),
            ramp: if view.has_key("ramp") { view.duration("ramp") } else { None },
        });
    }
    let Some(arrivals_view) = view.present("arrivals", &ARRIVALS) else {
        let mistake = Mistake::new("missing-key", view.key_place("mode"), "an open load has no `arrivals`");
        cx.report(mistake.hint("add `arrivals: {process: poisson, rate_per_s: 5}`"));
        return None;
    };
    let arrivals = arrivals(&arrivals_view, timed, cx)?;
    Some(LoadShape::Open { arrivals, max_in_flight: view.count("max_in_flight").unwrap_or(DEFAULT_MAX_IN_FLIGHT) })
}

fn arrivals(view: &View<'_>, timed: bool, cx: &mut Context<'_>) -> Option<Arrivals> {
    let process = view.text("process")?;
    let takes: &[&str] = match process.as_str() {
        "gamma" => &["rate_per_s", "ramp_to_per_s", "shape"],
        "burst" => &["rate_per_s", "size"],
        "trace" => &["file"],
        _ => &["rate_per_s", "ramp_to_per_s"],
    };
    let mut whole = true;
    for key in ["rate_per_s", "ramp_to_per_s", "shape", "size", "file"] {
        let (given, taken) = (view.node(key).is_some(), takes.contains(&key));
        if given && !taken {
            let message = format!("`{key}` does not belong to `process: {process}`");
            let hint = format!("it takes {}", takes.join(", "));
            cx.report(Mistake::new("misplaced-key", view.key_place(key), message).hint(hint));
        }
        if taken && !given && key != "ramp_to_per_s" {
            let message = format!("`process: {process}` has no `{key}`");
            let hint = ARRIVALS.key(key).map(|key| key.doc.to_owned());
            cx.report(Mistake::new("missing-key", view.place, message).maybe_hint(hint));
            whole = false;
        }
    }
    if !timed && view.node("ramp_to_per_s").is_some() {
        let message = "a rate that moves needs a time to move in";
        let hint = "write it in a stage that has a `duration`";
        cx.report(Mistake::new("misplaced-key", view.key_place("ramp_to_per_s"), message).hint(hint));
    }
    if !whole {
        return None;
    }
    let rate = Rate { per_s: view.number("rate_per_s").unwrap_or(1.0), ramp_to_per_s: view.number("ramp_to_per_s") };
    Some(match process.as_str() {
        "constant" => Arrivals::Constant { rate },
        "poisson" => Arrivals::Poisson { rate },
        "gamma" => Arrivals::Gamma { rate, shape: view.number("shape")? },
        "burst" => Arrivals::Burst { rate, size: view.count("size")? },
        "trace" => Arrivals::Trace { file: resolve(&view.text("file")?, view.place_of("file"), cx)? },
        _ => return None,
    })
}

pub fn sweep(suite: &View<'_>, cx: &mut Context<'_>) -> Option<Sweep> {
    let view = suite.present("sweep", &SWEEP)?;
    let step = view.section("step", &SWEEP_STEP);
    let over: SweepOver = view.word("over")?;
    let nodes = view.items("steps");
    let steps: Vec<f64> = nodes.iter().filter_map(|node| scalar::number(node, 0.0, 1e6).ok()).collect();
    if nodes.is_empty() && view.node("steps").is_some() {
        let mistake = Mistake::new("missing-key", view.place_of("steps"), "a sweep of no steps");
        cx.report(mistake.hint("write for example `steps: [1, 2, 4, 8]`"));
    }
    for (pair, node) in steps.windows(2).zip(nodes.iter().skip(1)) {
        if let [before, after] = pair
            && after <= before
        {
            let message = format!("{after} after {before}: steps rise");
            cx.report(Mistake::new("out-of-range", node.place, message).hint("sort the steps"));
        }
    }
    for (value, node) in steps.iter().zip(nodes) {
        if over == SweepOver::Concurrency && (value.fract() != 0.0 || !(1.0..=4_096.0).contains(value)) {
            let message = format!("{value} is no concurrency: a whole number from 1 to 4096");
            let hint = "for steps of a rate write `over: rate_per_s`";
            cx.report(Mistake::new("out-of-range", node.place, message).hint(hint));
        }
    }
    if over.is_length() {
        check_lengths(suite, over, &steps, nodes, cx);
    }
    let sweep = Sweep {
        over,
        steps,
        step_duration: step.duration("duration")?,
        step_warmup: step.duration("warmup"),
        min_requests: step.integer("min_requests").unwrap_or(0),
        stop_error_rate: view.section("stop", &SWEEP_STOP).share("error_rate")?,
    };
    check_warmup(&step, sweep.step_warmup, Some(sweep.step_duration), cx);
    if let (SweepOver::RatePerS, Some(highest)) = (over, sweep.steps.last()) {
        let arrivals = Arrivals::Poisson { rate: Rate::steady(*highest) };
        check_size(&view, &arrivals, sweep.step_duration, sweep.min_requests, cx);
    }
    Some(sweep)
}

/// Lengths are whole, and an answer's is within what the suite allows.
fn check_lengths(suite: &View<'_>, over: SweepOver, steps: &[f64], nodes: &[Node], cx: &mut Context<'_>) {
    let most = match over {
        SweepOver::OutputTokens => f64::from(super::deployment::sampling(suite, None).max_tokens),
        _ => Range::TOKENS.max,
    };
    for (value, node) in steps.iter().zip(nodes) {
        if value.fract() != 0.0 || *value < 1.0 {
            let message = format!("{value} is no length: a whole number of tokens from 1 on");
            cx.report(Mistake::new("out-of-range", node.place, message).hint("write a whole number"));
        } else if *value > most {
            let message = format!("{value} tokens are more than {most}, which is the most that a request may have");
            let hint = if over == SweepOver::OutputTokens { "raise `sampling.max_tokens`" } else { "shorten the step" };
            cx.report(Mistake::new("out-of-range", node.place, message).hint(hint));
        }
    }
}

pub fn capacity(suite: &View<'_>, sweep: Option<&Sweep>, slo: &[SloTarget], cx: &mut Context<'_>) -> Option<Capacity> {
    let view = suite.present("capacity", &CAPACITY)?;
    let demand = view.present("demand", &DEMAND)?;
    let needs = "capacity is the highest rate of a sweep at which the SLOs hold";
    if suite.node("sweep").is_none() {
        let mistake = Mistake::new("missing-key", view.place, format!("`capacity` without `sweep`: {needs}"));
        cx.report(mistake.hint("add `sweep: {over: rate_per_s, steps: [1, 2, 4, 8]}`"));
    } else if let Some(over) = sweep.map(|sweep| sweep.over).filter(|over| *over != SweepOver::RatePerS) {
        let message = match over {
            SweepOver::Concurrency => "capacity comes from an open load; a sweep over `concurrency` only brackets it",
            _ => "capacity comes from rates; a sweep over lengths tells the longest within the SLO by itself",
        };
        let place = suite.key_place("sweep");
        cx.report(Mistake::new("bad-capacity", place, message).hint("write `over: rate_per_s`"));
    }
    let latency = |target: &SloTarget| matches!(target.metric, SpeedMetric::Latency { .. });
    if !slo.iter().any(latency) && suite.node("slo").is_none() {
        let mistake = Mistake::new("missing-key", view.place, format!("`capacity` without `slo`: {needs}"));
        cx.report(mistake.hint("add `slo: {ttft_p95: 1500ms}`"));
    }
    let confidence = view.share("confidence")?;
    if !(0.5..1.0).contains(&confidence) {
        let message = format!("a confidence of {confidence} is out of range: from 0.5 to below 1");
        cx.report(Mistake::new("out-of-range", view.place_of("confidence"), message));
    }
    let headroom = view.share("headroom")?;
    if headroom >= 1.0 {
        let mistake = Mistake::new("out-of-range", view.place_of("headroom"), "a headroom of 100% leaves nothing");
        cx.report(mistake.hint("write the share of a replica that is kept free, such as `20%`"));
    }
    Some(Capacity {
        rate_per_s: demand.number("rate_per_s")?,
        peak_factor: demand.number("peak_factor")?,
        headroom,
        confidence,
    })
}
