//! Gates: what the suite asks of a candidate, and whether the data show it. "Not significant", no samples and a
//! withdrawn figure are never a pass.

mod limits;
mod quality;

use super::compare::Matched;
use super::estimate::Estimate;
use super::rows::Row;
use super::speed::Speeds;
use super::summary::{GateResult, GateVerdict};
use super::withdrawn::Withdrawn;
use crate::deploy::Outcome;
use crate::plan::Plan;
use crate::spec::{Each, Gate, GateKind, Scope};

/// What gates are judged on.
pub struct Evidence<'a> {
    pub plan: &'a Plan,
    pub speeds: Speeds<'a>,
    pub withdrawn: &'a Withdrawn,
}

impl<'a> Evidence<'a> {
    fn rows(&self, arm: usize, scope: &Scope) -> Vec<&'a Row> {
        self.speeds.run.rows_of(arm).filter(|row| in_scope(row, scope)).collect()
    }

    pub fn arm_name(&self, arm: usize) -> &'a str {
        self.plan.arms.get(arm).map_or("", |a| a.name.as_str())
    }
}

/// One gate's answer, before it is named.
pub(super) struct Finding {
    pub verdict: GateVerdict,
    pub estimate: Option<Estimate>,
    pub bound: Option<f64>,
    pub reason: String,
}

impl Finding {
    fn not_evaluable(reason: impl Into<String>) -> Finding {
        Finding { verdict: GateVerdict::NotEvaluable, estimate: None, bound: None, reason: reason.into() }
    }
}

/// All gates of one comparison, in the suite's order, after the candidate's own failure if it has one.
pub fn of_comparison(evidence: &Evidence<'_>, matched: &Matched<'_>) -> Vec<GateResult> {
    let mut results: Vec<GateResult> = candidate_failed(evidence, matched.arms.candidate).into_iter().collect();
    for gate in &evidence.plan.suite.gates {
        results.extend(judge(evidence, Some(matched), matched.arms.candidate, gate));
    }
    results
}

/// All gates for an arm that has no baseline: what needs one is not evaluable.
pub fn of_lone_arm(evidence: &Evidence<'_>, arm: usize) -> Vec<GateResult> {
    let mut results: Vec<GateResult> = candidate_failed(evidence, arm).into_iter().collect();
    for gate in &evidence.plan.suite.gates {
        results.extend(judge(evidence, None, arm, gate));
    }
    results
}

fn judge(evidence: &Evidence<'_>, matched: Option<&Matched<'_>>, arm: usize, gate: &Gate) -> Vec<GateResult> {
    let name = |text: String, unit: &str, scope: &Scope, found: Finding| GateResult {
        gate: text,
        kind: gate.kind_name().to_owned(),
        arm: evidence.arm_name(arm).to_owned(),
        scope: scope_name(scope),
        verdict: found.verdict,
        unit: unit.to_owned(),
        estimate: found.estimate,
        bound: found.bound,
        reason: found.reason,
        advisory: gate.advisory,
    };
    let no_baseline = || Finding::not_evaluable("there is no comparison: this gate needs a baseline");
    let one = |text: String, unit: &str, found: Finding| vec![name(text, unit, &gate.scope, found)];
    match &gate.kind {
        GateKind::Quality { metric, margin, confidence, at_least, each } => {
            let text = quality_text(metric, *margin, *at_least);
            let Some(matched) = matched else { return one(text, "share", no_baseline()) };
            let asked = quality::Asked { metric, margin: *margin, confidence: *confidence, at_least: *at_least };
            let scopes = scopes(evidence.plan, &gate.scope, *each);
            let found = quality::family(evidence, matched, &asked, &scopes);
            scopes.iter().zip(found).map(|(scope, found)| name(text.clone(), "share", scope, found)).collect()
        }
        GateKind::Speed { metric, ratio_at_most, ratio_at_least, confidence } => {
            let limits = limits::Range { at_most: *ratio_at_most, at_least: *ratio_at_least };
            let text = format!("speed: {metric} ratio {}", limits.text());
            let found = matched.map_or_else(no_baseline, |matched| {
                limits::speed(evidence, matched.arms, *metric, limits, *confidence, &gate.scope)
            });
            one(text, "ratio", found)
        }
        GateKind::Slo { confidence } => limits::slo(evidence, arm, *confidence, &gate.scope)
            .into_iter()
            .map(|(text, unit, found)| name(text, unit, &gate.scope, found))
            .collect(),
        GateKind::Stability { metric, at_most, confidence } => {
            let text = format!("stability: {metric} at most {}", percent(*at_most));
            one(text, "share", limits::stability(evidence, arm, metric, *at_most, *confidence, &gate.scope))
        }
        GateKind::Cost { metric, ratio_at_most, confidence } => {
            let limits = limits::Range { at_most: Some(*ratio_at_most), at_least: None };
            let text = format!("cost: {} ratio {}", super::arms::name_of(metric), limits.text());
            let found = matched.map_or_else(no_baseline, |matched| {
                limits::cost(evidence, matched.arms, *metric, limits, *confidence, &gate.scope)
            });
            one(text, "ratio", found)
        }
    }
}

/// `bad_request` and `unreachable` are the candidate's own failure: its comparison fails whatever the gates say.
fn candidate_failed(evidence: &Evidence<'_>, arm: usize) -> Option<GateResult> {
    let rows = evidence.rows(arm, &Scope::default());
    let bad = |row: &&&Row| matches!(row.outcome, Outcome::BadRequest | Outcome::Unreachable);
    let first = rows.iter().find(bad)?;
    let count = rows.iter().filter(bad).count();
    let said = first.error.as_deref().map(|e| format!(": {}", e.chars().take(200).collect::<String>()));
    Some(GateResult {
        gate: "stability: the candidate takes every request".to_owned(),
        kind: "stability".to_owned(),
        arm: evidence.arm_name(arm).to_owned(),
        scope: "all".to_owned(),
        verdict: GateVerdict::Fail,
        unit: "share".to_owned(),
        estimate: Some(super::stats::wilson(count as u64, rows.len() as u64, super::SHOWN_LEVEL)),
        bound: Some(0.0),
        reason: format!(
            "{count} of {} requests ended as {}{}",
            rows.len(),
            first.outcome.name(),
            said.unwrap_or_default()
        ),
        advisory: false,
    })
}

fn quality_text(metric: &str, margin: f64, at_least: Option<f64>) -> String {
    let floor = at_least.map(|floor| format!(" and is at least {}", percent(floor))).unwrap_or_default();
    format!("quality: {metric} loses at most {} pp{floor}", number(100.0 * margin))
}

/// The gate's own scope, or one for each task or category within it.
fn scopes(plan: &Plan, scope: &Scope, each: Option<Each>) -> Vec<Scope> {
    let Some(each) = each else { return vec![scope.clone()] };
    let mut scopes: Vec<Scope> = Vec::new();
    for task in &plan.suite.tasks {
        let outside = scope.task.as_ref().is_some_and(|t| *t != task.name)
            || scope.category.as_ref().is_some_and(|c| task.category.as_ref() != Some(c));
        let own = match each {
            Each::Task => Some(Scope { task: Some(task.name.clone()), category: None }),
            Each::Category => task.category.clone().map(|c| Scope { task: scope.task.clone(), category: Some(c) }),
        };
        if let Some(own) = own.filter(|own| !outside && !scopes.contains(own)) {
            scopes.push(own);
        }
    }
    if scopes.is_empty() { vec![scope.clone()] } else { scopes }
}

fn scope_name(scope: &Scope) -> String {
    match (&scope.task, &scope.category) {
        (None, None) => "all".to_owned(),
        (Some(task), None) => format!("task {task}"),
        (None, Some(category)) => format!("category {category}"),
        (Some(task), Some(category)) => format!("task {task}, category {category}"),
    }
}

pub(in crate::analyze) fn in_scope(row: &Row, scope: &Scope) -> bool {
    scope.task.as_ref().is_none_or(|task| *task == *row.task)
        && scope.category.as_ref().is_none_or(|category| row.category.as_deref() == Some(category))
}

fn is_everything(scope: &Scope) -> bool {
    scope.task.is_none() && scope.category.is_none()
}

/// A number with as many digits as it needs: `2`, `0.5`, `1500`.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.to_owned()
}

fn percent(share: f64) -> String {
    format!("{} %", number(100.0 * share))
}
