//! The simulated server without sockets: lanes that carry an [`Engine`]'s scripts under the run's own clock. Every
//! frame is stamped with the instant that its script gives, exactly; only the waiting has the timer's granularity.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::engine::{Engine, Stats};
use super::script::{End, Request, Script};
use crate::deploy::transport::BoxFuture;
use crate::deploy::watch::{Flow, MAX_RESPONSE_BYTES, Watch};
use crate::deploy::{Dialect, EndOfBody, Exchanged, Frame, Lane, Target, Transport, TransportError, WireRequest};
use crate::units::Mono;
use crate::world::Clock;

/// How long a stream that said it is done may take to end its response.
const AFTER_DONE_NS: u64 = 100_000_000;

/// Simulated servers by the deployment's name.
#[derive(Clone)]
pub struct MemoryTransport {
    clock: Clock,
    engines: BTreeMap<String, Shared>,
}

type Shared = Arc<Mutex<Engine>>;

impl MemoryTransport {
    pub fn new(clock: Clock) -> MemoryTransport {
        MemoryTransport { clock, engines: BTreeMap::new() }
    }

    /// Adds a deployment; one that is missing refuses connections.
    #[must_use]
    pub fn with(mut self, deployment: &str, engine: Engine) -> MemoryTransport {
        self.engines.insert(deployment.to_owned(), Arc::new(Mutex::new(engine)));
        self
    }

    /// What a deployment's server has seen.
    pub fn stats(&self, deployment: &str) -> Option<Stats> {
        self.engines.get(deployment).map(|engine| locked(engine).stats())
    }

    /// Asks a deployment's page (`/metrics`, `/health`, …) now: status and body.
    pub fn get(&self, deployment: &str, path: &str) -> Option<(u16, Vec<u8>)> {
        let request = Request { method: "GET", path, headers: &[], body: &[] };
        let script = locked(self.engines.get(deployment)?).on_request(self.clock.now(), &request);
        let body = script.body();
        Some((script.head?.status, body))
    }
}

impl Transport for MemoryTransport {
    fn lane(&self, target: &Arc<Target>) -> Box<dyn Lane> {
        Box::new(MemoryLane {
            clock: self.clock,
            engine: self.engines.get(&target.name).cloned(),
            target: Arc::clone(target),
            open: false,
            opened_once: false,
            exchanges: 0,
            last_used: Mono::default(),
        })
    }
}

/// A panic elsewhere leaves an engine that is still sound: it holds no invariant across calls.
fn locked(engine: &Shared) -> MutexGuard<'_, Engine> {
    engine.lock().unwrap_or_else(PoisonError::into_inner)
}

struct MemoryLane {
    clock: Clock,
    engine: Option<Shared>,
    target: Arc<Target>,
    open: bool,
    opened_once: bool,
    /// On this connection.
    exchanges: u32,
    last_used: Mono,
}

impl Lane for MemoryLane {
    fn is_open(&self) -> bool {
        self.open && !self.idled_out()
    }

    fn open(&mut self) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(std::future::ready(self.connect()))
    }

    fn exchange<'a>(&'a mut self, request: &'a WireRequest, dialect: &'a dyn Dialect) -> BoxFuture<'a, Exchanged> {
        Box::pin(self.run(request, dialect))
    }
}

impl MemoryLane {
    fn connect(&mut self) -> Result<(), TransportError> {
        if self.engine.is_none() {
            let address = self.target.name.clone();
            return Err(TransportError::Connect { address, reason: "no simulated server has this name".to_owned() });
        }
        if !self.is_open() {
            (self.open, self.opened_once, self.exchanges) = (true, true, 0);
            self.last_used = self.clock.now();
        }
        Ok(())
    }

    /// Whether the server has closed the connection because nothing was asked for too long.
    fn idled_out(&self) -> bool {
        let limit_ms = self.engine.as_ref().map_or(0, |engine| locked(engine).profile().idle_close_ms);
        let idle_ns = self.clock.now().since(self.last_used).unwrap_or(0);
        limit_ms > 0 && idle_ns >= u64::from(limit_ms) * 1_000_000
    }

    async fn run(&mut self, request: &WireRequest, dialect: &dyn Dialect) -> Exchanged {
        let mut exchanged = Exchanged::begun(self.clock.now(), request.stream);
        if !self.is_open() {
            exchanged.reopened = self.opened_once;
            if let Err(error) = self.connect() {
                exchanged.end = EndOfBody::Broken(error);
                return exchanged;
            }
        }
        let reused = self.exchanges > 0;
        exchanged.marks.tcp_ns = (!reused).then_some(0);
        let mut closes = self.attempt(request, dialect, &mut exchanged).await;
        if reused && exchanged.end == EndOfBody::Broken(TransportError::ClosedBeforeResponse) {
            exchanged.reopened = true;
            exchanged.end = EndOfBody::Complete;
            exchanged.marks.tcp_ns = Some(0);
            self.exchanges = 0;
            closes = self.attempt(request, dialect, &mut exchanged).await;
        }
        let most = self.engine.as_ref().map_or(0, |engine| locked(engine).profile().requests_per_connection);
        let worn = most > 0 && self.exchanges >= most;
        self.open = exchanged.end == EndOfBody::Complete && !closes && !worn;
        self.last_used = self.clock.now();
        exchanged
    }

    /// Sends the request once; tells whether the server closes the connection after its response.
    async fn attempt(&mut self, request: &WireRequest, dialect: &dyn Dialect, exchanged: &mut Exchanged) -> bool {
        let Some(engine) = self.engine.clone() else { return true };
        // Where this future is dropped, the lane stays closed and the server forgets the request.
        self.open = false;
        self.exchanges += 1;
        let sent = self.clock.now();
        exchanged.marks.sent = Some(sent);
        let asked = Request { method: "POST", path: &request.path, headers: &request.headers, body: &request.body };
        let script = locked(&engine).on_request(sent, &asked);
        let closes = script.close.is_some();
        let _served = Served { engine, number: script.number, clock: self.clock };
        let watch = Watch::new(self.target.timeouts, sent, request.stream, dialect);
        Reading { clock: self.clock, watch, done_at: None }.read(script, exchanged).await;
        closes
    }
}

/// Tells the engine when a request is over, however it ends.
struct Served {
    engine: Shared,
    number: u64,
    clock: Clock,
}

impl Drop for Served {
    fn drop(&mut self) {
        locked(&self.engine).on_end(self.number, self.clock.now());
    }
}

struct Reading<'a> {
    clock: Clock,
    watch: Watch<'a>,
    done_at: Option<Mono>,
}

impl Reading<'_> {
    async fn read(mut self, script: Script, exchanged: &mut Exchanged) {
        let answered = script.head.is_some();
        let (at, end) = match self.read_all(script, exchanged).await {
            Ok(at) => (at, EndOfBody::Complete),
            Err(ended) => ended,
        };
        exchanged.marks.eof = answered.then_some(at);
        exchanged.end = end;
    }

    /// Reads to the end of the script, or to what ends the reading before it; gives the instant of the end.
    async fn read_all(&mut self, script: Script, exchanged: &mut Exchanged) -> Result<Mono, (Mono, EndOfBody)> {
        let answered = script.head.is_some();
        if let Some(head) = script.head {
            self.until(head.at).await?;
            exchanged.marks.first_byte = Some(head.at);
            exchanged.marks.headers = Some(head.at);
            exchanged.status = Some(head.status);
            let content_type = head.headers.iter().find(|(name, _)| name == "content-type");
            self.watch.on_headers(head.at, content_type.map(|(_, value)| value.as_str()));
            exchanged.headers = head.headers;
        }
        for frame in script.frames {
            self.until(frame.at).await?;
            self.take(frame, exchanged)?;
        }
        if script.end == End::Hang {
            let (limit, end) = self.limit();
            self.clock.sleep_until(limit).await;
            return Err(end);
        }
        self.until(script.end_at).await?;
        match (script.end, answered, self.done_at) {
            (End::Complete | End::Hang, _, _) => Ok(script.end_at),
            (End::Cut, _, Some(done_at)) => Err((done_at, EndOfBody::DoneMarker)),
            (End::Cut, true, None) => {
                let text = "it closed in the middle of the response".to_owned();
                Err((script.end_at, EndOfBody::Broken(TransportError::Broken(text))))
            }
            (End::Cut, false, None) => Err((script.end_at, EndOfBody::Broken(TransportError::ClosedBeforeResponse))),
        }
    }

    fn take(&mut self, frame: Frame, exchanged: &mut Exchanged) -> Result<(), (Mono, EndOfBody)> {
        let at = frame.at;
        let flow = self.watch.on_frame(at, &frame.bytes);
        exchanged.frames.push(frame);
        match flow {
            Flow::Continue => Ok(()),
            Flow::Done => {
                self.done_at = Some(at);
                Ok(())
            }
            Flow::TooLarge => {
                Err((at, EndOfBody::Broken(TransportError::TooLarge { limit_bytes: MAX_RESPONSE_BYTES })))
            }
        }
    }

    /// When reading is given up; the instant and the kind of end that the exchange then has.
    fn limit(&self) -> (Mono, (Mono, EndOfBody)) {
        if let Some(done_at) = self.done_at {
            return (done_at.plus_ns(AFTER_DONE_NS), (done_at, EndOfBody::DoneMarker));
        }
        let (at, which) = self.watch.deadline();
        (at, (at, EndOfBody::TimedOut(which)))
    }

    /// Waits until `at`, or gives up before.
    async fn until(&self, at: Mono) -> Result<(), (Mono, EndOfBody)> {
        let (limit, end) = self.limit();
        if limit < at {
            self.clock.sleep_until(limit).await;
            return Err(end);
        }
        self.clock.sleep_until(at).await;
        Ok(())
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
