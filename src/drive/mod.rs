//! Drive: carries a plan out. One dispatcher owns the run's state and puts its events in one order.

pub mod event;

pub use event::{Attempt, EndReason, Event, Finding, Severity, Timeline};
