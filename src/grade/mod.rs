//! Grading: a pure function of what was recorded. Text in, [`Verdict`] out; nothing here touches a server.
//!
//! ```text
//! attempt ─ outcome (§ "is there an answer at all?") ─ reasoning split ─ extraction ─ comparison ─ threshold ─▶ Verdict
//!                                                     └──────────── one grader of the task ───────────┘
//! verdicts of all graders ─ combine ─▶ ScoreRecord
//! ```
//!
//! Three answers are told apart everywhere: **wrong** (an answer was found and differs), **no answer** (nothing could be
//! found: a failing [`Score`] without `answer`, which cannot pass by negation or by a threshold), and
//! **unscored** (nobody can say; never the model's fault).

mod build;
mod choice;
mod combine;
mod examples;
mod extract;
mod fold;
mod gold;
mod gold_check;
mod grader;
mod json;
mod json_scan;
mod json_work;
mod judge_outcome;
mod number;
mod number_prepare;
mod number_scan;
mod numeric;
mod phrase;
mod reasoning;
mod run;
pub mod score;
mod text;

pub use build::{Built, GradeError, build, build_task, check};
pub use combine::{Combined, combine};
pub use examples::{ExampleFailure, check_examples};
pub use extract::{EXTRACTIONS, Extraction};
pub use fold::fold;
pub use gold_check::{GoldFailure, GoldFailures, check_golds};
pub use grader::{AnswerText, FieldRenderer, Grader};
pub use judge_outcome::grade_request;
pub use reasoning::{ReasoningEnd, SplitReply, split_reasoning};
pub use run::{RunGrader, render};
pub use score::{GraderRecord, Score, ScoreRecord, Unscored, Verdict};
