//! The dispatcher: the one owner of a run's state. It walks the plan's blocks and slots and puts every event in order.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::arm::{ArmRunner, SlotRef};
use super::event::{EndReason, Event};
use super::shared::Shared;
use crate::plan::{Slot, Unit};
use crate::spec::{ArmsMode, CacheMode};

/// Carries the plan out with these arms (all of the plan's, or the ones chosen by `--arm`). Every unit of them gets
/// exactly one final attempt, except where the run stops early. Returns why it ended.
pub async fn drive(shared: Arc<Shared>, arms: Vec<ArmRunner>) -> EndReason {
    let mut arms = arms;
    for arm in &mut arms {
        warm_up(&shared, arm).await;
    }
    match shared.live.arms {
        ArmsMode::Together => together(&shared, arms).await,
        ArmsMode::Alternate | ArmsMode::Sequential => in_turn(&shared, arms).await,
    }
    let reason = shared.stop.reason().unwrap_or(EndReason::Done);
    shared.sink.barrier().await;
    reason
}

async fn warm_up(shared: &Shared, arm: &mut ArmRunner) {
    let units = shared.plan.warmup_units(arm.index);
    let has_work = shared.plan.slots().iter().any(|s| s.arm == arm.index && has_open(shared, *s));
    if has_work {
        // Warm-up belongs to the session, not to the plan's progress: a resumed run warms up again.
        arm.run_slot(shared, &SlotRef::warmup(&shared.plan, arm.index), units).await;
    }
}

fn has_open(shared: &Shared, slot: Slot) -> bool {
    !shared.ended_slots.contains(&slot.index) && shared.plan.units(slot).any(|unit| !shared.done.contains(&unit.id))
}

/// One arm at a time: each block's slots in the plan's order, drained in between.
async fn in_turn(shared: &Shared, mut arms: Vec<ArmRunner>) {
    let mut slots = shared.plan.slots().into_iter().peekable();
    while let Some(slot) = slots.next() {
        if shared.stop.reason().is_some() {
            return;
        }
        if let Some(arm) = arms.iter_mut().find(|a| a.index == slot.arm) {
            run_planned(shared, arm, slot).await;
        }
        let block_ends = slots.peek().is_none_or(|next| next.block != slot.block);
        if block_ends && shared.stop.reason().is_none() {
            end_block(shared, slot.block).await;
        }
    }
}

/// All arms at once, each through its own slots; no block holds one arm back for another.
async fn together(shared: &Arc<Shared>, arms: Vec<ArmRunner>) {
    let mut running = JoinSet::new();
    for mut arm in arms {
        let shared = Arc::clone(shared);
        running.spawn(async move {
            let index = arm.index;
            for slot in shared.plan.slots().into_iter().filter(|s| s.arm == index) {
                run_planned(&shared, &mut arm, slot).await;
            }
        });
    }
    while let Some(joined) = running.join_next().await {
        if let Err(error) = joined {
            shared.stop.request(EndReason::Aborted(format!("an arm's task was lost: {error}")));
        }
    }
    for block in &shared.plan.blocks {
        end_block(shared, block.index).await;
    }
}

async fn run_planned(shared: &Shared, arm: &mut ArmRunner, slot: Slot) {
    let Some(of_slot) = SlotRef::measured(&shared.plan, slot) else { return };
    let units = shared.plan.units_of(slot);
    if shared.live.cache == CacheMode::Warm && !shared.ended_slots.contains(&slot.index) {
        let open: Vec<Unit> = units.iter().filter(|unit| !shared.done.contains(&unit.id)).cloned().collect();
        arm.prime(shared, &of_slot, shared.plan.priming_units(&open)).await;
    }
    arm.run_slot(shared, &of_slot, units).await;
}

/// The drained gap: the journal is synced and texts may be graded before the next block.
async fn end_block(shared: &Shared, block: u32) {
    let at_us = shared.clock.now().as_us();
    shared.sink.emit(Event::BlockEnded { block, at_us }).await;
    shared.sink.barrier().await;
}
