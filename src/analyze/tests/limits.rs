use crate::analyze::summary::{GateVerdict, RunVerdict};
use crate::analyze::testkit::{
    Answer, Kit, comparison, failed, first_gate, gate, passing, price, right, suite, summary,
};
use crate::deploy::{Deadline, Outcome, Provenance};
use crate::spec::{ArmsMode, CostMetric, Gate, GateKind, Scope, SloTarget, Suite};

fn speed(metric: &str, at_most: Option<f64>, at_least: Option<f64>) -> Gate {
    gate(GateKind::Speed {
        metric: metric.parse().unwrap(),
        ratio_at_most: at_most,
        ratio_at_least: at_least,
        confidence: 0.95,
    })
}

fn with(gate: Gate, samples: usize) -> Suite {
    let mut suite = suite(samples);
    suite.gates = vec![gate];
    suite
}

/// The candidate takes half the time.
fn halved(arm: &str, sample: u32, _: u32) -> Answer {
    let noise = u64::from(sample * 7919 % 11) * 200;
    if arm == "cand" {
        Answer { ttft_us: 25_000 + noise / 2, gap_us: 5_000, ..right() }
    } else {
        Answer { ttft_us: 50_000 + noise, ..right() }
    }
}

#[test]
fn half_the_service_time_is_half_the_ratio_and_twice_the_rate() {
    let summary = summary(&suite(100), halved);
    let speed = &comparison(&summary).speed;
    for metric in ["ttft_p50", "tpot_p50", "e2e_p50", "itl_p90"] {
        let ratio = speed[metric].point.unwrap();
        assert!((ratio - 0.5).abs() < 0.02, "{metric}: {ratio}");
    }
    for metric in ["requests_per_s", "output_tokens_per_s", "input_tokens_per_s"] {
        let ratio = speed[metric].point.unwrap();
        assert!((ratio - 2.0).abs() < 0.05, "{metric}: {ratio}");
    }
    // 100 values don't carry a 95th percentile, and no request was late.
    assert!(!speed.contains_key("ttft_p95") && !speed.contains_key("response_p50"));
    assert!(!speed.contains_key("error_rate"));
}

#[test]
fn a_speed_gate_is_held_by_the_interval_s_end() {
    for (metric, at_most, at_least, verdict) in [
        ("e2e_p50", Some(0.6), None, GateVerdict::Pass),
        ("e2e_p50", Some(0.4), None, GateVerdict::Fail),
        ("output_tokens_per_s", None, Some(1.5), GateVerdict::Pass),
        ("output_tokens_per_s", None, Some(3.0), GateVerdict::Fail),
    ] {
        let summary = summary(&with(speed(metric, at_most, at_least), 100), halved);
        assert_eq!(first_gate(&summary).verdict, verdict, "{}", first_gate(&summary).reason);
    }
    // A ratio that scatters around the limit decides nothing.
    let noisy = |arm: &str, sample: u32, _: u32| {
        let scatter = u64::from(sample.wrapping_mul(2_654_435_761) >> 8) % 100_000;
        Answer { ttft_us: 10_000 + scatter + u64::from(arm == "cand") * 3_000, ..right() }
    };
    let summary = summary(&with(speed("ttft_p50", Some(1.05), None), 100), noisy);
    assert_eq!(first_gate(&summary).verdict, GateVerdict::Inconclusive, "{}", first_gate(&summary).reason);
}

#[test]
fn under_six_blocks_every_speed_gate_is_inconclusive() {
    let summary = summary(&with(speed("e2e_p50", Some(0.9), None), 23), halved);
    assert_eq!(summary.run.blocks, 5);
    let gate = first_gate(&summary);
    assert_eq!(gate.verdict, GateVerdict::Inconclusive);
    assert!(gate.reason.contains("5 blocks carry no interval, 6 are needed"), "{}", gate.reason);
}

#[test]
fn arms_that_ran_one_after_the_other_never_pass_on_speed() {
    let mut suite = with(speed("e2e_p50", Some(0.9), None), 100);
    suite.arms = ArmsMode::Sequential;
    let summary = summary(&suite, halved);
    assert_eq!(first_gate(&summary).verdict, GateVerdict::Inconclusive);
    assert!(first_gate(&summary).reason.contains("not_concurrent"));
    let ratio = &comparison(&summary).speed["e2e_p50"];
    assert_eq!((ratio.low, ratio.high, ratio.method.as_str()), (None, None, "not_concurrent"));
}

#[test]
fn a_scoped_speed_gate_takes_latencies_and_no_rates() {
    let mut latency = with(speed("e2e_p50", Some(0.6), None), 100);
    latency.gates[0].scope = Scope { task: Some("facts".into()), category: None };
    assert_eq!(first_gate(&summary(&latency, halved)).verdict, GateVerdict::Pass);
    let mut rate = with(speed("requests_per_s", None, Some(1.1)), 100);
    rate.gates[0].scope = Scope { task: Some("facts".into()), category: None };
    assert_eq!(first_gate(&summary(&rate, halved)).verdict, GateVerdict::NotEvaluable);
}

fn slo(metric: &str, at_most: f64, confidence: Option<f64>, samples: usize) -> Suite {
    let mut suite = with(gate(GateKind::Slo { confidence }), samples);
    suite.slo = vec![SloTarget { metric: metric.parse().unwrap(), at_most }];
    suite
}

#[test]
fn an_slo_is_judged_by_the_observed_percentile() {
    for (limit, verdict) in [(50.0, GateVerdict::Pass), (49.0, GateVerdict::Fail)] {
        let summary = summary(&slo("ttft_p50", limit, None, 40), |_, _, _| right());
        assert_eq!(first_gate(&summary).verdict, verdict, "{}", first_gate(&summary).reason);
        assert_eq!((first_gate(&summary).unit.as_str(), first_gate(&summary).arm.as_str()), ("ms", "cand"));
    }
    let late = summary(&slo("ttft_p50", 49.0, None, 40), |_, _, _| right());
    assert_eq!(first_gate(&late).reason, "observed 50.0 ms, above 49.0 ms");
    // 40 requests carry no 95th percentile.
    let few = summary(&slo("ttft_p95", 5_000.0, None, 40), |_, _, _| right());
    assert_eq!(first_gate(&few).verdict, GateVerdict::Inconclusive);
    assert!(first_gate(&few).reason.contains("200 do"), "{}", first_gate(&few).reason);
}

#[test]
fn failures_are_infinitely_late() {
    let summary = summary(&slo("ttft_p90", 60.0, None, 200), |arm, sample, _| {
        if arm == "cand" && sample % 8 == 0 { failed(Outcome::Timeout(Deadline::Total)) } else { right() }
    });
    let gate = first_gate(&summary);
    assert_eq!(gate.verdict, GateVerdict::Fail);
    assert!(gate.reason.contains("25 failures count as infinite"), "{}", gate.reason);
}

#[test]
fn failures_of_tasks_without_latencies_are_no_latencies() {
    let mut suite = slo("ttft_p50", 60.0, None, 40);
    suite.tasks[0].latency = true;
    let mut untimed = suite.tasks[0].clone();
    untimed.name = "untimed".into();
    untimed.latency = false;
    suite.tasks.push(untimed);
    let answer = |_: &str, sample: u32, _: u32| if sample >= 40 { failed(Outcome::ServerError) } else { right() };
    let summary = summary(&suite, answer);
    assert_eq!(first_gate(&summary).verdict, GateVerdict::Pass, "{}", first_gate(&summary).reason);
}

#[test]
fn an_slo_with_confidence_needs_its_bound_within() {
    // 4 of 200 are late: the observed p95 is fine, its upper bound too; with 9 late the bound isn't.
    let late = |count: u32| {
        move |_: &str, sample: u32, _: u32| Answer { ttft_us: if sample < count { 900_000 } else { 50_000 }, ..right() }
    };
    let judged =
        |count, confidence| first_gate(&summary(&slo("ttft_p95", 100.0, confidence, 200), late(count))).verdict;
    assert_eq!(judged(4, Some(0.95)), GateVerdict::Pass);
    assert_eq!(judged(9, None), GateVerdict::Pass);
    assert_eq!(judged(9, Some(0.95)), GateVerdict::Inconclusive);
    assert_eq!(judged(60, Some(0.95)), GateVerdict::Fail);
}

fn stability(at_most: f64, confidence: Option<f64>) -> Gate {
    gate(GateKind::Stability { metric: "error_rate".into(), at_most, confidence })
}

#[test]
fn stability_is_observed_or_bounded() {
    let answer = |_: &str, sample: u32, _: u32| {
        if sample.is_multiple_of(50) { failed(Outcome::ServerError) } else { right() }
    };
    for (at_most, confidence, verdict) in [
        (0.02, None, GateVerdict::Pass),
        (0.019, None, GateVerdict::Fail),
        (0.02, Some(0.95), GateVerdict::Inconclusive),
        (0.10, Some(0.95), GateVerdict::Pass),
        (0.001, Some(0.95), GateVerdict::Fail),
    ] {
        let summary = summary(&with(stability(at_most, confidence), 200), answer);
        assert_eq!(first_gate(&summary).verdict, verdict, "{}", first_gate(&summary).reason);
    }
    // 20 requests without an error don't prove 2 %.
    let few = summary(&with(stability(0.02, Some(0.95)), 20), |_, _, _| right());
    assert_eq!(first_gate(&few).verdict, GateVerdict::Inconclusive);
}

fn cost(metric: CostMetric, at_most: f64) -> Gate {
    gate(GateKind::Cost { metric, ratio_at_most: at_most, confidence: 0.95 })
}

#[test]
fn cost_per_success_charges_the_failures() {
    let mut suite = with(cost(CostMetric::UsdPerSuccess, 1.05), 200);
    suite.deployments[0].price = Some(price("1", "1"));
    suite.deployments[1].price = Some(price("0.8", "0.8"));
    // 20 % cheaper a request, and every second answer wrong.
    let worse = summary(&suite, |arm, sample, _| passing(arm == "base" || sample % 2 == 0));
    assert_eq!(first_gate(&worse).verdict, GateVerdict::Fail, "{}", first_gate(&worse).reason);
    let ratios = &comparison(&worse).cost;
    assert!((ratios.usd_per_request_ratio.as_ref().unwrap().point.unwrap() - 0.8).abs() < 1e-9);
    assert!((ratios.usd_per_success_ratio.as_ref().unwrap().point.unwrap() - 1.6).abs() < 1e-9);
    let good = summary(&suite, |_, _, _| right());
    assert_eq!(first_gate(&good).verdict, GateVerdict::Pass, "{}", first_gate(&good).reason);
}

#[test]
fn a_cost_that_is_unknown_is_not_evaluable() {
    let mut suite = with(cost(CostMetric::UsdPerRequest, 1.05), 100);
    let no_price = summary(&suite, |_, _, _| right());
    assert_eq!(first_gate(&no_price).verdict, GateVerdict::NotEvaluable);
    assert!(first_gate(&no_price).reason.contains("`base` has no price"), "{}", first_gate(&no_price).reason);
    suite.deployments[0].price = Some(price("1", "1"));
    suite.deployments[1].price = Some(price("1", "1"));
    let lost = summary(&suite, |arm, sample, _| Answer { usage: arm == "base" || sample > 0, ..right() });
    assert_eq!(first_gate(&lost).verdict, GateVerdict::NotEvaluable);
    assert_eq!(lost.verdict, RunVerdict::Inconclusive);
    assert_eq!(comparison(&lost).cost.usd_per_request_ratio, None);
}

#[test]
fn a_lone_arm_can_be_held_to_slo_and_stability() {
    let mut alone = slo("ttft_p50", 60.0, None, 40);
    alone.deployments.truncate(1);
    alone.comparisons.clear();
    alone.gates.push(stability(0.02, None));
    let summary = summary(&alone, |_, _, _| right());
    assert_eq!(summary.verdict, RunVerdict::Pass);
    assert!(summary.gates.iter().all(|g| g.arm == "base"));
}

#[test]
fn an_infinite_percentile_whose_lower_end_is_finite_is_open() {
    // 22 of 200 failed: the 90th percentile is a failure, and its lower end an answer.
    let some = |failures: u32| {
        summary(&slo("ttft_p90", 60.0, Some(0.95), 200), move |arm, sample, _| {
            if arm == "cand" && sample < failures { failed(Outcome::Timeout(Deadline::Total)) } else { right() }
        })
    };
    assert_eq!(first_gate(&some(22)).verdict, GateVerdict::Inconclusive, "{}", first_gate(&some(22)).reason);
    let certain = some(60);
    assert_eq!(first_gate(&certain).verdict, GateVerdict::Fail);
    assert!(first_gate(&certain).reason.contains("certainly a failed request"), "{}", first_gate(&certain).reason);
}

#[test]
fn a_failed_request_weighs_as_many_gaps_between_tokens_as_an_answered_one() {
    // One in eight failed; by single gaps it would be one in seventy-two.
    let summary = summary(&slo("itl_p90", 60.0, None, 200), |arm, sample, _| {
        if arm == "cand" && sample % 8 == 0 { failed(Outcome::Timeout(Deadline::Total)) } else { right() }
    });
    assert_eq!(first_gate(&summary).verdict, GateVerdict::Fail, "{}", first_gate(&summary).reason);
}

#[test]
fn an_slo_on_gaps_between_tokens_needs_gaps_that_stand() {
    let mut kit = Kit::play(&slo("itl_p90", 60.0, None, 200), |_, _, _| right());
    for attempt in kit.attempts().filter(|attempt| attempt.arm == "cand") {
        attempt.output_tokens = Some((40, Provenance::Server));
    }
    let gate = first_gate(&kit.summary()).clone();
    assert_eq!(gate.verdict, GateVerdict::NotEvaluable);
    assert!(gate.reason.contains("do not stand"), "{}", gate.reason);
}
