//! Gates, against the metrics, tasks and prices that the suite has.

use std::collections::BTreeSet;

use super::Context;
use super::task::{Decoded, timed_samples};
use crate::spec::RESERVED_METRICS;
use crate::spec::diagnostic::Mistake;
use crate::spec::gate::{CostMetric, Each, Gate, GateKind, Scope};
use crate::spec::keys_task::{GATES, SCOPE};
use crate::spec::load_shape::Load;
use crate::spec::node::{Entry, Node};
use crate::spec::shape::{Section, Shape};
use crate::spec::suggest;
use crate::spec::suite::{Comparison, Deployment, SloTarget, SpeedMetric};
use crate::spec::view::View;

/// What gates may refer to.
pub struct Known<'k> {
    pub tasks: &'k [Decoded],
    pub deployments: &'k [Deployment],
    pub comparisons: &'k [Comparison],
    pub slo: &'k [SloTarget],
    pub load: Load,
}

pub fn all(suite: &View<'_>, known: &Known<'_>, cx: &mut Context<'_>) -> Vec<Gate> {
    suite.items("gates").iter().filter_map(|node| one(node, known, cx)).collect()
}

fn one(node: &Node, known: &Known<'_>, cx: &mut Context<'_>) -> Option<Gate> {
    let entry = node.entries()?.iter().find(|e| GATES.kinds.iter().any(|k| k.name == e.key.text))?;
    let Shape::Section(section) = GATES.kinds.iter().find(|k| k.name == entry.key.text)?.shape else { return None };
    let view = View::new(Some(&entry.value), section, entry.key.place);
    let beside = View::new(Some(node), section, entry.key.place);
    let pick = |key: &str| if view.node(key).is_some() { view } else { beside };
    let scope = scope(&pick("scope"), known, cx);
    let advisory = pick("advisory").boolean("advisory").unwrap_or(false);
    let kind = kind(entry, section, &scope, known, cx)?;
    let needs_candidate = matches!(kind, GateKind::Quality { .. } | GateKind::Speed { .. } | GateKind::Cost { .. });
    if needs_candidate && known.comparisons.is_empty() && known.deployments.len() == 1 {
        let message = format!("a {} gate weighs a candidate, and the suite has one deployment", entry.key.text);
        cx.report(Mistake::new("no-candidate", entry.key.place, message).hint("add the candidate to `deployments`"));
    }
    Some(Gate { kind, scope, advisory })
}

fn kind(
    entry: &Entry,
    section: &'static Section,
    scope: &Scope,
    known: &Known<'_>,
    cx: &mut Context<'_>,
) -> Option<GateKind> {
    let view = View::new(Some(&entry.value), section, entry.key.place);
    match entry.key.text.as_str() {
        "quality" => quality(&view, scope, known, cx),
        "speed" => speed(&view, known, cx),
        "slo" => {
            if known.slo.is_empty() {
                let message = "an slo gate, and the suite has no `slo`";
                let hint = "add for example `slo: {ttft_p95: 1500ms, error_rate: 2%}`";
                cx.report(Mistake::new("missing-key", view.place, message).hint(hint));
            }
            if view.boolean("all") == Some(false) {
                let message = "`all: false` would judge nothing";
                cx.report(Mistake::new("bad-gate", view.place_of("all"), message).hint("write `slo: {all: true}`"));
            }
            Some(GateKind::Slo { confidence: confidence(&view, cx) })
        }
        "stability" => Some(GateKind::Stability {
            metric: view.text("metric")?,
            at_most: view.share("at_most")?,
            confidence: confidence(&view, cx),
        }),
        "cost" => cost(&view, known, cx),
        _ => None,
    }
}

fn quality(view: &View<'_>, scope: &Scope, known: &Known<'_>, cx: &mut Context<'_>) -> Option<GateKind> {
    let metric = view.text("metric")?;
    let in_scope = |t: &&Decoded| {
        let fits = |want: &Option<String>, have: Option<&str>| want.as_deref().is_none_or(|w| have == Some(w));
        fits(&scope.task, Some(&t.task.name)) && fits(&scope.category, t.task.category.as_deref())
    };
    let graders = || known.tasks.iter().filter(in_scope).flat_map(|t| t.task.graders.iter());
    let names: BTreeSet<&str> = RESERVED_METRICS.into_iter().chain(graders().map(|g| g.name.as_str())).collect();
    if !names.contains(metric.as_str()) {
        let message = format!("`{metric}` is not a metric of the tasks in scope");
        let hint = suggest::did_you_mean(&metric, names.iter().copied());
        let help = format!("metrics: {}", suggest::list(names.iter().copied()));
        let place = view.place_of("metric");
        cx.report(Mistake::new("unknown-metric", place, message).maybe_hint(hint).help(help));
    }
    let each: Option<Each> = view.word("each");
    if each == Some(Each::Category) && known.tasks.iter().filter(in_scope).all(|t| t.task.category.is_none()) {
        let message = "`each: category`, and no task in scope has a category";
        let hint = "give the tasks a `category`, or write `each: task`";
        cx.report(Mistake::new("unknown-category", view.place_of("each"), message).hint(hint));
    }
    let margin = view.share("margin")?;
    if margin >= 1.0 {
        let message = "a margin of 100% lets everything pass";
        cx.report(Mistake::new("out-of-range", view.place_of("margin"), message));
    }
    let confidence = confidence(view, cx)?;
    Some(GateKind::Quality { metric, margin, confidence, at_least: view.share("at_least"), each })
}

fn speed(view: &View<'_>, known: &Known<'_>, cx: &mut Context<'_>) -> Option<GateKind> {
    let metric: SpeedMetric = view.text("metric")?.parse().ok()?;
    let (at_most, at_least) = (view.number("ratio_at_most"), view.number("ratio_at_least"));
    if view.node("ratio_at_most").is_none() && view.node("ratio_at_least").is_none() {
        let key = if metric.lower_is_better() { "ratio_at_most" } else { "ratio_at_least" };
        let message = "a speed gate needs a bound";
        let hint = format!("add `{key}:`, candidate ÷ baseline");
        cx.report(Mistake::new("missing-key", view.place, message).hint(hint));
    }
    if at_most.zip(at_least).is_some_and(|(most, least)| most < least) {
        let message = "`ratio_at_most` lies below `ratio_at_least`: nothing could pass";
        cx.report(Mistake::new("bad-gate", view.place_of("ratio_at_most"), message));
    }
    warn_of_few_samples(view, known, cx);
    let confidence = confidence(view, cx)?;
    Some(GateKind::Speed { metric, ratio_at_most: at_most, ratio_at_least: at_least, confidence })
}

/// Fewer than six blocks leave every speed gate inconclusive; a block takes four samples per lane.
fn warn_of_few_samples(view: &View<'_>, known: &Known<'_>, cx: &mut Context<'_>) {
    let concurrency = known.load.concurrency() as usize;
    let needed = 24 * concurrency;
    if let Some(samples) = timed_samples(known.tasks).filter(|n| *n < needed) {
        let plural = if samples == 1 { "sample is" } else { "samples are" };
        let message = format!(
            "{samples} {plural} too few for a speed gate at concurrency {concurrency}: it will be inconclusive"
        );
        let hint = format!("use at least {needed} samples, or a lower `load.concurrency`");
        cx.report(Mistake::new("few-samples", view.place, message).hint(hint).warning());
    }
}

fn cost(view: &View<'_>, known: &Known<'_>, cx: &mut Context<'_>) -> Option<GateKind> {
    let metric: CostMetric = view.word("metric")?;
    let compared = |d: &&Deployment| known.comparisons.iter().any(|c| c.baseline == d.name || c.candidate == d.name);
    let unpriced: Vec<&str> =
        known.deployments.iter().filter(compared).filter(|d| d.price.is_none()).map(|d| d.name.as_str()).collect();
    if !unpriced.is_empty() {
        let message = format!("a cost gate, and there is no `price` for {}", suggest::list(unpriced));
        cx.report(Mistake::new("missing-price", view.place, message).hint("add `price: {…}` to each deployment"));
    }
    Some(GateKind::Cost { metric, ratio_at_most: view.number("ratio_at_most")?, confidence: confidence(view, cx)? })
}

fn confidence(view: &View<'_>, cx: &mut Context<'_>) -> Option<f64> {
    let value = view.share("confidence")?;
    if !(0.5..1.0).contains(&value) {
        let message = "a confidence lies between 50% and 100%";
        cx.report(Mistake::new("out-of-range", view.place_of("confidence"), message).hint("write `0.95` or `95%`"));
    }
    Some(value)
}

fn scope(gate: &View<'_>, known: &Known<'_>, cx: &mut Context<'_>) -> Scope {
    let Some(view) = gate.present("scope", &SCOPE) else { return Scope::default() };
    let tasks: BTreeSet<&str> = known.tasks.iter().map(|t| t.task.name.as_str()).collect();
    let categories: BTreeSet<&str> = known.tasks.iter().filter_map(|t| t.task.category.as_deref()).collect();
    let mut check = |key: &str, code: &'static str, names: &BTreeSet<&str>| {
        let name = view.text(key)?;
        if !names.contains(name.as_str()) {
            let message = format!("no task has the {} `{name}`", if key == "task" { "name" } else { "category" });
            let hint = suggest::did_you_mean(&name, names.iter().copied());
            let help = if names.is_empty() {
                "no task has one".to_owned()
            } else {
                format!("there is: {}", suggest::list(names.iter().copied()))
            };
            cx.report(Mistake::new(code, view.place_of(key), message).maybe_hint(hint).help(help));
        }
        Some(name)
    };
    Scope { task: check("task", "unknown-task", &tasks), category: check("category", "unknown-category", &categories) }
}
