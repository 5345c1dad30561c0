//! From a unit to the bytes that are sent for it.

use super::shared::Shared;
use super::slot::Prepared;
use crate::deploy::{Dialect, GenRequest, Target};
use crate::plan::{Message, Phase, Unit, truncate};
use crate::spec::Deployment;
use crate::units::Id;

/// The unit's messages before truncation, environment filled in.
pub fn messages_of<'a>(shared: &'a Shared, unit: &Unit) -> &'a [Message] {
    match unit.phase {
        Phase::Warmup => shared.plan.warmup.get(unit.sample as usize).map(Vec::as_slice).unwrap_or_default(),
        Phase::Measured => shared.plan.live_messages(unit.sample),
    }
}

/// The bytes of a unit: the arm's sampling with the unit's own seed, the prompt cut as the deployment says.
pub fn prepare(
    shared: &Shared,
    deployment: &Deployment,
    target: &Target,
    dialect: &dyn Dialect,
    unit: &Unit,
) -> Prepared {
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
