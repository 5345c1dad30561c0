//! Exit codes of runs that ran.

use serde_json::json;

use crate::kit::{Dir, api, server, suite};

const QUALITY: &str = "noise_floor: false\ngates: [{quality: {metric: accuracy, margin: 10pp}}]\n";

#[test]
fn a_candidate_as_good_passes() {
    let dir = Dir::new();
    // As good and faster: an arm that is like the baseline in everything is told to be inert.
    let (base, cand) = (server(json!({"ttft_ms": {"fixed": 12.0}})), server(json!({})));
    dir.write("s.yaml", &suite(120, &api(&base.url()), Some(&format!("url: \"{}\"", cand.url())), QUALITY));
    let ran = dir.run(&["run", "s.yaml", "--out", "run"]).exits(0);
    assert!(ran.out.contains("SHIP"), "{}", ran.out);
    assert_eq!(dir.json("run/summary.json")["verdict"], "pass");
}

#[test]
fn a_candidate_that_errs_fails_though_it_is_fast() {
    let dir = Dir::new();
    let base = server(json!({"ttft_ms": {"fixed": 8.0}}));
    let cand = server(json!({"errors": {"common": 0.6}}));
    let gates = "noise_floor: false\ngates:\n  - quality: {metric: accuracy, margin: 10pp}\n  - speed: {metric: ttft_p50, ratio_at_most: 1.0}\n";
    dir.write("s.yaml", &suite(120, &api(&base.url()), Some(&format!("url: \"{}\"", cand.url())), gates));
    dir.run(&["run", "s.yaml", "--out", "run"]).exits(1);
    let summary = dir.json("run/summary.json");
    let verdicts: Vec<_> = summary["gates"].as_array().unwrap().iter().map(|g| g["verdict"].clone()).collect();
    // A host that is busy elsewhere makes the client late: then speed is not told, and says so.
    let limited = summary["validity"].as_array().unwrap().iter().any(|f| f["code"] == "client_limited");
    assert_eq!(verdicts, [json!("fail"), json!(if limited { "inconclusive" } else { "pass" })]);
}

#[test]
fn too_little_evidence_is_inconclusive_and_its_exit_is_chosen() {
    let dir = Dir::new();
    let (base, cand) = (server(json!({})), server(json!({})));
    let gates = "noise_floor: false\ngates: [{quality: {metric: accuracy, margin: 1pp}}]\n";
    dir.write("s.yaml", &suite(24, &api(&base.url()), Some(&format!("url: \"{}\"", cand.url())), gates));
    let ran = dir.run(&["run", "s.yaml", "--out", "run"]).exits(3);
    assert!(ran.out.contains("needs about") || ran.out.contains("samples"), "{}", ran.out);
    dir.run(&["regrade", "run", "--inconclusive", "warn"]).exits(0);
    dir.run(&["regrade", "run", "--inconclusive", "pass"]).exits(0);
    dir.run(&["regrade", "run"]).exits(3);
}

#[test]
fn without_gates_there_is_no_verdict() {
    let dir = Dir::new();
    let base = server(json!({}));
    dir.write("s.yaml", &suite(12, &api(&base.url()), None, ""));
    dir.run(&["run", "s.yaml", "--out", "run"]).exits(0);
    assert_eq!(dir.json("run/summary.json")["verdict"], "none");
}

#[test]
fn a_candidate_that_is_not_there_fails_its_comparison() {
    let dir = Dir::new();
    let base = server(json!({}));
    let gone = server(json!({})).url();
    dir.write("s.yaml", &suite(24, &api(&base.url()), Some(&format!("url: \"{gone}\"")), QUALITY));
    dir.run(&["run", "s.yaml", "--out", "run"]).exits(1).says(&["deployment `cand` cannot be reached"]);
    let summary = dir.json("run/summary.json");
    assert_eq!(summary["arms"]["cand"]["requests"]["unreachable"], 24);
    assert_eq!(summary["arms"]["base"]["requests"]["completed"], 24);
    assert_eq!(summary["comparisons"][0]["verdict"], "fail");
}

#[test]
fn rate_limited_answers_never_turn_green() {
    let dir = Dir::new();
    let base = server(json!({}));
    let cand = server(json!({"faults": [{"kind": "http_429", "rate": 0.5, "by": "sample"}]}));
    let gates = format!("retry: {{max_attempts: 1}}\n{QUALITY}");
    dir.write("s.yaml", &suite(96, &api(&base.url()), Some(&format!("url: \"{}\"", cand.url())), &gates));
    let ran = dir.run(&["run", "s.yaml", "--out", "run"]);
    assert!(ran.code == 1 || ran.code == 3, "exit {}\n{}", ran.code, ran.out);
    let limited = dir.json("run/summary.json")["arms"]["cand"]["requests"]["rate_limited"].as_u64().unwrap();
    assert!((30..70).contains(&limited), "{limited}");
}

#[test]
fn regrading_takes_gates_and_graders_of_another_suite() {
    let dir = Dir::new();
    let (base, cand) = (server(json!({})), server(json!({"errors": {"common": 0.3}})));
    let cand_url = format!("url: \"{}\"", cand.url());
    dir.write("s.yaml", &suite(96, &api(&base.url()), Some(&cand_url), QUALITY));
    dir.run(&["run", "s.yaml", "--out", "run"]).exits(1);
    // Every answer holds the word: a grader that asks for no more passes both arms.
    let lenient =
        suite(96, &api(&base.url()), Some(&cand_url), QUALITY).replace("{exact: {}}", "{contains: {answer: star}}");
    dir.write("lenient.yaml", &lenient);
    drop((base, cand));
    dir.run(&["regrade", "run", "--suite", "lenient.yaml"]).exits(0);
}

#[test]
fn the_step_summary_is_written_for_github() {
    let dir = Dir::new();
    let base = server(json!({}));
    dir.write("s.yaml", &suite(12, &api(&base.url()), None, ""));
    let path = dir.path("step.md").display().to_string();
    dir.run_with(&["run", "s.yaml", "--out", "run"], &[("GITHUB_STEP_SUMMARY", &path)]).exits(0);
    assert!(dir.read("step.md").contains("base"));
}
