//! `doctor`: is this host fit to measure?

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use super::args::DoctorArgs;
use super::error::CliError;
use super::exit::Exit;
use super::{bench, environment};
use crate::units::Mono;
use crate::world::{Clock, World};

const SLEEPS: u32 = 200;
const SLEEP: Duration = Duration::from_millis(2);

pub fn doctor(args: &DoctorArgs, world: &Arc<dyn World>) -> Result<Exit, CliError> {
    if let Some(streams) = args.bench_case {
        super::out(&bench::case(streams, world)?);
        return Ok(Exit::Pass);
    }
    super::out(&facts(world)?);
    if args.bench {
        super::out(&bench::bench(args, world)?);
    }
    Ok(Exit::Pass)
}

fn facts(world: &Arc<dyn World>) -> Result<String, CliError> {
    let mut text = String::new();
    for (name, value) in environment::collect() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = writeln!(text, "{name:16} {value}");
    }
    let _ = writeln!(text, "{:16} {}", "open files", open_files_limit());
    let _ = writeln!(text, "{:16} {}", "local ports", local_ports());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    let late = runtime.block_on(timer_lateness(world.clock()));
    let _ = writeln!(
        text,
        "{:16} p50 {:.2} ms, max {:.2} ms over {SLEEPS} sleeps of 2 ms (how late this host wakes a waiting thread)",
        "timer lateness",
        late.get(late.len() / 2).copied().unwrap_or(0.0),
        late.last().copied().unwrap_or(0.0),
    );
    let _ = writeln!(text, "{:16} not built in this version: code tasks are refused by `validate`", "sandbox");
    Ok(text)
}

/// How late each sleep ended, in milliseconds, sorted.
async fn timer_lateness(clock: Clock) -> Vec<f64> {
    let mut late = Vec::new();
    for _ in 0..SLEEPS {
        let due: Mono = clock.now().plus(SLEEP);
        clock.sleep_until(due).await;
        late.extend(clock.now().since(due).map(|ns| ns as f64 / 1e6));
    }
    late.sort_by(f64::total_cmp);
    late
}

/// One lane is one open file.
fn open_files_limit() -> String {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3));
    soft.map_or_else(|| "unknown".to_owned(), |soft| format!("{soft} (one for each connection)"))
}

fn local_ports() -> String {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let bounds: Vec<u32> = range.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    match bounds.as_slice() {
        [low, high] if high > low => format!("{} (connections to one server at a time)", high - low + 1),
        _ => "unknown".to_owned(),
    }
}
