//! Where events go: one bounded queue to one consumer (recorder, progress, live accuracy).

use tokio::sync::{mpsc, oneshot};

use super::event::Event;

/// Events that may wait for the consumer before the dispatcher waits too. The reading of sockets never waits.
pub const SINK_EVENTS: usize = 4_096;

#[derive(Debug)]
pub enum Message {
    Event(Box<Event>),
    /// Answered once everything before it is on disk and graded: the drained gap between blocks.
    Barrier(oneshot::Sender<()>),
}

#[derive(Clone)]
pub struct EventSink {
    messages: mpsc::Sender<Message>,
}

impl EventSink {
    pub fn new() -> (EventSink, mpsc::Receiver<Message>) {
        let (messages, receiver) = mpsc::channel(SINK_EVENTS);
        (EventSink { messages }, receiver)
    }

    /// Hands an event on. A consumer that has died has stopped the run itself, so its absence is no news here.
    pub async fn emit(&self, event: Event) {
        let _ = self.messages.send(Message::Event(Box::new(event))).await;
    }

    /// Waits until the consumer has worked off everything before this call.
    pub async fn barrier(&self) {
        let (answer, answered) = oneshot::channel();
        if self.messages.send(Message::Barrier(answer)).await.is_ok() {
            let _ = answered.await;
        }
    }
}
