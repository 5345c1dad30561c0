//! `run` and `demo`: from a suite to a recorded, graded, reported run.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::{DemoArgs, OnInconclusive, Outputs, ProgressMode, RunArgs, Selection};
use super::error::CliError;
use super::exit::Exit;
use super::finish;
use super::session::{self, Session};
use crate::plan::{self, Plan};
use crate::record::RunDir;
use crate::spec::{self, LoadOptions, Loaded, Suite, SuiteSource};
use crate::world::World;

/// A run as it was asked for.
pub struct Request {
    pub suite: Option<String>,
    pub out: Option<PathBuf>,
    pub resume: Option<PathBuf>,
    pub arms: Vec<String>,
    pub selection: Selection,
    pub inconclusive: OnInconclusive,
    pub outputs: Outputs,
    pub progress: ProgressMode,
}

pub fn run(args: RunArgs, world: &Arc<dyn World>) -> Result<Exit, CliError> {
    if args.until_decided {
        return Err(CliError::NotYet("--until-decided"));
    }
    execute(
        &Request {
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
    eprintln!("run directory: {}", dir.path().display());
    let ended = session::execute(session, world)?;
    let finished = finish::finish(&dir, world, &request.outputs)?;
    finish::show(&finished, &dir, super::colour_on(&std::io::stdout(), world));
    Ok(finish::exit(&finished.summary, &ended, request.inconclusive))
}

fn begin(request: &Request, world: &Arc<dyn World>) -> Result<Session, CliError> {
    let suite = request.suite.as_deref().unwrap_or_default();
    let loaded = load(suite, &request.selection, world.as_ref())?;
    let plan = plan::build(&loaded.suite, &loaded.live, world.wall_ms())?;
    let arms = chosen_arms(&plan, &request.arms)?;
    let path = request.out.clone().unwrap_or_else(|| default_dir(&plan));
    let dir = RunDir::create(&path, &plan)?;
    let journal = dir.create_journal()?;
    let live = Arc::new(loaded.live);
    Ok(Session {
        plan: Arc::new(plan),
        live,
        dir,
        journal,
        arms,
        done: HashSet::new(),
        number: 1,
        progress: request.progress,
    })
}

fn resume(request: &Request, path: &Path, world: &Arc<dyn World>) -> Result<Session, CliError> {
    if request.selection.task.is_some() || request.selection.limit.is_some() || !request.selection.set.is_empty() {
        return Err(CliError::Usage(
            "--resume continues the recorded plan; --task, --limit and --set belong to a new run".to_owned(),
        ));
    }
    let dir = RunDir::open(path)?;
    let mut plan = dir.plan()?;
    let (suite, live) = resumed_suite(request, &plan, world.as_ref())?;
    if let Some(suite) = suite {
        check_same_suite(&suite, &plan)?;
    }
    plan.refresh_live(&live)?;
    let arms = chosen_arms(&plan, &request.arms)?;
    let progress = if dir.has_journal() { dir.progress()? } else { crate::record::Progress::default() };
    let journal = if dir.has_journal() {
        let (journal, torn) = dir.resume_journal()?;
        if torn > 0 {
            eprintln!("repaired the journal: {torn} bytes of a torn last line are cut; its request is asked again");
        }
        journal
    } else {
        dir.create_journal()?
    };
    Ok(Session {
        plan: Arc::new(plan),
        live: Arc::new(live),
        dir,
        journal,
        arms,
        number: progress.sessions + 1,
        done: progress.done,
        progress: request.progress,
    })
}

/// The plan's own suite with today's environment; the suite file, where one is named, must be the same suite.
fn resumed_suite(request: &Request, plan: &Plan, world: &dyn World) -> Result<(Option<Suite>, Suite), CliError> {
    match &request.suite {
        Some(suite) => {
            let loaded = load(suite, &Selection::default(), world)?;
            Ok((Some(loaded.suite), loaded.live))
        }
        None => Ok((None, spec::interpolate(&plan.suite, world).map_err(CliError::MissingEnv)?)),
    }
}

fn check_same_suite(suite: &Suite, plan: &Plan) -> Result<(), CliError> {
    if *suite == plan.suite {
        return Ok(());
    }
    Err(CliError::Usage(
        "the suite has changed since the run began, so its answers would not be comparable; start a new run, \
         or resume without naming the suite to go on with the recorded plan"
            .to_owned(),
    ))
}

/// Loads a suite, printing its warnings.
pub fn load(suite: &str, selection: &Selection, world: &dyn World) -> Result<Loaded, CliError> {
    let options = LoadOptions { set: selection.set.clone(), task_glob: selection.task.clone(), limit: selection.limit };
    let loaded = spec::load(SuiteSource::parse(suite), world, &options).map_err(CliError::Suite)?;
    if !loaded.warnings.is_empty() {
        eprint!("{}", spec::Diagnostics(loaded.warnings.clone()).full(false));
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
