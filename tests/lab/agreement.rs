//! What the instrument measured against what the engine says of itself.

use std::collections::BTreeMap;

use counterpoise::analyze::figures;
use counterpoise::drive::Attempt;
use serde_json::Value;

fn timing(attempt: &Attempt, name: &str) -> f64 {
    let timings = attempt.server_timings.as_ref().expect("llama.cpp tells its timings");
    timings.get(name).and_then(Value::as_f64).unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub fn token_counts_agree_with_the_server(attempts: &[Attempt]) {
    for attempt in attempts {
        let predicted = timing(attempt, "predicted_n") as u64;
        assert_eq!(attempt.output_tokens.unwrap().0, predicted, "{:?}", attempt.server_timings);
        let prompt = timing(attempt, "prompt_n") + attempt.usage.cached_tokens.unwrap_or(0) as f64;
        assert_eq!(attempt.usage.prompt_tokens.unwrap() as f64, prompt, "{:?}", attempt.usage);
        assert!(attempt.arrival_gaps_us.len() as u64 <= predicted, "more events than tokens");
    }
}

/// TTFT holds the server's prefill and its first token; TPOT is its time per predicted token. Bounds are on medians:
/// a single request shares two cores with whatever else runs.
pub fn timings_agree_with_the_server(attempts: &[Attempt]) {
    for arm in ["q8", "q4", "kv-q4"] {
        let of_arm: Vec<&Attempt> = attempts.iter().filter(|a| a.arm == arm).collect();
        let beyond = |a: &&Attempt| Some(figures::ttft_ms(a)? - timing(a, "prompt_ms"));
        let beyond_prefill = median(of_arm.iter().filter_map(beyond).collect());
        let prefill = median(of_arm.iter().map(|a| timing(a, "prompt_ms")).collect());
        // Two streams share the engine: a prompt may wait for the other's step before its prefill begins.
        assert!(beyond_prefill > -1.0, "{arm}: first token {beyond_prefill} ms before the prefill ended");
        assert!(beyond_prefill < 100.0 + 2.0 * prefill, "{arm}: {beyond_prefill} ms beyond a prefill of {prefill} ms");
        let ratio = |a: &&Attempt| {
            let long = a.output_tokens?.0 >= 8;
            Some(figures::tpot_ms(a)? / timing(a, "predicted_per_token_ms")).filter(|_| long)
        };
        let ratio = median(of_arm.iter().filter_map(ratio).collect());
        assert!((0.8..1.25).contains(&ratio), "{arm}: measured TPOT ÷ the server's = {ratio}");
    }
}

/// The engine's counters moved by exactly the tokens of this run's answers: nothing was lost and nobody else asked.
pub fn counters_moved_by_what_was_asked(
    arm: &str,
    before: &BTreeMap<String, f64>,
    after: &BTreeMap<String, f64>,
    attempts: &[Attempt],
) {
    let twin = format!("{arm}-twin");
    let of_arm = || attempts.iter().filter(|a| a.arm == arm || a.arm == twin);
    let output: u64 = of_arm().map(|a| a.output_tokens.unwrap().0).sum();
    let moved = |name: &str| after[name] - before[name];
    assert_eq!(moved("tokens_predicted_total") as u64, output, "{arm}");
    let input: u64 = of_arm().map(|a| a.usage.prompt_tokens.unwrap() - a.usage.cached_tokens.unwrap_or(0)).sum();
    assert_eq!(moved("prompt_tokens_total") as u64, input, "{arm}");
}
