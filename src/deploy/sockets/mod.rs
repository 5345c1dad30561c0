//! Lanes over real sockets: hyper's HTTP/1.1 client connection, without a pool, over TCP or TLS.
//!
//! A lane drives its connection itself, in the task that awaits the exchange. No other task stands between the socket
//! and the stamp, and what hyper reads at once carries one instant.

mod connect;
mod drive;
mod io;
mod nudge;

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use super::dialect::Dialect;
use super::outcome::Deadline;
use super::transport::{BoxFuture, EndOfBody, Exchanged, Lane, Target, Transport, TransportError, WireRequest};
use super::watch::Watch;
use crate::world::Clock;
pub use connect::client_config;
use connect::{Live, NotOpened, Origin, TlsConfigs};
use drive::Sent;

/// The transport over sockets.
pub struct Sockets {
    clock: Clock,
    tls: Arc<TlsConfigs>,
}

impl Sockets {
    /// Lanes stamp with `clock`. With a target's `ca_file` that file alone is trusted, else Mozilla's roots.
    pub fn new(clock: Clock) -> Sockets {
        Sockets { clock, tls: Arc::new(TlsConfigs::default()) }
    }
}

impl Transport for Sockets {
    fn lane(&self, target: &Arc<Target>) -> Box<dyn Lane> {
        Box::new(SocketLane {
            clock: self.clock,
            tls: Arc::clone(&self.tls),
            target: Arc::clone(target),
            live: Mutex::new(None),
        })
    }
}

struct SocketLane {
    clock: Clock,
    tls: Arc<TlsConfigs>,
    target: Arc<Target>,
    live: Mutex<Option<Live>>,
}

impl Lane for SocketLane {
    fn is_open(&self) -> bool {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let open = live.as_mut().is_some_and(still_open);
        if !open {
            *live = None;
        }
        open
    }

    fn open(&mut self) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async {
            if self.is_open() {
                return Ok(());
            }
            let live = self.connect().await.map_err(|failure| match failure {
                NotOpened::Failed(error) => error,
                NotOpened::TimedOut => TransportError::Connect {
                    address: Origin::of(&self.target.url).map_or_else(|_| self.target.name.clone(), |o| o.authority),
                    reason: format!("no connection within {}", self.target.timeouts.connect),
                },
            })?;
            *self.slot() = Some(live);
            Ok(())
        })
    }

    fn exchange<'a>(&'a mut self, request: &'a WireRequest, dialect: &'a dyn Dialect) -> BoxFuture<'a, Exchanged> {
        Box::pin(async move {
            let mut exchanged = self.run(request, dialect).await;
            self.hide_key(&mut exchanged);
            exchanged
        })
    }
}

/// Lets the connection read what came since, so that a server's close is noticed without a request.
fn still_open(live: &mut Live) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    let ended = std::pin::Pin::new(&mut live.connection).poll(&mut cx).is_ready();
    !ended && !live.sender.is_closed()
}

impl SocketLane {
    fn slot(&mut self) -> &mut Option<Live> {
        self.live.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&mut self) -> Result<Live, NotOpened> {
        let origin = Origin::of(&self.target.url).map_err(NotOpened::Failed)?;
        let deadline = self.clock.now().plus(self.target.timeouts.connect.0);
        connect::open(self.clock, &origin, &self.tls, self.target.ca_file.as_deref(), deadline).await
    }

    async fn run(&mut self, request: &WireRequest, dialect: &dyn Dialect) -> Exchanged {
        let mut exchanged = Exchanged::begun(self.clock.now(), request.stream);
        let outgoing = match self.outgoing(request) {
            Ok(outgoing) => outgoing,
            Err(error) => {
                exchanged.end = EndOfBody::Broken(error);
                return exchanged;
            }
        };
        // Taken out, so that dropping this future drops the connection with it.
        let mut live = if self.is_open() { self.slot().take() } else { None };
        let stood_before = live.is_some();
        loop {
            let mut connection = match live.take() {
                Some(live) => live,
                None => match self.connect().await {
                    Ok(live) => live,
                    Err(NotOpened::TimedOut) => {
                        exchanged.end = EndOfBody::TimedOut(Deadline::Connect);
                        return exchanged;
                    }
                    Err(NotOpened::Failed(error)) => {
                        exchanged.end = EndOfBody::Broken(error);
                        return exchanged;
                    }
                },
            };
            if let Some(opening) = connection.opening.take() {
                exchanged.marks.dns_ns = opening.dns;
                exchanged.marks.tcp_ns = opening.tcp;
                exchanged.marks.tls_ns = opening.tls;
            }
            let mut watch = Watch::new(self.target.timeouts, self.clock.now(), request.stream, dialect);
            let sent = drive::exchange(self.clock, &mut connection, &outgoing, &mut watch, &mut exchanged).await;
            match sent {
                Sent::Reusable => *self.slot() = Some(connection),
                Sent::Over => {}
                Sent::ClosedFirst if stood_before && !exchanged.reopened => {
                    exchanged.reopened = true;
                    continue;
                }
                Sent::ClosedFirst => exchanged.end = EndOfBody::Broken(TransportError::ClosedBeforeResponse),
            }
            return exchanged;
        }
    }

    /// The request as hyper sends it.
    fn outgoing(&self, request: &WireRequest) -> Result<http::Request<connect::Body>, TransportError> {
        let origin = Origin::of(&self.target.url)?;
        let mut builder = http::Request::post(request.path.as_str());
        if !request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            builder = builder.header(http::header::HOST, origin.authority);
        }
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        let body = connect::Body::new(request.body.clone());
        builder.body(body).map_err(|error| TransportError::Broken(format!("the request can't be sent: {error}")))
    }

    /// Servers repeat the key that they refuse; it goes no further than here.
    fn hide_key(&self, exchanged: &mut Exchanged) {
        let Some(key) = self.target.api_key.as_deref().map(str::trim).filter(|key| key.len() >= 8) else { return };
        if exchanged.status.is_none_or(|status| (200..300).contains(&status)) {
            return;
        }
        let body: Vec<u8> = exchanged.frames.iter().flat_map(|frame| frame.bytes.iter().copied()).collect();
        let Some(last) = exchanged.frames.last() else { return };
        if memchr::memmem::find(&body, key.as_bytes()).is_some() {
            let hidden = String::from_utf8_lossy(&body).replace(key, "[key]");
            exchanged.frames = vec![super::transport::Frame { at: last.at, bytes: hidden.into() }];
        }
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
