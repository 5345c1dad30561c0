//! How a server shapes its stream when nothing is wrong.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Shape {
    pub role: RoleChunk,
    pub usage: UsagePolicy,
    /// llama.cpp's `timings` beside usage.
    pub timings: bool,
    /// The stream ends with `[DONE]`.
    pub done: bool,
    /// The body is written in pieces of at most so many bytes, wherever that cuts.
    pub chunk_bytes: Option<usize>,
    /// Microseconds between two such pieces.
    pub chunk_gap_us: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            role: RoleChunk::WithFirst,
            usage: UsagePolicy::Asked,
            timings: true,
            done: true,
            chunk_bytes: None,
            chunk_gap_us: 0,
        }
    }
}

/// When the chunk that only names the role is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleChunk {
    /// Together with the first token (llama.cpp).
    WithFirst,
    /// In a write of its own just before the first token (vLLM).
    Own,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsagePolicy {
    /// In streams only where `stream_options.include_usage` asks for it; always without streaming.
    Asked,
    Always,
    Never,
}
