use crate::analyze::summary::{GateVerdict, Summary};
use crate::analyze::sweep::{ArmSweep, StepVerdict};
use crate::analyze::testkit::{Answer, Kit, codes, failed, gate, passing, price, right, suite};
use crate::deploy::Outcome;
use crate::drive::SlotEnd;
use crate::plan::Unit;
use crate::spec::{
    Arrivals, Capacity, GateKind, LatencyFigure, Load, LoadShape, Rate, SloTarget, SpeedMetric, Stage, Start, Suite,
    Sweep, SweepOver,
};
use crate::units::Span;

/// A suite whose load is the sweep of these steps, each of 20 s after a warm-up of 1 s.
fn swept(over: SweepOver, steps: &[f64]) -> Suite {
    let mut suite = suite(40);
    let sweep = Sweep {
        over,
        steps: steps.to_vec(),
        step_duration: Span::from_ms(20_000),
        step_warmup: Some(Span::from_ms(1_000)),
        min_requests: 0,
        stop_error_rate: 1.0,
    };
    let process =
        Load::Open { arrivals: Arrivals::Constant { rate: Rate::steady(1.0) }, max_in_flight: 64, warmup_requests: 0 };
    let load = if over == SweepOver::RatePerS { process } else { suite.load.clone() };
    suite.load = sweep.as_load(&load);
    suite.sweep = Some(sweep);
    suite
}

fn ttft(percentile: u8, at_most: f64) -> SloTarget {
    SloTarget { metric: SpeedMetric::Latency { figure: LatencyFigure::Ttft, percentile }, at_most }
}

fn arm<'a>(summary: &'a Summary, name: &str) -> &'a ArmSweep {
    &summary.sweep.as_ref().unwrap().arms[name]
}

/// Ten tokens after a first one at `ms`, in ten milliseconds altogether.
fn after(ms: u64) -> Answer {
    Answer { ttft_us: ms * 1_000, gap_us: 1_000, ..right() }
}

fn close(value: Option<f64>, wanted: f64) -> bool {
    value.is_some_and(|value| (value - wanted).abs() < 0.03 * wanted)
}

/// A server that works on four requests at once and lets the others wait.
fn four_at_once(_: &str, unit: &Unit) -> Answer {
    after([90, 90, 90, 190, 390][usize::from(unit.stage)])
}

#[test]
fn a_closed_sweep_saturates_where_more_load_brings_no_more_work() {
    let summary = Kit::play_units(&swept(SweepOver::Concurrency, &[1.0, 2.0, 4.0, 8.0, 16.0]), four_at_once).summary();
    let base = arm(&summary, "base");
    assert_eq!(summary.sweep.as_ref().unwrap().over, "concurrency");
    assert_eq!(base.steps.iter().map(|step| step.value.unwrap()).collect::<Vec<_>>(), [1.0, 2.0, 4.0, 8.0, 16.0]);
    for (step, wanted) in base.steps.iter().zip([10.0, 20.0, 40.0, 40.0, 40.0]) {
        assert!(close(step.throughput.requests_per_s, wanted), "{:?} {wanted}", step.throughput);
        assert_eq!((step.end.as_str(), step.window.as_str()), ("time_up", "steady"));
        assert!(step.counted_s > 18.0 && step.attempted > 190, "{step:?}");
    }
    let saturation = base.saturation.as_ref().unwrap();
    assert_eq!(saturation.value, Some(4.0), "{saturation:?}");
    assert!(saturation.estimate.as_ref().unwrap().high.unwrap() < 0.05, "{saturation:?}");
    let degradation = base.degradation.as_ref().unwrap();
    assert_eq!(degradation.value, Some(8.0), "{degradation:?}");
    assert_eq!((base.saturation_absent.as_ref(), base.degradation_absent.as_ref()), (None, None));
}

#[test]
fn a_sweep_that_only_grows_says_so() {
    let summary = Kit::play_units(&swept(SweepOver::Concurrency, &[1.0, 2.0, 4.0]), |_, _| after(90)).summary();
    let base = arm(&summary, "base");
    assert_eq!((&base.saturation, &base.degradation), (&None, &None));
    assert!(base.saturation_absent.as_ref().unwrap().contains("raise the load further"));
    assert!(base.degradation_absent.as_ref().unwrap().contains("no step is certainly above"));
}

#[test]
fn noise_between_steps_is_no_saturation_and_is_named() {
    // Twice the load brings a tenth of what proportional growth would, in a window that swings by half.
    let noisy = |_: &str, unit: &Unit| {
        let swing = if (unit.position / 40).is_multiple_of(2) { 30 } else { 150 };
        after(if unit.stage == 0 { swing } else { swing * 19 / 10 })
    };
    let summary = Kit::play_units(&swept(SweepOver::Concurrency, &[2.0, 4.0]), noisy).summary();
    let base = arm(&summary, "base");
    assert_eq!(base.saturation, None);
    assert!(base.saturation_absent.as_ref().unwrap().contains("longer steps decide"));
}

#[test]
fn what_mixes_several_loads_is_told_by_step_only() {
    let mut suite = swept(SweepOver::Concurrency, &[1.0, 2.0]);
    let metric = SpeedMetric::Latency { figure: LatencyFigure::Tpot, percentile: 50 };
    suite.gates =
        vec![gate(GateKind::Speed { metric, ratio_at_most: Some(2.0), ratio_at_least: None, confidence: 0.95 })];
    let answer = |arm: &str, unit: &Unit| Answer {
        ttft_us: if arm == "cand" { 45_000 } else { 90_000 },
        ..passing(unit.stage == 0 || arm == "base")
    };
    let summary = Kit::play_units(&suite, answer).summary();
    let own = &summary.arms["base"];
    assert_eq!((&own.latency.ttft_ms, own.throughput.requests_per_s), (&None, None));
    assert!(own.throughput.window_s > 30.0);
    assert!(codes(&summary).contains(&"loads_mixed") && !codes(&summary).contains(&"too_few_samples"));
    assert_eq!(summary.gates[0].verdict, GateVerdict::Inconclusive, "{:?}", summary.gates[0]);
    let comparison = &summary.sweep.as_ref().unwrap().comparisons[0];
    assert_eq!((comparison.baseline.as_str(), comparison.candidate.as_str()), ("base", "cand"));
    for step in &comparison.steps {
        assert!(close(step.speed["ttft_p50"].point, 0.5), "{step:?}");
        assert_eq!((step.speed["ttft_p50"].method.as_str(), step.speed["ttft_p50"].low), ("too-few-blocks", None));
        let rate = &step.speed["requests_per_s"];
        assert!(rate.point.unwrap() > 1.3 && rate.low.unwrap() > 1.2 && rate.high.unwrap() < 1.6, "{rate:?}");
    }
    // Answers that are wrong only under load show in their step.
    assert_eq!(comparison.steps[0].accuracy_delta.as_ref().unwrap().point, Some(0.0));
    assert_eq!(comparison.steps[1].accuracy_delta.as_ref().unwrap().point, Some(-1.0));
    let accuracy = |stage: usize| arm(&summary, "cand").steps[stage].accuracy.as_ref().unwrap().point;
    assert_eq!((accuracy(0), accuracy(1)), (Some(1.0), Some(0.0)));
}

#[test]
fn an_open_step_that_falls_behind_is_the_saturation() {
    let suite = swept(SweepOver::RatePerS, &[5.0, 10.0, 20.0, 40.0]);
    let mut kit = Kit::play_units(&suite, |_, _| after(100));
    *kit.end_of("base", 2) = SlotEnd::Saturated("20.0 arrived and the backlog grew".to_owned());
    *kit.end_of("base", 3) = SlotEnd::Skipped("the step 20 ended early".to_owned());
    let summary = kit.summary();
    let base = arm(&summary, "base");
    assert!(close(base.steps[1].throughput.requests_per_s, 10.0), "{:?}", base.steps[1]);
    assert_eq!(base.steps[0].load, "constant, 5/s");
    let saturation = base.saturation.as_ref().unwrap();
    assert_eq!((saturation.value, base.steps[3].end.as_str()), (Some(20.0), "skipped"));
    assert!(saturation.reason.contains("backlog grew"), "{saturation:?}");
    assert_eq!(arm(&summary, "cand").saturation, None);
}

#[test]
fn an_open_step_that_answers_less_than_arrives_is_the_saturation() {
    let drops = |_: &str, unit: &Unit| match unit.stage {
        1 if unit.position.is_multiple_of(4) => failed(Outcome::Dropped),
        _ => after(100),
    };
    let mut suite = swept(SweepOver::RatePerS, &[5.0, 20.0]);
    suite.slo = vec![ttft(95, 200.0)];
    let summary = Kit::play_units(&suite, drops).summary();
    let base = arm(&summary, "base");
    assert_eq!(base.saturation.as_ref().unwrap().value, Some(20.0), "{base:?}");
    let step = &base.steps[1];
    assert_eq!((step.attempted, step.outcomes["dropped"], step.requests), (400, 100, 300));
    // What was dropped is attempted and not attained.
    assert!(close(step.attainment.as_ref().unwrap().point, 0.75), "{step:?}");
    assert!(close(step.goodput_per_s, 15.0), "{step:?}");
    assert_eq!(base.steps[0].attainment.as_ref().unwrap().point, Some(1.0));
}

#[test]
fn goodput_holds_each_request_to_the_slo_s_numbers_and_correct_goodput_to_its_grade() {
    let mut suite = swept(SweepOver::RatePerS, &[10.0, 20.0]);
    // Two percentiles of one figure: a single request is held to the wider one.
    suite.slo = vec![ttft(50, 50.0), ttft(95, 150.0)];
    let answer = |_: &str, unit: &Unit| Answer {
        ttft_us: if unit.position.is_multiple_of(4) { 300_000 } else { 100_000 },
        ..passing(unit.position.is_multiple_of(2))
    };
    let step = arm(&Kit::play_units(&suite, answer).summary(), "base").steps[0].clone();
    assert!(close(step.goodput_per_s, 7.5), "{step:?}");
    assert!(close(step.correct_goodput_per_s, 2.5), "{step:?}");
    let attainment = step.attainment.unwrap();
    assert!(close(attainment.point, 0.75) && attainment.low.unwrap() < 0.75);
    suite.slo = vec![SloTarget { metric: SpeedMetric::ErrorRate, at_most: 0.01 }];
    let without = arm(&Kit::play_units(&suite, answer).summary(), "base").steps[0].clone();
    assert_eq!((without.goodput_per_s, without.attainment), (None, None));
}

#[test]
fn the_warm_up_of_a_step_carries_no_latency_and_is_graded() {
    let mut suite = swept(SweepOver::RatePerS, &[10.0, 20.0]);
    suite.slo = vec![ttft(95, 150.0)];
    let slow_at_first = |_: &str, unit: &Unit| after(if unit.intended_us.unwrap() < 1_000_000 { 2_000 } else { 100 });
    let step = arm(&Kit::play_units(&suite, slow_at_first).summary(), "base").steps[0].clone();
    assert_eq!(step.latency.ttft_ms.as_ref().unwrap().max, Some(100.0));
    assert_eq!(step.accuracy.unwrap().point, Some(1.0));
    assert!(step.attempted > step.latency.ttft_ms.unwrap().n);
}

#[test]
fn stages_of_their_own_have_figures_and_no_points() {
    let mut suite = suite(40);
    let stage = |concurrency| Stage {
        shape: LoadShape::Closed { concurrency, start: Start::Burst, ramp: None },
        duration: None,
        warmup: None,
        min_requests: 0,
        step: None,
    };
    suite.load = Load::Stages { stages: vec![stage(1), stage(2)], warmup_requests: 0 };
    let summary = Kit::play_units(&suite, |_, _| after(90)).summary();
    let base = arm(&summary, "base");
    assert_eq!(summary.sweep.as_ref().unwrap().over, "stage");
    assert_eq!((base.steps.len(), base.steps[1].value, base.steps[1].load.as_str()), (2, None, "2 at a time"));
    assert!(base.saturation.is_none() && base.saturation_absent.as_ref().unwrap().contains("no steps"));
    assert!(codes(&summary).contains(&"steady_window_short"));
    // Blocks of a stage carry intervals.
    let steps = &summary.sweep.as_ref().unwrap().comparisons[0].steps;
    assert!(steps[0].speed["ttft_p50"].low.is_some(), "{steps:?}");
}

#[test]
fn a_plain_load_has_no_steps() {
    let summary = Kit::play(&suite(40), |_, _, _| right()).summary();
    assert!(summary.sweep.is_none() && summary.capacity.is_none());
    assert!(!serde_json::to_string(&summary).unwrap().contains("\"sweep\""));
}

/// Demand of 40/s with a peak of 1.5, a fifth kept free, GPUs at 2.5 USD.
fn with_demand(over: SweepOver, steps: &[f64]) -> Suite {
    let mut suite = swept(over, steps);
    suite.slo = vec![ttft(95, 200.0)];
    suite.capacity = Some(Capacity { rate_per_s: 40.0, peak_factor: 1.5, headroom: 0.2, confidence: 0.95 });
    let mut hourly = price("1", "1");
    (hourly.gpu_usd_per_hour, hourly.gpus) = (Some("2.5".parse().unwrap()), "2".parse().unwrap());
    suite.deployments[0].price = Some(hourly);
    suite
}

#[test]
fn capacity_is_the_last_step_that_holds_before_the_first_that_does_not() {
    let suite = with_demand(SweepOver::RatePerS, &[5.0, 10.0, 20.0, 40.0]);
    // The fourth step would hold again: it is luck, and not looked at.
    let answer = |_: &str, unit: &Unit| after([100, 150, 900, 100][usize::from(unit.stage)]);
    let summary = Kit::play_units(&suite, answer).summary();
    let capacity = summary.capacity.as_ref().unwrap();
    let base = &capacity.arms["base"];
    assert_eq!((base.rate_per_replica, base.at_least), (Some(10.0), false), "{base:?}");
    // 40 × 1.5 ÷ (10 × 0.8) = 7.5
    assert_eq!((base.replicas, base.usd_per_hour.as_deref()), (Some(8), Some("40")));
    assert!(base.reason.starts_with("step 20 fails: ttft_p95"), "{base:?}");
    assert_eq!(capacity.arms["cand"].usd_per_hour, None, "it has no price");
    assert!(capacity.assumption.contains("evenly"));
}

#[test]
fn an_open_question_ends_the_search_and_is_named() {
    let suite = with_demand(SweepOver::RatePerS, &[10.0, 20.0]);
    // One in twenty is too slow: the percentile's interval holds the limit.
    let answer =
        |_: &str, unit: &Unit| after(if unit.stage == 1 && unit.position.is_multiple_of(20) { 900 } else { 100 });
    let summary = Kit::play_units(&suite, answer).summary();
    let base = &summary.capacity.as_ref().unwrap().arms["base"];
    assert_eq!(base.rate_per_replica, Some(10.0));
    assert!(base.reason.starts_with("step 20 is open: ttft_p95"), "{base:?}");
    assert_eq!(arm(&summary, "base").steps[1].slo[0].verdict, StepVerdict::Inconclusive);
}

#[test]
fn capacity_counts_failures_as_answers_that_never_come() {
    let suite = with_demand(SweepOver::RatePerS, &[10.0, 20.0]);
    let answer = |_: &str, unit: &Unit| match unit.stage {
        1 if unit.position.is_multiple_of(10) => failed(Outcome::ServerError),
        _ => after(100),
    };
    let base = Kit::play_units(&suite, answer).summary().capacity.unwrap().arms["base"].clone();
    assert_eq!(base.rate_per_replica, Some(10.0));
    assert!(base.reason.contains("a failed request"), "{base:?}");
}

#[test]
fn a_limit_that_was_not_reached_is_a_lower_bound() {
    let suite = with_demand(SweepOver::RatePerS, &[10.0, 20.0]);
    let base = Kit::play_units(&suite, |_, _| after(100)).summary().capacity.unwrap().arms["base"].clone();
    assert_eq!((base.rate_per_replica, base.at_least, base.replicas), (Some(20.0), true, Some(4)));
    let none = Kit::play_units(&suite, |_, _| after(900)).summary().capacity.unwrap().arms["base"].clone();
    assert_eq!((none.rate_per_replica, none.replicas, none.usd_per_hour), (None, None, None));
    assert!(none.reason.starts_with("no step holds; step 10 fails"), "{}", none.reason);
}

#[test]
fn a_closed_sweep_brackets_the_rate_and_plans_nothing() {
    let suite = with_demand(SweepOver::Concurrency, &[1.0, 2.0, 4.0, 8.0, 16.0]);
    let summary = Kit::play_units(&suite, four_at_once).summary();
    let capacity = &summary.capacity.as_ref().unwrap().arms["base"];
    assert!(capacity.replicas.is_none() && capacity.reason.contains("open load"));
    let bracket = arm(&summary, "base").bracket.as_ref().unwrap();
    assert!(close(bracket.low_per_s, 40.0) && close(bracket.high_per_s, 40.0), "{bracket:?}");
    assert!(bracket.note.starts_with("step 16 fails") && bracket.note.contains("rate_per_s"), "{bracket:?}");
}
