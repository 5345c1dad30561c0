//! A raised load through whole runs: what the steps say of a server whose limits are known.

use counterpoise::analyze::{self, AnalyzeInput, Summary};
use counterpoise::drive::Event;
use counterpoise::grade::ScoreRecord;
use serde_json::json;

use crate::harness::{Run, Sim, profile, suite};

type Lines<T> = Result<Box<dyn Iterator<Item = Result<T, String>>>, String>;

fn summary(run: &Run) -> Summary {
    let journal = || -> Lines<Event> { Ok(Box::new(run.events.clone().into_iter().map(Ok))) };
    let scores = || -> Lines<ScoreRecord> { Ok(Box::new(std::iter::empty())) };
    analyze::analyze(&AnalyzeInput { plan: &run.plan, journal: &journal, scores: &scores }).unwrap()
}

/// Two requests at a time, 50 ms each but for their tokens; the others wait.
fn two_at_once() -> counterpoise::deploy::simulated::Profile {
    profile(json!({"ttft_ms": {"fixed": 50}, "token_gap_ms": {"fixed": 0.1}, "slots": 2}))
}

fn fast() -> counterpoise::deploy::simulated::Profile {
    profile(json!({"ttft_ms": {"fixed": 5}, "token_gap_ms": {"fixed": 0.1}, "slots": 64}))
}

fn swept(sweep: &str) -> String {
    format!("{}\nsweep: {sweep}\n", suite(40, 1, "noise_floor: false\n"))
}

#[tokio::test(start_paused = true)]
async fn a_closed_sweep_finds_the_servers_slots() {
    let text = swept("{over: concurrency, steps: [1, 2, 4, 8], step: {duration: 8s, warmup: 500ms}}");
    let run = Sim::sweep(&text).with("base", two_at_once()).with("fast", fast()).run().await;
    let summary = summary(&run);
    let sweep = summary.sweep.as_ref().unwrap();
    let base = &sweep.arms["base"];
    assert_eq!(base.saturation.as_ref().and_then(|point| point.value), Some(2.0), "{:?}", base.saturation_absent);
    // The first step at which a request waits for a whole one before it.
    assert_eq!(base.degradation.as_ref().and_then(|point| point.value), Some(4.0), "{:?}", base.degradation_absent);
    let rate = |arm: &str, step: usize| sweep.arms[arm].steps[step].throughput.requests_per_s.unwrap();
    for (step, times) in [(1, 2.0), (2, 2.0), (3, 2.0)] {
        let growth = rate("base", step) / rate("base", 0);
        assert!((growth - times).abs() < 0.1, "step {step}: {growth}");
    }
    assert!(rate("fast", 3) > 7.0 * rate("fast", 0));
    assert_eq!(sweep.arms["fast"].saturation, None);
    assert_eq!(summary.arms["base"].latency.ttft_ms, None);
}

#[tokio::test(start_paused = true)]
async fn an_open_sweep_ends_where_the_server_falls_behind_and_plans_replicas() {
    let text = swept("{over: rate_per_s, steps: [10, 20, 80, 160], step: {duration: 12s, warmup: 1s}}")
        + "slo: {ttft_p95: 200ms}\ncapacity: {demand: {rate_per_s: 100, peak_factor: 1.5}, headroom: 0%}\n";
    let run = Sim::sweep(&text).with("base", two_at_once()).with("fast", fast()).run().await;
    let summary = summary(&run);
    let (sweep, capacity) = (summary.sweep.as_ref().unwrap(), summary.capacity.as_ref().unwrap());
    let base = &sweep.arms["base"];
    assert_eq!(base.saturation.as_ref().and_then(|point| point.value), Some(80.0), "{:?}", base.saturation_absent);
    assert_eq!((base.steps[2].end.as_str(), base.steps[3].end.as_str()), ("saturated", "skipped"));
    let found = &capacity.arms["base"];
    assert_eq!((found.rate_per_replica, found.at_least, found.replicas), (Some(20.0), false, Some(8)), "{found:?}");
    assert!(found.reason.starts_with("step 80 fails: ended early"), "{}", found.reason);
    let fast = &capacity.arms["fast"];
    assert_eq!((fast.rate_per_replica, fast.at_least, fast.replicas), (Some(160.0), true, Some(1)), "{fast:?}");
    // From the instant at which a request was meant to start.
    let step = &base.steps[1].latency;
    assert!(step.ttft_response_ms.as_ref().unwrap().p50 >= step.ttft_ms.as_ref().unwrap().p50);
}
