use std::collections::BTreeMap;

use serde_json::json;

use crate::analyze::testkit::{Answer, Kit, failed, passing, price, right, suite, summary, task, wrong};
use crate::deploy::{Deadline, Outcome};
use crate::drive::{EndReason, Event};
use crate::spec::{Load, Start};

#[test]
fn failures_are_counted_and_never_graded_as_answers() {
    let mut kit = Kit::play(&suite(40), |arm, sample, _| match sample % 4 {
        0 if arm == "cand" => failed(Outcome::Timeout(Deadline::Total)),
        _ => right(),
    });
    // Even where the score line of a failed request claims a pass.
    for score in &mut kit.scores {
        score.pass = Some(true);
        score.value = Some(1.0);
    }
    let summary = kit.summary();
    let arm = &summary.arms["cand"];
    assert_eq!(
        arm.requests,
        BTreeMap::from([("completed".into(), 30), ("planned".into(), 40), ("timeout".into(), 10)])
    );
    assert_eq!(arm.unscored, BTreeMap::from([("timeout".into(), 10)]));
    assert_eq!(arm.quality["accuracy"].overall.n, 30);
    assert_eq!(arm.quality["accuracy"].overall.point, Some(1.0));
    assert_eq!(arm.quality["success"].overall.point, Some(0.75));
    assert_eq!(arm.stability.error_rate.as_ref().unwrap().point, Some(0.25));
    assert_eq!(arm.stability.timeout_rate.as_ref().unwrap().point, Some(0.25));
    // The failed requests have no place among the latencies.
    assert_eq!(arm.latency.e2e_ms.as_ref().unwrap().n, 30);
}

#[test]
fn no_answer_counts_as_a_failure_of_quality_and_as_no_error() {
    let summary = summary(&suite(20), |_, sample, _| match sample {
        0 => Answer { outcome: Outcome::Truncated, pass: Some(false), ..right() },
        1 => Answer { outcome: Outcome::Empty, pass: Some(false), tokens: 0, ..right() },
        _ => right(),
    });
    let arm = &summary.arms["base"];
    assert_eq!(arm.quality["accuracy"].overall.point, Some(0.9));
    assert_eq!(arm.quality["accuracy"].overall.n, 20);
    assert_eq!(arm.stability.error_rate.as_ref().unwrap().point, Some(0.0));
    assert_eq!(arm.stability.truncated_rate.as_ref().unwrap().point, Some(0.05));
    assert_eq!(arm.stability.empty_rate.as_ref().unwrap().point, Some(0.05));
}

#[test]
fn an_answer_without_a_score_line_is_unscored() {
    let mut kit = Kit::play(&suite(12), |_, _, _| right());
    kit.scores.retain(|score| score.sample != 3);
    let summary = kit.summary();
    assert_eq!(summary.arms["base"].unscored, BTreeMap::from([("not_graded".into(), 1)]));
    assert_eq!(summary.arms["base"].quality["accuracy"].overall.n, 11);
}

#[test]
fn metrics_stand_by_task_and_category_and_grader() {
    let mut suite = suite(10);
    suite.tasks.push(task("sums", Some("maths"), 10));
    let summary = summary(&suite, |_, sample, _| passing(sample < 10));
    let quality = &summary.arms["base"].quality;
    let accuracy = &quality["accuracy"];
    assert_eq!(accuracy.by_task["facts"].point, Some(1.0));
    assert_eq!(accuracy.by_task["sums"].point, Some(0.0));
    assert_eq!(accuracy.by_category["maths"].point, Some(0.0));
    assert_eq!(quality["exact"].overall.point, Some(0.5));
    assert_eq!(quality["exact.raw"].overall.point, Some(0.5));
    assert_eq!(accuracy.overall.method, "wilson");
}

#[test]
fn repeats_are_averaged_before_they_count() {
    let mut suite = suite(10);
    suite.repeats = 4;
    let summary = summary(&suite, |_, sample, repeat| passing(sample < 5 || repeat == 0));
    let accuracy = &summary.arms["base"].quality["accuracy"].overall;
    assert_eq!(accuracy.n, 10);
    assert_eq!(accuracy.method, "t");
    assert!((accuracy.point.unwrap() - 0.625).abs() < 1e-12);
}

#[test]
fn clusters_widen_the_interval() {
    let mut clustered = suite(50);
    let answer = |_: &str, sample: u32, _: u32| passing((sample / 5).is_multiple_of(2));
    let plain = summary(&clustered, answer).arms["base"].quality["accuracy"].overall.clone();
    clustered.tasks[0].cluster_by = Some("passage".to_owned());
    let robust = summary(&clustered, answer).arms["base"].quality["accuracy"].overall.clone();
    assert_eq!(robust.method, "cluster-t");
    assert!(robust.width().unwrap() > 1.5 * plain.width().unwrap());
}

#[test]
fn percentiles_are_printed_only_where_enough_lie_beyond() {
    let summary = summary(&suite(120), |_, _, _| right());
    let ttft = summary.arms["base"].latency.ttft_ms.clone().unwrap();
    assert_eq!((ttft.p50, ttft.p90, ttft.p95, ttft.p99), (Some(50.0), Some(50.0), None, None));
    assert_eq!(ttft.n, 120);
    assert!(ttft.cdf.len() <= 100 && ttft.cdf.last().unwrap().1 == 1.0);
    assert!(ttft.intervals.contains_key("p50") && !ttft.intervals.contains_key("p95"));
}

#[test]
fn warm_up_is_never_measured_and_its_spend_stands_apart() {
    let mut suite = suite(20);
    suite.load = Load::Closed { concurrency: 1, warmup_requests: 3, start: Start::Burst };
    suite.deployments[0].price = Some(price("1", "1"));
    let summary = summary(&suite, |_, _, _| right());
    let arm = &summary.arms["base"];
    assert_eq!(arm.requests["planned"], 20);
    assert_eq!(arm.latency.ttft_ms.as_ref().unwrap().max, Some(50.0));
    assert_eq!(arm.quality["accuracy"].overall.point, Some(1.0));
    // 20 requests of 20 + 10 tokens at 1 USD per million.
    assert_eq!(arm.cost.total_usd.as_deref(), Some("0.0006"));
    assert_eq!(arm.cost.note.as_deref(), Some("warm-up apart: 0.00009 USD"));
}

#[test]
fn an_unknown_spend_is_not_zero() {
    let mut suite = suite(20);
    suite.deployments[0].price = Some(price("1", "1"));
    let known = summary(&suite, |_, sample, _| if sample == 0 { failed(Outcome::RateLimited) } else { right() });
    assert_eq!(known.arms["base"].cost.total_usd.as_deref(), Some("0.00057"));
    let lost = |_: &str, sample: u32, _: u32| Answer { usage: sample != 0, ..right() };
    let cost = &summary(&suite, lost).arms["base"].cost;
    assert_eq!((&cost.total_usd, cost.usd_per_request, &cost.usd_per_success), (&None, None, &None));
    assert!(cost.note.as_ref().unwrap().contains("1 of 20 requests"), "{cost:?}");
    let unpriced = &summary(&suite, |_, _, _| right()).arms["cand"].cost;
    assert_eq!(unpriced.total_usd, None);
}

#[test]
fn a_success_costs_what_the_failures_cost_too() {
    let mut suite = suite(20);
    suite.deployments[0].price = Some(price("1", "1"));
    let cost = summary(&suite, |_, sample, _| passing(sample < 5)).arms["base"].cost.clone();
    let per_success = cost.usd_per_success.unwrap().point.unwrap();
    assert!((per_success - 0.0006 / 5.0).abs() < 1e-12);
    let never = summary(&suite, |_, _, _| wrong()).arms["base"].cost.clone().usd_per_success.unwrap();
    assert_eq!((never.point, never.high), (None, None));
    assert!(never.low.is_some());
}

#[test]
fn gpu_hours_are_those_of_the_arm_s_own_slots() {
    let mut suite = suite(20);
    let mut gpu = price("1", "1");
    (gpu.input_usd_per_mtok, gpu.output_usd_per_mtok) = (None, None);
    gpu.gpu_usd_per_hour = Some("3600".parse().unwrap());
    suite.deployments[0].price = Some(gpu);
    let summary =
        summary(&suite, |arm, _, _| if arm == "cand" { Answer { ttft_us: 999_000, ..right() } } else { right() });
    let arm = &summary.arms["base"];
    // 20 requests of 141 ms each, one after the other.
    assert!((arm.throughput.window_s - 2.82).abs() < 1e-9);
    assert_eq!(arm.cost.total_usd.as_deref(), Some("2.82"));
}

#[test]
fn throughput_is_told_from_the_arm_s_own_windows() {
    let summary = summary(&suite(40), |arm, _, _| match arm {
        "cand" => Answer { ttft_us: 900_000, ..right() },
        _ => right(),
    });
    let base = &summary.arms["base"].throughput;
    assert!((base.requests_per_s.unwrap() - 1.0 / 0.141).abs() < 0.3, "{base:?}");
    assert!((base.output_tokens_per_s.unwrap() - 10.0 / 0.141).abs() < 3.0, "{base:?}");
    assert!(base.input_tokens_per_s.is_some());
}

#[test]
fn an_interrupted_stream_counts_its_tokens_and_has_no_latency() {
    let cut = Answer { outcome: Outcome::InterruptedStream, pass: None, usage: false, ..right() };
    let whole = summary(&suite(40), |_, _, _| right());
    let half = summary(&suite(40), |_, sample, _| if sample % 2 == 0 { cut.clone() } else { right() });
    let (a, b) = (&whole.arms["base"], &half.arms["base"]);
    let (full, with_cut) = (a.throughput.output_tokens_per_s.unwrap(), b.throughput.output_tokens_per_s.unwrap());
    assert!((full - with_cut).abs() < 0.05 * full, "{full} {with_cut}");
    assert!(b.throughput.requests_per_s.unwrap() < 0.6 * a.throughput.requests_per_s.unwrap());
    assert_eq!(b.latency.e2e_ms.as_ref().unwrap().n, 20);
    assert_eq!(b.latency.ttft_ms.as_ref().unwrap().n, 20);
}

#[test]
fn tokens_are_absent_where_one_answer_lacks_its_count() {
    let summary = summary(&suite(20), |arm, sample, _| Answer { usage: arm == "base" || sample > 0, ..right() });
    assert_eq!(summary.arms["base"].tokens.input, Some(400));
    assert_eq!(summary.arms["base"].tokens.output, Some(200));
    assert_eq!(summary.arms["cand"].tokens.input, None);
    assert_eq!(summary.arms["cand"].tokens.usage_share, Some(0.95));
    assert_eq!(summary.arms["cand"].throughput.input_tokens_per_s, None);
}

#[test]
fn a_request_recorded_twice_counts_once_and_is_paid_twice() {
    let mut suite = suite(10);
    suite.deployments[0].price = Some(price("1", "1"));
    let mut kit = Kit::play(&suite, |_, _, _| right());
    let unit = kit.plan.units_of(kit.plan.slots()[0])[0].clone();
    let of_base = kit.plan.arms[unit.arm].name == "base";
    let unit = if of_base { unit } else { kit.plan.units_of(kit.plan.slots()[1])[0].clone() };
    kit.ask(&unit, &wrong());
    let summary = kit.summary();
    let arm = &summary.arms["base"];
    assert_eq!(arm.requests["completed"], 10);
    assert_eq!(arm.quality["accuracy"].overall.point, Some(1.0));
    assert_eq!(arm.cost.total_usd.as_deref(), Some("0.00033"));
}

#[test]
fn retries_are_one_request() {
    let summary = summary(&suite(10), |_, sample, _| Answer { retries: u32::from(sample == 2) * 2, ..right() });
    let arm = &summary.arms["base"];
    assert_eq!(arm.requests["completed"], 10);
    assert_eq!(arm.stability.retry_rate.as_ref().unwrap().point, Some(0.1));
    assert_eq!(arm.stability.error_rate.as_ref().unwrap().point, Some(0.0));
}

#[test]
fn the_server_s_own_figures_stand_beside_the_measured_ones() {
    let mut kit = Kit::play(&suite(20), |_, _, _| right());
    for attempt in kit.attempts() {
        attempt.server_timings =
            Some(json!({"prompt_ms": 40.0, "predicted_per_token_ms": 10.0, "draft_n": 4, "draft_n_accepted": 3}));
    }
    let summary = kit.summary();
    let server = &summary.arms["base"].server;
    assert_eq!(server["prompt_ms_p50"], json!(40.0));
    assert_eq!(server["ttft_minus_prompt_ms_p50"], json!(10.0));
    assert_eq!(server["tpot_to_predicted_per_token_p50"], json!(1.0));
    assert_eq!(server["draft_acceptance"], json!(0.75));
    let parts = &summary.arms["base"].latency.ttft_parts_ms;
    assert_eq!(parts["prefill"].p50, Some(40.0));
    assert_eq!(parts["rest"].p50, Some(10.0));
}

#[test]
fn a_task_without_latency_is_graded_only() {
    let mut suite = suite(20);
    suite.tasks[0].latency = false;
    let summary = summary(&suite, |_, _, _| right());
    assert_eq!(summary.arms["base"].latency.ttft_ms, None);
    assert_eq!(summary.arms["base"].latency.itl_ms, None);
    assert_eq!(summary.arms["base"].quality["accuracy"].overall.n, 20);
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let kit = Kit::play(&suite(60), |arm, sample, _| Answer {
        ttft_us: 40_000 + u64::from(sample * 7919 % 101) * 500,
        ..passing(arm == "base" || sample % 9 != 0)
    });
    let bytes = |kit: &Kit| serde_json::to_vec(&kit.summary()).unwrap();
    assert_eq!(bytes(&kit), bytes(&kit.clone()));
}

#[test]
fn the_run_tells_its_end_its_sessions_and_its_environment() {
    let mut kit = Kit::play(&suite(10), |_, _, _| right());
    let summary = kit.summary();
    assert!(summary.run.complete);
    assert_eq!(summary.run.end_reason, None);
    assert_eq!(summary.run.started_wall_ms, 5_000);
    assert_eq!(summary.environment["os"], json!("linux"));
    assert_eq!(summary.environment["fingerprints"]["cand"], json!({"build": "b1"}));
    let last = kit.events.len() - 1;
    kit.events[last] = Event::Ended { at_us: 9_000_000, complete: false, reason: EndReason::Budget("20 USD".into()) };
    assert_eq!(kit.summary().run.end_reason.as_deref(), Some("20 USD"));
    assert!((kit.summary().run.wall_s - 9.0).abs() < 1e-9);
    kit.events.pop();
    assert!(kit.summary().run.end_reason.unwrap().contains("no end"));
}

#[test]
fn an_arm_that_the_plan_lacks_is_an_error() {
    let mut kit = Kit::play(&suite(4), |_, _, _| right());
    kit.attempts().next().unwrap().arm = "other".to_owned();
    assert!(kit.analyze().unwrap_err().to_string().contains("`other`"));
}
