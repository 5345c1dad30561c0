//! Counterpoise weighs the quality that an optimization of an LLM deployment costs against the speed and money it buys.
//!
//! ```text
//! suite.yaml ─ plan ─▶ Plan ─ drive ─▶ events ─ record ─▶ journal ─ grade ─▶ scores ─ analyze ─▶ Summary ─ report
//! ```
//!
//! Rooms, in the order of dependency (nothing imports upward; `tests/tidy.rs` holds it so):
//! `units, error, world ← spec ← plan ← deploy ← drive, observe ← record ← sandbox ← grade ← analyze ← report ← cli`.

pub mod analyze;
pub mod cli;
pub mod deploy;
pub mod drive;
pub mod grade;
pub mod plan;
pub mod record;
pub mod report;
pub mod spec;
pub mod units;
pub mod world;
