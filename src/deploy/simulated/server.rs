//! The simulated server on a real socket: plain HTTP/1.1, each piece of a script written at its instant.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};

use super::answers::AnswerBook;
use super::engine::{Engine, Stats};
use super::http1::{Framing, ReadError, Received, head_bytes, read_request};
use super::pace::Pacer;
use super::profile::Profile;
use super::script::{Close, End, Script};
use crate::units::Mono;
use crate::world::Clock;

/// Connections that are served at once; more wait to be accepted.
const MAX_CONNECTIONS: usize = 4_096;
/// A connection on which nothing is asked for so long is closed.
const IDLE: Duration = Duration::from_mins(2);
/// Bytes that a client may send ahead while it is answered.
const MAX_AHEAD_BYTES: usize = 64 << 10;
/// Requests whose writes are kept.
const MAX_WRITTEN: usize = 100_000;

/// Why a simulated server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("could not listen on {address}: {reason}")]
    Listen { address: SocketAddr, reason: String },
    #[error("could not start the simulated server: {reason}")]
    Start { reason: String },
}

/// When a response's pieces were due and when they were handed to the socket. The instant is taken just before the write,
/// so that no reader can have a piece before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenAt {
    /// Number of the request, as received.
    pub number: u64,
    /// `X-Request-Id`, where the request had one.
    pub request_id: Option<String>,
    /// (due, written), by piece of the body.
    pub pieces: Vec<(Mono, Mono)>,
    /// Bytes of the body in each piece.
    pub sizes: Vec<u64>,
}

/// A simulated server on a thread of its own. It ends when this value is dropped.
pub struct Server {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct Shared {
    engine: Mutex<Engine>,
    written: Mutex<Vec<WrittenAt>>,
    clock: Clock,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Starts serving; port 0 takes a free one. `clock` must not be paused.
    pub fn start(
        profile: impl Into<Arc<Profile>>,
        book: impl Into<Arc<AnswerBook>>,
        seed: u64,
        listen: SocketAddr,
        clock: Clock,
    ) -> Result<Server, ServeError> {
        let failed = |e: std::io::Error| ServeError::Listen { address: listen, reason: e.to_string() };
        let listener = std::net::TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        let shared =
            Arc::new(Shared { engine: Mutex::new(Engine::new(profile, book, seed)), written: Mutex::default(), clock });
        let start = |e: std::io::Error| ServeError::Start { reason: e.to_string() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(start)?;
        let pacer = Pacer::start(clock).map_err(start)?;
        let (stop, stopped) = oneshot::channel();
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("simulated-server".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    match TcpListener::from_std(listener) {
                        Ok(listener) => accept(listener, serving, pacer, stopped).await,
                        Err(error) => tracing::error!(%error, "the simulated server could not take its socket"),
                    }
                });
            })
            .map_err(start)?;
        Ok(Server { addr, shared, stop: Some(stop), thread: Some(thread) })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The base URL, version path included.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    pub fn stats(&self) -> Stats {
        locked(&self.shared.engine).stats()
    }

    /// Takes the record of writes so far: what an instrument should have measured.
    pub fn take_written(&self) -> Vec<WrittenAt> {
        std::mem::take(&mut *locked(&self.shared.written))
    }

    /// Breaks all connections off and waits until the thread has ended.
    pub fn shutdown(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
            // An error means that the thread has ended already.
            let _ = stop.send(());
        }
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the simulated server's thread panicked");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Serves on a bound listener, on the runtime of the caller, until `until` is done: for a server that stands alone.
pub async fn serve_until(
    listener: TcpListener,
    engine: Engine,
    clock: Clock,
    until: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let pacer = Pacer::start(clock).map_err(|e| ServeError::Start { reason: e.to_string() })?;
    let shared = Arc::new(Shared { engine: Mutex::new(engine), written: Mutex::default(), clock });
    let (stop, stopped) = oneshot::channel();
    let stopping = async move {
        until.await;
        let _ = stop.send(());
    };
    tokio::join!(accept(listener, shared, pacer, stopped), stopping);
    Ok(())
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, pacer: Pacer, mut stopped: oneshot::Receiver<()>) {
    let mut connections = tokio::task::JoinSet::new();
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let next = async {
            let permit = Arc::clone(&room).acquire_owned().await.ok();
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            next = next => next,
            _ = &mut stopped => break,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, _)) => {
                let connection = Connection::new(stream, Arc::clone(&shared), pacer.clone());
                connections.spawn(async move {
                    connection.serve().await;
                    drop(permit);
                });
            }
            // Out of descriptors, or a client that left: others may come.
            Err(error) => {
                tracing::warn!(%error, "the simulated server could not accept a connection");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
    connections.shutdown().await;
}

/// Whether the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    KeepAlive,
    Close,
}

struct Connection {
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    buffer: BytesMut,
    shared: Arc<Shared>,
    pacer: Pacer,
}

impl Connection {
    fn new(stream: TcpStream, shared: Arc<Shared>, pacer: Pacer) -> Connection {
        // Without it a piece would wait for the acknowledgement of the last one.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::warn!(%error, "TCP_NODELAY could not be set; pieces may be written together");
        }
        let (reader, writer) = stream.into_split();
        Connection { reader, writer, buffer: BytesMut::new(), shared, pacer }
    }

    async fn serve(mut self) {
        let (idle, most) = {
            let engine = locked(&self.shared.engine);
            let (idle_ms, most) = (engine.profile().idle_close_ms, engine.profile().requests_per_connection);
            (if idle_ms == 0 { IDLE } else { Duration::from_millis(u64::from(idle_ms)) }, most)
        };
        let mut served = 0_u32;
        loop {
            if most > 0 && served >= most {
                return;
            }
            served += 1;
            let Connection { reader, writer, buffer, .. } = &mut self;
            let on_continue = async || writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
            let read = read_request(reader, buffer, on_continue);
            let received = match tokio::time::timeout(idle, read).await {
                Ok(Ok(received)) => received,
                Ok(Err(error)) => return self.complain(&error).await,
                Err(_) => return,
            };
            match self.respond(&received).await {
                Ok(After::KeepAlive) => {}
                // An error means that the client has left.
                Ok(After::Close) | Err(_) => return,
            }
        }
    }

    async fn complain(&mut self, error: &ReadError) {
        if let Some(status) = error.status() {
            let script = Script::page(0, Mono::default(), status, "text/plain", error.to_string());
            let mut bytes = Vec::new();
            if let Some(head) = &script.head {
                bytes = head_bytes(head, Framing::Raw, Some(Close::Announced), true);
            }
            bytes.extend(script.body());
            // The connection is closed either way.
            let _ = self.writer.write_all(&bytes).await;
        }
    }

    async fn respond(&mut self, received: &Received) -> std::io::Result<After> {
        let script = locked(&self.shared.engine).on_request(self.shared.clock.now(), &received.request());
        let _served = Served { shared: Arc::clone(&self.shared), number: script.number };
        let mut pieces = Vec::with_capacity(script.frames.len());
        let written = self.write(&script, received, &mut pieces).await;
        if script.number != u64::MAX {
            let mut record = locked(&self.shared.written);
            if record.len() < MAX_WRITTEN {
                let request_id = received.request().header("x-request-id").map(str::to_owned);
                let sizes = script.frames.iter().take(pieces.len()).map(|frame| frame.bytes.len() as u64).collect();
                record.push(WrittenAt { number: script.number, request_id, pieces, sizes });
            }
        }
        written
    }

    async fn write(
        &mut self,
        script: &Script,
        received: &Received,
        pieces: &mut Vec<(Mono, Mono)>,
    ) -> std::io::Result<After> {
        let mut framing = Framing::Raw;
        let mut bytes = Vec::new();
        if let Some(head) = &script.head {
            framing = Framing::of(head, received.http10);
            bytes = head_bytes(head, framing, script.close, received.last);
            self.wait(head.at).await?;
            // Head and first piece go out together where they are due together.
            if script.frames.first().is_none_or(|frame| frame.at > head.at) {
                self.writer.write_all(&bytes).await?;
                bytes.clear();
            }
        }
        for frame in &script.frames {
            self.wait(frame.at).await?;
            framing.piece(&frame.bytes, &mut bytes);
            let at = self.shared.clock.now();
            self.writer.write_all(&bytes).await?;
            pieces.push((frame.at, at));
            bytes.clear();
        }
        match script.end {
            End::Hang => {
                self.until_left().await;
                return Ok(After::Close);
            }
            End::Cut => {
                self.wait(script.end_at).await?;
                return Ok(After::Close);
            }
            End::Complete => {}
        }
        self.wait(script.end_at).await?;
        self.writer.write_all(framing.last()).await?;
        Ok(if received.last || script.close.is_some() { After::Close } else { After::KeepAlive })
    }

    /// Waits until an instant, or fails where the client leaves before it.
    async fn wait(&mut self, at: Mono) -> std::io::Result<()> {
        if at <= self.shared.clock.now() {
            return Ok(());
        }
        let due = self.pacer.until(at);
        tokio::pin!(due);
        loop {
            let listens = self.buffer.len() < MAX_AHEAD_BYTES;
            tokio::select! {
                biased;
                () = &mut due => return Ok(()),
                read = self.reader.read_buf(&mut self.buffer), if listens => {
                    if read? == 0 {
                        return Err(std::io::ErrorKind::ConnectionAborted.into());
                    }
                }
            }
        }
    }

    async fn until_left(&mut self) {
        let mut ahead = BytesMut::new();
        while self.reader.read_buf(&mut ahead).await.is_ok_and(|n| n > 0) {
            ahead.clear();
        }
    }
}

/// Tells the engine when a request is over, however it ends.
struct Served {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Served {
    fn drop(&mut self) {
        locked(&self.shared.engine).on_end(self.number, self.shared.clock.now());
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
