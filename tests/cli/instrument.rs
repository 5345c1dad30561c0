//! What a run records of its own instrument.

use serde_json::{Value, json};

use crate::kit::{Dir, api, server, suite};

/// The journal's lines of one kind.
fn lines(dir: &Dir, kind: &str) -> Vec<Value> {
    let journal = dir.read("run/journal.jsonl");
    let lines = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["t"] == kind).collect()
}

#[test]
fn a_run_that_is_long_enough_is_calibrated_at_its_own_load() {
    let dir = Dir::new();
    let base = server(json!({"ttft_ms": {"fixed": 8.0}}));
    dir.write("s.yaml", &suite(400, &api(&base.url()), None, ""));
    let ran = dir.run(&["run", "s.yaml", "--out", "run"]).exits(0);
    let watched = lines(&dir, "instrument");
    assert_eq!(watched.len(), 1, "one slot");
    assert!(watched[0]["figures"]["n"].as_u64().unwrap() > 20, "{}", watched[0]);
    let calibrated = lines(&dir, "calibration");
    let figures = &calibrated[0]["figures"];
    assert_eq!((&figures["source"], &figures["concurrency"]), (&json!("run"), &json!(4)));
    // "star", " name" and the number.
    assert_eq!(figures["tokens"].as_u64().unwrap(), 3 * figures["requests"].as_u64().unwrap());
    assert_eq!(&dir.json("run/summary.json")["environment"]["instrument"]["calibration"], figures);
    assert!(ran.out.contains("Instrument: the reading thread"), "{}", ran.out);
    // The server under test was asked what the plan says and no more: a warm-up of two, and 400.
    assert_eq!(base.stats().requests, 402);
}

#[test]
fn a_short_run_has_no_calibration_and_says_so() {
    let dir = Dir::new();
    let base = server(json!({"ttft_ms": {"fixed": 30.0}}));
    dir.write("s.yaml", &suite(12, &api(&base.url()), None, ""));
    let ran = dir.run(&["run", "s.yaml", "--out", "run"]).exits(0);
    assert_eq!(lines(&dir, "calibration"), Vec::<Value>::new());
    assert!(ran.out.replace('\n', " ").contains("the client’s own error is not known"), "{}", ran.out);
}
