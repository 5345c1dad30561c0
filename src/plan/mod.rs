//! The plan: every request of a run, fixed before the first byte is sent. A plan is data; `plan` prints it, `run`
//! carries it out, `--resume` continues it, and a run may only stop early, never ask more.
//!
//! ```text
//! Suite ─ build (workload) ─▶ samples (rows, prompts) ─ blocks (order) ─▶ Plan ─ units ─▶ Unit (who, what, seed)
//! ```

pub mod arrivals;
mod blocks;
pub mod build;
mod draws;
mod prose;
#[cfg(test)]
mod tests;
pub mod truncate;
mod types;
mod units;
mod warmup;
mod workload;
#[cfg(test)]
mod workload_tests;

pub use build::{PLAN_FORMAT, PlanError, build};
pub use types::{Arm, Block, Message, Phase, Plan, Sample, Slot, Unit};
pub use units::pair_key;
