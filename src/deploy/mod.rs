//! Deployments: what a vendor's wire says ([`Dialect`]), how its bytes arrive ([`Transport`]), and a simulated one.
//!
//! ```text
//! GenRequest ─ Dialect::request ─▶ WireRequest ─ Lane::exchange ─▶ Exchanged (frames with instants) ─ Dialect::read ─▶ Reply
//! ```
//! The thread that reads sockets only frames and stamps; `Dialect::read` parses afterwards, elsewhere.

pub mod cache;
pub mod dialect;
pub mod openai_chat;
pub mod outcome;
pub mod probe;
pub mod redact;
pub mod simulated;
pub mod sockets;
pub mod sse;
pub mod transport;
pub mod watch;

pub use cache::ColdBy;
pub use dialect::{Arrival, ArrivalKind, Dialect, GenRequest, Provenance, Reply, Usage};
pub use openai_chat::OpenAiChat;
pub use outcome::{Deadline, Grading, Outcome};
pub use redact::Secrets;
pub use sockets::Sockets;
pub use transport::{EndOfBody, Exchanged, Frame, Lane, Marks, Target, Transport, TransportError, WireRequest};
pub use watch::{Flow, Watch};

use crate::spec::Api;

/// The dialect that speaks an API; `None` where none does yet. Simulated deployments speak `openai-chat`.
pub fn dialect(api: Api) -> Option<&'static dyn Dialect> {
    match api {
        Api::OpenaiChat | Api::Simulated => Some(&OpenAiChat),
        Api::OpenaiCompletions | Api::OpenaiResponses | Api::AnthropicMessages => None,
    }
}
