//! The real dispatcher through whole runs: tokio's clock is paused, the transport is in memory, every fault is seeded.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "simulation/checks.rs"]
mod checks;
#[path = "simulation/harness.rs"]
mod harness;
#[path = "simulation/loads.rs"]
mod loads;
#[path = "simulation/peers.rs"]
mod peers;
#[path = "simulation/sweeps.rs"]
mod sweeps;
#[path = "simulation/workloads.rs"]
mod workloads;

use std::collections::HashSet;

use counterpoise::deploy::Outcome;
use counterpoise::drive::{Attempt, EndReason, Event};
use counterpoise::plan::Phase;
use harness::{Sim, profile, suite};
use serde_json::json;

fn measured(events: &[Event]) -> Vec<&Attempt> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Attempt(attempt) if attempt.phase == Phase::Measured => Some(attempt.as_ref()),
            _ => None,
        })
        .collect()
}

/// Time inside an arm's measured slots.
fn busy_us(events: &[Event], arm: &str) -> u64 {
    let mut started = 0;
    let mut busy = 0;
    for event in events {
        match event {
            Event::SlotStarted { arm: a, at_us, phase: Phase::Measured, .. } if a == arm => started = *at_us,
            Event::SlotEnded { arm: a, at_us, phase: Phase::Measured, .. } if a == arm => busy += at_us - started,
            _ => {}
        }
    }
    busy
}

#[tokio::test(start_paused = true)]
async fn a_whole_two_arm_run_keeps_every_promise() {
    let sim = Sim::new(&suite(96, 4, "")).with("base", profile(json!({}))).with("fast", profile(json!({})));
    let run = sim.run().await;
    assert_eq!(run.reason, EndReason::Done);
    checks::every_unit_has_one_final_attempt(&run);
    checks::timelines_are_ordered(&run);
    checks::slots_do_not_overlap(&run);
    checks::attempts_lie_in_their_slots(&run);
    checks::in_flight_is_at_most(&run, 4);
    assert!(measured(&run.events).iter().all(|a| a.outcome == Outcome::Completed));
    // Base, its twin, and the candidate, in 6 blocks: 96 ÷ (4 × 4).
    let arms: HashSet<&str> = measured(&run.events).iter().map(|a| a.arm.as_str()).collect();
    assert_eq!(arms, HashSet::from(["base", "base-twin", "fast"]));
    assert_eq!(run.plan.blocks.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_journal() {
    let sim = || Sim::new(&suite(48, 4, "")).with("base", profile(json!({}))).with("fast", profile(json!({})));
    let (first, second) = (sim().run().await, sim().run().await);
    assert_eq!(first.lines(), second.lines());
}

#[tokio::test(start_paused = true)]
async fn an_arm_twice_as_fast_shows_twice_the_rate() {
    let slow = json!({"ttft_ms": {"fixed": 40.0}, "token_gap_ms": {"fixed": 10.0}});
    let fast = json!({"ttft_ms": {"fixed": 20.0}, "token_gap_ms": {"fixed": 5.0}});
    let run = Sim::new(&suite(240, 4, "")).with("base", profile(slow)).with("fast", profile(fast)).run().await;
    let ratio = busy_us(&run.events, "base") as f64 / busy_us(&run.events, "fast") as f64;
    // Both ask the same samples; drains cost each arm its own share.
    assert!((ratio - 2.0).abs() < 0.05, "{ratio}");
}

#[tokio::test(start_paused = true)]
async fn concurrency_is_what_the_server_sees() {
    for concurrency in [1, 3, 8] {
        let sim =
            Sim::new(&suite(96, concurrency, "")).with("base", profile(json!({}))).with("fast", profile(json!({})));
        let run = sim.run().await;
        let stats = run.transport.stats("fast").unwrap();
        assert_eq!(stats.peak_in_flight, concurrency as usize);
        assert_eq!(stats.in_flight, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn spread_start_begins_lanes_over_one_service_time() {
    let run = Sim::new(&suite(96, 4, "")).with("base", profile(json!({}))).with("fast", profile(json!({}))).run().await;
    let slot = measured(&run.events).iter().map(|a| a.slot).max().unwrap();
    let mut starts: Vec<u64> =
        measured(&run.events).iter().filter(|a| a.slot == slot).map(|a| a.timeline.dispatched_us).collect();
    starts.sort_unstable();
    let gaps: Vec<u64> = starts.windows(2).take(3).map(|w| w[1] - w[0]).collect();
    assert!(gaps.iter().all(|&gap| gap >= 1_000), "lanes started together: {gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn failed_attempts_are_rows_and_retries_are_bounded() {
    let faults = json!({"faults": [{"kind": "http_500", "rate": 0.3, "by": "request"}]});
    let run = Sim::new(&suite(96, 4, "")).with("base", profile(json!({}))).with("fast", profile(faults)).run().await;
    checks::every_unit_has_one_final_attempt(&run);
    let attempts = measured(&run.events);
    let failed = attempts.iter().filter(|a| a.outcome == Outcome::ServerError).count();
    assert!(failed > 10, "{failed}");
    assert!(attempts.iter().all(|a| a.attempt <= 3));
    let retried = attempts.iter().filter(|a| a.attempt > 1 && a.outcome == Outcome::Completed).count();
    assert!(retried > 10, "{retried}");
    // Waiting out the backoff holds back no other unit: the first attempts all come before the last retry.
    assert!(attempts.iter().filter(|a| !a.last).all(|a| a.outcome.is_error()));
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured() {
    let faults = json!({"faults": [{"kind": "http_429", "rate": 0.2, "by": "request", "retry_after_s": 3.0}]});
    let run = Sim::new(&suite(48, 4, "")).with("base", profile(json!({}))).with("fast", profile(faults)).run().await;
    let attempts = measured(&run.events);
    let limited: Vec<_> = attempts.iter().filter(|a| a.outcome == Outcome::RateLimited && !a.last).collect();
    assert!(!limited.is_empty());
    for first in limited {
        let next = attempts.iter().find(|a| a.unit == first.unit && a.attempt == first.attempt + 1).unwrap();
        let waited = next.timeline.dispatched_us - first.timeline.dispatched_us;
        assert!(waited >= 3_000_000, "asked again after {waited} µs");
    }
}

#[tokio::test(start_paused = true)]
async fn broken_streams_keep_what_came() {
    let faults = json!({"faults": [{"kind": "cut", "rate": 1.0, "by": "request", "after_tokens": 2}]});
    let run = Sim::new(&suite(48, 4, "retry: {max_attempts: 1}\n"))
        .with("base", profile(json!({})))
        .with("fast", profile(faults))
        .run()
        .await;
    let cut: Vec<_> = measured(&run.events).into_iter().filter(|a| a.arm == "fast").collect();
    assert!(cut.iter().all(|a| a.outcome == Outcome::InterruptedStream), "{:?}", cut[0].outcome);
    assert!(cut.iter().all(|a| !a.text.is_empty() && a.arrival_gaps_us.len() == 2));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_server_meets_its_deadline() {
    let faults = json!({"faults": [{"kind": "hang", "rate": 1.0, "by": "request"}]});
    let run = Sim::new(&suite(16, 4, "retry: {max_attempts: 1}\n"))
        .with("base", profile(json!({})))
        .with("fast", profile(faults))
        .run()
        .await;
    checks::every_unit_has_one_final_attempt(&run);
    let hung: Vec<_> = measured(&run.events).into_iter().filter(|a| a.arm == "fast").collect();
    assert!(hung.iter().all(|a| matches!(a.outcome, Outcome::Timeout(_))), "{:?}", hung[0].outcome);
}

#[tokio::test(start_paused = true)]
async fn a_baseline_that_refuses_ends_the_run() {
    let strict = json!({"strict_model": true, "model": "another"});
    let run = Sim::new(&suite(48, 4, "")).with("base", profile(strict)).with("fast", profile(json!({}))).run().await;
    let EndReason::Aborted(why) = &run.reason else { panic!("{:?}", run.reason) };
    assert!(why.contains("baseline `base` refuses"), "{why}");
    assert!(run.transport.stats("base").unwrap().requests <= 8, "many requests were spent on a refusal");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_refuses_is_given_up_and_recorded() {
    let strict = json!({"strict_model": true, "model": "another"});
    let run = Sim::new(&suite(96, 4, "")).with("base", profile(json!({}))).with("fast", profile(strict)).run().await;
    assert_eq!(run.reason, EndReason::Done);
    checks::every_unit_has_one_final_attempt(&run);
    let refused: Vec<_> = measured(&run.events).into_iter().filter(|a| a.arm == "fast").collect();
    assert!(refused.iter().all(|a| a.outcome == Outcome::BadRequest));
    assert!(run.transport.stats("fast").unwrap().requests <= 24, "{:?}", run.transport.stats("fast"));
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_is_not_there_is_recorded_as_unreachable() {
    let run = Sim::new(&suite(48, 4, "")).with("base", profile(json!({}))).run().await;
    assert_eq!(run.reason, EndReason::Done);
    checks::every_unit_has_one_final_attempt(&run);
    let missing: Vec<_> = measured(&run.events).into_iter().filter(|a| a.arm == "fast").collect();
    assert!(missing.iter().all(|a| a.outcome == Outcome::Unreachable && a.timeline.sent_us.is_none()));
}

#[tokio::test(start_paused = true)]
async fn wrong_credentials_end_the_run() {
    let keyed = json!({"api_key": "secret"});
    let run = Sim::new(&suite(48, 4, "")).with("base", profile(json!({}))).with("fast", profile(keyed)).run().await;
    let EndReason::Aborted(why) = &run.reason else { panic!("{:?}", run.reason) };
    assert!(why.contains("`fast` refuses the credentials"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_quota_ends_the_run_and_is_not_retried() {
    let spent = json!({"faults": [{"kind": "quota", "rate": 1.0, "by": "request"}]});
    let run = Sim::new(&suite(48, 4, "")).with("base", profile(json!({}))).with("fast", profile(spent)).run().await;
    let EndReason::Aborted(why) = &run.reason else { panic!("{:?}", run.reason) };
    assert!(why.contains("`fast` has no quota left"), "{why}");
    assert!(run.transport.stats("fast").unwrap().requests <= 8);
}

#[tokio::test(start_paused = true)]
async fn limits_are_the_deployments_and_not_each_arms() {
    let text = suite(48, 4, "").replace("host: a}", "host: a, limits: {requests_per_min: 40}}");
    let run = Sim::new(&text).with("base", profile(json!({}))).with("fast", profile(json!({}))).run().await;
    assert_eq!(run.reason, EndReason::Done);
    let mut sent: Vec<u64> = run
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Attempt(a) if a.arm != "fast" => a.timeline.sent_us,
            _ => None,
        })
        .collect();
    sent.sort_unstable();
    // 40 in a minute, over base and twin together; a request may leave a moment after it was let go.
    assert!(sent.windows(41).all(|w| w[40] - w[0] > 59_000_000), "{:?}", &sent[..50]);
}

#[tokio::test(start_paused = true)]
async fn a_time_budget_ends_a_run_that_waits() {
    let spent = json!({"faults": [{"kind": "http_429", "rate": 1.0, "by": "request", "retry_after_s": 500.0}]});
    let run = Sim::new(&suite(48, 4, "budget: {time: 20s}\n"))
        .with("base", profile(json!({})))
        .with("fast", profile(spent))
        .run()
        .await;
    let EndReason::Budget(why) = &run.reason else { panic!("{:?}", run.reason) };
    assert!(why.contains("budget.time"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_money_budget_holds_back_what_is_in_flight() {
    let price = "host: a, price: {output_usd_per_mtok: 1000}}";
    let text = suite(96, 8, "budget: {usd: 1.0}\nsampling: {max_tokens: 100}\n").replace("host: a}", price);
    let sim = Sim::new(&text).with("base", profile(json!({}))).with("fast", profile(json!({})));
    let run = sim.priced().run().await;
    assert!(matches!(&run.reason, EndReason::Budget(why) if why.contains("budget.usd")), "{:?}", run.reason);
    let tokens: u64 = run
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Attempt(a) if a.arm != "fast" => a.usage.completion_tokens,
            _ => None,
        })
        .sum();
    // 1000 USD for a million tokens is a tenth of a cent for one: 1 USD buys 1000.
    assert!((800..=1_000).contains(&tokens), "{tokens} tokens");
}

#[tokio::test(start_paused = true)]
async fn a_request_budget_is_never_overdrawn() {
    let run = Sim::new(&suite(96, 4, "budget: {requests: 50}\n"))
        .with("base", profile(json!({})))
        .with("fast", profile(json!({})))
        .run()
        .await;
    let EndReason::Budget(why) = &run.reason else { panic!("{:?}", run.reason) };
    assert!(why.contains("budget.requests"), "{why}");
    let made = run.transport.stats("base").unwrap().requests + run.transport.stats("fast").unwrap().requests;
    assert_eq!(made, 50);
    let recorded = run.events.iter().filter(|e| matches!(e, Event::Attempt(_))).count();
    assert_eq!(recorded, 50, "a paid answer was lost");
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_asks_only_what_is_missing() {
    let sim = || Sim::new(&suite(96, 4, "")).with("base", profile(json!({}))).with("fast", profile(json!({})));
    let first = sim().interrupted_after(100).run().await;
    assert_eq!(first.reason, EndReason::Interrupted);
    let done = first.done();
    assert!(done.len() >= 60 && done.len() < 288, "{}", done.len());
    let second = sim().resumed(done.clone()).run().await;
    assert_eq!(second.reason, EndReason::Done);
    let asked_again = second.done().intersection(&done).count();
    assert_eq!(asked_again, 0);
    assert_eq!(second.done().len() + done.len(), 288);
}

#[tokio::test(start_paused = true)]
async fn sequential_arms_run_one_after_the_other() {
    let run = Sim::new(&suite(48, 4, "arms: sequential\n"))
        .with("base", profile(json!({})))
        .with("fast", profile(json!({})))
        .run()
        .await;
    assert_eq!(run.plan.blocks.len(), 1);
    checks::every_unit_has_one_final_attempt(&run);
    checks::slots_do_not_overlap(&run);
}

#[tokio::test(start_paused = true)]
async fn together_no_arm_waits_for_another() {
    let hosts = "arms: together\nnoise_floor: false\n";
    let slow = json!({"ttft_ms": {"fixed": 200.0}, "token_gap_ms": {"fixed": 20.0}});
    let run = Sim::new(&suite(96, 4, hosts)).with("base", profile(slow)).with("fast", profile(json!({}))).run().await;
    checks::every_unit_has_one_final_attempt(&run);
    let end = |arm: &str| {
        let ends = measured(&run.events).into_iter().filter(|a| a.arm == arm).filter_map(|a| a.timeline.eof_us);
        ends.max().unwrap()
    };
    assert!(end("fast") * 3 < end("base"), "fast {} base {}", end("fast"), end("base"));
}

#[tokio::test(start_paused = true)]
async fn many_seeds_of_mixed_faults_keep_the_invariants() {
    for seed in 0..12_u64 {
        let faults = json!({"faults": [
            {"kind": "http_500", "rate": 0.1, "by": "request"},
            {"kind": "cut", "rate": 0.1, "by": "request", "after_tokens": 1},
            {"kind": "drop", "rate": 0.1, "by": "request"},
            {"kind": "empty_answer", "rate": 0.1, "by": "request"},
            {"kind": "html_page", "rate": 0.05, "by": "request"},
            {"kind": "error_in_stream", "rate": 0.05, "by": "request"},
            {"kind": "malformed_json", "rate": 0.05, "by": "request"},
            {"kind": "no_done", "rate": 0.2, "by": "request"},
        ]});
        let run = Sim::new(&suite(64, 4, &format!("sampling: {{seed: {seed}}}\n")))
            .with("base", profile(json!({})))
            .with("fast", profile(faults))
            .run()
            .await;
        assert_eq!(run.reason, EndReason::Done, "seed {seed}");
        checks::every_unit_has_one_final_attempt(&run);
        checks::timelines_are_ordered(&run);
        checks::slots_do_not_overlap(&run);
        checks::attempts_lie_in_their_slots(&run);
        checks::in_flight_is_at_most(&run, 4);
    }
}
