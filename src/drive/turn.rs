//! One arm's turn: the loop of a slot. It offers what may be sent, settles what came back, and knows when to end.

use std::sync::Arc;
use std::time::Duration;

use rust_decimal::Decimal;

use super::arm::{ArmRunner, SlotRef};
use super::backlog::{Backlog, LOOK_EVERY_NS};
use super::event::{EndReason, SlotEnd};
use super::exchange::{Came, Done, SlotExchange};
use super::lane::{Crew, CrewContext};
use super::pacer::Refused;
use super::shared::{Pace, Shared};
use super::slot::SlotWork;
use super::talks::Waiting;
use crate::deploy::{EndOfBody, Exchanged, Outcome};
use crate::plan::Unit;
use crate::spec::{LoadShape, Start};
use crate::units::{Mono, nanos};

/// Between two looks at a budget that requests in flight may use up.
const HELD_BACK_PAUSE: Duration = Duration::from_millis(20);

/// Requests of an open load are made ready this long before they are due.
const LOOKAHEAD_NS: u64 = 500_000_000;
/// As many wait for their instant at the most.
const SCHEDULED_MAX: usize = 8_192;

/// What a turn came to.
pub struct TurnEnd {
    pub end: SlotEnd,
    /// Units that the arm refuses to answer.
    pub refused: Vec<Unit>,
    attempted: u64,
    errors: u64,
}

impl TurnEnd {
    /// Why no further step of a sweep is asked of this arm.
    pub fn ends_sweep(&self, shared: &Shared, step: f64) -> Option<String> {
        if let SlotEnd::Saturated(why) = &self.end {
            return Some(format!("the step {step} ended early: {why}"));
        }
        let limit = shared.live.sweep.as_ref()?.stop_error_rate;
        let rate = self.errors as f64 / self.attempted.max(1) as f64;
        (rate > limit).then(|| {
            let (rate, limit) = (rate * 100.0, limit * 100.0);
            format!("{rate:.1} % of the requests of step {step} failed, more than {limit:.1} %")
        })
    }
}

/// A turn while it runs.
struct Turn {
    exchange: Arc<SlotExchange>,
    work: SlotWork,
    open: bool,
    /// Jobs that may be offered and not settled.
    offers_max: usize,
    ends_at: Option<Mono>,
    answers_least: u64,
    answered: u64,
    attempted: u64,
    errors: u64,
    backlog: Option<Backlog>,
    next_look: Option<Mono>,
    /// Set once nothing new is asked; what has begun still gets its outcome.
    end: Option<SlotEnd>,
}

impl ArmRunner {
    /// The slot's loop.
    pub(super) async fn work_off(
        &mut self,
        shared: &Shared,
        slot: &SlotRef,
        started: Mono,
        units: Vec<Unit>,
        waiting: Waiting,
    ) -> TurnEnd {
        let lanes = self.lanes.len();
        let (exchange, mut results) = SlotExchange::new(if slot.shape.is_open() { lanes } else { usize::MAX });
        let mut turn = Turn::new(slot, started, exchange, SlotWork::new(units, started, &waiting.held), lanes);
        for lost in waiting.lost {
            let unasked = self.go_on(shared, &mut turn.work, lost, started).await;
            turn.count_lost(unasked);
        }
        release(shared, &turn);
        let mut crew = self.start_crew(shared, slot, &turn.exchange);
        let mut service = Vec::new();
        while turn.work.open() > 0 && self.down.is_none() {
            let next_offer = self.offer(shared, &mut turn);
            tokio::select! {
                biased;
                () = shared.stop.cancelled() => break,
                done = results.recv() => {
                    let Some(done) = done else { break };
                    let took = service_ns(&done.came);
                    service.extend(took);
                    if crew.has_waiting() {
                        crew.start_rest(shared.clock.now(), service.first().copied().unwrap_or(0));
                    }
                    self.settle_in(shared, &mut turn, done, took).await;
                }
                () = sleep_until(shared, next_offer) => {}
                () = sleep_until(shared, turn.next_tick(shared.clock.now())) => {}
                () = sleep_until(shared, shared.budget.ends_at()), if shared.stop.reason().is_none() => {
                    shared.stop.request(EndReason::Budget(shared.budget.time_is_over()));
                }
                () = crew.watch() => break,
                // A spent budget: nothing more is offered; what is in flight ends first.
                () = shared.stop.requested(), if turn.work.in_flight() == 0 => break,
            }
            if let Some(end) = turn.must_end(shared.clock.now()) {
                self.let_go(shared, &mut turn, end);
            }
        }
        let crew = crew.dismiss().await;
        self.lanes = crew.lanes;
        while let Ok(done) = results.try_recv() {
            self.settle_in(shared, &mut turn, done, None).await;
        }
        if crew.lost_a_task {
            let why = "a lane's task was lost; this is a defect of the harness".to_owned();
            shared.stop.request(EndReason::Aborted(why));
        }
        self.close(shared, turn, service)
    }

    /// Counts up what the turn came to, and gives back what it had reserved.
    fn close(&mut self, shared: &Shared, turn: Turn, mut service: Vec<u64>) -> TurnEnd {
        // Jobs that were offered and never came back: never sent, or given up with the run.
        for unit in turn.work.unsettled_offers() {
            shared.budget.settle(self.reserve(shared, unit), Decimal::ZERO);
        }
        service.sort_unstable();
        self.service_ns = service.get(service.len() / 2).copied().or(self.service_ns);
        let stopped = shared.stop.reason().is_some();
        let Turn { end, work, attempted, errors, .. } = turn;
        let end = if stopped && work.open() > 0 { SlotEnd::Stopped } else { end.unwrap_or_default() };
        let refused = if self.down.is_some() && !stopped { work.into_unsettled() } else { Vec::new() };
        TurnEnd { end, refused, attempted, errors }
    }

    fn start_crew(&mut self, shared: &Shared, slot: &SlotRef, exchange: &Arc<SlotExchange>) -> Crew {
        let context = CrewContext {
            exchange: Arc::clone(exchange),
            dialect: self.dialect,
            clock: shared.clock,
            stop: shared.stop.clone(),
            pool: shared.pool.clone(),
        };
        let mut crew = Crew::new(context, std::mem::take(&mut self.lanes));
        let now = shared.clock.now();
        match (&slot.shape, self.service_ns) {
            (LoadShape::Open { .. } | LoadShape::Closed { start: Start::Burst, ramp: None, .. }, _) => {
                crew.start_rest(now, 0);
            }
            (LoadShape::Closed { ramp: Some(ramp), .. }, _) => {
                crew.start_rest(now, nanos(ramp.0));
            }
            (LoadShape::Closed { .. }, Some(service_ns)) => crew.start_rest(now, service_ns),
            // The service time is not known yet: lane 1's first answer, started alone, tells it.
            (LoadShape::Closed { .. }, None) => crew.start_one(),
        }
        crew
    }

    /// Offers what may be sent now, a few jobs ahead of the lanes so that none waits for the next; returns when the
    /// next one may be. Jobs of an open load are offered before they are due, and handed on at their instants.
    fn offer(&mut self, shared: &Shared, turn: &mut Turn) -> Option<Mono> {
        loop {
            let now = shared.clock.now();
            if turn.work.in_flight() >= turn.offers_max {
                return None;
            }
            let (due, unit) = turn.work.next(now)?;
            let at = due.max(self.pacer().next_at(now));
            let ahead = if turn.open { LOOKAHEAD_NS } else { 0 };
            if at > now.plus_ns(ahead) {
                return Some(Mono(at.0 - ahead));
            }
            if shared.stop.reason().is_some() {
                return None;
            }
            let reserve = self.reserve(shared, unit);
            match shared.budget.take_request(now, reserve) {
                Ok(()) => {}
                Err(Refused::HeldBack) => return Some(now.plus(HELD_BACK_PAUSE)),
                Err(Refused::Spent(reason)) => {
                    shared.stop.request(EndReason::Budget(reason));
                    return None;
                }
            }
            let job = turn.work.take(now, |unit, attempt| self.prepare(shared, unit, attempt))?;
            if turn.open {
                turn.exchange.schedule(job, at);
            } else {
                turn.exchange.offer(job);
            }
            self.pacer().sent(at.max(now));
        }
    }

    async fn settle_in(&mut self, shared: &Shared, turn: &mut Turn, done: Done, took: Option<u64>) {
        let settled = self.settle(shared, &mut turn.work, done).await;
        let Some(settled) = settled else { return };
        turn.attempted += 1 + settled.lost;
        turn.errors += u64::from(settled.outcome.is_error()) * (1 + settled.lost);
        turn.answered += u64::from(!settled.outcome.is_error());
        // What was dropped has not been served: it stays in the backlog.
        if let Some(backlog) = turn.backlog.as_mut().filter(|_| settled.outcome != Outcome::Dropped) {
            backlog.finished(took);
        }
    }

    /// Nothing new is asked in this slot: takes back what no lane has begun.
    fn let_go(&mut self, shared: &Shared, turn: &mut Turn, end: SlotEnd) {
        turn.end = Some(end);
        turn.ends_at = None;
        turn.next_look = None;
        let withdrawn = turn.exchange.withdraw();
        for unit in turn.work.let_go(&withdrawn) {
            shared.budget.give_back(self.reserve(shared, &unit));
        }
    }
}

impl Turn {
    fn new(slot: &SlotRef, started: Mono, exchange: SlotExchange, work: SlotWork, lanes: usize) -> Turn {
        let open = slot.shape.is_open();
        // Turns that wait for an answer and a thought are no backlog.
        let watched = open && slot.step.is_some() && work.held() == 0;
        Turn {
            exchange: Arc::new(exchange),
            open,
            offers_max: if open { SCHEDULED_MAX + lanes } else { 2 * lanes },
            ends_at: slot.time_us.map(|us| started.plus_ns(us.saturating_mul(1_000))),
            answers_least: slot.answers_least,
            answered: 0,
            attempted: 0,
            errors: 0,
            backlog: watched.then(|| Backlog::new(started, work.arrivals())),
            next_look: watched.then(|| started.plus_ns(LOOK_EVERY_NS)),
            end: None,
            work,
        }
    }

    fn count_lost(&mut self, lost: u64) {
        self.attempted += lost;
        self.errors += lost;
    }

    /// When the loop must look again though nothing has come: the slot's end by the clock, or a look at the backlog.
    fn next_tick(&self, now: Mono) -> Option<Mono> {
        // Past its time a slot waits for answers, and each of them wakes the loop.
        let ends_at = self.ends_at.filter(|at| *at > now);
        [ends_at, self.next_look].into_iter().flatten().min()
    }

    fn must_end(&mut self, now: Mono) -> Option<SlotEnd> {
        if self.ends_at.is_some_and(|at| now >= at) && self.answered >= self.answers_least {
            return Some(SlotEnd::TimeUp);
        }
        if self.next_look.is_some_and(|at| now >= at) {
            self.next_look = Some(now.plus_ns(LOOK_EVERY_NS));
            let seen = self.backlog.as_mut()?.look(now)?;
            return Some(SlotEnd::Saturated(format!(
                "{:.1} requests arrived each second and the backlog grew by {:.1} a second, to {:.0}",
                seen.arrivals_per_s, seen.growth_per_s, seen.backlog
            )));
        }
        None
    }
}

/// Starts whoever hands on the jobs of an open load at their instants; it ends with the slot.
fn release(shared: &Shared, turn: &Turn) {
    if !turn.open {
        return;
    }
    let (exchange, clock) = (Arc::clone(&turn.exchange), shared.clock);
    match shared.pace {
        Pace::Task => {
            shared.pool.spawn(async move { exchange.release_in_task(clock).await });
        }
        Pace::Thread => {
            let thread = std::thread::Builder::new().name("pace".to_owned());
            if let Err(error) = thread.spawn(move || exchange.release_on_thread(clock)) {
                let why = format!("this host cannot start the thread that paces requests: {error}");
                shared.stop.request(EndReason::Aborted(why));
            }
        }
    }
}

async fn sleep_until(shared: &Shared, at: Option<Mono>) {
    match at {
        Some(at) => shared.clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// How long the request was served, where it was answered to the end.
fn service_ns(came: &Came) -> Option<u64> {
    let Came::Exchanged(exchanged) = came else { return None };
    let Exchanged { end, marks, .. } = exchanged.as_ref();
    let complete = matches!(end, EndOfBody::Complete | EndOfBody::DoneMarker);
    marks.eof?.since(marks.sent?).filter(|_| complete)
}
