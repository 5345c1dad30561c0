//! `validate`: every mistake of each suite at once, then its examples.

use std::sync::Arc;

use super::args::{DiagnosticFormat, ValidateArgs};
use super::exit::Exit;
use crate::grade;
use crate::spec::{self, Diagnostic, Diagnostics, LoadOptions, Loaded, SuiteSource};
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
                let failures = example_failures(suite, &loaded);
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

/// Runs the examples of every task; says what each failing one got.
fn example_failures(suite: &str, loaded: &Loaded) -> Vec<Diagnostic> {
    let mut failures = Vec::new();
    let mut fail = |task: &str, what: String| {
        failures.push(Diagnostic::without_place("example", suite, format!("task `{task}`: {what}")));
    };
    for task in &loaded.live.tasks {
        match grade::check_examples(task, &grade::render) {
            Ok(found) => found.into_iter().for_each(|failure| fail(&task.name, failure.to_string())),
            Err(error) => fail(&task.name, error.to_string()),
        }
    }
    failures
}

fn praise(suite: &str, loaded: &Loaded) -> String {
    let examples: usize = loaded.live.tasks.iter().map(|task| task.examples.len()).sum();
    let (tasks, deployments) = (loaded.suite.tasks.len(), loaded.suite.deployments.len());
    format!("{suite}: sound (deployments {deployments}, tasks {tasks}, examples that hold {examples})\n")
}
