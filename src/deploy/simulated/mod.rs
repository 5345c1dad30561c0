//! A simulated deployment: what stands in for an inference server in the demo, in tests of the harness, and in
//! benchmarks of the instrument itself.
//!
//! ```text
//! Profile + AnswerBook + seed ─▶ Engine: Request + instant ─▶ Script (bytes at instants, and how they end)
//!                                  ├─ MemoryTransport   under the run's own clock, paused or not
//!                                  └─ Server            HTTP/1.1 on a real socket, on a thread of its own
//! ```
//! The [`Engine`] reads no clock and opens no socket, so that both carry the same bytes.

mod answers;
mod chat;
mod draw;
mod engine;
mod fault;
mod http1;
mod memory;
mod pace;
mod pages;
mod profile;
mod queue;
mod script;
mod server;
mod shape;
mod sources;
mod stream;
mod tokens;
mod wrong;

pub use answers::{Answer, AnswerBook, Draws, Entry, prompt_key, prompt_text};
pub use draw::Dist;
pub use engine::{Engine, Stats};
pub use fault::{Fault, FaultKind, StrikesBy};
pub use memory::MemoryTransport;
pub use profile::{AnswerSource, ErrorModel, Nondeterminism, Profile, ProfileError, Stall};
pub use script::{Close, End, Head, Request, Script};
pub use server::{ServeError, Server, WrittenAt, serve_until};
pub use shape::{RoleChunk, Shape, UsagePolicy};
pub use sources::SourceError;

#[cfg(test)]
mod wire_tests;
