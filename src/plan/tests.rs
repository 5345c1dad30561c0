//! The plan is fixed by its suite and seed, and every promise about its order holds.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use super::*;
use crate::spec::{self, LoadOptions, SuiteSource};
use crate::world::FixedWorld;

pub fn plan_of(text: &str, env: &[(&str, &str)]) -> Plan {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("suite.yaml");
    std::fs::write(&path, text).unwrap();
    let loaded = spec::load(SuiteSource::Path(path), &FixedWorld::new(env), &LoadOptions::default())
        .unwrap_or_else(|diagnostics| panic!("{}", diagnostics.full(false)));
    build(&loaded.suite, &loaded.live, 0).unwrap()
}

/// Two tasks of `a` and `b` rows, `arms` deployments.
pub fn suite(a: usize, b: usize, arms: usize, more: &str) -> String {
    let mut text = String::from("suite: p\ndeployments:\n");
    for arm in 0..arms {
        writeln!(text, "  d{arm}: {{api: simulated}}").unwrap();
    }
    text += more;
    text += "tasks:\n";
    for (task, rows) in [("small", a), ("large", b)] {
        writeln!(text, "  - name: {task}\n    prompt: \"{task} {{{{ q }}}}\"\n    graders: [{{exact: {{}}}}]").unwrap();
        text += "    dataset:\n      cases:\n";
        for row in 0..rows {
            writeln!(text, "        - {{q: {row}, answer: x}}").unwrap();
        }
    }
    text
}

#[test]
fn one_suite_and_seed_give_one_plan() {
    let text = suite(40, 80, 3, "");
    let (mut first, second) = (plan_of(&text, &[]), plan_of(&text, &[]));
    // The folders that the two were loaded from differ; nothing else may.
    first.suite.root.clone_from(&second.suite.root);
    assert!(first == second);
    let other = plan_of(&suite(40, 80, 3, "sampling: {seed: 8}\n"), &[]);
    assert_ne!(plan_of(&text, &[]).blocks, other.blocks);
}

#[test]
fn every_arm_asks_every_sample_once_for_each_repeat() {
    let plan = plan_of(&suite(17, 30, 2, "repeats: 3\nnoise_floor: true\n"), &[]);
    assert_eq!(plan.arms.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["d0", "d0-twin", "d1"]);
    let mut asked: BTreeMap<usize, HashSet<(u32, u32)>> = BTreeMap::new();
    let mut ids = HashSet::new();
    for slot in plan.slots() {
        for unit in plan.units_of(slot) {
            assert!(asked.entry(unit.arm).or_default().insert((unit.sample, unit.repeat)), "asked twice");
            assert!(ids.insert(unit.id), "an id twice");
        }
    }
    assert!(asked.len() == 3 && asked.values().all(|samples| samples.len() == 47 * 3));
    assert_eq!(plan.requests(), 3 * 47 * 3);
}

#[test]
fn pairs_and_seeds_are_equal_in_all_arms_and_differ_between_repeats() {
    let plan = plan_of(&suite(20, 20, 2, "repeats: 2\nnoise_floor: false\n"), &[]);
    let mut seen: BTreeMap<(u32, u32), HashSet<(crate::units::Id, u32)>> = BTreeMap::new();
    for unit in plan.slots().into_iter().flat_map(|slot| plan.units_of(slot)) {
        assert!(unit.seed < 1 << 31);
        seen.entry((unit.sample, unit.repeat)).or_default().insert((unit.pair, unit.seed));
    }
    assert!(seen.values().all(|arms| arms.len() == 1), "arms differ");
    let all: HashSet<_> = seen.values().flatten().collect();
    assert_eq!(all.len(), 80, "repeats or samples share a pair or a seed");
}

#[test]
fn equal_prompts_are_told_apart_by_their_occurrence() {
    let text = suite(2, 2, 1, "").replace("{q: 1, answer: x}", "{q: 0, answer: y}");
    let plan = plan_of(&text, &[]);
    let small: Vec<_> = plan.samples.iter().filter(|s| s.task == "small").collect();
    assert_eq!((small[0].prompt_hash, small[0].occurrence), (small[1].prompt_hash, 0));
    assert_eq!(small[1].occurrence, 1);
    assert_ne!(pair_key(small[0], 0), pair_key(small[1], 0));
}

#[test]
fn blocks_are_as_many_and_as_equal_as_promised() {
    // (samples in all, concurrency, blocks): clamp(⌊n ÷ 4c⌋, 1, 20)
    for (n, concurrency, blocks) in [(10, 4, 1), (47, 4, 2), (96, 4, 6), (1_000, 4, 20), (130, 1, 20)] {
        let more = format!("load: {{mode: closed, concurrency: {concurrency}}}\n");
        let plan = plan_of(&suite(n / 2, n - n / 2, 2, &more), &[]);
        assert_eq!(plan.blocks.len(), blocks, "n {n} c {concurrency}");
        let sizes: Vec<usize> = plan.blocks.iter().map(|b| b.items.len()).collect();
        assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
        assert_eq!(sizes.iter().sum::<usize>(), n);
    }
}

#[test]
fn every_block_mixes_the_tasks_in_proportion() {
    let plan = plan_of(&suite(80, 240, 2, ""), &[]);
    for block in &plan.blocks {
        let small = block.items.iter().filter(|(s, _)| plan.samples[*s as usize].task == "small").count();
        let expected = block.items.len() as f64 / 4.0;
        assert!((small as f64 - expected).abs() <= 2.0, "block {}: {small} of {}", block.index, block.items.len());
    }
}

#[test]
fn two_arms_alternate_and_mirror() {
    let plan = plan_of(&suite(100, 220, 2, "noise_floor: false\n"), &[]);
    for pair in plan.blocks.chunks(2).filter(|pair| pair.len() == 2) {
        let mirrored: Vec<usize> = pair[0].order.iter().rev().copied().collect();
        assert_eq!(pair[1].order, mirrored, "ABBA");
    }
    let first = plan.blocks.iter().filter(|b| b.order[0] == 0).count();
    assert!(
        first.abs_diff(plan.blocks.len() - first) <= 1,
        "{first} of {} blocks begin with one arm",
        plan.blocks.len()
    );
}

#[test]
fn many_arms_take_every_place() {
    let plan = plan_of(&suite(300, 300, 4, "noise_floor: true\n"), &[]);
    for place in 0..5 {
        let arms: HashSet<usize> = plan.blocks.iter().map(|b| b.order[place]).collect();
        assert_eq!(arms.len(), 5, "place {place} is always the same arms': {arms:?}");
    }
}

#[test]
fn warm_up_prompts_are_never_measured_and_share_no_beginning() {
    let plan = plan_of(&suite(20, 20, 2, "load: {mode: closed, concurrency: 2, warmup_requests: 12}\n"), &[]);
    let measured: HashSet<&str> = plan.samples.iter().map(|s| s.messages[0].content.as_str()).collect();
    let warm: Vec<&str> = plan.warmup.iter().map(|m| m[0].content.as_str()).collect();
    assert_eq!(warm.len(), 12);
    assert!(warm.iter().all(|text| !measured.contains(text)));
    let beginnings: HashSet<&str> = warm.iter().map(|text| &text[..12]).collect();
    assert_eq!(beginnings.len(), 12);
}

#[test]
fn a_secret_in_a_prompt_is_sent_and_never_written() {
    let text = suite(3, 3, 1, "").replace("\"small {{ q }}\"", "\"${env:PREFIX} {{ q }}\"");
    let plan = plan_of(&text, &[("PREFIX", "hush")]);
    let written = serde_json::to_string(&plan).unwrap() + &serde_json::to_string(&plan.samples).unwrap();
    assert!(!written.contains("hush") && written.contains("${env:PREFIX}"));
    assert_eq!(plan.live_messages(0)[0].content, "hush 0");
    assert_eq!(plan.live_messages(3)[0].content, "large 0");
}

#[test]
fn a_row_cannot_read_the_environment() {
    let text = suite(3, 3, 1, "").replace("{q: 1, answer: x}", "{q: \"${env:PREFIX}\", answer: x}");
    let plan = plan_of(&text, &[("PREFIX", "hush")]);
    let sent: Vec<&str> = (0..6).map(|s| plan.live_messages(s)[0].content.as_str()).collect();
    assert!(!sent.join("\n").contains("hush"), "{sent:?}");
}

#[test]
fn sequential_arms_and_a_single_arm_make_one_block() {
    assert_eq!(plan_of(&suite(50, 50, 2, "arms: sequential\n"), &[]).blocks.len(), 1);
    assert_eq!(plan_of(&suite(50, 50, 1, ""), &[]).blocks.len(), 1);
}
