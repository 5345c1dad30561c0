//! When requests of an open load arrive: absolute instants, seeded, fixed before the run.
//!
//! A process of mean rate 1 is drawn first (gaps of mean 1), then its time is stretched to the wanted rate; a rate that
//! moves is the same process under another clock (time rescaling, Çınlar 1975, ch. 4.7).

use std::path::Path;

use rand::RngExt;
use rand_distr::{Distribution, Exp1, Gamma};

use crate::spec::{Arrivals, Rate};
use crate::world;

/// No stage has more arrivals.
pub const MAX_ARRIVALS: usize = 5_000_000;
const TRACE_MAX_BYTES: u64 = 256 << 20;

/// How far a schedule goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// So many arrivals.
    Count(usize),
    /// All arrivals before this time, and at least so many.
    Time { us: u64, at_least: usize },
}

#[derive(Debug, thiserror::Error)]
pub enum ArrivalError {
    #[error("the trace {path} can't be read: {reason}")]
    Read { path: String, reason: String },
    #[error("{path}:{line}: `{text}` is not a time in seconds; write one arrival on a line, rising from 0")]
    Line { path: String, line: usize, text: String },
    #[error("{path}:{line}: {now} s comes after {before} s; a trace rises")]
    Order { path: String, line: usize, before: f64, now: f64 },
    #[error("the trace {path} has no arrival")]
    Empty { path: String },
    #[error("the stage has more than {MAX_ARRIVALS} arrivals")]
    TooMany,
}

/// Offsets from the stage's start, in microseconds, rising. `stream` names the draw, so that stages differ.
///
/// # Errors
/// A trace that can't be read, or more than [`MAX_ARRIVALS`].
pub fn offsets_us(arrivals: &Arrivals, seed: u64, stream: &str, until: Until) -> Result<Vec<u64>, ArrivalError> {
    if let Arrivals::Trace { file } = arrivals {
        return trace(file, until);
    }
    let Some(rate) = arrivals.rate() else { return Ok(Vec::new()) };
    let length_s = match until {
        Until::Time { us, .. } => us as f64 / 1e6,
        Until::Count(_) => 0.0,
    };
    let mut process = Process::new(arrivals, seed, stream);
    let mut offsets = Vec::new();
    loop {
        let at_us = (stretched(process.next_at(), rate, length_s) * 1e6).round() as u64;
        let over = match until {
            Until::Count(count) => offsets.len() >= count,
            Until::Time { us, at_least } => at_us >= us && offsets.len() >= at_least,
        };
        if over {
            return Ok(offsets);
        }
        if offsets.len() >= MAX_ARRIVALS {
            return Err(ArrivalError::TooMany);
        }
        offsets.push(at_us);
    }
}

/// A process of mean rate 1.
struct Process<'a> {
    kind: &'a Arrivals,
    rng: rand_pcg::Pcg64,
    gamma: Option<Gamma<f64>>,
    count: u64,
    at: f64,
}

impl<'a> Process<'a> {
    fn new(kind: &'a Arrivals, seed: u64, stream: &str) -> Process<'a> {
        let gamma = match kind {
            Arrivals::Gamma { shape, .. } => Gamma::new(*shape, 1.0 / shape).ok(),
            _ => None,
        };
        Process { kind, rng: world::rng(seed, &format!("arrivals/{stream}")), gamma, count: 0, at: 0.0 }
    }

    fn next_at(&mut self) -> f64 {
        let number = self.count;
        self.count += 1;
        match self.kind {
            Arrivals::Constant { .. } => number as f64,
            Arrivals::Burst { size, .. } => (number - number % u64::from(*size).max(1)) as f64,
            Arrivals::Gamma { .. } => {
                self.at += match &self.gamma {
                    Some(gamma) => gamma.sample(&mut self.rng),
                    None => self.rng.random::<f64>() * 2.0,
                };
                self.at
            }
            _ => {
                let gap: f64 = Exp1.sample(&mut self.rng);
                self.at += gap;
                self.at
            }
        }
    }
}

/// The instant at which the wanted rate has brought `amount` arrivals on average: the inverse of the cumulated rate.
fn stretched(amount: f64, rate: Rate, length_s: f64) -> f64 {
    let Some(to) = rate.ramp_to_per_s.filter(|_| length_s > 0.0) else {
        return amount / rate.per_s;
    };
    let slope = (to - rate.per_s) / length_s;
    let within = rate.per_s * length_s + slope * length_s * length_s / 2.0;
    if amount >= within {
        return length_s + (amount - within) / to;
    }
    // (slope ÷ 2) t² + per_s t = amount, in the form that is stable for a small slope.
    2.0 * amount / (rate.per_s + (rate.per_s * rate.per_s + 2.0 * slope * amount).max(0.0).sqrt())
}

fn trace(file: &Path, until: Until) -> Result<Vec<u64>, ArrivalError> {
    let path = || file.display().to_string();
    let read = |reason: String| ArrivalError::Read { path: path(), reason };
    let bytes = crate::spec::read_file(file, TRACE_MAX_BYTES).map_err(|error| read(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| read("it is not UTF-8".to_owned()))?;
    let mut offsets = Vec::new();
    let mut before = 0.0;
    for (index, line) in text.lines().enumerate() {
        let line_text = line.split('#').next().unwrap_or_default().trim();
        if line_text.is_empty() {
            continue;
        }
        let bad = || ArrivalError::Line { path: path(), line: index + 1, text: line_text.chars().take(60).collect() };
        let now: f64 = line_text.parse().map_err(|_| bad())?;
        if !now.is_finite() || !(0.0..=3.6e6).contains(&now) {
            return Err(bad());
        }
        if now < before {
            return Err(ArrivalError::Order { path: path(), line: index + 1, before, now });
        }
        before = now;
        let at_us = (now * 1e6).round() as u64;
        match until {
            Until::Count(count) if offsets.len() >= count => break,
            Until::Time { us, .. } if at_us >= us => break,
            _ => {}
        }
        if offsets.len() >= MAX_ARRIVALS {
            return Err(ArrivalError::TooMany);
        }
        offsets.push(at_us);
    }
    if offsets.is_empty() { Err(ArrivalError::Empty { path: path() }) } else { Ok(offsets) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn gaps_s(offsets: &[u64]) -> Vec<f64> {
        offsets.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e6).collect()
    }

    /// Kolmogorov–Smirnov distance of a sample from a distribution, times √n.
    fn ks(mut values: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let distance = |(k, x): (usize, &f64)| {
            let at = cdf(*x);
            (at - k as f64 / n).abs().max(((k + 1) as f64 / n - at).abs())
        };
        values.iter().enumerate().map(distance).fold(0.0, f64::max) * n.sqrt()
    }

    fn drawn(arrivals: &Arrivals, count: usize) -> Vec<u64> {
        offsets_us(arrivals, 7, "0", Until::Count(count)).unwrap()
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let offsets = drawn(&Arrivals::Poisson { rate: Rate::steady(50.0) }, 20_000);
        // 1.63 is the 1 % point of the Kolmogorov distribution.
        let distance = ks(gaps_s(&offsets), |x| 1.0 - (-50.0 * x).exp());
        assert!(distance < 1.63, "{distance}");
        let wrong = ks(gaps_s(&offsets), |x| 1.0 - (-45.0 * x).exp());
        assert!(wrong > 1.63, "the test would not see another rate: {wrong}");
    }

    #[test]
    fn constant_is_constant() {
        let offsets = drawn(&Arrivals::Constant { rate: Rate::steady(8.0) }, 100);
        assert_eq!(offsets.first(), Some(&0));
        assert!(offsets.windows(2).all(|w| w[1] - w[0] == 125_000), "{offsets:?}");
    }

    #[test]
    fn gamma_keeps_the_rate_and_clumps_below_shape_one() {
        let spread = |shape| {
            let gaps = gaps_s(&drawn(&Arrivals::Gamma { rate: Rate::steady(10.0), shape }, 20_000));
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let var = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            (mean, var.sqrt() / mean)
        };
        for (shape, variation) in [(0.25, 2.0), (1.0, 1.0), (16.0, 0.25)] {
            let (mean, seen) = spread(shape);
            assert!((mean - 0.1).abs() < 0.006, "shape {shape}: mean gap {mean}");
            assert!((seen / variation - 1.0).abs() < 0.06, "shape {shape}: variation {seen}");
        }
    }

    #[test]
    fn a_burst_comes_at_one_instant() {
        let offsets = drawn(&Arrivals::Burst { rate: Rate::steady(10.0), size: 5 }, 12);
        assert_eq!(offsets[..5], [0; 5]);
        assert_eq!(offsets[5..10], [SECOND / 2; 5]);
        assert_eq!(offsets[10..], [SECOND; 2]);
    }

    #[test]
    fn a_ramp_brings_what_its_mean_rate_says() {
        let rate = Rate { per_s: 10.0, ramp_to_per_s: Some(50.0) };
        let until = Until::Time { us: 60 * SECOND, at_least: 0 };
        let offsets = offsets_us(&Arrivals::Constant { rate }, 7, "0", until).unwrap();
        assert!((1_799..=1_801).contains(&offsets.len()), "{}", offsets.len());
        let half = offsets.iter().filter(|at| **at < 30 * SECOND).count();
        // ∫₀³⁰ (10 + 40 t ÷ 60) dt = 600
        assert!((599..=601).contains(&half), "{half}");
        let down = Rate { per_s: 50.0, ramp_to_per_s: Some(10.0) };
        let falling = offsets_us(&Arrivals::Constant { rate: down }, 7, "0", until).unwrap();
        assert!((1_799..=1_801).contains(&falling.len()), "{}", falling.len());
    }

    #[test]
    fn a_schedule_repeats_by_seed_and_differs_by_stage() {
        let arrivals = Arrivals::Poisson { rate: Rate::steady(5.0) };
        let draw = |seed, stream| offsets_us(&arrivals, seed, stream, Until::Count(50)).unwrap();
        assert_eq!(draw(7, "0"), draw(7, "0"));
        assert_ne!(draw(7, "0"), draw(7, "1"));
        assert_ne!(draw(7, "0"), draw(8, "0"));
    }

    #[test]
    fn a_time_goes_on_until_enough_have_come() {
        let arrivals = Arrivals::Constant { rate: Rate::steady(1.0) };
        let until = Until::Time { us: 10 * SECOND, at_least: 25 };
        assert_eq!(offsets_us(&arrivals, 7, "0", until).unwrap().len(), 25);
    }

    #[test]
    fn traces_are_read_and_refused_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let file = dir.path().join("trace.txt");
            std::fs::write(&file, text).unwrap();
            offsets_us(&Arrivals::Trace { file }, 7, "0", Until::Count(10)).map_err(|e| e.to_string())
        };
        assert_eq!(read("# arrivals\n0\n0.5 # second\n\n2\n").unwrap(), [0, SECOND / 2, 2 * SECOND]);
        assert!(read("0\nsoon\n").unwrap_err().contains(":2: `soon`"));
        assert!(read("1\n0.5\n").unwrap_err().contains("a trace rises"));
        assert!(read("-1\n").unwrap_err().contains("not a time"));
        assert!(read("# nothing\n").unwrap_err().contains("no arrival"));
    }
}
