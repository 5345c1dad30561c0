//! From a resolved suite to a plan.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::arrivals::ArrivalError;
use super::blocks;
use super::types::{Arm, Message, Plan, Sample};
use super::warmup;
use super::workload::{Shaper, mixed_counts, reshaped};
use crate::spec::{ArmsMode, Dataset, Distribution, Row, Stage, Suite, Task, Workload, dataset, template};
use crate::units::Id;

pub const PLAN_FORMAT: &str = "counterpoise.plan/1";

/// Beyond this a run does not fit the memory that a plan may take.
const MAX_REQUESTS: u64 = 20_000_000;
/// The same for the prompts' text.
const MAX_TEXT_BYTES: u64 = 2 << 30;

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("task `{task}`: {reason}")]
    Dataset { task: String, reason: String },
    #[error("task `{task}`, row {row}: {reason}")]
    Prompt { task: String, row: usize, reason: String },
    #[error("workload: {key}: {reason}")]
    Workload { key: String, reason: String },
    #[error(
        "workload: mix: no sample of the task `{task}` fits the proportion; raise its weight, or give the other tasks more \
         samples"
    )]
    Mix { task: String },
    #[error("the prompts have {bytes} bytes, more than {MAX_TEXT_BYTES}; lower `prompt_tokens` or a dataset's `limit`")]
    TooLong { bytes: u64 },
    #[error("`load`: {0}")]
    Arrivals(#[from] ArrivalError),
    #[error("no task of the suite has a row; give at least one task a dataset with rows")]
    Empty,
    #[error(
        "the plan asks {requests} requests, more than {MAX_REQUESTS}; lower `repeats`, a dataset's `limit`, or the load's duration"
    )]
    TooLarge { requests: u64 },
    #[error("`--arm {name}` names no arm of this run; the arms are {known}")]
    UnknownArm { name: String, known: String },
}

/// Builds the plan. `suite` keeps `${env:NAME}` unresolved and is what files hold; `live` is the same suite with the
/// environment filled in, which is what is sent.
pub fn build(suite: &Suite, live: &Suite, created_wall_ms: u64) -> Result<Plan, PlanError> {
    let mut samples = Vec::new();
    let mut live_messages = BTreeMap::new();
    let rows = asked_rows(suite)?;
    for (stage, workload) in workloads(suite, live) {
        let mut shaper = Shaper::new(workload.as_ref(), suite.sampling.seed)?;
        for (task, rows) in suite.tasks.iter().zip(&rows) {
            let live_task = live.task(&task.name).unwrap_or(task);
            let from = samples.len();
            add_samples(task, live_task, rows.clone(), &mut shaper, &mut samples, &mut live_messages)?;
            samples.iter_mut().skip(from).for_each(|sample| sample.stage = stage);
        }
    }
    let bytes: u64 = samples.iter().flat_map(|s| &s.messages).map(|m| m.content.len() as u64).sum();
    if bytes > MAX_TEXT_BYTES {
        return Err(PlanError::TooLong { bytes });
    }
    if samples.is_empty() {
        return Err(PlanError::Empty);
    }
    let arms = arms(suite);
    let items = samples.len() as u64 * u64::from(suite.repeats) * arms.len() as u64;
    if items > MAX_REQUESTS {
        return Err(PlanError::TooLarge { requests: items });
    }
    let blocks = blocks::cut(suite, &samples, arms.len())?;
    let requests = blocks.iter().map(|b| b.requests() * b.order.len() as u64).sum();
    if requests > MAX_REQUESTS {
        return Err(PlanError::TooLarge { requests });
    }
    let warmup = warmup::prompts(suite.load.warmup_requests(), &samples);
    Ok(Plan {
        format: PLAN_FORMAT.to_owned(),
        created_wall_ms,
        harness_version: env!("CARGO_PKG_VERSION").to_owned(),
        suite_hash: suite_hash(suite),
        suite: suite.clone(),
        arms,
        blocks,
        warmup,
        samples,
        live_messages,
    })
}

/// The workload of all stages, or one for each stage of a sweep over lengths, whose prompts are its own.
fn workloads(suite: &Suite, live: &Suite) -> Vec<(Option<u16>, Option<Workload>)> {
    let stages = suite.load.stages();
    let of_step = |(index, stage): (usize, &Stage)| {
        let sweep = live.sweep.as_ref().filter(|sweep| sweep.over.is_length())?;
        Some((Some(index as u16), sweep.workload_of(live.workload.as_ref(), stage.step?)))
    };
    let own: Option<Vec<_>> = stages.iter().enumerate().map(of_step).collect();
    own.unwrap_or_else(|| vec![(None, live.workload.clone())])
}

impl Plan {
    /// Renders again what is sent, for a plan read back from disk: today's environment may differ from the first day's.
    pub fn refresh_live(&mut self, live: &Suite) -> Result<(), PlanError> {
        self.live_messages.clear();
        for sample in &self.samples {
            let (Some(task), Some(live_task)) = (self.suite.task(&sample.task), live.task(&sample.task)) else {
                continue;
            };
            if live_task.messages != task.messages {
                let [plain, live] = [task, live_task].map(|task| render(task, &sample.row, sample.index as usize));
                let messages = reshaped(&sample.messages, sample.conversation, plain?, live?);
                self.live_messages.insert(sample.index, messages);
            }
        }
        Ok(())
    }

    /// Takes graders, prices, SLOs, the demand and gates from another suite, to judge the recorded answers by. What was asked stays.
    pub fn take_judgement(&mut self, other: &Suite) -> Result<(), String> {
        for task in &mut self.suite.tasks {
            let judge = other.task(&task.name).ok_or_else(|| {
                format!(
                    "the suite has no task `{}`, which the run asked; name a suite that grades every task",
                    task.name
                )
            })?;
            task.graders.clone_from(&judge.graders);
            task.category.clone_from(&judge.category);
            task.weight = judge.weight;
            task.grade_truncated = judge.grade_truncated;
        }
        for deployment in &mut self.suite.deployments {
            if let Some(judge) = other.deployment(&deployment.name) {
                deployment.price.clone_from(&judge.price);
            }
        }
        self.suite.slo.clone_from(&other.slo);
        self.suite.capacity.clone_from(&other.capacity);
        self.suite.gates.clone_from(&other.gates);
        Ok(())
    }
}

/// Hash of what the suite says, wherever it lies: paths are taken relative to its root.
fn suite_hash(suite: &Suite) -> Id {
    let mut suite = suite.clone();
    let root = std::mem::take(&mut suite.root);
    let relative = |path: &mut PathBuf| {
        if let Ok(below) = path.strip_prefix(&root) {
            *path = below.to_owned();
        }
    };
    for task in &mut suite.tasks {
        if let Dataset::File { path, .. } = &mut task.dataset {
            relative(path);
        }
    }
    let workload = suite.workload.iter_mut();
    let drawn = workload.flat_map(|w| [&mut w.prompt_tokens, &mut w.output_tokens, &mut w.turns, &mut w.think_time]);
    for distribution in drawn.flatten() {
        if let Distribution::File { path } = distribution {
            relative(path);
        }
    }
    suite.deployments.iter_mut().filter_map(|d| d.tls_ca_file.as_mut()).for_each(relative);
    suite.load.trace_files().into_iter().for_each(relative);
    Id::of("suite", &[&serde_json::to_vec(&suite).unwrap_or_default()])
}

/// One arm for each deployment, and a twin behind each baseline of a comparison where the suite asks for a noise floor.
fn arms(suite: &Suite) -> Vec<Arm> {
    let mut arms = Vec::new();
    for deployment in &suite.deployments {
        arms.push(Arm { name: deployment.name.clone(), deployment: deployment.name.clone(), twin_of: None });
        let is_baseline = suite.comparisons.iter().any(|c| c.baseline == deployment.name);
        if suite.noise_floor && is_baseline && suite.arms != ArmsMode::Together {
            let name = twin_name(suite, &deployment.name);
            arms.push(Arm { name, deployment: deployment.name.clone(), twin_of: Some(deployment.name.clone()) });
        }
    }
    arms
}

fn twin_name(suite: &Suite, baseline: &str) -> String {
    let mut name = format!("{baseline}-twin");
    while suite.deployment(&name).is_some() {
        name.push('\'');
    }
    name
}

/// The rows of each task that are asked: all, or the first ones of each that keep the workload's mix.
fn asked_rows(suite: &Suite) -> Result<Vec<Vec<Row>>, PlanError> {
    let read = |task: &Task| {
        let refused = |e: dataset::DatasetError| PlanError::Dataset { task: task.name.clone(), reason: e.to_string() };
        dataset::read(task, None).map_err(refused)
    };
    let mut rows = suite.tasks.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    if let Some(workload) = suite.workload.as_ref().filter(|w| !w.mix.is_empty()) {
        let names = suite.tasks.iter().map(|t| t.name.as_str());
        let available: Vec<(&str, usize)> = names.zip(&rows).map(|(name, rows)| (name, rows.len())).collect();
        for (rows, count) in rows.iter_mut().zip(mixed_counts(&workload.mix, &available)?) {
            rows.truncate(count);
        }
    }
    Ok(rows)
}

fn add_samples(
    task: &Task,
    live: &Task,
    rows: Vec<Row>,
    shaper: &mut Shaper,
    samples: &mut Vec<Sample>,
    live_messages: &mut BTreeMap<u32, Vec<Message>>,
) -> Result<(), PlanError> {
    let mut streams = shaper.task(&task.name);
    let mut before: Option<Id> = None;
    let mut seen: BTreeMap<Id, u32> = BTreeMap::new();
    for (number, row) in rows.into_iter().enumerate() {
        let mut messages = render(task, &row, number)?;
        let part = shaper.next(&mut streams, &mut messages);
        part.put_before(&mut messages);
        let index = samples.len() as u32;
        if live.messages != task.messages {
            live_messages.insert(index, part.put_before_live(render(live, &row, number)?));
        }
        let turns_before = before.filter(|_| part.conversation.is_some_and(|(_, turn)| turn > 0));
        let prompt_hash = prompt_hash(&task.name, &messages, turns_before);
        before = Some(prompt_hash);
        let occurrence = seen.entry(prompt_hash).or_insert(0);
        samples.push(Sample {
            index,
            task: task.name.clone(),
            id: row.get("id").map(text_of),
            cluster: match &task.cluster_by {
                Some(column) => row.get(column).map(text_of),
                // Turns of one conversation hang on each other.
                None => part.conversation.map(|(number, _)| format!("conversation {number}")),
            },
            row,
            messages,
            stage: None,
            occurrence: *occurrence,
            prompt_hash,
            conversation: part.conversation,
            max_tokens: part.max_tokens,
            think_time: part.think_time,
        });
        *occurrence += 1;
    }
    Ok(())
}

fn render(task: &Task, row: &Row, number: usize) -> Result<Vec<Message>, PlanError> {
    let render_one = |message: &crate::spec::MessageTemplate| {
        let content = template::render_text(&message.content, row).map_err(|e| PlanError::Prompt {
            task: task.name.clone(),
            row: number + 1,
            reason: e.to_string(),
        })?;
        Ok(Message { role: message.role, content })
    };
    task.messages.iter().map(render_one).collect()
}

/// Hash of task and prompt; a later turn's also of the turns before it.
fn prompt_hash(task: &str, messages: &[Message], before: Option<Id>) -> Id {
    let text = serde_json::to_vec(messages).unwrap_or_default();
    match before {
        Some(before) => Id::of("prompt", &[task.as_bytes(), &text, &before.0]),
        None => Id::of("prompt", &[task.as_bytes(), &text]),
    }
}

/// A value as a short text: strings bare, everything else as JSON.
fn text_of(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
