//! One arm's part: its lanes, its slots, and what it has shown so far.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::event::{EndReason, Event, SlotEnd};
use super::instrument::Reading;
use super::lane::open_all;
use super::pacer::Pacer;
use super::shared::Shared;
use super::talks::Talks;
use crate::deploy::{ColdBy, Dialect, Lane, Outcome, Secrets, Target, TransportError};
use crate::plan::{Phase, Plan, Slot, Unit};
use crate::spec::{Deployment, LoadShape, Start};
use crate::units::Mono;

/// The first arrival of an open load comes this long after its slot is ready, so that it is not late.
const OPEN_LEAD_NS: u64 = 20_000_000;

pub struct ArmRunner {
    pub index: usize,
    pub name: String,
    pub deployment: Deployment,
    pub target: Arc<Target>,
    pub(super) secrets: Secrets,
    pub dialect: &'static dyn Dialect,
    /// A fault here means that nothing can be compared.
    pub is_baseline: bool,
    pub(super) lanes: Vec<Box<dyn Lane>>,
    /// Shared by all arms of the deployment: its limits are the server's, not an arm's.
    pacer: Arc<Mutex<Pacer>>,
    /// Connections that failed in a row after the arm had answered, and since when.
    pub(super) lost: Option<(u32, Mono)>,
    /// Median E2E of the arm's last slot or warm-up.
    pub(super) service_ns: Option<u64>,
    pub(super) answered: bool,
    pub(super) refusals: u32,
    /// Known to refuse: the outcome of every further request, and why.
    pub down: Option<(Outcome, String)>,
    /// How its server's prompt cache is kept out of play; decided when it is ready.
    pub cold_by: Option<ColdBy>,
    /// Conversations of the slot that is being run.
    pub(super) talks: Talks,
    /// Why a sweep has ended for this arm.
    swept_out: Option<String>,
}

/// Which slot is being run, and under which load.
#[derive(Clone, Debug)]
pub struct SlotRef {
    pub slot: u32,
    pub block: u32,
    pub stage: u16,
    pub phase: Phase,
    pub shape: LoadShape,
    /// Nothing new is sent after this time, once `answers_least` are there.
    pub time_us: Option<u64>,
    pub answers_least: u64,
    /// A sweep's step with its value: it ends early when the server falls behind.
    pub step: Option<f64>,
    /// Samples of one round.
    pub round: usize,
}

impl SlotRef {
    /// A slot of the measured phase; `None` where the plan has no such block.
    pub fn measured(plan: &Plan, slot: Slot) -> Option<SlotRef> {
        let block = plan.blocks.get(slot.block as usize)?;
        let stage = plan.stage(block)?;
        Some(SlotRef {
            slot: slot.index,
            block: slot.block,
            stage: block.stage,
            phase: Phase::Measured,
            shape: stage.shape,
            time_us: block.time_us,
            answers_least: block.answers_least,
            step: stage.step,
            round: block.items.len(),
        })
    }

    /// Before a slot its prompts are sent once (`cache: warm`), as many at a time as the slot has in flight.
    #[must_use]
    pub fn priming(&self) -> SlotRef {
        let concurrency = self.shape.planned_in_flight();
        SlotRef {
            phase: Phase::Warmup,
            shape: LoadShape::Closed { concurrency, start: Start::Burst, ramp: None },
            time_us: None,
            answers_least: 0,
            step: None,
            round: usize::MAX,
            ..self.clone()
        }
    }

    /// The warm-up of an arm: closed, at the level of the first stage.
    pub fn warmup(plan: &Plan, arm: usize) -> SlotRef {
        let first = plan.suite.load.stages().into_iter().next();
        let concurrency = first.map_or(1, |stage| stage.shape.planned_in_flight());
        SlotRef {
            slot: arm as u32,
            block: 0,
            stage: 0,
            phase: Phase::Warmup,
            shape: LoadShape::Closed { concurrency, start: Start::Spread, ramp: None },
            time_us: None,
            answers_least: 0,
            step: None,
            round: usize::MAX,
        }
    }
}

impl ArmRunner {
    pub fn new(
        index: usize,
        name: &str,
        deployment: Deployment,
        target: Arc<Target>,
        dialect: &'static dyn Dialect,
        is_baseline: bool,
        pacer: Arc<Mutex<Pacer>>,
    ) -> ArmRunner {
        ArmRunner {
            index,
            name: name.to_owned(),
            deployment,
            secrets: Secrets::of(&target),
            target,
            dialect,
            is_baseline,
            lanes: Vec::new(),
            pacer,
            lost: None,
            service_ns: None,
            answered: false,
            refusals: 0,
            down: None,
            cold_by: None,
            talks: Talks::default(),
            swept_out: None,
        }
    }

    /// Asks the units of one slot as its load says, and waits until each has its outcome or the slot's time is over.
    pub async fn run_slot(&mut self, shared: &Shared, slot: &SlotRef, units: Vec<Unit>) {
        let asked = units;
        let mut units: Vec<Unit> = asked.iter().filter(|u| !shared.done.contains(&u.id)).cloned().collect();
        if units.is_empty() || shared.stop.reason().is_some() {
            return;
        }
        if slot.phase == Phase::Measured && shared.ended_slots.contains(&slot.slot) {
            return;
        }
        if let Some(why) = self.swept_out.clone().filter(|_| slot.step.is_some()) {
            self.emit_end(shared, slot, SlotEnd::Skipped(why)).await;
            return;
        }
        if self.down.is_none() {
            self.prepare_lanes(shared, slot).await;
        }
        if let Some((_, why)) = self.down.clone() {
            if slot.time_us.is_some() {
                // A round says it; a timed slot plans more than anybody wants to read.
                units.truncate(slot.round);
            }
            self.record_unsent(shared, &units).await;
            if slot.time_us.is_some() {
                self.emit_end(shared, slot, SlotEnd::Skipped(why)).await;
            }
            return;
        }
        let lead = if slot.shape.is_open() { OPEN_LEAD_NS } else { 0 };
        let started = shared.clock.now().plus_ns(lead);
        let SlotRef { slot: number, block, stage, phase, .. } = *slot;
        let (arm, at_us) = (self.name.clone(), started.as_us());
        shared.sink.emit(Event::SlotStarted { slot: number, block, stage, arm, at_us, phase }).await;
        let (talks, waiting) = Talks::new(&shared.plan, &asked, &units, &shared.answers);
        self.talks = talks;
        let watching = shared.gauge.start(&shared.pool);
        let turn = self.work_off(shared, slot, started, units, waiting).await;
        let reading = watching.finish().await;
        self.record_unsent(shared, &turn.refused).await;
        self.swept_out = slot.step.and_then(|value| turn.ends_sweep(shared, value));
        // A slot that was over before the first look shows nothing.
        if let Some(Reading { figures, .. }) = reading.filter(|r| phase == Phase::Measured && r.figures.n > 0) {
            let (arm, at_us) = (self.name.clone(), shared.clock.now().as_us());
            shared.sink.emit(Event::Instrument { slot: number, arm, at_us, figures }).await;
        }
        self.emit_end(shared, slot, turn.end).await;
    }

    /// Fills the server's cache with the slot's prompts. What such a request takes says nothing of the slot's own.
    pub async fn prime(&mut self, shared: &Shared, slot: &SlotRef, units: Vec<Unit>) {
        if self.down.is_none() && self.swept_out.is_none() {
            let service_ns = self.service_ns;
            self.run_slot(shared, &slot.priming(), units).await;
            self.service_ns = service_ns;
        }
    }

    async fn emit_end(&mut self, shared: &Shared, slot: &SlotRef, end: SlotEnd) {
        let (arm, at_us) = (self.name.clone(), shared.clock.now().as_us());
        let SlotRef { slot: number, block, phase, .. } = *slot;
        shared.sink.emit(Event::SlotEnded { slot: number, block, arm, at_us, phase, end }).await;
    }

    /// Checks and reopens the lanes in the drained gap before the slot. An open load opens as many as it plans to use;
    /// the others open when they are needed, since idle connections take a server's threads.
    async fn prepare_lanes(&mut self, shared: &Shared, slot: &SlotRef) {
        let limit = self.deployment.limits.in_flight.unwrap_or(u32::MAX);
        let wanted = slot.shape.in_flight_max().min(limit).max(1) as usize;
        self.lanes.truncate(wanted);
        while self.lanes.len() < wanted {
            self.lanes.push(shared.transport.lane(&self.target));
        }
        let open = (slot.shape.planned_in_flight() as usize).min(wanted);
        // Lanes at the end of the list are taken first by an open load.
        let to_open = self.lanes.split_off(wanted - open);
        let (lanes, failure) = open_all(to_open, &shared.pool).await;
        self.lanes.extend(lanes);
        let Some(error) = failure else { return };
        if let TransportError::Local { .. } = error {
            // This host ran short: nothing that follows would be the deployment's doing.
            shared.stop.request(EndReason::Aborted(format!("this host cannot open the connections it needs: {error}")));
            return;
        }
        if self.answered || self.lanes.iter().any(|lane| lane.is_open()) {
            // It is there: its requests show what is wrong with it now, and are recorded as such.
            return;
        }
        let message = format!("no connection to {}: {error}", self.target.url);
        self.refuse(shared, Outcome::Unreachable, &message, true);
    }

    pub(super) fn pacer(&self) -> MutexGuard<'_, Pacer> {
        self.pacer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the key comes from: only what the dialect cannot know.
    pub(super) fn key_hint(&self) -> String {
        self.deployment.api_key_env.as_ref().map(|name| format!(" (it comes from ${name})")).unwrap_or_default()
    }
}
