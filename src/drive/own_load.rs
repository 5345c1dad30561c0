//! What the answers of a run were like: the shape of its load, so that the instrument can be calibrated at it.

use std::collections::VecDeque;
use std::time::Duration;

use super::calibrate::Shape;
use super::event::Attempt;
use crate::plan::Phase;

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
    sent_us: u64,
    end_us: u64,
    ttft_us: u64,
    /// Between two token-bearing events; 0 where there is but one.
    gap_us: u64,
    events: u32,
}

#[derive(Clone, Debug, Default)]
pub struct OwnLoad {
    last: VecDeque<Answer>,
}

impl OwnLoad {
    /// Takes note of a measured answer that was streamed. Events count, not tokens: they are what the client reads.
    pub fn saw(&mut self, attempt: &Attempt) {
        let Some(answer) = streamed(attempt) else { return };
        if self.last.len() >= KEPT {
            self.last.pop_front();
        }
        self.last.push_back(answer);
    }

    /// The load as the client saw it, with one round; `None` where nothing was streamed.
    pub fn shape(&self) -> Option<Shape> {
        Some(Shape {
            concurrency: self.in_flight_max().filter(|most| *most > 0)?,
            rounds: 1,
            tokens: self.median(|answer| u64::from(answer.events))? as u32,
            ttft_ms: self.median(|answer| answer.ttft_us)? as f64 / 1e3,
            tpot_ms: self.median(|answer| answer.gap_us)? as f64 / 1e3,
        })
    }

    /// The most answers that were under way at one instant, whatever arm they are of and however they came to be asked.
    fn in_flight_max(&self) -> Option<u32> {
        let edges = self.last.iter().flat_map(|answer| [(answer.sent_us, 1_i64), (answer.end_us, -1)]);
        let mut edges: Vec<(u64, i64)> = edges.collect();
        // At one instant an end comes before a start: a lane that goes on at once is one answer, not two.
        edges.sort_unstable();
        let levels = edges.into_iter().scan(0, |level, (_, change)| {
            *level += change;
            Some(*level)
        });
        levels.max().and_then(|most| u32::try_from(most).ok())
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
    let sent_us = t.sent_us?;
    Some(Answer { sent_us, end_us: t.eof_us?, ttft_us: first.checked_sub(sent_us)?, gap_us, events })
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

    /// Answers (sent, end, TTFT, gap, events), times in milliseconds.
    fn load(of: &[(u64, u64, u64, u64, u32)]) -> OwnLoad {
        let answer = |&(sent, end, ttft, gap, events): &(u64, u64, u64, u64, u32)| Answer {
            sent_us: 1_000 * sent,
            end_us: 1_000 * end,
            ttft_us: 1_000 * ttft,
            gap_us: 1_000 * gap,
            events,
        };
        OwnLoad { last: of.iter().map(answer).collect() }
    }

    #[test]
    fn the_shape_is_of_medians_and_of_what_runs_at_a_time() {
        // Two lanes, of which the first goes on at once; a third answer starts when the last of both is over.
        let load =
            load(&[(0, 100, 50, 9, 60), (10, 200, 70, 10, 64), (100, 150, 900, 11, 900), (200, 300, 71, 10, 64)]);
        assert_eq!(load.shape(), Some(Shape { concurrency: 2, rounds: 1, tokens: 64, ttft_ms: 71.0, tpot_ms: 10.0 }));
        assert_eq!(OwnLoad::default().shape(), None);
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
