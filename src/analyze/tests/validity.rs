use serde_json::json;

use crate::analyze::summary::{GateVerdict, RunVerdict, Summary};
use crate::analyze::testkit::{Answer, Kit, codes, comparison, failed, passing, quality, right, suite, summary, wrong};
use crate::deploy::Outcome;
use crate::drive::{EndReason, Event, Finding, Severity};
use crate::spec::{Api, ArmsMode, CacheMode, GateKind, Optimization, Suite};

fn gated(samples: usize) -> Suite {
    let mut suite = suite(samples);
    suite.gates = vec![quality(0.05)];
    suite
}

fn severity(summary: &Summary, code: &str) -> Option<Severity> {
    summary.validity.iter().find(|f| f.code == code).map(|f| f.severity)
}

/// Two arms that differ a little, so that nothing looks inert.
fn plain(arm: &str, sample: u32, _: u32) -> Answer {
    Answer { ttft_us: if arm == "cand" { 30_000 } else { 50_000 }, ..passing(!sample.is_multiple_of(4)) }
}

#[test]
fn a_clean_run_has_no_finding() {
    let summary = summary(&gated(200), plain);
    assert_eq!(codes(&summary), Vec::<&str>::new());
    assert_eq!(summary.verdict, RunVerdict::Pass);
}

#[test]
fn a_twin_that_differs_invalidates_the_run() {
    let mut suite = gated(200);
    suite.noise_floor = true;
    let differing = |lost: u32| {
        move |arm: &str, sample: u32, repeat: u32| {
            if arm == "base-twin" && sample < lost { wrong() } else { plain_right(arm, sample, repeat) }
        }
    };
    let broken = summary(&suite, differing(15));
    assert_eq!(severity(&broken, "null_failed"), Some(Severity::Invalid));
    assert_eq!(broken.verdict, RunVerdict::Invalid);
    // Eight one-sided flips happen more often than once in a thousand.
    assert_eq!(severity(&summary(&suite, differing(8)), "null_failed"), None);
}

fn plain_right(arm: &str, _: u32, _: u32) -> Answer {
    Answer { ttft_us: if arm == "cand" { 30_000 } else { 50_000 }, ..right() }
}

#[test]
fn another_sampling_invalidates_the_comparison() {
    let mut other = gated(200);
    other.deployments[1].sampling.max_tokens = 512;
    let found = summary(&other, plain);
    assert_eq!(severity(&found, "sampling_differs"), Some(Severity::Invalid));
    assert!(found.validity[0].message.contains("max_tokens 256 and 512"), "{}", found.validity[0].message);
    assert_eq!(found.verdict, RunVerdict::Invalid);
    let mut by_body = gated(200);
    by_body.deployments[1].body.insert("temperature".into(), json!(0.7));
    assert_eq!(severity(&summary(&by_body, plain), "sampling_differs"), Some(Severity::Invalid));
    let mut same = gated(200);
    same.deployments[1].body.insert("temperature".into(), json!(0));
    assert_eq!(severity(&summary(&same, plain), "sampling_differs"), None);
}

#[test]
fn other_truncation_blocks_a_pass() {
    let mut suite = gated(200);
    suite.gates = vec![quality(0.5)];
    let summary = summary(&suite, |arm, sample, repeat| match (arm, sample) {
        ("cand", 0..20) => Answer { outcome: Outcome::Truncated, pass: Some(false), ..right() },
        _ => plain(arm, sample, repeat),
    });
    assert_eq!(severity(&summary, "truncation_differs"), Some(Severity::BlocksPass));
    assert_eq!(summary.gates[0].verdict, GateVerdict::Pass);
    assert_eq!(summary.verdict, RunVerdict::Inconclusive);
}

#[test]
fn a_finding_that_blocks_a_pass_never_makes_a_fail_milder() {
    let summary = summary(&gated(200), |arm, sample, _| match (arm, sample) {
        ("cand", 0..40) => failed(Outcome::ServerError),
        ("cand", 40..120) => wrong(),
        _ => right(),
    });
    assert!(codes(&summary).contains(&"error_rate_differs"));
    assert_eq!(summary.verdict, RunVerdict::Fail);
}

#[test]
fn other_prompt_tokens_block_a_pass_unless_the_label_implies_them() {
    let tokens = |cand: u64| {
        move |arm: &str, sample: u32, repeat: u32| Answer {
            prompt_tokens: if arm == "cand" { cand } else { 20 },
            ..plain(arm, sample, repeat)
        }
    };
    let mut suite = gated(200);
    let found = summary(&suite, tokens(21));
    assert_eq!(severity(&found, "prompt_tokens_differ"), Some(Severity::BlocksPass));
    assert_eq!(found.verdict, RunVerdict::Inconclusive);
    suite.deployments[1].optimization = Optimization::Vendor;
    assert_eq!(severity(&summary(&suite, tokens(21)), "prompt_tokens_differ"), Some(Severity::Informs));
    assert_eq!(summary(&suite, tokens(21)).verdict, RunVerdict::Pass);
    suite.deployments[1].optimization = Optimization::TruncatedContext;
    assert_eq!(severity(&summary(&suite, tokens(15)), "prompt_tokens_differ"), Some(Severity::Informs));
    assert_eq!(severity(&summary(&suite, tokens(21)), "prompt_tokens_differ"), Some(Severity::BlocksPass));
}

#[test]
fn a_shared_prompt_cache_withdraws_what_it_shortens() {
    let mut suite = gated(200);
    suite.cache = CacheMode::AsIs;
    suite.deployments[1].url = suite.deployments[0].url.clone();
    suite.gates.push(crate::analyze::testkit::gate(GateKind::Speed {
        metric: "ttft_p50".parse().unwrap(),
        ratio_at_most: Some(0.9),
        ratio_at_least: None,
        confidence: 0.95,
    }));
    let cached = |cached: Option<u64>| {
        move |arm: &str, sample: u32, repeat: u32| Answer { cached, ..plain(arm, sample, repeat) }
    };
    for seen in [Some(16), None] {
        let found = summary(&suite, cached(seen));
        assert_eq!(severity(&found, "cache_contaminated"), Some(Severity::WithdrawsFigures));
        assert_eq!(found.arms["cand"].latency.ttft_ms, None);
        assert_eq!(found.arms["cand"].throughput.requests_per_s, None);
        assert!(found.arms["cand"].latency.tpot_ms.is_some());
        assert!(!comparison(&found).speed.contains_key("ttft_p50"));
        assert!(comparison(&found).speed.contains_key("tpot_p50"));
        assert_eq!(found.gates[1].verdict, GateVerdict::Inconclusive);
        assert_eq!(found.verdict, RunVerdict::Inconclusive);
    }
    assert_eq!(severity(&summary(&suite, cached(Some(0))), "cache_contaminated"), None);
    let mut apart = suite.clone();
    apart.deployments[1].url = Some("http://elsewhere.test/v1".into());
    assert_eq!(severity(&summary(&apart, cached(Some(16))), "cache_contaminated"), None);
    let mut simulated = suite.clone();
    simulated.deployments.iter_mut().for_each(|d| d.api = Api::Simulated);
    assert_eq!(severity(&summary(&simulated, cached(None)), "cache_contaminated"), None);
    suite
        .deployments
        .iter_mut()
        .for_each(|d| d.body = crate::analyze::testkit::object(&[("cache_prompt", json!(false))]));
    assert_eq!(severity(&summary(&suite, cached(None)), "cache_contaminated"), None);
}

#[test]
fn an_optimization_that_changes_nothing_is_suspected() {
    let same = |_: &str, sample: u32, _: u32| passing(!sample.is_multiple_of(4));
    let found = summary(&gated(200), same);
    assert_eq!(severity(&found, "optimization_inert"), Some(Severity::BlocksPass));
    assert_eq!(found.verdict, RunVerdict::Inconclusive);
    // Faster, another text, or drafts made: something is on.
    assert_eq!(severity(&summary(&gated(200), plain), "optimization_inert"), None);
    let one_text = |arm: &str, sample: u32, repeat: u32| match (arm, sample) {
        ("cand", 7) => Answer { text: "right!".into(), ..right() },
        _ => same(arm, sample, repeat),
    };
    assert_eq!(severity(&summary(&gated(200), one_text), "optimization_inert"), None);
    let mut drafting = Kit::play(&gated(200), same);
    for attempt in drafting.attempts().filter(|a| a.arm == "cand") {
        attempt.server_timings = Some(json!({"draft_n": 4, "draft_n_accepted": 1}));
    }
    assert_eq!(severity(&drafting.summary(), "optimization_inert"), None);
    let mut no_label = gated(200);
    no_label.deployments[1].optimization = Optimization::None;
    assert_eq!(severity(&summary(&no_label, same), "optimization_inert"), None);
}

#[test]
fn arms_one_after_the_other_are_marked() {
    let mut suite = gated(200);
    suite.arms = ArmsMode::Sequential;
    let summary = summary(&suite, plain);
    assert_eq!(severity(&summary, "not_concurrent"), Some(Severity::WithdrawsFigures));
    // Quality is judged all the same, and an arm's own latencies stand.
    assert_eq!(summary.verdict, RunVerdict::Pass);
    assert!(summary.arms["cand"].latency.ttft_ms.is_some());
}

#[test]
fn few_blocks_are_said() {
    let found = summary(&gated(20), plain);
    assert!(found.validity.iter().any(|f| f.code == "too_few_samples" && f.message.contains("24 samples")));
}

#[test]
fn nothing_that_passes_points_at_the_grader() {
    let mut suite = gated(200);
    suite.gates = vec![quality(0.05)];
    let found = summary(&suite, |arm, _, _| Answer { ttft_us: if arm == "cand" { 1_000 } else { 9_000 }, ..wrong() });
    assert_eq!(severity(&found, "nothing_passes"), Some(Severity::BlocksPass));
    assert_eq!(found.verdict, RunVerdict::Inconclusive);
}

#[test]
fn a_task_that_nobody_passes_is_named_and_blocks_nothing() {
    let mut suite = gated(200);
    suite.tasks.push(crate::analyze::testkit::task("sums", None, 20));
    let found = summary(&suite, |arm, sample, repeat| match sample {
        0..200 => plain(arm, sample, repeat),
        _ => wrong(),
    });
    assert_eq!(severity(&found, "task_never_passed"), Some(Severity::Informs));
    assert!(found.validity[0].message.contains("`sums` (40 answers)"), "{}", found.validity[0].message);
    assert_eq!(found.verdict, RunVerdict::Pass);
}

#[test]
fn a_candidate_that_refuses_requests_fails_even_without_gates() {
    for outcome in [Outcome::BadRequest, Outcome::Unreachable] {
        let found = summary(&suite(100), move |arm, sample, _| match (arm, sample) {
            ("cand", 3) => failed(outcome),
            _ => right(),
        });
        assert_eq!(comparison(&found).verdict, RunVerdict::Fail);
        let gate = &found.gates[0];
        assert_eq!((gate.kind.as_str(), gate.verdict), ("stability", GateVerdict::Fail));
        assert!(gate.reason.contains(outcome.name()) && gate.reason.contains("it said no"), "{}", gate.reason);
    }
}

#[test]
fn a_broken_baseline_and_missing_credentials_are_invalid() {
    let broken = summary(&gated(100), |arm, sample, _| match (arm, sample) {
        ("base", 3) => failed(Outcome::BadRequest),
        _ => right(),
    });
    assert_eq!(broken.verdict, RunVerdict::Invalid);
    let refused = summary(&gated(100), |arm, sample, _| match (arm, sample) {
        ("cand", 3) => failed(Outcome::Auth),
        _ => right(),
    });
    assert_eq!(severity(&refused, "credentials_refused"), Some(Severity::Invalid));
    assert_eq!(refused.verdict, RunVerdict::Invalid);
}

#[test]
fn a_run_that_stopped_early_is_no_pass() {
    let mut kit = Kit::play(&gated(400), plain);
    let keep = kit.events.len() - 60;
    kit.events.truncate(keep);
    assert_eq!(severity(&kit.summary(), "run_incomplete"), Some(Severity::BlocksPass));
    assert_eq!(kit.summary().verdict, RunVerdict::Inconclusive);
    assert!(!kit.summary().run.complete);
    kit.events.push(Event::Ended { at_us: 1, complete: false, reason: EndReason::Aborted("no quota".into()) });
    let aborted = kit.summary();
    assert_eq!(severity(&aborted, "run_aborted"), Some(Severity::Invalid));
    assert_eq!(aborted.verdict, RunVerdict::Invalid);
}

#[test]
fn a_finding_of_the_run_withdraws_the_figures_of_its_arm() {
    let mut kit = Kit::play(&gated(200), plain);
    let finding = |code: &str, arm: Option<&str>| {
        Event::Finding(Finding {
            code: code.into(),
            severity: Severity::WithdrawsFigures,
            arm: arm.map(str::to_owned),
            message: "m".into(),
        })
    };
    kit.events.push(finding("stream_batched", Some("cand")));
    kit.events.push(finding("stream_batched", Some("cand")));
    let batched = kit.summary();
    assert_eq!(codes(&batched), ["stream_batched"]);
    assert_eq!(batched.arms["cand"].latency.tpot_ms, None);
    assert!(batched.arms["cand"].latency.e2e_ms.is_some());
    assert!(batched.arms["base"].latency.tpot_ms.is_some());
    assert!(!comparison(&batched).speed.contains_key("tpot_p50"));
    kit.events.push(finding("client_limited", None));
    let limited = kit.summary();
    assert_eq!(limited.arms["base"].latency.e2e_ms, None);
    assert!(comparison(&limited).speed.keys().all(|metric| metric == "error_rate"));
    // Quality doesn't hang on the clock.
    assert_eq!(limited.verdict, RunVerdict::Pass);
}

#[test]
fn the_run_s_verdict_is_the_worst_of_its_comparisons() {
    let mut suite = gated(200);
    suite.deployments.push(crate::analyze::testkit::deployment("third", Optimization::KvQuantized));
    suite.comparisons.push(crate::spec::Comparison { baseline: "base".into(), candidate: "third".into() });
    let summary = summary(&suite, |arm, sample, repeat| match arm {
        "third" => passing(sample % 2 == 0),
        _ => plain(arm, sample, repeat),
    });
    let verdicts: Vec<_> = summary.comparisons.iter().map(|c| c.verdict).collect();
    assert_eq!(verdicts, [RunVerdict::Pass, RunVerdict::Fail]);
    assert_eq!(summary.verdict, RunVerdict::Fail);
}
