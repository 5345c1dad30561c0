use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::errors::for_people;
use super::{OpenAiChat, wire};
use crate::deploy::dialect::{ArrivalKind, Dialect, GenRequest, Reply};
use crate::deploy::outcome::{Deadline, Outcome};
use crate::deploy::transport::{EndOfBody, Exchanged, Frame, Marks, Target, TransportError, WireRequest};
use crate::plan::Message;
use crate::spec::{Api, Role, Sampling, Timeouts};
use crate::units::{Mono, Span};

fn target(url: &str) -> Target {
    let span = Span::from_ms(1_000);
    Target {
        name: "t".to_owned(),
        api: Api::OpenaiChat,
        url: url.to_owned(),
        model: Some("m".to_owned()),
        api_key: None,
        headers: BTreeMap::new(),
        query: BTreeMap::new(),
        body: serde_json::Map::new(),
        ca_file: None,
        timeouts: Timeouts { connect: span, first_token: span, between_tokens: span, total: span },
    }
}

fn asked(stream: bool) -> GenRequest {
    let message = |role, content: &str| Message { role, content: content.to_owned() };
    GenRequest {
        messages: vec![message(Role::System, "Be brief."), message(Role::User, "Capital of France?")],
        sampling: Sampling {
            temperature: Some(0.0),
            top_p: Some(0.9),
            top_k: None,
            max_tokens: 16,
            seed: 1,
            stop: vec!["\n".to_owned()],
        },
        seed: 99,
        response_format: None,
        stream,
    }
}

fn body_of(request: &WireRequest) -> Value {
    serde_json::from_slice(&request.body).unwrap()
}

fn header<'a>(request: &'a WireRequest, name: &str) -> Vec<&'a str> {
    request.headers.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_str()).collect()
}

#[test]
fn a_request_says_what_is_asked_and_nothing_else() {
    let request = OpenAiChat.request(&target("http://h/v1"), &asked(true));
    assert_eq!(request.path, "/v1/chat/completions");
    assert!(request.stream);
    let wanted = json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Capital of France?"},
        ],
        "temperature": 0.0, "top_p": 0.9, "max_tokens": 16, "seed": 99, "stop": ["\n"],
        "stream": true, "stream_options": {"include_usage": true},
    });
    assert_eq!(body_of(&request), wanted);
    let whole = body_of(&OpenAiChat.request(&target("http://h/v1"), &asked(false)));
    assert_eq!((whole.get("stream"), whole.get("stream_options")), (Some(&json!(false)), None));
}

#[test]
fn the_targets_body_is_merged_as_a_patch() {
    let mut target = target("http://h/v1");
    target.body = json!({
        "max_tokens": null, "max_completion_tokens": 16, "cache_prompt": false,
        "stream_options": {"continuous_usage_stats": true}, "extra": {"a": {"b": null, "c": 1}},
    })
    .as_object()
    .unwrap()
    .clone();
    let body = body_of(&OpenAiChat.request(&target, &asked(true)));
    assert_eq!(body.get("max_tokens"), None);
    assert_eq!(body["max_completion_tokens"], 16);
    assert_eq!(body["cache_prompt"], false);
    assert_eq!(body["stream_options"], json!({"include_usage": true, "continuous_usage_stats": true}));
    assert_eq!(body["extra"], json!({"a": {"c": 1}}));
}

#[test]
fn a_patch_that_turns_streaming_off_is_followed() {
    let mut target = target("http://h/v1");
    target.body.insert("stream".to_owned(), json!(false));
    let request = OpenAiChat.request(&target, &asked(true));
    assert!(!request.stream);
    assert_eq!(body_of(&request).get("stream_options"), None);
    assert_eq!(header(&request, "accept"), ["application/json"]);
}

#[test]
fn the_urls_own_path_and_query_are_kept() {
    let path = |url: &str, query: &[(&str, &str)]| {
        let mut target = target(url);
        target.query = query.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        OpenAiChat.request(&target, &asked(true)).path
    };
    assert_eq!(path("http://h", &[]), "/chat/completions");
    assert_eq!(
        path("https://h/openai/deployments/x/?a=1", &[("api-version", "2024 06")]),
        "/openai/deployments/x/chat/completions?a=1&api-version=2024+06"
    );
    assert_eq!(path("http://h/v1/chat/completions", &[]), "/v1/chat/completions");
    assert_eq!(path("http://h/v 1/é", &[]), "/v%201/%C3%A9/chat/completions");
    assert_eq!(path("no url", &[]), "/chat/completions");
}

#[test]
fn headers_can_be_set_but_not_injected() {
    let mut target = target("http://h/v1");
    target.api_key = Some(" key-1\n".to_owned());
    target.headers = [
        ("X-Team", "evals"),
        ("Content-Type", "application/json; charset=utf-8"),
        ("X-Bad", "a\r\nX-Evil: 1"),
        ("X Bad", "a"),
        ("Content-Length", "3"),
        ("Transfer-Encoding", "chunked"),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .into();
    let request = OpenAiChat.request(&target, &asked(true));
    assert_eq!(header(&request, "authorization"), ["Bearer key-1"]);
    assert_eq!(header(&request, "x-team"), ["evals"]);
    assert_eq!(header(&request, "content-type"), ["application/json; charset=utf-8"]);
    let names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["accept", "user-agent", "authorization", "content-type", "x-team"]);
    target.headers.insert("AUTHORIZATION".to_owned(), "Api-Key k".to_owned());
    assert_eq!(header(&OpenAiChat.request(&target, &asked(true)), "authorization"), ["Api-Key k"]);
}

/// A stream whose events arrive at these milliseconds.
fn streamed(events: &[(u64, Value)], end: EndOfBody) -> Exchanged {
    let frame = |(ms, event): &(u64, Value)| {
        let data = event.as_str().map_or_else(|| event.to_string(), str::to_owned);
        Frame { at: Mono(ms * 1_000_000), bytes: Bytes::from(format!("data: {data}\n\n")) }
    };
    Exchanged {
        marks: Marks::default(),
        status: Some(200),
        headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
        frames: events.iter().map(frame).collect(),
        end,
        stream: true,
        reopened: false,
    }
}

#[allow(clippy::needless_pass_by_value)] // Reads best with `json!` at the call.
fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn stop() -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
}

fn ms(at: Option<Mono>) -> Option<u64> {
    at.map(|at| at.0 / 1_000_000)
}

#[test]
fn a_role_chunk_is_no_first_token() {
    let events = [
        (5, delta(json!({"role": "assistant", "content": ""}))),
        (6, delta(json!({"content": null, "tool_calls": []}))),
        (200, delta(json!({"content": "Paris"}))),
        (201, stop()),
        (202, json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}})),
        (203, json!("[DONE]")),
    ];
    let reply = OpenAiChat.read(&streamed(&events, EndOfBody::Complete));
    assert_eq!(
        (ms(reply.first_event), ms(reply.first_token()), ms(reply.last_token())),
        (Some(5), Some(200), Some(200))
    );
    assert_eq!((ms(reply.finish_at), ms(reply.usage_at)), (Some(201), Some(202)));
}

#[test]
fn reasoning_is_a_token_but_no_answer() {
    let events = [
        (28, delta(json!({"reasoning": "Hm"}))),
        (30, delta(json!({"reasoning_content": "."}))),
        (40, delta(json!({"content": "Paris"}))),
        (41, stop()),
    ];
    let reply = OpenAiChat.read(&streamed(&events, EndOfBody::Complete));
    assert_eq!((ms(reply.first_token()), ms(reply.first_answer())), (Some(28), Some(40)));
    assert_eq!((reply.reasoning.as_str(), reply.text.as_str()), ("Hm.", "Paris"));

    let mixed = [(28, delta(json!({"reasoning": ".", "content": "Par"}))), (29, stop())];
    let reply = OpenAiChat.read(&streamed(&mixed, EndOfBody::Complete));
    assert_eq!((ms(reply.first_token()), ms(reply.first_answer())), (Some(28), Some(28)));
    assert_eq!(reply.arrivals[0].kind, ArrivalKind::Mixed);
    let thinking_only = [(28, delta(json!({"reasoning": "Hm"}))), (29, stop())];
    assert_eq!(OpenAiChat.read(&streamed(&thinking_only, EndOfBody::Complete)).outcome, Outcome::Empty);
}

#[test]
fn a_whole_answer_has_no_first_token() {
    let body = json!({"choices": [{"message": {"content": "Paris"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 1}});
    let mut exchanged = streamed(&[], EndOfBody::Complete);
    exchanged.headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    exchanged.frames = vec![Frame { at: Mono(9), bytes: Bytes::from(body.to_string()) }];
    let reply = OpenAiChat.read(&exchanged);
    assert_eq!((reply.outcome, reply.text.as_str()), (Outcome::Completed, "Paris"));
    assert_eq!((reply.first_token(), reply.first_event, reply.finish_at), (None, None, None));
}

fn tokens(reply: &Reply) -> Vec<Option<u32>> {
    reply.arrivals.iter().map(|arrival| arrival.tokens).collect()
}

#[test]
fn tokens_of_an_event_are_known_or_absent_never_guessed() {
    let counted = |content: &str, n: u64| json!({"choices": [{"index": 0, "delta": {"content": content}}], "usage": {"completion_tokens": n}});
    let read = |events: &[(u64, Value)]| tokens(&OpenAiChat.read(&streamed(events, EndOfBody::Complete)));
    assert_eq!(
        read(&[
            (1, counted("a b c", 5)),
            (2, counted(" d", 6)),
            (3, counted("", 8)),
            (4, counted("e", 9)),
            (5, stop())
        ]),
        [Some(5), Some(1), Some(3)]
    );
    // The count of the whole, given once, is not the last event's own.
    assert_eq!(read(&[(1, delta(json!({"content": "a"}))), (2, counted("b", 2)), (3, stop())]), [None, None]);
    // A count that falls back is no count.
    assert_eq!(
        read(&[(1, counted("a", 5)), (2, counted("b", 3)), (3, counted("c", 4)), (4, stop())]),
        [Some(5), None, None]
    );
    let timed = |n: u64| json!({"choices": [{"index": 0, "delta": {"content": "a"}}], "timings": {"predicted_n": n}});
    assert_eq!(read(&[(1, timed(1)), (2, timed(4)), (3, stop())]), [Some(1), Some(3)]);
}

#[test]
fn tokens_are_counted_where_their_log_probabilities_are_listed() {
    let listed = |n: usize| {
        let logprobs = json!({"content": vec![json!({"token": "a", "logprob": -0.1}); n]});
        json!({"choices": [{"index": 0, "delta": {"content": "a"}, "logprobs": logprobs}]})
    };
    let events = [(1, listed(2)), (2, listed(5_000)), (3, listed(0)), (4, stop())];
    assert_eq!(tokens(&OpenAiChat.read(&streamed(&events, EndOfBody::Complete))), [Some(2), Some(5_000), None]);
}

#[test]
fn a_body_of_empty_choices_is_read_in_its_own_size() {
    let choices = "{},".repeat(1 << 20);
    let body = format!("{{\"choices\":[{choices}{{}}]}}");
    let mut exchanged = streamed(&[], EndOfBody::Complete);
    exchanged.headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    exchanged.frames = vec![Frame { at: Mono(9), bytes: Bytes::from(body) }];
    assert_eq!(OpenAiChat.read(&exchanged).outcome, Outcome::Empty);
    assert_eq!(
        wire::body(&format!("{{\"choices\":[{choices}{{}}]}}")).map(|body| wire::items(body.choices).len()),
        Some(4_096)
    );
}

#[test]
fn what_never_came_is_told_by_how_it_ended() {
    let read = |end: EndOfBody| {
        let reply = OpenAiChat.read(&Exchanged { status: None, headers: Vec::new(), ..streamed(&[], end) });
        (reply.outcome, reply.error.unwrap())
    };
    let refused = TransportError::Connect { address: "h:1".to_owned(), reason: "connection refused".to_owned() };
    assert_eq!(
        read(EndOfBody::Broken(refused)),
        (Outcome::Unreachable, "could not connect to h:1: connection refused".to_owned())
    );
    assert_eq!(read(EndOfBody::Broken(TransportError::ClosedBeforeResponse)).0, Outcome::Transport);
    assert_eq!(read(EndOfBody::TimedOut(Deadline::Connect)).0, Outcome::Timeout(Deadline::Connect));
    assert_eq!(read(EndOfBody::Cancelled).0, Outcome::Transport);
    let too_large = EndOfBody::Broken(TransportError::TooLarge { limit_bytes: 5 });
    assert_eq!(
        OpenAiChat.read(&streamed(&[(1, delta(json!({"content": "a"})))], too_large)).outcome,
        Outcome::Malformed
    );
}

#[test]
fn text_for_people_is_short_plain_and_keyless() {
    let long = for_people(&"é".repeat(5_000));
    assert_eq!(long.chars().count(), 500);
    assert_eq!(for_people("a\nb\u{1b}[1m\u{202e}"), "a\\nb\\u{1b}[1m\\u{202e}");
    assert_eq!(for_people("key 'sk-proj-0123456789' of Bearer abc, is bad"), "key '[key]' of Bearer [key], is bad");
    assert_eq!(for_people("sk-8"), "sk-8");
}

/// Events of a stream, sensible and not.
#[test]
fn timings_are_kept_flat_and_names_short() {
    let mut deep = json!(1);
    for _ in 0..124 {
        deep = json!([deep]);
    }
    let said = |timings: Value| {
        let chunk = json!({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "x".repeat(999)}],
            "model": format!("m\u{1b}[31m{}", "y".repeat(999)), "system_fingerprint": "z".repeat(999),
            "timings": timings});
        OpenAiChat.read(&streamed(&[(1, chunk), (2, stop())], EndOfBody::Complete))
    };
    assert_eq!(said(json!({"deep": deep})).server_timings, None);
    assert_eq!(said(json!([deep])).server_timings, None);
    let odd = json!({"prompt_n": 3, "prompt_ms": 1.5, "neg": -1, "huge": 1e13, "text": "1", "none": null,
        "k".repeat(65): 1, "a\nb": 1});
    assert_eq!(said(odd).server_timings, Some(json!({"prompt_n": 3, "prompt_ms": 1.5})));
    let many: serde_json::Map<String, Value> = (0..99).map(|n| (format!("t{n}"), json!(n))).collect();
    let reply = said(Value::Object(many));
    assert_eq!(reply.server_timings.unwrap().as_object().unwrap().len(), 32);
    for name in [reply.model.unwrap(), reply.system_fingerprint.unwrap()] {
        assert!(name.chars().count() <= 200 && !name.contains('\u{1b}'), "{name}");
    }
}

#[test]
fn text_without_end_is_cut() {
    let half = "é".repeat(1 << 20);
    let events = [json!({"reasoning": half}), json!({"content": format!("a{half}")}), json!({"content": "more"})];
    let events: Vec<(u64, Value)> = events.into_iter().map(|event| (1, delta(event))).chain([(2, stop())]).collect();
    let reply = OpenAiChat.read(&streamed(&events, EndOfBody::Complete));
    assert_eq!(reply.outcome, Outcome::Malformed);
    assert!(reply.error.unwrap().contains("more than 4194304 bytes"));
    assert_eq!((reply.reasoning.len(), reply.text.len()), (2 << 20, (2 << 20) - 1));
    let whole = OpenAiChat.read(&streamed(&[(1, delta(json!({"content": half}))), (2, stop())], EndOfBody::Complete));
    assert_eq!(whole.outcome, Outcome::Completed);
}

#[test]
fn counts_that_cannot_be_are_unknown() {
    let usage = |usage: Value| {
        let chunk = json!({"choices": [], "usage": usage});
        OpenAiChat.read(&streamed(&[(1, stop()), (2, chunk)], EndOfBody::Complete)).usage
    };
    let odd = usage(json!({"prompt_tokens": 10, "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 11}, "completion_tokens_details": {"reasoning_tokens": 6}}));
    assert_eq!((odd.prompt_tokens, odd.completion_tokens), (Some(10), Some(5)));
    assert_eq!((odd.cached_tokens, odd.reasoning_tokens), (None, None));
    for wrong in [json!(-1), json!(1_000_000_001u64), json!(u64::MAX), json!(1e10), json!(0.5)] {
        let usage = usage(json!({"prompt_tokens": wrong, "completion_tokens": 5}));
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (None, Some(5)), "{wrong}");
    }
    assert_eq!(usage(json!({"prompt_tokens": 1_000_000_000u64})).prompt_tokens, Some(1_000_000_000));
}

fn event() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        Just("null".to_owned()),
        Just("\"\"".to_owned()),
        "\"[a-zé ]{1,5}\"",
        Just("[]".to_owned()),
        Just("7".to_owned())
    ];
    let key = prop::sample::select(vec![
        "content",
        "reasoning",
        "reasoning_content",
        "refusal",
        "role",
        "tool_calls",
        "function_call",
        "finish_reason",
        "usage",
    ]);
    let fields = prop::collection::vec((key, text), 0..4);
    let delta = fields.prop_map(|fields| {
        let fields: Vec<String> = fields.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{\"choices\":[{{\"index\":0,\"delta\":{{{}}}}}]}}", fields.join(","))
    });
    let call = "\"[a-z]{0,3}\"".prop_map(|arguments| {
        format!("{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"function\":{{\"arguments\":{arguments}}}}}]}}}}]}}")
    });
    prop_oneof![8 => delta, 2 => call, 1 => ".{0,20}", 1 => Just("[DONE]".to_owned())]
}

proptest! {
    /// The hint may be wrong about what carries no token, never about what does: timeouts hang on it.
    #[test]
    fn what_carries_a_token_may_carry_one(event in event()) {
        let exchanged = streamed(&[(1, Value::String(event.clone()))], EndOfBody::Complete);
        let reply = OpenAiChat.read(&exchanged);
        prop_assert!(reply.arrivals.is_empty() || wire::may_carry_token(event.as_bytes()), "{}", event);
    }

    #[test]
    fn any_split_of_a_stream_reads_alike(events in prop::collection::vec(event(), 0..8), size in 1_usize..30) {
        let events: Vec<(u64, Value)> = events.into_iter().map(|event| (0, Value::String(event))).collect();
        let whole = streamed(&events, EndOfBody::Complete);
        let bytes: Vec<u8> = whole.frames.iter().flat_map(|frame| frame.bytes.to_vec()).collect();
        let frames = bytes.chunks(size).map(|piece| Frame { at: Mono(0), bytes: Bytes::copy_from_slice(piece) }).collect();
        prop_assert_eq!(OpenAiChat.read(&Exchanged { frames, ..whole.clone() }), OpenAiChat.read(&whole));
    }

    #[test]
    fn arbitrary_bytes_are_some_outcome(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        status in prop::option::of(100_u16..600),
        kind in prop::sample::select(vec!["text/event-stream", "application/json", "text/html", ""]),
    ) {
        let mut exchanged = streamed(&[], EndOfBody::Complete);
        exchanged.status = status;
        exchanged.headers = vec![("content-type".to_owned(), kind.to_owned()), ("retry-after".to_owned(), "-1e999".to_owned())];
        exchanged.frames = vec![Frame { at: Mono(1), bytes: Bytes::from(bytes) }];
        let reply = OpenAiChat.read(&exchanged);
        prop_assert!(reply.outcome != Outcome::Completed);
        prop_assert!(reply.error.is_some_and(|error| !error.chars().any(char::is_control)));
    }
}
