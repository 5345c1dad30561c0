//! Analysis: from journal and scores to one [`Summary`]. Pure functions of the run's files.
//!
//! ```text
//! Plan + journal + scores ─ rows ─▶ Run ─ arms, compare, gates, validity ─ verdict ─▶ Summary
//! ```

pub mod arms;
mod caches;
mod capacity;
pub mod compare;
mod costs;
pub mod estimate;
pub mod figures;
mod flips;
mod gates;
mod goodput;
pub mod graded;
pub mod histogram;
pub mod instrument;
pub mod latency;
pub mod light;
pub mod money;
mod points;
pub mod rows;
pub mod samples;
mod slo;
mod speed;
pub mod stats;
mod steps;
mod streams;
pub mod summarize;
pub mod summary;
pub mod sweep;
#[cfg(test)]
mod testkit;
#[cfg(test)]
mod tests;
mod throughput;
mod validity;
mod verdict;
pub mod windows;
mod withdrawn;

pub use estimate::Estimate;
pub use summarize::{AnalyzeInput, analyze};
pub use summary::Summary;

/// The two-sided level of every interval that is shown.
pub const SHOWN_LEVEL: f64 = 0.90;

#[derive(Debug, thiserror::Error)]
pub enum AnalyzeError {
    #[error("the journal can't be read: {0}")]
    Journal(String),
    #[error("the scores can't be read: {0}; `regrade` writes them anew")]
    Scores(String),
    #[error("the journal names the arm `{arm}`, which the plan doesn't have; are both of one run?")]
    UnknownArm { arm: String },
}
