//! A byte stream that knows when its bytes moved. Instants are taken at the socket, not where a message is complete:
//! several chunks that came in one read carry one instant, which is what tells a stream from a batch.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::units::Mono;
use crate::world::Clock;

/// The most that is read before the response's headers are whole, interim responses (1xx) included.
const MAX_HEAD_BYTES: u64 = 256 << 10;
/// No instant yet.
const NEVER: u64 = u64::MAX;

/// Instants of one connection, shared between its stream and its lane. Both live in one task, so that no order
/// between threads is at stake.
#[derive(Debug)]
pub(super) struct Stamps {
    clock: Clock,
    /// The last read of the socket that gave bytes.
    socket_read: AtomicU64,
    /// The last write of the socket that took bytes.
    socket_write: AtomicU64,
    /// `socket_read` when the last plain bytes were handed up.
    read: AtomicU64,
    /// The first plain bytes since [`Stamps::arm`].
    first_byte: AtomicU64,
    /// `socket_write` when the first plain bytes came.
    sent: AtomicU64,
    /// Bytes that may still come before the headers are whole; `NEVER` once they are.
    head_left: AtomicU64,
}

impl Stamps {
    pub(super) fn new(clock: Clock) -> Arc<Stamps> {
        let never = || AtomicU64::new(NEVER);
        Arc::new(Stamps {
            clock,
            socket_read: never(),
            socket_write: never(),
            read: never(),
            first_byte: never(),
            sent: never(),
            head_left: never(),
        })
    }

    /// Forgets what an earlier exchange left.
    pub(super) fn arm(&self) {
        for stamp in [&self.socket_write, &self.first_byte, &self.sent] {
            stamp.store(NEVER, Ordering::Relaxed);
        }
        self.head_left.store(MAX_HEAD_BYTES, Ordering::Relaxed);
    }

    /// The headers are whole: what follows is the body.
    pub(super) fn end_head(&self) {
        self.head_left.store(NEVER, Ordering::Relaxed);
    }

    /// Whether the head may go on. Bytes count against the head once read, so that what one read brought with the
    /// headers' end does no harm.
    fn may_read(&self) -> bool {
        self.head_left.load(Ordering::Relaxed) > 0
    }

    fn count_head(&self, bytes: usize) {
        let left = self.head_left.load(Ordering::Relaxed);
        if left != NEVER {
            self.head_left.store(left.saturating_sub(bytes as u64), Ordering::Relaxed);
        }
    }

    /// When the last request byte was written: the last write before the first response byte.
    pub(super) fn sent(&self) -> Option<Mono> {
        get(&self.sent).or_else(|| get(&self.socket_write))
    }

    pub(super) fn first_byte(&self) -> Option<Mono> {
        get(&self.first_byte)
    }

    /// When the bytes that were handed up last came from the socket.
    pub(super) fn last_read(&self) -> Option<Mono> {
        get(&self.read)
    }

    fn on_socket(&self, stamp: &AtomicU64) {
        stamp.store(self.clock.now().0, Ordering::Relaxed);
    }

    fn on_plain_bytes(&self) {
        let at = self.socket_read.load(Ordering::Relaxed);
        self.read.store(at, Ordering::Relaxed);
        if get(&self.first_byte).is_none() {
            self.first_byte.store(at, Ordering::Relaxed);
            self.sent.store(self.socket_write.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

fn get(stamp: &AtomicU64) -> Option<Mono> {
    Some(stamp.load(Ordering::Relaxed)).filter(|at| *at != NEVER).map(Mono)
}

/// The socket itself, under TLS where there is any.
pub(super) struct Socket {
    tcp: TcpStream,
    stamps: Arc<Stamps>,
}

impl Socket {
    pub(super) fn new(tcp: TcpStream, stamps: Arc<Stamps>) -> Socket {
        Socket { tcp, stamps }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.tcp).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.stamps.on_socket(&self.stamps.socket_read);
        }
        polled
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.tcp).poll_write(cx, buf);
        if matches!(polled, Poll::Ready(Ok(1..))) {
            self.stamps.on_socket(&self.stamps.socket_write);
        }
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs);
        if matches!(polled, Poll::Ready(Ok(1..))) {
            self.stamps.on_socket(&self.stamps.socket_write);
        }
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

/// What HTTP is spoken over: the plain bytes.
pub(super) struct Plain {
    stream: Stream,
    stamps: Arc<Stamps>,
}

pub(super) enum Stream {
    Tcp(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Plain {
    pub(super) fn new(stream: Stream, stamps: Arc<Stamps>) -> Plain {
        Plain { stream, stamps }
    }
}

/// Calls a method of whichever stream there is.
macro_rules! on_stream {
    ($self:ident . $method:ident ( $($argument:expr),* )) => {
        match &mut $self.stream {
            Stream::Tcp(stream) => Pin::new(stream).$method($($argument),*),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Plain {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.stamps.may_read() {
            let text = format!("no response within {MAX_HEAD_BYTES} bytes of headers and interim responses");
            return Poll::Ready(Err(io::Error::other(text)));
        }
        let before = buf.filled().len();
        let polled = on_stream!(self.poll_read(cx, buf));
        if buf.filled().len() > before {
            self.stamps.on_plain_bytes();
            self.stamps.count_head(buf.filled().len() - before);
        }
        polled
    }
}

impl AsyncWrite for Plain {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        on_stream!(self.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Tcp(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self.poll_shutdown(cx))
    }
}
