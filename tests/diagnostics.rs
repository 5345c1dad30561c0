//! Each file of `fixtures/bad-suites/` has one mistake, and the diagnostic that it must give beside it.
//!
//! The comment ``# <-- here `text` `` in a suite marks the line and, by the text, the column that must be told.
//! `UPDATE_GOLDEN=1 cargo nextest run --test diagnostics` writes the expected files anew: read what changed.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use counterpoise::spec::{Diagnostics, LoadOptions, SuiteSource, load};
use counterpoise::world::{FixedWorld, RealWorld, World};

const FOLDER: &str = "fixtures/bad-suites";

fn suites() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
    let entries = std::fs::read_dir(root).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        entries.filter(|name| Path::new(name).extension().is_some_and(|e| e == "yaml")).collect();
    names.sort();
    names.iter().map(|name| Path::new(FOLDER).join(name)).collect()
}

fn told(path: &Path) -> Diagnostics {
    match load(SuiteSource::Path(path.to_owned()), &FixedWorld::new(&[]), &LoadOptions::default()) {
        Ok(loaded) => panic!("{} was taken: {:?}", path.display(), loaded.suite.name),
        Err(diagnostics) => diagnostics,
    }
}

/// The line and column that the marker of a file points at.
fn marked(path: &Path) -> Option<(usize, usize)> {
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let (index, line) = text.lines().enumerate().find(|(_, line)| line.contains("<-- here"))?;
    let (before, marker) = line.split_once("<-- here").unwrap();
    let mark = marker.split('`').nth(1).unwrap_or_else(|| panic!("{}: no text in the marker", path.display()));
    let at = before.find(mark).unwrap_or_else(|| panic!("{}: `{mark}` is not on its line", path.display()));
    Some((index + 1, before[..at].chars().count() + 1))
}

#[test]
fn every_bad_suite_gives_its_diagnostic() {
    let update = RealWorld::new().env("UPDATE_GOLDEN").is_some();
    let mut wrong = vec![];
    for path in suites() {
        let shown = told(&path).full(false);
        let golden = path.with_extension("expected");
        if update {
            std::fs::write(&golden, &shown).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        if shown != expected {
            wrong.push(format!("{}:\n{shown}--- expected ---\n{expected}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn one_mistake_is_one_error_at_its_place() {
    let mut wrong = vec![];
    let mut count = 0;
    for path in suites() {
        let Some(place) = marked(&path) else { continue };
        count += 1;
        let diagnostics = told(&path);
        let places: Vec<(usize, usize)> = diagnostics.errors().map(|d| (d.line, d.column)).collect();
        if places != [place] {
            wrong.push(format!("{}: marked {place:?}\n{}", path.display(), diagnostics.concise()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 45, "only {count} files have a marker");
}

#[test]
fn many_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let diagnostics = told(&Path::new(FOLDER).join("many-at-once.yaml"));
    assert!(diagnostics.0.len() >= 10, "{}", diagnostics.concise());
    assert!(diagnostics.0.is_sorted_by_key(|d| (d.line, d.column)));
    let codes: BTreeSet<&str> = diagnostics.0.iter().map(|d| d.code).collect();
    assert!(codes.len() >= 6, "{codes:?}");
}

#[test]
fn every_diagnostic_fits_eighty_columns_and_says_what_to_do() {
    let mut without_hint = vec![];
    for path in suites() {
        let diagnostics = told(&path);
        for line in diagnostics.full(false).lines() {
            // A word longer than the line, such as a template in a message, is not broken.
            assert!(line.chars().count() <= 80 || !line.trim().contains(' '), "{}: {line}", path.display());
        }
        for d in &diagnostics.0 {
            if d.hint.is_none() && d.help.is_none() {
                without_hint.push(format!("{}: {}", d.code, d.message));
            }
        }
    }
    let codes: BTreeSet<&str> = without_hint.iter().map(|w| w.split(':').next().unwrap()).collect();
    // What is wrong says here what to write; a hint would say it twice.
    let clear: BTreeSet<&str> = [
        "bad-number",
        "bad-schema",
        "bad-template",
        "empty-dataset",
        "missing-column",
        "out-of-range",
        "too-deep",
        "wrong-type",
    ]
    .into();
    assert!(codes.is_subset(&clear), "{without_hint:#?}");
}

#[test]
fn no_expected_file_is_left_over_and_no_secret_is_shown() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "expected") {
            assert!(path.with_extension("yaml").exists(), "{}", path.display());
            let text = std::fs::read_to_string(&path).unwrap();
            for secret in ["not-a-real-key", "hunter2", "bm8="] {
                assert!(!text.contains(secret), "{}", path.display());
            }
        }
    }
}

mod hostile {
    use proptest::prelude::*;

    use super::*;
    use counterpoise::spec::init_template;

    /// Fragments that YAML readers and decoders trip over.
    const BITS: [&str; 24] = [
        "{", "}", "[", "]", ": ", "- ", "\n", "\t", "&a ", "*a", "<<: *a", "!!str ", "!x ", "|\n", ">-\n", "\"", "'",
        "# ", "null", ".nan", "${env:X}", "{{ x", "\u{feff}", "💥",
    ];

    fn load_text(text: &str) -> Result<(), Diagnostics> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.yaml");
        std::fs::write(&path, text).unwrap();
        load(SuiteSource::Path(path), &FixedWorld::new(&[]), &LoadOptions::default()).map(|_| ())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

        /// Whatever is done to a suite, it is read or refused with places inside the file.
        #[test]
        fn a_damaged_suite_is_read_or_refused(
            cuts in proptest::collection::vec((0_usize..4000, 0_usize..40, 0_usize..BITS.len()), 1..6),
        ) {
            let mut chars: Vec<char> = init_template(None, None).chars().collect();
            for (at, len, bit) in cuts {
                let at = at % chars.len();
                let end = (at + len).min(chars.len());
                chars.splice(at..end, BITS[bit].chars());
            }
            let text: String = chars.into_iter().collect();
            if let Err(diagnostics) = load_text(&text) {
                prop_assert!(diagnostics.has_errors());
                let lines = text.lines().count() + 2 + text.matches('\r').count();
                for d in &diagnostics.0 {
                    prop_assert!(d.line >= 1 && d.line <= lines && d.column >= 1 && d.span_len >= 1, "{d:?}");
                }
                prop_assert!(!diagnostics.full(true).is_empty());
            }
        }

        #[test]
        fn any_text_is_refused_or_read(text in "\\PC{0,200}") {
            let _ = load_text(&text);
        }
    }
}
