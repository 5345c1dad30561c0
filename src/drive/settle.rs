//! What follows an attempt: its reading, its row, what it cost, and whether it is asked again.

use rust_decimal::Decimal;

use super::arm::ArmRunner;
use super::attempt::{self, Context};
use super::event::{Attempt, EndReason, Event};
use super::exchange::{Came, Done};
use super::health::LOST_PAUSE;
use super::prepare::messages_of;
use super::retry;
use super::shared::Shared;
use super::slot::SlotWork;
use super::talks::Next;
use crate::deploy::{Exchanged, Outcome};
use crate::plan::{Phase, Unit};
use crate::spec::money;
use crate::units::Mono;

/// Fewer characters for a token than English has, so that the reserve is on the safe side.
const RESERVED_CHARS_PER_TOKEN: u64 = 3;

/// A unit that has its outcome.
#[derive(Clone, Copy)]
pub struct Settled {
    pub outcome: Outcome,
    /// Later turns of its conversation that got the same outcome with it, unsent.
    pub lost: u64,
}

impl ArmRunner {
    /// Reads a result, records it, and decides whether it is asked again; then there is no outcome yet.
    pub(super) async fn settle(&mut self, shared: &Shared, work: &mut SlotWork, done: Done) -> Option<Settled> {
        let Done { position, attempt, intended, lane, came, .. } = done;
        let tried = Tried { position, attempt, intended, lane };
        match came {
            Came::Exchanged(exchanged) => self.settle_exchange(shared, work, &tried, &exchanged).await,
            Came::Dropped { at } => self.settle_dropped(shared, work, &tried, at).await,
        }
    }

    async fn settle_exchange(
        &mut self,
        shared: &Shared,
        work: &mut SlotWork,
        tried: &Tried,
        exchanged: &Exchanged,
    ) -> Option<Settled> {
        let (unit, prepared) = work.unit(tried.position)?;
        let (unit, prepared) = (&unit.clone(), prepared);
        let reply = self.judge(self.dialect.read(exchanged).redacted(&self.secrets), exchanged);
        let (outcome, retry_after_s, quota) = (reply.outcome, reply.retry_after_s, reply.quota_exhausted);
        let pause = match unit.phase {
            Phase::Warmup => None,
            Phase::Measured => retry::pause(&shared.live.retry, outcome, tried.attempt, unit.id, retry_after_s),
        };
        let now = shared.clock.now();
        let waiting = self.is_lost(now, exchanged).then_some(LOST_PAUSE);
        let wanted = waiting.or(pause);
        let pause = wanted.filter(|_| shared.stop.reason().is_none() && !quota);
        // What ends the run is no outcome of the unit, nor is a retry that the run's end prevents: a resumed run asks
        // it again.
        let ends_run = quota || self.ends_run(outcome) || wanted.is_some() && pause.is_none();
        let last = pause.is_none() && !ends_run;
        let context = Context {
            sent_prompt_hash: prepared.sent_prompt_hash,
            truncated_chars: prepared.truncated_chars,
            ..self.context(shared, unit, tried, last)
        };
        let attempt = attempt::of_exchange(&context, exchanged, reply);
        let reserve = self.reserve(shared, unit);
        self.account(shared, now, &attempt, reserve);
        match pause {
            Some(pause) => work.again(tried.position, now.plus(pause)),
            None => work.settled(tried.position),
        }
        shared.gauge.saw(&attempt);
        let message = attempt.error.clone().unwrap_or_default();
        // What has no outcome yet leaves its conversation waiting.
        let next = if last { self.talks.ended(&shared.plan, unit, outcome, &attempt.text) } else { Next::Nothing };
        let answered_at = exchanged.marks.eof.unwrap_or(now);
        shared.sink.emit(Event::Attempt(Box::new(attempt))).await;
        let lost = self.go_on(shared, work, next, answered_at).await;
        if quota {
            let reason = format!("`{}` has no quota left: {message}", self.name);
            shared.stop.request(EndReason::Aborted(reason));
        }
        self.watch_health(shared, outcome, &message);
        self.watch_loss(shared, now, &message);
        pause.is_none().then_some(Settled { outcome, lost })
    }

    /// A request that was due while too many were in flight: counted, never sent.
    async fn settle_dropped(
        &mut self,
        shared: &Shared,
        work: &mut SlotWork,
        tried: &Tried,
        at: Mono,
    ) -> Option<Settled> {
        let unit = &work.unit(tried.position)?.0.clone();
        let context = self.context(shared, unit, tried, true);
        let error = "dropped: as many requests as the load allows were in flight when it was due".to_owned();
        let attempt = attempt::unsent(&context, at, Outcome::Dropped, error);
        shared.budget.settle(self.reserve(shared, unit), Decimal::ZERO);
        work.settled(tried.position);
        shared.sink.emit(Event::Attempt(Box::new(attempt))).await;
        let next = self.talks.ended(&shared.plan, unit, Outcome::Dropped, "");
        let lost = self.go_on(shared, work, next, at).await;
        Some(Settled { outcome: Outcome::Dropped, lost })
    }

    /// Lets the next turn of a conversation follow, or gives those that cannot be asked any more the outcome of the turn
    /// that left them nothing to follow on. Returns how many these are.
    pub(super) async fn go_on(&mut self, shared: &Shared, work: &mut SlotWork, next: Next, answered_at: Mono) -> u64 {
        let (positions, outcome, turn) = match next {
            Next::Nothing => return 0,
            Next::Turn { position, think } => {
                work.follows(position, answered_at.plus(think.0));
                return 0;
            }
            Next::Lost { positions, outcome, turn } => (positions, outcome, turn),
        };
        let units = work.lost(&positions);
        for unit in &units {
            let tried = Tried { position: 0, attempt: 1, intended: None, lane: 0 };
            let context = self.context(shared, unit, &tried, true);
            let error = format!("not sent: turn {} of its conversation has no answer to follow on", turn + 1);
            let attempt = attempt::unsent(&context, shared.clock.now(), outcome, error);
            shared.sink.emit(Event::Attempt(Box::new(attempt))).await;
        }
        units.len() as u64
    }

    fn context<'a>(&'a self, shared: &'a Shared, unit: &'a Unit, tried: &Tried, last: bool) -> Context<'a> {
        Context {
            unit,
            arm: &self.name,
            task: shared.task_of(unit),
            session: shared.session,
            lane: tried.lane,
            attempt: tried.attempt,
            intended: tried.intended,
            last,
            sent_prompt_hash: None,
            truncated_chars: 0,
        }
    }

    /// What a request may cost at most: held back from the budget while it is in flight. Prompt tokens are estimated.
    pub(super) fn reserve(&self, shared: &Shared, unit: &Unit) -> Decimal {
        let Some(price) = &self.deployment.price else { return Decimal::ZERO };
        let said = self.talks.said(&shared.plan, unit);
        let messages = said.iter().chain(messages_of(shared, unit));
        let characters: u64 = messages.map(|m| m.content.chars().count() as u64).sum();
        let input = characters.div_ceil(RESERVED_CHARS_PER_TOKEN);
        let output = u64::from(self.max_tokens(shared, unit));
        money::spend(price, Some(input), Some(0), Some(output)).unwrap_or_default()
    }

    /// Settles what the attempt cost. Where nobody can say, its reserve counts as spent.
    fn account(&mut self, shared: &Shared, now: Mono, attempt: &Attempt, reserve: Decimal) {
        let usage = attempt.usage;
        let tokens = usage.prompt_tokens.unwrap_or(0).saturating_add(usage.completion_tokens.unwrap_or(0));
        self.pacer().spent(now, tokens);
        let spent = shared.spend_of(&self.deployment, attempt).unwrap_or(reserve);
        shared.budget.settle(reserve, spent);
    }

    /// Gives each unit the outcome that the arm's refusal implies, without sending it.
    pub(super) async fn record_unsent(&mut self, shared: &Shared, units: &[Unit]) {
        let Some((outcome, message)) = &self.down else {
            return;
        };
        for unit in units {
            let tried = Tried { position: 0, attempt: 1, intended: None, lane: 0 };
            let context = self.context(shared, unit, &tried, true);
            let error = format!("not sent, for the arm answers nothing: {message}");
            let attempt = attempt::unsent(&context, shared.clock.now(), *outcome, error);
            shared.sink.emit(Event::Attempt(Box::new(attempt))).await;
        }
    }
}

/// An attempt as the exchange tells it.
struct Tried {
    position: usize,
    attempt: u32,
    intended: Option<Mono>,
    lane: u32,
}
