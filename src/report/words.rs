//! The words of the reports: verdicts, metrics, outcomes. Said the same way in every format.

use crate::analyze::Estimate;
use crate::analyze::summary::{GateResult, GateVerdict, RunVerdict};
use crate::drive::Severity;

use super::format::{self, Unit};

/// What the reader should do.
pub fn verdict(verdict: RunVerdict) -> &'static str {
    match verdict {
        RunVerdict::None => "No gates",
        RunVerdict::Pass => "Ship",
        RunVerdict::Inconclusive => "Can’t tell yet",
        RunVerdict::Fail => "Don’t ship",
        RunVerdict::Invalid => "Invalid run",
    }
}

/// The verdict's name in `summary.json`, also the class that colours it.
pub fn verdict_name(verdict: RunVerdict) -> &'static str {
    match verdict {
        RunVerdict::None => "none",
        RunVerdict::Pass => "pass",
        RunVerdict::Inconclusive => "inconclusive",
        RunVerdict::Fail => "fail",
        RunVerdict::Invalid => "invalid",
    }
}

pub fn gate_verdict(verdict: GateVerdict) -> &'static str {
    match verdict {
        GateVerdict::Pass => "pass",
        GateVerdict::Inconclusive => "inconclusive",
        GateVerdict::NotEvaluable => "not evaluable",
        GateVerdict::Fail => "fail",
    }
}

pub fn gate_class(verdict: GateVerdict) -> &'static str {
    match verdict {
        GateVerdict::Pass => "pass",
        GateVerdict::Inconclusive => "inconclusive",
        GateVerdict::NotEvaluable => "absent",
        GateVerdict::Fail => "fail",
    }
}

pub fn severity(severity: Severity) -> (&'static str, &'static str) {
    match severity {
        Severity::Informs => ("informs", "informs"),
        Severity::WithdrawsFigures => ("withdraws figures", "withdraws"),
        Severity::BlocksPass => ("blocks a pass", "blocks"),
        Severity::Invalid => ("invalid", "invalid"),
    }
}

/// `ttft_p50` → `TTFT p50`, `requests_per_s` → `requests/s`, `error_rate` → `error rate`.
pub fn metric(name: &str) -> String {
    let mut words = Vec::new();
    let (stem, per_second) = match name.strip_suffix("_per_s") {
        Some(stem) => (stem, true),
        None => (name, false),
    };
    for word in stem.split('_') {
        words.push(match word {
            "ttft" | "ttfa" | "tpot" | "itl" | "icl" | "e2e" | "usd" | "slo" => word.to_uppercase(),
            "ms" => continue,
            word => word.to_owned(),
        });
    }
    let words = words.join(" ");
    if per_second { format!("{words}/s") } else { words }
}

/// Which way a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Lower,
    Higher,
}

/// Throughput is better higher, every latency lower.
pub fn better(metric: &str) -> Better {
    let higher = ["per_s", "goodput", "attainment", "throughput"];
    if higher.iter().any(|part| metric.contains(part)) { Better::Higher } else { Better::Lower }
}

/// The unit in which a gate's estimate and bound are shown. A quality gate on a loss compares two shares (its bound is
/// minus the margin), one on a floor (`at least`) looks at a share itself.
pub fn gate_unit(gate: &GateResult) -> Unit {
    match gate.unit.as_str() {
        "share" if gate.kind == "quality" && !gate.bound.is_some_and(|bound| bound > 0.0) => Unit::Points,
        "share" => Unit::Percent,
        "ratio" => Unit::Ratio,
        "ms" => Unit::Ms,
        "usd" => Unit::Usd,
        "per_s" => Unit::PerSecond,
        _ => Unit::Plain,
    }
}

/// Which way a gate's figure is better: it fails on the other side of its bound.
pub fn gate_fails(gate: &GateResult) -> Better {
    // With both limits the bound is the upper one.
    let lower_limit = gate.gate.contains("at least") && !gate.gate.contains("at most");
    if gate.kind == "quality" || lower_limit { Better::Higher } else { Better::Lower }
}

/// `−4.2 pp (−6.8 to −1.7), n 532, bound −2.0 pp`, for a line of text.
pub fn gate_numbers(gate: &GateResult) -> String {
    let unit = gate_unit(gate);
    let mut parts = Vec::new();
    match &gate.estimate {
        Some(estimate) => {
            parts.push(format::estimate(unit, estimate));
            parts.push(format!("n {}", format::count(estimate.n)));
        }
        None => parts.push(format::ABSENT.to_owned()),
    }
    parts.push(format!("bound {}", format::figure(unit, gate.bound)));
    parts.join(", ")
}

/// `faster`, `slower`, `~ within noise`; what the interval excludes, never what the point suggests.
pub fn reading(
    unit: Unit,
    estimate: &Estimate,
    better: Better,
    words: (&'static str, &'static str),
) -> (&'static str, &'static str) {
    if estimate.point.is_none_or(|point| !point.is_finite()) {
        return ("", "absent");
    }
    if format::within_noise(unit, estimate) {
        return ("~ within noise", "noise");
    }
    let no_change = unit.no_change().unwrap_or_default();
    let higher = estimate.low.is_some_and(|low| low > no_change);
    let lower = estimate.high.is_some_and(|high| high < no_change);
    if !higher && !lower {
        // No interval, or one that lacks the end that would tell.
        return ("", "none");
    }
    if higher == (better == Better::Higher) { (words.0, "good") } else { (words.1, "bad") }
}

/// The words for better and worse of a speed metric.
pub fn speed_words(metric: &str) -> (&'static str, &'static str) {
    if metric.contains("error") { ("fewer", "more") } else { ("faster", "slower") }
}

pub const COST_WORDS: (&str, &str) = ("cheaper", "dearer");
pub const QUALITY_WORDS: (&str, &str) = ("better", "worse");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_read_as_people_write_them() {
        assert_eq!(metric("ttft_p50"), "TTFT p50");
        assert_eq!(metric("requests_per_s"), "requests/s");
        assert_eq!(metric("output_tokens_per_s"), "output tokens/s");
        assert_eq!(metric("dispatch_lag_ms"), "dispatch lag");
        assert_eq!(metric("rate_limited"), "rate limited");
    }

    #[test]
    fn a_gate_fails_on_the_side_that_its_limit_says() {
        let gate = |kind: &str, gate: &str| GateResult {
            gate: gate.to_owned(),
            kind: kind.to_owned(),
            arm: "q4".to_owned(),
            scope: "all".to_owned(),
            verdict: GateVerdict::Pass,
            unit: "ratio".to_owned(),
            estimate: None,
            bound: Some(-0.02),
            reason: String::new(),
            advisory: false,
        };
        let quality = gate("quality", "quality: accuracy loses at most 2 pp and is at least 60 %");
        assert_eq!(gate_fails(&quality), Better::Higher);
        assert_eq!(gate_unit(&GateResult { unit: "share".to_owned(), ..quality }), Unit::Points);
        assert_eq!(gate_fails(&gate("speed", "speed: ttft_p50 ratio at most 0.9")), Better::Lower);
        assert_eq!(gate_fails(&gate("speed", "speed: requests_per_s ratio at least 1.2")), Better::Higher);
        assert_eq!(gate_fails(&gate("speed", "speed: e2e_p50 ratio at most 1.1 and at least 0.5")), Better::Lower);
    }

    #[test]
    fn a_reading_follows_the_interval_not_the_point() {
        let estimate = |low, high| Estimate {
            point: Some(0.97),
            low: Some(low),
            high: Some(high),
            level: 0.9,
            n: 20,
            method: "block-bootstrap".to_owned(),
        };
        let words = speed_words("ttft_p50");
        assert_eq!(reading(Unit::Ratio, &estimate(0.9, 1.02), Better::Lower, words).1, "noise");
        assert_eq!(reading(Unit::Ratio, &estimate(0.9, 0.99), Better::Lower, words), ("faster", "good"));
        assert_eq!(reading(Unit::Ratio, &estimate(0.9, 0.99), Better::Higher, words), ("slower", "bad"));
        let absent = Estimate { point: None, ..estimate(0.9, 0.99) };
        assert_eq!(reading(Unit::Ratio, &absent, Better::Lower, words), ("", "absent"));
    }
}
