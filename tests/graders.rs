//! Every grader against tables of cases: `fixtures/grading/*.md`.
//!
//! A table stands under a `spec:` line, a grader as JSON. Its columns are `reply` (a JSON string), `gold` (JSON, the row's `gold`),
//! `expect` and `why`. `expect` is `pass`, `fail`, `none` (fails, and no answer was found) or `unscored`, with the extracted
//! answer behind it where that is checked too: `pass = 42`. `\|` writes a bar inside a cell.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::path::{Path, PathBuf};

use counterpoise::grade::{AnswerText, Verdict, build, split_reasoning};
use counterpoise::spec::{Field, GraderKind, GraderSpec, Row};
use serde_json::Value;

struct Case {
    place: String,
    spec: GraderSpec,
    reply: String,
    gold: Value,
    expect: String,
    answer: Option<String>,
    why: String,
}

fn tables() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/grading");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "md"))
        .collect();
    files.sort();
    files
}

/// Reads a spec such as `{"numeric": {…}, "extract": "boxed"}`.
fn spec(text: &str) -> Result<GraderSpec, String> {
    let mut map: serde_json::Map<String, Value> = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let threshold = map.remove("threshold").and_then(|v| v.as_f64());
    let extract = map.remove("extract").and_then(|v| v.as_str().map(str::to_owned));
    let kind: GraderKind = serde_json::from_value(Value::Object(map)).map_err(|e| e.to_string())?;
    Ok(GraderSpec { name: kind.name().to_owned(), weight: 1.0, threshold, extract, kind })
}

/// Cells of `| a | b |`.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let hidden = inner.replace("\\|", "\u{1}");
    Some(hidden.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect())
}

fn read_table(name: &str, text: &str) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    let mut current: Option<GraderSpec> = None;
    let mut header_due = 0;
    for (number, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", number + 1);
        let at = |message: String| format!("{place}: {message}");
        if let Some(text) = line.strip_prefix("spec: ") {
            current = Some(spec(text).map_err(|e| at(format!("bad spec: {e}")))?);
            header_due = 2;
            continue;
        }
        if !line.trim_start().starts_with('|') {
            continue;
        }
        let row = cells(line).ok_or_else(|| at("a row must begin and end with a bar".to_owned()))?;
        let [reply, gold, expect, why] = row.as_slice() else {
            return Err(at(format!("{} cells instead of 4", row.len())));
        };
        if header_due > 0 {
            let headers = ["reply", "gold", "expect", "why"];
            let rule = row.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| c == '-'));
            if !(header_due == 2 && row == headers || header_due == 1 && rule) {
                return Err(at("the header reply, gold, expect, why and its rule are due".to_owned()));
            }
            header_due -= 1;
            continue;
        }
        let spec = current.clone().ok_or_else(|| at("no spec above the table".to_owned()))?;
        let reply: String = serde_json::from_str(reply).map_err(|e| at(format!("bad reply {reply}: {e}")))?;
        let gold: Value = serde_json::from_str(gold).map_err(|e| at(format!("bad gold {gold}: {e}")))?;
        let (expect, answer) = match expect.split_once(" = ") {
            Some((word, answer)) => (word.to_owned(), Some(answer.to_owned())),
            None => (expect.clone(), None),
        };
        if !["pass", "fail", "none", "unscored"].contains(&expect.as_str()) {
            return Err(at(format!("unknown expectation `{expect}`")));
        }
        if why.is_empty() {
            return Err(at("a case says why it is there".to_owned()));
        }
        cases.push(Case { place, spec, reply, gold, expect, answer, why: why.clone() });
    }
    Ok(cases)
}

/// Renders `{{ gold }}`; everything else is itself.
fn render(field: &Field, row: &Row) -> Result<Value, String> {
    fn inner(value: &Value, row: &Row) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) if text == "{{ gold }}" => row.get("gold").cloned().ok_or("no gold")?,
            Value::Array(items) => Value::Array(items.iter().map(|v| inner(v, row)).collect::<Result<_, _>>()?),
            Value::Object(map) => {
                Value::Object(map.iter().map(|(k, v)| Ok((k.clone(), inner(v, row)?))).collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }
    inner(&field.0, row)
}

fn grade(case: &Case) -> Verdict {
    let grader = build(&case.spec).unwrap_or_else(|e| panic!("{}: {e}", case.place));
    let row: Row = [("gold".to_owned(), case.gold.clone())].into_iter().collect();
    let split = split_reasoning(&case.reply, "");
    let answer = AnswerText { text: &split.answer, raw: &case.reply, reasoning: &split.reasoning, finish_reason: None };
    grader.grade(&answer, &row, &render)
}

fn mismatch(case: &Case) -> Option<String> {
    let verdict = grade(case);
    let (word, answer) = match &verdict {
        Verdict::Scored(score) if score.pass => ("pass", score.answer.as_deref()),
        Verdict::Scored(score) if score.answer.is_some() => ("fail", score.answer.as_deref()),
        Verdict::Scored(_) => ("none", None),
        Verdict::Unscored { .. } => ("unscored", None),
    };
    let same = word == case.expect && case.answer.as_deref().is_none_or(|want| Some(want) == answer);
    (!same).then(|| {
        format!(
            "{}: {:?} with gold {}\n    wanted {} {:?}, got {verdict:?}\n    ({})",
            case.place, case.reply, case.gold, case.expect, case.answer, case.why
        )
    })
}

fn all_cases() -> Vec<Case> {
    let mut all = Vec::new();
    for path in tables() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let cases = read_table(&name, &text).unwrap_or_else(|e| panic!("{e}"));
        assert!(cases.len() >= 10, "{name} has only {} cases", cases.len());
        all.extend(cases);
    }
    all
}

#[test]
fn every_case_gets_its_verdict() {
    let cases = all_cases();
    assert!(cases.len() >= 200, "only {} cases", cases.len());
    let wrong: Vec<String> = cases.iter().filter_map(mismatch).collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn every_kind_has_its_table() {
    let cases = all_cases();
    for kind in ["exact", "contains", "regex", "numeric", "choice", "json", "all", "any", "not"] {
        let of_kind = cases.iter().filter(|case| case.spec.kind.name() == kind).count();
        assert!(of_kind >= 4, "{kind} has {of_kind} cases");
    }
}

#[test]
fn nothing_never_passes() {
    for case in all_cases() {
        for reply in ["", " \n\t", "\u{200b}", "<think>it is", "<think></think>"] {
            let empty = Case { reply: reply.to_owned(), ..case_of(&case) };
            if let Verdict::Scored(score) = grade(&empty) {
                assert!(!score.pass && score.answer.is_none(), "{}: {reply:?} got {score:?}", case.place);
            }
        }
    }
}

fn case_of(case: &Case) -> Case {
    Case {
        place: case.place.clone(),
        spec: case.spec.clone(),
        reply: String::new(),
        gold: case.gold.clone(),
        expect: case.expect.clone(),
        answer: None,
        why: case.why.clone(),
    }
}

#[test]
fn malformed_tables_are_refused() {
    let head = "spec: {\"exact\":{\"answer\":\"{{ gold }}\"}}\n\n| reply | gold | expect | why |\n|---|---|---|---|\n";
    assert_eq!(read_table("t", &format!("{head}| \"a\" | \"a\" | pass | ok |")).map(|c| c.len()), Ok(1));
    for bad in [
        "| \"a\" | \"a\" | pass |",
        "| a | \"a\" | pass | why |",
        "| \"a\" | a | pass | why |",
        "| \"a\" | \"a\" | passes | why |",
        "| \"a\" | \"a\" | pass | |",
        "| \"a\" | \"a\" | pass | why",
    ] {
        assert!(read_table("t", &format!("{head}{bad}")).is_err(), "{bad} was taken");
    }
    assert!(read_table("t", "| \"a\" | \"a\" | pass | why |").is_err());
    assert!(read_table("t", "spec: {\"exactly\":{}}").is_err());
}

/// Replies made to hurt: long, deep, unbalanced, repetitive.
fn hostile_replies() -> Vec<String> {
    let million = 1_000_000;
    let long = 120_000;
    let mut replies: Vec<String> = [
        "a",
        "1",
        "(",
        "{",
        "[",
        "[[",
        "{\"a\":",
        "[1,",
        "\\boxed{",
        "answer: ",
        "Answer: A ",
        "A, ",
        "1,",
        "1.",
        "1 1/",
        "$",
        "-",
        "**",
        "`",
        "```\n",
        "_",
        "\"",
        "\\",
        "\\u",
        "<think>",
        "</think>",
        "^",
        "1e",
        "10^",
        "\\frac{",
        "\\frac{1}{",
        "{}",
        "{} ",
        "½",
        "²",
        "\u{300}",
        "\u{fdfa}",
        "\u{200b}",
        "٣",
        "\n",
        "the answer is ",
        "x=",
        "B) x\n",
        "1-",
        "1:2",
        "#### ",
        "B and ",
        "= ",
    ]
    .iter()
    .map(|piece| piece.repeat(long / piece.len()))
    .collect();
    replies.push(format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)));
    replies.push(format!("answer: {}", "9".repeat(million)));
    replies.push(format!("{{\"a\":[{}", "1,".repeat(million / 2)));
    replies
}

#[test]
fn hostile_replies_are_graded() {
    let cases = all_cases();
    let mut one_per_kind: Vec<&Case> = Vec::new();
    for case in &cases {
        if one_per_kind.iter().all(|seen| seen.spec.kind.name() != case.spec.kind.name()) {
            one_per_kind.push(case);
        }
    }
    for reply in hostile_replies() {
        for case in &one_per_kind {
            let hostile = Case { reply: reply.clone(), ..case_of(case) };
            if let Verdict::Scored(score) = grade(&hostile) {
                assert!(score.value.is_finite() && (0.0..=1.0).contains(&score.value), "{}", case.place);
                let answer = score.answer.unwrap_or_default();
                assert!(answer.chars().count() <= 500, "{}: an answer of {} bytes", case.place, answer.len());
            }
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
    #[test]
    fn no_reply_makes_a_grader_panic(
        noise in "\\PC{0,60}",
        marks in r#"[0-9a-eA-E.,;:/%$€\^=()\[\]{}*_"'`\\ \-½²–𝟜×\n]{0,80}"#,
    ) {
        for case in all_cases().iter().step_by(7) {
            for reply in [noise.clone(), marks.clone(), format!("Answer: {marks}{noise}"), format!("\\boxed{{{marks}}}")] {
                if let Verdict::Scored(score) = grade(&Case { reply, ..case_of(case) }) {
                    proptest::prop_assert!((0.0..=1.0).contains(&score.value));
                    proptest::prop_assert!(!score.pass || score.answer.is_some());
                }
            }
        }
    }
}
