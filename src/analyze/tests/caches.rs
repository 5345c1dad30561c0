//! What is found of prompt caches, beside what whole runs show.

use serde_json::json;

use crate::analyze::summary::Summary;
use crate::analyze::testkit::{Answer, Kit, passing, suite, summary, task};
use crate::deploy::ColdBy;
use crate::drive::Event;
use crate::spec::{CacheMode, Dataset, Distribution, Suite, Workload};

fn of_caches(summary: &Summary) -> Vec<(&str, &str)> {
    let known = ["cache_contaminated", "prompts_reused"];
    let found = summary.validity.iter().filter(|f| known.contains(&f.code.as_str()));
    found.map(|f| (f.code.as_str(), f.arm.as_deref().unwrap_or_default())).collect()
}

/// Prompts of 200 tokens that have nothing in common.
fn long(samples: usize, cache: CacheMode) -> Suite {
    let workload = Workload {
        mix: std::collections::BTreeMap::new(),
        prompt_tokens: Some(Distribution::Fixed(200.0)),
        output_tokens: None,
        shared_prefix: None,
        turns: None,
        think_time: None,
        stream: true,
    };
    Suite { cache, workload: Some(workload), ..suite(samples) }
}

fn answer(cached: Option<u64>) -> impl Fn(&str, u32, u32) -> Answer {
    move |arm, sample, _| Answer {
        cached: if arm == "cand" { cached } else { Some(0) },
        prompt_tokens: 200,
        ..passing(!sample.is_multiple_of(4))
    }
}

#[test]
fn more_in_the_cache_than_the_run_explains_was_left_by_somebody_else() {
    let suite = long(100, CacheMode::AsIs);
    assert_eq!(of_caches(&summary(&suite, answer(Some(199)))), [("cache_contaminated", "cand")]);
    // A template's tokens, and blocks that are rounded up, are anybody's.
    assert_eq!(of_caches(&summary(&suite, answer(Some(48)))), []);
    // Nobody can say, and nothing speaks for it.
    assert_eq!(of_caches(&summary(&suite, answer(None))), []);
    let found = summary(&suite, answer(Some(199)));
    assert_eq!(found.arms["cand"].latency.ttft_ms, None);
    assert!(found.arms["base"].latency.ttft_ms.is_some() && found.arms["cand"].latency.tpot_ms.is_some());
}

#[test]
fn a_cold_run_that_was_served_from_a_cache_is_found() {
    let suite = long(100, CacheMode::Cold);
    assert_eq!(of_caches(&summary(&suite, answer(Some(199)))), [("cache_contaminated", "cand")]);
    assert_eq!(of_caches(&summary(&suite, answer(Some(16)))), []);
    assert_eq!(of_caches(&summary(&suite, answer(None))), [], "the switch is taken at its word");
    assert_eq!(of_caches(&summary(&long(100, CacheMode::Warm), answer(Some(199)))), []);
}

#[test]
fn a_prompt_that_is_asked_twice_is_told_where_cached_tokens_are_seen_or_untold() {
    let mut reused = suite(100);
    reused.cache = CacheMode::AsIs;
    let Dataset::Cases(rows) = &mut reused.tasks[0].dataset else { panic!() };
    rows[7]["question"] = rows[3]["question"].clone();
    let told = |suite: &Suite, cached| {
        let summary = summary(suite, answer(cached));
        of_caches(&summary).iter().map(|(code, arm)| format!("{code} {arm}")).collect::<Vec<_>>()
    };
    assert_eq!(told(&reused, Some(18)), ["prompts_reused cand"]);
    assert_eq!(told(&reused, None), ["prompts_reused cand"]);
    assert_eq!(told(&reused, Some(0)), Vec::<String>::new());
    reused.cache = CacheMode::Cold;
    assert_eq!(told(&reused, None), Vec::<String>::new());
    // The same words under another task are the same prompt to a server.
    let mut two = suite(40);
    two.cache = CacheMode::AsIs;
    let mut twin = task("facts", None, 40);
    "again".clone_into(&mut twin.name);
    two.tasks.push(twin);
    assert_eq!(told(&two, None), ["prompts_reused cand"]);
}

#[test]
fn a_flip_shows_what_was_asked_and_not_the_passage_before_it() {
    let flipped = summary(&long(100, CacheMode::Cold), |arm, sample, _| passing(arm == "base" || sample != 5));
    let flip = &flipped.comparisons[0].flips[0];
    assert!(flip.prompt.starts_with('…') && flip.prompt.ends_with("\n\nfacts 5?"), "{}", flip.prompt);
    assert_eq!(flip.prompt.chars().count(), 400);
}

#[test]
fn the_summary_says_what_was_done_by_arm() {
    let mut kit = Kit::play(&long(40, CacheMode::Cold), answer(Some(0)));
    for (arm, by) in [("base", ColdBy::CachePrompt), ("cand", ColdBy::Nonce)] {
        kit.events.insert(1, Event::Cache { arm: arm.to_owned(), at_us: 1_000, by });
    }
    let said = json!({"base": ColdBy::CachePrompt.describe(), "cand": ColdBy::Nonce.describe()});
    assert_eq!(kit.summary().environment["cache"], said);
    assert!(!Kit::play(&long(40, CacheMode::AsIs), answer(Some(0))).summary().environment.contains_key("cache"));
}
