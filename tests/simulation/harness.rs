//! A run in memory: suite text in, events out.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use counterpoise::analyze::money::attempt_spend;
use counterpoise::deploy::simulated::{AnswerBook, Engine, Entry, MemoryTransport, Profile, prompt_text};
use counterpoise::deploy::{self, ColdBy, Target};
use counterpoise::drive::{
    Answers, ArmRunner, Attempt, BudgetState, EndReason, Event, EventSink, Gauge, Message, Pace, Pacer, Shared, Stop,
    Used, drive,
};
use counterpoise::plan::{self, Phase, Plan};
use counterpoise::spec::{self, LoadOptions, Loaded, SuiteSource};
use counterpoise::units::Id;
use counterpoise::world::{Clock, FixedWorld, World};
use rust_decimal::Decimal;
use serde_json::Value;

/// A suite of `samples` inline rows with two deployments, `base` and `fast`. `more` is appended.
pub fn suite(samples: usize, concurrency: u32, more: &str) -> String {
    let mut text = format!(
        "suite: sim\n\
         deployments:\n  base: {{api: simulated, host: a}}\n  fast: {{api: simulated, host: b, optimization: release}}\n\
         load: {{mode: closed, concurrency: {concurrency}, warmup_requests: 4}}\n{more}\
         tasks:\n  - name: facts\n    prompt: \"{{{{ question }}}}\"\n    graders: [{{exact: {{}}}}]\n    dataset:\n      cases:\n"
    );
    if !more.contains("noise_floor") {
        text.insert_str(0, "noise_floor: true\n");
    }
    for index in 0..samples {
        let _ =
            writeln!(text, "        - {{question: \"What is number {index}?\", answer: \"the number {index} it is\"}}");
    }
    text
}

pub fn profile(fields: Value) -> Profile {
    Profile::from_value(fields).unwrap()
}

pub struct Sim {
    loaded: Loaded,
    engines: Vec<(String, Profile)>,
    interrupt_after: Option<usize>,
    done: HashSet<Id>,
    answers: Answers,
    cold_by: Option<ColdBy>,
    /// Servers of a run before this one, under its clock.
    earlier: Option<(MemoryTransport, Clock)>,
    price: fn(&spec::Deployment, &Attempt) -> Option<Decimal>,
}

/// What a run left behind.
pub struct Run {
    pub plan: Arc<Plan>,
    pub events: Vec<Event>,
    pub reason: EndReason,
    pub transport: MemoryTransport,
    clock: Clock,
}

impl Run {
    /// Measured units with a final attempt.
    pub fn done(&self) -> HashSet<Id> {
        let last = self.events.iter().filter_map(|event| match event {
            Event::Attempt(a) if a.last && a.phase == Phase::Measured => Some(a.unit),
            _ => None,
        });
        last.collect()
    }

    /// How measured units ended, and what was answered.
    pub fn answers(&self) -> Answers {
        let last = self.events.iter().filter_map(|event| match event {
            Event::Attempt(a) if a.last && a.phase == Phase::Measured => Some((a.unit, (a.outcome, a.text.clone()))),
            _ => None,
        });
        last.collect()
    }

    pub fn lines(&self) -> Vec<String> {
        self.events.iter().map(|event| serde_json::to_string(event).unwrap()).collect()
    }
}

impl Sim {
    pub fn new(suite: &str) -> Sim {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("suite.yaml");
        std::fs::write(&path, suite).unwrap();
        let loaded = spec::load(SuiteSource::Path(path), &FixedWorld::new(&[]), &LoadOptions::default())
            .unwrap_or_else(|diagnostics| panic!("{}", diagnostics.full(false)));
        Sim {
            loaded,
            engines: Vec::new(),
            interrupt_after: None,
            done: HashSet::new(),
            answers: Answers::new(),
            cold_by: None,
            earlier: None,
            price: |_, _| None,
        }
    }

    /// The suite's sweep instead of its load.
    pub fn sweep(suite: &str) -> Sim {
        let mut sim = Sim::new(suite);
        for suite in [&mut sim.loaded.suite, &mut sim.loaded.live] {
            suite.load = suite.sweep.as_ref().unwrap().as_load(&suite.load);
        }
        sim
    }

    pub fn with(mut self, deployment: &str, profile: Profile) -> Sim {
        self.engines.push((deployment.to_owned(), profile));
        self
    }

    /// Interrupts the run after so many attempts.
    pub fn interrupted_after(mut self, attempts: usize) -> Sim {
        self.interrupt_after = Some(attempts);
        self
    }

    /// Spends money by the deployments' prices.
    pub fn priced(mut self) -> Sim {
        self.price = |deployment, attempt| attempt_spend(deployment.price.as_ref()?, attempt);
        self
    }

    pub fn resumed(mut self, done: HashSet<Id>) -> Sim {
        self.done = done;
        self
    }

    /// Goes on with what was answered in the session before.
    pub fn answered(mut self, answers: Answers) -> Sim {
        self.answers = answers;
        self
    }

    /// How every arm's cache is kept out of play.
    pub fn cold_by(mut self, by: Option<ColdBy>) -> Sim {
        self.cold_by = by;
        self
    }

    /// A run of its own against the servers of an earlier one.
    pub fn after(mut self, run: &Run) -> Sim {
        self.earlier = Some((run.transport.clone(), run.clock));
        self
    }

    pub async fn run(self) -> Run {
        let clock = self.earlier.as_ref().map_or_else(|| FixedWorld::new(&[]).clock(), |(_, clock)| *clock);
        let created_ms = clock.now().as_us() / 1_000;
        let plan = Arc::new(plan::build(&self.loaded.suite, &self.loaded.live, created_ms).unwrap());
        let book = Arc::new(book(&plan));
        let mut transport = self.earlier.map_or_else(|| MemoryTransport::new(clock), |(transport, _)| transport);
        for (name, profile) in &self.engines {
            transport = transport.with(name, Engine::new(profile.clone(), Arc::clone(&book), 7));
        }
        let (sink, messages) = EventSink::new();
        let stop = Stop::default();
        let session = if self.done.is_empty() { 1 } else { 2 };
        let shared = Arc::new(Shared {
            plan: Arc::clone(&plan),
            live: Arc::new(self.loaded.live.clone()),
            transport: Arc::new(transport.clone()),
            clock,
            pool: tokio::runtime::Handle::current(),
            sink,
            stop: stop.clone(),
            gauge: Gauge::off(),
            session,
            done: self.done,
            answers: self.answers,
            ended_slots: HashSet::new(),
            pace: Pace::Task,
            budget: BudgetState::new(self.loaded.live.budget.clone(), Used::default()),
            price: self.price,
        });
        let consumer = tokio::spawn(collect(messages, stop, self.interrupt_after));
        let mut arms = arms(&shared);
        for arm in &mut arms {
            arm.cold_by = self.cold_by;
        }
        let reason = drive(Arc::clone(&shared), arms).await;
        drop(shared);
        Run { plan, events: consumer.await.unwrap(), reason, transport, clock }
    }
}

async fn collect(
    mut messages: tokio::sync::mpsc::Receiver<Message>,
    stop: Stop,
    interrupt_after: Option<usize>,
) -> Vec<Event> {
    let mut events = Vec::new();
    let mut attempts = 0;
    while let Some(message) = messages.recv().await {
        match message {
            Message::Event(event) => {
                attempts += usize::from(matches!(*event, Event::Attempt(_)));
                events.push(*event);
                if interrupt_after == Some(attempts) {
                    stop.request(EndReason::Interrupted);
                }
            }
            Message::Barrier(answer) => {
                let _ = answer.send(());
            }
        }
    }
    events
}

fn arms(shared: &Shared) -> Vec<ArmRunner> {
    let mut pacers: HashMap<String, Arc<Mutex<Pacer>>> = HashMap::new();
    let arm = |(index, arm): (usize, &plan::Arm)| {
        let deployment = shared.live.deployment(&arm.deployment).unwrap().clone();
        let dialect = deploy::dialect(deployment.api).unwrap();
        let target = Arc::new(Target {
            name: deployment.name.clone(),
            api: deployment.api,
            url: "http://memory/v1".to_owned(),
            model: Some("simulated".to_owned()),
            api_key: None,
            headers: deployment.headers.clone(),
            query: deployment.query.clone(),
            body: deployment.body.clone(),
            ca_file: None,
            timeouts: deployment.timeouts,
        });
        let pacer =
            pacers.entry(arm.deployment.clone()).or_insert_with(|| Arc::new(Mutex::new(Pacer::new(deployment.limits))));
        ArmRunner::new(index, &arm.name, deployment, target, dialect, arm.deployment == "base", Arc::clone(pacer))
    };
    shared.plan.arms.iter().enumerate().map(arm).collect()
}

fn book(plan: &Plan) -> AnswerBook {
    let entry = |sample: &plan::Sample| {
        let prompt = prompt_text(sample.messages.iter().map(|m| m.content.as_str()));
        Some(Entry::new(prompt, sample.row["answer"].clone()))
    };
    AnswerBook::from_rows(&plan.samples, entry)
}
