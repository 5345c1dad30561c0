//! One arm's part: its lanes, its slots, and what it has shown so far.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rust_decimal::Decimal;

use super::attempt::{self, Context};
use super::event::{Attempt, EndReason, Event};
use super::exchange::{Done, SlotExchange};
use super::instrument::Reading;
use super::lane::{Crew, CrewContext, open_all};
use super::pacer::{Pacer, Refused};
use super::retry;
use super::shared::Shared;
use super::slot::{Prepared, SlotWork};
use crate::deploy::{Dialect, EndOfBody, Exchanged, GenRequest, Lane, Outcome, Reply, Secrets, Target, TransportError};
use crate::plan::{Message, Phase, Unit, truncate};
use crate::spec::{Deployment, Load, Start, money};
use crate::units::{Id, Mono};

/// A baseline that answered and cannot be connected to any more, this often and this long, is lost.
const LOST_CONNECTIONS: u32 = 8;
const LOST_AFTER: Duration = Duration::from_secs(10);
/// Between two looks at a baseline that may come back.
const LOST_PAUSE: Duration = Duration::from_secs(1);

/// Fewer characters for a token than English has, so that the reserve is on the safe side.
const RESERVED_CHARS_PER_TOKEN: u64 = 3;

/// Between two looks at a budget that requests in flight may use up.
const HELD_BACK_PAUSE: Duration = Duration::from_millis(20);

/// A candidate that refuses this many requests in a row, and has answered none, is not asked further.
const REFUSALS_MAX: u32 = 8;

pub struct ArmRunner {
    pub index: usize,
    pub name: String,
    pub deployment: Deployment,
    pub target: Arc<Target>,
    secrets: Secrets,
    pub dialect: &'static dyn Dialect,
    /// A fault here means that nothing can be compared.
    pub is_baseline: bool,
    lanes: Vec<Box<dyn Lane>>,
    /// Shared by all arms of the deployment: its limits are the server's, not an arm's.
    pacer: Arc<Mutex<Pacer>>,
    /// Connections that failed in a row after the arm had answered, and since when.
    lost: Option<(u32, Mono)>,
    /// Jobs that may be offered and not settled: two for each lane.
    offers_max: usize,
    /// Median E2E of the arm's last slot or warm-up.
    service_ns: Option<u64>,
    answered: bool,
    refusals: u32,
    /// Known to refuse: the outcome of every further request, and why.
    pub down: Option<(Outcome, String)>,
}

/// Which slot is being run.
#[derive(Clone, Copy)]
pub struct SlotRef {
    pub slot: u32,
    pub block: u32,
    pub phase: Phase,
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
            offers_max: 1,
            service_ns: None,
            answered: false,
            refusals: 0,
            down: None,
        }
    }

    /// Asks the units of one slot, as many at a time as the load says, and waits until each has its outcome.
    pub async fn run_slot(&mut self, shared: &Shared, slot: SlotRef, units: Vec<Unit>) {
        let units: Vec<Unit> = units.into_iter().filter(|u| !shared.done.contains(&u.id)).collect();
        if units.is_empty() || shared.stop.reason().is_some() {
            return;
        }
        if self.down.is_none() {
            self.prepare_lanes(shared).await;
        }
        if self.down.is_some() {
            self.record_unsent(shared, &units).await;
            return;
        }
        let (arm, at_us) = (self.name.clone(), shared.clock.now().as_us());
        let SlotRef { slot: number, block, phase } = slot;
        shared.sink.emit(Event::SlotStarted { slot: number, block, arm: arm.clone(), at_us, phase }).await;
        let watching = shared.gauge.start(&shared.pool);
        let left = self.work_off(shared, units).await;
        let reading = watching.finish().await;
        self.record_unsent(shared, &left).await;
        let at_us = shared.clock.now().as_us();
        // A slot that was over before the first look shows nothing.
        if let Some(Reading { figures, .. }) = reading.filter(|r| phase == Phase::Measured && r.figures.n > 0) {
            shared.sink.emit(Event::Instrument { slot: number, arm: arm.clone(), at_us, figures }).await;
        }
        shared.sink.emit(Event::SlotEnded { slot: number, block, arm, at_us, phase }).await;
    }

    /// Checks and reopens every lane in the drained gap before the slot.
    async fn prepare_lanes(&mut self, shared: &Shared) {
        let wanted = shared.live.load.concurrency().min(self.deployment.limits.in_flight.unwrap_or(u32::MAX)).max(1);
        self.offers_max = 2 * wanted as usize;
        while self.lanes.len() < wanted as usize {
            self.lanes.push(shared.transport.lane(&self.target));
        }
        let (lanes, failure) = open_all(std::mem::take(&mut self.lanes), &shared.pool).await;
        self.lanes = lanes;
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

    /// The slot's loop: offer what may be sent, settle what came back. Returns units that the arm refuses to answer.
    async fn work_off(&mut self, shared: &Shared, units: Vec<Unit>) -> Vec<Unit> {
        let (exchange, mut results) = SlotExchange::new();
        let exchange = Arc::new(exchange);
        let mut work = SlotWork::new(units);
        let mut crew = self.start_crew(shared, &exchange);
        let mut service = Vec::new();
        while work.open() > 0 && self.down.is_none() {
            let next_offer = self.offer(shared, &mut work, &exchange);
            tokio::select! {
                biased;
                () = shared.stop.cancelled() => break,
                done = results.recv() => {
                    let Some(done) = done else { break };
                    service.extend(service_ns(&done.exchanged));
                    if crew.has_waiting() {
                        crew.start_rest(shared.clock.now(), service.first().copied().unwrap_or(0));
                    }
                    self.settle(shared, &mut work, done).await;
                }
                () = sleep_until(shared, next_offer) => {}
                () = sleep_until(shared, shared.budget.ends_at()), if shared.stop.reason().is_none() => {
                    shared.stop.request(EndReason::Budget(shared.budget.time_is_over()));
                }
                () = crew.watch() => break,
                // A spent budget: nothing more is offered; what is in flight ends first.
                () = shared.stop.requested(), if work.in_flight() == 0 => break,
            }
        }
        let crew = crew.dismiss().await;
        self.lanes = crew.lanes;
        while let Ok(done) = results.try_recv() {
            self.settle(shared, &mut work, done).await;
        }
        if crew.lost_a_task {
            shared
                .stop
                .request(EndReason::Aborted("a lane's task was lost; this is a defect of the harness".to_owned()));
        }
        // Jobs that were offered and never came back: never sent, or given up with the run.
        for unit in work.unsettled_offers() {
            shared.budget.settle(self.reserve(shared, unit), Decimal::ZERO);
        }
        service.sort_unstable();
        self.service_ns = service.get(service.len() / 2).copied().or(self.service_ns);
        if self.down.is_some() && shared.stop.reason().is_none() { work.into_unsettled() } else { Vec::new() }
    }

    fn start_crew(&mut self, shared: &Shared, exchange: &Arc<SlotExchange>) -> Crew {
        let context = CrewContext {
            exchange: Arc::clone(exchange),
            dialect: self.dialect,
            clock: shared.clock,
            stop: shared.stop.clone(),
            pool: shared.pool.clone(),
        };
        let mut crew = Crew::new(context, std::mem::take(&mut self.lanes));
        let Load::Closed { start, .. } = shared.live.load;
        match (start, self.service_ns) {
            (Start::Burst, _) => crew.start_rest(shared.clock.now(), 0),
            (Start::Spread, Some(service_ns)) => crew.start_rest(shared.clock.now(), service_ns),
            // The service time is not known yet: lane 1's first answer, started alone, tells it.
            (Start::Spread, None) => crew.start_one(),
        }
        crew
    }

    /// Offers what may be sent now, a few jobs ahead of the lanes so that none waits for the next; returns when the next one may be.
    fn offer(&mut self, shared: &Shared, work: &mut SlotWork, exchange: &SlotExchange) -> Option<Mono> {
        loop {
            let now = shared.clock.now();
            if work.in_flight() >= self.offers_max {
                return None;
            }
            let due = work.next_due()?;
            let at = due.max(self.pacer().next_at(now));
            if at > now {
                return Some(at);
            }
            if shared.stop.reason().is_some() {
                return None;
            }
            let reserve = self.reserve(shared, work.peek()?);
            match shared.budget.take_request(now, reserve) {
                Ok(()) => {}
                Err(Refused::HeldBack) => return Some(now.plus(HELD_BACK_PAUSE)),
                Err(Refused::Spent(reason)) => {
                    shared.stop.request(EndReason::Budget(reason));
                    return None;
                }
            }
            let prepare = |unit: &Unit| prepare(shared, &self.deployment, &self.target, self.dialect, unit);
            exchange.offer(work.take(prepare)?);
            self.pacer().sent(now);
        }
    }

    fn pacer(&self) -> MutexGuard<'_, Pacer> {
        self.pacer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a request may cost at most: held back from the budget while it is in flight. Prompt tokens are estimated.
    fn reserve(&self, shared: &Shared, unit: &Unit) -> Decimal {
        let Some(price) = &self.deployment.price else { return Decimal::ZERO };
        let characters: u64 = messages_of(shared, unit).iter().map(|m| m.content.chars().count() as u64).sum();
        let input = characters.div_ceil(RESERVED_CHARS_PER_TOKEN);
        let output = u64::from(self.deployment.sampling.max_tokens);
        money::spend(price, Some(input), Some(0), Some(output)).unwrap_or_default()
    }

    /// Reads a result, records it, and decides whether it is asked again.
    async fn settle(&mut self, shared: &Shared, work: &mut SlotWork, done: Done) {
        let Some((unit, prepared)) = work.unit(done.position) else {
            return;
        };
        let reply = self.judge(self.dialect.read(&done.exchanged).redacted(&self.secrets), &done.exchanged);
        let (outcome, retry_after_s, quota) = (reply.outcome, reply.retry_after_s, reply.quota_exhausted);
        let pause = match unit.phase {
            Phase::Warmup => None,
            Phase::Measured => retry::pause(&shared.live.retry, outcome, done.attempt, unit.id, retry_after_s),
        };
        let now = shared.clock.now();
        let waiting = self.is_lost(now, &done.exchanged).then_some(LOST_PAUSE);
        let wanted = waiting.or(pause);
        let pause = wanted.filter(|_| shared.stop.reason().is_none() && !quota);
        // What ends the run is no outcome of the unit, nor is a retry that the run's end prevents: a resumed run asks
        // it again.
        let ends_run = quota || self.ends_run(outcome) || wanted.is_some() && pause.is_none();
        let context = Context {
            unit,
            arm: &self.name,
            task: shared.task_of(unit),
            session: shared.session,
            lane: done.lane,
            attempt: done.attempt,
            last: pause.is_none() && !ends_run,
            sent_prompt_hash: prepared.sent_prompt_hash,
            truncated_chars: prepared.truncated_chars,
        };
        let attempt = attempt::of_exchange(&context, &done.exchanged, reply);
        let reserve = self.reserve(shared, unit);
        self.account(shared, now, &attempt, reserve);
        match pause {
            Some(pause) => work.again(done.position, now.plus(pause)),
            None => work.settled(done.position),
        }
        shared.gauge.saw(&attempt);
        let message = attempt.error.clone().unwrap_or_default();
        shared.sink.emit(Event::Attempt(Box::new(attempt))).await;
        if quota {
            let reason = format!("`{}` has no quota left: {message}", self.name);
            shared.stop.request(EndReason::Aborted(reason));
        }
        self.watch_health(shared, outcome, &message);
        self.watch_loss(shared, now, &message);
    }

    /// Whether the baseline, which has answered before, cannot be connected to at the moment.
    fn is_lost(&mut self, now: Mono, exchanged: &Exchanged) -> bool {
        if !never_connected(exchanged) {
            self.lost = None;
            return false;
        }
        if !self.answered || !self.is_baseline {
            return false;
        }
        let (count, since) = self.lost.unwrap_or((0, now));
        self.lost = Some((count + 1, since));
        true
    }

    fn watch_loss(&mut self, shared: &Shared, now: Mono, message: &str) {
        let Some((count, since)) = self.lost else { return };
        let long = now.since(since).is_some_and(|ns| u128::from(ns) >= LOST_AFTER.as_nanos());
        if count >= LOST_CONNECTIONS && long {
            let reason = format!("the baseline `{}` has answered and is gone: {message}", self.name);
            shared.stop.request(EndReason::Aborted(reason));
        }
    }

    /// Outcomes after which nothing can be concluded from this arm, so that the run ends.
    fn ends_run(&self, outcome: Outcome) -> bool {
        outcome == Outcome::Auth || self.is_baseline && matches!(outcome, Outcome::BadRequest | Outcome::Unreachable)
    }

    /// A connection that never stood is no answer of this deployment at all.
    fn judge(&self, mut reply: Reply, exchanged: &Exchanged) -> Reply {
        if never_connected(exchanged) {
            reply.outcome = if self.answered { Outcome::Transport } else { Outcome::Unreachable };
        }
        reply
    }

    /// Settles what the attempt cost. Where nobody can say, its reserve counts as spent.
    fn account(&mut self, shared: &Shared, now: Mono, attempt: &Attempt, reserve: Decimal) {
        let usage = attempt.usage;
        let tokens = usage.prompt_tokens.unwrap_or(0).saturating_add(usage.completion_tokens.unwrap_or(0));
        self.pacer().spent(now, tokens);
        let spent = shared.spend_of(&self.deployment, attempt).unwrap_or(reserve);
        shared.budget.settle(reserve, spent);
    }

    fn watch_health(&mut self, shared: &Shared, outcome: Outcome, message: &str) {
        match outcome {
            Outcome::Auth => {
                let reason = format!("`{}` refuses the credentials: {message}{}", self.name, self.key_hint());
                shared.stop.request(EndReason::Aborted(reason));
            }
            Outcome::BadRequest | Outcome::Unreachable if !self.answered => {
                self.refusals += 1;
                let enough = self.refusals >= REFUSALS_MAX;
                self.refuse(shared, outcome, message, enough);
            }
            Outcome::BadRequest if self.is_baseline => self.refuse(shared, outcome, message, false),
            _ if !outcome.is_error() => {
                self.answered = true;
                self.refusals = 0;
            }
            _ => {}
        }
    }

    /// A refusing baseline ends the run: nothing can be compared. A candidate is given up once that is sure.
    fn refuse(&mut self, shared: &Shared, outcome: Outcome, message: &str, sure: bool) {
        if self.is_baseline {
            let what = if outcome == Outcome::Unreachable { "cannot be reached" } else { "refuses the request" };
            let reason = format!("the baseline `{}` {what}: {message}", self.name);
            shared.stop.request(EndReason::Aborted(reason));
        } else if sure {
            self.down = Some((outcome, message.to_owned()));
        }
    }

    /// Only what the dialect cannot know: the variable's name.
    fn key_hint(&self) -> String {
        self.deployment.api_key_env.as_ref().map(|name| format!(" (it comes from ${name})")).unwrap_or_default()
    }

    /// Gives each unit the outcome that the arm's refusal implies, without sending it.
    async fn record_unsent(&mut self, shared: &Shared, units: &[Unit]) {
        let Some((outcome, message)) = &self.down else {
            return;
        };
        for unit in units {
            let context = Context {
                unit,
                arm: &self.name,
                task: shared.task_of(unit),
                session: shared.session,
                lane: 0,
                attempt: 1,
                last: true,
                sent_prompt_hash: None,
                truncated_chars: 0,
            };
            let error = format!("not sent, for the arm answers nothing: {message}");
            let attempt = attempt::unsent(&context, shared.clock.now(), *outcome, error);
            shared.sink.emit(Event::Attempt(Box::new(attempt))).await;
        }
    }
}

/// Whether no connection stood at all.
fn never_connected(exchanged: &Exchanged) -> bool {
    matches!(&exchanged.end, EndOfBody::Broken(error) if error.before_connection())
}

/// The unit's messages before truncation, environment filled in.
fn messages_of<'a>(shared: &'a Shared, unit: &Unit) -> &'a [Message] {
    match unit.phase {
        Phase::Warmup => shared.plan.warmup.get(unit.sample as usize).map(Vec::as_slice).unwrap_or_default(),
        Phase::Measured => shared.plan.live_messages(unit.sample),
    }
}

async fn sleep_until(shared: &Shared, at: Option<Mono>) {
    match at {
        Some(at) => shared.clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// How long the request was served, where it was answered to the end.
fn service_ns(exchanged: &Exchanged) -> Option<u64> {
    let complete = matches!(exchanged.end, EndOfBody::Complete | EndOfBody::DoneMarker);
    exchanged.marks.eof?.since(exchanged.marks.sent?).filter(|_| complete)
}

/// The bytes of a unit: the arm's sampling with the unit's own seed, the prompt cut as the deployment says.
fn prepare(shared: &Shared, deployment: &Deployment, target: &Target, dialect: &dyn Dialect, unit: &Unit) -> Prepared {
    let messages = messages_of(shared, unit);
    let cut = deployment.context.as_ref().and_then(|context| truncate::truncate(messages, context));
    let (messages, truncated_chars) = cut.map_or_else(|| (messages.to_vec(), 0), |(m, n)| (m, n));
    let task = shared.live.task(shared.task_of(unit));
    let mut sampling = deployment.sampling.clone();
    if let Some(task) = task.filter(|t| !t.stop.is_empty()) {
        sampling.stop.clone_from(&task.stop);
    }
    let sent_prompt_hash = (truncated_chars > 0).then(|| {
        let text = serde_json::to_vec(&messages).unwrap_or_default();
        Id::of("sent-prompt", &[&text])
    });
    let request = GenRequest {
        messages,
        sampling,
        seed: unit.seed,
        response_format: task.and_then(|t| t.response_format.clone()),
        stream: true,
    };
    Prepared { request: dialect.request(target, &request), sent_prompt_hash, truncated_chars }
}
