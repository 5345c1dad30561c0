//! Grading: a pure function of what was recorded. Text in, [`Verdict`] out; nothing here touches a server.

pub mod score;

pub use score::{GraderRecord, Score, ScoreRecord, Unscored, Verdict};
