//! Deployments: addresses, credentials, prices.

use std::collections::{BTreeMap, HashSet};

use url::Url;

use super::{Context, model};
use crate::spec::diagnostic::Mistake;
use crate::spec::env;
use crate::spec::files::{BUILTIN, FileError};
use crate::spec::keys::{CONTEXT, DEPLOYMENT, LIMITS, PRICE, SAMPLING, TIMEOUTS};
use crate::spec::node::{Entry, Kind, Node, Numbers};
use crate::spec::secrets;
use crate::spec::source::Place;
use crate::spec::suite::{
    Api, Context as Truncation, Deployment, Keep, Limits, Optimization, Price, Sampling, Timeouts,
};
use crate::spec::view::{View, text};
use crate::units::Span;

/// Paths that dialects append themselves.
const APPENDED: [&str; 4] = ["/chat/completions", "/completions", "/responses", "/messages"];

pub fn all(suite: &View<'_>, cx: &mut Context<'_>) -> Vec<Deployment> {
    let entries = suite.node("deployments").and_then(Node::entries).unwrap_or_default();
    if let (Some(node), []) = (suite.node("deployments"), entries)
        && node.entries().is_some()
    {
        let mistake = Mistake::new("missing-key", node.place, "`deployments` is empty");
        cx.report(mistake.hint("name at least one endpoint"));
    }
    entries.iter().map(|entry| one(entry, suite, cx)).collect()
}

fn one(entry: &Entry, suite: &View<'_>, cx: &mut Context<'_>) -> Deployment {
    let view = View::new(Some(&entry.value), &DEPLOYMENT, entry.key.place);
    let api = view.word("api").unwrap_or(Api::OpenaiChat);
    if view.node("url").is_none() && view.node("api").is_none_or(|n| n.scalar() != Some("simulated")) {
        let message = format!("the deployment `{}` has no `url`", entry.key.text);
        let hint = "the server's base URL, version path included: `http://127.0.0.1:8000/v1`";
        cx.report(Mistake::new("missing-key", entry.key.place, message).hint(hint));
    }
    check_url(&view, "url", cx);
    check_url(&view, "metrics_url", cx);
    check_headers(&view, cx);
    check_credentials(&entry.value, cx);
    Deployment {
        name: entry.key.text.clone(),
        api,
        url: view.text("url"),
        model: view.text("model"),
        api_key_env: view.text("api_key_env"),
        optimization: view.word("optimization").unwrap_or(Optimization::None),
        host: view.text("host"),
        headers: texts_of(&view, "headers"),
        query: texts_of(&view, "query"),
        tls_ca_file: ca_file(&view, cx),
        ready_timeout: view.duration("ready_timeout").unwrap_or(Span::from_ms(0)),
        body: view.node("body").map(|n| n.to_object(Numbers::Values, cx.sink)).unwrap_or_default(),
        sampling: sampling(suite, Some(&view)),
        metrics_url: view.text("metrics_url"),
        price: price(&view, cx),
        context: truncation(&view),
        timeouts: timeouts(&view),
        limits: limits(&view),
        profile: profile(&view, api, cx),
        hardware: model::hardware(&view),
        model_shape: model::shape(&view, cx),
    }
}

/// The suite's sampling, with a deployment's own keys before it.
pub fn sampling(suite: &View<'_>, deployment: Option<&View<'_>>) -> Sampling {
    let base = suite.section("sampling", &SAMPLING);
    let own = deployment.map(|d| d.section("sampling", &SAMPLING));
    let pick = |key: &str| own.filter(|o| o.node(key).is_some()).unwrap_or(base);
    Sampling {
        temperature: pick("temperature").number("temperature"),
        top_p: pick("top_p").number("top_p"),
        top_k: pick("top_k").count("top_k"),
        max_tokens: pick("max_tokens").count("max_tokens").unwrap_or(1),
        seed: pick("seed").integer("seed").unwrap_or(0),
        stop: pick("stop").texts("stop").unwrap_or_default(),
    }
}

fn check_url(view: &View<'_>, key: &str, cx: &mut Context<'_>) {
    let Some((written, place)) = view.text(key).zip(view.node(key).map(|n| n.place)) else { return };
    let Some(filled) = cx.filled(&written) else { return };
    // A variable's value is never shown.
    let when = if env::has_variable(&written) { " once its variables are filled in" } else { "" };
    let bad = |why: &str| {
        let mistake = Mistake::new("bad-url", place, format!("not a usable URL{when}: {why}"));
        // What stands before an `@` may be a password.
        if written.contains('@') { mistake.secret() } else { mistake }
    };
    let hint = "write `http://host:port/v1` or `https://…`";
    let url = match Url::parse(&filled) {
        Ok(url) => url,
        Err(why) => return cx.report(bad(&why.to_string()).hint(hint)),
    };
    if !matches!(url.scheme(), "http" | "https") {
        return cx.report(bad("it must start with http:// or https://").hint(hint));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return cx.report(bad("it has no host").hint(hint));
    }
    if url.password().is_some() || !url.username().is_empty() {
        let message = "a user and password in a URL";
        let hint = "use `headers: {Authorization: \"${env:NAME}\"}`";
        return cx.report(Mistake::new("literal-secret", place, message).hint(hint).secret());
    }
    if url.fragment().is_some() || (key == "url" && url.query().is_some()) {
        let mistake = bad("it has a `?` or `#` part");
        return cx.report(mistake.hint("parameters go into `query: {name: value}`"));
    }
    let path = url.path().trim_end_matches('/');
    if key == "url"
        && let Some(tail) = APPENDED.into_iter().find(|tail| path.ends_with(tail))
    {
        let mistake = bad(&format!("`{tail}` is appended to it"));
        cx.report(mistake.hint(format!("leave `{tail}` out")));
    }
}

/// Headers that frame a request: a second value would break it, or send it elsewhere.
const RESERVED_HEADERS: [&str; 8] =
    ["content-length", "transfer-encoding", "host", "connection", "upgrade", "te", "trailer", "expect"];

fn check_headers(view: &View<'_>, cx: &mut Context<'_>) {
    for entry in view.node("headers").and_then(Node::entries).unwrap_or_default() {
        let name = &entry.key.text;
        if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
            let message = format!("`{name}` is not a header's name");
            cx.report(Mistake::new("bad-header", entry.key.place, message).hint("letters, digits and `-`"));
        }
        if RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            let message = format!("the header `{name}` belongs to the connection");
            let hint = "remove it: it is written for each request";
            cx.report(Mistake::new("bad-header", entry.key.place, message).hint(hint));
        }
        let value = entry.value.scalar().and_then(|v| cx.filled(v));
        if value.is_some_and(|v| http::HeaderValue::from_str(&v).is_err()) {
            let message = format!("the value of `{name}` can't be sent in a header");
            cx.report(Mistake::new("bad-header", entry.value.place, message).hint("one line, no control characters"));
        }
    }
}

/// Credentials written out: in a header or parameter that carries one, or anything that looks like a vendor's key.
fn check_credentials(node: &Node, cx: &mut Context<'_>) {
    let mut told = HashSet::new();
    for home in ["headers", "query", "body"] {
        for entry in node.get(home).and_then(Node::entries).unwrap_or_default() {
            let literal = entry.value.scalar().is_some_and(|v| !v.is_empty() && !env::has_variable(v));
            if literal && secrets::names_credential(&entry.key.text) {
                literal_secret(&format!("a literal credential in `{}`", entry.key.text), entry.value.place, cx);
                told.insert(entry.value.place);
            }
        }
    }
    find_keys(node, &mut told, cx);
}

fn find_keys(node: &Node, told: &mut HashSet<Place>, cx: &mut Context<'_>) {
    match &node.kind {
        Kind::Scalar { text, .. } => {
            if secrets::looks_secret(text) && told.insert(node.place) {
                literal_secret("this looks like a key", node.place, cx);
            }
        }
        Kind::Seq(items) => items.iter().for_each(|item| find_keys(item, told, cx)),
        Kind::Map(entries) => {
            let known = entries.iter().filter(|e| !matches!(e.key.text.as_str(), "api_key" | "api_key_env"));
            known.for_each(|e| find_keys(&e.value, told, cx));
        }
    }
}

fn literal_secret(message: &str, place: Place, cx: &mut Context<'_>) {
    let hint = "put it into an environment variable: `api_key_env: NAME`, or `${env:NAME}` in its place";
    cx.report(Mistake::new("literal-secret", place, message).hint(hint).secret());
}

fn texts_of(view: &View<'_>, key: &str) -> BTreeMap<String, String> {
    let entries = view.node(key).and_then(Node::entries).unwrap_or_default();
    entries.iter().filter_map(|e| Some((e.key.text.clone(), text(&e.value)?))).collect()
}

fn ca_file(view: &View<'_>, cx: &mut Context<'_>) -> Option<std::path::PathBuf> {
    let tls = view.present("tls", &crate::spec::keys::TLS)?;
    let written = tls.text("ca_file")?;
    super::task::resolve(&written, tls.place_of("ca_file"), cx)
}

fn price(view: &View<'_>, cx: &mut Context<'_>) -> Option<Price> {
    let view = view.present("price", &PRICE)?;
    let price = Price {
        input_usd_per_mtok: view.usd("input_usd_per_mtok"),
        cached_input_usd_per_mtok: view.usd("cached_input_usd_per_mtok"),
        cache_write_usd_per_mtok: view.usd("cache_write_usd_per_mtok"),
        output_usd_per_mtok: view.usd("output_usd_per_mtok"),
        usd_per_request: view.usd("usd_per_request"),
        gpu_usd_per_hour: view.usd("gpu_usd_per_hour"),
        gpus: view.usd("gpus").unwrap_or(rust_decimal::Decimal::ONE),
    };
    let rates = PRICE.keys.iter().filter(|k| k.name != "gpus");
    if rates.clone().all(|k| view.node(k.name).is_none()) {
        let message = "`price` names no price";
        let hint = "write `input_usd_per_mtok` and `output_usd_per_mtok`, or `gpu_usd_per_hour`";
        cx.report(Mistake::new("missing-key", view.place, message).hint(hint));
    } else if view.node("gpus").is_some() && view.node("gpu_usd_per_hour").is_none() {
        let message = "`gpus` without `gpu_usd_per_hour`";
        cx.report(Mistake::new("missing-key", view.key_place("gpus"), message).hint("write the price of a GPU-hour"));
    }
    Some(price)
}

fn truncation(view: &View<'_>) -> Option<Truncation> {
    let view = view.present("context", &CONTEXT)?;
    Some(Truncation {
        max_prompt_tokens: view.count("max_prompt_tokens")?,
        keep: view.word("keep").unwrap_or(Keep::Tail),
    })
}

fn timeouts(view: &View<'_>) -> Timeouts {
    let view = view.section("timeouts", &TIMEOUTS);
    let span = |key| view.duration(key).unwrap_or(Span::from_ms(0));
    Timeouts {
        connect: span("connect"),
        first_token: span("first_token"),
        between_tokens: span("between_tokens"),
        total: span("total"),
    }
}

fn limits(view: &View<'_>) -> Limits {
    let view = view.section("limits", &LIMITS);
    Limits {
        in_flight: view.count("in_flight"),
        requests_per_min: view.count("requests_per_min"),
        tokens_per_min: view.count("tokens_per_min"),
    }
}

/// `builtin:NAME` names a profile of the simulated server, which is known further on; a file must be there.
fn profile(view: &View<'_>, api: Api, cx: &mut Context<'_>) -> Option<String> {
    let written = view.text("profile")?;
    if api != Api::Simulated {
        let message = "`profile` belongs to a simulated deployment";
        cx.report(Mistake::new("misplaced-key", view.key_place("profile"), message).hint("write `api: simulated`"));
    }
    if written.starts_with(BUILTIN) {
        return Some(written);
    }
    let path = super::task::resolve(&written, view.place_of("profile"), cx)?;
    Some(path.display().to_string())
}

/// How a fault of a file is told at the place that names it.
pub fn file_mistake(error: &FileError, place: Place) -> Mistake {
    let code = match error {
        FileError::LeavesRoot { .. } => "leaves-root",
        FileError::Missing { .. } => "missing-file",
        FileError::IsFolder { .. } | FileError::Unreadable { .. } | FileError::TooLarge { .. } => "unreadable-file",
    };
    let hint = match error {
        FileError::LeavesRoot { .. } => {
            Some("move the file below it, or set `root:` to a folder above both".to_owned())
        }
        FileError::Missing { near: Some(near), .. } => Some(format!("did you mean `{near}`?")),
        FileError::Missing { near: None, .. } => Some("paths start from the suite's `root`".to_owned()),
        _ => None,
    };
    Mistake::new(code, place, error.to_string()).maybe_hint(hint)
}
