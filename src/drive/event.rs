//! The one typed event stream between running and everything else. The dispatcher puts every event in order;
//! recorder, progress and findings are consumers and never hold it up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::calibrate::Calibration;
use super::instrument::Instrument;
use crate::deploy::{ColdBy, Outcome, Provenance, Usage};
use crate::plan::Phase;
use crate::units::Id;

/// What happened. The journal holds one line for each event, tagged with `t`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum Event {
    /// A process begins, or resumes, the run. `anchor_wall_ms` is the wall time of instant zero of this session:
    /// instants (`*_us`) of later lines are relative to it.
    Session {
        session: u32,
        anchor_wall_ms: u64,
        resumed: bool,
        environment: BTreeMap<String, Value>,
    },
    /// An arm answered its readiness probe.
    Ready {
        arm: String,
        at_us: u64,
        fingerprint: Value,
    },
    /// How an arm's prompt cache is kept out of play in this session (`cache: cold`).
    Cache {
        arm: String,
        at_us: u64,
        by: ColdBy,
    },
    /// `at_us` is the slot's instant zero: arrivals of an open load are told from it.
    SlotStarted {
        slot: u32,
        block: u32,
        #[serde(default)]
        stage: u16,
        arm: String,
        at_us: u64,
        phase: Phase,
    },
    Attempt(Box<Attempt>),
    SlotEnded {
        slot: u32,
        block: u32,
        arm: String,
        at_us: u64,
        phase: Phase,
        #[serde(default)]
        end: SlotEnd,
    },
    BlockEnded {
        block: u32,
        at_us: u64,
    },
    /// What the instrument saw of itself while a measured slot ran; not in simulation.
    Instrument {
        slot: u32,
        arm: String,
        at_us: u64,
        figures: Instrument,
    },
    /// The client's own error at the run's load.
    Calibration {
        at_us: u64,
        figures: Calibration,
    },
    Finding(Finding),
    /// The session is over. `complete` means that every planned unit has an outcome.
    Ended {
        at_us: u64,
        complete: bool,
        reason: EndReason,
    },
}

/// How a slot ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotEnd {
    /// Everything that it planned has its outcome.
    #[default]
    Planned,
    /// Its time was over; what it planned beyond that is not asked.
    TimeUp,
    /// More arrived than was answered: the step was ended, and why.
    Saturated(String),
    /// A sweep that had ended for this arm: the slot was not run, and why.
    Skipped(String),
    /// The run stopped in the middle of it.
    Stopped,
}

impl SlotEnd {
    /// Whether what the slot planned and did not ask is never asked.
    pub fn leaves_rest_unasked(&self) -> bool {
        matches!(self, SlotEnd::TimeUp | SlotEnd::Saturated(_) | SlotEnd::Skipped(_))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Everything planned for this session was asked.
    Done,
    Interrupted,
    Budget(String),
    /// The run can prove nothing: credentials on any arm, a broken baseline, an exhausted quota.
    Aborted(String),
}

// Each of the flags is a fact of its own about the exchange.
#[allow(clippy::struct_excessive_bools)]
/// One HTTP exchange of a request, with all that was seen. Failure is part of the row, never out of band.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    pub unit: Id,
    pub pair: Id,
    pub arm: String,
    pub task: String,
    /// Index of the sample in `samples.jsonl`; in the warm-up phase, index of the warm-up prompt, with the samples behind
    /// them where a cache is filled.
    pub sample: u32,
    pub repeat: u32,
    pub phase: Phase,
    pub session: u32,
    /// Index into the load's stages.
    #[serde(default)]
    pub stage: u16,
    pub block: u32,
    pub slot: u32,
    pub lane: u32,
    /// 1 for the first attempt of the request.
    pub attempt: u32,
    /// Whether this attempt decides the request: no retry follows.
    #[serde(rename = "final")]
    pub last: bool,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    pub timeline: Timeline,
    /// Token-bearing events: gaps in microseconds, the first from `sent`.
    pub arrival_gaps_us: Vec<u64>,
    /// Bytes of text of each token-bearing event.
    pub arrival_bytes: Vec<u32>,
    /// Tokens of each token-bearing event, where the server tells; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrival_tokens: Vec<u32>,
    pub text: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    pub usage: Usage,
    /// Output tokens and where the count comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<(u64, Provenance)>,
    /// Whether reasoning tokens were streamed as events.
    #[serde(default)]
    pub reasoning_streamed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_timings: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_fingerprint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_model: Option<String>,
    /// Hash of the prompt that was sent, where it is another than the sample's: cut, behind a conversation, or with a line
    /// of its own (`cache: cold`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_prompt_hash: Option<Id>,
    /// Characters that the harness cut from the prompt.
    #[serde(default)]
    pub truncated_chars: u64,
    #[serde(default)]
    pub stream: bool,
    #[serde(default)]
    pub lane_reopened: bool,
}

/// Instants of an attempt in microseconds since the session's anchor; absent where it did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intended_us: Option<u64>,
    pub dispatched_us: u64,
    /// How long opening the lane took, where this attempt opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_event_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_answer_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_token_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eof_us: Option<u64>,
}

/// Something about the run's validity, with a stable code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub code: String,
    pub severity: Severity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm: Option<String>,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// For the reader only.
    Informs,
    WithdrawsFigures,
    BlocksPass,
    Invalid,
}
