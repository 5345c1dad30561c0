//! `regrade` and `report`: from the run's files alone.

use std::sync::Arc;

use super::args::{Outputs, RegradeArgs, ReportArgs, Selection};
use super::error::CliError;
use super::exit::Exit;
use super::session::Ended;
use super::{export, finish, run};
use crate::drive::{EndReason, Event};
use crate::record::RunDir;
use crate::world::World;

/// Grades a recorded run again, with its own suite or with the graders, prices and gates of another.
pub fn regrade(args: &RegradeArgs, world: &Arc<dyn World>) -> Result<Exit, CliError> {
    finish::check_outputs(&args.outputs)?;
    let dir = RunDir::open(&args.run)?;
    let mut plan = dir.plan()?;
    if let Some(suite) = &args.suite {
        let loaded = run::load(suite, &Selection::default(), run::Purpose::Run, world.as_ref())?;
        plan.take_judgement(&loaded.suite).map_err(CliError::Usage)?;
    }
    let plan = Arc::new(plan);
    let graded = finish::grade(&dir, &plan, world)?;
    say!("graded {graded} recorded answers; no server was asked");
    let finished = finish::write_reports(&dir, &plan, world, &args.outputs)?;
    finish::show(&finished, &dir, super::colour_on(&std::io::stdout(), world));
    // Nobody interrupts a regrade: an incomplete run is judged by what it has.
    let reason = Some(end_reason(&dir)?).filter(|r| *r != EndReason::Interrupted).unwrap_or(EndReason::Done);
    let ended = Ended { reason };
    Ok(finish::exit(&finished.summary, &ended, args.inconclusive))
}

/// Writes reports of a run; grades it first where it was never graded. The exit code is about the report, not the run.
pub fn report(args: &ReportArgs, world: &Arc<dyn World>) -> Result<Exit, CliError> {
    finish::check_outputs(&args.outputs)?;
    let dir = RunDir::open(&args.run)?;
    let plan = Arc::new(dir.plan()?);
    if !dir.file("scores.jsonl").is_file() {
        finish::grade(&dir, &plan, world)?;
    }
    if let Some(path) = &args.grades_csv {
        export::grades_csv(&dir, &plan, path)?;
    }
    let finished = finish::write_reports(&dir, &plan, world, &args.outputs)?;
    let nothing_named = is_empty(&args.outputs) && args.grades_csv.is_none();
    if nothing_named {
        finish::show(&finished, &dir, super::colour_on(&std::io::stdout(), world));
    }
    Ok(Exit::Pass)
}

fn is_empty(outputs: &Outputs) -> bool {
    let files = [&outputs.html, &outputs.json, &outputs.junit, &outputs.markdown, &outputs.csv, &outputs.parquet];
    files.into_iter().all(Option::is_none)
}

/// How the run's last session ended; one that was killed says nothing, and counts as interrupted.
fn end_reason(dir: &RunDir) -> Result<EndReason, CliError> {
    let mut reason = EndReason::Interrupted;
    for event in dir.journal()? {
        match event? {
            Event::Session { .. } => reason = EndReason::Interrupted,
            Event::Ended { reason: ended, .. } => reason = ended,
            _ => {}
        }
    }
    Ok(reason)
}
