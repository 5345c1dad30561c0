//! From what is asked to the bytes of `POST …/chat/completions`.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use url::Url;

use crate::deploy::dialect::GenRequest;
use crate::deploy::transport::{Target, WireRequest};
use crate::spec::Role;

const ENDPOINT: &str = "/chat/completions";

/// Headers that frame a message on the wire. They are the transport's alone: a second opinion on where a request ends
/// would let one request smuggle another.
const FRAMING: [&str; 7] =
    ["connection", "content-length", "transfer-encoding", "keep-alive", "te", "trailer", "upgrade"];

pub(super) fn request(target: &Target, request: &GenRequest) -> WireRequest {
    let mut body = Value::Object(body(target, request));
    merge_patch(&mut body, &target.body);
    let stream = body.get("stream").and_then(Value::as_bool).unwrap_or(false);
    if let (false, Some(fields)) = (stream, body.as_object_mut()) {
        fields.remove("stream_options"); // Servers refuse the options where there is no stream.
    }
    WireRequest { path: path(target), headers: headers(target, stream), body: Bytes::from(body.to_string()), stream }
}

fn body(target: &Target, request: &GenRequest) -> Map<String, Value> {
    let messages: Vec<Value> = request
        .messages
        .iter()
        .map(|message| json!({"role": role(message.role), "content": message.content}))
        .collect();
    let sampling = &request.sampling;
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    };
    put("model", target.model.clone().map(Value::String));
    put("messages", Some(Value::Array(messages)));
    put("temperature", sampling.temperature.map(Value::from));
    put("top_p", sampling.top_p.map(Value::from));
    put("top_k", sampling.top_k.map(Value::from));
    put("max_tokens", Some(sampling.max_tokens.into()));
    put("seed", Some(request.seed.into()));
    put("stop", (!sampling.stop.is_empty()).then(|| json!(sampling.stop)));
    put("response_format", request.response_format.clone());
    put("stream", Some(request.stream.into()));
    put("stream_options", request.stream.then(|| json!({"include_usage": true})));
    body
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

/// RFC 7396: null deletes, objects merge, everything else replaces.
fn merge_patch(target: &mut Value, patch: &Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else { return };
    for (name, value) in patch {
        match value {
            Value::Null => {
                fields.remove(name);
            }
            Value::Object(inner) => merge_patch(fields.entry(name.clone()).or_insert(Value::Null), inner),
            other => {
                fields.insert(name.clone(), other.clone());
            }
        }
    }
}

/// Path and query: the url's own path, then the endpoint; the url's own query, then the target's.
fn path(target: &Target) -> String {
    // What does not parse can't be connected to either: the lane says so when it opens.
    let Ok(mut url) = Url::parse(&target.url) else { return ENDPOINT.to_owned() };
    let base = url.path().trim_end_matches('/');
    let path = if base.ends_with(ENDPOINT) { base.to_owned() } else { format!("{base}{ENDPOINT}") };
    url.set_path(&path);
    if !target.query.is_empty() {
        url.query_pairs_mut().extend_pairs(&target.query);
    }
    match url.query() {
        Some(query) if !query.is_empty() => format!("{}?{query}", url.path()),
        _ => url.path().to_owned(),
    }
}

/// Default headers, then the key, then the target's own, which replace what has the same name. A header that could
/// not stand on one line of a request is left out.
fn headers(target: &Target, stream: bool) -> Vec<(String, String)> {
    let accept = if stream { "text/event-stream" } else { "application/json" };
    let agent = concat!("counterpoise/", env!("CARGO_PKG_VERSION"));
    let mut headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("accept".to_owned(), accept.to_owned()),
        ("user-agent".to_owned(), agent.to_owned()),
    ];
    if let Some(key) = target.api_key.as_deref().map(str::trim).filter(|key| !key.is_empty()) {
        headers.push(("authorization".to_owned(), format!("Bearer {key}")));
    }
    for (name, value) in &target.headers {
        let name = name.trim().to_ascii_lowercase();
        if FRAMING.contains(&name.as_str()) {
            continue;
        }
        headers.retain(|(present, _)| *present != name);
        headers.push((name, value.trim().to_owned()));
    }
    headers.retain(|(name, value)| HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok());
    headers
}
