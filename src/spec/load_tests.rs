use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::spec::{
    Api, ArmsMode, CacheMode, Distribution, GateKind, GraderKind, Keep, Load, Optimization, RetryOn, Role,
    SharedPrefix, SpeedMetric, Start,
};
use crate::units::Span;
use crate::world::FixedWorld;

/// A world in which every variable is set, to a URL.
struct AnyUrl;

impl World for AnyUrl {
    fn clock(&self) -> crate::world::Clock {
        crate::world::Clock::start()
    }

    fn wall_ms(&self) -> u64 {
        0
    }

    fn env(&self, _: &str) -> Option<String> {
        Some("http://127.0.0.1:1/v1".into())
    }
}

/// A folder with a suite and its files.
struct Home(tempfile::TempDir);

impl Home {
    fn new(files: &[(&str, &str)]) -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        for (name, content) in files {
            let path = home.0.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        home
    }

    fn suite(&self) -> PathBuf {
        self.0.path().join("suites/s.yaml")
    }

    fn load(&self, env: &[(&str, &str)], options: &LoadOptions) -> Result<Loaded, String> {
        let loaded = load(SuiteSource::Path(self.suite()), &FixedWorld::new(env), options);
        let folder = format!("{}/suites/", self.0.path().display());
        loaded.map_err(|d| d.concise().replace(&folder, ""))
    }
}

const SMALL: &str = "\
suite: small
deployments: {a: {url: http://a/v1}, b: {extends: a, url: http://b/v1}}
tasks: [{name: t, cases: [{q: x, answer: no}], prompt: '{{ q }}', graders: [{exact: {}}]}]
";

/// Everything of the design's example that this version acts on.
const WHOLE: &str = r#"
suite: quant-gate
root: ..
deployments:
  baseline:
    api: openai-chat
    url: ${env:BASELINE_URL}
    model: smollm2-135m-q8_0
    api_key_env: LAB_API_KEY
    optimization: none
    host: gpu-a
    headers: {X-Team: evals, Authorization: "Bearer ${env:TOKEN}"}
    query: {version: 2}
    tls: {ca_file: suites/ca.pem}
    ready_timeout: 10m
    body: {cache_prompt: false, logit_bias: null, n: 1, stop_mode: no}
    metrics_url: http://127.0.0.1:8101/metrics
    price: {input_usd_per_mtok: 0.10, cached_input_usd_per_mtok: 0.05, output_usd_per_mtok: 0.40}
    context: {max_prompt_tokens: 512, keep: middle_out}
    timeouts: {connect: 5s, first_token: 60s, between_tokens: 30s, total: 300s}
    limits: {in_flight: 64, requests_per_min: 600, tokens_per_min: 200000}
  q4: {extends: baseline, url: "${env:Q4_URL}", model: smollm2-135m-q4_0, optimization: weight-quantized, sampling: {temperature: null, top_k: 5}, price: {output_usd_per_mtok: 0.20}}
comparisons: [{baseline: baseline, candidate: q4}]
sampling: {temperature: 0, max_tokens: 256, seed: 7, stop: "\n\n"}
repeats: 2
arms: alternate
cache: as_is
workload:
  mix: {capitals: 3, form: 1}
  prompt_tokens: {lognormal: {median: 800, p95: 4000}}
  output_tokens: {file: fixtures/lengths.txt}
  shared_prefix: {tokens: 500, groups: 4}
  turns: {uniform: {min: 1, max: 4}}
  think_time: 1500ms
  stream: true
noise_floor: true
retry: {max_attempts: 3, on: [rate_limited, timeout], base: 1s, cap: 30s}
budget: {usd: 20, requests: 20000, time: 2h}
load: {mode: closed, concurrency: 1, warmup_requests: 8, start: burst}
slo: {ttft_p95: 1500ms, tpot_p95: 80ms, error_rate: 2%}
tasks:
  - name: capitals
    category: qa
    dataset: {file: fixtures/capitals.jsonl, limit: 1000}
    prompt: "Q: {{ question }}\nA:"
    system: Be brief.
    cluster_by: passage
    graders: [{exact: {answer: "{{ answer }}"}}, {regex: {name: form, pattern: "^[A-Z]", weight: 0}}]
    examples: [{row: {question: q, answer: Rome}, reply: "Rome.", pass: true}]
  - name: form
    dataset: {file: fixtures/rows.csv}
    messages: [{role: system, content: JSON only}, {role: user, content: "{{ text }}"}]
    graders:
      - json: {schema: fixtures/s.json, fields: {name: "{{ name }}", n: 1}}
      - any: [{contains: {answer: [a, "{{ name }}"]}}, {not: {numeric: {answer: 3, abs_tolerance: 0.5}}}]
    response_format: {type: json_object}
    latency: false
    grade_truncated: true
    weight: 2
gates:
  - quality: {metric: accuracy, margin: 2pp, confidence: 0.95, at_least: 60%}
  - quality: {metric: form, each: category, margin: 5pp, scope: {task: capitals}, advisory: true}
  - speed: {metric: ttft_p50, ratio_at_most: 0.9}
  - slo: {all: true}
  - stability: {metric: error_rate, at_most: 2%}
    advisory: true
  - cost: {metric: usd_per_success, ratio_at_most: 1.05}
"#;

fn whole() -> Home {
    let rows: String =
        (0..30).map(|i| json!({"question": format!("q{i}"), "answer": "a", "passage": i}).to_string() + "\n").collect();
    Home::new(&[
        ("suites/s.yaml", WHOLE),
        ("suites/ca.pem", "x"),
        ("fixtures/capitals.jsonl", &rows),
        ("fixtures/lengths.txt", "16\n\n64.0\r\n"),
        ("fixtures/rows.csv", "text,name\nx,no\n"),
        ("fixtures/s.json", r#"{"type": "object"}"#),
    ])
}

const ENV: [(&str, &str); 3] = [("BASELINE_URL", "http://base:1/v1"), ("Q4_URL", "http://q4:1/v1"), ("TOKEN", "t0p")];

#[test]
fn the_whole_format_is_read() {
    let loaded = whole().load(&ENV, &LoadOptions::default()).unwrap();
    assert_eq!(loaded.warnings, []);
    let suite = &loaded.suite;
    assert_eq!((suite.name.as_str(), suite.repeats, suite.noise_floor), ("quant-gate", 2, true));
    let [base, q4] = &suite.deployments[..] else { panic!("{:?}", suite.deployments) };
    assert_eq!(base.url.as_deref(), Some("${env:BASELINE_URL}"));
    assert_eq!(loaded.live.deployments[1].url.as_deref(), Some("http://q4:1/v1"));
    assert_eq!(loaded.live.deployments[0].headers["Authorization"], "Bearer t0p");
    assert_eq!(json!(base.body), json!({"cache_prompt": false, "logit_bias": null, "n": 1, "stop_mode": "no"}));
    assert_eq!(base.context.as_ref().map(|c| c.keep), Some(Keep::MiddleOut));
    assert_eq!(q4.optimization, Optimization::WeightQuantized);
    assert_eq!((q4.sampling.temperature, q4.sampling.top_k, q4.sampling.max_tokens), (None, Some(5), 256));
    assert_eq!((base.sampling.temperature, &base.sampling.stop), (Some(0.0), &vec!["\n\n".to_owned()]));
    let price = q4.price.as_ref().unwrap();
    assert_eq!(price.output_usd_per_mtok.unwrap().to_string(), "0.20");
    assert_eq!(price.input_usd_per_mtok.unwrap().to_string(), "0.10");
    assert!(base.tls_ca_file.as_ref().unwrap().ends_with("suites/ca.pem"));
    assert_eq!(suite.retry.on, [RetryOn::RateLimited, RetryOn::Timeout]);
    assert_eq!(suite.load, Load::Closed { concurrency: 1, warmup_requests: 8, start: Start::Burst });
    let workload = suite.workload.as_ref().unwrap();
    assert_eq!(workload.mix, [("capitals".to_owned(), 3.0), ("form".to_owned(), 1.0)].into());
    assert_eq!(workload.prompt_tokens, Some(Distribution::Lognormal { median: 800.0, p95: 4000.0, max: None }));
    assert!(matches!(&workload.output_tokens, Some(Distribution::File { path }) if path.is_absolute()));
    assert_eq!(workload.shared_prefix, Some(SharedPrefix { tokens: 500, groups: 4 }));
    assert_eq!(workload.turns, Some(Distribution::Uniform { min: 1.0, max: 4.0 }));
    assert_eq!((&workload.think_time, workload.stream), (&Some(Distribution::Fixed(1.5)), true));
    assert_eq!(suite.slo.iter().map(|s| s.at_most).collect::<Vec<_>>(), [1500.0, 80.0, 0.02]);
    let [capitals, form] = &suite.tasks[..] else { panic!() };
    assert_eq!(capitals.messages.iter().map(|m| m.role).collect::<Vec<_>>(), [Role::System, Role::User]);
    assert_eq!(capitals.messages[1].content, "Q: {{ question }}\nA:");
    assert_eq!(capitals.graders[1].name, "form");
    assert!(matches!(&form.graders[0].kind, GraderKind::Json { schema: Some(s), .. } if s.source == "fixtures/s.json"));
    let GraderKind::Any(inner) = &form.graders[1].kind else { panic!() };
    assert!(matches!(&inner[1].kind, GraderKind::Not(not) if not.name == "numeric"));
    assert!(!form.latency && form.grade_truncated);
    let advisory: Vec<bool> = suite.gates.iter().map(|g| g.advisory).collect();
    assert_eq!(advisory, [false, true, false, false, true, false]);
    assert_eq!(suite.gates[1].scope.task.as_deref(), Some("capitals"));
    let GateKind::Quality { margin, at_least, .. } = suite.gates[0].kind else { panic!() };
    assert!((margin - 0.02).abs() < 1e-12 && at_least == Some(0.6));
}

#[test]
fn what_is_left_out_has_the_documented_default() {
    let home = Home::new(&[("suites/s.yaml", SMALL)]);
    let suite = home.load(&[], &LoadOptions::default()).unwrap().suite;
    assert_eq!(suite.load, Load::Closed { concurrency: 4, warmup_requests: 8, start: Start::Spread });
    assert_eq!((suite.repeats, suite.arms, suite.cache), (1, ArmsMode::Alternate, CacheMode::Cold));
    assert_eq!(suite.workload, None);
    assert!(suite.noise_floor, "a candidate, and tokens cost nothing");
    assert_eq!(
        (suite.retry.max_attempts, suite.retry.base, suite.retry.cap),
        (3, Span::from_ms(1000), Span::from_ms(30_000))
    );
    assert_eq!(suite.retry.on, [RetryOn::RateLimited, RetryOn::ServerError, RetryOn::Transport]);
    assert_eq!((suite.sampling.temperature, suite.sampling.max_tokens, suite.sampling.seed), (Some(0.0), 256, 7));
    let a = &suite.deployments[0];
    assert_eq!((a.api, a.optimization, a.ready_timeout), (Api::OpenaiChat, Optimization::None, Span::from_ms(600_000)));
    assert_eq!(a.timeouts.first_token, Span::from_ms(60_000));
    assert_eq!((a.timeouts.connect, a.timeouts.total), (Span::from_ms(5_000), Span::from_ms(300_000)));
    assert_eq!(suite.comparisons.len(), 1);
    assert_eq!((suite.comparisons[0].baseline.as_str(), suite.comparisons[0].candidate.as_str()), ("a", "b"));
    let GraderKind::Exact { answer } = &suite.tasks[0].graders[0].kind else { panic!() };
    assert_eq!(answer.0, json!("{{ answer }}"));
    assert_eq!(suite.tasks[0].weight.to_bits(), 1.0_f64.to_bits());
}

#[test]
fn answers_stay_what_was_written() {
    let text = SMALL.replace(
        "[{q: x, answer: no}]",
        "[{q: x, answer: no}, {q: x, answer: 012}, {q: 1, answer: 1.20}, {q: ~, answer: 5}]",
    );
    let suite = Home::new(&[("suites/s.yaml", &text)]).load(&[], &LoadOptions::default()).unwrap().suite;
    let rows = crate::spec::dataset::read(&suite.tasks[0], None).unwrap();
    let answers: Vec<_> = rows.iter().map(|r| r["answer"].clone()).collect();
    assert_eq!(json!(answers), json!(["no", "012", "1.20", 5]));
}

#[test]
fn a_priced_baseline_has_no_twin_unless_asked() {
    let priced = SMALL.replace("{url: http://a/v1}", "{url: http://a/v1, price: {output_usd_per_mtok: 1}}");
    let load = |text: &str| Home::new(&[("suites/s.yaml", text)]).load(&[], &LoadOptions::default()).unwrap().suite;
    assert!(!load(&priced).noise_floor);
    assert!(load(&format!("{priced}noise_floor: true\n")).noise_floor);
    let by_hour = SMALL.replace("{url: http://a/v1}", "{url: http://a/v1, price: {gpu_usd_per_hour: 2.5, gpus: 2}}");
    assert!(load(&by_hour).noise_floor);
    let alone = SMALL.replace(", b: {extends: a, url: http://b/v1}", "");
    assert!(!load(&alone).noise_floor);
}

#[test]
fn arms_of_one_server_keep_its_cache_out_of_play_unless_asked() {
    let cache = |text: &str| {
        let loaded = Home::new(&[("suites/s.yaml", text)]).load(&[("X", "http://a/v2")], &LoadOptions::default());
        loaded.unwrap().suite.cache
    };
    let alone = format!("noise_floor: false\n{SMALL}");
    assert_eq!(cache(SMALL), CacheMode::Cold, "the twin asks the baseline's own server");
    assert_eq!(cache(&alone), CacheMode::AsIs, "two servers and no twin");
    assert_eq!(cache(&alone.replace("http://b/v1", "http://a/v2")), CacheMode::Cold);
    assert_eq!(cache(&alone.replace("http://b/v1", "\"${env:X}\"")), CacheMode::Cold);
    assert_eq!(cache(&format!("cache: warm\n{SMALL}")), CacheMode::Warm);
    let simulated = SMALL.replace("url: http://a/v1", "api: simulated").replace("url: http://b/v1", "api: simulated");
    assert_eq!(cache(&simulated), CacheMode::AsIs, "a simulated server has the cache that its profile gives it");
}

#[test]
fn a_shared_prefix_with_a_cold_cache_is_a_warning() {
    let text = format!("{SMALL}workload: {{shared_prefix: {{tokens: 100}}}}\n");
    let loaded = Home::new(&[("suites/s.yaml", &text)]).load(&[], &LoadOptions::default()).unwrap();
    assert_eq!(loaded.warnings.iter().map(|w| (w.code, w.line)).collect::<Vec<_>>(), [("cold-prefix", 4)]);
    let text = format!("cache: as_is\n{text}");
    let loaded = Home::new(&[("suites/s.yaml", &text)]).load(&[], &LoadOptions::default()).unwrap();
    assert_eq!(loaded.warnings, []);
}

#[test]
fn the_command_line_overrides_the_file() {
    let options = LoadOptions {
        set: vec![
            "deployments.a.url=http://other:9/v1".into(),
            "load.concurrency=16".into(),
            "tasks.t.weight=3".into(),
        ],
        ..LoadOptions::default()
    };
    let suite = Home::new(&[("suites/s.yaml", SMALL)]).load(&[], &options).unwrap().suite;
    assert_eq!(suite.deployments[0].url.as_deref(), Some("http://other:9/v1"));
    assert_eq!(suite.load.concurrency(), 16);
    assert_eq!(suite.tasks[0].weight.to_bits(), 3.0_f64.to_bits());
    let wrong = LoadOptions { set: vec!["load.concurency=2".into()], ..LoadOptions::default() };
    let told = Home::new(&[("suites/s.yaml", SMALL)]).load(&[], &wrong).unwrap_err();
    assert!(told.starts_with("--set:1:6: error[unknown-key]"), "{told}");
    assert!(told.contains("did you mean `concurrency`"), "{told}");
}

#[test]
fn tasks_and_samples_are_narrowed() {
    let options = LoadOptions { task_glob: Some("cap*".into()), limit: Some(5), set: vec![] };
    let home = whole();
    let suite = home.load(&ENV, &options).unwrap().suite;
    assert_eq!(suite.tasks.len(), 1);
    assert_eq!(crate::spec::dataset::read(&suite.tasks[0], None).unwrap().len(), 5);
    assert_eq!(suite.gates.len(), 6);
    // The gate on `capitals` stays where that task is left out, and is told.
    let form = LoadOptions { task_glob: Some("form".into()), ..LoadOptions::default() };
    let loaded = whole().load(&ENV, &form).unwrap();
    assert_eq!(loaded.suite.gates.len(), 6);
    let told: Vec<&str> = loaded.warnings.iter().map(|w| w.code).filter(|c| *c == "gate-left-out").collect();
    assert_eq!(told, ["gate-left-out"]);
    let none = LoadOptions { task_glob: Some("x?".into()), ..LoadOptions::default() };
    assert!(whole().load(&ENV, &none).unwrap_err().contains("unknown-task"));
    let nothing = LoadOptions { limit: Some(0), ..LoadOptions::default() };
    assert!(whole().load(&ENV, &nothing).unwrap_err().contains("--limit 0"));
    for (glob, name, fits) in [
        ("*", "", true),
        ("a*b", "axxb", true),
        ("a*b", "axxc", false),
        ("?", "ü", true),
        ("a**", "a", true),
        ("", "a", false),
    ] {
        assert_eq!(glob_fits(glob, name), fits, "{glob} {name}");
    }
}

#[test]
fn variables_are_told_by_name_and_never_by_value() {
    let told = whole().load(&ENV[..2], &LoadOptions::default()).unwrap_err();
    assert!(told.contains("the environment variable `TOKEN` is not set"), "{told}");
    let bad = [("BASELINE_URL", "ftp://hunter2"), ENV[1], ENV[2]];
    let told = whole().load(&bad, &LoadOptions::default()).unwrap_err();
    assert!(told.contains("bad-url") && !told.contains("hunter2"), "{told}");
}

#[test]
fn a_stored_suite_is_filled_in_again() {
    let loaded = whole().load(&ENV, &LoadOptions::default()).unwrap();
    let stored = serde_json::to_string(&loaded.suite).unwrap();
    assert!(!stored.contains("t0p") && stored.contains("${env:TOKEN}"));
    let read: Suite = serde_json::from_str(&stored).unwrap();
    assert_eq!(read, loaded.suite);
    assert_eq!(env::interpolate(&read, &FixedWorld::new(&ENV)).unwrap(), loaded.live);
    assert_eq!(
        env::interpolate(&read, &FixedWorld::new(&[])),
        Err(vec!["BASELINE_URL".into(), "Q4_URL".into(), "TOKEN".into()])
    );
}

#[test]
fn rows_are_never_interpolated() {
    let text = SMALL.replace("{q: x, answer: no}", "{q: '${env:SECRET}', answer: '${env:'}");
    let loaded = Home::new(&[("suites/s.yaml", &text)]).load(&[("SECRET", "s")], &LoadOptions::default()).unwrap();
    let rows = crate::spec::dataset::read(&loaded.live.tasks[0], None).unwrap();
    assert_eq!(rows[0]["q"], "${env:SECRET}");
}

#[test]
fn all_mistakes_are_told_at_once_and_in_order() {
    let text = "\
suite: s
deploments: {}
deployments:
  a: {url: ftp://x, modle: m, api_key: sk-123456}
  b: {extends: c, timeouts: {connect: 5}}
repeats: many
tasks:
  - {name: t, cases: [{q: 1}], promt: x, prompt: '{{ qq }}', graders: [{exakt: {}}]}
gates: [{quality: {margin: 2}}, {speed: {metric: ttft_p42, ratio_at_most: 1}}]
";
    let told = Home::new(&[("suites/s.yaml", text)]).load(&[], &LoadOptions::default()).unwrap_err();
    let codes: Vec<&str> = told.lines().map(|l| l.split(": ").take(2).last().unwrap()).collect();
    let lines: Vec<&str> = told.lines().map(|l| l.split(':').nth(1).unwrap()).collect();
    let want = [
        "error[unknown-key]",
        "error[bad-url]",
        "error[unknown-key]",
        "error[literal-secret]",
        "error[missing-key]",
        "error[unknown-deployment]",
        "error[bad-duration]",
        "error[wrong-type]",
        "error[unknown-key]",
        "error[unknown-variable]",
        "error[unknown-kind]",
        "error[bad-share]",
        "error[unknown-metric]",
    ];
    assert_eq!(codes, want, "{told}");
    assert_eq!(lines, ["2", "4", "4", "4", "5", "5", "5", "6", "8", "8", "8", "9", "9"]);
    assert!(!told.contains("sk-123456"));
}

#[test]
fn an_inherited_mistake_is_told_once() {
    let text = SMALL.replace("a: {url: http://a/v1}", "a: {url: http://a/v1, timeouts: {conect: 5s}}");
    let told = Home::new(&[("suites/s.yaml", &text)]).load(&[], &LoadOptions::default()).unwrap_err();
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn files_that_are_no_suite_are_refused() {
    let told = |bytes: &[u8]| {
        let home = Home::new(&[("suites/s.yaml", "")]);
        std::fs::write(home.suite(), bytes).unwrap();
        home.load(&[], &LoadOptions::default()).unwrap_err()
    };
    assert!(told(b"").contains("error[empty-suite]"));
    assert!(told(b"# only a comment\n").contains("error[empty-suite]"));
    assert!(told(b"suite: \xff\n").starts_with("s.yaml:1:8: error[not-utf8]"));
    assert!(told(b"\xef\xbb\xbfsuite: [").contains("error[yaml-syntax]"));
    assert!(told(b"[1, 2]").contains("error[wrong-type]"));
    assert!(told(&vec![b'#'; yaml::MAX_BYTES + 1]).contains("error[too-large]"));
    let home = Home::new(&[("suites/other.yaml", "")]);
    assert!(home.load(&[], &LoadOptions::default()).unwrap_err().contains("error[missing-file]"));
}

#[test]
fn a_suite_inside_the_program_loads() {
    for name in builtin::suite_names() {
        let inside = load(SuiteSource::parse(&format!("builtin:{name}")), &AnyUrl, &LoadOptions::default());
        let inside = inside.unwrap_or_else(|told| panic!("{name}: {told}"));
        assert_eq!(inside.warnings, [], "{name}");
        let path = format!("{}/suites/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let outside = load(SuiteSource::Path(path.into()), &AnyUrl, &LoadOptions::default()).unwrap();
        for (a, b) in inside.suite.tasks.iter().zip(&outside.suite.tasks) {
            let rows = |task| crate::spec::dataset::read(task, None).unwrap();
            assert_eq!(rows(a), rows(b), "{name}");
        }
    }
    let told = load(SuiteSource::parse("builtin:smok"), &AnyUrl, &LoadOptions::default()).unwrap_err();
    assert_eq!(told.0[0].hint.as_deref(), Some("did you mean `smoke`?"));
}

#[test]
fn a_fault_in_a_block_is_told_on_its_own_line() {
    let text = SMALL.replace(
        "tasks: [{name: t, cases: [{q: x, answer: no}], prompt: '{{ q }}', graders: [{exact: {}}]}]",
        "tasks:\n- name: t\n  cases: [{q: x, answer: no}]\n  graders: [{exact: {}}]\n  prompt: |\n    fine\n\n    {{ q | uper }}\n    fine",
    );
    let told = |text: &str| Home::new(&[("suites/s.yaml", text)]).load(&[], &LoadOptions::default()).unwrap_err();
    assert!(told(&text).starts_with("s.yaml:10:5: error[bad-template]"), "{}", told(&text));
    let text = text.replace("fine\n\n    {{ q | uper }}", "\n    {{ q }}\n    {{ qq }}");
    assert!(told(&text).starts_with("s.yaml:10:5: error[unknown-variable]"), "{}", told(&text));
}

#[test]
fn rows_of_one_id_are_a_warning() {
    let text = SMALL
        .replace("{q: x, answer: no}", "{id: 1, q: x, answer: no}, {id: 2, q: y, answer: a}, {id: 1, q: z, answer: b}");
    let loaded = Home::new(&[("suites/s.yaml", &text)]).load(&[], &LoadOptions::default()).unwrap();
    assert_eq!(
        loaded.warnings.iter().map(|w| w.message.as_str()).collect::<Vec<_>>(),
        ["rows 1 and 3 have the same `id`: 1"]
    );
}

#[test]
fn a_speed_gate_with_few_samples_is_a_warning() {
    let text = format!("{SMALL}gates: [{{speed: {{metric: ttft_p50, ratio_at_most: 0.9}}}}]\n");
    let loaded = Home::new(&[("suites/s.yaml", &text)]).load(&[], &LoadOptions::default()).unwrap();
    assert_eq!(loaded.warnings.iter().map(|w| w.code).collect::<Vec<_>>(), ["few-samples"]);
    assert!(matches!(loaded.suite.gates[0].kind, GateKind::Speed { metric: SpeedMetric::Latency { .. }, .. }));
}
