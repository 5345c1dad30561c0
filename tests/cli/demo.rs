//! `demo`: the whole job, and everything that is made of its files afterwards.

use serde_json::Value;

use crate::kit::Dir;

fn has_keys(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value.get(key).is_some(), "no `{key}` in {}", value.to_string().chars().take(300).collect::<String>());
    }
}

#[test]
fn does_the_whole_job_offline() {
    let dir = Dir::new();
    let ran = dir.run(&["demo", "--out", "run", "--csv", "rows.csv", "--junit", "gates.xml", "--markdown", "sum.md"]);
    let ran = ran.exits(1);
    assert!(ran.out.contains("SIMULATED"), "{}", ran.out);
    assert!(ran.out.contains("run/report.html"), "{}", ran.out);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80 || line.starts_with("report:")), "{}", ran.out);
    summary_has_the_shape_of_its_contract(&dir.json("run/summary.json"));
    report_is_one_file(&dir.read("run/report.html"));
    let rows = dir.read("rows.csv");
    assert_eq!(rows.lines().count(), 1 + 240 * 5, "one row for each request");
    assert!(
        rows.starts_with("unit,arm,task,category,sample,repeat,phase,slot,attempts,outcome,finish_reason,pass,value")
    );
    assert!(dir.read("gates.xml").contains("<failure"));
    assert!(dir.read("sum.md").contains("truncated"));
    regrading_gives_the_same_bytes(&dir);
    grades_have_a_row_for_each_grader(&dir);
}

fn summary_has_the_shape_of_its_contract(summary: &Value) {
    assert_eq!(summary["format"], "counterpoise.summary/1");
    assert_eq!(summary["verdict"], "fail");
    has_keys(summary, &["suite", "gates", "arms", "comparisons", "validity", "environment"]);
    has_keys(&summary["gates"][0], &["gate", "arm", "scope", "verdict", "estimate", "bound", "reason"]);
    for name in ["baseline", "baseline-twin", "quantized", "speculative", "truncated"] {
        let arm = &summary["arms"][name];
        has_keys(arm, &["requests", "quality", "latency", "throughput", "tokens", "cost", "stability", "server"]);
        assert_eq!(arm["requests"]["planned"], 240);
        assert_eq!(arm["requests"]["completed"], 240);
        has_keys(&arm["quality"]["accuracy"], &["overall", "by_task", "by_category"]);
        latency_has_its_shape(summary, name, &arm["latency"]["ttft_ms"]);
        has_keys(&arm["throughput"], &["requests_per_s", "output_tokens_per_s", "input_tokens_per_s"]);
        has_keys(&arm["cost"], &["total_usd", "usd_per_request", "usd_per_success"]);
    }
    let watched = &summary["environment"]["instrument"]["arms"]["quantized"];
    has_keys(watched, &["slots", "looks", "stall_p99_ms", "stall_max_ms", "lanes_cpu_share", "open_sockets"]);
    assert!(watched["looks"].as_u64().unwrap() > 0);
    let truncated = summary["comparisons"].as_array().unwrap().iter().find(|c| c["candidate"] == "truncated").unwrap();
    assert_eq!(truncated["verdict"], "fail");
    has_keys(truncated, &["baseline", "quality", "speed", "cost", "noise_floor", "answers_changed", "flips"]);
    let delta = &truncated["quality"]["accuracy"];
    has_keys(delta, &["delta", "gained", "lost", "both_right", "both_wrong", "by_task", "by_category"]);
    assert_eq!(delta["delta"]["method"], "tango");
    // The evidence stands at the beginning of the passages; the tail is what is kept.
    assert!(delta["by_task"]["passages"]["lost"].as_u64().unwrap() > 30);
    assert_eq!(delta["by_task"]["facts"]["lost"], 0);
}

/// On a host that is too busy to measure, the instrument says so, and there is no figure.
fn latency_has_its_shape(summary: &Value, arm: &str, ttft: &Value) {
    let mut findings = summary["validity"].as_array().unwrap().iter();
    let limited = findings.any(|f| f["code"] == "client_limited" && (f["arm"] == arm || f["arm"].is_null()));
    if limited {
        assert!(ttft.is_null(), "{arm}: a figure that is withdrawn is not printed");
        return;
    }
    has_keys(ttft, &["p50", "p90", "p95", "p99", "mean", "max", "n", "intervals"]);
    assert!(ttft["p99"].is_null(), "n(1 − q) = 2.4 is under 10");
}

fn report_is_one_file(html: &str) {
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    assert!(!html.contains("http://") && !html.contains("https://"), "an external address");
    assert!(html.contains("Content-Security-Policy"));
    assert!(html.to_lowercase().contains("simulated"));
}

fn regrading_gives_the_same_bytes(dir: &Dir) {
    let (summary, scores) = (dir.read("run/summary.json"), dir.read("run/scores.jsonl"));
    std::fs::remove_file(dir.path("run/scores.jsonl")).unwrap();
    std::fs::remove_file(dir.path("run/summary.json")).unwrap();
    dir.run(&["regrade", "run"]).exits(1).says(&["1200 recorded answers"]);
    assert_eq!(dir.read("run/scores.jsonl"), scores);
    assert_eq!(dir.read("run/summary.json"), summary);
}

fn grades_have_a_row_for_each_grader(dir: &Dir) {
    dir.run(&["report", "run", "--grades-csv", "grades.csv"]).exits(0);
    assert_eq!(dir.read("grades.csv").lines().count(), 1 + 1200);
}
