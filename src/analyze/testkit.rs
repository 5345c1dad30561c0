//! Synthetic runs for tests: a suite made of values, the real plan of it, and a journal in which every request is
//! answered as the test says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rust_decimal::Decimal;
use serde_json::{Map, Value, json};

use super::summarize::{AnalyzeInput, Reopen};
use super::summary::{ComparisonSummary, GateResult, Summary};
use super::{AnalyzeError, analyze};
use crate::deploy::{Grading, Outcome, Provenance, Usage};
use crate::drive::{Attempt, EndReason, Event, SlotEnd, Timeline};
use crate::grade::{GraderRecord, Score, ScoreRecord, Unscored, Verdict};
use crate::plan::{self, Phase, Plan, Unit};
use crate::spec::{
    Api, ArmsMode, Budget, CacheMode, Comparison, Dataset, Deployment, Field, Gate, GateKind, GraderKind, GraderSpec,
    Limits, Load, LoadShape, MessageTemplate, Optimization, Price, Retry, Role, Row, Sampling, Scope, Start, Suite,
    Task, Timeouts,
};
use crate::units::Span;

/// How one request is answered.
#[derive(Clone)]
pub struct Answer {
    pub outcome: Outcome,
    pub pass: Option<bool>,
    /// A graded value other than 0 or 1.
    pub value: Option<f64>,
    pub text: String,
    pub ttft_us: u64,
    pub gap_us: u64,
    pub tokens: u64,
    /// Whether the server tells the usage.
    pub usage: bool,
    pub prompt_tokens: u64,
    pub cached: Option<u64>,
    /// Failed attempts (rate limited) before the deciding one.
    pub retries: u32,
}

/// Right, after 50 ms, ten tokens 10 ms apart.
pub fn right() -> Answer {
    Answer {
        outcome: Outcome::Completed,
        pass: Some(true),
        value: None,
        text: "right".to_owned(),
        ttft_us: 50_000,
        gap_us: 10_000,
        tokens: 10,
        usage: true,
        prompt_tokens: 20,
        cached: Some(0),
        retries: 0,
    }
}

pub fn wrong() -> Answer {
    Answer { pass: Some(false), text: "wrong".to_owned(), ..right() }
}

pub fn passing(pass: bool) -> Answer {
    if pass { right() } else { wrong() }
}

pub fn failed(outcome: Outcome) -> Answer {
    Answer { outcome, pass: None, text: String::new(), tokens: 0, usage: false, cached: None, ..right() }
}

pub fn deployment(name: &str, optimization: Optimization) -> Deployment {
    Deployment {
        name: name.to_owned(),
        api: Api::OpenaiChat,
        url: Some(format!("http://{name}.test/v1")),
        model: Some("m".to_owned()),
        api_key_env: None,
        optimization,
        host: None,
        headers: BTreeMap::new(),
        query: BTreeMap::new(),
        tls_ca_file: None,
        ready_timeout: Span::from_ms(1000),
        body: Map::new(),
        sampling: sampling(),
        metrics_url: None,
        price: None,
        context: None,
        timeouts: Timeouts {
            connect: Span::from_ms(5000),
            first_token: Span::from_ms(5000),
            between_tokens: Span::from_ms(5000),
            total: Span::from_ms(5000),
        },
        limits: Limits::default(),
        profile: None,
        hardware: None,
        model_shape: None,
    }
}

fn sampling() -> Sampling {
    Sampling { temperature: Some(0.0), top_p: None, top_k: None, max_tokens: 256, seed: 7, stop: Vec::new() }
}

pub fn task(name: &str, category: Option<&str>, rows: usize) -> Task {
    let case = |i: usize| -> Row {
        let row =
            json!({"id": format!("{name}-{i}"), "question": format!("{name} {i}?"), "passage": format!("p{}", i / 5)});
        row.as_object().cloned().unwrap()
    };
    Task {
        name: name.to_owned(),
        category: category.map(str::to_owned),
        dataset: Dataset::Cases((0..rows).map(case).collect()),
        messages: vec![MessageTemplate { role: Role::User, content: "{{ question }}".to_owned() }],
        cluster_by: None,
        graders: vec![GraderSpec {
            name: "exact".to_owned(),
            weight: 1.0,
            threshold: None,
            extract: None,
            kind: GraderKind::Exact { answer: Field(json!("right")) },
        }],
        examples: Vec::new(),
        weight: 1.0,
        grade_truncated: false,
        latency: true,
        response_format: None,
        stop: Vec::new(),
    }
}

/// A baseline `base` and a candidate `cand` on `samples` samples of the task `facts` in the category `qa`; one lane per
/// arm, no warm-up, no twin, no gates.
pub fn suite(samples: usize) -> Suite {
    Suite {
        name: "kit".to_owned(),
        root: PathBuf::from("/"),
        deployments: vec![deployment("base", Optimization::None), deployment("cand", Optimization::WeightQuantized)],
        comparisons: vec![Comparison { baseline: "base".to_owned(), candidate: "cand".to_owned() }],
        sampling: sampling(),
        repeats: 1,
        arms: ArmsMode::Alternate,
        cache: CacheMode::Cold,
        noise_floor: false,
        retry: Retry { max_attempts: 3, on: Vec::new(), base: Span::from_ms(1), cap: Span::from_ms(1) },
        budget: Budget::default(),
        sweep: None,
        capacity: None,
        load: Load::Closed { concurrency: 1, warmup_requests: 0, start: Start::Burst },
        workload: None,
        slo: Vec::new(),
        tasks: vec![task("facts", Some("qa"), samples)],
        gates: Vec::new(),
    }
}

pub fn gate(kind: GateKind) -> Gate {
    Gate { kind, scope: Scope::default(), advisory: false }
}

pub fn quality(margin: f64) -> Gate {
    gate(GateKind::Quality { metric: "accuracy".to_owned(), margin, confidence: 0.95, at_least: None, each: None })
}

pub fn price(input: &str, output: &str) -> Price {
    Price {
        input_usd_per_mtok: Some(input.parse().unwrap()),
        cached_input_usd_per_mtok: None,
        cache_write_usd_per_mtok: None,
        output_usd_per_mtok: Some(output.parse().unwrap()),
        usd_per_request: None,
        gpu_usd_per_hour: None,
        gpus: Decimal::ONE,
    }
}

/// A recorded run.
#[derive(Clone)]
pub struct Kit {
    pub plan: Plan,
    pub events: Vec<Event>,
    pub scores: Vec<ScoreRecord>,
    now_us: u64,
}

impl Kit {
    /// Plays a whole run: every unit is answered by `answer(arm, sample, repeat)`.
    pub fn play(suite: &Suite, answer: impl Fn(&str, u32, u32) -> Answer) -> Kit {
        Kit::play_units(suite, |arm, unit| answer(arm, unit.sample, unit.repeat))
    }

    /// Plays a whole run by unit. A slot has one lane, or as many as its stage says where the load has several stages;
    /// units of an open load are sent when they are due. A timed slot ends by the clock.
    pub fn play_units(suite: &Suite, answer: impl Fn(&str, &Unit) -> Answer) -> Kit {
        let plan = plan::build(suite, suite, 1_000).unwrap();
        let environment = BTreeMap::from([("os".to_owned(), json!("linux"))]);
        let session = Event::Session { session: 1, anchor_wall_ms: 5_000, resumed: false, environment };
        let mut kit = Kit { plan, events: vec![session], scores: Vec::new(), now_us: 1_000 };
        for arm in 0..kit.plan.arms.len() {
            let name = kit.plan.arms[arm].name.clone();
            kit.events.push(Event::Ready { arm: name, at_us: 1_000, fingerprint: json!({"build": "b1"}) });
            for unit in kit.plan.warmup_units(arm) {
                kit.ask(&unit, &Answer { ttft_us: 9_000_000, ..wrong() });
            }
        }
        for slot in kit.plan.slots() {
            kit.play_slot(slot, &answer);
        }
        let at_us = kit.now_us;
        kit.events.push(Event::Ended { at_us, complete: true, reason: EndReason::Done });
        kit
    }

    fn play_slot(&mut self, slot: plan::Slot, answer: &impl Fn(&str, &Unit) -> Answer) {
        let arm = self.plan.arms[slot.arm].name.clone();
        let block = self.plan.blocks[slot.block as usize].clone();
        let (started, phase) = (self.now_us, Phase::Measured);
        let stages = self.plan.suite.load.stages();
        let lanes = match stages[usize::from(block.stage)].shape {
            LoadShape::Closed { concurrency, .. } if stages.len() > 1 => concurrency as usize,
            _ => 1,
        };
        let mut free = vec![started; lanes];
        self.events.push(Event::SlotStarted {
            slot: slot.index,
            block: slot.block,
            stage: block.stage,
            arm: arm.clone(),
            at_us: started,
            phase,
        });
        let (mut end, mut last) = (SlotEnd::Planned, started);
        for unit in self.plan.units_of(slot) {
            let lane = (0..lanes).min_by_key(|lane| free[*lane]).unwrap();
            self.now_us = unit.intended_us.map_or(free[lane], |us| started + us);
            if block.time_us.is_some_and(|us| unit.intended_us.is_none() && self.now_us >= started + us) {
                end = SlotEnd::TimeUp;
                break;
            }
            self.ask(&unit, &answer(&arm, &unit));
            if let (Some(us), Some(Event::Attempt(attempt))) = (unit.intended_us, self.events.last_mut()) {
                attempt.timeline.intended_us = Some(started + us);
                if attempt.outcome == Outcome::Dropped {
                    attempt.timeline.sent_us = None;
                }
            }
            free[lane] = self.now_us;
            last = last.max(self.now_us);
        }
        self.now_us = last;
        self.events.push(Event::SlotEnded { slot: slot.index, block: slot.block, arm, at_us: last, phase, end });
    }

    /// How a slot of an arm's stage ended, to be changed.
    pub fn end_of(&mut self, arm: &str, stage: u16) -> &mut SlotEnd {
        let blocks = self.plan.blocks.clone();
        let found = self.events.iter_mut().find_map(|event| match event {
            Event::SlotEnded { arm: of, block, end, .. } if of == arm && blocks[*block as usize].stage == stage => {
                Some(end)
            }
            _ => None,
        });
        found.unwrap()
    }

    /// Records one request with its attempts and its score.
    pub fn ask(&mut self, unit: &Unit, answer: &Answer) {
        let tries = answer.retries + 1;
        for number in 1..tries {
            let retried = Answer { outcome: Outcome::RateLimited, ..failed(Outcome::RateLimited) };
            let mut attempt = self.attempt(unit, &retried, number);
            attempt.last = false;
            self.events.push(Event::Attempt(Box::new(attempt)));
        }
        let attempt = self.attempt(unit, answer, tries);
        if unit.phase == Phase::Measured {
            self.scores.push(score(&attempt, answer));
        }
        self.events.push(Event::Attempt(Box::new(attempt)));
    }

    fn attempt(&mut self, unit: &Unit, answer: &Answer, number: u32) -> Attempt {
        let sent = self.now_us;
        let events = answer.tokens;
        let gaps: Vec<u64> = (0..events).map(|i| if i == 0 { answer.ttft_us } else { answer.gap_us }).collect();
        let first = (events > 0).then(|| sent + answer.ttft_us);
        let last = (events > 0).then(|| sent + gaps.iter().sum::<u64>());
        let end = last.unwrap_or(sent + answer.ttft_us) + 1_000;
        self.now_us = end;
        let sample = self.plan.samples.get(unit.sample as usize);
        let usage = Usage {
            prompt_tokens: answer.usage.then_some(answer.prompt_tokens),
            completion_tokens: answer.usage.then_some(events),
            cached_tokens: answer.cached.filter(|_| answer.usage),
            cache_write_tokens: None,
            reasoning_tokens: None,
        };
        Attempt {
            unit: unit.id,
            pair: unit.pair,
            arm: self.plan.arms[unit.arm].name.clone(),
            task: if unit.phase == Phase::Warmup { String::new() } else { sample.map(|s| s.task.clone()).unwrap() },
            sample: unit.sample,
            repeat: unit.repeat,
            phase: unit.phase,
            session: 1,
            stage: unit.stage,
            block: unit.block,
            slot: unit.slot,
            lane: 0,
            attempt: number,
            last: true,
            outcome: answer.outcome,
            error: answer.outcome.is_error().then(|| "it said no".to_owned()),
            status: Some(200),
            timeline: Timeline {
                dispatched_us: sent,
                sent_us: Some(sent),
                first_token_us: first,
                first_answer_us: first,
                last_token_us: last,
                eof_us: (!answer.outcome.is_error()).then_some(end),
                ..Timeline::default()
            },
            arrival_gaps_us: gaps,
            arrival_bytes: vec![4; events as usize],
            arrival_tokens: Vec::new(),
            text: answer.text.clone(),
            reasoning: String::new(),
            finish_reason: Some("stop".to_owned()),
            usage,
            output_tokens: usage
                .completion_tokens
                .map(|n| (n, Provenance::Server))
                .or((events > 0).then_some((events, Provenance::Events))),
            reasoning_streamed: false,
            server_timings: None,
            system_fingerprint: None,
            served_model: None,
            sent_prompt_hash: None,
            truncated_chars: 0,
            stream: true,
            lane_reopened: false,
        }
    }

    /// Every attempt of the journal, to be changed.
    pub fn attempts(&mut self) -> impl Iterator<Item = &mut Attempt> {
        self.events.iter_mut().filter_map(|event| match event {
            Event::Attempt(attempt) => Some(attempt.as_mut()),
            _ => None,
        })
    }

    pub fn analyze(&self) -> Result<Summary, AnalyzeError> {
        let events = || -> Result<Box<dyn Iterator<Item = Result<Event, String>>>, String> {
            Ok(Box::new(self.events.clone().into_iter().map(Ok)))
        };
        let scores = || -> Result<Box<dyn Iterator<Item = Result<ScoreRecord, String>>>, String> {
            Ok(Box::new(self.scores.clone().into_iter().map(Ok)))
        };
        let (journal, scores): (Reopen<'_, Event>, Reopen<'_, ScoreRecord>) = (&events, &scores);
        analyze(&AnalyzeInput { plan: &self.plan, journal, scores })
    }

    /// The summary; whatever the run, no number of it is NaN or infinite.
    pub fn summary(&self) -> Summary {
        let summary = self.analyze().unwrap();
        let value = serde_json::to_value(&summary).unwrap();
        assert_eq!(serde_json::from_value::<Summary>(value.clone()).unwrap(), summary, "a null stands for a number");
        assert!(!value.to_string().contains("NaN"));
        summary
    }
}

/// Plays a run and analyzes it.
pub fn summary(suite: &Suite, answer: impl Fn(&str, u32, u32) -> Answer) -> Summary {
    Kit::play(suite, answer).summary()
}

pub fn first_gate(summary: &Summary) -> &GateResult {
    summary.gates.first().unwrap()
}

pub fn comparison(summary: &Summary) -> &ComparisonSummary {
    summary.comparisons.first().unwrap()
}

pub fn codes(summary: &Summary) -> Vec<&str> {
    summary.validity.iter().map(|f| f.code.as_str()).collect()
}

fn score(attempt: &Attempt, answer: &Answer) -> ScoreRecord {
    let unscored = attempt.outcome.grading() == Grading::Unscored || answer.pass.is_none();
    let pass = answer.pass.filter(|_| !unscored);
    let value = pass.map(|pass| answer.value.unwrap_or(f64::from(u8::from(pass))));
    let why =
        if attempt.outcome.is_error() { Unscored::Outcome(attempt.outcome.name().to_owned()) } else { Unscored::Judge };
    let verdict = match (pass, value) {
        (Some(pass), Some(value)) => Verdict::Scored(Score {
            pass,
            value,
            answer: Some(answer.text.clone()),
            explanation: Some(if pass { "equal" } else { "another answer" }.to_owned()),
            measures: BTreeMap::from([("raw".to_owned(), value)]),
        }),
        _ => Verdict::Unscored { why: why.clone(), detail: None },
    };
    ScoreRecord {
        unit: attempt.unit,
        pair: attempt.pair,
        arm: attempt.arm.clone(),
        task: attempt.task.clone(),
        sample: attempt.sample,
        repeat: attempt.repeat,
        pass,
        value,
        answer: pass.map(|_| answer.text.clone()),
        unscored_why: pass.is_none().then(|| why.name()),
        graders: vec![GraderRecord {
            name: "exact".to_owned(),
            kind: "exact".to_owned(),
            version: 1,
            weight: 1.0,
            verdict,
        }],
    }
}

/// A JSON object from a list of pairs.
pub fn object(pairs: &[(&str, Value)]) -> Map<String, Value> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}
