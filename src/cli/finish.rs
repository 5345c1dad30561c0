//! What follows the last request: grade, analyze, report. Pure functions of the run directory, so that `regrade` and
//! `report` are the very same path.

use std::path::Path;
use std::sync::Arc;

use super::args::{OnInconclusive, Outputs};
use super::error::CliError;
use super::exit::Exit;
use super::export;
use super::session::Ended;
use crate::analyze::{self, AnalyzeInput, Summary};
use crate::drive::{EndReason, Event};
use crate::grade::{RunGrader, ScoreRecord};
use crate::plan::{Phase, Plan};
use crate::record::{RecordError, RunDir, write_file};
use crate::report;
use crate::spec::{self, Suite, Task};
use crate::world::World;

/// Fits every terminal and every log.
const TERMINAL_COLUMNS: usize = 80;

pub struct Finished {
    pub summary: Summary,
}

/// Grades what is recorded, analyzes it, and writes `scores.jsonl`, `summary.json`, `report.html` and the outputs asked
/// for.
pub fn finish(dir: &RunDir, world: &Arc<dyn World>, outputs: &Outputs) -> Result<Finished, CliError> {
    let plan = Arc::new(dir.plan()?);
    grade(dir, &plan, world)?;
    write_reports(dir, &plan, world, outputs)
}

/// Writes every report of a graded run.
pub fn write_reports(
    dir: &RunDir,
    plan: &Plan,
    world: &Arc<dyn World>,
    outputs: &Outputs,
) -> Result<Finished, CliError> {
    let summary = analyze_run(dir, plan)?;
    let json = report::json(&summary)?;
    write_file(&dir.file("summary.json"), json.as_bytes())?;
    let html = report::html(&summary, world.wall_ms())?;
    write_file(&dir.file("report.html"), html.as_bytes())?;
    let given = |path: &Option<std::path::PathBuf>, text: &str| -> Result<(), CliError> {
        if let Some(path) = path {
            write_file(path, text.as_bytes())?;
        }
        Ok(())
    };
    given(&outputs.json, &json)?;
    given(&outputs.html, &html)?;
    given(&outputs.junit, &report::junit(&summary))?;
    let markdown = report::markdown(&summary);
    given(&outputs.markdown, &markdown)?;
    if let Some(path) = &outputs.csv {
        export::requests_csv(dir, plan, path)?;
    }
    step_summary(world, &markdown);
    Ok(Finished { summary })
}

/// Grades the first final attempt of each unit. Text is graded from the journal, never from the wire.
pub fn grade(dir: &RunDir, plan: &Arc<Plan>, world: &Arc<dyn World>) -> Result<u64, CliError> {
    let grader = RunGrader::new(&live_tasks(plan, world)?, Arc::clone(plan))?;
    let mut seen = std::collections::HashSet::new();
    let mut score = |event: Result<Event, RecordError>| -> Option<Result<ScoreRecord, RecordError>> {
        match event {
            Err(error) => Some(Err(error)),
            Ok(Event::Attempt(attempt)) if attempt.last && attempt.phase == Phase::Measured => {
                if seen.insert(attempt.unit) { grader.grade(&attempt).map(Ok) } else { None }
            }
            Ok(_) => None,
        }
    };
    let scores = dir.journal()?.filter_map(&mut score);
    Ok(dir.write_scores(scores)?)
}

/// Tasks with their environment filled in. Deployments are left out: grading needs none of their variables.
fn live_tasks(plan: &Plan, world: &Arc<dyn World>) -> Result<Vec<Task>, CliError> {
    let suite = Suite { deployments: Vec::new(), ..plan.suite.clone() };
    Ok(spec::interpolate(&suite, world.as_ref()).map_err(CliError::MissingEnv)?.tasks)
}

fn analyze_run(dir: &RunDir, plan: &Plan) -> Result<Summary, CliError> {
    let text = |e: RecordError| e.to_string();
    let journal = || -> Result<Box<dyn Iterator<Item = Result<Event, String>>>, String> {
        let lines = dir.journal().map_err(text)?;
        Ok(Box::new(lines.map(move |line| line.map_err(text))))
    };
    let scores = || -> Result<Box<dyn Iterator<Item = Result<ScoreRecord, String>>>, String> {
        let lines = dir.scores().map_err(text)?;
        Ok(Box::new(lines.map(move |line: Result<ScoreRecord, RecordError>| line.map_err(text))))
    };
    Ok(analyze::analyze(&AnalyzeInput { plan, journal: &journal, scores: &scores })?)
}

/// Output files are opened before the run, so that a bad path fails before the first request.
pub fn check_outputs(outputs: &Outputs) -> Result<(), CliError> {
    if outputs.parquet.is_some() {
        return Err(CliError::NotYet("--parquet"));
    }
    let files = [&outputs.html, &outputs.json, &outputs.junit, &outputs.markdown, &outputs.csv];
    for path in files.into_iter().flatten() {
        check_writable(path)?;
    }
    Ok(())
}

fn check_writable(path: &Path) -> Result<(), CliError> {
    let existed = path.exists();
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| CliError::Output { path: path.display().to_string(), error })?;
    if !existed {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// In GitHub Actions the Markdown goes to the job's summary.
fn step_summary(world: &Arc<dyn World>, markdown: &str) {
    let Some(path) = world.env("GITHUB_STEP_SUMMARY").filter(|p| !p.is_empty()) else { return };
    let appended = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, markdown.as_bytes()));
    if let Err(error) = appended {
        say!("warning: the step summary {path} cannot be written: {error}");
    }
}

/// Results on stdout: the table, and where the report lies.
pub fn show(finished: &Finished, dir: &RunDir, colour: bool) {
    super::out(&report::terminal(&finished.summary, TERMINAL_COLUMNS, colour));
    super::out(&format!("report: {}\n", dir.file("report.html").display()));
}

/// The first exit code that holds.
pub fn exit(summary: &Summary, ended: &Ended, on: OnInconclusive) -> Exit {
    match &ended.reason {
        EndReason::Interrupted => Exit::Interrupted,
        EndReason::Aborted(_) => Exit::Invalid,
        EndReason::Done | EndReason::Budget(_) => Exit::of_verdict(summary.verdict, on),
    }
}
