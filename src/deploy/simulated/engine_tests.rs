use super::*;
use crate::deploy::simulated::{Entry, ErrorModel, Fault};
use serde_json::Value;

const MS: u64 = 1_000_000;
const PROMPT: &str = "What is the capital of Italy?";
const ANSWER: &str = "The capital of Italy is Rome, Łódź is not.";

pub(super) fn exact(change: impl FnOnce(&mut Profile)) -> Profile {
    let mut profile = Profile::builtin("exact").unwrap();
    change(&mut profile);
    profile
}

fn engine(change: impl FnOnce(&mut Profile)) -> Engine {
    Engine::new(exact(change), AnswerBook::from_entries(vec![Entry::new(PROMPT, ANSWER)]), 1)
}

fn faulty(faults: &[Fault]) -> Engine {
    engine(|p| p.faults = faults.to_vec())
}

fn body(stream: bool, more: Value) -> Vec<u8> {
    let mut body = json!({"messages": [{"role": "user", "content": PROMPT}], "temperature": 0, "stream": stream});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body.to_string().into_bytes()
}

fn post(engine: &mut Engine, at_ms: u64, body: &[u8]) -> Script {
    let request = Request { method: "POST", path: "/v1/chat/completions", headers: &[], body };
    engine.on_request(Mono(at_ms * MS), &request)
}

fn ask(engine: &mut Engine, at_ms: u64) -> Script {
    post(engine, at_ms, &body(true, json!({})))
}

fn get(engine: &mut Engine, at_ms: u64, path: &str) -> (u16, String) {
    let script = engine.on_request(Mono(at_ms * MS), &Request { method: "GET", path, headers: &[], body: &[] });
    (script.head.as_ref().unwrap().status, String::from_utf8(script.body()).unwrap())
}

/// Data of each event, read in the plainest way: lines of LF.
fn events(script: &Script) -> Vec<String> {
    let text = String::from_utf8(script.body()).unwrap();
    text.split("\n\n").filter_map(|e| Some(e.lines().find_map(|l| l.strip_prefix("data: "))?.to_owned())).collect()
}

fn chunks(script: &Script) -> Vec<Value> {
    events(script).iter().filter_map(|e| serde_json::from_str(e).ok()).collect()
}

fn text(script: &Script) -> String {
    chunks(script).iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str()).collect()
}

/// Milliseconds of the frames after `from_ms`.
fn instants(script: &Script, from_ms: u64) -> Vec<u64> {
    script.frames.iter().map(|f| f.at.since(Mono(from_ms * MS)).unwrap() / MS).collect()
}

#[test]
fn a_stream_has_exact_instants_and_the_whole_answer() {
    let mut engine = engine(|_| {});
    let script = ask(&mut engine, 7);
    let tokens = tokens::split(ANSWER).len();
    let mut expected: Vec<u64> = (0..tokens as u64).map(|i| 50 + 10 * i).collect();
    let last = *expected.last().unwrap();
    expected.extend([last, last]);
    assert_eq!(instants(&script, 7), expected);
    assert_eq!(text(&script), ANSWER);
    let chunks = chunks(&script);
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(chunks[chunks.len() - 2]["choices"][0]["finish_reason"], "stop");
    let usage = chunks.last().unwrap();
    assert_eq!(usage["usage"]["completion_tokens"], tokens as u64);
    assert_eq!(usage["timings"]["prompt_ms"], 50.0);
    assert_eq!(usage["timings"]["predicted_ms"], last as f64 - 50.0);
    assert_eq!(events(&script).last().unwrap(), "[DONE]");
    assert_eq!((script.end, script.end_at), (End::Complete, Mono((7 + last) * MS)));
    let head = script.head.unwrap();
    assert_eq!((head.status, head.at, head.content_length), (200, Mono(57 * MS), None));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_another_pace() {
    let run = |seed: u64| -> Vec<Script> {
        let book = AnswerBook::from_entries(vec![Entry::new(PROMPT, ANSWER)]);
        let mut engine = Engine::new(Profile::builtin("demo-baseline").unwrap(), book, seed);
        (0..5).map(|i| ask(&mut engine, i * 10)).collect()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1)[0].end_at, run(2)[0].end_at);
    assert_eq!(text(&run(1)[0]), text(&run(2)[0]));
}

#[test]
fn without_a_stream_the_body_comes_when_the_last_token_is_done() {
    let mut engine = engine(|_| {});
    let script = post(&mut engine, 0, &body(false, json!({})));
    let value: Value = serde_json::from_slice(&script.body()).unwrap();
    assert_eq!(value["choices"][0]["message"]["content"], ANSWER);
    let tokens = tokens::split(ANSWER).len() as u64;
    assert_eq!(value["usage"]["completion_tokens"], tokens);
    assert_eq!(instants(&script, 0), [50 + 10 * (tokens - 1)]);
    assert_eq!(script.head.unwrap().content_length, Some(value.to_string().len()));
}

#[test]
fn limits_stops_and_usage_are_as_asked() {
    let mut engine = engine(|p| p.shape.usage = UsagePolicy::Asked);
    let short = post(&mut engine, 0, &body(true, json!({"max_tokens": 3})));
    assert_eq!(text(&short), "The capital");
    assert!(chunks(&short).iter().any(|c| c["choices"][0]["finish_reason"] == "length"));
    assert!(chunks(&short).iter().all(|c| c["usage"].is_null()));
    let stopped =
        post(&mut engine, 0, &body(true, json!({"stop": [" is"], "stream_options": {"include_usage": true}})));
    assert_eq!(text(&stopped), "The capital of Italy");
    assert_eq!(chunks(&stopped).last().unwrap()["usage"]["prompt_tokens"], 4 + tokens::count(PROMPT));
}

#[test]
fn slots_make_requests_wait_in_order() {
    let mut engine = engine(|p| p.slots = 2);
    let one = body(true, json!({"max_tokens": 1}));
    let firsts: Vec<u64> = (0..5).map(|i| instants(&post(&mut engine, i, &one), 0)[0]).collect();
    assert_eq!(firsts, [50, 51, 100, 101, 150]);
    assert_eq!(engine.stats(), Stats { requests: 5, in_flight: 5, peak_in_flight: 5 });
    let (_, page) = get(&mut engine, 60, "/metrics");
    assert!(
        page.contains("llamacpp:requests_processing 2\n") && page.contains("llamacpp:requests_deferred 1\n"),
        "{page}"
    );
    (0..5).for_each(|number| engine.on_end(number, Mono(200 * MS)));
    assert_eq!(engine.stats(), Stats { requests: 5, in_flight: 0, peak_in_flight: 5 });
}

#[test]
fn others_in_service_slow_a_stream_down() {
    let mut engine = engine(|p| p.decode_slowdown_per_active = 0.5);
    let two = body(true, json!({"max_tokens": 2}));
    let gaps: Vec<u64> = (0..3)
        .map(|_| {
            let at = instants(&post(&mut engine, 0, &two), 0);
            at[1] - at[0]
        })
        .collect();
    assert_eq!(gaps, [10, 15, 20]);
}

#[test]
fn speculative_decoding_brings_several_tokens_in_an_event() {
    let mut engine = engine(|p| p.tokens_per_event = vec![0.0, 0.0, 1.0]);
    let script = ask(&mut engine, 0);
    let tokens = tokens::split(ANSWER).len();
    assert_eq!(text(&script), ANSWER);
    let bearing = chunks(&script).iter().filter(|c| c["choices"][0]["delta"]["content"].is_string()).count();
    assert_eq!(bearing, tokens.div_ceil(3));
    assert_eq!(chunks(&script).last().unwrap()["usage"]["completion_tokens"], tokens as u64);
}

#[test]
fn odd_chunks_and_no_role_change_no_byte_of_the_text() {
    let whole = ask(&mut engine(|_| {}), 0);
    for size in [1, 3, 7, 64] {
        let cut = ask(&mut engine(|p| p.shape.chunk_bytes = Some(size)), 0);
        assert_eq!(cut.body(), whole.body());
        assert!(cut.frames.iter().all(|f| f.bytes.len() <= size));
    }
    let spaced = ask(
        &mut engine(|p| {
            p.shape.chunk_bytes = Some(100);
            p.shape.chunk_gap_us = 7_000;
        }),
        0,
    );
    assert!(spaced.frames.windows(2).all(|w| w[0].at <= w[1].at), "frames are out of order");
    assert_eq!(spaced.end_at, spaced.frames.last().unwrap().at);
}

#[test]
fn a_stalled_server_delays_all_that_is_in_service() {
    let stall = crate::deploy::simulated::Stall { from_ms: 60.0, to_ms: 2_060.0 };
    let mut engine = engine(|p| p.stalls = vec![stall]);
    let two = body(true, json!({"max_tokens": 3}));
    assert_eq!(instants(&post(&mut engine, 100, &two), 100)[..3], [50, 60, 2_070]);
    assert_eq!(instants(&post(&mut engine, 500, &two), 500)[0], 1_710);
}

#[test]
fn a_known_prefix_is_cached_but_where_the_request_forbids_it() {
    let mut engine = engine(|p| {
        p.prefix_cache = true;
        p.prefill_ms_per_token = 1.0;
    });
    let prompt = 4 + tokens::count(PROMPT);
    let cases = [
        (json!({}), 0, 50 + prompt),
        (json!({}), prompt - 1, 51),
        (json!({"cache_prompt": false}), 0, 50 + prompt),
        (json!({"cache_salt": "b"}), 0, 50 + prompt),
    ];
    for (more, cached, first) in cases {
        let script = post(&mut engine, 0, &body(true, more.clone()));
        let last = chunks(&script).pop().unwrap();
        let told = &last["usage"]["prompt_tokens_details"]["cached_tokens"];
        assert_eq!((told, instants(&script, 0)[0]), (&json!(cached), first), "{more}");
    }
}

#[test]
fn a_common_beginning_is_cached_in_whole_blocks() {
    let mut engine = engine(|p| p.prefix_cache = true);
    let common = "The harbour wall was built with a slope so that waves run up on it. ".repeat(4);
    let mut cached = |prompt: String| {
        let asked = json!({"messages": [{"role": "user", "content": prompt}]});
        let script = post(&mut engine, 0, &body(true, asked));
        chunks(&script).pop().unwrap()["usage"]["prompt_tokens_details"]["cached_tokens"].clone()
    };
    assert_eq!(cached(format!("{common}First.")), json!(0));
    // 272 bytes in common are four blocks.
    assert_eq!(cached(format!("{common}Second.")), json!(tokens::count(&common[..256])));
    assert_eq!(cached(format!("Other. {common}")), json!(0));
}

#[test]
fn refused_requests_say_why() {
    let mut engine = engine(|p| {
        p.api_key = Some("k".to_owned());
        p.strict_model = true;
        p.context_window_tokens = 20;
    });
    let mut send = |key: &str, body: &[u8]| -> (u16, Value) {
        let headers = [("Authorization".to_owned(), format!("Bearer {key}"))];
        let request = Request { method: "POST", path: "/v1/chat/completions", headers: &headers, body };
        let script = engine.on_request(Mono(0), &request);
        let value = serde_json::from_slice(&script.body()).unwrap();
        (script.head.unwrap().status, value)
    };
    assert_eq!(send("x", &body(true, json!({}))).0, 401);
    let (status, value) = send("k", &body(true, json!({"model": "nope"})));
    assert_eq!((status, &value["error"]["message"]), (404, &json!("The model `nope` does not exist.")));
    assert_eq!(send("k", b"{\"messages\":").0, 400);
    let long = json!({"messages": [{"role": "user", "content": "word ".repeat(40)}]});
    let (status, value) = send("k", &body(true, long));
    assert_eq!(
        (status, &value["error"]["type"], &value["error"]["n_ctx"]),
        (400, &json!("exceed_context_size_error"), &json!(20))
    );
    let (status, _) = send("k", &body(false, json!({"model": "sim-exact"})));
    assert_eq!(status, 200);
}

#[test]
fn pages_tell_health_models_and_counters_at_their_time() {
    let mut engine = engine(|_| {});
    assert_eq!(get(&mut engine, 0, "/health"), (200, "{\"status\":\"ok\"}".to_owned()));
    assert!(get(&mut engine, 0, "/v1/models").1.contains("sim-exact"));
    assert!(get(&mut engine, 0, "/props").1.contains("total_slots"));
    assert_eq!(get(&mut engine, 0, "/nowhere").0, 404);
    ask(&mut engine, 0);
    let tokens = tokens::split(ANSWER).len();
    assert!(get(&mut engine, 60, "/metrics").1.contains("llamacpp:tokens_predicted_total 0\n"));
    let page = get(&mut engine, 5_000, "/metrics").1;
    assert!(page.contains(&format!("llamacpp:tokens_predicted_total {tokens}\n")), "{page}");
    assert!(page.contains("llamacpp:prompt_seconds_total 0.05\n"), "{page}");
}

#[test]
fn faults_at_the_door() {
    let with = |kind, change: fn(&mut Fault)| {
        let mut fault = Fault::always(kind);
        change(&mut fault);
        ask(&mut faulty(&[fault]), 3)
    };
    let status = |script: &Script| script.head.as_ref().map(|h| h.status);
    assert_eq!(status(&with(FaultKind::Http500, |_| {})), Some(500));
    assert_eq!(status(&with(FaultKind::Http500, |f| f.status = Some(502))), Some(502));
    assert_eq!(status(&with(FaultKind::Loading, |_| {})), Some(503));
    let limited = with(FaultKind::Http429, |f| f.retry_after_s = Some(3.0));
    assert_eq!(status(&limited), Some(429));
    assert!(limited.head.unwrap().headers.contains(&("retry-after".to_owned(), "3".to_owned())));
    let html = with(FaultKind::HtmlPage, |_| {});
    assert!(status(&html) == Some(200) && html.body().starts_with(b"<!DOCTYPE html>"));
    let empty = with(FaultKind::Empty, |_| {});
    assert!(status(&empty) == Some(200) && empty.body().is_empty() && empty.end == End::Complete);
    let hang = with(FaultKind::Hang, |_| {});
    assert_eq!((hang.head.is_none(), hang.end), (true, End::Hang));
    let dropped = with(FaultKind::Drop, |_| {});
    assert_eq!((dropped.head.is_none(), dropped.end), (true, End::Cut));
}

fn struck(kind: FaultKind, change: impl FnOnce(&mut Fault)) -> Script {
    let mut fault = Fault::always(kind);
    change(&mut fault);
    ask(&mut faulty(&[fault]), 0)
}

#[test]
fn faults_that_break_a_stream_off() {
    let cut = struck(FaultKind::Cut, |f| f.after_tokens = Some(3));
    assert_eq!((text(&cut).as_str(), cut.end, cut.end_at), ("The capital", End::Cut, Mono(70 * MS)));
    let hang = struck(FaultKind::Hang, |f| f.after_tokens = Some(3));
    assert_eq!((text(&hang).as_str(), hang.end), ("The capital", End::Hang));
    let error = struck(FaultKind::ErrorInStream, |f| f.after_tokens = Some(1));
    assert_eq!((text(&error).as_str(), error.end), ("The", End::Complete));
    assert_eq!(chunks(&error).last().unwrap()["error"]["code"], 500);
    let first = struck(FaultKind::ErrorInStream, |_| {});
    assert_eq!(chunks(&first).iter().filter(|c| !c["error"].is_null()).count(), 1);
    let open = struck(FaultKind::KeepOpen, |_| {});
    assert_eq!((events(&open).last().unwrap().as_str(), open.end), ("[DONE]", End::Hang));
    let broken = struck(FaultKind::MalformedJson, |f| f.after_tokens = Some(2));
    let unread = events(&broken).iter().filter(|e| *e != "[DONE]" && serde_json::from_str::<Value>(e).is_err()).count();
    assert_eq!((unread, text(&broken).as_str()), (1, ANSWER));
    assert_eq!(struck(FaultKind::CloseAfter, |_| {}).close, Some(Close::Silent));
}

#[test]
fn faults_of_what_a_stream_tells() {
    let has_finish = |s: &Script| chunks(s).iter().any(|c| c["choices"][0]["finish_reason"].is_string());
    let usages = |s: &Script| chunks(s).iter().filter(|c| c["usage"].is_object()).count();
    let tokens = tokens::split(ANSWER).len();
    assert!(!events(&struck(FaultKind::NoDone, |_| {})).contains(&"[DONE]".to_owned()));
    let unfinished = struck(FaultKind::NoFinish, |_| {});
    assert_eq!((has_finish(&unfinished), usages(&unfinished)), (false, 1));
    let untold = struck(FaultKind::NoUsage, |_| {});
    assert_eq!((has_finish(&untold), usages(&untold)), (true, 0));
    assert_eq!(usages(&struck(FaultKind::UsageInEveryChunk, |_| {})), tokens + 3);
    let with_finish = struck(FaultKind::UsageWithFinish, |_| {});
    let last = chunks(&with_finish).pop().unwrap();
    assert_eq!(
        (&last["choices"][0]["finish_reason"], &last["usage"]["completion_tokens"]),
        (&json!("stop"), &json!(tokens))
    );
    assert_eq!(usages(&with_finish), 1);
    assert!(chunks(&struck(FaultKind::UsageNullChoices, |_| {})).last().unwrap()["choices"].is_null());
    let silent = struck(FaultKind::EmptyAnswer, |_| {});
    assert_eq!((text(&silent).as_str(), has_finish(&silent)), ("", true));
    let refusal = struck(FaultKind::Refusal, |_| {});
    assert!(chunks(&refusal).iter().any(|c| c["choices"][0]["finish_reason"] == "content_filter"));
    let filter = chunks(&struck(FaultKind::FilterResults, |_| {}));
    assert!(filter[0]["choices"] == json!([]) && filter[0]["prompt_filter_results"].is_array());
    let mut looping = faulty(&[Fault::always(FaultKind::Loop)]);
    let looped = post(&mut looping, 0, &body(true, json!({"max_tokens": 30})));
    assert!(text(&looped).starts_with("and so on and so on"));
    assert!(chunks(&looped).iter().any(|c| c["choices"][0]["finish_reason"] == "length"));
}

#[test]
fn faults_of_when_a_stream_tells() {
    let early = struck(FaultKind::EarlyRole, |_| {});
    assert_eq!(instants(&early, 0)[..2], [5, 50]);
    assert_eq!(chunks(&early)[0]["choices"][0]["delta"]["role"], "assistant");
    assert!(chunks(&struck(FaultKind::NoRole, |_| {})).iter().all(|c| c["choices"][0]["delta"]["role"].is_null()));
    let stalled = struck(FaultKind::Stall, |f| (f.after_tokens, f.ms) = (Some(2), Some(500.0)));
    assert_eq!(instants(&stalled, 0)[..4], [50, 60, 570, 580]);
    let burst = struck(FaultKind::BurstFirst, |_| {});
    let first = chunks(&burst).into_iter().find(|c| c["choices"][0]["delta"]["content"].is_string()).unwrap();
    assert_eq!(first["choices"][0]["delta"]["content"], tokens::split(ANSWER)[..5].concat());
    let packet = struck(FaultKind::OnePacket, |_| {});
    assert_eq!((packet.frames.len(), text(&packet).as_str()), (1, ANSWER));
    assert_eq!(packet.head.unwrap().at, packet.end_at);
}

#[test]
fn reasoning_comes_first_and_counts_as_completion() {
    let deltas = |s: &Script, field: &str| -> Vec<bool> {
        chunks(s).iter().map(|c| c["choices"][0]["delta"][field].is_string()).collect()
    };
    let plain = struck(FaultKind::Reasoning, |f| f.tokens = Some(6));
    let reasons = deltas(&plain, "reasoning_content");
    let first_content = deltas(&plain, "content").iter().position(|c| *c).unwrap();
    assert!(reasons.iter().rposition(|r| *r).unwrap() < first_content);
    assert_eq!(text(&plain), ANSWER);
    let usage = &chunks(&plain).pop().unwrap()["usage"];
    let thought = usage["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap();
    assert_eq!(usage["completion_tokens"], thought + tokens::split(ANSWER).len() as u64);
    let mixed = struck(FaultKind::MixedReasoning, |f| f.tokens = Some(6));
    let both =
        deltas(&mixed, "reasoning_content").iter().zip(deltas(&mixed, "content")).filter(|(r, c)| **r && *c).count();
    assert_eq!((both, text(&mixed).as_str()), (1, ANSWER));
}

#[test]
fn faults_of_lines_keep_the_text() {
    let raw = |kind| String::from_utf8(struck(kind, |_| {}).body()).unwrap();
    let plain = String::from_utf8(ask(&mut engine(|_| {}), 0).body()).unwrap();
    assert_eq!(raw(FaultKind::Crlf), plain.replace('\n', "\r\n"));
    assert_eq!(raw(FaultKind::Cr), plain.replace('\n', "\r"));
    assert_eq!(raw(FaultKind::NoSpace), plain.replace("data: ", "data:"));
    assert_eq!(raw(FaultKind::NoFinalBlank), plain.strip_suffix('\n').unwrap());
    assert!(raw(FaultKind::Comments).starts_with(": ping 0\n\ndata: {"));
    assert!(raw(FaultKind::EventLines).starts_with("event: message\nid: 0\ndata: {"));
    let spread = raw(FaultKind::MultiLine);
    let joined = spread.split("\n\n").next().unwrap().replace("data: ", "");
    assert!(joined.contains('\n') && serde_json::from_str::<Value>(&joined).is_ok(), "{joined}");
    let padded = struck(FaultKind::Padding, |f| f.bytes = Some(5_000));
    assert_eq!((padded.frames[0].bytes.len(), text(&padded).as_str()), (5_003, ANSWER));
}

#[test]
fn a_broken_answer_without_stream_is_short_or_no_json() {
    let with = |kind| post(&mut faulty(&[Fault::always(kind)]), 0, &body(false, json!({})));
    let cut = with(FaultKind::Cut);
    assert!(cut.end == End::Cut && cut.body().len() < cut.head.as_ref().unwrap().content_length.unwrap());
    let broken = with(FaultKind::MalformedJson);
    assert!(broken.end == End::Complete && serde_json::from_slice::<Value>(&broken.body()).is_err());
    assert_eq!(broken.head.as_ref().unwrap().content_length, Some(broken.body().len()));
    let error: Value = serde_json::from_slice(&with(FaultKind::ErrorInStream).body()).unwrap();
    assert_eq!(error["error"]["code"], 500);
}

#[test]
fn faults_strike_their_share_by_request_or_by_sample() {
    use crate::deploy::simulated::StrikesBy::{Request, Sample};
    let asked = |by, rate: f64, at: Vec<u64>| -> Vec<bool> {
        let fault = Fault { rate, by, at, ..Fault::always(FaultKind::Http500) };
        let mut engine = faulty(&[fault]);
        let prompts = (0..500).chain(0..500);
        prompts
            .map(|i| {
                let body = json!({"messages": [{"role": "user", "content": format!("prompt {i}")}]}).to_string();
                post(&mut engine, 0, body.as_bytes()).head.unwrap().status == 500
            })
            .collect()
    };
    let by_request = asked(Request, 0.1, vec![]);
    let hit = by_request.iter().filter(|s| **s).count();
    assert!((70..130).contains(&hit), "{hit} of 1000 at 10 %");
    assert_ne!(by_request[..500], by_request[500..]);
    let by_sample = asked(Sample, 0.1, vec![]);
    assert_eq!(by_sample[..500], by_sample[500..]);
    let numbered = asked(Request, 0.0, vec![3, 8]);
    assert_eq!(numbered.iter().enumerate().filter_map(|(i, s)| s.then_some(i)).collect::<Vec<_>>(), [3, 8]);
}

#[test]
fn a_twin_flips_where_its_calls_waver_and_otherwise_says_the_same() {
    let prompts: Vec<String> =
        (0..600).map(|i| format!("Which city is number {i} of the long list of cities?")).collect();
    let book = AnswerBook::from_rows(&prompts, |p| {
        Some(Entry::new(p.clone(), format!("Town {}", p.len() * 7 + p.as_bytes()[p.len() - 30] as usize)))
    });
    let texts = |verdict: f64| -> (Vec<String>, Vec<String>) {
        let mut profile = exact(|p| p.nondeterminism.verdict = verdict);
        profile.errors = ErrorModel { common: 0.1, ..ErrorModel::default() };
        let mut engine = Engine::new(profile, book.clone(), 1);
        let mut arm = || {
            prompts
                .iter()
                .map(|p| {
                    let body = json!({"messages": [{"role": "user", "content": p}], "temperature": 0, "stream": true});
                    text(&post(&mut engine, 0, body.to_string().as_bytes()))
                })
                .collect::<Vec<_>>()
        };
        (arm(), arm())
    };
    let (arm, twin) = texts(0.0);
    assert_eq!(arm, twin);
    let (arm, twin) = texts(0.02);
    let flips = arm.iter().zip(&twin).filter(|(a, b)| a != b).count();
    assert!((8..45).contains(&flips), "{flips} of 600 for twice 2 %");
}

#[test]
fn hostile_requests_get_an_answer_and_no_panic() {
    let mut engine = engine(|_| {});
    let bodies: [&[u8]; 7] = [
        b"",
        b"\xff\xfe",
        b"null",
        b"{\"messages\":[{}],\"max_tokens\":0,\"stream\":true}",
        b"{\"messages\":[{\"content\":{\"a\":1}}],\"stop\":[\"\"],\"temperature\":1e300}",
        b"{\"messages\":[{\"content\":\"x\"}],\"max_tokens\":-1}",
        b"{\"messages\":[{\"content\":\"x\"}],\"seed\":-9223372036854775808}",
    ];
    for body in bodies {
        let script = post(&mut engine, 0, body);
        assert!(script.head.is_some());
    }
    for (method, path) in [("DELETE", "/v1/models"), ("GET", ""), ("POST", "?"), ("", "/")] {
        let request = Request { method, path, headers: &[], body: b"" };
        assert!(engine.on_request(Mono(0), &request).head.unwrap().status >= 404);
    }
}
