//! Shapes of requests and prompt caches through whole runs: what is really sent, when, and what is found of it.

use std::collections::{BTreeMap, HashMap};

use counterpoise::analyze::{AnalyzeInput, analyze};
use counterpoise::deploy::{ColdBy, Outcome};
use counterpoise::drive::{Attempt, EndReason, Event, sent_hash};
use counterpoise::grade::ScoreRecord;
use counterpoise::plan::{Message, Phase, Plan};
use counterpoise::spec::Role;
use serde_json::json;

use crate::checks;
use crate::harness::{Run, Sim, profile, suite};
use crate::measured;

/// No twin; `more` keys.
fn plain(samples: usize, concurrency: u32, more: &str) -> String {
    suite(samples, concurrency, &format!("noise_floor: false\n{more}"))
}

async fn ran(suite: &str) -> Run {
    Sim::new(suite).with("base", profile(json!({}))).with("fast", profile(json!({}))).run().await
}

fn turn_of(plan: &Plan, attempt: &Attempt) -> (u32, u32) {
    plan.samples[attempt.sample as usize].conversation.unwrap()
}

/// Final attempts of each arm's conversations, in the order of their turns.
fn conversations<'a>(plan: &Plan, attempts: &[&'a Attempt]) -> BTreeMap<(String, u32, u32), Vec<&'a Attempt>> {
    let mut talks: BTreeMap<(String, u32, u32), Vec<&Attempt>> = BTreeMap::new();
    for attempt in attempts.iter().filter(|a| a.last) {
        let (number, _) = turn_of(plan, attempt);
        talks.entry((attempt.arm.clone(), number, attempt.repeat)).or_default().push(attempt);
    }
    for turns in talks.values_mut() {
        turns.sort_by_key(|a| turn_of(plan, a).1);
    }
    talks
}

/// Each turn was sent behind the turns before it, with the answers that were given.
fn history_was_sent(plan: &Plan, attempts: &[&Attempt]) {
    for ((arm, number, _), turns) in conversations(plan, attempts) {
        let mut said: Vec<Message> = Vec::new();
        for (turn, attempt) in turns.iter().enumerate() {
            assert_eq!(turn_of(plan, attempt), (number, turn as u32));
            said.extend_from_slice(&plan.samples[attempt.sample as usize].messages);
            let hash = (turn > 0).then(|| sent_hash(&said));
            assert_eq!(attempt.sent_prompt_hash, hash, "{arm}, conversation {number}, turn {turn}");
            said.push(Message { role: Role::Assistant, content: attempt.text.clone() });
        }
    }
}

/// Codes of findings about caches, with their arms.
fn found(run: &Run) -> Vec<(String, String)> {
    type Lines<T> = Result<Box<dyn Iterator<Item = Result<T, String>>>, String>;
    let events = || -> Lines<Event> { Ok(Box::new(run.events.clone().into_iter().map(Ok))) };
    let scores = || -> Lines<ScoreRecord> { Ok(Box::new(std::iter::empty())) };
    let summary = analyze(&AnalyzeInput { plan: &run.plan, journal: &events, scores: &scores }).unwrap();
    let of_caches =
        summary.validity.into_iter().filter(|f| ["cache_contaminated", "prompts_reused"].contains(&&*f.code));
    of_caches.map(|f| (f.code, f.arm.unwrap())).collect()
}

fn contaminated(arms: &[&str]) -> Vec<(String, String)> {
    arms.iter().map(|arm| ("cache_contaminated".to_owned(), (*arm).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn conversations_go_in_order_with_the_answers_that_were_given() {
    let run = ran(&plain(60, 4, "repeats: 2\nworkload: {turns: {uniform: {min: 1, max: 5}}}\n")).await;
    assert_eq!(run.reason, EndReason::Done);
    checks::every_unit_has_one_final_attempt(&run);
    checks::in_flight_is_at_most(&run, 4);
    let attempts = measured(&run.events);
    history_was_sent(&run.plan, &attempts);
    let talks = conversations(&run.plan, &attempts);
    assert!(talks.values().any(|turns| turns.len() > 3));
    for turns in talks.values() {
        for pair in turns.windows(2) {
            assert!(pair[1].timeline.dispatched_us >= pair[0].timeline.eof_us.unwrap());
            assert!(pair[1].usage.prompt_tokens > pair[0].usage.prompt_tokens);
            assert_eq!(pair[1].slot, pair[0].slot);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_arm_s_conversation_holds_its_own_answers() {
    let errs = json!({"errors": {"own": 0.5, "own_seed": 9}});
    let sim = Sim::new(&plain(24, 4, "workload: {turns: 3}\n"));
    let run = sim.with("base", profile(json!({}))).with("fast", profile(errs)).run().await;
    let attempts = measured(&run.events);
    history_was_sent(&run.plan, &attempts);
    let hashes = |arm: &str| -> HashMap<u32, _> {
        attempts.iter().filter(|a| a.arm == arm).map(|a| (a.sample, a.sent_prompt_hash)).collect()
    };
    let (base, fast) = (hashes("base"), hashes("fast"));
    assert!(base.iter().any(|(sample, hash)| fast[sample] != *hash), "both arms were sent one history");
    // What is compared is the same question all the same.
    let pairs = |arm: &str| -> HashMap<u32, _> {
        attempts.iter().filter(|a| a.arm == arm).map(|a| (a.sample, a.pair)).collect()
    };
    assert_eq!(pairs("base"), pairs("fast"));
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_the_answer_and_a_thought() {
    let run = ran(&plain(12, 8, "workload: {turns: 3, think_time: 2s}\n")).await;
    for turns in conversations(&run.plan, &measured(&run.events)).values() {
        assert_eq!(turns.len(), 3);
        for pair in turns.windows(2) {
            let pause = pair[1].timeline.dispatched_us - pair[0].timeline.eof_us.unwrap();
            assert!((2_000_000..2_005_000).contains(&pause), "{pause} µs");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_conversation_goes_on_before_others_begin() {
    let run = ran(&plain(60, 1, "arms: sequential\nworkload: {turns: 3}\n")).await;
    let asked: Vec<(u32, u32)> =
        measured(&run.events).iter().filter(|a| a.arm == "base").map(|a| turn_of(&run.plan, a)).collect();
    let first_end = asked.iter().position(|(_, turn)| *turn == 2).unwrap();
    assert!(first_end <= 8, "the first conversation ended as request {first_end}");
}

#[tokio::test(start_paused = true)]
async fn turns_behind_a_failed_one_are_recorded_and_never_sent() {
    let faults = json!({"faults": [{"kind": "http_500", "rate": 0.15, "by": "request"}]});
    let sim = Sim::new(&plain(120, 4, "retry: {max_attempts: 1}\nworkload: {turns: 4, think_time: 100ms}\n"));
    let run = sim.with("base", profile(json!({}))).with("fast", profile(faults)).run().await;
    assert_eq!(run.reason, EndReason::Done);
    checks::every_unit_has_one_final_attempt(&run);
    let attempts = measured(&run.events);
    let mut unsent = 0;
    for turns in conversations(&run.plan, &attempts).values() {
        let failed = turns.iter().position(|a| a.outcome != Outcome::Completed).unwrap_or(turns.len());
        for (turn, attempt) in turns.iter().enumerate() {
            assert_eq!(attempt.timeline.sent_us.is_some(), turn <= failed, "turn {turn}, failed {failed}");
            if turn > failed {
                unsent += 1;
                assert_eq!(attempt.outcome, Outcome::ServerError);
                let said = attempt.error.as_deref().unwrap();
                assert_eq!(
                    said,
                    format!("not sent: turn {} of its conversation has no answer to follow on", failed + 1)
                );
            }
        }
    }
    assert!(unsent > 10, "{unsent}");
}

#[tokio::test(start_paused = true)]
async fn a_retried_turn_holds_its_conversation_until_it_is_answered() {
    let faults = json!({"faults": [{"kind": "http_500", "rate": 0.2, "by": "request"}]});
    let sim = Sim::new(&plain(60, 4, "retry: {max_attempts: 12, base: 100ms, cap: 200ms}\nworkload: {turns: 3}\n"));
    let run = sim.with("base", profile(json!({}))).with("fast", profile(faults)).run().await;
    checks::every_unit_has_one_final_attempt(&run);
    let attempts = measured(&run.events);
    assert!(attempts.iter().any(|a| !a.last));
    assert!(attempts.iter().filter(|a| a.last).all(|a| a.outcome == Outcome::Completed));
    history_was_sent(&run.plan, &attempts);
}

#[tokio::test(start_paused = true)]
async fn a_resumed_conversation_goes_on_with_what_was_said() {
    let text = plain(48, 4, "workload: {turns: 4}\n");
    let sim = || Sim::new(&text).with("base", profile(json!({}))).with("fast", profile(json!({})));
    for attempts in [20, 41, 66] {
        let first = sim().interrupted_after(attempts).run().await;
        assert_eq!(first.reason, EndReason::Interrupted);
        let second = sim().resumed(first.done()).answered(first.answers()).run().await;
        assert_eq!(second.reason, EndReason::Done);
        assert_eq!(second.done().len() + first.done().len(), 96);
        let both: Vec<&Attempt> = measured(&first.events).into_iter().chain(measured(&second.events)).collect();
        history_was_sent(&first.plan, &both);
    }
}

#[tokio::test(start_paused = true)]
async fn turns_of_an_open_load_come_when_their_answer_has() {
    let open = "{mode: open, arrivals: {process: poisson, rate_per_s: 20}, warmup_requests: 2}";
    let text = plain(120, 1, "workload: {turns: 3, think_time: 1500ms}\n")
        .replace("load: {mode: closed, concurrency: 1, warmup_requests: 4}", &format!("load: {open}"));
    let run = ran(&text).await;
    checks::every_unit_has_one_final_attempt(&run);
    let attempts = measured(&run.events);
    history_was_sent(&run.plan, &attempts);
    for turns in conversations(&run.plan, &attempts).values() {
        for pair in turns.windows(2) {
            let thought = pair[0].timeline.eof_us.unwrap() + 1_500_000;
            assert!(pair[1].timeline.intended_us.unwrap() >= thought);
            assert!(pair[1].timeline.dispatched_us < pair[1].timeline.intended_us.unwrap() + 5_000);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_stream_there_is_no_first_token() {
    let run = ran(&plain(16, 4, "workload: {stream: false}\n")).await;
    for attempt in measured(&run.events) {
        assert_eq!((attempt.outcome, attempt.stream), (Outcome::Completed, false));
        assert_eq!((attempt.timeline.first_token_us, attempt.timeline.first_answer_us), (None, None));
        assert!(attempt.timeline.eof_us.is_some() && !attempt.text.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn answers_are_as_long_as_their_own_limit_at_the_most() {
    let run = ran(&plain(64, 4, "workload: {output_tokens: {uniform: {min: 1, max: 12}}}\n")).await;
    let attempts = measured(&run.events);
    for attempt in &attempts {
        let most = run.plan.samples[attempt.sample as usize].max_tokens.unwrap();
        assert!(attempt.usage.completion_tokens.unwrap() <= u64::from(most));
    }
    let cut = attempts.iter().filter(|a| a.outcome == Outcome::Truncated).count();
    assert!(cut > 20 && cut < attempts.len(), "{cut}");
}

/// A server that remembers what it was asked.
fn remembering() -> counterpoise::deploy::simulated::Profile {
    profile(json!({"prefix_cache": true}))
}

#[tokio::test(start_paused = true)]
async fn a_twin_is_served_from_the_cache_that_the_baseline_filled_unless_it_is_kept_cold() {
    let run = |cache: &str, by: Option<ColdBy>| {
        let sim = Sim::new(&suite(96, 4, &format!("cache: {cache}\nworkload: {{prompt_tokens: 150}}\n")));
        sim.with("base", remembering()).with("fast", remembering()).cold_by(by).run()
    };
    assert_eq!(found(&run("as_is", None).await), contaminated(&["base", "base-twin"]));
    for by in [ColdBy::Nonce, ColdBy::CacheSalt, ColdBy::CachePrompt] {
        let cold = run("cold", Some(by)).await;
        assert_eq!(found(&cold), [], "{by:?}");
        assert!(measured(&cold.events).iter().all(|a| a.usage.cached_tokens == Some(0)), "{by:?}");
        // The line is part of what was sent, and the pair key is not touched by it.
        let marked = measured(&cold.events).iter().all(|a| a.sent_prompt_hash.is_some());
        assert_eq!(marked, by == ColdBy::Nonce);
    }
}

#[tokio::test(start_paused = true)]
async fn one_seed_twice_against_one_server_is_found_unless_it_is_kept_cold() {
    for (cache, second) in [("as_is", contaminated(&["base", "fast"])), ("cold", vec![])] {
        let text = plain(24, 4, &format!("cache: {cache}\nworkload: {{prompt_tokens: 150}}\n"));
        let run = Sim::new(&text).with("base", remembering()).with("fast", remembering()).run().await;
        assert_eq!(found(&run), [], "{cache}: nobody asked before");
        let again = Sim::new(&text).after(&run).run().await;
        assert_eq!(found(&again), second, "{cache}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_prefix_that_is_shared_on_purpose_is_no_contamination() {
    let text = plain(24, 4, "workload: {prompt_tokens: 400, shared_prefix: {tokens: 200, groups: 2}}\n");
    let run = Sim::new(&text).with("base", remembering()).with("fast", remembering()).run().await;
    assert_eq!(found(&run), []);
    let cached = measured(&run.events).iter().filter(|a| a.usage.cached_tokens > Some(100)).count();
    assert_eq!(cached, 2 * (24 - 2), "all but the first of each group, in both arms");
}

#[tokio::test(start_paused = true)]
async fn equal_prompts_of_one_run_are_found() {
    let text = plain(24, 4, "").replace("What is number 7?", "What is number 3?");
    let run = Sim::new(&text).with("base", remembering()).with("fast", profile(json!({}))).run().await;
    assert_eq!(found(&run), [("prompts_reused".to_owned(), "base".to_owned())]);
    let cold = format!("cache: cold\n{text}");
    let run = Sim::new(&cold).with("base", remembering()).with("fast", remembering()).run().await;
    assert_eq!(found(&run), []);
}

#[tokio::test(start_paused = true)]
async fn a_warm_cache_is_filled_before_each_slot_and_not_counted() {
    let text = plain(96, 4, "cache: warm\n");
    let run = Sim::new(&text).with("base", remembering()).with("fast", remembering()).run().await;
    checks::every_unit_has_one_final_attempt(&run);
    checks::slots_do_not_overlap(&run);
    checks::in_flight_is_at_most(&run, 4);
    assert_eq!(found(&run), []);
    let mut primed: BTreeMap<(String, u32), Vec<u32>> = BTreeMap::new();
    let mut slots_with_measures = 0;
    for event in &run.events {
        match event {
            Event::Attempt(a) if a.phase == Phase::Warmup => {
                if let Some(sample) = run.plan.primed_sample(a.sample) {
                    assert_eq!(a.usage.completion_tokens, Some(1));
                    primed.entry((a.arm.clone(), a.slot)).or_default().push(sample);
                }
            }
            Event::Attempt(a) => {
                assert!(primed[&(a.arm.clone(), a.slot)].contains(&a.sample), "asked before its prompt was");
                assert_eq!(a.usage.cached_tokens, a.usage.prompt_tokens.map(|n| n - 1));
            }
            Event::SlotStarted { phase: Phase::Measured, .. } => slots_with_measures += 1,
            _ => {}
        }
    }
    assert_eq!(primed.len(), slots_with_measures);
    assert_eq!(primed.values().map(Vec::len).sum::<usize>(), 2 * 96);
}

#[tokio::test(start_paused = true)]
async fn conversations_go_round_in_loads_that_end_by_the_clock() {
    let loads = [
        "{stages: [{mode: closed, concurrency: 4, duration: 30s}], warmup_requests: 2}",
        "{stages: [{mode: open, arrivals: {process: poisson, rate_per_s: 10}, duration: 30s}], warmup_requests: 2}",
    ];
    for load in loads {
        let text = plain(24, 1, "workload: {turns: 3, think_time: 400ms}\n")
            .replace("load: {mode: closed, concurrency: 1, warmup_requests: 4}", &format!("load: {load}"));
        let run = ran(&text).await;
        assert_eq!(run.reason, EndReason::Done, "{load}");
        let attempts = measured(&run.events);
        history_was_sent(&run.plan, &attempts);
        let talks = conversations(&run.plan, &attempts);
        let rounds = talks.keys().filter(|(arm, number, _)| arm == "base" && *number == 0).count();
        assert!(rounds > 2, "{load}: {rounds} rounds");
        let whole = talks.values().filter(|turns| turns.len() == 3).count();
        assert!(whole * 10 >= talks.len() * 6, "{load}: {whole} of {} conversations are whole", talks.len());
        for turns in talks.values() {
            let pauses = turns.windows(2).map(|w| w[1].timeline.dispatched_us - w[0].timeline.eof_us.unwrap());
            assert!(pauses.min().is_none_or(|us| us >= 400_000), "{load}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_spent_budget_leaves_later_turns_to_a_resume() {
    let text = plain(48, 4, "budget: {requests: 31}\nworkload: {turns: 4}\n");
    let run = ran(&text).await;
    assert!(matches!(run.reason, EndReason::Budget(_)), "{:?}", run.reason);
    let made = run.transport.stats("base").unwrap().requests + run.transport.stats("fast").unwrap().requests;
    assert_eq!(made, 31);
    let more = text.replace("budget: {requests: 31}\n", "");
    let sim = Sim::new(&more).with("base", profile(json!({}))).with("fast", profile(json!({})));
    let rest = sim.resumed(run.done()).answered(run.answers()).run().await;
    assert_eq!(rest.done().len() + run.done().len(), 96);
    let both: Vec<&Attempt> = measured(&run.events).into_iter().chain(measured(&rest.events)).collect();
    history_was_sent(&run.plan, &both);
}

#[tokio::test(start_paused = true)]
async fn turns_behind_a_failure_of_an_earlier_session_are_recorded_by_the_next() {
    let faults = json!({"faults": [{"kind": "http_500", "rate": 0.3, "by": "sample"}]});
    let text = plain(60, 4, "retry: {max_attempts: 1}\nworkload: {turns: 3, think_time: 3s}\n");
    let sim = || Sim::new(&text).with("base", profile(json!({}))).with("fast", profile(faults.clone()));
    let first = sim().interrupted_after(95).run().await;
    let second = sim().resumed(first.done()).answered(first.answers()).run().await;
    assert_eq!(second.reason, EndReason::Done);
    assert_eq!(second.done().len() + first.done().len(), 120);
    let both: Vec<&Attempt> = measured(&first.events).into_iter().chain(measured(&second.events)).collect();
    for turns in conversations(&first.plan, &both).values() {
        assert_eq!(turns.len(), 3);
        let failed = turns.iter().position(|a| a.outcome.is_error()).unwrap_or(3);
        assert!(turns.iter().enumerate().all(|(turn, a)| a.timeline.sent_us.is_some() == (turn <= failed)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_refuses_leaves_no_turn_without_its_outcome() {
    let strict = json!({"strict_model": true, "model": "another"});
    let sim = Sim::new(&plain(96, 4, "workload: {turns: 3, think_time: 1s}\n"));
    let run = sim.with("base", profile(json!({}))).with("fast", profile(strict)).run().await;
    assert_eq!(run.reason, EndReason::Done);
    checks::every_unit_has_one_final_attempt(&run);
    let refused: Vec<_> = measured(&run.events).into_iter().filter(|a| a.arm == "fast").collect();
    assert!(refused.iter().all(|a| a.outcome == Outcome::BadRequest));
    assert!(run.transport.stats("fast").unwrap().requests <= 24);
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_as_cold_as_the_first_attempt() {
    let fields =
        json!({"prefix_cache": true, "faults": [{"kind": "cut", "rate": 0.3, "by": "request", "after_tokens": 1}]});
    let text =
        plain(48, 4, "cache: cold\nretry: {max_attempts: 8, base: 10ms, cap: 20ms}\nworkload: {prompt_tokens: 100}\n");
    let run = Sim::new(&text).with("base", remembering()).with("fast", profile(fields)).run().await;
    let mut hashes = std::collections::HashSet::new();
    let attempts = measured(&run.events);
    assert!(attempts.iter().any(|a| a.attempt > 1));
    assert!(attempts.iter().all(|a| hashes.insert(a.sent_prompt_hash.unwrap())), "two attempts were sent one prompt");
    assert!(attempts.iter().all(|a| a.usage.cached_tokens.is_none_or(|n| n == 0)));
}

#[tokio::test(start_paused = true)]
async fn arms_side_by_side_fill_their_own_caches() {
    let text = plain(96, 4, "arms: together\ncache: warm\n");
    let run = Sim::new(&text).with("base", remembering()).with("fast", remembering()).run().await;
    checks::every_unit_has_one_final_attempt(&run);
    assert!(measured(&run.events).iter().all(|a| a.usage.cached_tokens == a.usage.prompt_tokens.map(|n| n - 1)));
}
