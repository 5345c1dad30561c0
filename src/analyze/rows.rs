//! From plan, journal and scores to one compact row for each measured request. The journal is streamed; a row keeps the
//! figures and drops texts and arrivals (but for the gaps between tokens).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rust_decimal::Decimal;
use serde_json::Value;

use super::AnalyzeError;
use super::figures::{self, ServerTimings};
use super::graded::Graded;
use super::instrument::{self, Watched};
use super::money::{SpendSum, attempt_spend};
use super::summary::ColdStart;
use super::windows::{Window, Windows};
use crate::deploy::{ColdBy, Outcome, Provenance};
use crate::drive::{Attempt, EndReason, Event, Finding, SlotEnd};
use crate::grade::ScoreRecord;
use crate::plan::{Phase, Plan};
use crate::spec::Price;
use crate::spec::money::has_request_price;
use crate::units::Id;

/// One measured request with its outcome. Instants are in its session's microseconds.
#[derive(Clone, Debug)]
pub struct Row {
    pub unit: Id,
    pub pair: Id,
    /// Index into the plan's arms.
    pub arm: usize,
    pub task: Arc<str>,
    pub category: Option<Arc<str>>,
    /// Index into the plan's samples.
    pub sample: u32,
    pub repeat: u32,
    pub cluster: Option<Arc<str>>,
    pub phase: Phase,
    pub session: u32,
    /// Index into the load's stages.
    pub stage: u16,
    pub block: u32,
    pub slot: u32,
    pub lane: u32,
    /// How the deciding attempt ended.
    pub outcome: Outcome,
    pub error: Option<Box<str>>,
    pub status: Option<u16>,
    pub finish_reason: Option<Arc<str>>,
    /// Attempts of all sessions up to the deciding one.
    pub attempts: u32,
    pub graded: Graded,
    /// Whether the request carries latencies at all: not where its task says so, nor in a stage's warm-up.
    pub timed: bool,
    /// Absent where the request carries no latency, as all times below.
    pub ttft_ms: Option<f64>,
    pub ttfa_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    pub e2e_ms: Option<f64>,
    pub last_token_ms: Option<f64>,
    pub response_ms: Option<f64>,
    pub dispatch_lag_ms: Option<f64>,
    /// Open load: TTFT from the intended instant.
    pub ttft_response_ms: Option<f64>,
    /// Gaps between events.
    pub icl_us: Option<Vec<u32>>,
    pub token_gaps: TokenGaps,
    /// Streamed tokens less events, where the server counts the tokens and does not tell them by event.
    pub tokens_beyond_events: Option<u64>,
    pub connect_ms: Option<f64>,
    pub start_us: Option<u64>,
    pub end_us: u64,
    pub input_tokens: Option<u64>,
    pub cached_tokens: Option<u64>,
    pub reasoning_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub output_provenance: Option<Provenance>,
    /// USD of all its attempts; absent where any is unknown or requests have no price.
    pub spend: Option<Decimal>,
    /// Hash of the answer's text.
    pub text_hash: Id,
    pub text_chars: u64,
    /// Hash of the prompt that was sent, where it is another than the sample's.
    pub sent_prompt_hash: Option<Id>,
    pub truncated_chars: u64,
    pub server: ServerTimings,
    pub served_model: Option<Arc<str>>,
    pub system_fingerprint: Option<Arc<str>>,
    pub lane_reopened: bool,
    /// Whether all tokens came together; absent where too few came to tell.
    pub batched: Option<bool>,
}

/// What is known of the gaps between an answer's tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenGaps {
    Unknown,
    /// They are those between events.
    Events,
    /// Shares of the gaps between events that carry several tokens, in microseconds.
    Shares(Vec<u32>),
}

impl Row {
    /// Gaps between tokens in microseconds.
    pub fn itl_us(&self) -> Option<&[u32]> {
        match &self.token_gaps {
            TokenGaps::Unknown => None,
            TokenGaps::Events => self.icl_us.as_deref(),
            TokenGaps::Shares(gaps) => Some(gaps),
        }
    }

    /// Answered to the end, so that its latency stands.
    pub fn is_answered(&self) -> bool {
        self.outcome.is_answered()
    }
}

/// What an arm did beside its measured requests.
#[derive(Clone, Debug, Default)]
pub struct ArmExtras {
    pub warmup_requests: u64,
    pub warmup_spend: SpendSum,
    /// When the first warm-up request of the first session was sent, and what it took.
    pub cold_start: Option<(u64, ColdStart)>,
    /// Attempts of requests that never got an outcome (the run stopped between two attempts).
    pub unfinished_spend: SpendSum,
}

/// One process's part of the run.
#[derive(Clone, Debug, Default)]
pub struct SessionPart {
    pub anchor_wall_ms: u64,
    pub environment: BTreeMap<String, Value>,
    /// Its last instant.
    pub last_us: u64,
    pub end: Option<(bool, EndReason)>,
}

/// All that analysis needs of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// In the journal's order.
    pub rows: Vec<Row>,
    /// By the plan's arms.
    pub extras: Vec<ArmExtras>,
    pub windows: Vec<Window>,
    /// How each measured slot ended, by its number.
    pub slot_ends: BTreeMap<u32, SlotEnd>,
    pub sessions: Vec<SessionPart>,
    /// Readiness fingerprints by arm; the last one of each stands.
    pub ready: BTreeMap<String, Value>,
    /// How each arm's prompt cache was kept out of play; the last session's means stand.
    pub cold_by: BTreeMap<String, ColdBy>,
    pub findings: Vec<Finding>,
    /// What the instrument saw of itself.
    pub watched: Watched,
}

impl Run {
    pub fn rows_of(&self, arm: usize) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.arm == arm)
    }
}

/// Reads a run. Of a request that is recorded twice the first deciding attempt stands; money spent on others counts.
pub fn collect(
    plan: &Plan,
    journal: impl Iterator<Item = Result<Event, String>>,
    scores: impl Iterator<Item = Result<ScoreRecord, String>>,
) -> Result<Run, AnalyzeError> {
    let mut by_unit = HashMap::new();
    for record in scores {
        let record = record.map_err(AnalyzeError::Scores)?;
        by_unit.entry(record.unit).or_insert(record);
    }
    let mut collector = Collector::new(plan, by_unit);
    for event in journal {
        collector.event(event.map_err(AnalyzeError::Journal)?)?;
    }
    Ok(collector.finish())
}

/// Attempts of a request that has no outcome yet.
#[derive(Default)]
struct Pending {
    arm: usize,
    attempts: u32,
    spend: SpendSum,
}

struct Collector<'a> {
    plan: &'a Plan,
    arms: HashMap<&'a str, usize>,
    prices: Vec<Option<&'a Price>>,
    scores: HashMap<Id, ScoreRecord>,
    names: HashMap<String, Arc<str>>,
    pending: HashMap<Id, Pending>,
    settled: HashMap<Id, usize>,
    windows: Windows,
    /// Warm-up time of each stage, in microseconds.
    warmups_us: Vec<u64>,
    /// When requests of a running slot begin to count.
    counts_from_us: HashMap<u32, u64>,
    run: Run,
}

impl<'a> Collector<'a> {
    fn new(plan: &'a Plan, scores: HashMap<Id, ScoreRecord>) -> Self {
        let price = |name: &str| plan.suite.deployment(name).and_then(|d| d.price.as_ref());
        Self {
            plan,
            arms: plan.arms.iter().enumerate().map(|(index, arm)| (arm.name.as_str(), index)).collect(),
            prices: plan.arms.iter().map(|arm| price(&arm.deployment).filter(|p| has_request_price(p))).collect(),
            scores,
            names: HashMap::new(),
            pending: HashMap::new(),
            settled: HashMap::new(),
            windows: Windows::default(),
            warmups_us: plan.suite.load.stages().iter().map(crate::spec::Stage::warmup_us).collect(),
            counts_from_us: HashMap::new(),
            run: Run {
                rows: Vec::new(),
                extras: vec![ArmExtras::default(); plan.arms.len()],
                windows: Vec::new(),
                slot_ends: BTreeMap::new(),
                sessions: Vec::new(),
                ready: BTreeMap::new(),
                cold_by: BTreeMap::new(),
                findings: Vec::new(),
                watched: Watched::default(),
            },
        }
    }

    fn event(&mut self, event: Event) -> Result<(), AnalyzeError> {
        match event {
            Event::Session { anchor_wall_ms, environment, .. } => {
                self.windows.end_session();
                self.counts_from_us.clear();
                self.run.sessions.push(SessionPart { anchor_wall_ms, environment, ..SessionPart::default() });
            }
            Event::Ready { arm, at_us, fingerprint } => {
                self.seen(at_us);
                self.run.ready.insert(arm, fingerprint);
            }
            Event::SlotStarted { slot, block, stage, arm, at_us, phase } => {
                self.seen(at_us);
                let arm = self.arm(&arm)?;
                if phase == Phase::Measured {
                    let warmup_us = self.warmups_us.get(usize::from(stage)).copied().unwrap_or(0);
                    let from_us = at_us.saturating_add(warmup_us);
                    self.counts_from_us.insert(slot, from_us);
                    self.windows.start(slot, block, stage, arm, from_us);
                }
            }
            Event::Cache { arm, by, .. } => {
                self.run.cold_by.insert(arm, by);
            }
            Event::Attempt(attempt) => self.attempt(&attempt)?,
            Event::SlotEnded { slot, at_us, phase, end, .. } => {
                self.seen(at_us);
                if phase == Phase::Measured {
                    self.windows.end(slot, at_us);
                    self.run.slot_ends.insert(slot, end);
                }
            }
            Event::BlockEnded { at_us, .. } => self.seen(at_us),
            Event::Instrument { arm, at_us, figures, .. } => {
                self.seen(at_us);
                let arm = self.arm(&arm)?;
                self.run.watched.slot(arm, figures);
            }
            Event::Calibration { at_us, figures } => {
                self.seen(at_us);
                self.run.watched.calibration = Some(figures);
            }
            Event::Finding(finding) => {
                if !self.run.findings.contains(&finding) {
                    self.run.findings.push(finding);
                }
            }
            Event::Ended { at_us, complete, reason } => {
                self.seen(at_us);
                if let Some(session) = self.run.sessions.last_mut() {
                    session.end = Some((complete, reason));
                }
            }
        }
        Ok(())
    }

    fn seen(&mut self, at_us: u64) {
        if let Some(session) = self.run.sessions.last_mut() {
            session.last_us = session.last_us.max(at_us);
        }
    }

    fn arm(&self, name: &str) -> Result<usize, AnalyzeError> {
        self.arms.get(name).copied().ok_or_else(|| AnalyzeError::UnknownArm { arm: name.to_owned() })
    }

    fn attempt(&mut self, attempt: &Attempt) -> Result<(), AnalyzeError> {
        let arm = self.arm(&attempt.arm)?;
        self.seen(figures::end_us(attempt));
        let price = self.prices.get(arm).copied().flatten();
        let spend = price.map(|price| attempt_spend(price, attempt));
        if attempt.phase == Phase::Warmup {
            if let Some(extras) = self.run.extras.get_mut(arm) {
                extras.warmup_requests += 1;
                if self.run.sessions.len() <= 1 {
                    earliest(&mut extras.cold_start, attempt);
                }
                if let Some(spend) = spend {
                    extras.warmup_spend.add(spend);
                }
            }
            return Ok(());
        }
        self.windows.attempt(attempt);
        if let Some(&index) = self.settled.get(&attempt.unit) {
            if let (Some(row), Some(spend)) = (self.run.rows.get_mut(index), spend) {
                row.spend = row.spend.zip(spend).and_then(|(a, b)| a.checked_add(b));
            }
            return Ok(());
        }
        let pending = self.pending.entry(attempt.unit).or_default();
        pending.arm = arm;
        pending.attempts += 1;
        if let Some(spend) = spend {
            pending.spend.add(spend);
        }
        if attempt.last {
            let pending = self.pending.remove(&attempt.unit).unwrap_or_default();
            let row = self.row(arm, attempt, pending.attempts, price.and_then(|_| pending.spend.total()));
            self.settled.insert(attempt.unit, self.run.rows.len());
            self.run.rows.push(row);
        }
        Ok(())
    }

    fn row(&mut self, arm: usize, attempt: &Attempt, attempts: u32, spend: Option<Decimal>) -> Row {
        let task = self.plan.suite.task(&attempt.task);
        let score = self.scores.remove(&attempt.unit);
        let graded = Graded::of(attempt.outcome, score.as_ref(), task, &mut |name| shared(&mut self.names, name));
        let cluster = self.plan.samples.get(attempt.sample as usize).and_then(|s| s.cluster.as_deref());
        let names = &mut self.names;
        let mut name = |text: &str| shared(names, text);
        let counts_from_us = self.counts_from_us.get(&attempt.slot).copied().unwrap_or(0);
        let begun_us = attempt.timeline.intended_us.unwrap_or(attempt.timeline.dispatched_us);
        let timed = task.is_none_or(|t| t.latency) && begun_us >= counts_from_us;
        let figure = |of: fn(&Attempt) -> Option<f64>| if timed { of(attempt) } else { None };
        let (icl_us, token_gaps) = gaps(attempt, timed);
        Row {
            unit: attempt.unit,
            pair: attempt.pair,
            arm,
            task: name(&attempt.task),
            category: task.and_then(|t| t.category.as_deref()).map(&mut name),
            sample: attempt.sample,
            repeat: attempt.repeat,
            cluster: cluster.map(&mut name),
            phase: attempt.phase,
            session: attempt.session,
            stage: attempt.stage,
            block: attempt.block,
            slot: attempt.slot,
            lane: attempt.lane,
            outcome: attempt.outcome,
            error: attempt.error.as_deref().map(Box::from),
            status: attempt.status,
            timed,
            finish_reason: attempt.finish_reason.as_deref().map(&mut name),
            attempts,
            graded,
            ttft_ms: figure(figures::ttft_ms),
            ttfa_ms: figure(figures::ttfa_ms),
            tpot_ms: figure(figures::tpot_ms),
            e2e_ms: figure(figures::e2e_ms),
            last_token_ms: figure(figures::last_token_ms),
            response_ms: figure(figures::response_ms),
            dispatch_lag_ms: figure(figures::dispatch_lag_ms),
            ttft_response_ms: figure(figures::ttft_response_ms),
            token_gaps,
            icl_us,
            tokens_beyond_events: figures::tokens_beyond_events(attempt),
            connect_ms: figure(figures::connect_ms),
            start_us: attempt.timeline.sent_us,
            end_us: figures::end_us(attempt),
            input_tokens: attempt.usage.prompt_tokens,
            cached_tokens: attempt.usage.cached_tokens,
            reasoning_tokens: attempt.usage.reasoning_tokens,
            output_tokens: attempt.output_tokens.map(|(tokens, _)| tokens),
            output_provenance: attempt.output_tokens.map(|(_, provenance)| provenance),
            spend,
            text_hash: Id::of("answer", &[attempt.text.as_bytes()]),
            text_chars: attempt.text.chars().count() as u64,
            sent_prompt_hash: attempt.sent_prompt_hash,
            truncated_chars: attempt.truncated_chars,
            server: figures::server_timings(attempt),
            served_model: attempt.served_model.as_deref().map(&mut name),
            system_fingerprint: attempt.system_fingerprint.as_deref().map(&mut name),
            lane_reopened: attempt.lane_reopened,
            batched: instrument::batched(attempt),
        }
    }

    fn finish(mut self) -> Run {
        self.windows.end_session();
        self.run.windows = self.windows.closed;
        for pending in self.pending.into_values() {
            if let Some(extras) = self.run.extras.get_mut(pending.arm) {
                extras.unfinished_spend.merge(pending.spend);
            }
        }
        self.run
    }
}

/// Keeps the request that was sent first; what failed says nothing of a cold start.
fn earliest(kept: &mut Option<(u64, ColdStart)>, attempt: &Attempt) {
    let Some(sent_us) = attempt.timeline.sent_us else { return };
    if kept.as_ref().is_some_and(|(first_us, _)| *first_us <= sent_us) {
        return;
    }
    let told = |of: fn(&Attempt) -> Option<f64>| of(attempt).filter(|_| attempt.outcome.is_answered());
    *kept = Some((sent_us, ColdStart { ttft_ms: told(figures::ttft_ms), e2e_ms: told(figures::e2e_ms) }));
}

/// Gaps between events, and what is known of those between tokens.
fn gaps(attempt: &Attempt, timed: bool) -> (Option<Vec<u32>>, TokenGaps) {
    let counts = timed && attempt.outcome.is_answered();
    let of = |figure: fn(&Attempt) -> Option<Vec<u32>>| figure(attempt).filter(|_| counts);
    let (icl_us, itl_us) = (of(figures::icl_us), of(figures::itl_us));
    let token_gaps = match itl_us {
        None => TokenGaps::Unknown,
        same if same == icl_us => TokenGaps::Events,
        Some(shares) => TokenGaps::Shares(shares),
    };
    (icl_us, token_gaps)
}

/// One allocation for each distinct text.
fn shared(names: &mut HashMap<String, Arc<str>>, text: &str) -> Arc<str> {
    if let Some(name) = names.get(text) {
        return Arc::clone(name);
    }
    let name: Arc<str> = Arc::from(text);
    names.insert(text.to_owned(), Arc::clone(&name));
    name
}
