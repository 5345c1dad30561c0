//! The plan's own types.

use serde::{Deserialize, Serialize};

use crate::spec::{Role, Row, Suite};
use crate::units::{Id, Span};

/// A deployment's part in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    pub name: String,
    pub deployment: String,
    /// Set on the noise-floor twin: the name of the arm that it repeats.
    pub twin_of: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub content: String,
}

/// One row of a dataset with its rendered prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Position in `Plan::samples`.
    pub index: u32,
    pub task: String,
    /// The row's own `id`, if it has one.
    pub id: Option<String>,
    pub row: Row,
    /// Untruncated prompt. `${env:NAME}` of the template stays unresolved here; see `Plan::live_messages`.
    pub messages: Vec<Message>,
    /// How many equal prompts of the task come before this one: pairs equal prompts in order.
    pub occurrence: u32,
    /// Hash of task and untruncated prompt; of a later turn also of the turns before.
    pub prompt_hash: Id,
    /// Set where each stage of the load asks prompts of its own: the stage that asks this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<u16>,
    /// Value of the task's `cluster_by` column; without one, the conversation.
    pub cluster: Option<String>,
    /// Number of the conversation that the sample is a turn of, and its turn, from 0. `messages` of a later turn are what
    /// it adds; what came before, with the arm's own answers, is sent ahead of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<(u32, u32)>,
    /// The request's own `max_tokens`, where it is lower than the deployment's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Pause between the answer to the turn before and this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think_time: Option<Span>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Requests that open a deployment's steady state; never counted.
    Warmup,
    Measured,
}

/// One request to be made: one sample × repeat × arm. `id` = hash(arm, phase, stage, index).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    pub id: Id,
    /// hash(task, untruncated prompt, occurrence, repeat): equal in all arms and all runs.
    pub pair: Id,
    /// Index into `Plan::arms`.
    pub arm: usize,
    pub phase: Phase,
    /// Index into `Plan::samples`; in the warm-up phase into `Plan::warmup`, with the samples behind it (`cache: warm`).
    pub sample: u32,
    pub repeat: u32,
    /// Index into the load's stages.
    pub stage: u16,
    pub block: u32,
    /// Position of the arm's slot within the whole run.
    pub slot: u32,
    /// Position within the slot.
    pub position: u32,
    /// Open load: when it arrives, in microseconds from the slot's start.
    pub intended_us: Option<u64>,
    /// 31 bits; hash(suite seed, sample, repeat): equal in all arms, different between repeats.
    pub seed: u32,
}

/// Samples that all arms answer before the next block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    pub index: u32,
    /// Index into the load's stages.
    #[serde(default)]
    pub stage: u16,
    /// (sample, repeat), in the order in which every arm asks them.
    pub items: Vec<(u32, u32)>,
    /// Requests for each arm: the items, gone round again where there are fewer. 0 in old plans: the items once.
    #[serde(default)]
    pub count: u64,
    /// Added to the repeats of a block that goes round, so that no two rounds of a stage share a number.
    #[serde(default)]
    pub repeat_base: u32,
    /// Open load: instants of arrival, microseconds from the slot's start, one for each request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrivals_us: Vec<u64>,
    /// The slot ends by the clock: nothing more is sent after this time, once `answers_least` are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_us: Option<u64>,
    #[serde(default)]
    pub answers_least: u64,
    /// Arms (indices) in the order of their slots.
    pub order: Vec<usize>,
}

impl Block {
    /// Requests that one arm's slot plans.
    pub fn requests(&self) -> u64 {
        if self.count == 0 { self.items.len() as u64 } else { self.count }
    }

    /// The sample and the repeat of a position.
    pub fn item(&self, position: u64, repeats: u32) -> Option<(u32, u32)> {
        let length = self.items.len() as u64;
        let round = u32::try_from(position.checked_div(length)?).ok()?;
        let (sample, repeat) = self.items.get((position % length) as usize)?;
        Some((*sample, repeat + self.repeat_base + round * repeats))
    }
}

/// One arm's turn in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    pub index: u32,
    pub block: u32,
    pub arm: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// `counterpoise.plan/1`
    pub format: String,
    pub created_wall_ms: u64,
    pub harness_version: String,
    /// Hash of the resolved suite.
    pub suite_hash: Id,
    /// The suite with `${env:NAME}` unresolved.
    pub suite: Suite,
    pub arms: Vec<Arm>,
    pub blocks: Vec<Block>,
    /// Warm-up prompts, shared by all arms; they are never measured.
    pub warmup: Vec<Vec<Message>>,
    /// Samples are written to `samples.jsonl`, each once, and read back from there.
    #[serde(skip)]
    pub samples: Vec<Sample>,
    /// Prompts with `${env:NAME}` resolved, where a task's template has any: by sample. Never written.
    #[serde(skip)]
    pub live_messages: std::collections::BTreeMap<u32, Vec<Message>>,
}
