//! Analysis: from journal and scores to one [`Summary`]. Pure functions of the run's files.

pub mod estimate;
pub mod stats;
pub mod summary;

pub use estimate::Estimate;
pub use summary::Summary;
