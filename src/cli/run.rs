//! `run` and `demo`: from a suite to a recorded, graded, reported run.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::{DemoArgs, OnInconclusive, Outputs, ProgressMode, RunArgs, Selection};
use super::error::CliError;
use super::exit::Exit;
use super::finish;
use super::session::{self, Session};
use super::targets;
use crate::drive::{Answers, Event, Used};
use crate::plan::{self, Plan};
use crate::record::{JournalWriter, Progress, RunDir};
use crate::spec::{self, Budget, LoadOptions, Loaded, Suite, SuiteSource};
use crate::world::World;

/// Which load is asked: the suite's own, or its sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Run,
    Sweep,
}

/// A run as it was asked for.
pub struct Request {
    pub purpose: Purpose,
    pub suite: Option<String>,
    pub out: Option<PathBuf>,
    pub resume: Option<PathBuf>,
    pub arms: Vec<String>,
    pub selection: Selection,
    pub inconclusive: OnInconclusive,
    pub outputs: Outputs,
    pub progress: ProgressMode,
}

pub fn run(args: RunArgs, purpose: Purpose, world: &Arc<dyn World>) -> Result<Exit, CliError> {
    if args.until_decided {
        return Err(CliError::NotYet("--until-decided"));
    }
    execute(
        &Request {
            purpose,
            suite: args.suite,
            out: args.out,
            resume: args.resume,
            arms: args.arm,
            selection: args.selection,
            inconclusive: args.inconclusive,
            outputs: args.outputs,
            progress: args.progress,
        },
        world,
    )
}

pub fn demo(args: DemoArgs, world: &Arc<dyn World>) -> Result<Exit, CliError> {
    execute(
        &Request {
            purpose: Purpose::Run,
            suite: Some("builtin:demo".to_owned()),
            out: args.out,
            resume: None,
            arms: Vec::new(),
            selection: Selection::default(),
            inconclusive: OnInconclusive::default(),
            outputs: args.outputs,
            progress: args.progress,
        },
        world,
    )
}

/// The plan of a run: load or resume, ask, then grade, analyze and report what was recorded.
fn execute(request: &Request, world: &Arc<dyn World>) -> Result<Exit, CliError> {
    finish::check_outputs(&request.outputs)?;
    let session = match &request.resume {
        Some(path) => resume(request, path, world)?,
        None => begin(request, world)?,
    };
    let dir = session.dir.clone();
    say!("run directory: {}", dir.path().display());
    let ended = session::execute(session, world)?;
    let finished = finish::finish(&dir, world, &request.outputs)?;
    finish::show(&finished, &dir, super::colour_on(&std::io::stdout(), world));
    Ok(finish::exit(&finished.summary, &ended, request.inconclusive))
}

fn begin(request: &Request, world: &Arc<dyn World>) -> Result<Session, CliError> {
    let suite = request.suite.as_deref().unwrap_or_default();
    let loaded = load(suite, &request.selection, request.purpose, world.as_ref())?;
    if request.purpose == Purpose::Run && loaded.suite.sweep.is_some() {
        say!("note: `run` asks the suite's `load`; its `sweep` is run by `counterpoise sweep`");
    }
    let plan = plan::build(&loaded.suite, &loaded.live, world.wall_ms())?;
    let arms = chosen_arms(&plan, &request.arms)?;
    // Whatever can be known to fail is said before a directory is made.
    targets::check_keys(&loaded.live, world)?;
    let path = request.out.clone().unwrap_or_else(|| default_dir(&plan));
    let dir = RunDir::create(&path, &plan)?;
    let journal = dir.create_journal()?;
    Ok(Session {
        plan: Arc::new(plan),
        live: Arc::new(loaded.live),
        dir,
        journal,
        arms,
        done: HashSet::new(),
        answers: Answers::new(),
        ended_slots: HashSet::new(),
        used: Used::default(),
        number: 1,
        progress: request.progress,
    })
}

fn resume(request: &Request, path: &Path, world: &Arc<dyn World>) -> Result<Session, CliError> {
    let selection = &request.selection;
    let budget_only = selection.set.iter().all(|set| set.starts_with("budget."));
    if selection.task.is_some() || selection.limit.is_some() || !budget_only {
        return Err(CliError::Usage(
            "--resume continues the recorded plan; --task, --limit and --set (but for budget.…) belong to a new run"
                .to_owned(),
        ));
    }
    let dir = RunDir::open(path)?;
    let mut plan = dir.plan()?;
    let progress = if dir.has_journal() { dir.progress()? } else { Progress::default() };
    let mut live = match &request.suite {
        Some(suite) => take_suite(suite, &dir, &mut plan, &progress, world)?,
        None => spec::interpolate(&plan.suite, world.as_ref()).map_err(CliError::MissingEnv)?,
    };
    budget_sets(&mut live.budget, &selection.set)?;
    plan.refresh_live(&live)?;
    let arms = chosen_arms(&plan, &request.arms)?;
    targets::check_keys(&live, world)?;
    let answers = if dir.has_journal() { dir.answers(&plan)? } else { Answers::new() };
    let used = if dir.has_journal() { used(&dir, &plan)? } else { Used::default() };
    let journal = open_journal(&dir)?;
    Ok(Session {
        plan: Arc::new(plan),
        live: Arc::new(live),
        dir,
        journal,
        arms,
        number: progress.sessions + 1,
        done: progress.done,
        answers,
        ended_slots: progress.ended_slots,
        used,
        progress: request.progress,
    })
}

/// The suite that a resume names must be the one of the run. While nothing is measured yet, a mended one takes its
/// place.
fn take_suite(
    suite: &str,
    dir: &RunDir,
    plan: &mut Plan,
    progress: &Progress,
    world: &Arc<dyn World>,
) -> Result<Suite, CliError> {
    let purpose = if plan.is_sweep() { Purpose::Sweep } else { Purpose::Run };
    let loaded = load(suite, &Selection::default(), purpose, world.as_ref())?;
    if loaded.suite == plan.suite {
        return Ok(loaded.live);
    }
    if !progress.done.is_empty() {
        return Err(CliError::Usage(
            "the suite has changed since the run began, so its answers would not be comparable; start a new run, \
             or resume without naming the suite to go on with the recorded plan"
                .to_owned(),
        ));
    }
    *plan = plan::build(&loaded.suite, &loaded.live, world.wall_ms())?;
    dir.replace_plan(plan)?;
    say!("the suite has changed and nothing is measured yet: the run goes on with the new one");
    Ok(loaded.live)
}

fn open_journal(dir: &RunDir) -> Result<JournalWriter, CliError> {
    if !dir.has_journal() {
        return Ok(dir.create_journal()?);
    }
    let (journal, torn) = dir.resume_journal()?;
    if torn > 0 {
        say!("repaired the journal: {torn} bytes of a torn last line are cut; its request is asked again");
    }
    Ok(journal)
}

/// `--set budget.requests=…`, `budget.usd=…`, `budget.time=…` on a resume: what is spent stays spent.
fn budget_sets(budget: &mut Budget, sets: &[String]) -> Result<(), CliError> {
    for set in sets {
        let bad = |reason: String| CliError::Usage(format!("--set {set}: {reason}"));
        let (name, value) = set.split_once('=').ok_or_else(|| bad("write budget.NAME=VALUE".to_owned()))?;
        match name {
            "budget.requests" => budget.requests = Some(value.parse().map_err(|_| bad("not a number".to_owned()))?),
            "budget.usd" => budget.usd = Some(value.parse().map_err(|_| bad("not an amount in USD".to_owned()))?),
            "budget.time" => budget.time = Some(value.parse().map_err(bad)?),
            _ => return Err(bad("the budget holds requests, usd and time".to_owned())),
        }
    }
    Ok(())
}

/// What the recorded sessions took of the budget: every request that was sent, its price, and the sessions' time.
fn used(dir: &RunDir, plan: &Plan) -> Result<Used, CliError> {
    let mut used = Used::default();
    let mut session_us = 0;
    for event in dir.journal()? {
        match event? {
            Event::Session { .. } => {
                used.time_ns += std::mem::take(&mut session_us) * 1_000;
            }
            Event::Attempt(attempt) => {
                let end_us = attempt.timeline.eof_us.unwrap_or(attempt.timeline.dispatched_us);
                session_us = session_us.max(end_us);
                used.requests += u64::from(attempt.timeline.sent_us.is_some());
                let arm = plan.arms.iter().find(|arm| arm.name == attempt.arm);
                let deployment = arm.and_then(|arm| plan.suite.deployment(&arm.deployment));
                let usd = deployment.and_then(|deployment| targets::spend(deployment, &attempt));
                used.usd = used.usd.checked_add(usd.unwrap_or_default()).unwrap_or(used.usd);
            }
            Event::Ended { at_us, .. } => session_us = session_us.max(at_us),
            _ => {}
        }
    }
    used.time_ns += session_us * 1_000;
    Ok(used)
}

/// Loads a suite, printing its warnings.
pub fn load(suite: &str, selection: &Selection, purpose: Purpose, world: &dyn World) -> Result<Loaded, CliError> {
    let options = LoadOptions { set: selection.set.clone(), task_glob: selection.task.clone(), limit: selection.limit };
    let mut loaded = spec::load(SuiteSource::parse(suite), world, &options).map_err(CliError::Suite)?;
    if !loaded.warnings.is_empty() {
        super::err(&spec::Diagnostics(loaded.warnings.clone()).full(false));
    }
    if purpose == Purpose::Sweep {
        for suite in [&mut loaded.suite, &mut loaded.live] {
            let none = || {
                let example = "sweep: {over: concurrency, steps: [1, 2, 4, 8]}";
                CliError::Usage(format!("the suite has no `sweep`; add for example `{example}`"))
            };
            suite.load = suite.sweep.as_ref().ok_or_else(none)?.as_load(&suite.load);
        }
    }
    Ok(loaded)
}

fn chosen_arms(plan: &Plan, names: &[String]) -> Result<Vec<usize>, CliError> {
    let all = 0..plan.arms.len();
    if names.is_empty() {
        return Ok(all.collect());
    }
    let known = plan.arms.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut chosen = BTreeSet::new();
    for name in names {
        let index = plan
            .arms
            .iter()
            .position(|a| a.name == *name)
            .ok_or_else(|| plan::PlanError::UnknownArm { name: name.clone(), known: known.clone() })?;
        chosen.insert(index);
    }
    Ok(chosen.into_iter().collect())
}

/// `runs/20261201T111800Z-quant-gate-1a2b3c4d`
fn default_dir(plan: &Plan) -> PathBuf {
    let name: String = plan
        .suite
        .name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' })
        .collect();
    let stamp = crate::report::format::timestamp_compact(plan.created_wall_ms);
    Path::new("runs").join(format!("{stamp}-{name}-{}", plan.suite_hash.short()))
}
