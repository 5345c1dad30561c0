//! `validate`: every mistake of each suite at once, then its examples.

use std::sync::Arc;

use super::args::{DiagnosticFormat, ValidateArgs};
use super::exit::Exit;
use crate::grade;
use crate::spec::{self, Diagnostics, LoadOptions, Loaded, SuiteSource, Task};
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
        failures += check_answers(suite, task);
    }
    let (tasks, deployments) = (loaded.suite.tasks.len(), loaded.suite.deployments.len());
    if failures == 0 {
        super::out(&format!("{suite}: sound ({deployments} deployments, {tasks} tasks, {examples} examples hold)\n"));
    }
    failures == 0
}

/// Whether every row's expected answer can be used; says which can't, and gives their count.
fn check_answers(suite: &str, task: &Task) -> usize {
    let tell = |what: &dyn std::fmt::Display| eprintln!("{suite}: task `{}`: {what}", task.name);
    let schemas: Vec<_> = task.graders.iter().flat_map(grade::check).collect();
    schemas.iter().for_each(|error| tell(error));
    if !schemas.is_empty() {
        return schemas.len();
    }
    let rows = match spec::dataset::read(task, None) {
        Ok(rows) => rows,
        Err(error) => {
            tell(&error);
            return 1;
        }
    };
    match grade::check_golds(task, &rows, &grade::render) {
        Ok(found) => {
            found.listed.iter().for_each(|failure| tell(failure));
            if found.more > 0 {
                tell(&format!("{} more expected answers can't be used", found.more));
            }
            found.listed.len() + found.more
        }
        Err(error) => {
            tell(&error);
            1
        }
    }
}
