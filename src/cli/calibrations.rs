//! Calibrations that `doctor --bench` keeps for later runs of the same program on the same host.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::environment;
use crate::drive::calibrate::{Shape, Source, measure};
use crate::drive::{Calibration, Event, Shared, fitted, time_for};
use crate::units::{Id, Mono};
use crate::world::World;

const FORMAT: &str = "counterpoise.calibrations/1";
/// A file larger than this is none of ours.
const MAX_BYTES: u64 = 1 << 20;
/// Facts of the host that a calibration hangs on, beside its name.
const FACTS: [&str; 5] = ["os", "arch", "kernel", "cpu", "cores"];

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    format: String,
    calibrations: Vec<KeptOne>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptOne {
    calibration: Calibration,
    /// Of all streams together.
    tokens_per_s: f64,
}

/// Keeps calibrations whose streams each bring `tokens_per_s_and_stream`; gives the file.
pub fn keep(
    calibrations: Vec<Calibration>,
    tokens_per_s_and_stream: f64,
    world: &Arc<dyn World>,
) -> Result<PathBuf, String> {
    let path = file(world)?;
    let folder = path.parent().ok_or("the cache has no folder")?;
    let one = |calibration: Calibration| KeptOne {
        tokens_per_s: tokens_per_s_and_stream * f64::from(calibration.concurrency),
        calibration,
    };
    let new: Vec<KeptOne> = calibrations.into_iter().map(one).collect();
    let is_new = |old: &KeptOne| new.iter().any(|one| one.calibration.concurrency == old.calibration.concurrency);
    let old: Vec<KeptOne> = read(&path).unwrap_or_default().into_iter().filter(|old| !is_new(old)).collect();
    let kept = Kept { format: FORMAT.to_owned(), calibrations: old.into_iter().chain(new).collect() };
    let text = serde_json::to_vec(&kept).map_err(|error| error.to_string())?;
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut part = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    std::io::Write::write_all(&mut part, &text).map_err(failed)?;
    part.persist(&path).map_err(|error| failed(error.error))?;
    Ok(path)
}

/// Calibrates the client at the load that a run had, where that takes little beside the run; else takes what is kept for
/// this host. What is known goes into the journal.
pub async fn of_run(shared: &Shared, begun: Mono, world: &Arc<dyn World>) {
    let Some(shape) = shared.gauge.shape(shared.live.arms) else { return };
    let wall = Duration::from_nanos(shared.clock.now().since(begun).unwrap_or(0));
    let time = time_for(wall);
    let figures = match fitted(shape, time) {
        Some(shape) => in_run(shared, shape, shared.clock.now().plus(time)).await,
        None => None,
    };
    let figures = figures.or_else(|| find(shape.concurrency, tokens_per_s(&shape), world));
    if let Some(figures) = figures {
        let at_us = shared.clock.now().as_us();
        shared.sink.emit(Event::Calibration { at_us, figures }).await;
    }
}

async fn in_run(shared: &Shared, shape: Shape, until: Mono) -> Option<Calibration> {
    let measured = measure(shape, shared.clock, &shared.pool, &shared.gauge, Some(until), &shared.stop).await;
    match measured {
        Ok(measured) if measured.requests > 0 => Some(measured.calibration(Source::Run)),
        Ok(_) => None,
        Err(error) => {
            say!("the client was not calibrated: {error}");
            None
        }
    }
}

fn tokens_per_s(shape: &Shape) -> f64 {
    f64::from(shape.concurrency) * f64::from(shape.tokens) / shape.service().as_secs_f64().max(1e-3)
}

/// The lightest load that was calibrated here and is no lighter than this one.
pub fn find(concurrency: u32, tokens_per_s: f64, world: &Arc<dyn World>) -> Option<Calibration> {
    // Where nothing is kept, the program need not be read to know its hash.
    std::fs::read_dir(folder(world).ok()?).ok()?.next()?.ok()?;
    let path = file(world).ok()?;
    lightest(read(&path)?, concurrency, tokens_per_s)
}

fn read(path: &Path) -> Option<Vec<KeptOne>> {
    if std::fs::metadata(path).ok()?.len() > MAX_BYTES {
        return None;
    }
    let kept: Kept = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    (kept.format == FORMAT).then_some(kept.calibrations)
}

fn lightest(kept: Vec<KeptOne>, concurrency: u32, tokens_per_s: f64) -> Option<Calibration> {
    let heavy_enough = |one: &KeptOne| one.calibration.concurrency >= concurrency && one.tokens_per_s >= tokens_per_s;
    let fitting = kept.into_iter().filter(heavy_enough);
    fitting.min_by_key(|one| one.calibration.concurrency).map(|one| one.calibration)
}

/// By the program and the host: another build, or another machine with the same home, has other errors.
fn file(world: &Arc<dyn World>) -> Result<PathBuf, String> {
    let own =
        std::env::current_exe().and_then(std::fs::read).map_err(|error| format!("the program itself: {error}"))?;
    let facts = environment::collect();
    let mut host: Vec<String> =
        FACTS.iter().map(|name| facts.get(*name).map(Value::to_string).unwrap_or_default()).collect();
    host.push(std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default());
    let host = host.join("\n");
    let id = Id::of("calibrations", &[&own, host.as_bytes()]);
    Ok(folder(world)?.join(format!("{id}.json")))
}

/// Below the user's cache folder.
fn folder(world: &Arc<dyn World>) -> Result<PathBuf, String> {
    let set = |name: &str| world.env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let own = set("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let cache = own.or_else(|| set("HOME").map(|home| home.join(".cache")));
    let cache = cache.ok_or_else(|| "neither XDG_CACHE_HOME nor HOME is set".to_owned())?;
    Ok(cache.join("counterpoise").join("calibrations"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::calibrate::ErrorBars;
    use crate::world::FixedWorld;

    fn calibration(concurrency: u32) -> Calibration {
        let bars = ErrorBars { p50: Some(0.1), p99: None };
        Calibration {
            concurrency,
            requests: 100,
            tokens: 6_400,
            ttft_error_ms: bars,
            arrival_error_ms: bars,
            cpu_us_per_token: Some(9.5),
            source: Source::Doctor,
        }
    }

    #[test]
    fn what_is_kept_is_found_for_no_heavier_load() {
        let dir = tempfile::tempdir().unwrap();
        let world: Arc<dyn World> = Arc::new(FixedWorld::new(&[("XDG_CACHE_HOME", dir.path().to_str().unwrap())]));
        assert_eq!(find(1, 1.0, &world), None);
        keep(vec![calibration(64)], 1.0, &world).unwrap();
        keep(vec![calibration(64)], 100.0, &world).unwrap();
        keep(vec![calibration(256)], 100.0, &world).unwrap();
        let found = |concurrency, rate| find(concurrency, rate, &world).map(|c| c.concurrency);
        assert_eq!(found(4, 400.0), Some(64));
        assert_eq!(found(64, 6_401.0), Some(256), "as many streams, and faster ones");
        assert_eq!(found(257, 1.0), None);
        std::fs::write(file(&world).unwrap(), "{").unwrap();
        assert_eq!(found(4, 400.0), None, "what can't be read is not there");
    }

    #[test]
    fn without_a_home_nothing_is_kept() {
        let world: Arc<dyn World> = Arc::new(FixedWorld::new(&[]));
        assert!(keep(vec![calibration(1)], 1.0, &world).is_err());
    }
}
