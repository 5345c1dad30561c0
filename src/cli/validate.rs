//! `validate`: every mistake of each suite at once, then its examples.

use std::sync::Arc;

use super::args::{DiagnosticFormat, ValidateArgs};
use super::exit::Exit;
use crate::grade;
use crate::spec::{self, Diagnostics, LoadOptions, Loaded, SuiteSource};
use crate::world::World;

pub fn validate(args: &ValidateArgs, world: &Arc<dyn World>) -> Exit {
    let mut sound = true;
    for suite in &args.suites {
        match spec::load(SuiteSource::parse(suite), world.as_ref(), &LoadOptions::default()) {
            Err(diagnostics) => {
                sound = false;
                show(&diagnostics, args.format, world);
            }
            Ok(loaded) => sound &= check_examples(suite, &loaded, args.format, world),
        }
    }
    if sound { Exit::Pass } else { Exit::BadInput }
}

fn show(diagnostics: &Diagnostics, format: DiagnosticFormat, world: &Arc<dyn World>) {
    match format {
        DiagnosticFormat::Full => {
            eprint!("{}", diagnostics.full(super::colour_on(&std::io::stderr(), world)));
        }
        DiagnosticFormat::Concise => super::out(&diagnostics.concise()),
        DiagnosticFormat::Json => super::out(&diagnostics.json()),
    }
}

/// Runs the examples of every task; says what each failing one got.
fn check_examples(suite: &str, loaded: &Loaded, format: DiagnosticFormat, world: &Arc<dyn World>) -> bool {
    if !loaded.warnings.is_empty() {
        show(&Diagnostics(loaded.warnings.clone()), format, world);
    }
    let mut failures = 0;
    let mut examples = 0;
    for task in &loaded.live.tasks {
        examples += task.examples.len();
        match grade::check_examples(task, &grade::render) {
            Ok(found) => {
                failures += found.len();
                for failure in found {
                    eprintln!("{suite}: task `{}`: {failure}", task.name);
                }
            }
            Err(error) => {
                failures += 1;
                eprintln!("{suite}: task `{}`: {error}", task.name);
            }
        }
    }
    let (tasks, deployments) = (loaded.suite.tasks.len(), loaded.suite.deployments.len());
    if failures == 0 {
        super::out(&format!("{suite}: sound ({deployments} deployments, {tasks} tasks, {examples} examples hold)\n"));
    }
    failures == 0
}
