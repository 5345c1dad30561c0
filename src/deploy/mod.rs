//! Deployments: what a vendor's wire says ([`Dialect`]), how its bytes arrive ([`Transport`]), and a simulated one.
//!
//! ```text
//! GenRequest ─ Dialect::request ─▶ WireRequest ─ Lane::exchange ─▶ Exchanged (frames with instants) ─ Dialect::read ─▶ Reply
//! ```
//! The thread that reads sockets only frames and stamps; `Dialect::read` parses afterwards, elsewhere.

pub mod dialect;
pub mod outcome;
pub mod simulated;
pub mod transport;

pub use dialect::{Arrival, ArrivalKind, Dialect, GenRequest, Provenance, Reply, Usage};
pub use outcome::{Deadline, Grading, Outcome};
pub use transport::{EndOfBody, Exchanged, Frame, Lane, Marks, Target, Transport, TransportError, WireRequest};
