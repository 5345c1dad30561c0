//! What casts doubt on a run: findings with a stable code, a severity, and what to do.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::arms::{metric_rate, planned};
use super::caches;
use super::compare::{Matched, RowPair, matched};
use super::instrument;
use super::rows::{Row, Run};
use super::samples::{Delta, Pair};
use super::speed::ArmPair;
use super::stats::{FEWEST_BLOCKS, PairedCounts, mcnemar};
use super::steps;
use super::summary::ComparisonSummary;
use crate::deploy::Outcome;
use crate::drive::{EndReason, Finding, Severity};
use crate::plan::Plan;
use crate::spec::{ArmsMode, Deployment, Optimization, Sampling};

/// A null check excludes "no change" at 99.9 %.
const NULL_P: f64 = 0.001;
/// Two arms' rates differ where McNemar's exact two-sided p is below this.
const DIFFERS_P: f64 = 0.01;
/// Prompt token counts that differ in fewer pairs are a server's whim.
const PROMPT_TOKENS_DIFFER_SHARE: f64 = 0.01;
/// Answers that nobody passes mean a broken grader rather than a broken model, from so many on.
const NOTHING_PASSES_N: u64 = 10;
const INERT_PAIRS: usize = 50;
const INERT_RATIO: f64 = 0.05;
/// Keys of a request's body that change what is sampled.
const SAMPLING_KEYS: [&str; 8] =
    ["temperature", "top_p", "top_k", "min_p", "max_tokens", "max_completion_tokens", "stop", "repeat_penalty"];

pub fn finding(code: &str, severity: Severity, arm: Option<&str>, message: String) -> Finding {
    Finding { code: code.to_owned(), severity, arm: arm.map(str::to_owned), message }
}

pub fn arm_name(plan: &Plan, arm: usize) -> &str {
    plan.arms.get(arm).map_or("", |a| a.name.as_str())
}

pub fn deployment(plan: &Plan, arm: usize) -> Option<&Deployment> {
    plan.arms.get(arm).and_then(|a| plan.suite.deployment(&a.deployment))
}

/// Findings that need no ratio: from the journal, the plan and the matched rows.
pub fn before_ratios(plan: &Plan, run: &Run, comparisons: &[Matched<'_>]) -> Vec<Finding> {
    let mut findings = run.findings.clone();
    findings.extend(ended_badly(plan, run));
    findings.extend(faults(plan, run, comparisons));
    findings.extend(nothing_passes(plan, run));
    findings.extend(tasks_nobody_passes(run));
    findings.extend(timing(plan, comparisons));
    let mut seen_twins = BTreeSet::new();
    for matched in comparisons {
        findings.extend(sampling_differs(plan, matched.arms));
        findings.extend(rates_differ(plan, matched));
        findings.extend(prompt_tokens_differ(plan, matched));
        if let Some(twin) = matched.twin.filter(|twin| seen_twins.insert(*twin)) {
            findings.extend(null_failed(plan, run, matched.arms.baseline, twin));
        }
    }
    findings.extend(caches::findings(plan, run));
    findings.extend(super::streams::first_chunk_unknown(plan, run));
    findings.extend(instrument::findings(plan, run));
    findings
}

/// The run's own end: aborted proves nothing; incomplete proves less than it was planned for.
fn ended_badly(plan: &Plan, run: &Run) -> Option<Finding> {
    let asked: u64 = (0..plan.arms.len()).map(|arm| planned(plan, run, arm)).sum();
    let missing = asked.saturating_sub(run.rows.len() as u64);
    if missing == 0 {
        return None;
    }
    if let Some((_, EndReason::Aborted(why))) = run.sessions.last().and_then(|s| s.end.as_ref()) {
        let message = format!("{missing} of {asked} requests were never made: {why}. Mend that, then resume the run");
        return Some(finding("run_aborted", Severity::Invalid, None, message));
    }
    let message = format!("{missing} of {asked} planned requests have no outcome; `run --resume` asks the rest");
    Some(finding("run_incomplete", Severity::BlocksPass, None, message))
}

/// Outcomes that no baseline may have, and credentials that any arm lacks.
fn faults(plan: &Plan, run: &Run, comparisons: &[Matched<'_>]) -> Vec<Finding> {
    let baselines: BTreeSet<usize> = comparisons.iter().map(|m| m.arms.baseline).collect();
    let mut findings = Vec::new();
    for arm in 0..plan.arms.len() {
        let name = arm_name(plan, arm);
        let first = |of: fn(Outcome) -> bool| run.rows_of(arm).find(|row| of(row.outcome));
        if let Some(row) = first(|o| o == Outcome::Auth) {
            let message = format!("`{name}` refused the credentials{}; check `api_key_env`", said(row));
            findings.push(finding("credentials_refused", Severity::Invalid, Some(name), message));
        }
        let broken = first(|o| matches!(o, Outcome::BadRequest | Outcome::Unreachable));
        if let Some(row) = broken.filter(|_| baselines.contains(&arm)) {
            let outcome = row.outcome.name();
            let message =
                format!("the baseline `{name}` ended a request as {outcome}{}: nothing to compare with", said(row));
            findings.push(finding("baseline_failed", Severity::Invalid, Some(name), message));
        }
    }
    findings
}

fn said(row: &Row) -> String {
    row.error.as_deref().map(|e| format!(" ({})", e.chars().take(200).collect::<String>())).unwrap_or_default()
}

/// 0 % in every arm says more about the grader or the prompt than about any deployment.
fn nothing_passes(plan: &Plan, run: &Run) -> Option<Finding> {
    let rates: Vec<_> = (0..plan.arms.len())
        .map(|arm| metric_rate(&run.rows_of(arm).collect::<Vec<_>>(), "accuracy"))
        .filter(|rate| rate.n() > 0)
        .collect();
    let all_zero = rates.iter().all(|rate| rate.estimate(super::SHOWN_LEVEL).point == Some(0.0));
    let enough = rates.iter().map(super::samples::Rate::n).max().is_some_and(|n| n >= NOTHING_PASSES_N);
    (all_zero && enough).then(|| {
        let message = "no answer of any arm passed: look at a few answers beside the graders (an extraction that never \
                       matches, a wrong gold column, a chat template) before you blame a deployment";
        finding("nothing_passes", Severity::BlocksPass, None, message.to_owned())
    })
}

/// The same of one task among others: it can't tell the arms apart.
fn tasks_nobody_passes(run: &Run) -> Option<Finding> {
    let mut passed: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for row in &run.rows {
        if let Some(pass) = row.graded.pass {
            let counts = passed.entry(&row.task).or_default();
            counts.0 += u64::from(pass);
            counts.1 += 1;
        }
    }
    let never = |(_, (passes, n)): &(&&str, &(u64, u64))| *passes == 0 && *n >= NOTHING_PASSES_N;
    let names: Vec<String> =
        passed.iter().filter(never).map(|(task, (_, n))| format!("`{task}` ({n} answers)")).collect();
    if names.is_empty() || names.len() == passed.len() {
        return None;
    }
    let message = format!(
        "no arm passed a single sample of {}: that tells no arms apart; look at the graders and the gold answers",
        names.join(", ")
    );
    Some(finding("task_never_passed", Severity::Informs, None, message))
}

fn timing(plan: &Plan, comparisons: &[Matched<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if comparisons.is_empty() {
        return findings;
    }
    if plan.suite.arms == ArmsMode::Sequential {
        let message = "the arms ran one after the other: their speed is shown and not compared, for whatever else \
                       changed in between is part of it";
        findings.push(finding("not_concurrent", Severity::WithdrawsFigures, None, message.to_owned()));
    } else if plan.blocks.len() < FEWEST_BLOCKS && !steps::is_staged(plan) {
        let needed = 4 * FEWEST_BLOCKS as u64 * u64::from(plan.suite.load.concurrency().max(1));
        let message = format!(
            "{} blocks carry no interval for a ratio of speeds: {FEWEST_BLOCKS} are needed, which at this concurrency \
             are {needed} samples",
            plan.blocks.len()
        );
        findings.push(finding("too_few_samples", Severity::WithdrawsFigures, None, message));
    }
    findings
}

fn sampling_differs(plan: &Plan, arms: ArmPair) -> Option<Finding> {
    let (baseline, candidate) = (deployment(plan, arms.baseline)?, deployment(plan, arms.candidate)?);
    let (a, b) = (sampling_of(baseline), sampling_of(candidate));
    let differing: Vec<String> = a
        .iter()
        .zip(&b)
        .filter(|((_, a), (_, b))| a != b)
        .map(|((name, a), (_, b))| format!("{name} {} and {}", shown(a.as_ref()), shown(b.as_ref())))
        .collect();
    if differing.is_empty() {
        return None;
    }
    let name = arm_name(plan, arms.candidate);
    let message = format!(
        "baseline and `{name}` sample differently ({}): their answers differ for that reason alone; give both the same",
        differing.join(", ")
    );
    Some(finding("sampling_differs", Severity::Invalid, Some(name), message))
}

/// What is sampled with, the body's own patch on top.
fn sampling_of(deployment: &Deployment) -> Vec<(&'static str, Option<Value>)> {
    let Sampling { temperature, top_p, top_k, max_tokens, stop, .. } = &deployment.sampling;
    let own = |key: &str| match key {
        "temperature" => temperature.map(Value::from),
        "top_p" => top_p.map(Value::from),
        "top_k" => top_k.map(Value::from),
        "max_tokens" => Some(Value::from(*max_tokens)),
        "stop" => (!stop.is_empty()).then(|| Value::from(stop.clone())),
        _ => None,
    };
    let patched = |key: &str| deployment.body.get(key).map_or_else(|| own(key), |v| Some(v.clone()));
    SAMPLING_KEYS.map(|key| (key, patched(key).and_then(plain))).to_vec()
}

/// `null` deletes a key, and 0 is 0.0.
fn plain(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Number(number) => number.as_f64().map(Value::from),
        other => Some(other),
    }
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "unset".to_owned(),
        Some(Value::Number(number)) => number.as_f64().map_or_else(|| number.to_string(), |n| n.to_string()),
        Some(other) => other.to_string(),
    }
}

/// Arms that fail or are cut at different rates lose different samples: what is left isn't the same question.
fn rates_differ(plan: &Plan, matched: &Matched<'_>) -> Vec<Finding> {
    let name = arm_name(plan, matched.arms.candidate);
    let check = |code: &str, what: &str, hint: &str, is: fn(&Row) -> bool| {
        let counts = flags(&matched.pairs, is);
        let differs = counts.discordant() > 0 && mcnemar(&counts).p_two_sided < DIFFERS_P;
        differs.then(|| {
            let (baseline, candidate) = (counts.both_right + counts.lost, counts.both_right + counts.gained);
            let message = format!(
                "of {} paired requests {baseline} {what} on the baseline and {candidate} on `{name}`; {hint}",
                counts.n()
            );
            finding(code, Severity::BlocksPass, Some(name), message)
        })
    };
    let errors = check(
        "error_rate_differs",
        "failed",
        "the samples that are left are not the same; find out why before you trust a difference",
        |row| row.outcome.is_error(),
    );
    let truncations = check(
        "truncation_differs",
        "hit the token limit",
        "raise `max_tokens`, or read the difference as one of length",
        |row| row.outcome == Outcome::Truncated,
    );
    errors.into_iter().chain(truncations).collect()
}

/// How often something holds in both arms, in the candidate only, in the baseline only, in neither.
fn flags(pairs: &[RowPair<'_>], is: fn(&Row) -> bool) -> PairedCounts {
    let mut counts = PairedCounts { both_right: 0, gained: 0, lost: 0, both_wrong: 0 };
    for pair in pairs {
        match (is(pair.baseline), is(pair.candidate)) {
            (true, true) => counts.both_right += 1,
            (false, true) => counts.gained += 1,
            (true, false) => counts.lost += 1,
            (false, false) => counts.both_wrong += 1,
        }
    }
    counts
}

fn prompt_tokens_differ(plan: &Plan, matched: &Matched<'_>) -> Option<Finding> {
    let label = deployment(plan, matched.arms.candidate)?.optimization;
    let (mut told, mut fewer, mut more) = (0_u64, 0_u64, 0_u64);
    for pair in &matched.pairs {
        // A prompt that the harness itself cut is another prompt by design.
        if pair.baseline.truncated_chars > 0 || pair.candidate.truncated_chars > 0 {
            continue;
        }
        let (Some(baseline), Some(candidate)) = (pair.baseline.input_tokens, pair.candidate.input_tokens) else {
            continue;
        };
        told += 1;
        fewer += u64::from(candidate < baseline);
        more += u64::from(candidate > baseline);
    }
    let differing = fewer + more;
    if told == 0 || (differing as f64) < PROMPT_TOKENS_DIFFER_SHARE * told as f64 || differing == 0 {
        return None;
    }
    let implied = label == Optimization::Vendor || (label == Optimization::TruncatedContext && more == 0);
    let severity = if implied { Severity::Informs } else { Severity::BlocksPass };
    let name = arm_name(plan, matched.arms.candidate);
    let advice = if implied {
        "the optimization's label implies that"
    } else {
        "another chat template, a doubled start token or another tokenizer; make the servers read the same prompt"
    };
    let message = format!("{differing} of {told} equal prompts have another number of tokens on `{name}`: {advice}");
    Some(finding("prompt_tokens_differ", severity, Some(name), message))
}

/// The baseline against itself must show no change.
fn null_failed(plan: &Plan, run: &Run, baseline: usize, twin: usize) -> Option<Finding> {
    let pairs = matched(run, ArmPair { baseline, candidate: twin });
    let values: Vec<Pair<'_>> = pairs.iter().filter_map(|pair| pair.values("accuracy")).collect();
    let delta = Delta::of(&values);
    let p = delta.no_change_p(plan.suite.sampling.seed)?;
    let estimate = delta.estimate(0.999);
    let failed = match delta {
        Delta::Plain(_) => p < NULL_P,
        Delta::Mean(..) => p < NULL_P && estimate.excludes(0.0),
    };
    failed.then(|| {
        let name = arm_name(plan, twin);
        let message = format!(
            "the baseline's twin `{name}` differs from the baseline by {} pp (p = {p:.1e}): the set-up itself moves answers \
             (order, caching, load), so no difference of a candidate means anything",
            estimate.point.map_or_else(|| "?".to_owned(), |point| format!("{:+.1}", 100.0 * point))
        );
        finding("null_failed", Severity::Invalid, Some(name), message)
    })
}

/// An optimization that changes no answer, no token count and no time is probably not switched on.
pub fn optimization_inert(plan: &Plan, matched: &Matched<'_>, summary: &ComparisonSummary) -> Option<Finding> {
    let (baseline, candidate) = (deployment(plan, matched.arms.baseline)?, deployment(plan, matched.arms.candidate)?);
    if candidate.optimization == Optimization::None || candidate.price != baseline.price {
        return None;
    }
    let answered: Vec<_> = matched.pairs.iter().filter(|pair| pair.both_answered()).collect();
    let unchanged = answered.iter().all(|pair| {
        let row = pair.candidate;
        !pair.changed() && row.output_tokens == pair.baseline.output_tokens && row.truncated_chars == 0
    });
    // Drafts that are made but don't help are an optimization that is on.
    let drafts = answered.iter().any(|pair| pair.candidate.server.draft_n.is_some_and(|n| n > 0));
    let same = |metric: &str| {
        let ratio = summary.speed.get(metric);
        ratio.and_then(|e| Some(e.low? >= 1.0 - INERT_RATIO && e.high? <= 1.0 + INERT_RATIO && !e.excludes(1.0)))
    };
    let same_speed =
        same("e2e_p50") == Some(true) && same("tpot_p50") != Some(false) && same("ttft_p50") != Some(false);
    if answered.len() < INERT_PAIRS || !unchanged || drafts || !same_speed {
        return None;
    }
    let name = arm_name(plan, matched.arms.candidate);
    let message = format!(
        "`{name}` gave the same {} answers as the baseline in the same time: is the optimization on, and does the url lead \
         to it?",
        answered.len()
    );
    Some(finding("optimization_inert", Severity::BlocksPass, Some(name), message))
}
