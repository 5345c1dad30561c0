//! The consumer of the event stream: it records, grades in the drained gaps, and shows progress. It lives on a thread
//! of its own, so that neither disk nor terminal holds the dispatcher up.

use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;

use super::progress::Progress;
use crate::drive::{Attempt, EndReason, Event, Message, Stop};
use crate::grade::RunGrader;
use crate::plan::Phase;
use crate::record::{JournalWriter, RecordError};
use crate::units::Mono;
use crate::world::Clock;

/// The longest that a written line waits for the disk.
const SYNC_EVERY: Duration = Duration::from_secs(1);

pub struct Consumer {
    pub journal: JournalWriter,
    pub grader: RunGrader,
    pub progress: Progress,
    pub stop: Stop,
    pub clock: Clock,
}

/// What the consumer saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// The first failure to write; the run was stopped because of it.
    pub failure: Option<RecordError>,
}

/// Starts the consumer; it ends when every sender of the stream is gone.
pub fn spawn(consumer: Consumer, messages: mpsc::Receiver<Message>) -> std::io::Result<JoinHandle<Seen>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    std::thread::Builder::new().name("recorder".to_owned()).spawn(move || runtime.block_on(consume(consumer, messages)))
}

/// Stops the run where the consumer ends before the run does, a panic included: nothing is asked that is not recorded.
struct StopOnExit(Stop);

impl Drop for StopOnExit {
    fn drop(&mut self) {
        self.0.request(EndReason::Aborted("the recorder has ended".to_owned()));
    }
}

async fn consume(mut consumer: Consumer, mut messages: mpsc::Receiver<Message>) -> Seen {
    let _guard = StopOnExit(consumer.stop.clone());
    let mut seen = Seen::default();
    // Answers of the running block: graded in the gap, when nothing is measured.
    let mut ungraded: Vec<Attempt> = Vec::new();
    let mut dirty = false;
    let mut synced_at = Mono::default();
    loop {
        let now = consumer.clock.now();
        if now >= synced_at.plus(SYNC_EVERY) {
            consumer.sync(&mut dirty, &mut seen);
            synced_at = now;
        }
        let message = match tokio::time::timeout(SYNC_EVERY, messages.recv()).await {
            Ok(Some(message)) => message,
            Ok(None) => break,
            // Idle: the head of the loop syncs.
            Err(_) => continue,
        };
        match message {
            Message::Event(event) => {
                dirty = true;
                consumer.record(&event, &mut seen);
                consumer.progress.on_event(&event);
                if let Event::Attempt(attempt) = *event
                    && attempt.last
                    && attempt.phase == Phase::Measured
                {
                    ungraded.push(*attempt);
                }
            }
            Message::Barrier(answer) => {
                consumer.sync(&mut dirty, &mut seen);
                consumer.grade(&mut ungraded);
                let _ = answer.send(());
            }
        }
    }
    consumer.sync(&mut dirty, &mut seen);
    consumer.progress.finish();
    seen
}

impl Consumer {
    fn record(&mut self, event: &Event, seen: &mut Seen) {
        if seen.failure.is_none()
            && let Err(error) = self.journal.write(event)
        {
            self.fail(error, seen);
        }
    }

    fn sync(&mut self, dirty: &mut bool, seen: &mut Seen) {
        if std::mem::take(dirty)
            && seen.failure.is_none()
            && let Err(error) = self.journal.sync()
        {
            self.fail(error, seen);
        }
    }

    /// What cannot be recorded must not be asked: the run stops, and says why.
    fn fail(&mut self, error: RecordError, seen: &mut Seen) {
        self.stop.request(EndReason::Aborted(format!("the journal cannot be written: {error}")));
        seen.failure = Some(error);
    }

    /// Live verdicts are for the progress line only; the run's scores are made from the journal afterwards.
    fn grade(&mut self, ungraded: &mut Vec<Attempt>) {
        for attempt in ungraded.drain(..) {
            if let Some(score) = self.grader.grade(&attempt) {
                self.progress.on_score(&attempt.arm, score.pass);
            }
        }
    }
}
