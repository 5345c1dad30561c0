//! What must not be repeated: a deployment's secrets, in whatever form a server sends them back.

use std::borrow::Cow;
use std::collections::BTreeSet;

use url::Url;
use url::form_urlencoded::byte_serialize;

use super::dialect::Reply;
use super::transport::Target;

/// What stands where a secret was.
const HIDDEN: &str = "[redacted]";
/// Shorter keys, and parts cut off a key, are words like any other.
const MIN_KEY_BYTES: usize = 6;
/// Shorter values of headers and parameters are settings, not secrets: words like these may stand in an answer, and
/// taking them out of it would change its grade.
const MIN_VALUE_BYTES: usize = 16;
/// Parts of names whose values are secrets even where they are shorter.
const SECRETIVE: [&str; 9] = ["auth", "code", "cookie", "credential", "key", "pass", "secret", "sig", "token"];
const MIN_SECRETIVE_BYTES: usize = 8;
/// Headers and parameters whose values are no secrets, in lower case.
const PUBLIC: [&str; 22] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "anthropic-beta",
    "anthropic-version",
    "api-version",
    "cache-control",
    "connection",
    "content-type",
    "deployment",
    "host",
    "http-referer",
    "model",
    "openai-beta",
    "openai-organization",
    "openai-project",
    "origin",
    "referer",
    "user-agent",
    "version",
    "x-request-id",
    "x-title",
];

/// The secrets of a deployment. Never serialized, never printed.
#[derive(Clone, Default)]
pub struct Secrets {
    /// Each secret plain, in base64, URL-encoded and JSON-escaped; the longest first.
    forms: Vec<String>,
}

impl Secrets {
    /// The key, and the values of headers, query parameters and the url that are not known to be public.
    pub fn of(target: &Target) -> Secrets {
        let mut secrets = BTreeSet::new();
        let mut take = |value: &str, min_bytes: usize| {
            let value = value.trim();
            // `Bearer KEY`: servers repeat the key without its scheme, too.
            let bare = value.rsplit(' ').next().unwrap_or(value);
            secrets.extend([value, bare].into_iter().filter(|text| text.len() >= min_bytes).map(str::to_owned));
        };
        if let Some(key) = &target.api_key {
            take(key, MIN_KEY_BYTES);
        }
        let url = Url::parse(&target.url).ok();
        let in_url: Vec<(String, String)> = url.iter().flat_map(|url| url.query_pairs().into_owned()).collect();
        let pairs = in_url.iter().map(|(name, value)| (name, value));
        for (name, value) in pairs.chain(&target.headers).chain(&target.query) {
            let name = name.to_ascii_lowercase();
            let secretive = SECRETIVE.iter().any(|part| name.contains(part));
            if !PUBLIC.contains(&name.as_str()) {
                take(value, if secretive { MIN_SECRETIVE_BYTES } else { MIN_VALUE_BYTES });
            }
        }
        if let Some(password) = url.as_ref().and_then(Url::password) {
            take(password, MIN_KEY_BYTES);
        }
        let mut forms: Vec<String> =
            secrets.iter().flat_map(|secret| forms(secret)).collect::<BTreeSet<_>>().into_iter().collect();
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        Secrets { forms }
    }

    /// The text without secrets; a secret that was cut off at the end (`…`) counts as well.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut shown = Cow::Borrowed(text);
        for form in &self.forms {
            if shown.contains(form.as_str()) {
                shown = Cow::Owned(shown.replace(form.as_str(), HIDDEN));
            }
        }
        if let Some(whole) = shown.strip_suffix('…')
            && let Some(cut) = self.forms.iter().filter_map(|form| cut_secret(whole, form)).max()
        {
            let kept = whole.get(..whole.len() - cut).unwrap_or_default();
            shown = Cow::Owned(format!("{kept}{HIDDEN}…"));
        }
        shown
    }

    fn hide(&self, text: &mut String) {
        if let Cow::Owned(shown) = self.redact(text) {
            *text = shown;
        }
    }
}

/// Bytes at the end of `text` that begin a secret, where they are enough to tell it.
fn cut_secret(text: &str, form: &str) -> Option<usize> {
    let beginnings = form.char_indices().map(|(end, _)| end).rev();
    beginnings
        .take_while(|end| *end >= MIN_KEY_BYTES)
        .find(|end| form.get(..*end).is_some_and(|part| text.ends_with(part)))
}

fn forms(secret: &str) -> Vec<String> {
    let base64 = base64(secret.as_bytes());
    let form_encoded: String = byte_serialize(secret.as_bytes()).collect();
    let json = serde_json::Value::from(secret).to_string();
    let json = json.get(1..json.len().saturating_sub(1)).unwrap_or_default().to_owned();
    let percent = form_encoded.replace('+', "%20");
    vec![
        secret.to_owned(),
        json.replace('/', "\\/"),
        json,
        base64.replace('+', "-").replace('/', "_"),
        base64,
        lower_hex(&percent),
        lower_hex(&form_encoded),
        percent,
        form_encoded,
    ]
}

/// Percent escapes in lower case: both cases are in use.
fn lower_hex(encoded: &str) -> String {
    let mut digits = 0;
    let lower = |c: char| {
        let is_digit = digits > 0;
        digits = if c == '%' { 2 } else { u8::saturating_sub(digits, 1) };
        if is_digit { c.to_ascii_lowercase() } else { c }
    };
    encoded.chars().map(lower).collect()
}

/// Base64 (RFC 4648 §4) without its padding, so that it is found with and without.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..=three.len() {
            let digit = (bits >> (18 - 6 * place)) & 63;
            out.push(char::from(DIGITS.get(digit as usize).copied().unwrap_or(b'A')));
        }
    }
    out
}

impl Reply {
    /// The reply without the deployment's secrets: it is written down and shown.
    #[must_use]
    pub fn redacted(mut self, secrets: &Secrets) -> Reply {
        secrets.hide(&mut self.text);
        secrets.hide(&mut self.reasoning);
        let names = [&mut self.error, &mut self.finish_reason, &mut self.system_fingerprint, &mut self.model];
        names.into_iter().flatten().for_each(|name| secrets.hide(name));
        if let Some(timings) = self.server_timings.as_mut().and_then(serde_json::Value::as_object_mut) {
            timings.retain(|name, _| matches!(secrets.redact(name), Cow::Borrowed(_)));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::deploy::outcome::Outcome;
    use crate::spec::{Api, Timeouts};
    use crate::units::Span;

    fn secrets() -> Secrets {
        let span = Span::from_ms(1);
        let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Secrets::of(&Target {
            name: "t".to_owned(),
            api: Api::OpenaiChat,
            url: "http://h/v1?code=in-the-url-1".to_owned(),
            model: None,
            api_key: Some("ab/c+d\"é-key-1".to_owned()),
            headers: pairs(&[
                ("X-Auth", "Token header-secret"),
                ("Accept", "application/json"),
                ("x-team", "evaluations"),
            ]),
            query: pairs(&[("key", "query-secret"), ("api-version", "2024-10-21")]),
            body: serde_json::Map::new(),
            ca_file: None,
            timeouts: Timeouts { connect: span, first_token: span, between_tokens: span, total: span },
        })
    }

    #[test]
    fn secrets_are_hidden_in_every_form() {
        let secrets = secrets();
        for form in [
            "ab/c+d\"é-key-1",
            "ab/c+d\\\"é-key-1",
            "ab\\/c+d\\\"é-key-1",
            "ab%2Fc%2Bd%22%C3%A9-key-1",
            "ab%2fc%2bd%22%c3%a9-key-1",
            "YWIvYytkIsOpLWtleS0x",
            "Token header-secret",
            "header-secret",
            "query-secret",
            "in-the-url-1",
        ] {
            assert_eq!(secrets.redact(&format!("say {form}!")), "say [redacted]!", "{form}");
        }
        assert_eq!(secrets.redact("a query-sec…"), "a [redacted]…");
        for public in ["application/json", "evaluations", "2024-10-21", "Token", "a query…"] {
            assert!(matches!(secrets.redact(public), Cow::Borrowed(_)), "{public}");
        }
        assert_eq!([base64(b"a"), base64(b"ab"), base64(b"abc")], ["YQ", "YWI", "YWJj"]);
    }

    #[test]
    fn nothing_of_a_reply_repeats_a_secret() {
        let echo = || Some("the header-secret".to_owned());
        let mut reply = Reply::failed(Outcome::Auth, "no header-secret");
        (reply.text, reply.reasoning) = ("query-secret".to_owned(), "in-the-url-1".to_owned());
        (reply.model, reply.finish_reason, reply.system_fingerprint) = (echo(), echo(), echo());
        reply.server_timings = Some(json!({"header-secret": 1, "prompt_n": 2}));
        let reply = reply.redacted(&secrets());
        let shown = format!("{reply:?}");
        assert!(!shown.contains("secret") && !shown.contains("in-the-url"), "{shown}");
        assert_eq!(reply.server_timings, Some(json!({"prompt_n": 2})));
        assert_eq!(reply.error.as_deref(), Some("no [redacted]"));
    }
}
