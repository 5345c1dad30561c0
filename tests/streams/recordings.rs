//! Each recording, sent whole, byte by byte and in random pieces, reads to the reply that `expected.json` gives.

use std::collections::BTreeMap;

use bytes::Bytes;
use counterpoise::deploy::sse::{Decoder, Event};
use counterpoise::deploy::{Arrival, ArrivalKind, Dialect, Exchanged, Frame, OpenAiChat, Reply};
use counterpoise::units::Mono;
use counterpoise::world;
use rand::RngExt;
use serde::Deserialize;

use super::server::{ask, fixtures, listen, serve_once};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    events: Option<BTreeMap<String, u32>>,
    reply: Option<ExpectedReply>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedReply {
    outcome: String,
    text: Option<String>,
    reasoning: Option<String>,
    finish_reason: Option<String>,
    arrivals: Option<usize>,
    kinds: Option<Vec<ArrivalKind>>,
    tokens: Option<Vec<Option<u32>>>,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
    timings: Option<bool>,
    retry_after_s: Option<f64>,
    /// A part of the message.
    error: Option<String>,
}

fn expected() -> BTreeMap<String, Expected> {
    let text = std::fs::read_to_string(fixtures().join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn check(name: &str, expected: &ExpectedReply, reply: &Reply) {
    assert_eq!(reply.outcome.name(), expected.outcome, "{name}: {reply:?}");
    let error = reply.error.as_deref().unwrap_or_default();
    assert!(error.chars().count() <= 500, "{name}: {error}");
    assert!(!error.chars().any(char::is_control), "{name}: {error:?}");
    if let Some(part) = &expected.error {
        assert!(error.contains(part.as_str()), "{name}: `{error}` lacks `{part}`");
    }
    if let Some(text) = &expected.text {
        assert_eq!(&reply.text, text, "{name}");
    }
    assert_eq!(reply.reasoning, expected.reasoning.clone().unwrap_or_default(), "{name}");
    if expected.finish_reason.is_some() {
        assert_eq!(reply.finish_reason, expected.finish_reason, "{name}");
    }
    if let Some(arrivals) = expected.arrivals {
        assert_eq!(reply.arrivals.len(), arrivals, "{name}");
    }
    if let Some(kinds) = &expected.kinds {
        assert_eq!(&reply.arrivals.iter().map(|a| a.kind).collect::<Vec<_>>(), kinds, "{name}");
    }
    if let Some(tokens) = &expected.tokens {
        assert_eq!(&reply.arrivals.iter().map(|a| a.tokens).collect::<Vec<_>>(), tokens, "{name}");
    }
    for (what, wanted, got) in [
        ("prompt", expected.prompt_tokens, reply.usage.prompt_tokens),
        ("completion", expected.completion_tokens, reply.usage.completion_tokens),
        ("cached", expected.cached_tokens, reply.usage.cached_tokens),
        ("reasoning", expected.reasoning_tokens, reply.usage.reasoning_tokens),
    ] {
        assert!(wanted.is_none() || wanted == got, "{name}: {what} tokens {got:?}, not {wanted:?}");
    }
    if let Some(timings) = expected.timings {
        assert_eq!(reply.server_timings.is_some(), timings, "{name}");
    }
    assert_eq!(reply.retry_after_s, expected.retry_after_s, "{name}");
}

/// A reply without its instants.
fn timeless(mut reply: Reply) -> Reply {
    let zero = |at: Option<Mono>| at.map(|_| Mono(0));
    reply.first_event = zero(reply.first_event);
    reply.finish_at = zero(reply.finish_at);
    reply.usage_at = zero(reply.usage_at);
    reply.arrivals = reply.arrivals.into_iter().map(|a| Arrival { at: Mono(0), ..a }).collect();
    reply
}

/// The body in other frames.
fn resplit(exchanged: &Exchanged, sizes: impl IntoIterator<Item = usize>) -> Exchanged {
    let body: Vec<u8> = exchanged.frames.iter().flat_map(|frame| frame.bytes.to_vec()).collect();
    let mut body = Bytes::from(body);
    let mut frames = Vec::new();
    for size in sizes {
        if body.is_empty() {
            break;
        }
        let bytes = body.split_to(size.clamp(1, body.len()));
        frames.push(Frame { at: Mono(frames.len() as u64), bytes });
    }
    Exchanged { frames, ..exchanged.clone() }
}

fn events(exchanged: &Exchanged) -> Vec<Event> {
    let mut decoder = Decoder::new();
    let mut events = Vec::new();
    for frame in &exchanged.frames {
        decoder.push(frame.at, &frame.bytes, &mut events).unwrap();
    }
    decoder.finish(&mut events).unwrap();
    events
}

async fn served(pieces: Vec<Vec<u8>>) -> Exchanged {
    let (listener, address) = listen().await;
    let server = tokio::spawn(serve_once(listener, pieces));
    let exchanged = ask(address).await;
    let request = server.await.unwrap().unwrap();
    assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{request}");
    exchanged
}

fn cut(raw: &[u8], mut size: impl FnMut() -> usize) -> Vec<Vec<u8>> {
    let mut rest = raw;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(size().clamp(1, rest.len()));
        pieces.push(piece.to_vec());
        rest = tail;
    }
    pieces
}

#[tokio::test]
async fn every_recording_reads_as_expected_whole_and_in_any_split() {
    let expected = expected();
    assert!(expected.len() >= 27 + 60);
    let mut rng = world::rng(7, "splits");
    for (name, expected) in &expected {
        let raw = std::fs::read(fixtures().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let whole = served(vec![raw.clone()]).await;
        let random = served(cut(&raw, || rng.random_range(1..200))).await;
        assert_eq!(whole.status, random.status, "{name}");
        if let Some(wanted) = &expected.events {
            let mut counts = BTreeMap::new();
            for event in events(&whole) {
                *counts.entry(event.event.unwrap_or_else(|| "message".to_owned())).or_insert(0) += 1;
            }
            assert_eq!(&counts, wanted, "{name}");
        }
        let reply = timeless(OpenAiChat.read(&whole));
        if let Some(expected) = &expected.reply {
            check(name, expected, &reply);
        }
        assert_eq!(timeless(OpenAiChat.read(&random)), reply, "{name} in random pieces");
        assert_eq!(timeless(OpenAiChat.read(&resplit(&whole, std::iter::repeat(1)))), reply, "{name} byte by byte");
        for _ in 0..5 {
            let sizes = std::iter::repeat_with(|| rng.random_range(1..40));
            assert_eq!(timeless(OpenAiChat.read(&resplit(&whole, sizes))), reply, "{name} in other frames");
        }
    }
}

#[tokio::test]
async fn recorded_servers_read_alike_byte_by_byte_over_the_socket() {
    for name in ["llamacpp-chat-length.http", "vllm-chat-length.http", "broken/utf8-byte-split.http", "broken/cr.http"]
    {
        let raw = std::fs::read(fixtures().join(name)).unwrap();
        let whole = served(vec![raw.clone()]).await;
        let single = served(cut(&raw, || 1)).await;
        assert_eq!(timeless(OpenAiChat.read(&single)), timeless(OpenAiChat.read(&whole)), "{name}");
    }
}

#[test]
fn every_recording_is_expected() {
    let expected = expected();
    for folder in ["", "broken/"] {
        for entry in std::fs::read_dir(fixtures().join(folder)).unwrap() {
            let name = format!("{folder}{}", entry.unwrap().file_name().into_string().unwrap());
            let is_recording = std::path::Path::new(&name).extension().is_some_and(|extension| extension == "http");
            assert!(!is_recording || expected.contains_key(&name), "{name} is not in expected.json");
        }
    }
}

#[tokio::test]
async fn tokens_of_each_event_come_from_repeated_usage() {
    let raw = std::fs::read(fixtures().join("vllm-chat-continuous-usage.http")).unwrap();
    let reply = OpenAiChat.read(&served(vec![raw]).await);
    let tokens: Option<Vec<u32>> = reply.arrivals.iter().map(|a| a.tokens).collect();
    assert_eq!(tokens.unwrap().iter().map(|n| u64::from(*n)).sum::<u64>(), reply.usage.completion_tokens.unwrap());
}
