use serde_json::json;

use crate::analyze::figures;
use crate::analyze::testkit::{Answer, Kit, right, suite};
use crate::deploy::{Outcome, Provenance};
use crate::drive::{Attempt, Event};

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
