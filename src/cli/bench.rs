//! `doctor --bench`: what the instrument adds to what it measures, at several loads, beside the least that a client can
//! do. Each load runs in a process of its own, so that its memory is its own.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use serde::{Deserialize, Serialize};

use super::args::DoctorArgs;
use super::error::CliError;
use super::lane_pool::LanePool;
use super::{bare, calibrations};
use crate::analyze::instrument::{Shown, limits};
use crate::drive::calibrate::{self, Measured, Shape, Source};
use crate::drive::{Calibration, Gauge, Instrument, Stop};
use crate::world::World;

/// 100 tokens per second and stream, as `builtin:exact` has them.
const TTFT_MS: f64 = 50.0;
const TPOT_MS: f64 = 10.0;
const TOKENS: u32 = 64;
/// Enough first tokens for their 99th percentile, within some seconds.
const REQUESTS: u32 = 1_000;
const ROUNDS_MIN: u32 = 3;
const ROUNDS_MAX: u32 = 16;

/// What one process found.
#[derive(Debug, Serialize, Deserialize)]
struct Case {
    streams: u32,
    lanes: Side,
    bare: Side,
    /// Largest resident memory of the process, the simulated server in it included, before the bare loop began.
    peak_mb: Option<f64>,
    /// Wall time of the process up to then, beyond the load itself.
    beyond_s: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Side {
    calibration: Calibration,
    failed: u64,
    instrument: Option<Instrument>,
}

impl Side {
    fn of(measured: &Measured) -> Side {
        Side {
            calibration: measured.calibration(Source::Doctor),
            failed: measured.failed,
            instrument: measured.reading.as_ref().map(|reading| reading.figures.clone()),
        }
    }

    /// What the instrument says of itself.
    fn verdict(&self) -> String {
        let shown = Shown {
            ttft_median_ms: Some(TTFT_MS),
            gap_median_ms: Some(TPOT_MS),
            dispatch_lag_p99_ms: None,
            calibration: Some(&self.calibration),
            slots: self.instrument.iter().collect(),
        };
        match limits(&shown).first() {
            None if self.failed == 0 => "keeps up".to_owned(),
            None => format!("{} requests failed", self.failed),
            Some(reason) => format!("client_limited: {reason}"),
        }
    }
}

/// Runs each load in a process of its own and tells what came of it; keeps the figures for later runs on this host.
pub fn bench(args: &DoctorArgs, world: &Arc<dyn World>) -> Result<String, CliError> {
    let mut cases = Vec::new();
    for &streams in &args.streams {
        say!("{streams} streams: {} answers of {TOKENS} tokens each", rounds(streams));
        cases.push(in_a_process(streams)?);
    }
    let known = cases.iter().map(|case| case.lanes.calibration.clone()).collect();
    let kept = match calibrations::keep(known, f64::from(TOKENS) / service_s(), world) {
        Ok(path) => format!("kept for runs on this host in {}\n", path.display()),
        Err(why) => format!("not kept for later runs: {why}\n"),
    };
    Ok(table(&cases) + &kept)
}

/// One load, in this process; the result goes to stdout as JSON.
pub fn case(streams: u32, world: &Arc<dyn World>) -> Result<String, CliError> {
    let shape =
        Shape { concurrency: streams, rounds: rounds(streams), tokens: TOKENS, ttft_ms: TTFT_MS, tpot_ms: TPOT_MS };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    let (clock, gauge) = (world.clock(), Gauge::of(world));
    let lanes = LanePool::start().map_err(CliError::Runtime)?;
    let stop = Stop::default();
    let measured = runtime.block_on(calibrate::measure(shape, clock, &lanes.handle, &gauge, None, &stop))?;
    drop(lanes);
    let beyond_s = clock.now().0 as f64 / 1e9 - measured.load.as_secs_f64();
    let peak_mb = peak_mb();
    let pool = LanePool::start().map_err(CliError::Runtime)?;
    let bare = runtime.block_on(bare::measure(shape, clock, &pool.handle, &gauge))?;
    let case = Case { streams, lanes: Side::of(&measured), bare: Side::of(&bare), peak_mb, beyond_s };
    serde_json::to_string(&case).map_err(|error| CliError::Bench(error.to_string()))
}

fn rounds(streams: u32) -> u32 {
    REQUESTS.div_ceil(streams.max(1)).clamp(ROUNDS_MIN, ROUNDS_MAX)
}

fn service_s() -> f64 {
    (TTFT_MS + TPOT_MS * f64::from(TOKENS - 1)) / 1e3
}

fn in_a_process(streams: u32) -> Result<Case, CliError> {
    let own = std::env::current_exe().map_err(CliError::Runtime)?;
    let mut command = Command::new(own);
    command.args(["doctor", "--bench-case", &streams.to_string()]).stderr(Stdio::inherit());
    let output = command.output().map_err(CliError::Runtime)?;
    if !output.status.success() {
        return Err(CliError::Bench(format!("the load of {streams} streams ended with {}", output.status)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| CliError::Bench(error.to_string()))
}

/// Peak resident memory of this process; absent where the system doesn't tell.
fn peak_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1_024.0 / 1e6)
}

const COLUMNS: [&str; 10] = [
    "streams",
    "client",
    "requests",
    "tokens",
    "TTFT error\np50 / p99 ms",
    "arrival error\np50 / p99 ms",
    "CPU µs\nper token",
    "lanes\nCPU",
    "peak\nMB",
    "beyond the\nload s",
];

fn table(cases: &[Case]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).force_no_tty();
    table.set_header(COLUMNS);
    let mut verdicts = String::new();
    for case in cases {
        table.add_row(row(case, "lanes", &case.lanes));
        table.add_row(row(case, "bare", &case.bare));
        table.add_row(ratios(case));
        let _ = writeln!(verdicts, "{} streams: {}", case.streams, case.lanes.verdict());
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
        if column.index > 1 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push_str(
        "error: the client's stamp − the simulated server's write of the same token. CPU: the reading thread's. Peak memory \
         holds the server too, which runs in the same process on threads of its own.\n",
    );
    text + &verdicts
}

fn row(case: &Case, client: &str, side: &Side) -> Vec<String> {
    let Calibration { requests, tokens, ttft_error_ms, arrival_error_ms, cpu_us_per_token, .. } = &side.calibration;
    let two = |bars: &calibrate::ErrorBars| format!("{} / {}", shown(bars.p50, 3), shown(bars.p99, 3));
    let share = side.instrument.as_ref().and_then(|i| i.lanes_cpu_share);
    let ours = client == "lanes";
    vec![
        case.streams.to_string(),
        client.to_owned(),
        requests.to_string(),
        tokens.to_string(),
        two(ttft_error_ms),
        two(arrival_error_ms),
        shown(*cpu_us_per_token, 1),
        share.map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", 100.0 * share)),
        if ours { shown(case.peak_mb, 0) } else { String::new() },
        if ours { format!("{:.2}", case.beyond_s) } else { String::new() },
    ]
}

fn ratios(case: &Case) -> Vec<String> {
    let (ours, bare) = (&case.lanes.calibration, &case.bare.calibration);
    let ratio = |ours: Option<f64>, bare: Option<f64>| {
        let known = ours.zip(bare).filter(|(_, bare)| *bare > 0.0);
        known.map_or_else(|| "–".to_owned(), |(ours, bare)| format!("×{:.2}", ours / bare))
    };
    let two = |ours: &calibrate::ErrorBars, bare: &calibrate::ErrorBars| {
        format!("{} / {}", ratio(ours.p50, bare.p50), ratio(ours.p99, bare.p99))
    };
    vec![
        String::new(),
        "ratio".to_owned(),
        String::new(),
        String::new(),
        two(&ours.ttft_error_ms, &bare.ttft_error_ms),
        two(&ours.arrival_error_ms, &bare.arrival_error_ms),
        ratio(ours.cpu_us_per_token, bare.cpu_us_per_token),
    ]
}

fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::calibrate::ErrorBars;

    fn side(p50: f64, p99: Option<f64>, cpu: f64) -> Side {
        let bars = ErrorBars { p50: Some(p50), p99 };
        let calibration = Calibration {
            concurrency: 64,
            requests: 1_024,
            tokens: 65_536,
            ttft_error_ms: bars,
            arrival_error_ms: bars,
            cpu_us_per_token: Some(cpu),
            source: Source::Doctor,
        };
        Side { calibration, failed: 0, instrument: None }
    }

    #[test]
    fn the_table_tells_both_clients_their_ratio_and_the_verdict() {
        let case =
            |lanes| Case { streams: 64, lanes, bare: side(0.02, Some(0.2), 8.0), peak_mb: Some(20.4), beyond_s: 0.015 };
        let text = table(&[case(side(0.03, Some(0.5), 12.0))]);
        for part in ["0.030 / 0.500", "×1.50 / ×2.50", "×1.50", "20", "64 streams: keeps up"] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(table(&[case(side(0.03, None, 12.0))]).contains("×1.50 / –"));
        assert!(
            table(&[case(side(3.0, Some(3.0), 12.0))]).contains("client_limited: its first tokens are stamped 3.0 ms")
        );
        let failing = Side { failed: 3, ..side(0.03, None, 12.0) };
        assert!(table(&[case(failing)]).contains("3 requests failed"));
    }

    #[test]
    fn every_load_has_enough_answers_and_an_end() {
        assert_eq!([1, 64, 256, 1_000, 4_000].map(rounds), [16, 16, 4, 3, 3]);
    }
}
