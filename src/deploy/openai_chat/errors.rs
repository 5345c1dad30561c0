//! What a server's refusal means, and how it is told to people.

use std::time::SystemTime;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::{Body, items, parse, text};
use crate::deploy::outcome::Outcome;

/// Longest message for people, in characters.
const MAX_MESSAGE_CHARS: usize = 500;
/// Longest name (a model, a fingerprint, a finish reason) that is kept, in characters.
const MAX_NAME_CHARS: usize = 200;
/// Bytes of a body that are looked at to tell what it is.
const EXCERPT_BYTES: usize = 4_096;
/// A pause longer than this is no advice for a run.
const MAX_RETRY_AFTER_S: f64 = 86_400.0;

/// A server's own words about an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub message: String,
    pub kind: String,
    pub code: String,
}

impl Said {
    /// The error in a body: an `error` object or string, vLLM's `object: error`, the `detail` of Python servers. With
    /// `expected` (an error status) a bare `message` counts as one too.
    pub(super) fn of(body: &Body<'_>, expected: bool) -> Option<Said> {
        if let Some(raw) = body.error.filter(|raw| !matches!(raw.get(), "null" | "false" | "\"\"" | "{}")) {
            return Some(Said::of_error(raw));
        }
        let is_error = expected
            || text(body.object).as_deref() == Some("error")
            || (text(body.kind).as_deref() == Some("error") && body.message.is_some())
            || (body.choices.is_none() && body.detail.is_some());
        let message = text(body.message).or_else(|| detail(body.detail));
        message.filter(|_| is_error).map(|message| Said {
            message,
            kind: text(body.kind).unwrap_or_default(),
            code: word(body.code),
        })
    }

    pub(super) fn of_error(raw: &RawValue) -> Said {
        let error: Body<'_> = parse(Some(raw)).unwrap_or_default();
        let message = text(Some(raw)).or_else(|| text(error.message)).or_else(|| detail(error.detail));
        Said {
            // An error without words still is one: its JSON tells more than nothing.
            message: message.unwrap_or_else(|| excerpt(raw.get().as_bytes())),
            kind: text(error.kind).unwrap_or_default(),
            code: word(error.code),
        }
    }

    /// The outcome under an HTTP status, or inside a stream that began with 200 (`None`).
    pub(super) fn outcome(&self, status: Option<u16>) -> Outcome {
        let status = status.or_else(|| self.code.parse().ok().filter(|code| (400..600).contains(code)));
        if self.is_context_overflow(status) {
            return Outcome::ContextOverflow;
        }
        let named = |names: &[&str]| names.iter().any(|name| self.code.contains(name) || self.kind.contains(name));
        if named(&["content_filter", "content_policy"]) {
            return Outcome::RefusedByProvider;
        }
        match status {
            // Payment is as much a matter of the account as the key is: no retry helps.
            Some(401..=403) => Outcome::Auth,
            Some(429) => Outcome::RateLimited,
            // Groq's answer to more tokens at once than the rate allows.
            Some(413) if named(&["rate_limit"]) => Outcome::RateLimited,
            Some(408 | 500..) => Outcome::ServerError,
            Some(_) => Outcome::BadRequest,
            None if named(&["rate_limit", "insufficient_quota", "RateLimit"]) => Outcome::RateLimited,
            None if named(&["authentication", "invalid_api_key", "permission"]) => Outcome::Auth,
            None if named(&["invalid_request", "BadRequest", "not_found"]) => Outcome::BadRequest,
            None => Outcome::ServerError,
        }
    }

    fn is_context_overflow(&self, status: Option<u16>) -> bool {
        const NAMES: [&str; 3] = ["context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"];
        const WORDS: [&str; 12] = [
            "maximum context length",
            "maximum model length",
            "context_length",
            "context length",
            "context size",
            "context window",
            "max_model_len",
            "prompt is too long",
            "input is too long",
            "reduce the length of",
            "exceeds the maximum number of tokens",
            "`inputs` tokens + `max_new_tokens`",
        ];
        if NAMES.contains(&self.code.as_str()) || NAMES.contains(&self.kind.as_str()) {
            return true;
        }
        let message = self.message.to_ascii_lowercase();
        matches!(status, None | Some(400 | 413 | 422)) && WORDS.iter().any(|words| message.contains(words))
    }

    pub(super) fn is_quota(&self) -> bool {
        self.code == "insufficient_quota" || self.kind == "insufficient_quota"
    }
}

/// The `detail` of Python servers: a text, or a list of `{loc, msg}`.
fn detail(raw: Option<&RawValue>) -> Option<String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Item<'a> {
        #[serde(borrow)]
        msg: Option<&'a RawValue>,
        #[serde(borrow)]
        loc: Option<&'a RawValue>,
    }
    text(raw).or_else(|| {
        let item: Item<'_> = parse(items(raw).first().copied())?;
        let message = text(item.msg)?;
        let place: Vec<String> = items(item.loc).into_iter().map(|part| word(Some(part))).collect();
        Some(if place.is_empty() { message } else { format!("{}: {message}", place.join(".")) })
    })
}

/// A string or a number, as text; empty where it is neither.
fn word(raw: Option<&RawValue>) -> String {
    text(raw).or_else(|| parse::<serde_json::Number>(raw).map(|number| number.to_string())).unwrap_or_default()
}

/// What a person can do about a status.
pub(super) fn hint(status: u16) -> Option<&'static str> {
    match status {
        401 | 403 => Some("check the key that `api_key_env` names"),
        402 => Some("the account must be paid up"),
        404 => Some("check the model's name, and that `url` ends in the version path, such as /v1"),
        405 => Some("check that `url` ends in the version path, such as /v1"),
        300..=399 => Some("redirects are not followed: put the final address into `url`"),
        _ => None,
    }
}

/// Text for people: control and direction-changing characters escaped, what looks like a key masked, at most 500
/// characters.
pub(in crate::deploy) fn for_people(message: &str) -> String {
    within(message, MAX_MESSAGE_CHARS)
}

/// A name that a server gives, as [`for_people`], at most 200 characters.
pub(in crate::deploy) fn name(text: &str) -> String {
    within(text, MAX_NAME_CHARS)
}

/// A message and what can be done about it, together no longer than any text for people.
pub(super) fn with_hint(message: &str, hint: Option<&str>) -> String {
    match hint {
        None => for_people(message),
        Some(hint) => {
            let room = MAX_MESSAGE_CHARS.saturating_sub(hint.chars().count() + " ()".len());
            format!("{} ({hint})", within(message, room))
        }
    }
}

fn within(message: &str, max_chars: usize) -> String {
    let mut out = String::new();
    let mut chars = 0;
    for c in mask_keys(message.trim()).chars() {
        let shown: String = if is_hidden(c) { c.escape_default().collect() } else { c.into() };
        chars += shown.chars().count();
        if chars >= max_chars {
            out.push('…');
            break;
        }
        out.push_str(&shown);
    }
    out
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Servers repeat the key that they refuse.
fn mask_keys(message: &str) -> String {
    let mut out = String::with_capacity(message.len().min(EXCERPT_BYTES));
    let mut after_bearer = false;
    for word in message.split_inclusive(|c: char| c.is_whitespace() || "\"'`,;=()".contains(c)) {
        let bare = word.trim_end_matches(|c: char| c.is_whitespace() || "\"'`,;=()".contains(c));
        if bare.is_empty() {
            out.push_str(word);
            continue;
        }
        let is_key = after_bearer || (bare.starts_with("sk-") && bare.len() >= 12);
        out.push_str(if is_key { "[key]" } else { bare });
        out.push_str(&word[bare.len()..]);
        after_bearer = bare.eq_ignore_ascii_case("bearer");
    }
    out
}

/// What a body that is no answer looks like: the title of a page, else its beginning.
pub(super) fn excerpt(body: &[u8]) -> String {
    let head = String::from_utf8_lossy(&body[..body.len().min(EXCERPT_BYTES)]);
    let head = head.trim();
    if head.is_empty() {
        return "an empty body".to_owned();
    }
    if head.starts_with('<') {
        let lower = head.to_ascii_lowercase();
        let title = lower.find("<title>").and_then(|start| {
            let end = lower[start..].find("</title>")? + start;
            head.get(start + "<title>".len()..end)
        });
        if let Some(title) = title.map(str::trim).filter(|title| !title.is_empty()) {
            return format!("an HTML page titled `{}`", for_people(title));
        }
    }
    for_people(head)
}

/// Seconds to wait, from `retry-after-ms`, or `Retry-After` as seconds or as a date, which is taken against the
/// response's own `Date`: whose clock it is does not matter then.
pub(super) fn retry_after_s(headers: &[(String, String)]) -> Option<f64> {
    let header = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.trim());
    let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    let date = |text: &str| -> Option<SystemTime> { httpdate::parse_http_date(text).ok() };
    let from_ms = header("retry-after-ms").and_then(number).map(|ms| ms / 1e3);
    let seconds = from_ms.or_else(|| {
        let value = header("retry-after")?;
        number(value).or_else(|| {
            let (until, now) = (date(value)?, date(header("date")?)?);
            Some(until.duration_since(now).map_or(0.0, |wait| wait.as_secs_f64()))
        })
    })?;
    Some(seconds.min(MAX_RETRY_AFTER_S))
}
