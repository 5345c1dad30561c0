//! The banner: what to do, for which candidate, and what the reader must know first.

use serde::Serialize;

use super::{arm_names, name};
use crate::analyze::Summary;
use crate::analyze::summary::{ComparisonSummary, GateVerdict, RunVerdict};
use crate::drive::{Finding, Severity};
use crate::report::format;
use crate::report::words;

/// Findings that the page shows, worst first.
const FINDINGS_SHOWN: usize = 100;

#[derive(Serialize)]
pub struct Head {
    pub suite: String,
    pub verdict: &'static str,
    pub class: &'static str,
    pub sentence: String,
    pub candidates: Vec<Candidate>,
    pub simulated: bool,
    /// Why the run is incomplete; empty where it is complete.
    pub incomplete: String,
    pub facts: Vec<Fact>,
    pub findings: Vec<FindingView>,
    pub generated: String,
    pub version: String,
}

#[derive(Serialize)]
pub struct Candidate {
    pub name: String,
    pub optimization: String,
    pub verdict: &'static str,
    pub class: &'static str,
    /// What decides it: its failed or open gates.
    pub because: String,
}

#[derive(Serialize)]
pub struct Fact {
    pub label: &'static str,
    pub value: String,
}

#[derive(Serialize)]
pub struct FindingView {
    pub code: String,
    pub severity: &'static str,
    pub class: &'static str,
    pub arm: String,
    pub message: String,
}

pub fn head(summary: &Summary, generated_wall_ms: u64) -> Head {
    let run = &summary.run;
    let incomplete = match (&run.end_reason, run.complete) {
        (_, true) => String::new(),
        (Some(reason), false) => name(reason),
        (None, false) => "not every planned request has an outcome".to_owned(),
    };
    Head {
        suite: name(&summary.suite),
        verdict: words::verdict(summary.verdict),
        class: words::verdict_name(summary.verdict),
        sentence: sentence(summary),
        candidates: candidates(summary),
        simulated: run.simulated,
        incomplete,
        facts: facts(summary),
        findings: findings(summary),
        generated: format::date(generated_wall_ms),
        version: name(&run.harness_version),
    }
}

/// One sentence under the verdict.
pub(crate) fn sentence(summary: &Summary) -> String {
    let total = summary.comparisons.len();
    let count = |verdict| summary.comparisons.iter().filter(|comparison| comparison.verdict == verdict).count();
    let invalid = summary.validity.iter().find(|finding| finding.severity == Severity::Invalid);
    match summary.verdict {
        RunVerdict::Invalid => match invalid {
            Some(finding) => format!("The run proves nothing: {}.", name(&finding.message)),
            None => "The run proves nothing.".to_owned(),
        },
        RunVerdict::None => "The suite has no gates: figures without a decision.".to_owned(),
        RunVerdict::Pass if total == 1 => "The candidate passes every gate.".to_owned(),
        RunVerdict::Pass => format!("All {total} candidates pass every gate."),
        RunVerdict::Fail if total == 1 => "The candidate fails a gate.".to_owned(),
        RunVerdict::Inconclusive if total == 1 => "The candidate fails no gate, and some gates are open.".to_owned(),
        RunVerdict::Fail | RunVerdict::Inconclusive => {
            let parts = [
                (count(RunVerdict::Invalid), "can’t be judged"),
                (count(RunVerdict::Fail), "failed"),
                (count(RunVerdict::Inconclusive), "undecided"),
                (count(RunVerdict::Pass), "passed"),
            ];
            let parts: Vec<String> =
                parts.iter().filter(|part| part.0 > 0).map(|(count, word)| format!("{count} {word}")).collect();
            format!("Of {total} candidates: {}.", parts.join(", "))
        }
    }
}

fn candidates(summary: &Summary) -> Vec<Candidate> {
    let mut out: Vec<Candidate> = Vec::new();
    for comparison in &summary.comparisons {
        let against = if summary.comparisons.iter().any(|other| other.baseline != comparison.baseline) {
            format!(" (against {})", name(&comparison.baseline))
        } else {
            String::new()
        };
        out.push(Candidate {
            name: format!("{}{against}", name(&comparison.candidate)),
            optimization: name(&comparison.optimization),
            verdict: words::verdict(comparison.verdict),
            class: words::verdict_name(comparison.verdict),
            because: because(summary, comparison),
        });
    }
    out
}

/// The gates that decide, worst first.
fn because(summary: &Summary, comparison: &ComparisonSummary) -> String {
    let candidate = comparison.candidate.as_str();
    let deciding = |verdict: GateVerdict| {
        let gates = summary.gates.iter().filter(move |gate| gate.arm == candidate && !gate.advisory);
        gates.filter(move |gate| gate.verdict == verdict)
    };
    if comparison.verdict == RunVerdict::Invalid {
        return "the run proves nothing about it: see the validity findings".to_owned();
    }
    for (verdict, word) in [
        (GateVerdict::Fail, "fails"),
        (GateVerdict::NotEvaluable, "can’t be evaluated"),
        (GateVerdict::Inconclusive, "undecided"),
    ] {
        let gates: Vec<String> = deciding(verdict)
            .map(|gate| if gate.scope == "all" { gate.gate.clone() } else { format!("{} ({})", gate.gate, gate.scope) })
            .collect();
        if let Some(first) = gates.first() {
            let more = if gates.len() > 1 { format!(" and {} more", gates.len() - 1) } else { String::new() };
            return format!("{word}: {}{more}", name(first));
        }
    }
    // All gates pass, and yet the comparison doesn't: a finding stands in the way.
    if comparison.verdict == RunVerdict::Inconclusive {
        let about = |finding: &&Finding| finding.arm.as_deref().is_none_or(|arm| arm == candidate);
        let blocks = |finding: &&Finding| finding.severity == Severity::BlocksPass;
        return match summary.validity.iter().filter(about).find(blocks) {
            Some(finding) => format!("held back by a finding: {}", name(&finding.code)),
            None => "held back: see the validity findings".to_owned(),
        };
    }
    match deciding(GateVerdict::Pass).count() {
        0 => "no gates".to_owned(),
        1 => "its one gate passes".to_owned(),
        count => format!("all {count} gates pass"),
    }
}

fn facts(summary: &Summary) -> Vec<Fact> {
    let run = &summary.run;
    let repeats = if run.repeats > 1 { format!(" × {} repeats", run.repeats) } else { String::new() };
    let requests: u64 = summary.arms.values().filter_map(|arm| arm.requests.get("planned")).sum();
    vec![
        Fact { label: "Started", value: format::date(run.started_wall_ms) },
        Fact { label: "Samples", value: format!("{}{repeats}", format::count(run.samples)) },
        Fact { label: "Requests planned", value: format::count(requests) },
        Fact { label: "Arms", value: format!("{}, {}", arm_names(summary).len(), name(&run.arms_mode)) },
        Fact { label: "Blocks", value: format::count(run.blocks) },
        Fact { label: "Wall time", value: format::wall(run.wall_s) },
    ]
}

fn findings(summary: &Summary) -> Vec<FindingView> {
    let mut sorted: Vec<_> = summary.validity.iter().collect();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    sorted
        .into_iter()
        .take(FINDINGS_SHOWN)
        .map(|finding| {
            let (severity, class) = words::severity(finding.severity);
            FindingView {
                code: name(&finding.code),
                severity,
                class,
                arm: finding.arm.as_deref().map(name).unwrap_or_default(),
                message: crate::report::text::clipped(&crate::report::text::one_line(&finding.message), 600),
            }
        })
        .collect()
}
