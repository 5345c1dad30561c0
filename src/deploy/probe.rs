//! Is a deployment there, and what does it say of itself? Probes never generate: what only a generation shows is
//! learned from the warm-up.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::openai_chat::name;
use super::redact::Secrets;
use super::transport::Target;
use crate::units::{Id, Span};
use crate::world::Clock;

/// A server that refuses connections this long is not starting up; one that answers 503 is, and gets `ready_timeout`.
const REFUSED_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that lists at most this many models lists all it has; a vendor's longer list may leave aliases out.
const MODELS_TRUSTED: usize = 16;
/// The most that is read of a probe's answer.
const ANSWER_MAX_BYTES: usize = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("cannot be reached at {url}: {reason}; check the URL and that the server is up")]
    Unreachable { url: String, reason: String },
    #[error("refuses the credentials (HTTP {status} from {url}){hint}")]
    Auth { url: String, status: u16, hint: String },
    #[error("is not ready after {waited}: {reason}; raise `ready_timeout` if it needs longer")]
    NotReady { waited: Span, reason: String },
    #[error("shows a certificate at {url} that can't be trusted: {reason}; `tls: ca_file:` names a private authority")]
    Certificate { url: String, reason: String },
    #[error("serves no model `{wanted}`; it offers {offered}. Write one of these as `model:`, or leave `model` out")]
    WrongModel { wanted: String, offered: String },
    #[error("cannot be asked: {0}")]
    Client(String),
}

/// A deployment that answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Ready {
    /// What tells one deployment from another: `models`, `owned_by`, `props`, `version`, where told.
    pub fingerprint: Value,
}

enum Try {
    Ready(Ready),
    /// Its certificate is not trusted: waiting does not help.
    Untrusted(String),
    /// Nobody listens, or the host is unknown.
    Refused(String),
    /// It listens and loads.
    Loading(String),
}

/// Waits until the deployment answers. `waiting` hears why it does not, at most once a second.
pub async fn ready(
    target: &Target,
    ready_timeout: Span,
    clock: Clock,
    waiting: &mut (dyn FnMut(&str) + Send),
) -> Result<Ready, ProbeError> {
    let secrets = Secrets::of(target);
    let say = |text: &str| name(&secrets.redact(text));
    let client = client(target, ready_timeout)?;
    let started = clock.now();
    loop {
        let tried = attempt(&client, target, &secrets).await?;
        let waited = Duration::from_nanos(clock.now().since(started).unwrap_or(0));
        match tried {
            Try::Ready(ready) => return Ok(ready),
            Try::Untrusted(reason) => {
                return Err(ProbeError::Certificate { url: say(&target.url), reason: say(&reason) });
            }
            Try::Refused(reason) => {
                let reason = say(&reason);
                if waited >= REFUSED_MAX.min(ready_timeout.0) {
                    return Err(ProbeError::Unreachable { url: say(&target.url), reason });
                }
                waiting(&reason);
            }
            Try::Loading(reason) => {
                let reason = say(&reason);
                if waited >= ready_timeout.0 {
                    return Err(ProbeError::NotReady { waited: ready_timeout, reason });
                }
                waiting(&reason);
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// How long one look may take: no longer than is waited at all.
fn look_timeout(ready_timeout: Span) -> Duration {
    PROBE_TIMEOUT.min(ready_timeout.0).max(Duration::from_millis(1))
}

fn client(target: &Target, ready_timeout: Span) -> Result<reqwest::Client, ProbeError> {
    let tls = super::sockets::client_config(target.ca_file.as_deref()).map_err(ProbeError::Client)?;
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(look_timeout(ready_timeout))
        .connect_timeout(target.timeouts.connect.0)
        .build()
        .map_err(|e| ProbeError::Client(e.to_string()))
}

/// One look at `…/models`: it needs the credentials that a request needs, and names what is served.
async fn attempt(client: &reqwest::Client, target: &Target, secrets: &Secrets) -> Result<Try, ProbeError> {
    let url = format!("{}/models", target.url.trim_end_matches('/'));
    let response = match get(client, target, &url).await {
        Ok(response) => response,
        Err(error) => {
            return Ok(match certificate_fault(&error) {
                Some(reason) => Try::Untrusted(reason),
                None => Try::Refused(describe(&error)),
            });
        }
    };
    let status = response.status().as_u16();
    match status {
        401 | 403 => {
            let hint = if target.api_key.is_some() {
                "; the key of `api_key_env` is not accepted".to_owned()
            } else {
                "; set `api_key_env` to the name of the variable that holds the key".to_owned()
            };
            Err(ProbeError::Auth { url: name(&secrets.redact(&url)), status, hint })
        }
        502..=504 => Ok(Try::Loading(format!("HTTP {status} from {url}"))),
        _ => {
            let models = json_body(response).await.filter(|_| status == 200);
            if let Some(models) = &models {
                check_model(target, models, secrets)?;
            }
            let fingerprint = plain(fingerprint(client, target, models).await, secrets);
            Ok(Try::Ready(Ready { fingerprint }))
        }
    }
}

async fn get(client: &reqwest::Client, target: &Target, url: &str) -> Result<reqwest::Response, reqwest::Error> {
    let mut request = client.get(with_query(url, target));
    if let Some(key) = &target.api_key {
        request = request.bearer_auth(key);
    }
    for (name, value) in &target.headers {
        request = request.header(name, value);
    }
    request.send().await
}

/// The deployment's own query parameters go with every request; a URL that can't be read is refused by the client.
fn with_query(url: &str, target: &Target) -> String {
    match url::Url::parse(url) {
        Ok(mut parsed) if !target.query.is_empty() => {
            parsed.query_pairs_mut().extend_pairs(&target.query);
            parsed.into()
        }
        _ => url.to_owned(),
    }
}

/// The innermost cause says what is wrong; the outer ones only that something is. No URL, for it may hold a key.
fn describe(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if error.is_timeout() { "no answer in time".to_owned() } else { cause.to_string() }
}

/// What is wrong with the server's certificate, where that is why it can't be asked.
fn certificate_fault(error: &reqwest::Error) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let tls = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()).or_else(|| error.downcast_ref());
        if let Some(tls @ rustls::Error::InvalidCertificate(_)) = tls {
            return Some(tls.to_string());
        }
        cause = error.source();
    }
    None
}

/// What a server says of itself, as it may be written down: short strings and numbers, and one list of strings.
fn plain(facts: Value, secrets: &Secrets) -> Value {
    let scalar = |value: Value| match value {
        Value::String(text) => Some(Value::String(name(&secrets.redact(&text)))),
        Value::Number(number) => Some(Value::Number(number)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let Value::Object(facts) = facts else { return Value::Object(Map::new()) };
    let plain = facts.into_iter().filter_map(|(key, value)| {
        let value = match value {
            Value::Array(list) => {
                let strings = list.into_iter().filter(Value::is_string).take(MODELS_TRUSTED);
                Value::Array(strings.filter_map(scalar).collect())
            }
            value => scalar(value)?,
        };
        Some((key, value))
    });
    Value::Object(plain.collect())
}

async fn json_body(mut response: reqwest::Response) -> Option<Value> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        if body.len() + chunk.len() > ANSWER_MAX_BYTES {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    serde_json::from_slice(&body).ok()
}

fn check_model(target: &Target, models: &Value, secrets: &Secrets) -> Result<(), ProbeError> {
    let Some(wanted) = &target.model else { return Ok(()) };
    let Some(list) = models.get("data").and_then(Value::as_array) else { return Ok(()) };
    let offered: Vec<&str> = list.iter().filter_map(|m| m.get("id").and_then(Value::as_str)).collect();
    let known = offered.contains(&wanted.as_str()) || aliases(list).any(|alias| alias == wanted);
    if known || offered.is_empty() || offered.len() > MODELS_TRUSTED {
        return Ok(());
    }
    let offered = offered.iter().map(|id| format!("`{}`", name(&secrets.redact(id)))).collect::<Vec<_>>().join(", ");
    Err(ProbeError::WrongModel { wanted: wanted.clone(), offered })
}

fn aliases(list: &[Value]) -> impl Iterator<Item = &str> {
    list.iter().filter_map(|m| m.get("aliases").and_then(Value::as_array)).flatten().filter_map(Value::as_str)
}

/// What the engine says of itself beside the API's root: llama.cpp's `/props`, vLLM's `/version`.
async fn fingerprint(client: &reqwest::Client, target: &Target, models: Option<Value>) -> Value {
    let mut facts = Map::new();
    if let Some(list) = models.as_ref().and_then(|m| m.get("data")).and_then(Value::as_array) {
        let ids: Vec<&Value> = list.iter().take(MODELS_TRUSTED).filter_map(|m| m.get("id")).collect();
        facts.insert("models".to_owned(), json!(ids));
    }
    let owners = models.as_ref().and_then(|m| m.get("data")).and_then(Value::as_array);
    if let Some(owner) = owners.and_then(|list| list.first()).and_then(|m| m.get("owned_by")) {
        facts.insert("owned_by".to_owned(), owner.clone());
    }
    let root = target.url.trim_end_matches('/').trim_end_matches("/v1").to_owned();
    if let Some(props) = optional(client, target, &format!("{root}/props")).await {
        for key in ["build_info", "model_path", "total_slots", "n_ctx", "model_alias"] {
            if let Some(value) = props.get(key) {
                facts.insert(key.to_owned(), value.clone());
            }
        }
        if let Some(template) = props.get("chat_template").and_then(Value::as_str) {
            let hash = Id::of("chat-template", &[template.as_bytes()]);
            facts.insert("chat_template_hash".to_owned(), json!(hash.short()));
        }
    }
    if let Some(version) = optional(client, target, &format!("{root}/version")).await
        && let Some(version) = version.get("version")
    {
        facts.insert("version".to_owned(), version.clone());
    }
    Value::Object(facts)
}

async fn optional(client: &reqwest::Client, target: &Target, url: &str) -> Option<Value> {
    let response = get(client, target, url).await.ok()?;
    if response.status().as_u16() == 200 { json_body(response).await } else { None }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::spec::{Api, Timeouts};

    fn target() -> Target {
        let span = Span::from_ms(1);
        Target {
            name: "t".to_owned(),
            api: Api::OpenaiChat,
            url: "http://h/v1".to_owned(),
            model: Some("m".to_owned()),
            api_key: Some("key-of-the-test".to_owned()),
            headers: BTreeMap::new(),
            query: BTreeMap::new(),
            body: Map::new(),
            ca_file: None,
            timeouts: Timeouts { connect: span, first_token: span, between_tokens: span, total: span },
        }
    }

    #[test]
    fn what_a_server_says_of_itself_is_plain_short_and_keyless() {
        let secrets = Secrets::of(&target());
        let said = json!({
            "models": ["m key-of-the-test", {"id": [[1]]}, "\u{1b}[31m"], "n_ctx": 8, "total_slots": [[1]],
            "version": "v".repeat(999), "build_info": {"a": 1},
        });
        let plain = plain(said, &secrets);
        assert_eq!(plain["models"], json!(["m [redacted]", "\\u{1b}[31m"]));
        assert_eq!((plain.get("n_ctx"), plain.get("build_info")), (Some(&json!(8)), None));
        assert_eq!(plain["total_slots"], json!([]));
        assert!(plain["version"].as_str().unwrap().chars().count() <= 200);
        let wrong = check_model(&target(), &json!({"data": [{"id": "key-of-the-test"}]}), &secrets).unwrap_err();
        assert!(wrong.to_string().contains("it offers `[redacted]`"), "{wrong}");
    }

    #[test]
    fn one_look_takes_no_longer_than_is_waited() {
        assert_eq!(look_timeout(Span::from_ms(300)), Duration::from_millis(300));
        assert_eq!(look_timeout(Span::from_ms(600_000)), PROBE_TIMEOUT);
    }
}
