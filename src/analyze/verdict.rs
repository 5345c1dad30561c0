//! From gates and findings to verdicts: invalid > fail > inconclusive > pass; none without gates.

use super::summary::{GateResult, GateVerdict, RunVerdict};
use crate::drive::{Finding, Severity};

/// The verdict of one comparison (or of a lone arm): `arms` are the names it involves, the baseline's twin included;
/// `gates` are its own.
pub fn of_comparison(gates: &[GateResult], findings: &[Finding], arms: &[&str]) -> RunVerdict {
    let concerns = |f: &&Finding| f.arm.as_deref().is_none_or(|arm| arms.contains(&arm));
    let has = |severity| findings.iter().filter(concerns).any(|f| f.severity == severity);
    if has(Severity::Invalid) {
        return RunVerdict::Invalid;
    }
    let worst = gates.iter().filter(|gate| !gate.advisory).map(|gate| verdict_of(gate.verdict)).max();
    match worst {
        None => RunVerdict::None,
        Some(RunVerdict::Pass) if has(Severity::BlocksPass) => RunVerdict::Inconclusive,
        Some(verdict) => verdict,
    }
}

/// What can't be evaluated is not decided.
fn verdict_of(gate: GateVerdict) -> RunVerdict {
    match gate {
        GateVerdict::Pass => RunVerdict::Pass,
        GateVerdict::Inconclusive | GateVerdict::NotEvaluable => RunVerdict::Inconclusive,
        GateVerdict::Fail => RunVerdict::Fail,
    }
}
