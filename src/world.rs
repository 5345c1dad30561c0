//! The world outside: one clock, the environment, seeded randomness. Everything else asks here, so that the
//! simulation can stand in for all of it (`clippy.toml` forbids the back doors).

use std::collections::BTreeMap;
use std::time::SystemTime;

use rand_pcg::Pcg64;

use crate::units::{Id, Mono, nanos};

/// The monotonic clock of a run. It is tokio's clock: virtual where the runtime's clock is paused.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    anchor: tokio::time::Instant,
}

impl Clock {
    /// Starts a clock at zero.
    #[allow(clippy::disallowed_methods)] // The one place that reads tokio's clock.
    pub fn start() -> Clock {
        Clock { anchor: tokio::time::Instant::now() }
    }

    #[allow(clippy::disallowed_methods)] // The one place that reads tokio's clock.
    pub fn now(&self) -> Mono {
        let elapsed = tokio::time::Instant::now().saturating_duration_since(self.anchor);
        Mono(nanos(elapsed))
    }

    /// Waits until the instant `at`; returns at once where it has passed. Millisecond granularity (tokio's timer).
    pub async fn sleep_until(&self, at: Mono) {
        tokio::time::sleep_until(self.instant(at)).await;
    }

    /// The instant as tokio's own type, for `timeout_at`.
    pub fn instant(&self, at: Mono) -> tokio::time::Instant {
        self.anchor + std::time::Duration::from_nanos(at.0)
    }
}

/// Processor time that the calling thread has used, in nanoseconds; `None` where the system doesn't tell.
#[cfg(target_os = "linux")]
pub fn thread_cpu_ns() -> Option<u64> {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(used.tv_sec).ok()?, u64::try_from(used.tv_nsec).ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Processor time that the calling thread has used, in nanoseconds; `None` where the system doesn't tell.
#[cfg(not(target_os = "linux"))]
pub fn thread_cpu_ns() -> Option<u64> {
    None
}

/// Clock, wall time and environment.
pub trait World: Send + Sync {
    fn clock(&self) -> Clock;
    /// Wall time in milliseconds since 1970. Only labels runs; no latency is computed from it.
    fn wall_ms(&self) -> u64;
    /// An environment variable; `None` where unset or not Unicode.
    fn env(&self, name: &str) -> Option<String>;
}

/// The machine's own clock and environment.
pub struct RealWorld {
    clock: Clock,
}

impl RealWorld {
    pub fn new() -> RealWorld {
        RealWorld { clock: Clock::start() }
    }
}

impl Default for RealWorld {
    fn default() -> Self {
        RealWorld::new()
    }
}

impl World for RealWorld {
    fn clock(&self) -> Clock {
        self.clock
    }

    #[allow(clippy::disallowed_methods)] // The one place that reads the wall clock.
    fn wall_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(0)
    }

    #[allow(clippy::disallowed_methods)] // The one place that reads the environment.
    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// A world made of values: for the simulation and for tests.
pub struct FixedWorld {
    pub clock: Clock,
    pub wall_ms: u64,
    pub env: BTreeMap<String, String>,
}

impl FixedWorld {
    pub fn new(env: &[(&str, &str)]) -> FixedWorld {
        let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        FixedWorld { clock: Clock::start(), wall_ms: 1_764_547_200_000, env }
    }
}

impl World for FixedWorld {
    fn clock(&self) -> Clock {
        self.clock
    }

    fn wall_ms(&self) -> u64 {
        self.wall_ms
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }
}

/// A named stream of random numbers. PCG-64 is value-stable across versions and platforms, so a seed in a plan
/// means the same numbers for ever. Different names give independent streams.
pub fn rng(seed: u64, stream: &str) -> Pcg64 {
    let id = Id::of("rng", &[&seed.to_le_bytes(), stream.as_bytes()]);
    let (state, increment) = id.0.split_at(8);
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0_u128, |acc, byte| (acc << 8) | u128::from(*byte));
    Pcg64::new((word(increment) << 64) | word(state), word(state) << 1 | 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn streams_repeat_by_seed_and_differ_by_name() {
        let draw = |seed, name| -> u64 { rng(seed, name).next_u64() };
        assert_eq!(draw(7, "a"), draw(7, "a"));
        assert_ne!(draw(7, "a"), draw(7, "b"));
        assert_ne!(draw(7, "a"), draw(8, "a"));
    }
}
