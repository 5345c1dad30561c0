//! What the instrument says of itself, in a sentence.

use super::format;
use crate::analyze::Summary;
use crate::analyze::instrument::{ArmInstrument, InstrumentSummary};
use crate::drive::Calibration;
use crate::drive::calibrate::Source;

/// `None` where nothing was watched.
pub fn sentence(summary: &Summary) -> Option<String> {
    let value = summary.environment.get("instrument")?.clone();
    let found: InstrumentSummary = serde_json::from_value(value).ok()?;
    let parts: Vec<String> = watched(&found).into_iter().chain(Some(calibrated(found.calibration.as_ref()))).collect();
    Some(parts.join("; ") + ".")
}

fn watched(found: &InstrumentSummary) -> Option<String> {
    let arms = || found.arms.values();
    let stall = arms().map(|arm: &ArmInstrument| arm.stall_max_ms).reduce(f64::max)?;
    let busy = arms().filter_map(|arm| arm.lanes_cpu_share).reduce(f64::max);
    let busy = busy.map(|share| format!("was busy for {} of a slot at most, and ", percent(share))).unwrap_or_default();
    Some(format!("the reading thread {busy}woke {} late at most", ms(stall)))
}

fn calibrated(calibration: Option<&Calibration>) -> String {
    let Some(calibration) = calibration else {
        return "the client\u{2019}s own error is not known (the run was short; `doctor --bench` measures it)"
            .to_owned();
    };
    let source = match calibration.source {
        Source::Run => "measured after the run at its own load",
        Source::Doctor => "measured earlier on this host",
    };
    let bars = calibration.arrival_error_ms;
    let error = match (bars.p50, bars.p99) {
        (Some(p50), Some(p99)) => format!("{} late (p50; p99 {})", ms(p50), ms(p99)),
        (Some(p50), None) => format!("{} late (p50)", ms(p50)),
        _ => "too seldom to tell how late".to_owned(),
    };
    let cpu = calibration.cpu_us_per_token.map(|us| format!(", {us:.0} \u{b5}s of processor time each"));
    format!("it stamps tokens {error}{}, {source}", cpu.unwrap_or_default())
}

fn ms(value: f64) -> String {
    format::figure(format::Unit::Ms, Some(value))
}

fn percent(share: f64) -> String {
    format!("{:.0}\u{a0}%", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::sample::summary;

    #[test]
    fn it_says_what_is_known_and_no_more() {
        let mut summary = summary();
        assert_eq!(sentence(&summary), None);
        let arm = json!({"slots": 2, "looks": 900, "stall_p99_ms": 1.5, "stall_max_ms": 3.25, "lanes_cpu_share": 0.124,
                         "open_sockets": 9, "clock_step_ms": null});
        summary.environment.insert("instrument".to_owned(), json!({"arms": {"base": arm}}));
        let text = sentence(&summary).unwrap();
        assert!(text.contains("12\u{a0}%") && text.contains("3.25") && text.contains("is not known"), "{text}");
        let calibration = json!({"concurrency": 4, "requests": 40, "tokens": 2560, "cpu_us_per_token": 9.4, "source": "run",
                                 "ttft_error_ms": {"p50": 0.04, "p99": null},
                                 "arrival_error_ms": {"p50": 0.03, "p99": 0.4}});
        summary.environment.insert("instrument".to_owned(), json!({"arms": {"base": arm}, "calibration": calibration}));
        let text = sentence(&summary).unwrap();
        assert!(text.contains("9 µs") && text.contains("after the run at its own load"), "{text}");
        assert!(!text.contains("not known"), "{text}");
    }
}
