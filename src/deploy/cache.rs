//! How a server's prompt cache is kept out of play (`cache: cold`): by the engine's own switch where the engine is known,
//! else by a line of its own before each prompt.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::transport::Target;
use crate::plan::Message;
use crate::units::Id;

/// Keys of a request's body that steer a prompt cache.
const SWITCHES: [&str; 2] = ["cache_prompt", "cache_salt"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColdBy {
    /// llama.cpp: `cache_prompt: false`.
    CachePrompt,
    /// vLLM: another `cache_salt` for each request.
    CacheSalt,
    /// Another first line for each prompt: no two have a beginning in common.
    Nonce,
    /// The deployment's own `body` says what is done; nothing is added.
    Body,
}

impl ColdBy {
    /// What suits a deployment, by what its server said of itself when it was ready.
    pub fn of(fingerprint: &Value, body: &Map<String, Value>) -> ColdBy {
        let told = |key: &str| fingerprint.get(key).and_then(Value::as_str).unwrap_or_default();
        if SWITCHES.iter().any(|key| body.contains_key(*key)) {
            ColdBy::Body
        } else if told("owned_by") == "vllm" && takes_salt(told("version")) {
            ColdBy::CacheSalt
        } else if told("owned_by") == "llamacpp" || !told("build_info").is_empty() {
            ColdBy::CachePrompt
        } else {
            ColdBy::Nonce
        }
    }

    /// Arms are compared on equal prompts: where one needs the line, the others get it too.
    pub fn agree(means: &mut [ColdBy]) {
        if means.contains(&ColdBy::Nonce) {
            means.iter_mut().filter(|by| **by != ColdBy::Body).for_each(|by| *by = ColdBy::Nonce);
        }
    }

    /// For people.
    pub fn describe(self) -> &'static str {
        match self {
            ColdBy::CachePrompt => "cold: `cache_prompt: false` in each request",
            ColdBy::CacheSalt => "cold: a `cache_salt` of its own in each request",
            ColdBy::Nonce => "cold: a line of its own before each prompt",
            ColdBy::Body => "cold: as the deployment's own `body` says",
        }
    }

    /// Makes one request cold. `token` is told apart from that of every other request, in this run and in others.
    /// `messages` are what is sent, cut already; returns the target to send them to where it changes.
    pub fn apply(self, token: Id, target: &Target, messages: &mut [Message]) -> Option<Target> {
        let name = token.to_string();
        let (key, value) = match self {
            ColdBy::CachePrompt => ("cache_prompt", Value::Bool(false)),
            ColdBy::CacheSalt => ("cache_salt", Value::String(name)),
            ColdBy::Nonce => {
                if let Some(first) = messages.first_mut() {
                    let short: String = name.chars().take(16).collect();
                    first.content.insert_str(0, &format!("[run {short}]\n"));
                }
                return None;
            }
            ColdBy::Body => return None,
        };
        let mut target = target.clone();
        target.body.entry(key).or_insert(value);
        Some(target)
    }
}

/// vLLM takes a salt since 0.9; an older one would ignore it.
fn takes_salt(version: &str) -> bool {
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let (major, minor) = (parts.next(), parts.next());
    major.zip(minor).is_some_and(|version| version >= (0, 9))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::deploy::{Dialect, GenRequest, OpenAiChat};
    use crate::spec::{Api, Role, Sampling, Timeouts};
    use crate::units::Span;

    fn target(body: &Value) -> Target {
        let span = Span::from_ms(1);
        Target {
            name: "t".to_owned(),
            api: Api::OpenaiChat,
            url: "http://h/v1".to_owned(),
            model: None,
            api_key: None,
            headers: std::collections::BTreeMap::new(),
            query: std::collections::BTreeMap::new(),
            body: body.as_object().cloned().unwrap(),
            ca_file: None,
            timeouts: Timeouts { connect: span, first_token: span, between_tokens: span, total: span },
        }
    }

    /// The body that is sent.
    fn sent(by: ColdBy, token: Id, body: &Value) -> Value {
        let mut messages = vec![Message { role: Role::User, content: "2 + 2?".to_owned() }];
        let plain = target(body);
        let cold = by.apply(token, &plain, &mut messages);
        let sampling =
            Sampling { temperature: None, top_p: None, top_k: None, max_tokens: 9, seed: 7, stop: Vec::new() };
        let request = GenRequest { messages, sampling, seed: 1, response_format: None, stream: true };
        let wire = OpenAiChat.request(cold.as_ref().unwrap_or(&plain), &request);
        serde_json::from_slice(&wire.body).unwrap()
    }

    fn of(fingerprint: &Value, body: &Value) -> ColdBy {
        ColdBy::of(fingerprint, body.as_object().unwrap())
    }

    #[test]
    fn the_engine_s_own_switch_is_used_where_it_is_known() {
        assert_eq!(of(&json!({"build_info": "b6123-abc", "models": ["m"]}), &json!({})), ColdBy::CachePrompt);
        assert_eq!(of(&json!({"owned_by": "llamacpp"}), &json!({})), ColdBy::CachePrompt);
        assert_eq!(of(&json!({"owned_by": "vllm", "version": "0.31.0"}), &json!({})), ColdBy::CacheSalt);
        assert_eq!(of(&json!({"owned_by": "vllm", "version": "1.0.0rc1"}), &json!({})), ColdBy::CacheSalt);
        assert_eq!(of(&json!({"owned_by": "vllm", "version": "0.8.5"}), &json!({})), ColdBy::Nonce);
        assert_eq!(of(&json!({"owned_by": "someone", "version": "0.31.0"}), &json!({})), ColdBy::Nonce);
        assert_eq!(of(&Value::Null, &json!({})), ColdBy::Nonce);
        assert_eq!(of(&json!({"build_info": "b1"}), &json!({"cache_prompt": null})), ColdBy::Body);
    }

    #[test]
    fn one_arm_without_a_switch_gives_all_the_line() {
        let mut means = [ColdBy::CachePrompt, ColdBy::Body, ColdBy::Nonce, ColdBy::CacheSalt];
        ColdBy::agree(&mut means);
        assert_eq!(means, [ColdBy::Nonce, ColdBy::Body, ColdBy::Nonce, ColdBy::Nonce]);
        let mut means = [ColdBy::CachePrompt, ColdBy::CacheSalt];
        ColdBy::agree(&mut means);
        assert_eq!(means, [ColdBy::CachePrompt, ColdBy::CacheSalt]);
    }

    #[test]
    fn each_request_gets_its_own_token_and_the_user_s_body_wins() {
        let (one, two) = (Id::of("t", &[b"1"]), Id::of("t", &[b"2"]));
        assert_eq!(sent(ColdBy::CachePrompt, one, &json!({}))["cache_prompt"], json!(false));
        assert_eq!(sent(ColdBy::CachePrompt, one, &json!({"cache_prompt": true}))["cache_prompt"], json!(true));
        let salt = |token| sent(ColdBy::CacheSalt, token, &json!({}))["cache_salt"].clone();
        assert_eq!(salt(one), json!(one.to_string()));
        assert_ne!(salt(one), salt(two));
        let prompt = |token| sent(ColdBy::Nonce, token, &json!({}))["messages"][0]["content"].clone();
        assert_eq!(prompt(one), json!(format!("[run {}]\n2 + 2?", &one.to_string()[..16])));
        assert_ne!(prompt(one), prompt(two));
        assert_eq!(sent(ColdBy::Body, one, &json!({"cache_salt": "s"}))["messages"][0]["content"], "2 + 2?");
    }
}
