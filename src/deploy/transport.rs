//! How bytes travel: a lane is one connection, opened before the clock starts; an exchange is one request and
//! everything that came back, each frame with the instant of its arrival.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::dialect::Dialect;
use super::outcome::Deadline;
use crate::spec::{Api, Timeouts};
use crate::units::Mono;

/// A deployment as a lane sees it: everything resolved, secrets included. Never serialized, never printed.
#[derive(Clone)]
pub struct Target {
    pub name: String,
    pub api: Api,
    pub url: String,
    pub model: Option<String>,
    pub api_key: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub query: BTreeMap<String, String>,
    pub body: Map<String, Value>,
    pub ca_file: Option<PathBuf>,
    pub timeouts: Timeouts,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("name", &self.name).field("api", &self.api).finish_non_exhaustive()
    }
}

/// A request in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireRequest {
    /// Path and query.
    pub path: String,
    /// Without Host and Content-Length, which the transport sets.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// Whether the answer is expected as server-sent events.
    pub stream: bool,
}

/// Body bytes as they arrived in one read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub at: Mono,
    pub bytes: Bytes,
}

/// How the body ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndOfBody {
    /// The response ended as HTTP says.
    Complete,
    /// The stream said that it is done (`[DONE]`, `message_stop`); the server kept the response open.
    DoneMarker,
    /// The connection broke, or could not be made.
    Broken(TransportError),
    TimedOut(Deadline),
    /// The run stopped while the request was in flight.
    Cancelled,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    #[error("could not resolve `{host}`: {reason}")]
    Dns { host: String, reason: String },
    #[error("could not connect to {address}: {reason}")]
    Connect { address: String, reason: String },
    /// The fault is this machine's, not the deployment's.
    #[error("this machine could not open a connection: {reason}")]
    Local { reason: String },
    #[error("TLS with `{host}` failed: {reason}")]
    Tls { host: String, reason: String },
    #[error("the connection closed before any response byte")]
    ClosedBeforeResponse,
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("the response is not HTTP: {0}")]
    NotHttp(String),
    #[error("the response is larger than {limit_bytes} bytes")]
    TooLarge { limit_bytes: u64 },
}

impl TransportError {
    /// Whether the deployment could not be reached: the failure came before a connection stood, and not from here.
    pub fn before_connection(&self) -> bool {
        matches!(self, TransportError::Dns { .. } | TransportError::Connect { .. } | TransportError::Tls { .. })
    }
}

/// Instants of an exchange. Connection parts are present on the first exchange of a connection only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Durations in nanoseconds of what opening the connection took, before or within this exchange; absent on a reused
    /// lane.
    pub dns_ns: Option<u64>,
    pub tcp_ns: Option<u64>,
    pub tls_ns: Option<u64>,
    pub dispatched: Mono,
    /// The last request byte was written.
    pub sent: Option<Mono>,
    pub headers: Option<Mono>,
    pub first_byte: Option<Mono>,
    /// End of the response.
    pub eof: Option<Mono>,
}

/// One request and all that came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchanged {
    pub marks: Marks,
    pub status: Option<u16>,
    /// Lower-case names.
    pub headers: Vec<(String, String)>,
    pub frames: Vec<Frame>,
    pub end: EndOfBody,
    /// Whether the request asked for a stream.
    pub stream: bool,
    /// A reused lane that had closed was reopened and the request sent once more.
    pub reopened: bool,
}

impl Exchanged {
    /// An exchange of which nothing has come back yet.
    pub fn begun(dispatched: Mono, stream: bool) -> Exchanged {
        Exchanged {
            marks: Marks { dispatched, ..Marks::default() },
            status: None,
            headers: Vec::new(),
            frames: Vec::new(),
            end: EndOfBody::Complete,
            stream,
            reopened: false,
        }
    }
}

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One connection to a deployment.
pub trait Lane: Send {
    /// Whether the connection still stands; false after the server closed it.
    fn is_open(&self) -> bool;

    /// Opens the connection, or opens it again. `connect` timeout applies.
    fn open(&mut self) -> BoxFuture<'_, Result<(), TransportError>>;

    /// Sends one request and reads the whole answer under the target's timeouts. A reused lane that closes before any
    /// response byte is reopened and the request sent once more. Never panics; failures are values in `Exchanged`.
    /// Dropping the future abandons the exchange and closes the lane.
    fn exchange<'a>(&'a mut self, request: &'a WireRequest, dialect: &'a dyn Dialect) -> BoxFuture<'a, Exchanged>;
}

/// Makes lanes: real sockets, or memory for the simulation.
pub trait Transport: Send + Sync {
    fn lane(&self, target: &Arc<Target>) -> Box<dyn Lane>;
}
