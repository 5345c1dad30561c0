//! `plan`: what a run would send. Sends nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use rust_decimal::Decimal;

use super::args::PlanArgs;
use super::error::CliError;
use super::exit::Exit;
use super::run;
use crate::plan::truncate::{CHARS_PER_TOKEN, truncate};
use crate::plan::{self, Block, Plan};
use crate::spec::{Arrivals, CacheMode, Deployment, LoadShape, Rate, money};
use crate::world::World;

pub fn plan(args: &PlanArgs, world: &Arc<dyn World>) -> Result<Exit, CliError> {
    let purpose = if args.sweep { run::Purpose::Sweep } else { run::Purpose::Run };
    let loaded = run::load(&args.suite, &args.selection, purpose, world.as_ref())?;
    let plan = plan::build(&loaded.suite, &loaded.live, world.wall_ms())?;
    if args.json {
        let text = serde_json::to_string_pretty(&plan).map_err(|e| CliError::Usage(e.to_string()))?;
        super::out(&(text + "\n"));
    } else {
        super::out(&describe(&plan));
    }
    Ok(Exit::Pass)
}

/// What one arm would be sent. Tokens are an estimate: 4 characters each in, `max_tokens` out at the most; a later turn of
/// a conversation sends what came before again.
struct ArmEstimate {
    requests: u64,
    input_tokens: u64,
    output_tokens_max: u64,
    truncated: u64,
    usd_max: Option<Decimal>,
}

fn describe(plan: &Plan) -> String {
    let mut text = format!(
        "suite {} ({}): {} samples, {} repeats, {} blocks, {} requests in all, {} warm-up requests for each arm\n\n",
        plan.suite.name,
        plan.suite_hash.short(),
        plan.samples.len(),
        plan.suite.repeats,
        plan.blocks.len(),
        plan.requests(),
        plan.warmup_requests(),
    );
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["arm", "requests", "input tokens", "output tokens", "cost", "prompts cut"]);
    for arm in &plan.arms {
        let Some(deployment) = plan.suite.deployment(&arm.deployment) else { continue };
        let estimate = estimate(plan, deployment);
        table.add_row([
            arm.name.clone(),
            estimate.requests.to_string(),
            format!("≈ {}", estimate.input_tokens),
            format!("≤ {}", estimate.output_tokens_max),
            estimate.usd_max.map_or_else(|| "no token price".to_owned(), |usd| format!("≤ {} USD", usd.round_dp(4))),
            estimate.truncated.to_string(),
        ]);
    }
    let _ = writeln!(text, "{table}\n\ntasks");
    for (task, count) in by_task(plan) {
        let _ = writeln!(text, "  {task}: {count} samples");
    }
    text.push_str(&shapes(plan));
    text.push_str(&loads(plan));
    text.push_str(&limits(plan));
    text.push_str(&super::power::table(plan));
    text
}

/// One line for each stage.
fn loads(plan: &Plan) -> String {
    let mut text = String::from("\nload, for each arm\n");
    for (index, stage) in plan.suite.load.stages().iter().enumerate() {
        let blocks: Vec<&Block> = plan.blocks.iter().filter(|b| usize::from(b.stage) == index).collect();
        let requests: u64 = blocks.iter().map(|block| block.requests()).sum();
        let most = if blocks.iter().any(|block| block.time_us.is_some()) { "at most " } else { "" };
        let shape = match &stage.shape {
            LoadShape::Closed { concurrency, .. } => format!("closed, {concurrency} in flight"),
            LoadShape::Open { arrivals, max_in_flight } => {
                format!("open, {}, at most {max_in_flight} in flight", process(arrivals))
            }
        };
        let time = stage.duration.map(|duration| format!(", {duration}")).unwrap_or_default();
        let _ = writeln!(text, "  {}: {shape}{time}: {most}{requests} requests in {} slots", index + 1, blocks.len());
    }
    text
}

fn process(arrivals: &Arrivals) -> String {
    let name = match arrivals {
        Arrivals::Constant { .. } => "constant",
        Arrivals::Poisson { .. } => "Poisson",
        Arrivals::Gamma { .. } => "gamma",
        Arrivals::Burst { .. } => "bursts",
        Arrivals::Trace { file } => return format!("trace {}", file.display()),
    };
    let to = |rate: Rate| rate.ramp_to_per_s.map(|to| format!(" rising or falling to {to}/s")).unwrap_or_default();
    arrivals.rate().map_or_else(|| name.to_owned(), |rate| format!("{name} at {}/s{}", rate.per_s, to(rate)))
}

/// What bounds the run's time and what its budget would cut off.
fn limits(plan: &Plan) -> String {
    let mut text = String::from("\ntime: told by the deployments' speed, which nobody knows before the run\n");
    let requests = plan.requests() + plan.warmup_requests() * plan.arms.len() as u64;
    for deployment in &plan.suite.deployments {
        let arms = plan.arms.iter().filter(|arm| arm.deployment == deployment.name).count() as u64;
        let own = (requests_of_arm(plan) + plan.warmup_requests()) * arms;
        if let Some(limit) = deployment.limits.requests_per_min {
            let minutes = own / u64::from(limit.max(1));
            let _ = writeln!(text, "  {}: at least {minutes} min, by limits.requests_per_min {limit}", deployment.name);
        }
    }
    let budget = &plan.suite.budget;
    if let Some(limit) = budget.requests.filter(|limit| *limit < requests) {
        let _ =
            writeln!(text, "  budget.requests {limit} ends the run early: it would ask {requests}, warm-up included");
    }
    if let Some(limit) = budget.time {
        let _ = writeln!(text, "  budget.time ends the run after {limit}");
    }
    let of_arm = |arm: &plan::Arm| estimate(plan, plan.suite.deployment(&arm.deployment)?).usd_max;
    let most: Decimal = plan.arms.iter().filter_map(of_arm).sum();
    if let Some(limit) = budget.usd.filter(|limit| *limit < most) {
        let _ =
            writeln!(text, "  budget.usd {limit} may end the run early: it can cost up to {} USD", most.round_dp(4));
    }
    text
}

/// What the workload makes of the requests, and what is done about caches.
fn shapes(plan: &Plan) -> String {
    let mut text = String::new();
    if plan.suite.workload.is_some() {
        let length = |s: &plan::Sample| s.messages.iter().map(|m| m.content.chars().count() as u64).sum::<u64>();
        let mut tokens: Vec<u64> = plan.samples.iter().map(|s| length(s).div_ceil(CHARS_PER_TOKEN)).collect();
        tokens.sort_unstable();
        let at = |share: usize| tokens.get(tokens.len() * share / 100).copied().unwrap_or(0);
        let (least, most) = (at(0), tokens.last().copied().unwrap_or(0));
        let _ = writeln!(
            text,
            "\nworkload, by 4 characters a token\n  prompts: {least} to {most} tokens, half below {}",
            at(50)
        );
        let talks: BTreeSet<u32> =
            plan.samples.iter().filter_map(|s| s.conversation).map(|(number, _)| number).collect();
        let turns = plan.samples.iter().filter_map(|s| s.conversation).map(|(_, turn)| turn + 1).max();
        if let Some(turns) = turns {
            let _ = writeln!(
                text,
                "  conversations: {}, of up to {turns} turns; a later turn sends what came before again",
                talks.len()
            );
        }
    }
    let cache = match plan.suite.cache {
        CacheMode::AsIs => return text,
        CacheMode::Cold => "cold: by the engine's own switch where it is known, else by a line before each prompt",
        CacheMode::Warm => "warm: each prompt is sent once before its slot",
    };
    let _ = writeln!(text, "\ncache\n  {cache}");
    text
}

/// Measured requests of one arm, at the most.
fn requests_of_arm(plan: &Plan) -> u64 {
    plan.blocks.iter().map(Block::requests).sum()
}

fn by_task(plan: &Plan) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for sample in &plan.samples {
        *counts.entry(sample.task.as_str()).or_insert(0) += 1;
    }
    counts
}

fn estimate(plan: &Plan, deployment: &Deployment) -> ArmEstimate {
    let (mut characters, mut truncated, mut answers) = (0_u64, 0_u64, 0_u64);
    // What a conversation holds so far: its answers are taken to be as long as they may be.
    let mut history = 0_u64;
    for sample in &plan.samples {
        let cut = deployment.context.as_ref().and_then(|context| truncate(&sample.messages, context));
        let all: u64 = sample.messages.iter().map(|m| m.content.chars().count() as u64).sum();
        let most = sample.max_tokens.unwrap_or(u32::MAX).min(deployment.sampling.max_tokens);
        let before = if sample.conversation.is_some_and(|(_, turn)| turn > 0) { history } else { 0 };
        history = before + all + u64::from(most) * CHARS_PER_TOKEN;
        characters += before + all - cut.as_ref().map_or(0, |(_, n)| *n);
        truncated += u64::from(cut.is_some());
        answers += u64::from(most);
    }
    let requests = requests_of_arm(plan);
    // Repeats and timed stages go round the samples.
    let all = |of_samples: u64| {
        let all = (u128::from(of_samples) * u128::from(requests)).div_ceil((plan.samples.len() as u128).max(1));
        u64::try_from(all).unwrap_or(u64::MAX)
    };
    let input_tokens = all(characters).div_ceil(CHARS_PER_TOKEN);
    let output_tokens_max = all(answers);
    let usd_max = deployment
        .price
        .as_ref()
        .and_then(|price| money::spend(price, Some(input_tokens), Some(0), Some(output_tokens_max)));
    ArmEstimate { requests, input_tokens, output_tokens_max, truncated, usd_max }
}
