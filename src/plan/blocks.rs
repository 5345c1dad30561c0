//! Blocks: samples shuffled with the tasks mixed in proportion, cut into equal parts, and the order of arms in each.

use rand::RngExt;
use rand::seq::SliceRandom;

use super::arrivals::{self, ArrivalError, Until};
use super::types::{Block, Sample};
use crate::spec::{ArmsMode, LoadShape, Stage, Suite};
use crate::world;

/// More blocks buy no better interval and cost a drain each.
const MAX_BLOCKS: usize = 20;
/// A slot of a timed stage is at least this long, and four times its warm-up.
const SLOT_LEAST_US: u64 = 10_000_000;
/// Answers that one lane is planned to give in a second at the most: bounds a timed closed stage.
const LANE_PER_S_MAX: f64 = 100.0;
/// The most requests that one slot of a timed closed stage plans.
const TIMED_SLOT_MAX: u64 = 200_000;

/// Cuts the items (sample × repeat) of every stage into blocks and gives each block its order of arms.
///
/// n items make clamp(⌊n ÷ 4c⌋, 1, 20) blocks of equal size (± 1, or to the end of a conversation), c = requests planned
/// in flight. A timed stage asks the items again and again, in slots of at least ten seconds; a sweep's step is one slot
/// for each arm. One arm, or arms one after the other, make a single block of each stage.
pub fn cut(suite: &Suite, samples: &[Sample], arms: usize) -> Result<Vec<Block>, ArrivalError> {
    let orders = Orders::new(suite, arms);
    let mut blocks = Vec::new();
    for (index, stage) in suite.load.stages().iter().enumerate() {
        let (index, single) = (index as u16, is_single(suite, arms));
        let items = mixed_items(suite, samples, index);
        let stage_of = StageOf { suite, samples, stage, index, items: &items, single };
        for part in stage_of.parts()? {
            let number = blocks.len();
            let order = if suite.arms == ArmsMode::Alternate { orders.of_block(number) } else { (0..arms).collect() };
            blocks.push(Block { index: number as u32, stage: index, order, ..part });
        }
    }
    Ok(blocks)
}

fn is_single(suite: &Suite, arms: usize) -> bool {
    arms == 1 || suite.arms == ArmsMode::Sequential
}

struct StageOf<'a> {
    suite: &'a Suite,
    samples: &'a [Sample],
    stage: &'a Stage,
    index: u16,
    items: &'a [(u32, u32)],
    single: bool,
}

impl StageOf<'_> {
    /// The stage's blocks, without number and order.
    fn parts(&self) -> Result<Vec<Block>, ArrivalError> {
        match (self.stage.duration, &self.stage.shape) {
            (None, LoadShape::Closed { .. }) => Ok(self.by_count(self.items.len(), &[])),
            (None, LoadShape::Open { .. }) => {
                let offsets = self.offsets(Until::Count(self.items.len()))?;
                Ok(self.by_count(offsets.len(), &offsets))
            }
            (Some(duration), LoadShape::Closed { .. }) => Ok(self.by_time(duration.as_us())),
            (Some(duration), LoadShape::Open { .. }) => {
                let us = duration.as_us();
                let offsets = self.offsets(Until::Time { us, at_least: self.stage.min_requests as usize })?;
                Ok(self.by_arrivals(us, &offsets))
            }
        }
    }

    fn offsets(&self, until: Until) -> Result<Vec<u64>, ArrivalError> {
        let LoadShape::Open { arrivals, .. } = &self.stage.shape else { return Ok(Vec::new()) };
        arrivals::offsets_us(arrivals, self.suite.sampling.seed, &self.index.to_string(), until)
    }

    /// Each item once. Arrivals of a block are told from the last one before it, so that every gap is kept.
    fn by_count(&self, total: usize, offsets: &[u64]) -> Vec<Block> {
        let in_flight = self.stage.shape.planned_in_flight() as usize;
        let count = if self.single { 1 } else { (total / (4 * in_flight)).clamp(1, MAX_BLOCKS) };
        let part = |index: usize| {
            let (from, to) = (self.whole(index * total / count), self.whole((index + 1) * total / count));
            let before = from.checked_sub(1).and_then(|last| offsets.get(last)).copied().unwrap_or(0);
            Block {
                items: self.items.get(from..to).unwrap_or_default().to_vec(),
                count: (to - from) as u64,
                arrivals_us: offsets.get(from..to).unwrap_or_default().iter().map(|at| at - before).collect(),
                ..Block::default()
            }
        };
        (0..count).map(part).collect()
    }

    /// Slots that end by the clock: each plans more than it will ask.
    fn by_time(&self, us: u64) -> Vec<Block> {
        let slots = self.timed_slots(us);
        let slot_us = us / slots;
        let lanes = f64::from(self.stage.shape.planned_in_flight());
        let most = (lanes * LANE_PER_S_MAX * slot_us as f64 / 1e6).ceil() as u64;
        let least = self.stage.min_requests.div_ceil(slots);
        let count = most.max(least).min(TIMED_SLOT_MAX.max(least));
        let part = |index| {
            let block = self.cycling(index, slots, count, self.rounds(count));
            Block { time_us: Some(slot_us), answers_least: least, ..block }
        };
        (0..slots).map(part).collect()
    }

    fn by_arrivals(&self, us: u64, offsets: &[u64]) -> Vec<Block> {
        let slots = self.timed_slots(us);
        let slot_us = us / slots;
        let arrivals = |index: u64| -> Vec<u64> {
            let (from, to) = (index * slot_us, if index + 1 == slots { u64::MAX } else { (index + 1) * slot_us });
            offsets.iter().filter(|at| (from..to).contains(*at)).map(|at| at - from).collect()
        };
        let arrivals: Vec<Vec<u64>> = (0..slots).map(arrivals).collect();
        let most = arrivals.iter().map(Vec::len).max().unwrap_or(0) as u64;
        let part = |(index, own): (u64, Vec<u64>)| {
            let block = self.cycling(index, slots, own.len() as u64, self.rounds(most));
            Block { arrivals_us: own, ..block }
        };
        (0..slots).zip(arrivals).map(part).collect()
    }

    /// The first place from `at` on that cuts through no conversation.
    fn whole(&self, at: usize) -> usize {
        let goes_on = |(sample, _): &&(u32, u32)| {
            let conversation = self.samples.get(*sample as usize).and_then(|s| s.conversation);
            conversation.is_some_and(|(_, turn)| turn > 0)
        };
        at + self.items.get(at..).unwrap_or_default().iter().take_while(goes_on).count()
    }

    fn timed_slots(&self, us: u64) -> u64 {
        if self.single || self.stage.step.is_some() {
            return 1;
        }
        let least = (4 * self.stage.warmup_us()).max(SLOT_LEAST_US);
        (us / least).clamp(1, MAX_BLOCKS as u64)
    }

    /// How often so many requests go round the items.
    fn rounds(&self, count: u64) -> u64 {
        count.div_ceil(self.items.len().max(1) as u64)
    }

    /// A block that goes round the items, at the most so many `rounds`: every block begins at another one, and no two share
    /// a repeat's number.
    fn cycling(&self, index: u64, slots: u64, count: u64, rounds: u64) -> Block {
        let length = self.items.len().max(1) as u64;
        let mut items = self.items.to_vec();
        items.rotate_left(self.whole((index * length / slots) as usize) % length as usize);
        let repeat_base = (index * rounds) as u32 * self.suite.repeats;
        if count < length {
            items.truncate(count as usize);
        }
        Block { items, count, repeat_base, ..Block::default() }
    }
}

/// Each task's items are shuffled and laid evenly over [0, 1) with a random offset inside their own cell; sorting by
/// place mixes the tasks in proportion, so that every block is a small copy of the whole. A conversation is one item:
/// its turns stay together, in order.
fn mixed_items(suite: &Suite, samples: &[Sample], stage: u16) -> Vec<(u32, u32)> {
    let mut placed: Vec<(f64, Vec<(u32, u32)>)> = Vec::with_capacity(samples.len() * suite.repeats as usize);
    for task in &suite.tasks {
        let mut rng = world::rng(suite.sampling.seed, &format!("order/{}", task.name));
        let asked = |s: &&Sample| s.task == task.name && s.stage.is_none_or(|own| own == stage);
        let own: Vec<&Sample> = samples.iter().filter(asked).collect();
        let number = |sample: &Sample| sample.conversation.map(|(number, _)| number);
        let repeated = |turns: &[&Sample], repeat: u32| turns.iter().map(|s| (s.index, repeat)).collect();
        let mut items: Vec<Vec<(u32, u32)>> = own
            .chunk_by(|a, b| number(a).is_some() && number(a) == number(b))
            .flat_map(|turns| (0..suite.repeats).map(move |repeat| repeated(turns, repeat)))
            .collect();
        items.shuffle(&mut rng);
        let total = items.len() as f64;
        for (k, item) in items.into_iter().enumerate() {
            placed.push(((k as f64 + rng.random::<f64>()) / total, item));
        }
    }
    placed.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    placed.into_iter().flat_map(|(_, item)| item).collect()
}

/// Orders of arms: a seeded permutation, rotated from block to block and mirrored in every second one. Two arms give
/// ABBA; more arms visit every position equally often and follow each other both ways.
struct Orders {
    base: Vec<usize>,
}

impl Orders {
    fn new(suite: &Suite, arms: usize) -> Orders {
        let mut base: Vec<usize> = (0..arms).collect();
        base.shuffle(&mut world::rng(suite.sampling.seed, "arm-order"));
        Orders { base }
    }

    fn of_block(&self, index: usize) -> Vec<usize> {
        let arms = self.base.len();
        let mut order = self.base.clone();
        order.rotate_left((index / 2) % arms.max(1));
        if index % 2 == 1 {
            order.reverse();
        }
        order
    }
}
