//! Exit codes: the only place that knows their numbers.

use super::args::OnInconclusive;
use crate::analyze::summary::RunVerdict;

/// In the order of precedence: the first that holds is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 2: suite, flags, or files that can't be used.
    BadInput,
    /// 5: a sandbox is needed and not to be had; said before the first request.
    NoSandbox,
    /// 4: instrument, quota, credentials or baseline at fault: the run proves nothing.
    Invalid,
    /// 1: a gate failed, the candidate's own failures included.
    GateFailed,
    /// 3: the evidence does not decide.
    Inconclusive,
    /// 0: pass, or no gates.
    Pass,
    /// 130: stopped by the user; the journal stays valid.
    Interrupted,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Exit::Pass => 0,
            Exit::GateFailed => 1,
            Exit::BadInput => 2,
            Exit::Inconclusive => 3,
            Exit::Invalid => 4,
            Exit::NoSandbox => 5,
            Exit::Interrupted => 130,
        }
    }

    pub fn of_verdict(verdict: RunVerdict, on: OnInconclusive) -> Exit {
        match (verdict, on) {
            (RunVerdict::Invalid, _) => Exit::Invalid,
            (RunVerdict::Fail, _) => Exit::GateFailed,
            (RunVerdict::Inconclusive, OnInconclusive::Fail) => Exit::Inconclusive,
            (RunVerdict::Inconclusive | RunVerdict::Pass | RunVerdict::None, _) => Exit::Pass,
        }
    }
}
