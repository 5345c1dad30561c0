use std::collections::BTreeMap;

use serde_json::json;

use crate::analyze::figures;
use crate::analyze::testkit::{Answer, Kit, right, suite};
use crate::deploy::{Outcome, Provenance};
use crate::drive::{Attempt, Event};
use crate::spec::{Load, Start};

fn attempt(answer: Answer) -> Attempt {
    let kit = Kit::play(&suite(1), |_, _, _| answer.clone());
    let found = kit.events.into_iter().find_map(|event| match event {
        Event::Attempt(attempt) => Some(*attempt),
        _ => None,
    });
    found.unwrap()
}

#[test]
fn tokens_counted_by_events_prove_no_tokens_per_event() {
    let mut counted = attempt(right());
    assert!(figures::itl_us(&counted).is_some());
    counted.output_tokens = Some((10, Provenance::Events));
    counted.arrival_tokens.clear();
    assert_eq!(figures::itl_us(&counted), None);
}

#[test]
fn the_definitions_hold_on_a_plain_stream() {
    let attempt = attempt(right());
    assert_eq!(figures::ttft_ms(&attempt), Some(50.0));
    assert_eq!(figures::tpot_ms(&attempt), Some(10.0));
    assert_eq!(figures::e2e_ms(&attempt), Some(141.0));
    assert_eq!(figures::last_token_ms(&attempt), Some(140.0));
    assert_eq!(figures::itl_us(&attempt), Some(vec![10_000; 9]));
    assert_eq!(figures::response_ms(&attempt), None);
}

#[test]
fn one_token_has_no_time_per_token() {
    let attempt = attempt(Answer { tokens: 1, ..right() });
    assert_eq!(figures::tpot_ms(&attempt), None);
    assert_eq!(figures::itl_us(&attempt), Some(Vec::new()));
}

#[test]
fn tokens_of_the_first_chunk_and_hidden_reasoning_are_no_part_of_the_divisor() {
    let mut first_chunk = attempt(Answer { tokens: 4, ..right() });
    first_chunk.arrival_tokens = vec![3, 1, 1, 1];
    first_chunk.output_tokens = Some((6, Provenance::Server));
    assert_eq!(figures::tpot_ms(&first_chunk), Some(10.0));
    let mut hidden = attempt(right());
    hidden.output_tokens = Some((60, Provenance::Server));
    hidden.usage.reasoning_tokens = Some(50);
    assert_eq!(figures::tpot_ms(&hidden), Some(10.0));
    hidden.usage.reasoning_tokens = Some(59);
    assert_eq!(figures::tpot_ms(&hidden), None);
    hidden.usage.reasoning_tokens = Some(100);
    assert_eq!(figures::tpot_ms(&hidden), None);
}

#[test]
fn tokens_at_one_instant_have_no_time_per_token() {
    let attempt = attempt(Answer { gap_us: 0, ..right() });
    assert_eq!(figures::tpot_ms(&attempt), None);
}

#[test]
fn events_that_carry_several_tokens_give_no_inter_token_latency() {
    let mut several = attempt(right());
    several.output_tokens = Some((13, Provenance::Server));
    assert_eq!(figures::itl_us(&several), None);
    several.output_tokens = Some((12, Provenance::Server));
    assert!(figures::itl_us(&several).is_some());
    // Where the server tells the tokens of each event, they share its gap.
    several.output_tokens = Some((19, Provenance::Server));
    several.arrival_tokens = vec![1, 2, 2, 2, 2, 2, 2, 2, 2, 2];
    assert_eq!(figures::itl_us(&several), Some(vec![5_000; 18]));
}

#[test]
fn without_streaming_there_is_no_first_token() {
    let mut whole = attempt(right());
    whole.stream = false;
    assert_eq!(figures::ttft_ms(&whole), None);
    assert_eq!(figures::tpot_ms(&whole), None);
    assert_eq!(figures::itl_us(&whole), None);
    assert_eq!(figures::e2e_ms(&whole), Some(141.0));
}

#[test]
fn instants_in_the_wrong_order_give_no_negative_latency() {
    let mut odd = attempt(right());
    odd.timeline.first_token_us = Some(0);
    assert_eq!(figures::ttft_ms(&odd), None);
    odd.timeline.eof_us = None;
    assert_eq!(figures::e2e_ms(&odd), None);
}

#[test]
fn an_interrupted_stream_without_usage_counts_its_events_as_tokens() {
    let mut cut = attempt(Answer { outcome: Outcome::InterruptedStream, usage: false, tokens: 4, ..right() });
    cut.output_tokens = None;
    let tokens: f64 = figures::token_events(&cut).iter().map(|(_, tokens)| tokens).sum();
    assert!((tokens - 4.0).abs() < 1e-12);
}

#[test]
fn server_timings_that_are_nonsense_are_absent() {
    let mut odd = attempt(right());
    odd.server_timings = Some(json!({"prompt_ms": -1, "predicted_per_token_ms": 0, "draft_n": "x"}));
    assert_eq!(figures::server_timings(&odd), figures::ServerTimings::default());
    odd.server_timings = Some(json!([1]));
    assert_eq!(figures::server_timings(&odd), figures::ServerTimings::default());
}

#[test]
fn the_validity_of_gaps_between_tokens_is_told_with_its_reason() {
    let mut kit = Kit::play(&suite(20), |_, _, _| right());
    for attempt in kit.attempts().filter(|attempt| attempt.arm == "cand").take(5) {
        attempt.output_tokens = Some((40, Provenance::Server));
    }
    let summary = kit.summary();
    let [base, cand] = ["base", "cand"].map(|arm| summary.arms[arm].latency.clone());
    let validity = base.itl_validity.unwrap();
    assert!(validity.valid && validity.reason.is_none() && base.itl_ms.is_some());
    let validity = cand.itl_validity.unwrap();
    assert_eq!((validity.valid, validity.share, &cand.itl_ms), (false, 0.75, &None));
    assert!(validity.reason.unwrap().starts_with("in 5 of 20 streamed answers"));
    // Gaps between events need no tokens.
    assert_eq!(cand.icl_ms.unwrap().n, 20 * 9);
}

#[test]
fn an_open_load_has_its_times_from_the_intended_instant() {
    let mut kit = Kit::play(&suite(20), |_, _, _| right());
    for attempt in kit.attempts() {
        attempt.timeline.intended_us = attempt.timeline.sent_us.map(|sent| sent - 500);
    }
    let latency = kit.summary().arms["base"].latency.clone();
    let max = |figure: Option<crate::analyze::summary::Distribution>| figure.unwrap().max.unwrap();
    assert_eq!(max(latency.ttft_response_ms), 50.5);
    assert_eq!(max(latency.response_ms), 140.5);
    assert_eq!(max(latency.dispatch_lag_ms), 0.5);
}

#[test]
fn the_first_warm_up_request_is_the_cold_start() {
    let mut suite = suite(10);
    suite.load = Load::Closed { concurrency: 1, warmup_requests: 3, start: Start::Burst };
    let mut kit = Kit::play(&suite, |_, _, _| right());
    let first = kit.attempts().find(|attempt| attempt.arm == "base").unwrap();
    first.timeline.first_token_us = first.timeline.sent_us.map(|sent| sent + 7_000_000);
    let arm = kit.summary().arms["base"].clone();
    let cold = arm.cold_start.unwrap();
    assert_eq!(cold.ttft_ms, Some(7_000.0));
    assert!(cold.e2e_ms.unwrap() > 7_000.0);
    assert_eq!(Kit::play(&self::suite(10), |_, _, _| right()).summary().arms["base"].cold_start, None);
}

#[test]
fn counts_say_where_they_come_from() {
    let answer = |_: &str, sample: u32, _: u32| Answer { usage: !sample.is_multiple_of(4), ..right() };
    let tokens = Kit::play(&suite(20), answer).summary().arms["base"].tokens.clone();
    assert_eq!(tokens.provenance, BTreeMap::from([("events".to_owned(), 5), ("server".to_owned(), 15)]));
}

#[test]
fn an_empty_answer_has_taken_its_time() {
    let answer = |_: &str, sample: u32, _: u32| match sample {
        0 => Answer { outcome: Outcome::Empty, pass: Some(false), tokens: 0, ..right() },
        _ => right(),
    };
    let latency = Kit::play(&suite(20), answer).summary().arms["base"].latency.clone();
    assert_eq!((latency.e2e_ms.unwrap().n, latency.ttft_ms.unwrap().n), (20, 19));
}

#[test]
fn histograms_hold_every_value() {
    let answer = |_: &str, sample: u32, _: u32| Answer { ttft_us: 40_000 + u64::from(sample) * 1_000, ..right() };
    let ttft = Kit::play(&suite(100), answer).summary().arms["base"].latency.ttft_ms.clone().unwrap();
    assert_eq!(ttft.histogram.n(), ttft.n);
    let (exact, merged) = (ttft.p50.unwrap(), ttft.histogram.merge(&ttft.histogram).percentile_ms(0.5).unwrap());
    assert!((merged - exact).abs() <= exact * 1e-3, "{merged} {exact}");
}
