//! Drive: carries a plan out. One dispatcher owns the run's state and puts its events in one order.
//!
//! ```text
//! Plan ─ dispatcher ─ ArmRunner ─ offer ─▶ Exchange ─ take ─▶ lanes (sockets) ─ put ─▶ settle ─▶ Event ─▶ sink
//! ```
//! Lanes only read and stamp; reading a reply's meaning, retries and accounting happen on the dispatcher's side.

pub mod arm;
mod attempt;
mod backlog;
pub mod calibrate;
pub mod dispatcher;
pub mod event;
pub mod exchange;
mod health;
mod instrument;
mod lane;
mod own_load;
mod pacer;
mod prepare;
mod retry;
mod settle;
mod shared;
pub mod sink;
mod slot;
mod stop;
mod talks;
mod turn;

pub use arm::ArmRunner;
pub use calibrate::Calibration;
pub use dispatcher::drive;
pub use event::{Attempt, EndReason, Event, Finding, Severity, SlotEnd, Timeline};
pub use instrument::{Gauge, Instrument, LATE_EDGES_MS};
pub use own_load::{fitted, time_for};
pub use pacer::{BudgetState, Pacer, Used};
pub use prepare::sent_hash;
pub use shared::{Pace, Shared};
pub use sink::{EventSink, Message};
pub use stop::Stop;
pub use talks::Answers;
