//! Over-saturation of an open load, noticed while it happens: more arrives than is answered, and the backlog grows.
//!
//! The backlog is how many requests have arrived and were not served (dropped ones included). It is looked at four times a second, once the
//! first requests have shown how long one takes: until twice that time has passed it grows in any system.

use crate::units::Mono;

pub const LOOK_EVERY_NS: u64 = 250_000_000;
/// Five seconds of looks.
const LOOKS_NEEDED: usize = 20;
/// Requests whose service time says when the look begins.
const FIRST_ANSWERS: usize = 10;
/// A backlog that grows by this share of the arrivals or more.
const GROWTH_NEEDED: f64 = 0.1;
/// The slope must be this many standard errors above none. Looks are correlated, so that it is more than a t-test asks.
const SLOPE_ERRORS_NEEDED: f64 = 6.0;
/// The backlog must have grown by this many of its own standard deviations: in a system that keeps up it varies like a
/// Poisson count (the M/G/∞ queue), so that two looks differ by √(first + last).
const BEHIND_ERRORS_NEEDED: f64 = 4.0;
/// A few requests more are no backlog.
const BEHIND_NEEDED: f64 = 10.0;

#[derive(Debug)]
pub struct Backlog {
    started: Mono,
    /// Rising.
    arrivals: Vec<Mono>,
    finished: u64,
    first_service_ns: Vec<u64>,
    /// (seconds, backlog)
    looks: Vec<(f64, f64)>,
}

/// What was seen when the step was given up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Oversaturated {
    pub growth_per_s: f64,
    pub arrivals_per_s: f64,
    pub backlog: f64,
}

impl Backlog {
    pub fn new(started: Mono, arrivals: Vec<Mono>) -> Backlog {
        Backlog { started, arrivals, finished: 0, first_service_ns: Vec::new(), looks: Vec::new() }
    }

    /// A request has its outcome; `service_ns` where it was answered.
    pub fn finished(&mut self, service_ns: Option<u64>) {
        self.finished += 1;
        if self.first_service_ns.len() < FIRST_ANSWERS {
            self.first_service_ns.extend(service_ns);
        }
    }

    /// Looks at the backlog; says so once it is certain that it grows without end.
    pub fn look(&mut self, now: Mono) -> Option<Oversaturated> {
        let longest = self.first_service_ns.iter().max().copied()?;
        let arrived = self.arrivals.partition_point(|at| *at <= now) as u64;
        let settled_at = self.started.plus_ns(longest.saturating_mul(2));
        if now < settled_at || arrived as usize >= self.arrivals.len() {
            return None;
        }
        let seconds = now.since(self.started).unwrap_or(0) as f64 / 1e9;
        self.looks.push((seconds, arrived.saturating_sub(self.finished) as f64));
        let (first, last) = (self.looks.first()?, self.looks.last()?);
        let span_s = last.0 - first.0;
        if self.looks.len() < LOOKS_NEEDED || span_s <= 0.0 {
            return None;
        }
        let from = self.started.plus_ns((first.0 * 1e9) as u64);
        let before = self.arrivals.partition_point(|at| *at <= from) as u64;
        let arrivals_per_s = (arrived - before) as f64 / span_s;
        let (slope, error) = slope(&self.looks)?;
        let grows = slope >= GROWTH_NEEDED * arrivals_per_s && slope > SLOPE_ERRORS_NEEDED * error;
        let behind = last.1 - first.1;
        (grows && behind >= BEHIND_NEEDED.max(BEHIND_ERRORS_NEEDED * (first.1 + last.1).sqrt()))
            .then_some(Oversaturated { growth_per_s: slope, arrivals_per_s, backlog: last.1 })
    }
}

/// Least-squares slope and its standard error.
fn slope(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let n = points.len() as f64;
    let (mean_x, mean_y) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let sxx: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    if n < 3.0 || sxx <= 0.0 {
        return None;
    }
    let slope = sxy / sxx;
    let rest: f64 = points.iter().map(|p| (p.1 - mean_y - slope * (p.0 - mean_x)).powi(2)).sum();
    Some((slope, (rest / (n - 2.0) / sxx).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world;
    use rand::RngExt;

    const SECOND: u64 = 1_000_000_000;

    /// A queue with one server: Poisson arrivals at `rate`, answers at `served` a second at the most.
    fn noticed_at_s(rate: f64, served: f64, latency_s: f64, seed: u64) -> Option<f64> {
        let mut rng = world::rng(seed, "queue");
        let (mut at, mut free, mut arrivals, mut ends) = (0.0, 0.0_f64, Vec::new(), Vec::new());
        while at < 60.0 {
            at += -(1.0 - rng.random::<f64>()).ln() / rate;
            arrivals.push(Mono((at * 1e9) as u64));
            free = free.max(at) + 1.0 / served;
            ends.push((free + latency_s, free + latency_s - at));
        }
        let mut backlog = Backlog::new(Mono(0), arrivals);
        let mut next = 0;
        for look in 1..240 {
            let now = look * LOOK_EVERY_NS;
            while let Some((end, service)) = ends.get(next).filter(|(end, _)| *end * 1e9 <= now as f64) {
                let _ = end;
                backlog.finished(Some((service * 1e9) as u64));
                next += 1;
            }
            if backlog.look(Mono(now)).is_some() {
                return Some(now as f64 / SECOND as f64);
            }
        }
        None
    }

    #[test]
    fn a_server_that_falls_behind_is_noticed_early() {
        for seed in 0..20 {
            let at = noticed_at_s(20.0, 12.0, 0.5, seed);
            assert!(at.is_some_and(|at| at < 20.0), "seed {seed}: {at:?}");
        }
    }

    #[test]
    fn a_server_that_keeps_up_is_not() {
        let false_alarms = (0..100).filter(|seed| noticed_at_s(20.0, 25.0, 0.5, *seed).is_some()).count();
        assert!(false_alarms <= 2, "{false_alarms} of 100");
        // A long answer is no backlog: it fills up once and stays.
        let slow = (0..100).filter(|seed| noticed_at_s(5.0, 1_000.0, 8.0, *seed).is_some()).count();
        assert!(slow <= 2, "{slow} of 100");
    }
}
