//! Nothing recorded is ever lost, and nothing is asked twice.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::kit::{Dir, api, server, server_at, suite};

/// Final measured attempts by unit.
fn finals(journal: &str) -> HashMap<String, u32> {
    let mut counts = HashMap::new();
    for line in journal.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        if event["t"] == "attempt" && event["final"] == true && event["phase"] == "measured" {
            *counts.entry(event["unit"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
    }
    counts
}

/// Starts a run and waits until its journal holds some answers.
pub fn start(dir: &Dir) -> Child {
    let mut child =
        dir.command(&["run", "s.yaml", "--out", "run"]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    let journal = dir.path("run/journal.jsonl");
    for _ in 0..1_000 {
        let lines = std::fs::read_to_string(&journal).map_or(0, |text| text.matches("\"measured\"").count());
        if lines > 15 {
            return child;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("the run did not get going: {said}");
}

fn slow_suite(dir: &Dir) -> counterpoise::deploy::simulated::Server {
    let server = server(json!({"ttft_ms": {"fixed": 60.0}}));
    dir.write("s.yaml", &suite(160, &api(&server.url()), None, ""));
    server
}

pub fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn an_interrupt_keeps_what_is_recorded_and_a_resume_asks_the_rest() {
    let dir = Dir::new();
    let _server = slow_suite(&dir);
    let mut child = start(&dir);
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let before = finals(&dir.read("run/journal.jsonl"));
    assert!(!before.is_empty() && before.len() < 160, "{}", before.len());
    dir.run(&["run", "--resume", "run"]).exits(0);
    let after = finals(&dir.read("run/journal.jsonl"));
    assert_eq!(after.len(), 160);
    assert!(after.values().all(|&count| count == 1), "a unit was asked twice");
    assert_eq!(dir.json("run/summary.json")["arms"]["base"]["requests"]["completed"], 160);
}

#[test]
fn a_killed_run_is_repaired_and_taken_up() {
    let dir = Dir::new();
    let _server = slow_suite(&dir);
    let mut child = start(&dir);
    signal(&child, "KILL");
    child.wait().unwrap();
    // Whatever the kill left, a torn line is the worst that it can be.
    let mut text = dir.read("run/journal.jsonl");
    text.push_str("{\"t\":\"attempt\",\"unit\":\"00");
    dir.write("run/journal.jsonl", &text);
    dir.run(&["report", "run", "--json", "partial.json"]).exits(0);
    dir.run(&["run", "s.yaml", "--resume", "run"]).exits(0).says(&["repaired the journal"]);
    let after = finals(&dir.read("run/journal.jsonl"));
    assert_eq!(after.len(), 160);
    assert!(after.values().all(|&count| count == 1));
}

#[test]
fn a_baseline_that_goes_away_ends_the_run_and_a_resume_asks_the_rest() {
    let dir = Dir::new();
    let server = slow_suite(&dir);
    let address = server.addr();
    let child = start(&dir);
    drop(server);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("`base` has answered and is gone"), "{said}");
    let before = finals(&dir.read("run/journal.jsonl"));
    assert!(before.len() < 160, "units were given up with the server");
    let _back = server_at(json!({}), address);
    dir.run(&["run", "--resume", "run"]).exits(0);
    let summary = dir.json("run/summary.json");
    let requests = &summary["arms"]["base"]["requests"];
    // What was in flight when the server went is an error of its own; everything else was asked again.
    assert!(requests["completed"].as_u64().unwrap() >= 150, "{requests}");
}

#[test]
fn a_mended_suite_takes_the_place_of_one_that_never_measured() {
    let dir = Dir::new();
    let server = server(json!({"model": "sim-8b"}));
    dir.write("s.yaml", &suite(12, &api(&server.url()), None, ""));
    dir.run(&["run", "s.yaml", "--out", "run"]).exits(4).says(&["serves no model"]);
    dir.write("s.yaml", &suite(12, &api(&server.url()).replace("simulated", "sim-8b"), None, ""));
    dir.run(&["run", "s.yaml", "--resume", "run"]).exits(0).says(&["goes on with the new one"]);
    assert_eq!(dir.json("run/summary.json")["arms"]["base"]["requests"]["completed"], 12);
}

#[test]
fn a_budget_counts_over_all_sessions() {
    let dir = Dir::new();
    let server = server(json!({}));
    dir.write("s.yaml", &suite(60, &api(&server.url()), None, "budget: {requests: 30}\n"));
    dir.run(&["run", "s.yaml", "--out", "run"]).says(&["budget.requests"]);
    assert_eq!(server.stats().requests, 30);
    dir.run(&["run", "--resume", "run"]).says(&["budget.requests"]);
    assert_eq!(server.stats().requests, 30, "the budget began anew");
    dir.run(&["run", "--resume", "run", "--set", "budget.requests=200"]).exits(0);
    assert_eq!(dir.json("run/summary.json")["arms"]["base"]["requests"]["completed"], 60);
}

#[test]
fn a_changed_suite_is_not_resumed() {
    let dir = Dir::new();
    let server = server(json!({}));
    dir.write("s.yaml", &suite(12, &api(&server.url()), None, ""));
    dir.run(&["run", "s.yaml", "--out", "run"]).exits(0);
    dir.write("s.yaml", &suite(13, &api(&server.url()), None, ""));
    dir.run(&["run", "s.yaml", "--resume", "run"]).exits(2).says(&["has changed"]);
}

#[test]
fn a_sequential_run_is_filled_arm_by_arm() {
    let dir = Dir::new();
    let (base, cand) = (server(json!({})), server(json!({})));
    let more = "arms: sequential\nnoise_floor: false\ngates: [{quality: {metric: accuracy, margin: 10pp}}]\n";
    dir.write("s.yaml", &suite(96, &api(&base.url()), Some(&format!("url: \"{}\"", cand.url())), more));
    let first = dir.run(&["run", "s.yaml", "--out", "run", "--arm", "base"]);
    assert_ne!(first.code, 0, "half a run passed:\n{}", first.out);
    assert_eq!(cand.stats().requests, 0);
    dir.run(&["run", "--resume", "run", "--arm", "cand"]).exits(0);
    let summary = dir.json("run/summary.json");
    assert_eq!(summary["arms"]["cand"]["requests"]["completed"], 96);
    assert!(summary["validity"].as_array().unwrap().iter().any(|f| f["code"] == "not_concurrent"));
    dir.run(&["run", "--resume", "run", "--arm", "none"]).exits(2).says(&["names no arm", "base, cand"]);
}

#[test]
fn a_torn_journal_reads_as_far_as_it_goes() {
    let dir = Dir::new();
    let server = server(json!({}));
    dir.write("s.yaml", &suite(12, &api(&server.url()), None, ""));
    dir.run(&["run", "s.yaml", "--out", "run"]).exits(0);
    let text = dir.read("run/journal.jsonl");
    let half = text.char_indices().nth(text.chars().count() / 2).unwrap().0;
    dir.write("run/journal.jsonl", &text[..half]);
    let recorded = finals(&text[..=text[..half].rfind('\n').unwrap()]).len();
    dir.run(&["regrade", "run"]).says(&[&format!("graded {recorded} recorded answers")]);
}
