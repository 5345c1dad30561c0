use crate::analyze::summary::{GateVerdict, RunVerdict};
use crate::analyze::testkit::{
    Answer, Kit, codes, comparison, failed, first_gate, gate, passing, quality, right, suite, summary, task, wrong,
};
use crate::deploy::{Deadline, Outcome};
use crate::spec::{Each, GateKind, Scope, Suite};

fn gated(samples: usize, margin: f64) -> Suite {
    let mut suite = suite(samples);
    suite.gates = vec![quality(margin)];
    suite
}

#[test]
fn an_unchanged_candidate_passes_with_enough_samples() {
    // Faster, so that the optimization does something.
    let summary = summary(&gated(300, 0.02), |arm, sample, _| Answer {
        ttft_us: if arm == "cand" { 30_000 } else { 50_000 },
        ..passing(sample % 3 != 0)
    });
    let gate = first_gate(&summary);
    assert_eq!(gate.verdict, GateVerdict::Pass, "{}", gate.reason);
    assert_eq!(summary.verdict, RunVerdict::Pass);
    assert_eq!((gate.unit.as_str(), gate.bound), ("share", Some(-0.02)));
    assert_eq!(gate.estimate.as_ref().unwrap().n, 300);
}

#[test]
fn too_few_samples_are_never_a_pass_and_say_how_many_would_do() {
    let summary = summary(&gated(20, 0.02), |_, sample, _| passing(sample % 3 != 0));
    let gate = first_gate(&summary);
    assert_eq!(gate.verdict, GateVerdict::Inconclusive);
    assert!(gate.reason.contains("needs about 150 samples, has 20"), "{}", gate.reason);
    assert_eq!(summary.verdict, RunVerdict::Inconclusive);
}

#[test]
fn no_samples_at_all_are_never_a_pass() {
    let mut kit = Kit::play(&gated(100, 0.02), |_, _, _| right());
    kit.scores.clear();
    let summary = kit.summary();
    assert_eq!(first_gate(&summary).verdict, GateVerdict::NotEvaluable);
    assert_eq!(summary.verdict, RunVerdict::Inconclusive);
}

#[test]
fn a_clear_loss_fails() {
    let summary = summary(&gated(300, 0.02), |arm, sample, _| passing(arm == "base" || sample % 5 != 0));
    let gate = first_gate(&summary);
    assert_eq!(gate.verdict, GateVerdict::Fail);
    assert!(gate.reason.contains("Δ = −20.0 pp [−"), "{}", gate.reason);
    assert_eq!(summary.verdict, RunVerdict::Fail);
}

#[test]
fn a_certain_loss_of_uncertain_size_is_said_to_be_worse() {
    // 12 of 200 lost, none gained: certainly worse, but beyond 5 points?
    let summary = summary(&gated(200, 0.05), |arm, sample, _| passing(arm == "base" || sample % 17 != 0));
    let gate = first_gate(&summary);
    assert_eq!(gate.verdict, GateVerdict::Inconclusive);
    assert!(gate.reason.contains("worse, size undecided"), "{}", gate.reason);
}

#[test]
fn thirty_one_rate_limited_requests_do_not_turn_green() {
    let answer = |arm: &str, sample: u32, _: u32| {
        if arm == "cand" && sample < 31 { failed(Outcome::RateLimited) } else { right() }
    };
    let strict = summary(&gated(300, 0.02), answer);
    let gate = first_gate(&strict);
    assert_eq!(gate.verdict, GateVerdict::Fail);
    assert!(gate.reason.contains("unscored answers as failures"), "{}", gate.reason);
    assert!(gate.reason.contains("31 answers of the candidate are unscored"), "{}", gate.reason);
    // Even with a margin that swallows them, the arms lost different samples: no pass.
    let lax = summary(&gated(300, 0.25), answer);
    assert_eq!(first_gate(&lax).verdict, GateVerdict::Pass);
    assert!(codes(&lax).contains(&"error_rate_differs"));
    assert_eq!(comparison(&lax).verdict, RunVerdict::Inconclusive);
}

#[test]
fn a_candidate_that_answers_nothing_fails() {
    let dead = |samples: usize| {
        summary(&gated(samples, 0.02), |arm, _, _| if arm == "cand" { failed(Outcome::ServerError) } else { right() })
    };
    let summary = dead(100);
    let gate = first_gate(&summary);
    assert_eq!(gate.verdict, GateVerdict::Fail, "{}", gate.reason);
    assert!(gate.reason.contains("unscored answers as failures Δ = −100.0 pp"), "{}", gate.reason);
    assert_eq!((&gate.estimate, comparison(&summary).verdict), (&None, RunVerdict::Fail));
    // One sample tells too little to fail on.
    assert_eq!(first_gate(&dead(1)).verdict, GateVerdict::Inconclusive);
}

#[test]
fn a_pass_must_survive_unscored_answers_as_failures() {
    // 6 of 300 unscored: within 2 points as scored, undecided as failures.
    let answer = |arm: &str, sample: u32, _: u32| {
        if arm == "cand" && sample < 6 { Answer { pass: None, ..right() } } else { right() }
    };
    let summary = summary(&gated(300, 0.02), answer);
    let gate = first_gate(&summary);
    assert_eq!(gate.verdict, GateVerdict::Inconclusive);
    assert!(gate.reason.contains("passes as scored, but"), "{}", gate.reason);
}

#[test]
fn samples_that_the_baseline_did_not_score_are_left_out_and_counted() {
    let summary = summary(&gated(300, 0.02), |arm, sample, _| {
        if arm == "base" && sample < 3 { failed(Outcome::Timeout(Deadline::Total)) } else { right() }
    });
    let gate = first_gate(&summary);
    assert_eq!(gate.estimate.as_ref().unwrap().n, 297);
    assert!(gate.reason.contains("3 samples that the baseline didn't score are left out"), "{}", gate.reason);
}

#[test]
fn fast_garbage_fails_in_spite_of_its_speed() {
    let mut suite = gated(300, 0.02);
    suite.gates.push(gate(GateKind::Speed {
        metric: "e2e_p50".parse().unwrap(),
        ratio_at_most: Some(0.9),
        ratio_at_least: None,
        confidence: 0.95,
    }));
    let summary = summary(&suite, |arm, sample, _| match arm {
        "cand" => Answer { ttft_us: 25_000, gap_us: 5_000, ..passing(sample % 2 == 0) },
        _ => right(),
    });
    assert_eq!(summary.gates[1].verdict, GateVerdict::Pass, "{}", summary.gates[1].reason);
    assert_eq!(summary.gates[0].verdict, GateVerdict::Fail);
    assert_eq!(summary.verdict, RunVerdict::Fail);
}

#[test]
fn the_floor_binds_beside_the_margin() {
    let mut suite = suite(300);
    let with_floor = |at_least| {
        gate(GateKind::Quality {
            metric: "accuracy".into(),
            margin: 0.02,
            confidence: 0.95,
            at_least: Some(at_least),
            each: None,
        })
    };
    let answer = |_: &str, sample: u32, _: u32| passing(sample % 10 < 7);
    for (floor, verdict, said) in [
        (0.6, GateVerdict::Pass, "above the floor of 60 %"),
        (0.69, GateVerdict::Inconclusive, "not certainly above the floor"),
        (0.8, GateVerdict::Fail, "below the floor of 80 %"),
    ] {
        suite.gates = vec![with_floor(floor)];
        let summary = summary(&suite, answer);
        assert_eq!(first_gate(&summary).verdict, verdict, "{}", first_gate(&summary).reason);
        assert!(first_gate(&summary).reason.contains(said), "{}", first_gate(&summary).reason);
    }
}

fn many_tasks(tasks: usize, rows: usize, each: Each, confidence: f64) -> Suite {
    let mut suite = suite(rows);
    suite.tasks = (0..tasks).map(|i| task(&format!("t{i}"), Some(&format!("c{}", i % 2)), rows)).collect();
    suite.gates = vec![gate(GateKind::Quality {
        metric: "accuracy".into(),
        margin: 0.02,
        confidence,
        at_least: None,
        each: Some(each),
    })];
    suite
}

#[test]
fn a_graders_own_metric_looks_only_at_tasks_that_have_the_grader() {
    let mut suite = many_tasks(2, 60, Each::Task, 0.95);
    suite.tasks[1].graders[0].name = "another".into();
    suite.gates = vec![gate(GateKind::Quality {
        metric: "exact".into(),
        margin: 0.2,
        confidence: 0.95,
        at_least: Some(0.9),
        each: None,
    })];
    // The second task's rows are all wrong, and none of this metric's business.
    let summary = summary(&suite, |_, sample, _| passing(sample < 60));
    let gate = first_gate(&summary);
    assert_eq!((gate.verdict, gate.estimate.as_ref().unwrap().n), (GateVerdict::Pass, 60), "{}", gate.reason);
}

#[test]
fn a_family_is_judged_one_by_one_and_names_its_scopes() {
    let suite = many_tasks(4, 200, Each::Task, 0.95);
    let summary = summary(&suite, |arm, sample, _| passing(arm == "base" || sample >= 200 || sample % 4 != 0));
    let verdicts: Vec<_> = summary.gates.iter().map(|g| (g.scope.as_str(), g.verdict)).collect();
    assert_eq!(
        verdicts,
        [
            ("task t0", GateVerdict::Fail),
            ("task t1", GateVerdict::Pass),
            ("task t2", GateVerdict::Pass),
            ("task t3", GateVerdict::Pass)
        ]
    );
    let by_category = many_tasks(4, 200, Each::Category, 0.95);
    let summary = crate::analyze::testkit::summary(&by_category, |_, _, _| right());
    assert_eq!(summary.gates.iter().map(|g| g.scope.as_str()).collect::<Vec<_>>(), ["category c0", "category c1"]);
}

#[test]
fn one_loss_among_many_tasks_must_stand_holm_s_correction() {
    // 6 of 80 lost: beyond 2 points alone (p under 0.02), not as the worst of twelve.
    let answer = |arm: &str, sample: u32, _: u32| passing(arm == "base" || sample >= 80 || !sample.is_multiple_of(14));
    let lost_six = |rows: usize, tasks: usize| {
        let suite = many_tasks(tasks, rows, Each::Task, 0.95);
        summary(&suite, answer).gates.first().cloned().unwrap()
    };
    let alone = lost_six(80, 1);
    assert_eq!(alone.verdict, GateVerdict::Fail, "{}", alone.reason);
    let among = lost_six(80, 12);
    assert_eq!(among.verdict, GateVerdict::Inconclusive, "{}", among.reason);
    assert!(among.reason.contains("not among 12"), "{}", among.reason);
}

#[test]
fn a_scope_looks_at_its_own_samples_only() {
    let mut suite = suite(200);
    suite.tasks.push(task("sums", Some("maths"), 200));
    suite.gates = vec![quality(0.02), quality(0.02)];
    suite.gates[0].scope = Scope { task: Some("facts".into()), category: None };
    suite.gates[1].scope = Scope { task: None, category: Some("maths".into()) };
    let summary = summary(&suite, |arm, sample, _| passing(arm == "base" || sample < 200 || sample % 3 == 0));
    assert_eq!(summary.gates[0].verdict, GateVerdict::Pass);
    assert_eq!((summary.gates[1].verdict, summary.gates[1].scope.as_str()), (GateVerdict::Fail, "category maths"));
}

#[test]
fn an_advisory_gate_never_decides() {
    let mut suite = gated(300, 0.02);
    suite.gates[0].advisory = true;
    let lossy = |arm: &str, sample: u32, _: u32| passing(arm == "base" || sample.is_multiple_of(2));
    let alone = summary(&suite, lossy);
    assert_eq!(first_gate(&alone).verdict, GateVerdict::Fail);
    assert_eq!(alone.verdict, RunVerdict::None);
    suite.gates.push(quality(0.9));
    assert_eq!(summary(&suite, lossy).verdict, RunVerdict::Pass);
}

#[test]
fn an_unknown_metric_and_a_missing_baseline_are_not_evaluable() {
    let mut suite = gated(300, 0.02);
    let GateKind::Quality { metric, .. } = &mut suite.gates[0].kind else { unreachable!() };
    "rouge".clone_into(metric);
    assert_eq!(first_gate(&summary(&suite, |_, _, _| right())).verdict, GateVerdict::NotEvaluable);
    let mut alone = gated(100, 0.02);
    alone.deployments.truncate(1);
    alone.comparisons.clear();
    let summary = summary(&alone, |_, _, _| right());
    assert_eq!(first_gate(&summary).verdict, GateVerdict::NotEvaluable);
    assert_eq!(summary.verdict, RunVerdict::Inconclusive);
}

#[test]
fn graded_scores_and_repeats_decide_by_samples_not_by_requests() {
    let mut suite = suite(20);
    suite.repeats = 20;
    suite.gates = vec![quality(0.02)];
    // 400 pairs without a flip, but 20 samples: nothing is proven.
    let gate = first_gate(&summary(&suite, |_, _, _| right())).clone();
    assert_eq!(gate.verdict, GateVerdict::Inconclusive, "{}", gate.reason);
    assert_eq!(gate.estimate.as_ref().unwrap().n, 20);
    suite.tasks = vec![task("facts", None, 400)];
    suite.repeats = 2;
    let gate = first_gate(&summary(&suite, |_, _, repeat| passing(repeat == 0))).clone();
    assert_eq!(gate.verdict, GateVerdict::Pass, "{}", gate.reason);
}

#[test]
fn without_gates_there_is_no_verdict() {
    assert_eq!(summary(&suite(100), |_, _, _| wrong()).verdict, RunVerdict::None);
}
