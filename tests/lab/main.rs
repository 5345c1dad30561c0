//! The whole pipeline on a real engine: llama.cpp with a real model, as `lab/lab up` starts it. `./test` starts it and
//! names its environment file in `COUNTERPOISE_LAB_ENV`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod agreement;
mod engine;

use engine::Lab;
use serde_json::Value;

const ARMS: [&str; 4] = ["q8", "q4", "kv-q4", "speculative"];

/// One run serves all checks: an engine on two cores is slow.
#[test]
fn a_real_engine_is_asked_graded_timed_and_compared() {
    let lab = Lab::found();
    let before = ARMS.map(|arm| lab.counters(arm));
    // A machine that no lab runs on, so that the bounds are far away; the model's sizes are the file's own.
    let hardware = "deployments.q8.hardware={bandwidth_gb_s: 1000, tflops: 100, memory_gb: 16}";
    let shape = "deployments.q8.model_shape={gguf: \"${env:LAB_Q8_GGUF}\"}";
    let run = lab.run(&["run", "suites/lab-quant.yaml", "--limit", "12", "--set", hardware, "--set", shape]);
    let after = ARMS.map(|arm| lab.counters(arm));
    assert!([0, 1, 3].contains(&run.code), "exit {}\n{}\n{}", run.code, run.out, run.err);

    let summary = run.json("summary.json");
    every_arm_answered(&summary);
    the_gates_have_evidence(&summary);
    quantization_and_drafts_show_what_they_do(&summary);
    the_model_s_own_header_tells_its_sizes(&summary);

    let attempts = run.attempts();
    agreement::token_counts_agree_with_the_server(&attempts);
    agreement::timings_agree_with_the_server(&attempts);
    for ((arm, before), after) in ARMS.iter().zip(&before).zip(&after) {
        agreement::counters_moved_by_what_was_asked(arm, before, after, &attempts);
    }
    regrading_without_servers_gives_the_same_bytes(&run);
    a_key_is_printed_nowhere(&lab);
}

fn every_arm_answered(summary: &Value) {
    for arm in ["q8", "q8-twin", "q4", "kv-q4", "speculative"] {
        let arm_summary = &summary["arms"][arm];
        let requests = &arm_summary["requests"];
        let planned = requests["planned"].as_u64().unwrap();
        let completed = requests["completed"].as_u64().unwrap_or(0) + requests["truncated"].as_u64().unwrap_or(0);
        assert_eq!(completed, planned, "{arm}: {requests}");
        assert_eq!(arm_summary["tokens"]["usage_share"], 1.0, "{arm}");
        for figure in ["ttft_ms", "tpot_ms", "e2e_ms"] {
            let p50 = arm_summary["latency"][figure]["p50"].as_f64().unwrap();
            assert!(p50 > 0.0, "{arm} {figure}");
        }
        // A model of 135 million parameters knows something, and not everything.
        let accuracy = arm_summary["quality"]["accuracy"]["overall"]["point"].as_f64().unwrap();
        assert!((0.05..0.95).contains(&accuracy), "{arm} is right in {accuracy}");
    }
}

fn the_gates_have_evidence(summary: &Value) {
    assert_ne!(summary["verdict"], "invalid", "{}", summary["validity"]);
    for gate in summary["gates"].as_array().unwrap() {
        assert!(!gate["reason"].as_str().unwrap().is_empty(), "{gate}");
    }
    for candidate in ["q4", "kv-q4", "speculative"] {
        let comparisons = summary["comparisons"].as_array().unwrap();
        let comparison = comparisons.iter().find(|c| c["candidate"] == candidate).unwrap();
        let delta = &comparison["quality"]["accuracy"]["delta"];
        let (low, high) = (delta["low"].as_f64().unwrap(), delta["high"].as_f64().unwrap());
        assert!(low < high && low >= -1.0 && high <= 1.0, "{delta}");
        assert!(comparison["speed"]["tpot_p50"]["point"].as_f64().unwrap() > 0.0);
        assert!(comparison["noise_floor"]["flip_rate"].is_number(), "the twin's flips stand beside");
    }
}

fn quantization_and_drafts_show_what_they_do(summary: &Value) {
    let changed = |candidate: &str| {
        let comparisons = summary["comparisons"].as_array().unwrap();
        let comparison = comparisons.iter().find(|c| c["candidate"] == candidate).unwrap();
        comparison["answers_changed"]["point"].as_f64().unwrap()
    };
    // Four bits for eight changes what a small model says; drafts must not, but for rounding in a batch.
    assert!(changed("q4") > 0.2, "q4 changed {}", changed("q4"));
    assert!(changed("speculative") < changed("q4"), "speculative changed {}", changed("speculative"));
    let server = &summary["arms"]["speculative"]["server"];
    let text = server.to_string();
    assert!(text.contains("draft"), "no draft figures in {text}");
}

/// SmolLM2-135M: 134 515 008 weights, 143 025 408 bytes of them in the file, 30 layers of 3 key-value heads of 64.
fn the_model_s_own_header_tells_its_sizes(summary: &Value) {
    let light = &summary["arms"]["q8"]["speed_of_light"];
    assert_eq!(light["source"], "read from smollm2-135m-q8_0.gguf");
    assert_eq!(light["weight_bytes"], 143_025_408.0);
    assert_eq!(light["kv_bytes_per_token"], 23_040.0);
    let prefill = &light["prefill_over_bound"];
    for over in [&light["tpot_over_bound"], prefill] {
        assert!(over["point"].as_f64().unwrap() > 1.0 && over["n"].as_u64().unwrap() > 0, "{light}");
    }
    assert_eq!(light["prefill_measured_by"], "server", "llama.cpp times each prompt");
}

fn regrading_without_servers_gives_the_same_bytes(run: &engine::Run) {
    let before = run.read("summary.json");
    std::fs::remove_file(run.dir.path().join("run/scores.jsonl")).unwrap();
    let again = Lab::regrade(run);
    assert_eq!(again.code, run.code, "{}", again.err);
    assert_eq!(run.read("summary.json"), before);
}

/// llama.cpp without a key of its own ignores one that is sent; what it must not do is show up anywhere. The part that is
/// looked for has letters: four digits alone turn up among a run's instants.
fn a_key_is_printed_nowhere(lab: &Lab) {
    let run = lab.smoke("a-key-nobody-may-see-4711");
    assert_eq!(run.code, 0, "{}\n{}", run.out, run.err);
    let files = ["journal.jsonl", "plan.json", "summary.json", "report.html"].map(|name| run.read(name));
    assert!(![run.out.as_str(), &run.err].iter().any(|text| text.contains("nobody-may-see")));
    assert!(!files.iter().any(|text| text.contains("nobody-may-see")));
}
