//! The plan: every request of a run, fixed before the first byte is sent. A plan is data; `plan` prints it, `run`
//! carries it out, `--resume` continues it, and a run may only stop early, never ask more.

mod types;

pub use types::{Arm, Block, Message, Phase, Plan, Sample, Slot, Unit};
