//! The whole analysis: from a run's files to its summary. The same files give the same bytes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::compare::{self, Matched};
use super::flips::{self, Texts};
use super::gates::{self, Evidence};
use super::rows::{self, Run};
use super::speed::Speeds;
use super::summary::{ArmSummary, GateResult, RunInfo, RunVerdict, SUMMARY_FORMAT, Summary};
use super::throughput::Rates;
use super::withdrawn::Withdrawn;
use super::{AnalyzeError, arms, capacity, light, steps, validity, verdict};
use crate::drive::{EndReason, Event, Finding};
use crate::grade::ScoreRecord;
use crate::plan::Plan;
use crate::spec::{Api, CacheMode};

/// A file that can be read again from its start.
pub type Reopen<'a, T> = &'a dyn Fn() -> Result<Box<dyn Iterator<Item = Result<T, String>>>, String>;

pub struct AnalyzeInput<'a> {
    /// With its samples.
    pub plan: &'a Plan,
    /// Read twice: for the figures, and for the texts of flipped samples.
    pub journal: Reopen<'a, Event>,
    pub scores: Reopen<'a, ScoreRecord>,
}

/// Reads a run's rows: what [`analyze`] works on, and what row exports write.
pub fn read_rows(input: &AnalyzeInput<'_>) -> Result<Run, AnalyzeError> {
    let journal = (input.journal)().map_err(AnalyzeError::Journal)?;
    let scores = (input.scores)().map_err(AnalyzeError::Scores)?;
    rows::collect(input.plan, journal, scores)
}

/// The summary of a run.
pub fn analyze(input: &AnalyzeInput<'_>) -> Result<Summary, AnalyzeError> {
    let run = read_rows(input)?;
    summarize(input, &run)
}

/// The summary of a run whose rows have been read.
pub fn summarize(input: &AnalyzeInput<'_>, run: &Run) -> Result<Summary, AnalyzeError> {
    let plan = input.plan;
    let rates = Rates::new(&run.windows);
    let speeds = Speeds { run, rates, seed: plan.suite.sampling.seed };
    let matched = compare::comparisons(plan, run);
    let mut findings = validity::before_ratios(plan, run, &matched);
    findings.extend(steps::findings(plan, run));
    let withdrawn = Withdrawn::by(plan, &findings);
    let mut comparisons: Vec<_> =
        matched.iter().map(|matched| compare::summary(plan, &speeds, &withdrawn, matched)).collect();
    for (matched, summary) in matched.iter().zip(&comparisons) {
        findings.extend(validity::optimization_inert(plan, matched, summary));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let texts = texts(input, &matched)?;
    let evidence = Evidence { plan, speeds, withdrawn: &withdrawn };
    let mut gates = Vec::new();
    let mut verdicts = Vec::new();
    for (matched, summary) in matched.iter().zip(&mut comparisons) {
        flips::fill(plan, matched, &texts, summary);
        let own = gates::of_comparison(&evidence, matched);
        summary.verdict = verdict::of_comparison(&own, &findings, &involved(&evidence, matched));
        verdicts.push(summary.verdict);
        gates.extend(own);
    }
    if matched.is_empty() {
        let (own, verdict) = lone_arms(&evidence, &findings);
        gates.extend(own);
        verdicts.push(verdict);
    }
    let sweep = steps::summary(plan, &speeds, &withdrawn, &matched);
    let mut summary = Summary {
        format: SUMMARY_FORMAT.to_owned(),
        suite: plan.suite.name.clone(),
        verdict: verdicts.into_iter().max().unwrap_or(RunVerdict::None),
        run: run_info(plan, run),
        gates,
        arm_order: plan.arms.iter().map(|arm| arm.name.clone()).collect(),
        arms: arm_summaries(plan, run, rates, &withdrawn),
        comparisons,
        capacity: sweep.as_ref().and_then(|sweep| capacity::summary(plan, sweep)),
        sweep,
        validity: findings,
        environment: environment(plan, run, rates),
    };
    if steps::mixes_loads(plan) {
        steps::withhold(&mut summary);
    }
    light::fill(plan, run, &mut summary);
    Ok(summary)
}

fn involved<'a>(evidence: &Evidence<'a>, matched: &Matched<'_>) -> Vec<&'a str> {
    let arms = [Some(matched.arms.baseline), Some(matched.arms.candidate), matched.twin];
    arms.into_iter().flatten().map(|arm| evidence.arm_name(arm)).collect()
}

/// Without a comparison each arm is judged by itself.
fn lone_arms(evidence: &Evidence<'_>, findings: &[Finding]) -> (Vec<GateResult>, RunVerdict) {
    let mut gates = Vec::new();
    let mut worst = RunVerdict::None;
    for (index, arm) in evidence.plan.arms.iter().enumerate().filter(|(_, arm)| arm.twin_of.is_none()) {
        let own = gates::of_lone_arm(evidence, index);
        worst = worst.max(verdict::of_comparison(&own, findings, &[&arm.name]));
        gates.extend(own);
    }
    (gates, worst)
}

/// The second pass over the journal: only where some text is wanted.
fn texts(input: &AnalyzeInput<'_>, matched: &[Matched<'_>]) -> Result<Texts, AnalyzeError> {
    let mut texts: Texts = matched.iter().flat_map(flips::wanted).map(|unit| (unit, None)).collect();
    if !texts.is_empty() {
        flips::read(&mut texts, (input.journal)().map_err(AnalyzeError::Journal)?)?;
    }
    Ok(texts)
}

fn arm_summaries(plan: &Plan, run: &Run, rates: Rates<'_>, withdrawn: &Withdrawn) -> BTreeMap<String, ArmSummary> {
    let of = |(index, arm): (usize, &crate::plan::Arm)| {
        let mut summary = arms::summary(plan, run, rates, index, arm);
        withdrawn.apply(index, &mut summary);
        (arm.name.clone(), summary)
    };
    plan.arms.iter().enumerate().map(of).collect()
}

fn run_info(plan: &Plan, run: &Run) -> RunInfo {
    let asked: u64 = (0..plan.arms.len()).map(|arm| arms::planned(plan, run, arm)).sum();
    let simulated = |arm: &crate::plan::Arm| plan.suite.deployment(&arm.deployment).map(|d| d.api);
    RunInfo {
        started_wall_ms: run.sessions.first().map_or(plan.created_wall_ms, |s| s.anchor_wall_ms),
        harness_version: plan.harness_version.clone(),
        suite_hash: plan.suite_hash.to_string(),
        seed: plan.suite.sampling.seed,
        simulated: plan.arms.iter().any(|arm| simulated(arm) == Some(Api::Simulated)),
        complete: run.rows.len() as u64 >= asked,
        end_reason: end_reason(run),
        arms_mode: arms::name_of(&plan.suite.arms),
        samples: plan.samples.len() as u64,
        repeats: u64::from(plan.suite.repeats),
        blocks: plan.blocks.len() as u64,
        wall_s: run.sessions.iter().map(|s| s.last_us as f64 / 1e6).sum(),
    }
}

fn end_reason(run: &Run) -> Option<String> {
    match run.sessions.last()?.end.as_ref() {
        None => Some("the last session has no end in the journal: its process was ended from outside".to_owned()),
        Some((_, EndReason::Done)) => None,
        Some((_, EndReason::Interrupted)) => Some("interrupted".to_owned()),
        Some((_, EndReason::Budget(why) | EndReason::Aborted(why))) => Some(why.clone()),
    }
}

/// The first session's environment, the servers' fingerprints by arm, which windows throughput is told from, and what the
/// instrument saw of itself.
fn environment(plan: &Plan, run: &Run, rates: Rates<'_>) -> BTreeMap<String, Value> {
    let mut environment = run.sessions.first().map(|s| s.environment.clone()).unwrap_or_default();
    if !run.ready.is_empty() {
        environment.insert("fingerprints".to_owned(), json!(run.ready));
    }
    if let Some(cache) = cache(plan, run) {
        environment.insert("cache".to_owned(), cache);
    }
    let window = if rates.is_trimmed() { "steady part of each slot" } else { "whole slots" };
    environment.insert("throughput_window".to_owned(), json!(window));
    if let Some(instrument) = run.watched.summary(plan) {
        environment.insert("instrument".to_owned(), json!(instrument));
    }
    environment
}

/// What was done about prompt caches, by arm; absent where they were left alone.
fn cache(plan: &Plan, run: &Run) -> Option<Value> {
    let words = |arm: &crate::plan::Arm| {
        let words = match plan.suite.cache {
            CacheMode::AsIs => return None,
            CacheMode::Warm => "warm: each prompt is sent once before its slot",
            CacheMode::Cold => run.cold_by.get(&arm.name)?.describe(),
        };
        Some((arm.name.clone(), json!(words)))
    };
    let by_arm: serde_json::Map<String, Value> = plan.arms.iter().filter_map(words).collect();
    (!by_arm.is_empty()).then_some(Value::Object(by_arm))
}
