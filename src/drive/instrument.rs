//! The instrument looks at itself while it measures: how late the lanes' thread wakes, how busy it is, and whether the
//! wall clock was moved.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::answers::Answers;
use super::calibrate::Shape;
use super::event::Attempt;
use crate::spec::ArmsMode;
use crate::units::Mono;
use crate::world::{self, Clock, World};

/// Between two looks.
const TICK: Duration = Duration::from_millis(10);
/// Looks that one long stall stands for, at most.
const MISSED_MAX: usize = 100_000;
/// Lateness is counted in buckets of so many microseconds, up to a second; what lies beyond is known by its maximum.
const BUCKET_US: u64 = 100;
const BUCKETS: usize = 10_000;
/// Between two looks wall clock and monotonic clock part by no more, unless somebody sets the one.
const CLOCK_STEP_MS: f64 = 250.0;

/// Marks for lateness, in milliseconds.
pub const LATE_EDGES_MS: [u64; 9] = [1, 2, 5, 10, 20, 50, 100, 200, 500];

/// What the instrument saw of itself during one slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Instrument {
    /// How late the lanes' thread woke for a timer, in milliseconds. The timer's own granularity of a millisecond is part
    /// of it. A look that a stall swallowed counts with what was left of the stall.
    pub stall_p50_ms: f64,
    pub stall_p99_ms: f64,
    pub stall_max_ms: f64,
    /// Processor time of the lanes' thread ÷ wall time; absent where the system doesn't tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes_cpu_share: Option<f64>,
    /// The largest jump of the wall clock against the monotonic one, in milliseconds; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_step_ms: Option<f64>,
    /// Looks that were later than each of [`LATE_EDGES_MS`], so that slots can be taken together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<u64>,
    /// Sockets that the process had open when the slot ended; absent where the system doesn't tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_sockets: Option<u64>,
    /// Looks.
    pub n: u64,
}

/// Whether a run watches itself. Under a simulated clock there is nothing to watch, and no task that could hold the clock
/// up.
#[derive(Clone)]
pub struct Gauge {
    world: Option<Arc<dyn World>>,
    answers: Arc<Mutex<Answers>>,
}

impl Gauge {
    /// Watches on the clocks of `world`, which must not be paused.
    pub fn of(world: &Arc<dyn World>) -> Gauge {
        Gauge { world: Some(Arc::clone(world)), answers: Arc::default() }
    }

    /// Watches nothing.
    pub fn off() -> Gauge {
        Gauge { world: None, answers: Arc::default() }
    }

    /// Takes note of an answer, whose like a calibration asks for.
    pub fn saw(&self, attempt: &Attempt) {
        if self.world.is_some() {
            self.answers.lock().unwrap_or_else(PoisonError::into_inner).saw(attempt);
        }
    }

    /// The load as the client saw it; `None` where nothing was streamed, or nothing is watched.
    pub fn shape(&self, mode: ArmsMode) -> Option<Shape> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).shape(mode)
    }

    /// Begins to watch the thread of `pool`, which must be a single one.
    pub fn start(&self, pool: &Handle) -> Watching {
        let task = self.world.clone().map(|world| {
            let (stop, stopped) = oneshot::channel();
            (stop, pool.spawn(watch(world, stopped)))
        });
        Watching { task }
    }
}

/// A watch that runs.
pub struct Watching {
    task: Option<(oneshot::Sender<()>, JoinHandle<Reading>)>,
}

/// What a watch gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub figures: Instrument,
    /// Processor time of the watched thread, in nanoseconds.
    pub cpu_ns: Option<u64>,
}

impl Watching {
    /// Ends the watch; `None` where nothing was watched.
    pub async fn finish(self) -> Option<Reading> {
        let (stop, task) = self.task?;
        // The receiver is gone only where the pool has ended.
        let _ = stop.send(());
        let mut reading = task.await.ok()?;
        reading.figures.open_sockets = open_sockets();
        Some(reading)
    }
}

/// Wakes every 10 ms on the lanes' own thread until it is told to stop, or whoever started it has gone.
async fn watch(world: Arc<dyn World>, mut stopped: oneshot::Receiver<()>) -> Reading {
    let clock = world.clock();
    let (start, cpu_start) = (clock.now(), world::thread_cpu_ns());
    let mut late = Lateness::default();
    let mut wall = WallClock::new(&*world, clock);
    let mut due = start.plus(TICK);
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => break,
            () = clock.sleep_until(due) => {}
        }
        let now = clock.now();
        due = late.looked(due, now);
        wall.look(&*world, clock);
    }
    let wall_ns = clock.now().since(start).unwrap_or(0);
    let cpu_ns = world::thread_cpu_ns().zip(cpu_start).and_then(|(end, start)| end.checked_sub(start));
    let share = cpu_ns.filter(|_| wall_ns > 0).map(|cpu| cpu as f64 / wall_ns as f64);
    Reading { figures: late.figures(share, wall.step_ms), cpu_ns }
}

/// How late each look was.
struct Lateness {
    buckets: Vec<u32>,
    max_us: u64,
    n: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        Lateness { buckets: vec![0; BUCKETS], max_us: 0, n: 0 }
    }
}

impl Lateness {
    /// Counts the look that was due, and those that the wait for it has swallowed; returns when the next one is due.
    fn looked(&mut self, mut due: Mono, now: Mono) -> Mono {
        for _ in 0..MISSED_MAX {
            let Some(late_ns) = now.since(due) else { return due };
            self.count(late_ns / 1_000);
            due = due.plus(TICK);
        }
        now.plus(TICK)
    }

    fn count(&mut self, late_us: u64) {
        let bucket = usize::try_from(late_us / BUCKET_US).unwrap_or(usize::MAX).min(BUCKETS - 1);
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count = count.saturating_add(1);
        }
        self.max_us = self.max_us.max(late_us);
        self.n += 1;
    }

    /// Upper edge of the bucket that holds the percentile, and no more than the maximum.
    fn percentile_ms(&self, q: f64) -> f64 {
        let rank = (self.n as f64 * q).ceil().max(1.0) as u64;
        let mut below = 0;
        let bucket = self.buckets.iter().position(|count| {
            below += u64::from(*count);
            below >= rank
        });
        let edge_us = match bucket {
            Some(bucket) if bucket + 1 < BUCKETS => (bucket as u64 + 1) * BUCKET_US,
            _ => self.max_us,
        };
        edge_us.min(self.max_us) as f64 / 1e3
    }

    fn later_than(&self, edge_ms: u64) -> u64 {
        let from = usize::try_from(edge_ms * 1_000 / BUCKET_US).unwrap_or(BUCKETS);
        self.buckets.iter().skip(from).map(|count| u64::from(*count)).sum()
    }

    fn figures(&self, lanes_cpu_share: Option<f64>, clock_step_ms: Option<f64>) -> Instrument {
        Instrument {
            stall_p50_ms: self.percentile_ms(0.5),
            stall_p99_ms: self.percentile_ms(0.99),
            stall_max_ms: self.max_us as f64 / 1e3,
            lanes_cpu_share,
            clock_step_ms,
            late: LATE_EDGES_MS.iter().map(|edge| self.later_than(*edge)).collect(),
            open_sockets: None,
            n: self.n,
        }
    }
}

/// Wall time minus monotonic time, from look to look: slewing moves it by little, setting the clock at once.
struct WallClock {
    ahead_ms: f64,
    step_ms: Option<f64>,
}

impl WallClock {
    fn new(world: &dyn World, clock: Clock) -> WallClock {
        WallClock { ahead_ms: ahead_ms(world, clock), step_ms: None }
    }

    fn look(&mut self, world: &dyn World, clock: Clock) {
        self.moved_to(ahead_ms(world, clock));
    }

    fn moved_to(&mut self, ahead_ms: f64) {
        let step = ahead_ms - std::mem::replace(&mut self.ahead_ms, ahead_ms);
        if step.abs() > CLOCK_STEP_MS && self.step_ms.is_none_or(|largest| step.abs() > largest.abs()) {
            self.step_ms = Some(step);
        }
    }
}

fn ahead_ms(world: &dyn World, clock: Clock) -> f64 {
    world.wall_ms() as f64 - clock.now().0 as f64 / 1e6
}

/// Sockets among the process's open files.
fn open_sockets() -> Option<u64> {
    let files = std::fs::read_dir("/proc/self/fd").ok()?;
    let is_socket = |file: &std::fs::DirEntry| {
        std::fs::read_link(file.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
    };
    Some(files.flatten().filter(is_socket).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::FixedWorld;

    fn ms(ms: u64) -> Mono {
        Mono(ms * 1_000_000)
    }

    #[test]
    fn a_stall_counts_for_every_look_that_it_swallowed() {
        let mut late = Lateness::default();
        let mut due = ms(10);
        for _ in 0..95 {
            due = late.looked(due, due.plus_ns(50_000));
        }
        assert_eq!(due, ms(960));
        // 45 ms late: this look, and the four that were due meanwhile.
        due = late.looked(due, ms(1_005));
        assert_eq!((due, late.n), (ms(1_010), 100));
        let figures = late.figures(None, None);
        assert!((figures.stall_p50_ms - 0.1).abs() < 1e-9, "{figures:?}");
        assert!((figures.stall_p99_ms - 35.1).abs() < 1e-9, "{figures:?}");
        assert!((figures.stall_max_ms - 45.0).abs() < 1e-9, "{figures:?}");
        // 45, 35, 25, 15 and 5 ms.
        assert_eq!(figures.late, [5, 5, 5, 4, 3, 0, 0, 0, 0]);
    }

    #[test]
    fn a_machine_that_slept_for_long_is_looked_at_no_more_than_the_limit() {
        let mut late = Lateness::default();
        let hour = ms(3_600_000);
        assert_eq!(late.looked(ms(10), hour), hour.plus(TICK));
        assert_eq!(late.n, MISSED_MAX as u64);
        assert!((late.figures(None, None).stall_max_ms - 3_599_990.0).abs() < 1e-6);
    }

    #[test]
    fn no_look_at_all_is_no_stall() {
        let figures = Lateness::default().figures(Some(0.5), None);
        assert_eq!((figures.n, figures.stall_p99_ms, figures.stall_max_ms), (0, 0.0, 0.0));
    }

    #[test]
    fn only_a_jump_of_the_wall_clock_is_a_step() {
        let mut wall = WallClock { ahead_ms: 1_000.0, step_ms: None };
        for slewed in 0..5_000 {
            wall.moved_to(1_000.0 + f64::from(slewed));
        }
        assert_eq!(wall.step_ms, None, "5 s of slewing, a millisecond at a time");
        for ahead in [5_300.0, 300.0, 600.0] {
            wall.moved_to(ahead);
        }
        assert_eq!(wall.step_ms, Some(-5_000.0), "the largest one stands, with its sign");
    }

    #[tokio::test]
    async fn a_gauge_watches_the_thread_that_it_is_given() {
        let world: Arc<dyn World> = Arc::new(FixedWorld::new(&[]));
        let watching = Gauge::of(&world).start(&Handle::current());
        tokio::time::sleep(Duration::from_millis(60)).await;
        let reading = watching.finish().await.unwrap();
        assert!(reading.figures.n >= 1, "{reading:?}");
        assert!(reading.figures.lanes_cpu_share.is_none_or(|share| (0.0..1.5).contains(&share)), "{reading:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn switched_off_it_starts_nothing() {
        let watching = Gauge::off().start(&Handle::current());
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
        assert_eq!(watching.finish().await, None);
    }
}
