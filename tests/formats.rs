//! Runs of every format version stay readable: a recorded run is graded and analyzed again, and comes out the same.
//!
//! `fixtures/runs/1` was made by `counterpoise run builtin:demo --limit 4 --out fixtures/runs/1`. When an analysis
//! changes on purpose, regrade the fixture (`counterpoise regrade fixtures/runs/1`) and read the difference.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/runs/1")
}

fn copy(to: &Path) {
    for name in ["plan.json", "samples.jsonl", "journal.jsonl"] {
        std::fs::copy(fixture().join(name), to.join(name)).unwrap();
    }
}

fn regrade(dir: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_counterpoise")).arg("regrade").arg(dir).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_run_of_format_1_comes_out_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    copy(dir.path());
    let (code, said) = regrade(dir.path());
    assert_eq!(code, Some(1), "{said}");
    for name in ["scores.jsonl", "summary.json"] {
        let (now, then) = (std::fs::read(dir.path().join(name)).unwrap(), std::fs::read(fixture().join(name)).unwrap());
        assert!(now == then, "{name} is not what it was");
    }
}

#[test]
fn a_newer_format_is_refused_by_name() {
    for (name, format) in [("plan.json", "counterpoise.plan/"), ("journal.jsonl", "counterpoise.journal/")] {
        let dir = tempfile::tempdir().unwrap();
        copy(dir.path());
        let path = dir.path().join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen(&format!("{format}1"), &format!("{format}2"), 1)).unwrap();
        let (code, said) = regrade(dir.path());
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(&format!("{format}2")) && said.contains(name), "{said}");
    }
}

#[test]
fn fields_that_a_later_minor_version_adds_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    copy(dir.path());
    let path = dir.path().join("journal.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("{\"t\":\"attempt\",", "{\"t\":\"attempt\",\"new_in_1_7\":[1,{}],")).unwrap();
    let (code, said) = regrade(dir.path());
    assert_eq!(code, Some(1), "{said}");
    let now = std::fs::read(dir.path().join("summary.json")).unwrap();
    assert!(now == std::fs::read(fixture().join("summary.json")).unwrap());
}
