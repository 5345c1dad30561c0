//! The plan's units: who asks what, when, with which seed. All derived from the plan, so that they are the same on one
//! machine or on fifty, today or after a resume.

use std::collections::HashSet;

use super::types::{Block, Message, Phase, Plan, Sample, Slot, Unit};
use crate::spec::{CacheMode, Stage};
use crate::units::Id;

impl Plan {
    /// The slots of the measured phase in the order in which they run.
    pub fn slots(&self) -> Vec<Slot> {
        let mut slots = Vec::new();
        for block in &self.blocks {
            for &arm in &block.order {
                slots.push(Slot { index: slots.len() as u32, block: block.index, arm });
            }
        }
        slots
    }

    /// Measured requests of one slot, in order.
    pub fn units_of(&self, slot: Slot) -> Vec<Unit> {
        self.units(slot).collect()
    }

    /// The same one by one: whoever looks for a single unit need not make the others.
    pub fn units(&self, slot: Slot) -> impl Iterator<Item = Unit> {
        let block = self.blocks.get(slot.block as usize);
        block.into_iter().flat_map(move |block| {
            let before = self.requests_before(block);
            (0..block.requests()).filter_map(move |position| self.unit(slot, block, before + position, position))
        })
    }

    /// Warm-up requests of one arm.
    pub fn warmup_units(&self, arm: usize) -> Vec<Unit> {
        let Some(name) = self.arms.get(arm).map(|a| a.name.as_str()) else {
            return Vec::new();
        };
        (0..self.warmup.len() as u32)
            .map(|index| Unit {
                id: unit_id(name, Phase::Warmup, 0, u64::from(index)),
                pair: Id::of("warmup-pair", &[&index.to_le_bytes()]),
                arm,
                phase: Phase::Warmup,
                sample: index,
                repeat: 0,
                stage: 0,
                block: 0,
                slot: arm as u32,
                position: index,
                intended_us: None,
                seed: 0,
            })
            .collect()
    }

    /// Requests that fill a server's cache before a slot (`cache: warm`): the prompt of each of these units once. Later
    /// turns of a conversation are left out: the turn before warms them.
    pub fn priming_units(&self, units: &[Unit]) -> Vec<Unit> {
        let mut seen = HashSet::new();
        let first = |unit: &&Unit| {
            let sample = self.samples.get(unit.sample as usize);
            sample.is_some_and(|s| s.conversation.is_none_or(|(_, turn)| turn == 0)) && seen.insert(unit.sample)
        };
        let prime = |(position, unit): (usize, &Unit)| Unit {
            id: Id::of("priming-unit", &[&unit.id.0]),
            pair: Id::of("priming-pair", &[&unit.pair.0]),
            phase: Phase::Warmup,
            sample: unit.sample.saturating_add(self.warmup.len() as u32),
            position: position as u32,
            ..unit.clone()
        };
        units.iter().filter(first).enumerate().map(prime).collect()
    }

    /// What a warm-up request sends; a priming one sends a sample's prompt.
    pub fn warmup_messages(&self, index: u32) -> &[Message] {
        match self.primed_sample(index) {
            Some(sample) => self.live_messages(sample),
            None => self.warmup.get(index as usize).map(Vec::as_slice).unwrap_or_default(),
        }
    }

    /// The sample whose prompt a warm-up request sends, if it sends one.
    pub fn primed_sample(&self, index: u32) -> Option<u32> {
        index.checked_sub(self.warmup.len() as u32)
    }

    /// Warm-up requests of one arm, those that fill its cache included.
    pub fn warmup_requests(&self) -> u64 {
        let primed = || self.slots().into_iter().filter(|slot| slot.arm == 0).map(|slot| self.units_of(slot));
        let priming: u64 = match self.suite.cache {
            CacheMode::Warm => primed().map(|units| self.priming_units(&units).len() as u64).sum(),
            CacheMode::AsIs | CacheMode::Cold => 0,
        };
        self.warmup.len() as u64 + priming
    }

    /// Requests of the measured phase at the most: slots that end by the clock plan more than they ask.
    pub fn requests(&self) -> u64 {
        self.blocks.iter().map(|b| b.requests() * b.order.len() as u64).sum()
    }

    /// The stage of a block.
    pub fn stage(&self, block: &Block) -> Option<Stage> {
        self.suite.load.stages().into_iter().nth(usize::from(block.stage))
    }

    /// Whether the load is raised step by step.
    pub fn is_sweep(&self) -> bool {
        self.suite.load.stages().iter().any(|stage| stage.step.is_some())
    }

    /// Which of `workers` asks this pair: all arms of a pair are one worker's, and the union over the workers is the
    /// whole schedule.
    pub fn worker_of(unit: &Unit, workers: u32) -> u32 {
        (unit.pair.as_u64() % u64::from(workers.max(1))) as u32
    }

    /// What is sent for a sample before truncation, with the environment filled in.
    pub fn live_messages(&self, sample: u32) -> &[Message] {
        let own = || self.samples.get(sample as usize).map(|s| s.messages.as_slice()).unwrap_or_default();
        self.live_messages.get(&sample).map_or_else(own, Vec::as_slice)
    }

    /// Requests of the stage's earlier blocks, for one arm.
    fn requests_before(&self, block: &Block) -> u64 {
        let earlier = self.blocks.iter().take(block.index as usize);
        earlier.filter(|b| b.stage == block.stage).map(Block::requests).sum()
    }

    fn unit(&self, slot: Slot, block: &Block, index: u64, position: u64) -> Option<Unit> {
        let arm = self.arms.get(slot.arm)?;
        let (sample, repeat) = block.item(position, self.suite.repeats)?;
        let sample_of = self.samples.get(sample as usize)?;
        Some(Unit {
            id: unit_id(&arm.name, Phase::Measured, block.stage, index),
            pair: pair_key(sample_of, repeat),
            arm: slot.arm,
            phase: Phase::Measured,
            sample,
            repeat,
            stage: block.stage,
            block: slot.block,
            slot: slot.index,
            position: position as u32,
            intended_us: block.arrivals_us.get(position as usize).copied(),
            seed: request_seed(self.suite.sampling.seed, sample_of, repeat),
        })
    }
}

/// hash(arm, phase, stage, index)
fn unit_id(arm: &str, phase: Phase, stage: u16, index: u64) -> Id {
    let phase: &[u8] = match phase {
        Phase::Warmup => b"warmup",
        Phase::Measured => b"measured",
    };
    Id::of("unit", &[arm.as_bytes(), phase, &stage.to_le_bytes(), &index.to_le_bytes()])
}

/// hash(task, untruncated prompt, occurrence, repeat); the prompt's hash covers task and prompt.
pub fn pair_key(sample: &Sample, repeat: u32) -> Id {
    Id::of("pair", &[&sample.prompt_hash.0, &sample.occurrence.to_le_bytes(), &repeat.to_le_bytes()])
}

/// hash(suite seed, sample, repeat), 31 bits: equal in all arms, different between repeats.
fn request_seed(suite_seed: u64, sample: &Sample, repeat: u32) -> u32 {
    let id = Id::of("seed", &[&suite_seed.to_le_bytes(), &pair_key(sample, repeat).0]);
    (id.as_u64() & 0x7fff_ffff) as u32
}
