//! Rules of the house that a compiler does not know, held by a test over the source tree.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::fs;
use std::path::{Path, PathBuf};

/// Rooms from the bottom up. A room imports itself and rooms below it.
const ROOMS: [&str; 14] = [
    "units", "error", "world", "spec", "plan", "deploy", "drive", "observe", "record", "sandbox", "grade", "analyze",
    "report", "cli",
];

const LINES_MAX: usize = 500;
const BLOB_BYTES_MAX: u64 = 1 << 20;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Files under `folder` (relative to the repository) whose name ends in one of `ends`, sorted.
fn files(folder: &str, ends: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !["target", ".git", "runs", "demo-run", "cache", "__pycache__"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if ends.iter().any(|end| name.ends_with(end)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

fn room_of(path: &Path) -> Option<usize> {
    let below = path.strip_prefix(root().join("src")).ok()?;
    let first = below.components().next()?.as_os_str().to_str()?.trim_end_matches(".rs").to_owned();
    ROOMS.iter().position(|room| *room == first)
}

/// Every `crate::NAME` of a line, also inside `use crate::{a, b::c}`.
fn imports(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let line = text[..at].matches('\n').count() + 1;
        let rest = &text[at + "crate::".len()..];
        let names: Vec<String> = match rest.strip_prefix('{') {
            Some(group) => top_level_names(group),
            None => vec![rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()],
        };
        found.extend(names.into_iter().map(|name| (line, name)));
    }
    found
}

fn top_level_names(group: &str) -> Vec<String> {
    let (mut depth, mut names, mut name, mut taking) = (0_i32, Vec::new(), String::new(), true);
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(std::mem::take(&mut name));
                taking = true;
            }
            c if taking && depth == 0 && (c.is_alphanumeric() || c == '_') => name.push(c),
            c if c.is_whitespace() => {}
            _ => taking = false,
        }
    }
    names.push(name);
    names.retain(|name| !name.is_empty());
    names
}

#[test]
fn no_room_imports_upward() {
    let mut wrong = Vec::new();
    for path in files("src", &[".rs"]) {
        let Some(room) = room_of(&path) else { continue };
        for (line, name) in imports(&fs::read_to_string(&path).unwrap()) {
            if let Some(imported) = ROOMS.iter().position(|r| *r == name)
                && imported > room
            {
                wrong.push(format!("{}:{line} imports crate::{name}", shown(&path)));
            }
        }
    }
    assert!(wrong.is_empty(), "upward imports:\n{}", wrong.join("\n"));
}

#[test]
fn the_import_reader_sees_what_it_should() {
    let text =
        "use crate::plan::Plan;\nuse crate::{spec::{self, Suite}, world::Clock,\n units};\nlet x = crate::cli::main();";
    let names: Vec<String> = imports(text).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["plan", "spec", "world", "units", "cli"]);
}

#[test]
fn every_room_is_known() {
    for entry in fs::read_dir(root().join("src")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(ROOMS.contains(&name.as_str()) || ["lib", "main"].contains(&name.as_str()), "src/{name} is no room");
    }
}

#[test]
fn files_stay_readable() {
    let long: Vec<String> = files("src", &[".rs"])
        .into_iter()
        .map(|path| (fs::read_to_string(&path).unwrap().lines().count(), path))
        .filter(|(lines, _)| *lines > LINES_MAX)
        .map(|(lines, path)| format!("{} has {lines} lines", shown(&path)))
        .collect();
    assert!(long.is_empty(), "over {LINES_MAX} lines:\n{}", long.join("\n"));
}

#[test]
fn nothing_is_left_half_done() {
    let marks =
        ["todo!(", "unimplemented!(", concat!("FIX", "ME"), concat!("TO", "DO"), concat!("#[ig", "nore"), "dbg!("];
    let mut wrong = Vec::new();
    for path in files("src", &[".rs"]).into_iter().chain(files("tests", &[".rs"])) {
        if path.ends_with("tests/tidy.rs") {
            continue;
        }
        for (number, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark)) {
                wrong.push(format!("{}:{} {}", shown(&path), number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "left behind:\n{}", wrong.join("\n"));
}

#[test]
fn lints_are_silenced_only_with_a_reason() {
    let mut wrong = Vec::new();
    for path in files("src", &[".rs"]) {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let silences = line.trim_start().starts_with("#[allow(") || line.trim_start().starts_with("#![allow(");
            let before = index.checked_sub(1).map_or("", |i| lines[i]).trim_start();
            let reasoned = line.contains("//") || line.contains("reason =") || before.starts_with("//");
            if silences && !reasoned {
                wrong.push(format!("{}:{}", shown(&path), index + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "`allow` without a reason:\n{}", wrong.join("\n"));
}

#[test]
fn the_yaml_parser_is_named_in_one_file() {
    for path in files("src", &[".rs"]) {
        let text = fs::read_to_string(&path).unwrap();
        let names = ["serde_saphyr::", "granit_parser::"].iter().any(|name| text.contains(name));
        assert!(!names || path.ends_with("spec/yaml.rs"), "{} names the YAML parser", shown(&path));
    }
}

#[test]
fn no_file_speaks_of_one_machine() {
    let paths = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    let ends = [".rs", ".md", ".toml", ".yaml", ".yml", ".py", ".sh", ".json", ".j2", ".css", ".js"];
    let mut wrong = Vec::new();
    for path in files("", &ends) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            if paths.iter().any(|p| line.contains(p)) {
                wrong.push(format!("{}:{}", shown(&path), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "paths of one machine:\n{}", wrong.join("\n"));
}

#[test]
fn no_tabs_no_trailing_blanks() {
    let mut wrong = Vec::new();
    for folder in ["src", "tests", "suites"] {
        for path in files(folder, &[".rs", ".yaml"]) {
            for (number, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
                if line.ends_with([' ', '\t']) || line.contains('\t') {
                    wrong.push(format!("{}:{}", shown(&path), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "blanks:\n{}", wrong.join("\n"));
}

#[test]
fn no_large_blob_is_committed() {
    for folder in ["src", "tests", "suites", "fixtures", "reports", "lab"] {
        for path in files(folder, &[""]) {
            let bytes = fs::metadata(&path).unwrap().len();
            assert!(bytes <= BLOB_BYTES_MAX, "{} has {bytes} bytes", shown(&path));
        }
    }
}
