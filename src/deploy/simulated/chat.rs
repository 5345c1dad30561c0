//! The wire of a chat completion as an OpenAI-like server writes it: requests read, chunks and bodies written.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answers::prompt_text;

/// What a chat request asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    pub model: Option<String>,
    /// All messages' contents, joined.
    pub prompt: String,
    pub messages: usize,
    pub max_tokens: Option<u32>,
    pub temperature: f64,
    pub seed: u64,
    pub stop: Vec<String>,
    pub stream: bool,
    pub include_usage: bool,
    /// llama.cpp's `cache_prompt`.
    pub may_use_cache: bool,
    /// vLLM's `cache_salt`.
    pub cache_salt: String,
}

#[derive(Deserialize)]
struct Wire {
    model: Option<String>,
    messages: Vec<WireMessage>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    temperature: Option<f64>,
    seed: Option<i64>,
    stop: Option<Value>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    cache_prompt: Option<bool>,
    cache_salt: Option<String>,
}

#[derive(Deserialize)]
struct WireMessage {
    content: Option<Value>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

impl Ask {
    /// Reads a request's body; `Err` is what a server would complain of.
    pub fn read(body: &[u8]) -> Result<Ask, String> {
        let wire: Wire = serde_json::from_slice(body).map_err(|e| e.to_string())?;
        if wire.messages.is_empty() {
            return Err("`messages` is empty".to_owned());
        }
        let contents: Vec<String> = wire.messages.iter().map(WireMessage::text).collect();
        let stop = match wire.stop {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        Ok(Ask {
            model: wire.model,
            prompt: prompt_text(contents.iter().map(String::as_str)),
            messages: contents.len(),
            max_tokens: wire.max_completion_tokens.or(wire.max_tokens),
            temperature: wire.temperature.unwrap_or(1.0),
            seed: wire.seed.map_or(0, i64::unsigned_abs),
            stop,
            stream: wire.stream.unwrap_or(false),
            include_usage: wire.stream_options.and_then(|o| o.include_usage).unwrap_or(false),
            may_use_cache: wire.cache_prompt.unwrap_or(true),
            cache_salt: wire.cache_salt.unwrap_or_default(),
        })
    }
}

impl WireMessage {
    /// Text, or the text parts of a list of parts.
    fn text(&self) -> String {
        match &self.content {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
            _ => String::new(),
        }
    }
}

/// Seconds since 1970 that every simulated answer was `created` at: answers are values, no clock is read for them.
const CREATED_S: u64 = 1_764_547_200;

/// What is common to all chunks of an answer.
#[derive(Clone, Debug)]
pub struct Envelope {
    pub id: String,
    pub model: String,
}

/// Counts at some point of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub prompt: u64,
    pub cached: u64,
    pub completion: u64,
    pub reasoning: u64,
}

impl Counts {
    pub fn usage(&self) -> Value {
        let mut usage = json!({
            "completion_tokens": self.completion,
            "prompt_tokens": self.prompt,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        });
        if let (true, Some(usage)) = (self.reasoning > 0, usage.as_object_mut()) {
            usage.insert("completion_tokens_details".to_owned(), json!({"reasoning_tokens": self.reasoning}));
        }
        usage
    }
}

/// Durations that llama.cpp tells in `timings`, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timings {
    pub prompt_ms: f64,
    pub predicted_ms: f64,
}

impl Timings {
    pub fn value(&self, counts: &Counts) -> Value {
        let computed = counts.prompt.saturating_sub(counts.cached);
        let per = |ms: f64, n: u64| if n == 0 { 0.0 } else { ms / n as f64 };
        let per_second = |ms: f64, n: u64| if ms > 0.0 { n as f64 * 1e3 / ms } else { 0.0 };
        json!({
            "cache_n": counts.cached,
            "prompt_n": computed,
            "prompt_ms": self.prompt_ms,
            "prompt_per_token_ms": per(self.prompt_ms, computed),
            "prompt_per_second": per_second(self.prompt_ms, computed),
            "predicted_n": counts.completion,
            "predicted_ms": self.predicted_ms,
            "predicted_per_token_ms": per(self.predicted_ms, counts.completion),
            "predicted_per_second": per_second(self.predicted_ms, counts.completion),
        })
    }
}

impl Envelope {
    /// A chunk with these choices.
    pub fn chunk(&self, choices: Value) -> Map<String, Value> {
        self.map("chat.completion.chunk", choices)
    }

    pub fn delta(&self, delta: &Value, finish_reason: Option<&str>) -> Map<String, Value> {
        self.chunk(json!([{"finish_reason": finish_reason, "index": 0, "delta": delta}]))
    }

    /// The body of an answer that is not streamed.
    pub fn body(&self, text: &str, reasoning: &str, finish_reason: Option<&str>) -> Map<String, Value> {
        let mut message = json!({"role": "assistant", "content": text});
        if let (false, Some(message)) = (reasoning.is_empty(), message.as_object_mut()) {
            message.insert("reasoning_content".to_owned(), json!(reasoning));
        }
        self.map("chat.completion", json!([{"finish_reason": finish_reason, "index": 0, "message": message}]))
    }

    fn map(&self, object: &str, choices: Value) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("choices".to_owned(), choices);
        map.insert("created".to_owned(), json!(CREATED_S));
        map.insert("id".to_owned(), json!(self.id));
        map.insert("model".to_owned(), json!(self.model));
        map.insert("system_fingerprint".to_owned(), json!("simulated"));
        map.insert("object".to_owned(), json!(object));
        map
    }
}

/// An error as llama.cpp words it.
pub fn error_body(code: u16, kind: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": message, "type": kind}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_text_and_parts_and_both_names_of_the_limit() {
        let body = json!({
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "2+2"}, {"type": "image_url"}, {"type": "text", "text": "?"}]},
            ],
            "max_completion_tokens": 9, "stop": "\n", "stream": true, "stream_options": {"include_usage": true},
        });
        let ask = Ask::read(body.to_string().as_bytes()).unwrap();
        assert_eq!(ask.prompt, "Be brief.\n2+2?");
        assert_eq!((ask.max_tokens, ask.stop.as_slice()), (Some(9), ["\n".to_owned()].as_slice()));
        assert!(ask.stream && ask.include_usage && ask.may_use_cache);
    }

    #[test]
    fn refuses_what_is_no_request() {
        for body in ["", "{", "[]", "{}", "{\"messages\": []}", "{\"messages\": 3}"] {
            assert!(Ask::read(body.as_bytes()).is_err(), "{body} was taken");
        }
    }
}
