//! The crew of a slot: lanes that take jobs until the slot is closed. They run where sockets are read, and do nothing
//! else there.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::exchange::{Came, Done, Exchange, SlotExchange};
use super::stop::Stop;
use crate::deploy::{Dialect, Lane, TransportError};
use crate::units::Mono;
use crate::world::Clock;

/// What every lane of a slot shares.
#[derive(Clone)]
pub struct CrewContext {
    pub exchange: Arc<SlotExchange>,
    pub dialect: &'static dyn Dialect,
    pub clock: Clock,
    pub stop: Stop,
    pub pool: Handle,
}

/// Lanes at work.
pub struct Crew {
    context: CrewContext,
    waiting: Vec<(u32, Box<dyn Lane>)>,
    working: JoinSet<Box<dyn Lane>>,
    done: Vec<Box<dyn Lane>>,
    lost_a_task: bool,
    total: u32,
}

/// What is left of a crew.
pub struct Dismissed {
    pub lanes: Vec<Box<dyn Lane>>,
    pub lost_a_task: bool,
}

impl Crew {
    pub fn new(context: CrewContext, lanes: Vec<Box<dyn Lane>>) -> Crew {
        let total = lanes.len() as u32;
        let mut waiting: Vec<_> = (0..total).zip(lanes).collect();
        waiting.reverse();
        Crew { context, waiting, working: JoinSet::new(), done: Vec::new(), lost_a_task: false, total }
    }

    /// Starts the first waiting lane now.
    pub fn start_one(&mut self) {
        if let Some((id, lane)) = self.waiting.pop() {
            self.spawn(id, lane, Mono(0));
        }
    }

    /// Starts the other lanes: lane i of C at the fraction i/C of `service_ns` after `from`; 0 starts all at once.
    pub fn start_rest(&mut self, from: Mono, service_ns: u64) {
        while let Some((id, lane)) = self.waiting.pop() {
            let offset = u128::from(service_ns) * u128::from(id) / u128::from(self.total.max(1));
            self.spawn(id, lane, from.plus_ns(offset as u64));
        }
    }

    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Resolves where a lane's task was lost while the slot runs: its job would never come back. Lanes end on their own
    /// only when the slot is closed or the run is cancelled.
    pub async fn watch(&mut self) {
        loop {
            match self.working.join_next().await {
                Some(Ok(lane)) => self.done.push(lane),
                Some(Err(_)) => {
                    self.lost_a_task = true;
                    return;
                }
                None => return std::future::pending().await,
            }
        }
    }

    /// Ends the slot and gives the lanes back. A lane whose task was lost is left out and opened anew next time.
    pub async fn dismiss(mut self) -> Dismissed {
        self.context.exchange.close();
        let mut lanes: Vec<Box<dyn Lane>> = self.waiting.into_iter().map(|(_, lane)| lane).collect();
        lanes.append(&mut self.done);
        while let Some(joined) = self.working.join_next().await {
            match joined {
                Ok(lane) => lanes.push(lane),
                Err(_) => self.lost_a_task = true,
            }
        }
        Dismissed { lanes, lost_a_task: self.lost_a_task }
    }

    fn spawn(&mut self, id: u32, lane: Box<dyn Lane>, at: Mono) {
        let work = work(self.context.clone(), id, lane, at);
        self.working.spawn_on(work, &self.context.pool);
    }
}

async fn work(context: CrewContext, id: u32, mut lane: Box<dyn Lane>, start_at: Mono) -> Box<dyn Lane> {
    tokio::select! {
        () = context.clock.sleep_until(start_at) => {}
        () = context.stop.cancelled() => return lane,
        () = context.exchange.closed() => return lane,
    }
    loop {
        let job = tokio::select! {
            biased;
            () = context.stop.cancelled() => None,
            job = context.exchange.take() => job,
        };
        let Some(job) = job else { return lane };
        let exchanged = tokio::select! {
            biased;
            exchanged = lane.exchange(&job.request, context.dialect) => exchanged,
            () = context.stop.cancelled() => return lane,
        };
        let (unit, position, attempt, intended) = (job.unit, job.position, job.attempt, job.intended);
        let came = Came::Exchanged(Box::new(exchanged));
        context.exchange.put(Done { unit, position, attempt, intended, lane: id, came });
    }
}

/// Opens the lanes that are not open, all at once, before a slot's clock starts. Gives them back in order with the
/// first failure.
pub async fn open_all(lanes: Vec<Box<dyn Lane>>, pool: &Handle) -> (Vec<Box<dyn Lane>>, Option<TransportError>) {
    let mut opening = JoinSet::new();
    for (index, mut lane) in lanes.into_iter().enumerate() {
        let open = async move {
            let opened = if lane.is_open() { Ok(()) } else { lane.open().await };
            (index, lane, opened)
        };
        opening.spawn_on(open, pool);
    }
    let mut opened = Vec::new();
    let mut failure = None;
    while let Some(joined) = opening.join_next().await {
        let Ok((index, lane, result)) = joined else {
            continue;
        };
        failure = failure.or(result.err());
        opened.push((index, lane));
    }
    opened.sort_by_key(|(index, _)| *index);
    (opened.into_iter().map(|(_, lane)| lane).collect(), failure)
}
