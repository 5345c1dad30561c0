//! Load shapes through whole runs: arrivals, caps, stages, sweeps.

use std::collections::HashSet;

use counterpoise::deploy::Outcome;
use counterpoise::drive::{Attempt, Event, SlotEnd};
use counterpoise::plan::Phase;
use counterpoise::units::Id;
use serde_json::json;

use crate::checks;
use crate::harness::{Run, Sim, profile, suite};
use crate::measured;

/// A suite whose load is `load`, written as a flow map.
fn with_load(samples: usize, load: &str) -> String {
    let text = suite(samples, 1, "noise_floor: false\n");
    text.replace("load: {mode: closed, concurrency: 1, warmup_requests: 4}", &format!("load: {load}"))
}

async fn ran(suite: &str) -> Run {
    Sim::new(suite).with("base", profile(json!({}))).with("fast", profile(json!({}))).run().await
}

fn of<'a>(run: &'a Run, arm: &str) -> Vec<&'a Attempt> {
    measured(&run.events).into_iter().filter(|a| a.arm == arm).collect()
}

fn percentile(mut values: Vec<f64>, q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() as f64 * q).ceil() as usize).clamp(1, values.len()) - 1]
}

#[tokio::test(start_paused = true)]
async fn requests_are_sent_at_their_instants() {
    let run =
        ran(&with_load(200, "{mode: open, arrivals: {process: poisson, rate_per_s: 20}, warmup_requests: 2}")).await;
    checks::every_unit_has_one_final_attempt(&run);
    checks::timelines_are_ordered(&run);
    for attempt in measured(&run.events) {
        let (intended, sent) = (attempt.timeline.intended_us.unwrap(), attempt.timeline.sent_us.unwrap());
        assert!(
            sent >= intended && sent - intended <= 1_100,
            "{intended} {sent}: tokio's timer is a millisecond coarse"
        );
    }
    // Both arms see the same schedule.
    let offsets = |arm: &str| {
        let all = of(&run, arm);
        let mut slots: Vec<Vec<u64>> = vec![Vec::new(); run.plan.slots().len()];
        for a in all {
            slots[a.slot as usize].push(a.timeline.intended_us.unwrap());
        }
        let mut gaps = Vec::new();
        for mut slot in slots {
            slot.sort_unstable();
            gaps.extend(slot.windows(2).map(|w| w[1] - w[0]));
        }
        gaps
    };
    assert_eq!(offsets("base"), offsets("fast"));
}

/// The mistake of a client that measures from when it got round to it: a stall of two seconds would not show.
#[tokio::test(start_paused = true)]
async fn a_stall_shows_from_the_intended_instant() {
    let text = with_load(500, "{mode: open, arrivals: {process: constant, rate_per_s: 50}, warmup_requests: 0}");
    let stall = profile(
        json!({"ttft_ms": {"fixed": 5}, "token_gap_ms": {"fixed": 0.1}, "slots": 4, "stalls": [{"from_ms": 3000, "to_ms": 5000}]}),
    );
    let run = Sim::new(&text).with("base", stall).with("fast", profile(json!({}))).run().await;
    let response_ms: Vec<f64> = of(&run, "base")
        .iter()
        .map(|a| (a.timeline.last_token_us.unwrap() - a.timeline.intended_us.unwrap()) as f64 / 1e3)
        .collect();
    let p99 = percentile(response_ms, 0.99);
    assert!((1_700.0..2_300.0).contains(&p99), "{p99}");
}

#[tokio::test(start_paused = true)]
async fn what_is_due_over_the_cap_is_dropped_and_counted() {
    let text = with_load(
        200,
        "{mode: open, arrivals: {process: constant, rate_per_s: 100}, max_in_flight: 5, warmup_requests: 0}",
    );
    let slow = profile(json!({"ttft_ms": {"fixed": 200}, "token_gap_ms": {"fixed": 1}}));
    let run = Sim::new(&text)
        .with("base", slow)
        .with("fast", profile(json!({"ttft_ms": {"fixed": 5}, "token_gap_ms": {"fixed": 0.1}})))
        .run()
        .await;
    checks::every_unit_has_one_final_attempt(&run);
    checks::in_flight_is_at_most(&run, 5);
    let dropped = of(&run, "base").iter().filter(|a| a.outcome == Outcome::Dropped).count();
    assert!(dropped > 50, "{dropped}");
    assert!(of(&run, "base").iter().filter(|a| a.outcome == Outcome::Dropped).all(|a| a.timeline.sent_us.is_none()));
    assert!(of(&run, "fast").iter().all(|a| a.outcome == Outcome::Completed));
}

#[tokio::test(start_paused = true)]
async fn a_timed_stage_ends_by_the_clock_and_drains() {
    let text = with_load(
        40,
        "{warmup_requests: 2, stages: [{concurrency: 2, duration: 30s, warmup: 2s}, \
         {mode: open, arrivals: {process: poisson, rate_per_s: 4}, duration: 20s}]}",
    );
    let run = ran(&text).await;
    let ends: Vec<&SlotEnd> = run
        .events
        .iter()
        .filter_map(|e| match e {
            Event::SlotEnded { end, phase: Phase::Measured, .. } => Some(end),
            _ => None,
        })
        .collect();
    assert!(ends.contains(&&SlotEnd::TimeUp) && ends.contains(&&SlotEnd::Planned), "{ends:?}");
    // Nothing begins after a slot's time, whatever begins gets its outcome, and no unit is asked twice.
    let mut seen: HashSet<Id> = HashSet::new();
    for attempt in measured(&run.events) {
        assert!(attempt.last && attempt.outcome == Outcome::Completed);
        assert!(seen.insert(attempt.unit));
    }
    let first = |stage| of(&run, "base").into_iter().filter(move |a| a.stage == stage);
    let (from, to) =
        (first(0).map(|a| a.timeline.sent_us.unwrap()).min(), first(0).map(|a| a.timeline.eof_us.unwrap()).max());
    assert!(first(0).count() > 40, "the samples go round");
    assert!(to.unwrap() - from.unwrap() > 29_000_000);
    assert!((50..=110).contains(&first(1).count()), "{}", first(1).count());
}

#[tokio::test(start_paused = true)]
async fn a_sweep_ends_for_an_arm_that_falls_behind() {
    let text = with_load(50, "{warmup_requests: 2}")
        + "\nsweep: {over: rate_per_s, steps: [5, 20, 200, 400], step: {duration: 40s, warmup: 2s, min_requests: 20}}\n";
    let one_at_a_time = profile(json!({"ttft_ms": {"fixed": 20}, "token_gap_ms": {"fixed": 1}, "slots": 2}));
    let run = Sim::sweep(&text)
        .with("base", one_at_a_time)
        .with("fast", profile(json!({"ttft_ms": {"fixed": 5}, "token_gap_ms": {"fixed": 0.1}})))
        .run()
        .await;
    let end = |arm: &str, stage: u16| {
        let slot = run
            .plan
            .slots()
            .into_iter()
            .find(|s| run.plan.arms[s.arm].name == arm && run.plan.blocks[s.block as usize].stage == stage);
        run.events.iter().find_map(|e| match e {
            Event::SlotEnded { slot: number, end, phase: Phase::Measured, .. } if *number == slot.unwrap().index => {
                Some(end.clone())
            }
            _ => None,
        })
    };
    assert_eq!(end("base", 0), Some(SlotEnd::Planned));
    assert!(matches!(end("base", 2), Some(SlotEnd::Saturated(_))), "{:?}", end("base", 2));
    assert!(matches!(end("base", 3), Some(SlotEnd::Skipped(_))), "{:?}", end("base", 3));
    assert_eq!(end("fast", 3), Some(SlotEnd::Planned));
    let last = of(&run, "base").into_iter().filter(|a| a.stage == 2).count();
    assert!(last < 200 * 40, "{last}: the step ended early");
}

/// Whoever shares the work out by pair gives every unit to one worker.
#[tokio::test(start_paused = true)]
async fn the_union_of_the_shards_is_the_schedule() {
    let run =
        ran(&with_load(60, "{mode: open, arrivals: {process: poisson, rate_per_s: 50}, warmup_requests: 0}")).await;
    let units: Vec<_> = run.plan.slots().into_iter().flat_map(|slot| run.plan.units_of(slot)).collect();
    for workers in [1, 2, 8] {
        let shard = |w| units.iter().filter(move |u| counterpoise::plan::Plan::worker_of(u, workers) == w);
        let mut union: Vec<_> =
            (0..workers).flat_map(shard).map(|u| (u.slot, u.position, u.id, u.intended_us)).collect();
        union.sort_unstable();
        let mut whole: Vec<_> = units.iter().map(|u| (u.slot, u.position, u.id, u.intended_us)).collect();
        whole.sort_unstable();
        assert_eq!(union, whole);
        if workers > 1 {
            assert!((0..workers).all(|w| shard(w).count() > 0));
        }
        // All arms of a pair are one worker's.
        let mut worker_of = std::collections::HashMap::new();
        for unit in &units {
            let worker = counterpoise::plan::Plan::worker_of(unit, workers);
            assert_eq!(*worker_of.entry(unit.pair).or_insert(worker), worker);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_starts_all_lanes_at_once() {
    let text = with_load(64, "{concurrency: 16, start: burst, warmup_requests: 0}");
    let run = ran(&text).await;
    let mut sent: Vec<u64> =
        of(&run, "base").iter().filter(|a| a.block == 0).filter_map(|a| a.timeline.sent_us).collect();
    sent.sort_unstable();
    assert!(sent[15] - sent[0] < 50_000, "{sent:?}");
}
