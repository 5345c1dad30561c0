//! From a resolved suite to a plan.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::arrivals::ArrivalError;
use super::blocks;
use super::types::{Arm, Message, Plan, Sample};
use super::warmup;
use crate::spec::{ArmsMode, Dataset, Row, Suite, Task, dataset, template};
use crate::units::Id;

pub const PLAN_FORMAT: &str = "counterpoise.plan/1";

/// Beyond this a run does not fit the memory that a plan may take.
const MAX_REQUESTS: u64 = 20_000_000;

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("task `{task}`: {reason}")]
    Dataset { task: String, reason: String },
    #[error("task `{task}`, row {row}: {reason}")]
    Prompt { task: String, row: usize, reason: String },
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
    for task in &suite.tasks {
        let live_task = live.task(&task.name).unwrap_or(task);
        add_samples(task, live_task, &mut samples, &mut live_messages)?;
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

impl Plan {
    /// Renders again what is sent, for a plan read back from disk: today's environment may differ from the first day's.
    pub fn refresh_live(&mut self, live: &Suite) -> Result<(), PlanError> {
        self.live_messages.clear();
        for sample in &self.samples {
            let (Some(task), Some(live_task)) = (self.suite.task(&sample.task), live.task(&sample.task)) else {
                continue;
            };
            if live_task.messages != task.messages {
                let messages = render(live_task, &sample.row, sample.index as usize)?;
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

fn add_samples(
    task: &Task,
    live: &Task,
    samples: &mut Vec<Sample>,
    live_messages: &mut BTreeMap<u32, Vec<Message>>,
) -> Result<(), PlanError> {
    let rows =
        dataset::read(task, None).map_err(|e| PlanError::Dataset { task: task.name.clone(), reason: e.to_string() })?;
    let mut seen: BTreeMap<Id, u32> = BTreeMap::new();
    for (number, row) in rows.into_iter().enumerate() {
        let messages = render(task, &row, number)?;
        let index = samples.len() as u32;
        if live.messages != task.messages {
            live_messages.insert(index, render(live, &row, number)?);
        }
        let prompt_hash = prompt_hash(&task.name, &messages);
        let occurrence = seen.entry(prompt_hash).or_insert(0);
        samples.push(Sample {
            index,
            task: task.name.clone(),
            id: row.get("id").map(text_of),
            cluster: task.cluster_by.as_ref().and_then(|column| row.get(column)).map(text_of),
            row,
            messages,
            occurrence: *occurrence,
            prompt_hash,
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

fn prompt_hash(task: &str, messages: &[Message]) -> Id {
    let text = serde_json::to_vec(messages).unwrap_or_default();
    Id::of("prompt", &[task.as_bytes(), &text])
}

/// A value as a short text: strings bare, everything else as JSON.
fn text_of(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
