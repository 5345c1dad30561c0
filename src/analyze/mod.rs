//! From recorded answers and timings to estimates, comparisons and verdicts.

pub mod estimate;
pub mod stats;
