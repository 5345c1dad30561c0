//! Findings about prompt caches: what one request left in a server's cache shortens the next one's time to first token.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::rows::{Row, Run};
use super::validity::{arm_name, deployment, finding};
use crate::drive::{Finding, Severity};
use crate::plan::{Plan, Sample};
use crate::spec::{Api, CacheMode, Deployment};
use crate::units::Id;

/// Tokens that a template puts before every prompt, and that any server may hold.
const TEMPLATE_TOKENS: f64 = 32.0;
/// A prompt's share by which its characters and its tokens may disagree.
const SLACK: f64 = 0.1;

pub fn findings(plan: &Plan, run: &Run) -> Vec<Finding> {
    let arms = 0..plan.arms.len();
    match plan.suite.cache {
        // What was asked for.
        CacheMode::Warm => Vec::new(),
        CacheMode::Cold => arms.filter_map(|arm| not_cold(plan, run, arm)).collect(),
        CacheMode::AsIs => as_is(plan, run),
    }
}

fn as_is(plan: &Plan, run: &Run) -> Vec<Finding> {
    let caching: Vec<Option<&Deployment>> =
        (0..plan.arms.len()).map(|arm| deployment(plan, arm).filter(|d| caches(d))).collect();
    let equal = equal_prompts(plan);
    let mut origins: BTreeMap<String, usize> = BTreeMap::new();
    for deployment in caching.iter().flatten() {
        *origins.entry(deployment.origin()).or_default() += 1;
    }
    let mut findings = Vec::new();
    for (arm, deployment) in caching.iter().enumerate() {
        let Some(deployment) = deployment else { continue };
        let told = Told { arm, name: arm_name(plan, arm), real: deployment.api != Api::Simulated };
        let shared = origins.get(&deployment.origin()).is_some_and(|n| *n > 1);
        if shared || plan.suite.repeats > 1 {
            let why = if shared { "another arm of the same server" } else { "an earlier repeat" };
            findings.extend(told.filled_by(run, why));
        } else {
            findings.extend(told.reused(run, &equal));
        }
        if findings.last().is_none_or(|f| f.arm.as_deref() != Some(told.name)) {
            findings.extend(told.filled_before(plan, run));
        }
    }
    findings
}

/// Samples that an arm was asked more than once: a timed load goes round.
fn asked_again(run: &Run, arm: usize) -> HashSet<u32> {
    let mut seen = HashSet::new();
    run.rows_of(arm).map(|row| row.sample).filter(|sample| !seen.insert(*sample)).collect()
}

/// A server whose cache the body itself switches off has none to be served from.
fn caches(deployment: &Deployment) -> bool {
    deployment.body.get("cache_prompt") != Some(&Value::Bool(false))
}

struct Told<'a> {
    arm: usize,
    name: &'a str,
    /// A simulated server has no cache that it doesn't tell of.
    real: bool,
}

/// Answered requests, those that were served from a cache, those that don't tell.
#[derive(Default)]
struct Counts {
    answered: u64,
    cached: u64,
    unknown: u64,
}

impl Told<'_> {
    fn count<'r>(&self, rows: impl Iterator<Item = &'r Row>) -> Counts {
        let mut counts = Counts::default();
        for row in rows.filter(|row| row.is_answered()) {
            counts.answered += 1;
            counts.cached += u64::from(row.cached_tokens.is_some_and(|tokens| tokens > 0));
            counts.unknown += u64::from(self.real && row.cached_tokens.is_none());
        }
        counts
    }

    /// Arms of one origin answer the same prompts one after the other, and so do repeats.
    fn filled_by(&self, run: &Run, why: &str) -> Option<Finding> {
        let Counts { answered, cached, unknown } = self.count(run.rows_of(self.arm));
        if cached == 0 && unknown == 0 {
            return None;
        }
        let seen = if cached > 0 {
            format!("{cached} of {answered} prompts were served from a cache that {why} may have filled")
        } else {
            format!("whether {why} filled the prompt cache can't be known: the server tells no cached tokens")
        };
        Some(self.finding("cache_contaminated", &seen))
    }

    /// Equal prompts of one arm, or the same ones in another round: all but the first may be served from what the first
    /// left.
    fn reused(&self, run: &Run, equal: &HashSet<u32>) -> Option<Finding> {
        let again = asked_again(run, self.arm);
        let is_reused = |row: &&Row| equal.contains(&row.sample) || again.contains(&row.sample);
        let reused = run.rows_of(self.arm).filter(is_reused);
        let Counts { answered, cached, unknown } = self.count(reused);
        if cached == 0 && unknown == 0 {
            return None;
        }
        let seen = if cached > 0 {
            format!(
                "{cached} of {answered} requests with a prompt that is asked more than once were served from a cache"
            )
        } else {
            format!(
                "{answered} requests have a prompt that is asked more than once, and the server tells no cached tokens"
            )
        };
        Some(self.finding("prompts_reused", &seen))
    }

    /// More in the cache than this run's own prompts have in common: somebody asked them before.
    fn filled_before(&self, plan: &Plan, run: &Run) -> Option<Finding> {
        let suspects: Vec<&Row> = run.rows_of(self.arm).filter(|row| is_suspect(plan, row)).collect();
        if suspects.is_empty() {
            return None;
        }
        let common = common_shares(plan);
        let foreign = suspects.iter().filter(|row| {
            let own = common.get(&row.sample).copied().unwrap_or(1.0);
            beyond(row, own)
        });
        let (foreign, answered) = (foreign.count(), run.rows_of(self.arm).filter(|row| row.is_answered()).count());
        let seen = format!(
            "{foreign} of {answered} prompts were served from a cache beyond what this run's own prompts have in common: \
             an earlier run, or somebody else, asked them before"
        );
        (foreign > 0).then(|| self.finding("cache_contaminated", &seen))
    }

    fn finding(&self, code: &str, seen: &str) -> Finding {
        let message = format!(
            "`{}`: {seen}; keep the cache out of play to measure without it (`cache: cold`), or fill it on purpose \
             (`cache: warm`)",
            self.name
        );
        finding(code, Severity::WithdrawsFigures, Some(self.name), message)
    }
}

/// A cold run whose prompts came from a cache all the same.
fn not_cold(plan: &Plan, run: &Run, arm: usize) -> Option<Finding> {
    let (mut warm, mut answered) = (0_u64, 0_u64);
    for row in run.rows_of(arm).filter(|row| row.is_answered()) {
        answered += 1;
        warm += u64::from(beyond(row, 0.0));
    }
    let name = arm_name(plan, arm);
    let message = format!(
        "`{name}`: the run is `cache: cold`, and {warm} of {answered} prompts were served from a cache all the same; switch \
         it off at the server"
    );
    (warm > 0).then(|| finding("cache_contaminated", Severity::WithdrawsFigures, Some(name), message))
}

/// Whether more of a prompt was cached than this share of it and what any server may hold.
fn beyond(row: &Row, share: f64) -> bool {
    let (Some(cached), Some(prompt)) = (row.cached_tokens, row.input_tokens) else { return false };
    cached as f64 > (share + SLACK) * prompt as f64 + TEMPLATE_TOKENS
}

/// A later turn of a conversation finds the turns before it, as it should.
fn is_suspect(plan: &Plan, row: &Row) -> bool {
    let sample = plan.samples.get(row.sample as usize);
    row.is_answered() && beyond(row, 0.0) && sample.is_some_and(is_first_turn)
}

fn is_first_turn(sample: &Sample) -> bool {
    sample.conversation.is_none_or(|(_, turn)| turn == 0)
}

/// Samples whose prompt another sample has too, whatever their tasks.
fn equal_prompts(plan: &Plan) -> HashSet<u32> {
    let mut groups: HashMap<Id, Vec<u32>> = HashMap::new();
    for sample in plan.samples.iter().filter(|s| is_first_turn(s)) {
        let text = serde_json::to_vec(&sample.messages).unwrap_or_default();
        groups.entry(Id::of("prompt-text", &[&text])).or_default().push(sample.index);
    }
    groups.into_values().filter(|group| group.len() > 1).flatten().collect()
}

/// The share of each first prompt that it has in common with another one of the run, by characters.
fn common_shares(plan: &Plan) -> HashMap<u32, f64> {
    let text = |s: &Sample| s.messages.iter().map(|m| m.content.as_str()).collect::<Vec<_>>().join("\n");
    let mut prompts: Vec<(String, u32)> =
        plan.samples.iter().filter(|s| is_first_turn(s)).map(|s| (text(s), s.index)).collect();
    prompts.sort();
    let common = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let mut longest: HashMap<u32, usize> = HashMap::new();
    // In this order the longest common beginning is one with a neighbour.
    for pair in prompts.windows(2) {
        let [(a, one), (b, other)] = pair else { continue };
        let length = common(a, b);
        for index in [one, other] {
            let entry = longest.entry(*index).or_default();
            *entry = length.max(*entry);
        }
    }
    let share = |(text, index): &(String, u32)| {
        let length = longest.get(index).copied().unwrap_or(0);
        (*index, length as f64 / text.len().max(1) as f64)
    };
    prompts.iter().map(share).collect()
}
