//! What the dispatcher and every arm share in one session.

use std::collections::HashSet;
use std::sync::Arc;

use rust_decimal::Decimal;
use tokio::runtime::Handle;

use super::event::Attempt;
use super::instrument::Gauge;
use super::pacer::BudgetState;
use super::sink::EventSink;
use super::stop::Stop;
use super::talks::Answers;
use crate::deploy::Transport;
use crate::plan::{Phase, Plan, Unit};
use crate::spec::{Deployment, Suite};
use crate::units::Id;
use crate::world::Clock;

/// Who hands on the requests of an open load at their instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// A thread that sleeps until each instant: tokio's timer is a millisecond coarse.
    Thread,
    /// A task: for a clock that is paused.
    Task,
}

/// What all arms share. Read-only but for the budget, the stop and the sink.
pub struct Shared {
    pub plan: Arc<Plan>,
    /// The suite with its environment filled in.
    pub live: Arc<Suite>,
    pub transport: Arc<dyn Transport>,
    pub clock: Clock,
    /// Where lanes run: a runtime that does nothing else, or the same one in simulation.
    pub pool: Handle,
    pub sink: EventSink,
    pub stop: Stop,
    pub gauge: Gauge,
    pub session: u32,
    /// Units that have an outcome from an earlier session.
    pub done: HashSet<Id>,
    /// Of turns of conversations in `done`: how they ended and what was answered.
    pub answers: Answers,
    /// Slots of earlier sessions whose rest is not asked.
    pub ended_slots: HashSet<u32>,
    pub pace: Pace,
    pub budget: BudgetState,
    /// USD of an attempt by the deployment's price; `None` where unknown.
    pub price: fn(&Deployment, &Attempt) -> Option<Decimal>,
}

impl Shared {
    pub fn task_of(&self, unit: &Unit) -> &str {
        match unit.phase {
            Phase::Warmup => "",
            Phase::Measured => self.plan.samples.get(unit.sample as usize).map_or("", |s| s.task.as_str()),
        }
    }

    pub fn spend_of(&self, deployment: &Deployment, attempt: &Attempt) -> Option<Decimal> {
        (self.price)(deployment, attempt)
    }
}
