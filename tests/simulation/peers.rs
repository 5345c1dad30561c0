//! What other clients of this field got wrong, one test each, against a server that does exactly that. The numbers are
//! those of the reference's list of cases (T1 – T26); those that need a socket are in `tests/streams`.

use std::sync::Arc;

use counterpoise::analyze::{self, AnalyzeInput, Summary};
use counterpoise::deploy::simulated::Profile;
use counterpoise::deploy::{Deadline, Outcome, Provenance};
use counterpoise::drive::{Attempt, Event};
use counterpoise::grade::RunGrader;
use counterpoise::plan::Phase;
use serde_json::{Value, json};

use crate::harness::{Run, Sim, profile};
use crate::measured;

const ANSWER: &str = "seventeen quiet herons stood along the northern shore waiting for the tide to turn";

/// A suite of one deployment whose rows are answered by their `answer`.
fn suite(samples: usize, answer: &str, more: &str) -> String {
    let rows: Vec<Value> =
        (0..samples).map(|n| json!({"question": format!("Question {n}?"), "answer": answer})).collect();
    let load = if more.contains("load:") { "" } else { "load: {concurrency: 2, warmup_requests: 0}\n" };
    format!(
        "suite: peers\ndeployments:\n  only: {{api: simulated}}\n{load}{more}\
         tasks:\n  - name: t\n    prompt: \"{{{{ question }}}}\"\n    graders: [{{exact: {{}}}}]\n    cases: {}\n",
        serde_json::to_string(&rows).unwrap()
    )
}

/// TTFT 50 ms, a token every 10 ms, with faults and more.
fn exact(more: Value) -> Profile {
    let mut fields = json!({"ttft_ms": {"fixed": 50.0}, "token_gap_ms": {"fixed": 10.0}});
    for (key, value) in more.as_object().unwrap() {
        fields[key] = value.clone();
    }
    profile(fields)
}

fn fault(kind: &str) -> Value {
    json!({"faults": [{"kind": kind, "rate": 1.0}]})
}

async fn asked(suite: &str, profile: Profile) -> Run {
    Sim::new(suite).with("only", profile).run().await
}

/// The one attempt of a run of one request.
async fn one(more: Value) -> Attempt {
    let run = asked(&suite(1, ANSWER, ""), exact(more)).await;
    let attempts = measured(&run.events);
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    attempts[0].clone()
}

fn summary(run: &Run) -> Summary {
    let grader = RunGrader::new(&run.plan.suite.tasks, Arc::clone(&run.plan)).unwrap();
    let graded: Vec<_> = measured(&run.events).into_iter().filter(|a| a.last).filter_map(|a| grader.grade(a)).collect();
    let journal = || -> Result<Box<dyn Iterator<Item = Result<Event, String>>>, String> {
        Ok(Box::new(run.events.clone().into_iter().map(Ok)))
    };
    let scores = || -> Result<Box<dyn Iterator<Item = Result<counterpoise::grade::ScoreRecord, String>>>, String> {
        Ok(Box::new(graded.clone().into_iter().map(Ok)))
    };
    analyze::analyze(&AnalyzeInput { plan: &run.plan, journal: &journal, scores: &scores }).unwrap()
}

fn ttft_ms(a: &Attempt) -> Option<f64> {
    analyze::figures::ttft_ms(a)
}

fn near(value: Option<f64>, expected: f64) -> bool {
    // tokio's timer is a millisecond coarse.
    value.is_some_and(|v| (v - expected).abs() <= 1.5)
}

#[tokio::test(start_paused = true)]
async fn t1_a_role_alone_is_no_token() {
    let early = json!({"ttft_ms": {"fixed": 200.0}, "faults": [{"kind": "early_role", "rate": 1.0, "ms": 5.0}]});
    let attempt = one(early).await;
    assert!(near(ttft_ms(&attempt), 200.0), "{:?}", attempt.timeline);
    let first_event = attempt.timeline.first_event_us.unwrap() - attempt.timeline.sent_us.unwrap();
    assert!(first_event < 10_000, "the role did come early: {first_event}");
}

#[tokio::test(start_paused = true)]
async fn t2_reasoning_is_the_first_token_and_content_the_first_answer() {
    let thinks = json!({"ttft_ms": {"fixed": 28_000.0}, "faults": [{"kind": "reasoning", "rate": 1.0, "tokens": 100}]});
    let attempt = one(thinks.clone()).await;
    assert!(near(ttft_ms(&attempt), 28_000.0), "{:?}", attempt.timeline);
    let ttfa = analyze::figures::ttfa_ms(&attempt).unwrap();
    assert!((28_900.0..30_000.0).contains(&ttfa), "a hundred words of reasoning at 10 ms a token: {ttfa}");
    assert_eq!(attempt.text, ANSWER);
    let mut mixed = thinks;
    mixed["faults"] = json!([
        {"kind": "reasoning", "rate": 1.0, "tokens": 100}, {"kind": "mixed_reasoning", "rate": 1.0}
    ]);
    let attempt = one(mixed).await;
    let (first, answer) = (attempt.timeline.first_token_us.unwrap(), attempt.timeline.first_answer_us.unwrap());
    assert!(answer > first && answer - first < 2_000_000, "the mixed chunk is the first answer: {first} {answer}");
    assert_eq!(attempt.text, ANSWER);
}

#[tokio::test(start_paused = true)]
async fn t3_tokens_bundled_in_the_first_chunk_do_not_speed_up_the_rest() {
    let bundled = |usage: bool| {
        let mut faults = vec![json!({"kind": "burst_first", "rate": 1.0, "tokens": 5})];
        if usage {
            faults.push(json!({"kind": "usage_in_every_chunk", "rate": 1.0}));
        }
        json!({"faults": faults})
    };
    let told = one(bundled(true)).await;
    assert_eq!(told.arrival_tokens.first(), Some(&5));
    let tpot = analyze::figures::tpot_ms(&told).unwrap();
    assert!((tpot - 10.0).abs() < 0.2, "{tpot}");
    // Without counts for each chunk nobody can say how many tokens the first one held: that is said.
    let run = asked(&suite(40, ANSWER, ""), exact(bundled(false))).await;
    let codes: Vec<String> = summary(&run).validity.into_iter().map(|f| f.code).collect();
    assert!(codes.contains(&"first_chunk_unknown".to_owned()), "{codes:?}");
    let plain = asked(&suite(40, ANSWER, ""), exact(json!({}))).await;
    assert!(summary(&plain).validity.iter().all(|f| f.code != "first_chunk_unknown"));
}

#[tokio::test(start_paused = true)]
async fn t4_eight_tokens_in_a_chunk_count_as_eight() {
    let eight = json!({"tokens_per_event": [0, 0, 0, 0, 0, 0, 0, 1]});
    let run = asked(&suite(40, &[ANSWER; 4].join(" "), ""), exact(eight)).await;
    for attempt in measured(&run.events) {
        let (tokens, provenance) = attempt.output_tokens.unwrap();
        assert_eq!(provenance, Provenance::Server);
        assert!(attempt.arrival_gaps_us.len() as u64 * 7 < tokens, "{} events", attempt.arrival_gaps_us.len());
    }
    let summary = summary(&run);
    let arm = &summary.arms["only"];
    assert!(arm.latency.itl_ms.is_none(), "gaps between chunks are no gaps between tokens");
    // 8 tokens every 10 ms, two lanes, less the wait for the first token.
    let rate = arm.throughput.output_tokens_per_s.unwrap();
    assert!((700.0..1_700.0).contains(&rate), "{rate}");
}

#[tokio::test(start_paused = true)]
async fn t5_every_way_to_write_an_event_reads_alike() {
    let plain = one(json!({})).await;
    for kind in ["crlf", "cr", "no_space", "comments", "event_lines", "multi_line", "no_final_blank"] {
        for chunk_bytes in [None, Some(1), Some(7)] {
            let mut more = fault(kind);
            more["shape"] = json!({"chunk_bytes": chunk_bytes});
            let attempt = one(more).await;
            assert_eq!(attempt.outcome, Outcome::Completed, "{kind} {chunk_bytes:?}: {:?}", attempt.error);
            assert_eq!(attempt.text, plain.text, "{kind} {chunk_bytes:?}");
            assert_eq!(attempt.output_tokens, plain.output_tokens, "{kind} {chunk_bytes:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn t6_characters_cut_in_two_stay_whole() {
    let text = "Überfluß 東京 🦢🧭 naïve \u{1F469}\u{200D}\u{1F52C} \"quoted\\path\" end";
    for chunk_bytes in [1, 2, 3, 5] {
        let run = asked(&suite(1, text, ""), exact(json!({"shape": {"chunk_bytes": chunk_bytes}}))).await;
        assert_eq!(measured(&run.events)[0].text, text, "pieces of {chunk_bytes} bytes");
    }
}

#[tokio::test(start_paused = true)]
async fn t7_usage_is_found_wherever_it_stands() {
    let plain = one(json!({})).await.output_tokens.unwrap();
    assert_eq!(plain.1, Provenance::Server);
    for kind in ["usage_null_choices", "usage_with_finish", "usage_in_every_chunk"] {
        assert_eq!(one(fault(kind)).await.output_tokens, Some(plain), "{kind}");
    }
    let (events, provenance) = one(fault("no_usage")).await.output_tokens.unwrap();
    assert_eq!((events, provenance), (plain.0, Provenance::Events), "one token for each event here, and marked");
}

#[tokio::test(start_paused = true)]
async fn t8_a_first_chunk_without_choices_is_no_token() {
    let attempt = one(fault("filter_results")).await;
    assert_eq!(attempt.outcome, Outcome::Completed);
    assert!(near(ttft_ms(&attempt), 50.0), "{:?}", attempt.timeline);
}

#[tokio::test(start_paused = true)]
async fn t9_an_error_inside_a_good_response_is_an_error_and_keeps_what_came() {
    for (kind, after) in [("error_in_stream", 0), ("error_in_stream", 4), ("html_page", 0), ("empty", 0)] {
        let more = json!({"faults": [{"kind": kind, "rate": 1.0, "after_tokens": after}]});
        let run = asked(&suite(1, ANSWER, "retry: {max_attempts: 1}\n"), exact(more)).await;
        let attempt = measured(&run.events)[0];
        assert!(attempt.outcome.is_error(), "{kind}: {:?}", attempt.outcome);
        assert_eq!(attempt.status, Some(200), "{kind}");
        assert!(attempt.error.as_deref().is_some_and(|e| e.len() > 8), "{kind}: {:?}", attempt.error);
        if after > 0 {
            assert!(ANSWER.starts_with(&attempt.text) && !attempt.text.is_empty(), "{kind}: {:?}", attempt.text);
        }
        let arm = &summary(&run).arms["only"];
        assert!(arm.latency.ttft_ms.is_none(), "{kind}: no 0 is averaged in");
    }
}

#[tokio::test(start_paused = true)]
async fn t10_a_stream_that_breaks_off_keeps_its_tokens() {
    let cut = json!({"faults": [{"kind": "cut", "rate": 1.0, "after_tokens": 10}]});
    let run = asked(&suite(30, ANSWER, "retry: {max_attempts: 1}\n"), exact(cut)).await;
    for attempt in measured(&run.events) {
        assert_eq!(attempt.outcome, Outcome::InterruptedStream);
        assert_eq!(attempt.arrival_gaps_us.len(), 10);
    }
    let rate = summary(&run).arms["only"].throughput.output_tokens_per_s.unwrap();
    // Two lanes, 10 tokens in 50 + 9 × 10 ms each.
    assert!((rate / (2.0 * 10.0 / 0.140) - 1.0).abs() < 0.1, "{rate}");
    let no_done = one(fault("no_done")).await;
    assert_eq!(no_done.outcome, Outcome::Completed, "a finish reason ends an answer too");
    let neither = json!({"faults": [{"kind": "no_done", "rate": 1.0}, {"kind": "no_finish", "rate": 1.0}]});
    let run = asked(&suite(1, ANSWER, "retry: {max_attempts: 1}\n"), exact(neither)).await;
    assert_eq!(measured(&run.events)[0].outcome, Outcome::InterruptedStream);
}

#[tokio::test(start_paused = true)]
async fn t11_a_response_that_never_ends_is_complete_when_it_says_so() {
    let attempt = one(fault("keep_open")).await;
    assert_eq!(attempt.outcome, Outcome::Completed);
    assert!(analyze::figures::e2e_ms(&attempt).is_some_and(|ms| ms < 1_000.0), "{:?}", attempt.timeline);
}

#[tokio::test(start_paused = true)]
async fn t15_a_run_of_one_request_prints_no_percentile_and_a_lone_token_no_pace() {
    let run = asked(&suite(1, "yes", ""), exact(json!({}))).await;
    let arm = &summary(&run).arms["only"];
    let ttft = arm.latency.ttft_ms.as_ref().unwrap();
    assert_eq!((ttft.n, ttft.p50, ttft.p99), (1, None, None));
    assert!(arm.latency.tpot_ms.is_none(), "one token has no time per token");
    let run = asked(&suite(1, "yes", ""), exact(fault("empty_answer"))).await;
    let arm = &summary(&run).arms["only"];
    assert_eq!(measured(&run.events)[0].outcome, Outcome::Empty);
    assert!(arm.latency.ttft_ms.is_none() && arm.latency.tpot_ms.is_none());
}

/// Every request is given up at its deadline: what came until then was work all the same.
#[tokio::test(start_paused = true)]
async fn t16_tokens_of_requests_that_end_at_their_deadline_count() {
    let long = [ANSWER; 20].join(" ");
    let text = suite(24, &long, "retry: {max_attempts: 1}\nload: {concurrency: 4, start: burst, warmup_requests: 0}\n")
        .replace("{api: simulated}", "{api: simulated, timeouts: {total: 1050ms}}");
    let run =
        asked(&text.replace("suite: peers", "suite: peers\nsampling: {max_tokens: 4096}"), exact(json!({}))).await;
    for attempt in measured(&run.events) {
        assert_eq!(attempt.outcome, Outcome::Timeout(Deadline::Total));
        assert!(analyze::figures::e2e_ms(attempt).is_some_and(|ms| ms < 1_060.0));
    }
    let rate = summary(&run).arms["only"].throughput.output_tokens_per_s.unwrap();
    // 101 tokens in 1050 ms on each of four lanes.
    let truth = 4.0 * 101.0 / 1.050;
    assert!((rate / truth - 1.0).abs() < 0.02, "{rate} for {truth}");
}

#[tokio::test(start_paused = true)]
async fn t17_a_wait_that_the_server_asked_for_is_part_of_the_response() {
    let once = json!({"faults": [{"kind": "http_429", "at": [3], "retry_after_s": 3.0}]});
    let load = "load: {mode: open, arrivals: {process: constant, rate_per_s: 2}, warmup_requests: 0}\n";
    let run = asked(&suite(12, ANSWER, load), exact(once)).await;
    let attempts = measured(&run.events);
    let limited = attempts.iter().find(|a| a.outcome == Outcome::RateLimited).unwrap();
    assert!(!limited.last);
    let again = attempts.iter().find(|a| a.unit == limited.unit && a.attempt == 2).unwrap();
    let response = analyze::figures::response_ms(again).unwrap();
    assert!((3_000.0..3_400.0).contains(&response), "{response}");
    assert_eq!(again.timeline.intended_us, limited.timeline.intended_us);
    let e2e = analyze::figures::e2e_ms(again).unwrap();
    assert!(e2e < 400.0, "the attempt's own time stays its own: {e2e}");
    assert!(analyze::figures::dispatch_lag_ms(again).is_none(), "a retry is late on purpose");
}

#[tokio::test(start_paused = true)]
async fn t25_tokens_of_one_packet_have_no_pace() {
    let run = asked(&suite(60, ANSWER, ""), exact(fault("one_packet"))).await;
    let arm = &summary(&run).arms["only"];
    assert!(arm.latency.itl_ms.is_none() && arm.latency.tpot_ms.is_none());
    assert!(arm.latency.e2e_ms.is_some(), "the end of the answer stands");
    let tokens: u64 = measured(&run.events).iter().map(|a| a.output_tokens.unwrap().0).sum();
    assert_eq!(arm.tokens.output, Some(tokens), "counts come from usage");
}

#[tokio::test(start_paused = true)]
async fn warm_up_is_never_counted() {
    let run = asked(&suite(20, ANSWER, "load: {concurrency: 2, warmup_requests: 6}\n"), exact(json!({}))).await;
    let warm = |e: &&Event| matches!(e, Event::Attempt(a) if a.phase == Phase::Warmup);
    assert_eq!(run.events.iter().filter(warm).count(), 6);
    let summary = summary(&run);
    assert_eq!(summary.arms["only"].requests["planned"], 20);
    assert_eq!(summary.arms["only"].latency.e2e_ms.as_ref().unwrap().n, 20);
}

/// A client that interleaves single requests of two arms in one closed loop gives both the same rate.
#[tokio::test(start_paused = true)]
async fn an_arm_twice_as_fast_shows_twice_the_rate_and_half_the_wait() {
    let arm = |scale: f64| {
        json!({
            "ttft_ms": {"median": 40.0 * scale, "p95": 60.0 * scale},
            "token_gap_ms": {"fixed": 10.0 * scale},
        })
    };
    let text = crate::harness::suite(480, 4, "");
    let run = Sim::new(&text).with("base", profile(arm(1.0))).with("fast", profile(arm(0.5))).run().await;
    let summary = summary(&run);
    let comparison = summary.comparisons.iter().find(|c| c.candidate == "fast").unwrap();
    for (metric, truth) in [("requests_per_s", 2.0), ("ttft_p50", 0.5), ("tpot_p50", 0.5), ("e2e_p50", 0.5)] {
        let ratio = &comparison.speed[metric];
        let (low, high) = (ratio.low.unwrap(), ratio.high.unwrap());
        assert!(low <= truth * 1.04 && truth * 0.96 <= high, "{metric}: {ratio:?}");
        assert!(ratio.point.is_some_and(|point| (point / truth - 1.0).abs() < 0.08), "{metric}: {ratio:?}");
    }
    for arm in ["base", "base-twin", "fast"] {
        let peak = run.transport.stats(arm.trim_end_matches("-twin")).unwrap().peak_in_flight;
        assert_eq!(peak, 4, "{arm}");
    }
}

/// A prompt is read at a thousand tokens a second, and the first token may take half a second.
#[tokio::test(start_paused = true)]
async fn a_sweep_over_lengths_finds_the_longest_prompt_within_the_slo() {
    let more = "sweep: {over: prompt_tokens, steps: [100, 200, 400, 800], step: {duration: 10s, warmup: 1s, min_requests: 80}}\n\
                slo: {ttft_p90: 500ms}\n";
    let reads = exact(json!({"ttft_ms": {"fixed": 10.0}, "prefill_ms_per_token": 1.0}));
    let run = Sim::sweep(&suite(40, ANSWER, more)).with("only", reads).run().await;
    for (stage, tokens) in [(0, 100.0), (1, 200.0), (2, 400.0), (3, 800.0)] {
        let own: Vec<_> = run.plan.samples.iter().filter(|s| s.stage == Some(stage)).collect();
        assert_eq!(own.len(), 40, "every sample has a prompt of the step's length");
        for sample in own {
            let chars: usize = sample.messages.iter().map(|m| m.content.chars().count()).sum();
            assert!((chars as f64 / 4.0 / tokens - 1.0).abs() < 0.15, "{chars} characters for {tokens} tokens");
        }
        assert!(
            measured(&run.events)
                .iter()
                .filter(|a| a.stage == stage)
                .all(|a| { run.plan.samples[a.sample as usize].stage == Some(stage) })
        );
    }
    let summary = summary(&run);
    let sweep = summary.sweep.as_ref().unwrap();
    assert_eq!(sweep.over, "prompt_tokens");
    let arm = &sweep.arms["only"];
    let longest = arm.longest.as_ref().unwrap();
    assert_eq!((longest.tokens, longest.at_least), (Some(400.0), false), "{}", longest.reason);
    assert!(arm.saturation.is_none() && arm.bracket.is_none(), "no load was raised");
}
