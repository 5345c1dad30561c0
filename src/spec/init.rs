//! The suite that `init` writes: small, commented, and without a mistake.

/// A commented suite for a baseline and a candidate; without URLs it names ports of this machine.
pub fn init_template(baseline: Option<&str>, candidate: Option<&str>) -> String {
    let quoted = |url: Option<&str>, default: &str| {
        let url = url.unwrap_or(default);
        // JSON's quoting is YAML's double quoting: any text is safe in it.
        serde_json::to_string(url).unwrap_or_else(|_| format!("\"{default}\""))
    };
    TEMPLATE
        .replace("@BASELINE@", &quoted(baseline, "http://127.0.0.1:8000/v1"))
        .replace("@CANDIDATE@", &quoted(candidate, "http://127.0.0.1:8001/v1"))
}

const TEMPLATE: &str = r#"# A Counterpoise suite: what the candidate costs in quality, and what it buys in speed and money.
# `counterpoise validate THIS` finds every mistake, `plan` shows what would be sent, `run` runs it.
suite: my-first-gate

deployments:
  # The first deployment is the baseline of all others.
  baseline:
    url: @BASELINE@            # version path included; /chat/completions is appended
    model: my-model
    # api_key_env: MY_API_KEY  # the NAME of a variable; a key itself is an error
    # price: {input_usd_per_mtok: 0.10, output_usd_per_mtok: 0.40}   # or {gpu_usd_per_hour: 2.5, gpus: 1}
  candidate:
    extends: baseline          # keys below win over the baseline's
    url: @CANDIDATE@
    optimization: weight-quantized   # kv-quantized, speculative, truncated-context, sliding-window, vendor, release

sampling: {temperature: 0, max_tokens: 64}
load: {concurrency: 2, warmup_requests: 2}

tasks:
  - name: capitals
    category: qa
    # A file is better than rows in place: `dataset: {file: capitals.jsonl}`, one JSON object a line, or .csv.
    cases:
      - {question: What is the capital of Italy?, answer: Rome}
      - {question: What is the capital of Norway?, answer: Oslo}
      - {question: What is the capital of Japan?, answer: Tokyo}
      - {question: What is the capital of Peru?, answer: Lima}
    prompt: "{{ question }} Answer with the name alone."
    graders:
      - contains: {answer: "{{ answer }}"}
    examples:                  # replies with the verdict that they must get; `validate` runs them
      - {row: {question: What is the capital of Italy?, answer: Rome}, reply: "It is Rome.", pass: true}
      - {row: {question: What is the capital of Italy?, answer: Rome}, reply: Paris, pass: false}

  - name: sums
    category: arithmetic
    cases:
      - {question: What is 17 + 25?, answer: 42}
      - {question: What is 9 * 8?, answer: 72}
      - {question: What is 100 - 37?, answer: 63}
    prompt: "{{ question }} Answer with the number alone."
    graders:
      - numeric: {answer: "{{ answer }}"}

gates:
  # The candidate may lose at most five points of accuracy, with 95 % confidence. Four questions can't show that:
  # the verdict stays inconclusive until the tasks have some hundreds of rows. `plan` says how many.
  - quality: {metric: accuracy, margin: 5pp}
  - stability: {metric: error_rate, at_most: 2%}
  # - speed: {metric: ttft_p50, ratio_at_most: 0.9}    # needs at least 24 samples per unit of concurrency
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::load::{LoadOptions, SuiteSource, load};
    use crate::world::FixedWorld;

    #[test]
    fn the_first_suite_has_no_mistake() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("suite.yaml");
        for (baseline, candidate) in [(None, None), (Some("https://a.example/v1"), Some("http://b:1/v1"))] {
            std::fs::write(&path, init_template(baseline, candidate)).unwrap();
            let loaded = load(SuiteSource::Path(path.clone()), &FixedWorld::new(&[]), &LoadOptions::default()).unwrap();
            assert_eq!(loaded.warnings, []);
            assert_eq!(
                loaded.suite.deployments[0].url.as_deref(),
                Some(baseline.unwrap_or("http://127.0.0.1:8000/v1"))
            );
            assert_eq!(loaded.suite.comparisons.len(), 1);
            assert_eq!(loaded.suite.deployments[1].model, loaded.suite.deployments[0].model);
        }
    }

    #[test]
    fn a_hostile_url_stays_one_value() {
        let text = init_template(Some("http://x\"\nevil: 1"), None);
        assert!(text.contains(r#"url: "http://x\"\nevil: 1""#));
    }
}
