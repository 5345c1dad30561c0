//! What the answers of a run were like: the shape of its load, so that the instrument can be calibrated at it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::calibrate::Shape;
use super::event::Attempt;
use crate::plan::Phase;
use crate::spec::ArmsMode;

/// The last so many answers tell the medians.
const KEPT: usize = 4_096;
/// A calibration takes at most this share of the run's wall time, and no longer than this.
const WALL_SHARE: f64 = 0.05;
const WALL_MAX: Duration = Duration::from_secs(10);
/// First tokens whose 99th percentile can be told; more of them tell no more.
const REQUESTS_ENOUGH: u32 = 1_000;

/// One streamed answer.
#[derive(Clone, Copy, Debug)]
struct Answer {
    ttft_us: u64,
    /// Between two token-bearing events; 0 where there is but one.
    gap_us: u64,
    events: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Answers {
    last: VecDeque<Answer>,
    /// Lanes in use, by arm.
    lanes: BTreeMap<String, u32>,
}

impl Answers {
    /// Takes note of a measured answer that was streamed. Events count, not tokens: they are what the client reads.
    pub fn saw(&mut self, attempt: &Attempt) {
        let Some(answer) = streamed(attempt) else { return };
        if self.last.len() >= KEPT {
            self.last.pop_front();
        }
        self.last.push_back(answer);
        let lanes = attempt.lane.saturating_add(1);
        if let Some(known) = self.lanes.get_mut(&attempt.arm) {
            *known = lanes.max(*known);
        } else {
            self.lanes.insert(attempt.arm.clone(), lanes);
        }
    }

    /// The load as the client saw it, with one round; `None` where nothing was streamed.
    pub fn shape(&self, mode: ArmsMode) -> Option<Shape> {
        let lanes = self.lanes.values().copied();
        let concurrency = match mode {
            ArmsMode::Together => lanes.fold(0, u32::saturating_add),
            ArmsMode::Alternate | ArmsMode::Sequential => lanes.max()?,
        };
        Some(Shape {
            concurrency,
            rounds: 1,
            tokens: self.median(|answer| u64::from(answer.events))? as u32,
            ttft_ms: self.median(|answer| answer.ttft_us)? as f64 / 1e3,
            tpot_ms: self.median(|answer| answer.gap_us)? as f64 / 1e3,
        })
    }

    fn median(&self, figure: fn(&Answer) -> u64) -> Option<u64> {
        let mut values: Vec<u64> = self.last.iter().map(figure).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied()
    }
}

fn streamed(attempt: &Attempt) -> Option<Answer> {
    if attempt.phase != Phase::Measured || !attempt.outcome.is_answered() || !attempt.stream {
        return None;
    }
    let t = &attempt.timeline;
    let (first, last) = (t.first_token_us?, t.last_token_us?);
    let events = u32::try_from(attempt.arrival_gaps_us.len()).ok().filter(|events| *events > 0)?;
    let gap_us = last.checked_sub(first)?.checked_div(u64::from(events - 1)).unwrap_or(0);
    Some(Answer { ttft_us: first.checked_sub(t.sent_us?)?, gap_us, events })
}

/// How long a calibration of a run of this length may take.
pub fn time_for(wall: Duration) -> Duration {
    wall.mul_f64(WALL_SHARE).min(WALL_MAX)
}

/// The shape with as many rounds as fit into `time`; `None` where two service times don't: streams start spread over one,
/// and each answers once more.
pub fn fitted(shape: Shape, time: Duration) -> Option<Shape> {
    let service = shape.service().max(Duration::from_millis(1));
    let services = time.div_duration_f64(service).floor() as u32;
    let rounds = services.checked_sub(1).filter(|rounds| *rounds >= 1)?;
    let enough = REQUESTS_ENOUGH.div_ceil(shape.concurrency.max(1));
    Some(Shape { rounds: rounds.min(enough), ..shape })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(of: &[(u64, u64, u32)]) -> Answers {
        let last = of.iter().map(|&(ttft_us, gap_us, events)| Answer { ttft_us, gap_us, events }).collect();
        Answers { last, lanes: BTreeMap::from([("a".to_owned(), 4), ("b".to_owned(), 3)]) }
    }

    #[test]
    fn the_shape_is_of_medians_and_of_what_runs_at_a_time() {
        let answers = answers(&[(50_000, 9_000, 60), (70_000, 10_000, 64), (900_000, 11_000, 900)]);
        let shape = answers.shape(ArmsMode::Alternate).unwrap();
        assert_eq!(shape, Shape { concurrency: 4, rounds: 1, tokens: 64, ttft_ms: 70.0, tpot_ms: 10.0 });
        assert_eq!(answers.shape(ArmsMode::Together).unwrap().concurrency, 7);
        assert_eq!(Answers::default().shape(ArmsMode::Alternate), None);
    }

    #[test]
    fn a_calibration_is_short_beside_its_run() {
        let shape = Shape { concurrency: 4, rounds: 1, tokens: 96, ttft_ms: 50.0, tpot_ms: 10.0 };
        assert_eq!(shape.service(), Duration::from_secs(1));
        let rounds = |wall_s: u64| fitted(shape, time_for(Duration::from_secs(wall_s))).map(|shape| shape.rounds);
        assert_eq!(rounds(39), None);
        assert_eq!(rounds(40), Some(1));
        assert_eq!(rounds(100), Some(4));
        assert_eq!(rounds(36_000), Some(9), "10 s at most");
        let wide = Shape { concurrency: 1_000, ..shape };
        assert_eq!(fitted(wide, WALL_MAX).map(|shape| shape.rounds), Some(1), "1000 first tokens are enough");
    }
}
