//! The workload's promises: lengths, prefixes, mix and conversations, all drawn by the seed.

use std::collections::{BTreeMap, HashSet};

use super::tests::{plan_of, suite};
use super::*;
use crate::spec::{self, LoadOptions, Role, SuiteSource};
use crate::world::FixedWorld;

fn text(plan: &Plan, sample: usize) -> String {
    plan.samples[sample].messages.iter().map(|m| m.content.as_str()).collect::<Vec<_>>().join("\n")
}

fn texts(plan: &Plan) -> Vec<String> {
    (0..plan.samples.len()).map(|sample| text(plan, sample)).collect()
}

/// Characters that two texts begin with alike.
fn common(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
}

/// The longest beginning that any two of the texts have in common.
fn longest_common(texts: &[String]) -> usize {
    let mut sorted: Vec<&String> = texts.iter().collect();
    sorted.sort();
    sorted.windows(2).map(|pair| common(pair[0], pair[1])).max().unwrap_or(0)
}

fn workload(rows: (usize, usize), keys: &str) -> Plan {
    plan_of(&suite(rows.0, rows.1, 2, &format!("noise_floor: false\nworkload: {{{keys}}}\n")), &[])
}

#[test]
fn prompts_reach_the_drawn_length_and_keep_their_own_text_at_the_end() {
    let plan = workload((60, 60), "prompt_tokens: {fixed: 800}");
    for (index, text) in texts(&plan).iter().enumerate() {
        assert!(text.len() <= 3_200 && text.len() > 3_170, "{}", text.len());
        let own = format!("\n\n{} {}", plan.samples[index].task, plan.samples[index].row["q"]);
        assert!(text.ends_with(&own), "{text}");
    }
    assert!(longest_common(&texts(&plan)) < 24, "{}", longest_common(&texts(&plan)));
}

#[test]
fn a_longer_prompt_stays_as_it_is() {
    let short = workload((5, 5), "prompt_tokens: 2");
    assert_eq!(texts(&short), texts(&workload((5, 5), "stream: true")));
    assert_eq!(text(&short, 0), "small 0");
}

#[test]
fn drawn_lengths_follow_their_distribution() {
    let plan = workload((400, 400), "prompt_tokens: {lognormal: {median: 300, p95: 900}}");
    let mut tokens: Vec<usize> = texts(&plan).iter().map(|t| t.len().div_ceil(4)).collect();
    tokens.sort_unstable();
    // Standard errors of 800 draws: 3 % of the median, 6 % of the 95th percentile.
    assert!((270..330).contains(&tokens[400]), "{}", tokens[400]);
    assert!((740..1_060).contains(&tokens[760]), "{}", tokens[760]);
}

#[test]
fn all_is_drawn_by_the_seed_alone() {
    let keys = "workload: {prompt_tokens: {uniform: {min: 50, max: 400}}, output_tokens: {uniform: {min: 1, max: 90}}, \
                turns: {uniform: {min: 1, max: 5}}, think_time: {lognormal: {median: 2, p95: 9}}}\n";
    let plan = |seed: u32| plan_of(&suite(50, 50, 2, &format!("sampling: {{seed: {seed}}}\n{keys}")), &[]);
    let (first, second, other) = (plan(7), plan(7), plan(8));
    assert!(first.samples == second.samples && first.blocks == second.blocks);
    assert_ne!(first.samples, other.samples);
    let ids = |plan: &Plan| plan.samples.iter().map(|s| s.prompt_hash).collect::<HashSet<_>>();
    assert!(ids(&first).is_disjoint(&ids(&other)), "another seed asks other prompts");
}

#[test]
fn a_prefix_is_shared_in_its_group_and_nowhere_else() {
    let plan = workload((40, 40), "prompt_tokens: 400, shared_prefix: {tokens: 100, groups: 4}");
    let texts = texts(&plan);
    let mut groups: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for text in &texts {
        groups.entry(text.split("\n\n").next().unwrap()).or_default().push(text);
        assert!(text.len() <= 1_600 && text.len() > 1_570, "the prefix is part of the length: {}", text.len());
    }
    assert_eq!(groups.values().map(Vec::len).collect::<Vec<_>>(), [20, 20, 20, 20]);
    for (prefix, members) in &groups {
        assert!(prefix.len() <= 400 && prefix.len() > 370, "{}", prefix.len());
        let members: Vec<String> = members.iter().map(|t| t[prefix.len()..].to_owned()).collect();
        assert!(longest_common(&members) < 24, "members share more than the prefix");
    }
    let prefixes: Vec<String> = groups.keys().map(|p| (*p).to_owned()).collect();
    assert!(longest_common(&prefixes) < 24, "{prefixes:?}");
}

#[test]
fn the_mix_keeps_its_proportion_to_the_sample() {
    let counts = |plan: &Plan| {
        let of = |task: &str| plan.samples.iter().filter(|s| s.task == task).count();
        (of("small"), of("large"))
    };
    assert_eq!(counts(&workload((30, 80), "mix: {small: 3, large: 1}")), (30, 10));
    assert_eq!(counts(&workload((30, 80), "mix: {small: 1, large: 4}")), (20, 80));
    assert_eq!(counts(&workload((30, 80), "mix: {small: 0.1, large: 0.2}")), (30, 60));
    let plan = workload((40, 200), "mix: {small: 1, large: 3}");
    assert_eq!(counts(&plan), (40, 120));
    assert!(plan.blocks.len() > 5);
    for block in &plan.blocks {
        let small = block.items.iter().filter(|(s, _)| plan.samples[*s as usize].task == "small").count();
        assert!((small as f64 - block.items.len() as f64 / 4.0).abs() <= 2.0, "block {}", block.index);
    }
    // The first rows are the ones that are asked.
    assert_eq!(plan.samples[40].row["q"], 0);
}

#[test]
fn a_mix_that_leaves_a_task_without_a_sample_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("suite.yaml");
    std::fs::write(&path, suite(5, 5, 1, "workload: {mix: {small: 1000, large: 1}}\n")).unwrap();
    let loaded = spec::load(SuiteSource::Path(path), &FixedWorld::new(&[]), &LoadOptions::default()).unwrap();
    let told = build(&loaded.suite, &loaded.live, 0).unwrap_err().to_string();
    assert!(told.contains("`large`") && told.contains("mix"), "{told}");
}

#[test]
fn conversations_stay_in_one_block_and_in_order() {
    let plan = workload((90, 90), "turns: {uniform: {min: 1, max: 6}}, think_time: {uniform: {min: 1, max: 3}}");
    let turns: HashSet<u32> = plan.samples.iter().filter_map(|s| s.conversation).map(|(_, turn)| turn).collect();
    assert_eq!(turns, (0..6).collect());
    assert!(plan.blocks.len() > 5);
    let mut seen: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for block in &plan.blocks {
        for (sample, _) in &block.items {
            let (number, turn) = plan.samples[*sample as usize].conversation.unwrap();
            let (home, next) = *seen.entry(number).or_insert((block.index, 0));
            assert_eq!((home, next), (block.index, turn), "conversation {number}");
            seen.insert(number, (home, turn + 1));
        }
    }
    assert_eq!(plan.blocks.iter().map(|b| b.items.len()).sum::<usize>(), 180);
    let tasks = |s: &Sample| (s.conversation.unwrap().0, s.task.clone());
    let pairs: HashSet<(u32, String)> = plan.samples.iter().map(tasks).collect();
    assert_eq!(pairs.len(), seen.len(), "a conversation belongs to one task");
    for sample in &plan.samples {
        let later = sample.conversation.unwrap().1 > 0;
        assert_eq!(sample.think_time.is_some(), later);
        assert_eq!(sample.cluster, Some(format!("conversation {}", sample.conversation.unwrap().0)));
        assert!(sample.think_time.is_none_or(|t| (1_000.0..=3_000.0).contains(&t.as_ms())));
    }
}

#[test]
fn repeats_of_a_conversation_are_conversations_of_their_own() {
    let text = suite(12, 12, 2, "repeats: 3\nworkload: {turns: 4}\n");
    let plan = plan_of(&text, &[]);
    for block in &plan.blocks {
        for turns in block.items.chunks(4) {
            let repeats: HashSet<u32> = turns.iter().map(|(_, repeat)| *repeat).collect();
            let places: Vec<u32> =
                turns.iter().map(|(s, _)| plan.samples[*s as usize].conversation.unwrap().1).collect();
            assert_eq!((repeats.len(), places), (1, vec![0, 1, 2, 3]));
        }
    }
}

#[test]
fn the_system_message_and_the_prefix_are_the_first_turns() {
    let text = suite(4, 4, 1, "workload: {turns: 2, shared_prefix: {tokens: 40}, prompt_tokens: 100}\n")
        .replace("    prompt: \"small", "    system: Be brief.\n    prompt: \"small");
    let plan = plan_of(&text, &[]);
    let roles = |sample: usize| plan.samples[sample].messages.iter().map(|m| m.role).collect::<Vec<_>>();
    assert_eq!(roles(0), [Role::System, Role::User]);
    assert_eq!(roles(1), [Role::User]);
    assert!(plan.samples[0].messages[0].content.starts_with("Reference "));
    assert!(plan.samples[0].messages[1].content.starts_with("Background "));
    assert!(plan.samples[1].messages[0].content.starts_with("Background "));
    // Equal messages after other turns are other prompts.
    let same = suite(2, 2, 1, "workload: {turns: 2}\n").replace("small {{ q }}", "same").replace("{q: 1,", "{q: 0,");
    let plan = plan_of(&same, &[]);
    assert_eq!(plan.samples[0].messages, plan.samples[1].messages);
    assert_ne!(plan.samples[0].prompt_hash, plan.samples[1].prompt_hash);
}

#[test]
fn what_is_sent_has_the_same_passage_as_what_is_written() {
    let text = suite(6, 6, 1, "workload: {prompt_tokens: 120, turns: 2}\n")
        .replace("\"small {{ q }}\"", "\"${env:PREFIX} {{ q }}\"");
    let mut plan = plan_of(&text, &[("PREFIX", "hush")]);
    let passage = |text: &str| text.split("\n\n").next().unwrap().to_owned();
    for sample in 0..6_u32 {
        let (written, sent) =
            (&plan.samples[sample as usize].messages[0].content, &plan.live_messages(sample)[0].content);
        assert_eq!(passage(written), passage(sent));
        assert!(sent.ends_with(&format!("\n\nhush {sample}")) && !written.contains("hush"), "{sent}");
    }
    let before = plan.live_messages.clone();
    let world = FixedWorld::new(&[("PREFIX", "hush")]);
    let live = spec::interpolate(&plan.suite, &world).unwrap();
    plan.refresh_live(&live).unwrap();
    assert_eq!(plan.live_messages, before);
}

#[test]
fn a_warm_cache_is_filled_with_each_first_prompt_once() {
    let plan = plan_of(&suite(10, 10, 1, "repeats: 2\ncache: warm\nworkload: {turns: 2}\n"), &[]);
    let slot = plan.slots()[0];
    let priming = plan.priming_units(&plan.units_of(slot));
    assert_eq!(priming.len(), 10, "20 samples in conversations of two turns");
    let primed: HashSet<u32> = priming.iter().filter_map(|u| plan.primed_sample(u.sample)).collect();
    assert_eq!(primed.len(), 10);
    for unit in &priming {
        let sample = plan.primed_sample(unit.sample).unwrap();
        assert_eq!(unit.phase, Phase::Warmup);
        assert_eq!(plan.warmup_messages(unit.sample), plan.live_messages(sample));
    }
    assert_eq!(plan.warmup_requests(), 8 + 10);
    assert_eq!(plan.primed_sample(7), None);
}

#[test]
fn rounds_of_a_timed_load_share_no_pair() {
    let timed = "{stages: [{mode: open, arrivals: {process: poisson, rate_per_s: 7}, duration: 40s}]}";
    let plan = plan_of(&suite(12, 12, 2, &format!("noise_floor: false\nload: {timed}\nworkload: {{turns: 3}}\n")), &[]);
    assert!(plan.blocks.len() > 1 && plan.blocks.iter().any(|b| b.requests() != plan.blocks[0].requests()));
    let units: Vec<Unit> = plan.slots().into_iter().filter(|s| s.arm == 0).flat_map(|s| plan.units_of(s)).collect();
    let pairs: HashSet<_> = units.iter().map(|unit| unit.pair).collect();
    assert!(units.len() > 200 && pairs.len() == units.len(), "{} pairs of {}", pairs.len(), units.len());
}
