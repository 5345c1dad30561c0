//! One session of a run: probes, then the dispatcher with its lanes and its consumer.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use super::args::ProgressMode;
use super::calibrations;
use super::consumer::{self, Consumer, Seen};
use super::environment;
use super::error::CliError;
use super::lane_pool::LanePool;
use super::progress::Progress;
use super::targets::{self, Endpoint};
use crate::deploy::probe::{self, ProbeError};
use crate::deploy::sockets::Sockets;
use crate::deploy::{self, ColdBy, Outcome};
use crate::drive::{
    self, Answers, ArmRunner, BudgetState, EndReason, Event, EventSink, Gauge, Pace, Pacer, Shared, Stop, Used,
};
use crate::grade::RunGrader;
use crate::plan::Plan;
use crate::record::{JournalWriter, RunDir};
use crate::spec::{CacheMode, Suite};
use crate::units::Id;
use crate::world::World;

pub struct Session {
    pub plan: Arc<Plan>,
    pub live: Arc<Suite>,
    pub dir: RunDir,
    pub journal: JournalWriter,
    /// Indices of the plan's arms that this session asks.
    pub arms: Vec<usize>,
    pub done: HashSet<Id>,
    /// Of turns of conversations in `done`: how they ended and what was answered.
    pub answers: Answers,
    /// Slots of earlier sessions whose rest is not asked.
    pub ended_slots: HashSet<u32>,
    /// What earlier sessions took of the budget.
    pub used: Used,
    /// 1 for the first session of the run.
    pub number: u32,
    pub progress: ProgressMode,
}

/// How the session ended.
pub struct Ended {
    pub reason: EndReason,
}

/// Runs the session to its end: everything asked, or stopped early with its reason. The journal is closed after it.
pub fn execute(session: Session, world: &Arc<dyn World>) -> Result<Ended, CliError> {
    let endpoints = targets::start(&session.live, &session.plan, world)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    let lanes = LanePool::start().map_err(CliError::Runtime)?;
    let (sink, messages) = EventSink::new();
    let stop = Stop::default();
    let Session { plan, live, journal, arms, done, answers, ended_slots, number, progress, used, .. } = session;
    let consumer = Consumer {
        journal,
        grader: RunGrader::new(&live.tasks, Arc::clone(&plan))?,
        progress: Progress::new(progress, &plan, &arms, &done_by_arm(&plan, &done)),
        stop: stop.clone(),
        clock: world.clock(),
    };
    let consumer = consumer::spawn(consumer, messages).map_err(CliError::Runtime)?;
    let budget = BudgetState::new(live.budget.clone(), used);
    let shared = Arc::new(Shared {
        plan,
        live,
        transport: Arc::new(Sockets::new(world.clock())),
        clock: world.clock(),
        pool: lanes.handle.clone(),
        sink,
        stop: stop.clone(),
        gauge: Gauge::of(world),
        session: number,
        done,
        answers,
        ended_slots,
        pace: Pace::Thread,
        budget,
        price: targets::spend,
    });
    let reason = runtime.block_on(session_events(&shared, &arms, &endpoints, world));
    // The last sender goes with `shared`; then the consumer writes what is left and ends.
    drop(shared);
    let seen = consumer.join().map_err(|_| CliError::Recorder)?;
    finish_session(seen, &reason)?;
    Ok(Ended { reason })
}

fn finish_session(seen: Seen, reason: &EndReason) -> Result<(), CliError> {
    if let Some(failure) = seen.failure {
        return Err(CliError::Record(failure));
    }
    if let EndReason::Aborted(why) | EndReason::Budget(why) = reason {
        say!("stopped early: {why}");
    }
    Ok(())
}

async fn session_events(
    shared: &Arc<Shared>,
    arms: &[usize],
    endpoints: &BTreeMap<String, Endpoint>,
    world: &Arc<dyn World>,
) -> EndReason {
    let anchor_wall_ms = world.wall_ms().saturating_sub(shared.clock.now().as_us() / 1_000);
    let environment = environment::collect();
    let resumed = shared.session > 1;
    shared.sink.emit(Event::Session { session: shared.session, anchor_wall_ms, resumed, environment }).await;
    let interrupts = tokio::spawn(watch_interrupts(shared.stop.clone()));
    let runners = probe_arms(shared, arms, endpoints).await;
    let begun = shared.clock.now();
    let reason = match runners {
        Ok(runners) => drive::drive(Arc::clone(shared), runners).await,
        Err(reason) => reason,
    };
    if reason == EndReason::Done {
        calibrations::of_run(shared, begun, world).await;
    }
    interrupts.abort();
    let complete = reason == EndReason::Done && others_are_done(shared, arms);
    let at_us = shared.clock.now().as_us();
    shared.sink.emit(Event::Ended { at_us, complete, reason: reason.clone() }).await;
    shared.sink.barrier().await;
    reason
}

/// Whether the arms that this session did not ask have their outcomes from earlier ones.
fn others_are_done(shared: &Shared, arms: &[usize]) -> bool {
    let mut others = shared.plan.slots().into_iter().filter(|slot| !arms.contains(&slot.arm));
    others.all(|slot| {
        shared.ended_slots.contains(&slot.index) || shared.plan.units(slot).all(|unit| shared.done.contains(&unit.id))
    })
}

/// The first interrupt stops the run and keeps what is recorded; a second one ends the process at once.
async fn watch_interrupts(stop: Stop) {
    let mut first = true;
    while tokio::signal::ctrl_c().await.is_ok() {
        if !first {
            #[allow(clippy::exit)] // Asked for twice; the journal is valid at every line.
            std::process::exit(130);
        }
        first = false;
        say!("interrupted: what is recorded stays; press again to end at once");
        stop.request(EndReason::Interrupted);
    }
}

/// Asks every deployment whether it is there. A missing baseline ends the run; a missing candidate is recorded.
async fn probe_arms(
    shared: &Arc<Shared>,
    arms: &[usize],
    endpoints: &BTreeMap<String, Endpoint>,
) -> Result<Vec<ArmRunner>, EndReason> {
    let mut probed: BTreeMap<&str, Probed> = BTreeMap::new();
    let mut pacers: BTreeMap<&str, Arc<Mutex<Pacer>>> = BTreeMap::new();
    let mut runners = Vec::new();
    for &index in arms {
        let Some(arm) = shared.plan.arms.get(index) else { continue };
        let (Some(deployment), Some(endpoint)) =
            (shared.live.deployment(&arm.deployment), endpoints.get(&arm.deployment))
        else {
            continue;
        };
        let is_baseline = is_baseline(&shared.live, &arm.deployment);
        let Some(dialect) = deploy::dialect(deployment.api) else { continue };
        let said = if let Some(said) = probed.get(arm.deployment.as_str()) {
            said.clone()
        } else {
            let said = probe_one(shared, &arm.name, deployment.ready_timeout, endpoint, is_baseline).await?;
            probed.insert(&arm.deployment, said.clone());
            said
        };
        let target = Arc::clone(&endpoint.target);
        let pacer =
            pacers.entry(&arm.deployment).or_insert_with(|| Arc::new(Mutex::new(Pacer::new(deployment.limits))));
        let pacer = Arc::clone(pacer);
        let mut runner = ArmRunner::new(index, &arm.name, deployment.clone(), target, dialect, is_baseline, pacer);
        runner.cold_by = Some(ColdBy::of(&said.fingerprint, &deployment.body));
        runner.down = said.down;
        runners.push(runner);
    }
    if shared.live.cache == CacheMode::Cold {
        keep_cold(shared, &mut runners).await;
    }
    Ok(runners)
}

/// What a deployment said of itself, or why nothing will be asked of it.
#[derive(Clone)]
struct Probed {
    fingerprint: serde_json::Value,
    down: Option<(Outcome, String)>,
}

/// Agrees on how prompt caches are kept out of play, and records it.
async fn keep_cold(shared: &Shared, runners: &mut [ArmRunner]) {
    // An arm that is asked nothing has no say.
    let mut asked: Vec<&mut ArmRunner> = runners.iter_mut().filter(|runner| runner.down.is_none()).collect();
    let mut means: Vec<ColdBy> = asked.iter().filter_map(|runner| runner.cold_by).collect();
    ColdBy::agree(&mut means);
    for (runner, by) in asked.iter_mut().zip(means) {
        runner.cold_by = Some(by);
        let at_us = shared.clock.now().as_us();
        shared.sink.emit(Event::Cache { arm: runner.name.clone(), at_us, by }).await;
    }
}

async fn probe_one(
    shared: &Shared,
    arm: &str,
    ready_timeout: crate::units::Span,
    endpoint: &Endpoint,
    is_baseline: bool,
) -> Result<Probed, EndReason> {
    let mut last_said = String::new();
    let mut waiting = |reason: &str| {
        if reason != last_said {
            say!("waiting for `{arm}`: {reason}");
            reason.clone_into(&mut last_said);
        }
    };
    let answer = tokio::select! {
        answer = probe::ready(&endpoint.target, ready_timeout, shared.clock, &mut waiting) => answer,
        () = shared.stop.requested() => return Err(EndReason::Interrupted),
    };
    match answer {
        Ok(ready) => {
            let at_us = shared.clock.now().as_us();
            let event = Event::Ready { arm: arm.to_owned(), at_us, fingerprint: ready.fingerprint.clone() };
            shared.sink.emit(event).await;
            Ok(Probed { fingerprint: ready.fingerprint, down: None })
        }
        Err(error) => {
            let message = format!("deployment `{}` {error}", endpoint.target.name);
            if is_baseline || matches!(error, ProbeError::Auth { .. }) {
                return Err(EndReason::Aborted(message));
            }
            say!("warning: {message}");
            let outcome = match error {
                ProbeError::WrongModel { .. } => Outcome::BadRequest,
                _ => Outcome::Unreachable,
            };
            Ok(Probed { fingerprint: serde_json::Value::Null, down: Some((outcome, message)) })
        }
    }
}

/// Whether nothing can be concluded without this deployment: a baseline of a comparison, or the only one.
fn is_baseline(suite: &Suite, deployment: &str) -> bool {
    suite.comparisons.iter().any(|c| c.baseline == deployment) || suite.deployments.len() == 1
}

fn done_by_arm(plan: &Plan, done: &HashSet<Id>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    if done.is_empty() {
        return counts;
    }
    for slot in plan.slots() {
        let recorded = plan.units(slot).filter(|u| done.contains(&u.id)).count() as u64;
        if let Some(arm) = plan.arms.get(slot.arm) {
            *counts.entry(arm.name.clone()).or_insert(0) += recorded;
        }
    }
    counts
}
