//! From a unit to the bytes that are sent for it.

use super::arm::ArmRunner;
use super::shared::Shared;
use super::slot::Prepared;
use crate::deploy::{ColdBy, GenRequest};
use crate::plan::{Message, Phase, Unit, truncate};
use crate::spec::{CacheMode, Sampling};
use crate::units::Id;

/// The unit's own messages before truncation, environment filled in. What its conversation holds already is not in it.
pub fn messages_of<'a>(shared: &'a Shared, unit: &Unit) -> &'a [Message] {
    match unit.phase {
        Phase::Warmup => shared.plan.warmup_messages(unit.sample),
        Phase::Measured => shared.plan.live_messages(unit.sample),
    }
}

impl ArmRunner {
    /// The bytes of one attempt: the arm's sampling with the unit's own seed, what its conversation holds before it, the
    /// prompt cut as the deployment says, and what keeps a cache out of play.
    pub(super) fn prepare(&self, shared: &Shared, unit: &Unit, attempt: u32) -> Prepared {
        let said = self.talks.said(&shared.plan, unit);
        let messages = [said, messages_of(shared, unit)].concat();
        let cut = self.deployment.context.as_ref().and_then(|context| truncate::truncate(&messages, context));
        let (mut messages, truncated_chars) = cut.unwrap_or((messages, 0));
        let cold = (shared.live.cache == CacheMode::Cold).then(|| {
            let by = self.cold_by.unwrap_or_else(|| ColdBy::of(&serde_json::Value::Null, &self.deployment.body));
            (by, by.apply(cache_token(shared, unit, attempt), &self.target, &mut messages))
        });
        let marked = matches!(cold, Some((ColdBy::Nonce, _)));
        let target = cold.and_then(|(_, target)| target);
        let task = shared.live.task(shared.task_of(unit));
        let sent_prompt_hash = (truncated_chars > 0 || !said.is_empty() || marked).then(|| sent_hash(&messages));
        let request = GenRequest {
            messages,
            sampling: self.sampling(shared, unit),
            seed: unit.seed,
            response_format: task.and_then(|t| t.response_format.clone()),
            stream: shared.live.workload.as_ref().is_none_or(|w| w.stream),
        };
        let target = target.as_ref().unwrap_or(&self.target);
        Prepared { request: self.dialect.request(target, &request), sent_prompt_hash, truncated_chars }
    }

    fn sampling(&self, shared: &Shared, unit: &Unit) -> Sampling {
        let mut sampling = self.deployment.sampling.clone();
        if let Some(task) = shared.live.task(shared.task_of(unit)).filter(|t| !t.stop.is_empty()) {
            sampling.stop.clone_from(&task.stop);
        }
        sampling.max_tokens = self.max_tokens(shared, unit);
        sampling
    }

    /// The longest answer that the unit may get: the deployment's limit, the sample's own where it is lower, one token
    /// where only the cache is filled.
    pub(super) fn max_tokens(&self, shared: &Shared, unit: &Unit) -> u32 {
        let sample = || shared.plan.samples.get(unit.sample as usize);
        let own = match unit.phase {
            Phase::Warmup => shared.plan.primed_sample(unit.sample).map(|_| 1),
            Phase::Measured => sample().and_then(|s| s.max_tokens),
        };
        self.deployment.sampling.max_tokens.min(own.unwrap_or(u32::MAX))
    }
}

/// The hash of what was sent.
pub fn sent_hash(messages: &[Message]) -> Id {
    Id::of("sent-prompt", &[&serde_json::to_vec(messages).unwrap_or_default()])
}

/// Another one for each attempt, in this run and in any other: two runs of one seed ask the same prompts.
fn cache_token(shared: &Shared, unit: &Unit, attempt: u32) -> Id {
    let numbers = [shared.plan.created_wall_ms, u64::from(shared.session), u64::from(attempt)].map(u64::to_le_bytes);
    let [run, session, attempt] = &numbers;
    Id::of("cache-token", &[&shared.plan.suite_hash.0, run, session, &unit.id.0, attempt])
}
