//! Where the instrument's own limits spoil a figure: the rules, and the findings that they raise.

use crate::drive::{Calibration, Instrument};

/// Shares and floors of the rules: an error below either is told and spoils nothing.
const TTFT_P50_FLOOR_MS: f64 = 1.0;
const TTFT_P50_SHARE: f64 = 0.05;
const TTFT_P99_FLOOR_MS: f64 = 5.0;
const TTFT_P99_SHARE: f64 = 0.25;
/// The lanes' thread has no reserve beyond this share of a core.
const CPU_SHARE_MAX: f64 = 0.9;
const STALL_FLOOR_MS: f64 = 5.0;
const LAG_FLOOR_MS: f64 = 10.0;
const LAG_SHARE: f64 = 0.05;

/// What an arm's figures are held against.
#[derive(Clone, Debug, Default)]
pub struct Shown<'a> {
    pub ttft_median_ms: Option<f64>,
    /// Median gap between tokens.
    pub gap_median_ms: Option<f64>,
    /// Open load only.
    pub dispatch_lag_p99_ms: Option<f64>,
    pub calibration: Option<&'a Calibration>,
    /// Of each slot.
    pub slots: Vec<&'a Instrument>,
}

/// Why the client, and not the server, may be what was measured; none where it kept up.
pub fn limits(shown: &Shown<'_>) -> Vec<String> {
    let share_of_ttft = |share: f64| shown.ttft_median_ms.map_or(0.0, |ttft| share * ttft);
    let mut reasons = Vec::new();
    if let Some(calibration) = shown.calibration {
        let mut check = |what: &str, error: Option<f64>, limit: f64| {
            if let Some(error) = error.filter(|error| *error > limit) {
                reasons.push(format!(
                    "its first tokens are stamped {error:.1} ms late ({what}; {limit:.1} ms are tolerated)"
                ));
            }
        };
        let error = calibration.ttft_error_ms;
        check("p50", error.p50, TTFT_P50_FLOOR_MS.max(share_of_ttft(TTFT_P50_SHARE)));
        check("p99", error.p99, TTFT_P99_FLOOR_MS.max(share_of_ttft(TTFT_P99_SHARE)));
    }
    let worst = |figure: fn(&Instrument) -> Option<f64>| {
        shown.slots.iter().filter_map(|slot| figure(slot)).max_by(f64::total_cmp)
    };
    if let Some(share) = worst(|slot| slot.lanes_cpu_share).filter(|share| *share >= CPU_SHARE_MAX) {
        reasons.push(format!("its reading thread was busy for {:.0} % of a slot", 100.0 * share));
    }
    let stall_limit = STALL_FLOOR_MS.max(shown.gap_median_ms.unwrap_or(0.0));
    if let Some(stall) = worst(|slot| Some(slot.stall_p99_ms)).filter(|stall| *stall > stall_limit) {
        reasons.push(format!("its reading thread woke {stall:.1} ms late (p99; {stall_limit:.1} ms are tolerated)"));
    }
    let lag_limit = LAG_FLOOR_MS.max(share_of_ttft(LAG_SHARE));
    if let Some(lag) = shown.dispatch_lag_p99_ms.filter(|lag| *lag > lag_limit) {
        reasons
            .push(format!("it sent requests {lag:.1} ms after they were due (p99; {lag_limit:.1} ms are tolerated)"));
    }
    reasons
}
