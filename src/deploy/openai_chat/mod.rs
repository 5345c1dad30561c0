//! Chat completions (`openai-chat`) as servers really speak them: the vendor that named them, and Azure, vLLM,
//! llama.cpp, Hugging Face transformers, Mistral and the many that follow.
//!
//! The reader takes what is there instead of what the specification promises: usage in any chunk or none, streams
//! without `[DONE]`, errors inside a stream that began with 200, JSON where a stream was asked for.

mod errors;
mod fold;
mod read;
mod request;
mod wire;

#[cfg(test)]
mod tests;

pub(super) use errors::name;

use super::dialect::{Dialect, GenRequest, Reply};
use super::transport::{Exchanged, Target, WireRequest};

/// The `openai-chat` dialect.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenAiChat;

impl Dialect for OpenAiChat {
    fn request(&self, target: &Target, request: &GenRequest) -> WireRequest {
        request::request(target, request)
    }

    fn read(&self, exchanged: &Exchanged) -> Reply {
        read::read(exchanged)
    }

    fn may_carry_token(&self, data: &[u8]) -> bool {
        wire::may_carry_token(data)
    }
}
