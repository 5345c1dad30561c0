//! What ships with the program holds together: the datasets pass their own checker, the suites load without a mistake.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::{Path, PathBuf};
use std::process::Command;

use counterpoise::grade::{check_examples, render};
use counterpoise::plan;
use counterpoise::spec::{Example, GraderKind, LoadOptions, Loaded, Row, SuiteSource, Task, dataset, load};
use counterpoise::world::FixedWorld;

/// Every variable that a shipped suite names.
const ENVIRONMENT: [(&str, &str); 16] = [
    ("LAB_Q8_URL", "http://127.0.0.1:8101/v1"),
    ("LAB_Q8_METRICS_URL", "http://127.0.0.1:8101/metrics"),
    ("LAB_Q4_URL", "http://127.0.0.1:8102/v1"),
    ("LAB_Q4_METRICS_URL", "http://127.0.0.1:8102/metrics"),
    ("LAB_KV_Q4_URL", "http://127.0.0.1:8103/v1"),
    ("LAB_KV_Q4_METRICS_URL", "http://127.0.0.1:8103/metrics"),
    ("LAB_SPECULATIVE_URL", "http://127.0.0.1:8104/v1"),
    ("LAB_SPECULATIVE_METRICS_URL", "http://127.0.0.1:8104/metrics"),
    ("CHAT_URL", "http://127.0.0.1:8000/v1"),
    ("CHAT_MODEL", "m"),
    ("SMOKE_URL", "http://127.0.0.1:8000/v1"),
    ("SMOKE_MODEL", "m"),
    ("BASELINE_URL", "http://127.0.0.1:8001/v1"),
    ("BASELINE_MODEL", "m"),
    ("CANDIDATE_URL", "http://127.0.0.1:8002/v1"),
    ("CANDIDATE_MODEL", "m-int8"),
];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn shipped() -> Vec<PathBuf> {
    let mut suites: Vec<PathBuf> = std::fs::read_dir(repository().join("suites"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    suites.sort();
    suites
}

fn loaded(path: &Path) -> Loaded {
    load(SuiteSource::Path(path.to_owned()), &FixedWorld::new(&ENVIRONMENT), &LoadOptions::default())
        .unwrap_or_else(|mistakes| panic!("{}:\n{}", path.display(), mistakes.concise()))
}

fn named(name: &str) -> Loaded {
    loaded(&repository().join("suites").join(name))
}

fn samples(suite: &Loaded) -> usize {
    suite.suite.tasks.iter().map(|task| dataset::read(task, None).unwrap().len()).sum()
}

#[test]
fn every_dataset_passes_its_checker() {
    let checked = Command::new("python3").arg(repository().join("fixtures/datasets/check.py")).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn every_suite_loads_and_warns_of_nothing() {
    let suites = shipped();
    assert!(suites.len() >= 4, "{suites:?}");
    for path in suites {
        let suite = loaded(&path);
        assert!(suite.warnings.is_empty(), "{}: {:?}", path.display(), suite.warnings);
        for task in &suite.suite.tasks {
            let right = task.examples.iter().filter(|e| e.pass == Some(true)).count();
            let wrong = task.examples.iter().filter(|e| e.pass == Some(false)).count();
            assert!(right > 0 && wrong > 0, "{}: task {} has {right} right, {wrong} wrong", path.display(), task.name);
        }
    }
}

#[test]
fn suites_are_as_large_as_their_comments_say() {
    let chat = named("chat-load.yaml");
    assert_eq!(plan::build(&chat.suite, &chat.live, 0).unwrap().samples.len(), 64);
    assert_eq!(samples(&named("demo.yaml")), 240);
    assert_eq!(samples(&named("lab-quant.yaml")), 144);
    assert_eq!(samples(&named("lab-sweep.yaml")), 60);
    assert_eq!(samples(&named("sweep.yaml")), 120);
    assert_eq!(samples(&named("quant-gate.yaml")), 853);
    assert_eq!(samples(&named("smoke.yaml")), 12);
}

#[test]
fn the_demo_truncates_nothing_but_the_passages() {
    let demo = named("demo.yaml").suite;
    let kept = demo.deployments.iter().find_map(|d| d.context.as_ref()).expect("one arm truncates").max_prompt_tokens;
    for task in &demo.tasks {
        // A bound from above: the whole row, as if each prompt held all of it. Four characters stand for a token.
        let template: usize = task.messages.iter().map(|m| m.content.len()).sum();
        for row in dataset::read(task, None).unwrap() {
            let cells: usize = row.values().map(|value| value.to_string().len()).sum();
            let most_tokens = u64::try_from((template + cells) / 4).unwrap();
            if task.name == "passages" {
                let passage = row["passage"].as_str().unwrap();
                let answer = passage.find(row["answer"].as_str().unwrap()).unwrap();
                // Five characters a token, so that it also holds by an estimate that counts fewer tokens.
                let tokens_behind = u64::try_from((passage.len() - answer) / 5).unwrap();
                assert!(tokens_behind > u64::from(kept), "row {} keeps its evidence", row["id"]);
            } else {
                assert!(most_tokens < u64::from(kept), "task {}, row {} may be cut", task.name, row["id"]);
            }
        }
    }
}

/// Replies to a row, each with whether it must pass: every accepted answer, the question itself, a shrug.
fn replies(task: &Task, row: &Row) -> Vec<(String, bool)> {
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let shrug = ("I am not sure.".to_owned(), false);
    match task.graders[0].kind {
        GraderKind::Contains { .. } => {
            let accepted = row["answer"].as_array().cloned().unwrap_or_else(|| vec![row["answer"].clone()]);
            let right = accepted.iter().flat_map(|a| [text(a), format!("I think it is {}, yes.", text(a))]);
            right.map(|reply| (reply, true)).chain([shrug, (text(&row["question"]), false)]).collect()
        }
        GraderKind::Numeric { .. } => {
            let right = row["answer"].as_i64().unwrap();
            vec![(right.to_string(), true), (format!("It is {right}."), true), ((right + 1).to_string(), false), shrug]
        }
        GraderKind::Choice { .. } => {
            let letter = |reply: &str| (reply.to_owned(), reply == row["answer"]);
            let options = row["options"].as_object().unwrap();
            let full = options.iter().map(|(l, o)| (format!("{l}. {}", text(o)), row["answer"] == **l));
            ["A", "B", "C", "D"].map(letter).into_iter().chain(full).chain([shrug]).collect()
        }
        _ => {
            let fenced = format!("```json\n{}\n```", row["fields"]);
            let mut short = row["fields"].as_object().unwrap().clone();
            let first = short.keys().next().unwrap().clone();
            short.remove(&first);
            let short = serde_json::Value::Object(short);
            vec![(row["fields"].to_string(), true), (fenced, true), (short.to_string(), false), shrug]
        }
    }
}

#[test]
fn right_answers_pass_and_wrong_ones_fail_on_every_row() {
    let names = [
        "chat-load.yaml",
        "demo.yaml",
        "lab-quant.yaml",
        "lab-sweep.yaml",
        "quant-gate.yaml",
        "smoke.yaml",
        "sweep.yaml",
    ];
    for name in names {
        for mut task in named(name).suite.tasks {
            let told = check_examples(&task, &render).unwrap();
            assert!(told.is_empty(), "{name}: task {}: {told:?}", task.name);
            for row in dataset::read(&task, None).unwrap() {
                task.examples = replies(&task, &row)
                    .into_iter()
                    .map(|(reply, pass)| Example { row: row.clone(), reply, pass: Some(pass) })
                    .collect();
                let told = check_examples(&task, &render).unwrap();
                assert!(told.is_empty(), "{name}: task {}, row {row:?}: {told:?}", task.name);
            }
        }
    }
}
