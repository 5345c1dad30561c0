//! What a simulated deployment is like: its pace, its answers, its errors and its faults, in one small JSON file.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::draw::Dist;
use super::fault::Fault;
use super::shape::Shape;

/// Why a profile could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("no simulated profile is named `{name}`; built in are {}", Profile::BUILTIN_NAMES.join(", "))]
    UnknownBuiltin { name: String },
    #[error("could not read the profile {path}: {reason}")]
    Read { path: String, reason: String },
    #[error("the profile is not what a profile looks like: {reason}")]
    Shape { reason: String },
    #[error("the profile's `{field}` {reason}")]
    Value { field: String, reason: String },
}

/// The largest profile that is read.
const MAX_BYTES: u64 = 4 << 20;

/// A simulated deployment. Every field has a default, so `{}` is a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// For people.
    pub about: String,
    /// The model's name; a request that asks for another is refused where `strict_model` is set.
    pub model: String,
    pub strict_model: bool,
    /// Where set, requests must carry `Authorization: Bearer <api_key>`.
    pub api_key: Option<String>,
    /// From the start of service to the first token, without prefill.
    pub ttft_ms: Dist,
    /// Between two events of a stream.
    pub token_gap_ms: Dist,
    pub prefill_ms_per_token: f64,
    /// Share by which an event's gap grows for each other request that is being served.
    pub decode_slowdown_per_active: f64,
    /// Tokens of one event: `tokens_per_event[k]` is the weight of k + 1 tokens. More than one: speculative decoding.
    pub tokens_per_event: Vec<f64>,
    /// Tokens of `{chatter}` in wordings.
    pub chatter_tokens: Dist,
    /// Requests that are served at once; others wait, first come first served. 0: no limit.
    pub slots: u32,
    /// A request of more tokens (prompt and `max_tokens` of one) is refused as too long. 0: no limit.
    pub context_window_tokens: u32,
    /// What a prompt has in common with one that was served before costs no prefill, and is reported as cached.
    pub prefix_cache: bool,
    /// A connection is closed, without a word, after so many requests. 0: never.
    pub requests_per_connection: u32,
    /// A connection on which nothing is asked for so long is closed. 0: never in memory, after two minutes on a socket.
    pub idle_close_ms: u32,
    pub shape: Shape,
    pub errors: ErrorModel,
    pub nondeterminism: Nondeterminism,
    pub faults: Vec<Fault>,
    /// Times at which the whole server stands still.
    pub stalls: Vec<Stall>,
    pub answers: Vec<AnswerSource>,
}

impl Default for Profile {
    fn default() -> Self {
        Profile {
            about: String::new(),
            model: "simulated".to_owned(),
            strict_model: false,
            api_key: None,
            ttft_ms: Dist::Fixed { fixed: 15.0 },
            token_gap_ms: Dist::Fixed { fixed: 2.0 },
            prefill_ms_per_token: 0.0,
            decode_slowdown_per_active: 0.0,
            tokens_per_event: vec![1.0],
            chatter_tokens: Dist::Fixed { fixed: 8.0 },
            slots: 0,
            context_window_tokens: 0,
            prefix_cache: false,
            requests_per_connection: 0,
            idle_close_ms: 0,
            shape: Shape::default(),
            errors: ErrorModel::default(),
            nondeterminism: Nondeterminism::default(),
            faults: Vec::new(),
            stalls: Vec::new(),
            answers: Vec::new(),
        }
    }
}

/// Which samples are answered wrong. A draw is a hash of a seed and the sample, so that it holds in every call; `seed`
/// is common to related models, so that a quantized model errs where its parent errs and in a few places more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ErrorModel {
    pub seed: u64,
    pub own_seed: u64,
    /// Share of samples wrong by the common draw.
    pub common: f64,
    /// Share of samples wrong by this model's own draw.
    pub own: f64,
    /// Share of the commonly wrong samples that this model answers right all the same.
    pub recovers: f64,
    /// Share of samples whose answer this model words differently.
    pub rewords: f64,
    /// Factors of `common` by the sample's category: harder above 1.
    pub by_category: std::collections::BTreeMap<String, f64>,
}

impl Default for ErrorModel {
    fn default() -> Self {
        ErrorModel {
            seed: 1,
            own_seed: 1,
            common: 0.0,
            own: 0.0,
            recovers: 0.0,
            rewords: 0.0,
            by_category: std::collections::BTreeMap::new(),
        }
    }
}

/// Shares of calls that come out otherwise than the sample's usual answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Nondeterminism {
    /// Other words, same verdict.
    pub wording: f64,
    /// A right answer becomes wrong, or a wrong one right.
    pub verdict: f64,
}

/// From `from_ms` to `to_ms` after the first request, nothing is computed and no byte is written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    pub from_ms: f64,
    pub to_ms: f64,
}

/// A dataset that the deployment answers from, and the templates that make prompts and answers of its rows:
/// [`AnswerBook::of_profile`](super::AnswerBook::of_profile) renders them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerSource {
    /// A path, or `builtin:PATH` for a file inside the program.
    pub dataset: String,
    /// Template of the prompt, as the suite's task has it.
    pub prompt: String,
    /// Template of a system message before the prompt.
    #[serde(default)]
    pub system: Option<String>,
    /// Template of the right answer; a list holds alternatives, the first is given.
    pub right: String,
    /// Template of a wrong answer; left out: a plausible other value is made up.
    #[serde(default)]
    pub wrong: Option<String>,
    /// Template of the text that must stand in the received prompt; without it the answer comes out wrong.
    #[serde(default)]
    pub evidence: Option<String>,
    /// Template of the category that `errors.by_category` names.
    #[serde(default)]
    pub category: Option<String>,
    /// How an answer may be put: `{answer}` and `{chatter}` stand for the answer and for some idle words. Default: the
    /// answer alone.
    #[serde(default)]
    pub wordings: Vec<String>,
}

impl Profile {
    pub const BUILTIN_NAMES: [&'static str; 8] = [
        "demo-baseline",
        "demo-quantized",
        "demo-speculative",
        "demo-truncated",
        "exact",
        "faulty",
        "small-baseline",
        "small-quantized",
    ];

    /// A profile that ships with the program, by the name after `builtin:`.
    pub fn builtin(name: &str) -> Result<Profile, ProfileError> {
        let text = match name {
            "demo-baseline" => include_str!("profiles/demo-baseline.json"),
            "demo-quantized" => include_str!("profiles/demo-quantized.json"),
            "demo-speculative" => include_str!("profiles/demo-speculative.json"),
            "demo-truncated" => include_str!("profiles/demo-truncated.json"),
            "exact" => include_str!("profiles/exact.json"),
            "faulty" => include_str!("profiles/faulty.json"),
            "small-baseline" => include_str!("profiles/small-baseline.json"),
            "small-quantized" => include_str!("profiles/small-quantized.json"),
            _ => return Err(ProfileError::UnknownBuiltin { name: name.to_owned() }),
        };
        Profile::from_json(text)
    }

    /// `builtin:NAME`, or the path of a JSON file.
    pub fn load(reference: &str) -> Result<Profile, ProfileError> {
        if let Some(name) = reference.strip_prefix("builtin:") {
            return Profile::builtin(name);
        }
        let refused = |reason: String| ProfileError::Read { path: reference.to_owned(), reason };
        let facts = std::fs::metadata(Path::new(reference)).map_err(|e| refused(e.to_string()))?;
        // Looked at before it is opened: a pipe would wait for its writer for ever.
        if !facts.is_file() {
            return Err(refused("not a plain file".to_owned()));
        }
        if facts.len() > MAX_BYTES {
            return Err(refused(format!("larger than {MAX_BYTES} bytes")));
        }
        let text = std::fs::read_to_string(Path::new(reference)).map_err(|e| refused(e.to_string()))?;
        Profile::from_json(&text)
    }

    pub fn from_json(text: &str) -> Result<Profile, ProfileError> {
        let profile: Profile = serde_json::from_str(text).map_err(|e| ProfileError::Shape { reason: e.to_string() })?;
        profile.checked()
    }

    pub fn from_value(value: Value) -> Result<Profile, ProfileError> {
        let profile: Profile =
            serde_json::from_value(value).map_err(|e| ProfileError::Shape { reason: e.to_string() })?;
        profile.checked()
    }

    /// Refuses numbers that no server has, so that the engine can compute without asking again.
    fn checked(self) -> Result<Profile, ProfileError> {
        let shares = [
            ("errors.common", self.errors.common),
            ("errors.own", self.errors.own),
            ("errors.recovers", self.errors.recovers),
            ("errors.rewords", self.errors.rewords),
            ("nondeterminism.wording", self.nondeterminism.wording),
            ("nondeterminism.verdict", self.nondeterminism.verdict),
        ];
        for (field, share) in shares {
            check(field, (0.0..=1.0).contains(&share), "must be a share from 0 to 1")?;
        }
        for (field, ms) in [
            ("prefill_ms_per_token", self.prefill_ms_per_token),
            ("decode_slowdown_per_active", self.decode_slowdown_per_active),
        ] {
            check(field, (0.0..=60_000.0).contains(&ms), "must lie between 0 and 60000")?;
        }
        for (field, dist) in
            [("ttft_ms", &self.ttft_ms), ("token_gap_ms", &self.token_gap_ms), ("chatter_tokens", &self.chatter_tokens)]
        {
            check(field, dist.is_sound(), "must be {fixed} or {median, p95}, from 0 to 600000, with median ≤ p95")?;
        }
        let weights = &self.tokens_per_event;
        let sound =
            weights.len() <= 64 && weights.iter().all(|w| (0.0..=1e9).contains(w)) && weights.iter().sum::<f64>() > 0.0;
        check("tokens_per_event", sound, "must be up to 64 weights, none negative and one above 0")?;
        let sound = self.stalls.iter().all(|s| 0.0 <= s.from_ms && s.from_ms <= s.to_ms && s.to_ms <= 3.6e6)
            && self.stalls.windows(2).all(|pair| matches!(pair, [a, b] if a.to_ms <= b.from_ms));
        check("stalls", sound, "must be windows in order of time, within an hour, that do not overlap")?;
        check("shape.chunk_bytes", self.shape.chunk_bytes != Some(0), "must be at least 1")?;
        for fault in &self.faults {
            fault.check().map_err(|reason| ProfileError::Value { field: "faults".to_owned(), reason })?;
        }
        Ok(self)
    }
}

fn check(field: &str, holds: bool, reason: &str) -> Result<(), ProfileError> {
    if holds {
        return Ok(());
    }
    Err(ProfileError::Value { field: field.to_owned(), reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_builtin_profile_reads() {
        for name in Profile::BUILTIN_NAMES {
            let profile = Profile::builtin(name).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(!profile.about.is_empty(), "{name} says nothing of itself");
        }
    }

    #[test]
    fn an_unknown_name_tells_the_known_ones() {
        let message = Profile::builtin("exakt").unwrap_err().to_string();
        assert!(message.contains("`exakt`") && message.contains("demo-baseline"), "{message}");
    }

    #[test]
    fn hostile_profiles_are_refused_with_the_field_named() {
        let cases = [
            (json!({"promt": 1}), "promt"),
            (json!({"errors": {"common": 1.5}}), "errors.common"),
            (json!({"ttft_ms": {"median": 9, "p95": 3}}), "ttft_ms"),
            (json!({"ttft_ms": {"fixed": -1}}), "ttft_ms"),
            (json!({"tokens_per_event": []}), "tokens_per_event"),
            (json!({"tokens_per_event": [0, 0]}), "tokens_per_event"),
            (json!({"shape": {"chunk_bytes": 0}}), "chunk_bytes"),
            (json!({"stalls": [{"from_ms": 9, "to_ms": 3}]}), "stalls"),
            (json!({"faults": [{"kind": "http_500", "rate": 2}]}), "faults"),
            (json!({"faults": [{"kind": "explode", "rate": 1}]}), "explode"),
        ];
        for (value, field) in cases {
            let message = Profile::from_value(value.clone()).unwrap_err().to_string();
            assert!(message.contains(field), "{value}: {message}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let message = Profile::load("/nowhere/p.json").unwrap_err().to_string();
        assert!(message.contains("/nowhere/p.json"), "{message}");
    }
}
