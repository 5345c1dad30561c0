//! Conversations and prompt caches over real sockets.

use std::collections::BTreeMap;

use counterpoise::drive::{Attempt, Event, sent_hash};
use counterpoise::plan::{Message, Phase};
use counterpoise::record::RunDir;
use counterpoise::spec::Role;
use serde_json::json;

use crate::kit::{Dir, api, server, suite};
use crate::resume::{signal, start};

/// Final measured attempts of a run.
fn finals(dir: &Dir) -> Vec<Attempt> {
    let events = RunDir::open(&dir.path("run")).unwrap().journal().unwrap();
    let last = events.filter_map(|event| match event.unwrap() {
        Event::Attempt(attempt) if attempt.last && attempt.phase == Phase::Measured => Some(*attempt),
        _ => None,
    });
    last.collect()
}

#[test]
fn what_keeps_a_cache_cold_is_the_engine_s_own_switch_and_is_told() {
    let dir = Dir::new();
    let server = server(json!({"prefix_cache": true}));
    let cand = format!("url: \"{}\"", server.url());
    dir.write("s.yaml", &suite(40, &api(&server.url()), Some(&cand), ""));
    dir.run(&["run", "s.yaml", "--out", "run"]).exits(0);
    assert_eq!(dir.json("run/plan.json")["suite"]["cache"], "cold", "two arms and a twin ask one server");
    let summary = dir.json("run/summary.json");
    let told = summary["environment"]["cache"].as_object().unwrap();
    assert_eq!(told.keys().collect::<Vec<_>>(), ["base", "base-twin", "cand"]);
    assert!(told.values().all(|how| how == "cold: `cache_prompt: false` in each request"), "{told:?}");
    assert!(finals(&dir).iter().all(|a| a.usage.cached_tokens == Some(0) && a.sent_prompt_hash.is_none()));
    // The same run with the cache as it is: figures are withdrawn.
    dir.run(&["run", "s.yaml", "--set", "cache=as_is", "--out", "as-is"]).exits(0);
    let found = dir.json("as-is/summary.json")["validity"].to_string();
    assert!(found.contains("cache_contaminated"), "{found}");
}

#[test]
fn an_interrupted_conversation_goes_on_with_what_was_said() {
    let dir = Dir::new();
    let server = server(json!({"ttft_ms": {"fixed": 60.0}}));
    dir.write("s.yaml", &suite(160, &api(&server.url()), None, "workload: {turns: 4, think_time: 5ms}\n"));
    let mut child = start(&dir);
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    dir.run(&["run", "--resume", "run"]).exits(0);
    let plan = RunDir::open(&dir.path("run")).unwrap().plan().unwrap();
    let mut talks: BTreeMap<u32, Vec<Attempt>> = BTreeMap::new();
    for attempt in finals(&dir) {
        let (number, _) = plan.samples[attempt.sample as usize].conversation.unwrap();
        talks.entry(number).or_default().push(attempt);
    }
    assert_eq!(talks.len(), 40);
    let mut over_both = 0;
    for turns in talks.values_mut() {
        turns.sort_by_key(|a| a.sample);
        assert_eq!(turns.len(), 4);
        over_both += u32::from(turns[0].session != turns[3].session);
        let mut said: Vec<Message> = Vec::new();
        for (turn, attempt) in turns.iter().enumerate() {
            said.extend_from_slice(&plan.samples[attempt.sample as usize].messages);
            assert_eq!(attempt.sent_prompt_hash, (turn > 0).then(|| sent_hash(&said)), "turn {turn}");
            said.push(Message { role: Role::Assistant, content: attempt.text.clone() });
        }
    }
    assert!(over_both > 0, "no conversation was cut by the interrupt");
}

#[test]
fn the_shipped_chat_traffic_runs() {
    let dir = Dir::new();
    let sets = ["deployments.chat.api=simulated", "load.arrivals.rate_per_s=40", "workload.think_time=20ms"];
    // The simulated model knows none of the answers, which is told; what counts here is what was asked, and when.
    let mut args = vec!["run", "builtin:chat-load", "--out", "run", "--inconclusive", "pass"];
    let env = [("CHAT_URL", "http://127.0.0.1:1/v1"), ("CHAT_MODEL", "sim-exact")];
    let told = dir.run_with(&["plan", "builtin:chat-load"], &env).exits(0).out;
    assert!(told.contains("64 requests") && told.contains("of up to 4 turns"), "{told}");
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    dir.run_with(&args, &env).exits(0);
    let attempts = finals(&dir);
    assert_eq!(attempts.len(), 64);
    let plan = RunDir::open(&dir.path("run")).unwrap().plan().unwrap();
    for attempt in &attempts {
        let sample = &plan.samples[attempt.sample as usize];
        assert!(attempt.usage.completion_tokens <= sample.max_tokens.map(u64::from));
        assert_eq!(attempt.sent_prompt_hash.is_some(), sample.conversation.unwrap().1 > 0);
    }
    assert!(attempts.iter().any(|a| plan.samples[a.sample as usize].conversation.unwrap().1 == 3));
}
