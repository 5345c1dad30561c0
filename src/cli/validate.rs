//! `validate`: every mistake of each suite at once, then its examples.

use std::sync::Arc;

use super::args::{DiagnosticFormat, ValidateArgs};
use super::exit::Exit;
use crate::grade;
use crate::spec::{self, Diagnostic, Diagnostics, LoadOptions, Loaded, SuiteSource, Task};
use crate::world::World;

pub fn validate(args: &ValidateArgs, world: &Arc<dyn World>) -> Exit {
    let mut sound = true;
    let mut found = Vec::new();
    for suite in &args.suites {
        match spec::load(SuiteSource::parse(suite), world.as_ref(), &LoadOptions::default()) {
            Err(diagnostics) => {
                sound = false;
                found.extend(diagnostics.0);
            }
            Ok(loaded) => {
                let failures = grading_failures(suite, &loaded);
                sound &= failures.is_empty();
                if failures.is_empty() && args.format != DiagnosticFormat::Json {
                    super::out(&praise(suite, &loaded));
                }
                found.extend(loaded.warnings);
                found.extend(failures);
            }
        }
    }
    show(&Diagnostics(found), args.format, world);
    if sound { Exit::Pass } else { Exit::BadInput }
}

/// One list for all suites; JSON is an array even where nothing was found.
fn show(found: &Diagnostics, format: DiagnosticFormat, world: &Arc<dyn World>) {
    match format {
        DiagnosticFormat::Json => super::out(&found.json()),
        _ if found.0.is_empty() => {}
        DiagnosticFormat::Full => super::err(&found.full(super::colour_on(&std::io::stderr(), world))),
        DiagnosticFormat::Concise => super::out(&found.concise()),
    }
}

/// What no reading of the file shows: schemas that do not compile, examples that do not get their verdict, expected
/// answers that cannot be graded.
fn grading_failures(suite: &str, loaded: &Loaded) -> Vec<Diagnostic> {
    let mut failures = Vec::new();
    for task in &loaded.live.tasks {
        let mut fail = |code, what: &dyn std::fmt::Display| {
            failures.push(Diagnostic::without_place(code, suite, format!("task `{}`: {what}", task.name)));
        };
        let broken: Vec<_> = task.graders.iter().flat_map(grade::check).collect();
        for error in &broken {
            fail("grader", error);
        }
        if broken.is_empty() {
            check_examples(task, &mut fail);
            check_golds(task, &mut fail);
        }
    }
    failures
}

type Fail<'a> = dyn FnMut(&'static str, &dyn std::fmt::Display) + 'a;

fn check_examples(task: &Task, fail: &mut Fail<'_>) {
    match grade::check_examples(task, &grade::render) {
        Ok(found) => found.iter().for_each(|failure| fail("example", failure)),
        Err(error) => fail("grader", &error),
    }
}

fn check_golds(task: &Task, fail: &mut Fail<'_>) {
    let rows = match spec::dataset::read(task, None) {
        Ok(rows) => rows,
        Err(error) => return fail("dataset", &error),
    };
    match grade::check_golds(task, &rows, &grade::render) {
        Ok(found) => {
            found.listed.iter().for_each(|failure| fail("expected-answer", failure));
            if found.more > 0 {
                fail("expected-answer", &format!("{} more expected answers can't be used", found.more));
            }
        }
        Err(error) => fail("grader", &error),
    }
}

fn praise(suite: &str, loaded: &Loaded) -> String {
    let examples: usize = loaded.live.tasks.iter().map(|task| task.examples.len()).sum();
    let (tasks, deployments) = (loaded.suite.tasks.len(), loaded.suite.deployments.len());
    format!("{suite}: sound (deployments {deployments}, tasks {tasks}, examples that hold {examples})\n")
}
