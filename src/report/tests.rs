use std::collections::BTreeMap;

use super::*;
use crate::analyze::Summary;
use crate::analyze::summary::{Cost, CostRatios, GateVerdict, Latency, RunVerdict, Stability, Throughput, Tokens};

const GENERATED: u64 = 1_796_120_000_000;

fn page() -> String {
    html(&sample::summary(), GENERATED).unwrap()
}

/// A summary in which every figure that may be absent is.
fn bare() -> Summary {
    let mut summary = sample::summary();
    for arm in summary.arms.values_mut() {
        arm.latency = Latency::default();
        arm.throughput = Throughput::default();
        arm.tokens = Tokens::default();
        arm.cost = Cost::default();
        arm.stability = Stability::default();
        arm.quality = BTreeMap::new();
        arm.server = BTreeMap::new();
        arm.requests = BTreeMap::new();
        arm.unscored = BTreeMap::new();
        arm.model = None;
    }
    for comparison in &mut summary.comparisons {
        comparison.speed = BTreeMap::new();
        comparison.quality = BTreeMap::new();
        comparison.cost = CostRatios::default();
        comparison.noise_floor = None;
        comparison.answers_changed = None;
        comparison.flip_rate = None;
        comparison.token_inflation = None;
        comparison.first_divergence_chars = None;
        comparison.flips.clear();
    }
    for gate in &mut summary.gates {
        gate.estimate = None;
        gate.bound = None;
        gate.verdict = GateVerdict::NotEvaluable;
    }
    summary
}

/// A summary whose figures are not numbers, as only a broken analysis could make it.
fn poisoned() -> Summary {
    let mut summary = sample::summary();
    for comparison in &mut summary.comparisons {
        for ratio in comparison.speed.values_mut() {
            (ratio.point, ratio.low, ratio.high) = (Some(f64::NAN), Some(f64::NEG_INFINITY), Some(f64::INFINITY));
        }
        for delta in comparison.quality.values_mut() {
            (delta.delta.point, delta.delta.low) = (Some(f64::INFINITY), Some(f64::NAN));
            delta.mcnemar_p = Some(f64::NAN);
        }
        comparison.first_divergence_chars = Some(f64::NAN);
    }
    for arm in summary.arms.values_mut() {
        arm.throughput.requests_per_s = Some(f64::INFINITY);
        arm.throughput.window_s = f64::NAN;
        arm.cost.total_usd = Some("NaN".to_owned());
        if let Some(ttft) = &mut arm.latency.ttft_ms {
            ttft.p50 = Some(f64::NAN);
            ttft.intervals.insert("p50".to_owned(), (f64::NAN, f64::INFINITY));
            ttft.cdf.push((f64::INFINITY, f64::NAN));
        }
    }
    for gate in &mut summary.gates {
        gate.bound = Some(f64::NAN);
    }
    summary.run.wall_s = f64::INFINITY;
    summary
}

fn all_reports(summary: &Summary) -> Vec<(&'static str, String)> {
    vec![
        ("html", html(summary, GENERATED).unwrap()),
        ("terminal", terminal(summary, 80, false)),
        ("markdown", markdown(summary)),
        ("junit", junit(summary)),
    ]
}

#[test]
fn absent_and_broken_figures_are_dashes_everywhere() {
    let words = regex::Regex::new(r"\b(NaN|nan|inf|Infinity|null|None|undefined)\b|Some\(").unwrap();
    for summary in [bare(), poisoned()] {
        for (format, text) in all_reports(&summary) {
            let text = text.replace(include_str!("../../reports/report.js"), "");
            let found = words.find(&text).map(|found| &text[found.start().saturating_sub(40)..found.end()]);
            assert_eq!(found, None, "{format}");
            assert!(text.contains(format::ABSENT), "{format} has no dash");
        }
    }
}

#[test]
fn terminal_in_80_columns() {
    let text = terminal(&sample::summary(), 80, false);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
    insta::assert_snapshot!(text);
}

#[test]
fn terminal_begins_with_the_verdict_and_colours_only_on_demand() {
    let summary = sample::summary();
    assert!(terminal(&summary, 80, false).starts_with("DON’T SHIP  quant-gate"));
    assert!(!terminal(&summary, 80, false).contains('\u{1b}'));
    let coloured = terminal(&summary, 80, true);
    assert!(coloured.starts_with("\u{1b}[1;31mDON’T SHIP\u{1b}[0m"));
    // The only escapes are our own: what a model wrote is shown, not obeyed.
    assert_eq!(coloured.replace("\u{1b}[0m", "").matches('\u{1b}').count(), 1 + summary.gates.len());
}

#[test]
fn markdown_snapshot() {
    let text = markdown(&sample::summary());
    insta::assert_snapshot!(text);
}

#[test]
fn every_markdown_row_has_as_many_cells_as_its_heading() {
    let text = markdown(&sample::summary());
    let mut cells = None;
    let mut rows = 0;
    for line in text.lines() {
        if !line.starts_with('|') {
            cells = None;
            continue;
        }
        let count = line.replace("\\|", "").matches('|').count();
        assert_eq!(count, *cells.get_or_insert(count), "{line}");
        rows += 1;
    }
    assert!(rows > 10);
}

#[test]
fn junit_snapshot() {
    insta::assert_snapshot!(junit(&sample::summary()));
}

#[test]
fn junit_tells_every_verdict_apart() {
    let text = junit(&sample::summary());
    assert!(text.contains("<failure type=\"fail\""));
    assert!(text.contains("<failure type=\"inconclusive\""));
    assert!(text.contains("<error type=\"not_evaluable\""));
    assert!(text.contains("<skipped message=\"advisory, fail:"));
    let mut invalid = sample::summary();
    invalid.verdict = RunVerdict::Invalid;
    assert!(junit(&invalid).contains("<error type=\"invalid\""));
}

#[test]
fn junit_is_text_that_xml_can_hold() {
    let mut summary = sample::summary();
    summary.gates[0].reason = "a\u{0}b\u{1b}[31m <x> & \"q\" ]]> \u{fffe}".to_owned();
    let text = junit(&summary);
    assert!(text.chars().all(|c| c == '\n' || c >= ' '), "a control character");
    assert!(text.contains("a⟨U+0000⟩b⟨U+001B⟩[31m &lt;x&gt; &amp; &quot;q&quot; ]]&gt; ⟨U+FFFE⟩"));
}

#[test]
fn json_reads_back_and_is_stable() {
    let summary = sample::summary();
    let text = json(&summary).unwrap();
    assert!(text.ends_with("}\n"));
    assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), summary);
    assert_eq!(json(&summary).unwrap(), text);
}

#[test]
fn the_page_names_no_address() {
    let page = page();
    for address in ["http:/", "https:/", "//cdn", "src=\"", "url(", "@import", "<link", "<iframe", "xmlns"] {
        assert!(!page.contains(address), "the page holds {address}");
    }
    // References lead to places in the page.
    for reference in page.split("href=\"").skip(1) {
        assert!(reference.starts_with('#'), "{}", &reference[..20]);
    }
}

#[test]
fn the_policy_allows_only_what_is_inlined() {
    let page = page();
    let style = page.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
    let script = page.rsplit("<script>").next().unwrap().split("</script>").next().unwrap();
    let policy = page.split("Content-Security-Policy\" content=\"").nth(1).unwrap().split('"').next().unwrap();
    let policy = policy.replace("&#x27;", "'").replace("&#x2f;", "/");
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(policy.contains(&format!("style-src {};", text::csp_hash(style))));
    assert!(policy.contains(&format!("script-src {};", text::csp_hash(script))));
    assert!(!policy.contains("unsafe"));
    // Attributes that the policy would block.
    assert!(!page.contains(" style=") && !page.contains(" onclick="));
}

#[test]
fn hostile_text_stays_text() {
    let page = page();
    assert_eq!(page.matches("<script").count(), 1, "one script, ours");
    assert_eq!(page.matches("<img").count(), 0);
    assert!(page.contains("&lt;script&gt;alert("));
    assert!(page.contains("{{ 7*7 }} ${7*7}"), "a template in a prompt is not run");
    assert!(page.contains("⟨U+202E⟩gnp.exe ⟨U+001B⟩[31mred⟨U+001B⟩[0m ⟨U+0000⟩ ⟨U+2028⟩"));
    for acts in ['\u{202e}', '\u{1b}', '\u{0}', '\u{2028}'] {
        assert!(!page.contains(acts), "{acts:?} stands in the page");
    }
}

#[test]
fn a_page_full_of_flips_stays_under_two_megabytes() {
    let mut summary = sample::summary();
    for comparison in &mut summary.comparisons {
        let mut flip = comparison.flips[0].clone();
        flip.baseline_text = "<\"'&/ a ".repeat(250);
        flip.candidate_text = "<\"'&/ b ".repeat(250);
        flip.prompt = "<".repeat(400);
        comparison.flips = vec![flip; 200];
        comparison.flips_total = 5_000;
    }
    let page = html(&summary, GENERATED).unwrap();
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert!(page.contains("more flips stand in the run’s files"));
}

#[test]
fn thousands_of_tasks_and_gates_are_cut_worst_first() {
    let mut summary = sample::summary();
    let mut gate = summary.gates[1].clone();
    gate.verdict = GateVerdict::Pass;
    let failed = summary.gates[0].clone();
    summary.gates = vec![gate; 3_000];
    summary.gates.push(failed);
    for comparison in &mut summary.comparisons {
        let delta = comparison.quality.get_mut("accuracy").unwrap();
        let task = delta.by_task["arithmetic"].clone();
        delta.by_task.extend((0..5_000).map(|index| (format!("task-{index}"), task.clone())));
    }
    let page = html(&summary, GENERATED).unwrap();
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert!(page.contains("2851 more gates of q4") && page.contains("the whole interval lies below −2 pp"));
    assert!(page.contains("4805 more tasks"));
    let text = terminal(&summary, 80, false);
    assert!(text.lines().count() < 80 && text.contains("(3000 pass and are not listed)"), "{text}");
}

#[test]
fn the_page_says_what_the_reader_must_know_first() {
    let page = page();
    for words in [
        "SIMULATED",
        "Don’t ship",
        "Incomplete run",
        "the budget of 2h ran out",
        "error_rate_differs",
        "~ within noise",
    ] {
        assert!(page.contains(words), "{words} is missing");
    }
    let mut summary = sample::summary();
    summary.run.simulated = false;
    summary.run.complete = true;
    let page = html(&summary, GENERATED).unwrap();
    assert!(!page.contains("SIMULATED") && !page.contains("Incomplete run"));
}

#[test]
fn a_finding_that_holds_a_candidate_back_is_named() {
    let mut summary = sample::summary();
    summary.gates.retain(|gate| gate.arm != "kv-q4" || gate.verdict == GateVerdict::Pass);
    assert!(html(&summary, GENERATED).unwrap().contains("held back by a finding: error_rate_differs"));
}

#[test]
fn a_run_of_one_arm_without_gates_has_a_page() {
    let mut summary = sample::summary();
    summary.verdict = RunVerdict::None;
    summary.gates.clear();
    summary.comparisons.clear();
    summary.arms.retain(|name, _| name == "baseline");
    summary.arm_order.retain(|name| name == "baseline");
    let page = html(&summary, GENERATED).unwrap();
    assert!(page.contains("No gates") && page.contains("no candidate"));
    assert!(terminal(&summary, 80, false).starts_with("NO GATES"));
    assert!(markdown(&summary).contains("No gates"));
}

/// Relative luminance of `#rrggbb` (WCAG 2.2).
fn luminance(colour: &str) -> f64 {
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

#[test]
fn text_stands_out_from_its_ground_in_light_and_dark() {
    let style = include_str!("../../reports/report.css");
    let variable = regex::Regex::new(r"--([a-z0-9-]+): (#[0-9a-f]{6});").unwrap();
    let schemes: Vec<BTreeMap<&str, &str>> = style
        .split(":root {")
        .skip(1)
        .map(|block| block.split('}').next().unwrap())
        .map(|block| {
            variable
                .captures_iter(block)
                .map(|found| found.extract::<2>().1)
                .map(|[name, colour]| (name, colour))
                .collect()
        })
        .collect();
    assert_eq!(schemes.len(), 3, "light, dark, print");
    for scheme in &schemes[..2] {
        let mut pairs = vec![("pass", "pass-bg"), ("fail", "fail-bg"), ("open", "open-bg"), ("invalid", "invalid-bg")];
        for ground in ["bg", "card", "soft"] {
            pairs.extend(["ink", "muted", "link", "pass", "fail", "open", "invalid"].map(|text| (text, ground)));
            pairs.extend(["pass-bg", "fail-bg", "open-bg", "invalid-bg"].map(|tint| ("muted", tint)));
        }
        for (text, ground) in pairs {
            let (a, b) = (luminance(scheme[text]), luminance(scheme[ground]));
            let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
            assert!(contrast >= 4.5, "{text} on {ground}: {contrast:.2}");
        }
    }
}
