//! What a vendor's wire says: a request's bytes, and what a recorded exchange means.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::outcome::Outcome;
use super::transport::{Exchanged, Target, WireRequest};
use crate::plan::Message;
use crate::spec::Sampling;
use crate::units::Mono;

/// What is asked, before a dialect gives it a vendor's shape.
#[derive(Clone, Debug, PartialEq)]
pub struct GenRequest {
    pub messages: Vec<Message>,
    pub sampling: Sampling,
    /// The request's own sampling seed (31 bits).
    pub seed: u32,
    pub response_format: Option<Value>,
    pub stream: bool,
}

/// A vendor's protocol. Implementations are stateless; one serves all lanes.
pub trait Dialect: Send + Sync {
    /// The request's path, headers and body. `target` carries url, model, headers, query, key and body patch.
    fn request(&self, target: &Target, request: &GenRequest) -> WireRequest;

    /// Reads a recorded exchange: never panics, whatever the bytes.
    fn read(&self, exchanged: &Exchanged) -> Reply;

    /// A cheap hint for the reading thread: may this event's data carry a token? Only timeouts hang on it.
    fn may_carry_token(&self, data: &[u8]) -> bool;

    /// Whether this event says that the stream is done, so that a server which keeps the response open is not waited for.
    fn is_done(&self, event: Option<&str>, data: &[u8]) -> bool {
        let _ = event;
        data.trim_ascii() == b"[DONE]"
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalKind {
    Content,
    Reasoning,
    ToolCall,
    /// Content and reasoning in one event.
    Mixed,
}

/// A token-bearing event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub at: Mono,
    pub kind: ArrivalKind,
    /// Bytes of text that the event carried.
    pub bytes: u32,
    /// Tokens of the event, where the server tells.
    pub tokens: Option<u32>,
}

/// Where a token count comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    Server,
    Tokenizer,
    Events,
}

/// Token counts as the server gave them; absent where it did not. Every dialect counts the whole prompt in
/// `prompt_tokens`, what was read from or written to a cache included, however its vendor writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub prompt_tokens: Option<u64>,
    /// Reasoning included.
    pub completion_tokens: Option<u64>,
    /// Read from a cache; part of `prompt_tokens`.
    pub cached_tokens: Option<u64>,
    /// Written to a cache, where the vendor counts that; part of `prompt_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    pub reasoning_tokens: Option<u64>,
}

/// What an exchange said.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub outcome: Outcome,
    /// For people: the server's own message, or what is wrong with the stream.
    pub error: Option<String>,
    pub text: String,
    pub reasoning: String,
    pub finish_reason: Option<String>,
    pub usage: Usage,
    /// llama.cpp's `timings`: at most 32 named numbers, none nested.
    pub server_timings: Option<Value>,
    pub system_fingerprint: Option<String>,
    pub model: Option<String>,
    pub arrivals: Vec<Arrival>,
    pub first_event: Option<Mono>,
    pub finish_at: Option<Mono>,
    pub usage_at: Option<Mono>,
    /// From `Retry-After`, where the server asked for a pause.
    pub retry_after_s: Option<f64>,
    /// The provider says that the account has nothing left: waiting does not help.
    pub quota_exhausted: bool,
    /// Whether the answer came as a stream: what came decides, not what was asked for.
    pub streamed: bool,
}

impl Reply {
    /// A reply that is nothing but its outcome.
    pub fn failed(outcome: Outcome, error: impl Into<String>) -> Reply {
        Reply {
            outcome,
            error: Some(error.into()),
            text: String::new(),
            reasoning: String::new(),
            finish_reason: None,
            usage: Usage::default(),
            server_timings: None,
            system_fingerprint: None,
            model: None,
            arrivals: Vec::new(),
            first_event: None,
            finish_at: None,
            usage_at: None,
            retry_after_s: None,
            quota_exhausted: false,
            streamed: false,
        }
    }

    /// First content, reasoning or tool-call delta.
    pub fn first_token(&self) -> Option<Mono> {
        self.arrivals.first().map(|a| a.at)
    }

    /// First content or tool-call delta.
    pub fn first_answer(&self) -> Option<Mono> {
        self.arrivals.iter().find(|a| a.kind != ArrivalKind::Reasoning).map(|a| a.at)
    }

    pub fn last_token(&self) -> Option<Mono> {
        self.arrivals.last().map(|a| a.at)
    }
}
