//! Blocks: samples shuffled with the tasks mixed in proportion, cut into equal parts, and the order of arms in each.

use rand::RngExt;
use rand::seq::SliceRandom;

use super::types::{Block, Sample};
use crate::spec::{ArmsMode, Suite};
use crate::world;

/// More blocks buy no better interval and cost a drain each.
const MAX_BLOCKS: usize = 20;

/// Cuts the items (sample × repeat) into blocks and gives each block its order of arms.
///
/// n items make clamp(⌊n ÷ 4c⌋, 1, 20) blocks of equal size (± 1, or to the end of a conversation), c = concurrency. One arm, or arms one after the
/// other, make a single block.
pub fn cut(suite: &Suite, samples: &[Sample], arms: usize) -> Vec<Block> {
    let items = mixed_items(suite, samples);
    let concurrency = suite.load.concurrency().max(1) as usize;
    let single = arms == 1 || suite.arms == ArmsMode::Sequential;
    let count = if single { 1 } else { (items.len() / (4 * concurrency)).clamp(1, MAX_BLOCKS) };
    let orders = Orders::new(suite, arms);
    (0..count)
        .map(|index| {
            let at = |index: usize| whole_conversation(&items, samples, index * items.len() / count);
            let (from, to) = (at(index), at(index + 1));
            Block {
                index: index as u32,
                items: items.get(from..to).unwrap_or_default().to_vec(),
                order: if suite.arms == ArmsMode::Alternate { orders.of_block(index) } else { (0..arms).collect() },
            }
        })
        .collect()
}

/// The first place from `at` on that cuts through no conversation.
fn whole_conversation(items: &[(u32, u32)], samples: &[Sample], at: usize) -> usize {
    let goes_on = |(sample, _): &&(u32, u32)| {
        let conversation = samples.get(*sample as usize).and_then(|s| s.conversation);
        conversation.is_some_and(|(_, turn)| turn > 0)
    };
    at + items.get(at..).unwrap_or_default().iter().take_while(goes_on).count()
}

/// Each task's items are shuffled and laid evenly over [0, 1) with a random offset inside their own cell; sorting by
/// place mixes the tasks in proportion, so that every block is a small copy of the whole. A conversation is one item:
/// its turns stay together, in order.
fn mixed_items(suite: &Suite, samples: &[Sample]) -> Vec<(u32, u32)> {
    let mut placed: Vec<(f64, Vec<(u32, u32)>)> = Vec::with_capacity(samples.len() * suite.repeats as usize);
    for task in &suite.tasks {
        let mut rng = world::rng(suite.sampling.seed, &format!("order/{}", task.name));
        let own: Vec<&Sample> = samples.iter().filter(|s| s.task == task.name).collect();
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
