//! What goes wrong, as the one who caused it reads it: what is wrong, where, and what to do.

use serde_json::json;

use crate::kit::{Dir, all_text, api, questions, server, suite};

#[test]
fn a_wrong_host_is_told() {
    let dir = Dir::new();
    let base = "api: openai-chat, url: \"http://no-such-host.invalid/v1\", ready_timeout: 1s";
    dir.write("s.yaml", &suite(8, base, None, ""));
    let ran = dir.run(&["run", "s.yaml", "--out", "run"]).exits(4);
    ran.says(&["`base`", "cannot be reached at http://no-such-host.invalid/v1", "check the URL"]);
}

#[test]
fn a_refused_port_is_told_and_the_run_can_be_taken_up() {
    let dir = Dir::new();
    // A port that was free a moment ago.
    let url = server(json!({})).url();
    dir.write("s.yaml", &suite(8, &api(&url), None, ""));
    dir.run(&["run", "s.yaml", "--out", "run"]).exits(4).says(&["cannot be reached", "refused", "check the URL"]);
    let server = server(json!({}));
    let text = dir.read("run/plan.json").replace(&url, &server.url());
    dir.write("run/plan.json", &text);
    dir.run(&["run", "--resume", "run"]).exits(0);
}

#[test]
fn wrong_credentials_are_told_without_the_key() {
    let dir = Dir::new();
    let server = server(json!({"api_key": "the-right-key-1234"}));
    let base = format!("{}, api_key_env: MY_KEY", api(&server.url()));
    dir.write("s.yaml", &suite(8, &base, None, ""));
    let ran = dir.run_with(&["run", "s.yaml", "--out", "run"], &[("MY_KEY", "the-wrong-key-9876")]).exits(4);
    assert!(!ran.err.contains("9876"), "{}", ran.err);
    ran.says(&["`base`", "credentials", "401"]);
    dir.run(&["run", "s.yaml", "--out", "run2"]).exits(2).says(&["$MY_KEY", "not set"]);
    assert!(
        !dir.path("run2").exists()
            || !dir.path("run2/journal.jsonl").exists()
            || dir.read("run2/journal.jsonl").lines().count() == 1
    );
}

#[test]
fn a_right_key_is_in_no_file_and_on_no_screen() {
    let dir = Dir::new();
    let server = server(json!({"api_key": "the-right-key-1234"}));
    let base = format!("{}, api_key_env: MY_KEY, headers: {{X-Team: \"${{env:TEAM_SECRET}}\"}}", api(&server.url()));
    dir.write("s.yaml", &suite(8, &base, None, ""));
    let env = [("MY_KEY", "the-right-key-1234"), ("TEAM_SECRET", "hush-hush-4711")];
    let ran = dir.run_with(&["run", "s.yaml", "--out", "run"], &env).exits(0);
    let all = all_text(&dir.path("run")) + &ran.out + &ran.err;
    assert!(!all.contains("the-right-key-1234") && !all.contains("hush-hush-4711"));
    assert!(dir.read("run/plan.json").contains("${env:TEAM_SECRET}"));
    // Grading needs no variable of a deployment.
    dir.run(&["regrade", "run"]).exits(0);
}

#[test]
fn a_wrong_model_name_is_told_with_the_right_ones() {
    let dir = Dir::new();
    let server = server(json!({"model": "sim-8b"}));
    dir.write("s.yaml", &suite(8, &api(&server.url()), None, ""));
    let ran = dir.run(&["run", "s.yaml", "--out", "run"]).exits(4);
    ran.says(&["serves no model `simulated`", "`sim-8b`"]);
    assert_eq!(server.stats().requests, 0, "a request was spent");
}

#[test]
fn an_empty_dataset_is_told_with_its_place() {
    let dir = Dir::new();
    dir.write("rows.jsonl", "");
    let text = "suite: s\ndeployments: {base: {api: simulated}}\ntasks:\n  - name: t\n    prompt: hello\n    \
                dataset: {file: rows.jsonl}\n    graders: [{exact: {answer: x}}]\n";
    dir.write("s.yaml", text);
    dir.run(&["run", "s.yaml", "--out", "run"]).exits(2).says(&["s.yaml:6:", "rows.jsonl"]);
}

#[test]
fn a_missing_variable_is_told_with_its_place() {
    let dir = Dir::new();
    dir.write("s.yaml", &suite(8, "api: openai-chat, url: \"${env:NO_SUCH_URL}\"", None, ""));
    dir.run(&["run", "s.yaml", "--out", "run"]).exits(2).says(&["s.yaml:3:", "NO_SUCH_URL"]);
    assert!(!dir.path("run").exists());
}

#[test]
fn an_output_folder_that_cannot_be_written_is_told_before_any_request() {
    let dir = Dir::new();
    let server = server(json!({}));
    dir.write("s.yaml", &suite(8, &api(&server.url()), None, ""));
    dir.write("file", "not a folder");
    dir.run(&["run", "s.yaml", "--out", "file/run"]).exits(2).says(&["file/run"]);
    dir.run(&["run", "s.yaml", "--out", "run", "--csv", "no/such/folder.csv"]).exits(2).says(&["no/such/folder.csv"]);
    assert_eq!(server.stats().requests, 0);
}

#[test]
fn a_run_directory_is_never_overwritten() {
    let dir = Dir::new();
    let server = server(json!({}));
    dir.write("s.yaml", &suite(8, &api(&server.url()), None, ""));
    dir.run(&["run", "s.yaml", "--out", "run"]).exits(0);
    let journal = dir.read("run/journal.jsonl");
    dir.run(&["run", "s.yaml", "--out", "run"]).exits(2).says(&["not empty", "--resume"]);
    assert_eq!(dir.read("run/journal.jsonl"), journal);
}

#[test]
fn a_baseline_that_refuses_every_request_is_told_after_a_few() {
    let dir = Dir::new();
    let server = server(json!({"context_window_tokens": 0, "faults": [
        {"kind": "http_500", "rate": 1.0, "by": "request", "status": 400}]}));
    dir.write("s.yaml", &suite(40, &api(&server.url()), None, ""));
    dir.run(&["run", "s.yaml", "--out", "run"]).exits(4).says(&["the baseline `base` refuses the request"]);
    assert!(server.stats().requests < 12, "{} requests were spent", server.stats().requests);
}

#[test]
fn flags_that_cannot_be_used_exit_2() {
    let dir = Dir::new();
    dir.run(&["run"]).exits(2);
    dir.run(&["--no-such-flag"]).exits(2);
    dir.run(&["run", "none.yaml"]).exits(2).says(&["none.yaml"]);
    dir.run(&["run", "builtin:none"]).exits(2).says(&["built in:"]);
    dir.run(&["regrade", "nothing"]).exits(2).says(&["nothing", "holds no run"]);
    dir.run(&["compare", "a", "b", "--out", "c"]).exits(2).says(&["not there yet"]);
    dir.run(&["run", "builtin:demo", "--until-decided"]).exits(2).says(&["not there yet"]);
    dir.run(&["run", "--resume", "x", "--limit", "3"]).exits(2).says(&["--limit"]);
    dir.run(&["--help"]).exits(0);
    dir.run(&["--version"]).exits(0);
}

#[test]
fn every_mistake_of_a_suite_is_shown_at_once() {
    let dir = Dir::new();
    let text = suite(4, "api: simulated", None, "repets: 2\ngates:\n  - speed: {metric: ttft_p51, ratio_at_most: 1}\n");
    dir.write("s.yaml", &text);
    let ran = dir.run(&["validate", "s.yaml"]).exits(2);
    ran.says(&["repets", "did you mean `repeats`?", "ttft_p51", "s.yaml:5:", "s.yaml:7:"]);
}

#[test]
fn a_failing_example_is_told_with_what_the_grader_saw() {
    let dir = Dir::new();
    let text = suite(4, "api: simulated", None, "").replace(
        "    dataset:",
        "    examples: [{row: {question: q, answer: Rome}, reply: Milan, pass: true}]\n    dataset:",
    );
    dir.write("s.yaml", &text);
    dir.run(&["validate", "s.yaml"]).exits(2).says(&["task `stars`", "example 1 should be pass", "fail"]);
}

#[test]
fn init_writes_a_suite_that_is_sound_and_overwrites_nothing() {
    let dir = Dir::new();
    dir.run(&["init", "new.yaml", "--baseline", "http://127.0.0.1:1/v1", "--candidate", "http://127.0.0.1:2/v1"])
        .exits(0);
    dir.run(&["validate", "new.yaml"]).exits(0);
    let text = dir.read("new.yaml");
    assert!(text.contains("http://127.0.0.1:1/v1") && text.contains("http://127.0.0.1:2/v1"));
    dir.run(&["init", "new.yaml"]).exits(2).says(&["left alone"]);
    assert_eq!(dir.read("new.yaml"), text);
}

#[test]
fn plan_sends_nothing_and_says_what_would_be_sent() {
    let dir = Dir::new();
    let server = server(json!({}));
    let gates = "noise_floor: true\ngates: [{quality: {metric: accuracy, margin: 5pp}}]\n";
    let price = "price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}";
    let base = format!("{}, {price}", api(&server.url()));
    dir.write("s.yaml", &suite(40, &base, Some("model: simulated"), gates));
    let ran = dir.run(&["plan", "s.yaml"]).exits(0);
    for word in ["base", "base-twin", "cand", "40", "120 requests", "USD", "passes if lossless", "n = 40"] {
        assert!(ran.out.contains(word), "no `{word}` in\n{}", ran.out);
    }
    assert_eq!(server.stats().requests, 0);
    assert!(!dir.path("runs").exists());
    assert_eq!(questions(40).len(), 40);
}

#[test]
fn an_expected_answer_that_cannot_be_graded_is_told_with_its_row() {
    let dir = Dir::new();
    let text = "suite: s\ndeployments: {base: {api: simulated}}\ntasks:\n  - name: t\n    prompt: hello\n    \
                dataset: {file: rows.jsonl}\n    graders: [{numeric: {answer: \"{{ answer }}\"}}]\n";
    dir.write("s.yaml", text);
    dir.write("rows.jsonl", "{\"answer\": \"4\"}\n{\"answer\": \"abc\"}\n");
    dir.run(&["validate", "s.yaml"]).exits(2).says(&["task `t`: row 2: grader `numeric`", "abc"]);
    dir.write("rows.jsonl", "{\"answer\": \"4\"}\n{\"answer\": \"5\"}\n");
    dir.run(&["validate", "s.yaml"]).exits(0);
}
