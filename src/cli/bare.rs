//! The bare loop: the least that a client can do. It writes a request by hand, reads and stamps, and looks at nothing; what
//! the instrument costs is told as a ratio to it.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::deploy::WireRequest;
use crate::drive::Gauge;
use crate::drive::calibrate::{self, CalibrateError, Errors, Measured, SeenAnswer, Shape};
use crate::units::Mono;
use crate::world::Clock;

const BUFFER_BYTES: usize = 16 << 10;
/// What ends a body in chunks.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// What came of one request, as raw bytes.
#[derive(Default)]
struct Raw {
    number: u64,
    bytes: Vec<u8>,
    /// Each read: its instant, and the raw bytes up to its end.
    reads: Vec<(Mono, u64)>,
    start: Mono,
}

/// Measures the bare loop with `shape` on `pool`.
pub async fn measure(shape: Shape, clock: Clock, pool: &Handle, gauge: &Gauge) -> Result<Measured, CalibrateError> {
    let server = shape.serve(clock)?;
    let target = calibrate::target(server.url());
    let request = Arc::new(shape.request(&target));
    let mut sockets = Vec::new();
    for _ in 0..shape.concurrency {
        // Registered with the runtime that is measured once its stream begins.
        let socket = std::net::TcpStream::connect(server.addr()).map_err(not_opened)?;
        socket.set_nonblocking(true).map_err(not_opened)?;
        // As the lanes do.
        let _ = socket.set_nodelay(true);
        sockets.push(socket);
    }
    let watching = gauge.start(pool);
    let start = clock.now();
    let mut streams = JoinSet::new();
    for (stream, socket) in (0_u64..).zip(sockets) {
        let offset = shape.service().mul_f64(stream as f64 / f64::from(shape.concurrency.max(1)));
        let work = ask(clock, socket, Arc::clone(&request), start.plus(offset), stream, u64::from(shape.rounds));
        streams.spawn_on(work, pool);
    }
    let mut raw = Vec::new();
    while let Some(joined) = streams.join_next().await {
        raw.extend(joined.unwrap_or_default());
    }
    let reading = watching.finish().await;
    let seen: Vec<SeenAnswer> = raw.iter().filter_map(body_reads).collect();
    let written = calibrate::record(&server, seen.len(), clock).await;
    let errors = Errors::of(&seen, &written, shape.tokens);
    let requests = seen.len() as u64 - errors.unmatched;
    Ok(Measured { shape, requests, failed: shape.requests() - requests, errors, load: length(&raw), reading })
}

fn not_opened(error: std::io::Error) -> CalibrateError {
    crate::deploy::TransportError::Local { reason: error.to_string() }.into()
}

/// One stream: its requests one after the other.
async fn ask(
    clock: Clock,
    socket: std::net::TcpStream,
    request: Arc<WireRequest>,
    start: Mono,
    stream: u64,
    rounds: u64,
) -> Vec<Raw> {
    let mut answers = Vec::new();
    let Ok(mut socket) = TcpStream::from_std(socket) else { return answers };
    let mut buffer = vec![0; BUFFER_BYTES];
    clock.sleep_until(start).await;
    for round in 0..rounds {
        let number = stream * rounds + round;
        let mut raw = Raw { number, start: clock.now(), ..Raw::default() };
        if socket.write_all(&by_hand(&request, number)).await.is_err() {
            return answers;
        }
        while !raw.bytes.ends_with(LAST_CHUNK) {
            let Ok(read @ 1..) = socket.read(&mut buffer).await else { return answers };
            let at = clock.now();
            raw.bytes.extend_from_slice(buffer.get(..read).unwrap_or_default());
            raw.reads.push((at, raw.bytes.len() as u64));
        }
        answers.push(raw);
    }
    answers
}

fn by_hand(request: &WireRequest, number: u64) -> Vec<u8> {
    let WireRequest { path, body, .. } = request;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: bare\r\ncontent-type: application/json\r\nx-request-id: {number}\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// From raw bytes to bytes of the body: each chunk of the server is one piece.
fn body_reads(raw: &Raw) -> Option<SeenAnswer> {
    let mut at = memchr::memmem::find(&raw.bytes, b"\r\n\r\n")? + 4;
    let mut reads = raw.reads.iter().peekable();
    let mut body = 0;
    let mut seen = SeenAnswer { number: raw.number, reads: Vec::new() };
    loop {
        let line = raw.bytes.get(at..)?;
        let digits = memchr::memmem::find(line, b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(line.get(..digits)?).ok()?, 16).ok()?;
        if size == 0 {
            return Some(seen);
        }
        let end = at + digits + 2 + size;
        while reads.next_if(|(_, read)| *read < end as u64).is_some() {}
        body += size as u64;
        seen.reads.push((reads.peek()?.0, body));
        at = end + 2;
    }
}

fn length(raw: &[Raw]) -> Duration {
    let from = raw.iter().map(|raw| raw.start).min();
    let to = raw.iter().filter_map(|raw| raw.reads.last()).map(|(at, _)| *at).max();
    Duration::from_nanos(to.zip(from).and_then(|(to, from)| to.since(from)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_there_when_its_last_byte_is() {
        let bytes = b"HTTP/1.1 200 OK\r\n\r\n3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n".to_vec();
        // The head and two bytes of the first chunk; the rest of it and its end; the second chunk, and what follows.
        let reads = vec![(Mono(1), 24), (Mono(2), 27), (Mono(3), bytes.len() as u64)];
        let raw = Raw { number: 7, bytes, reads, start: Mono(0) };
        let seen = body_reads(&raw).unwrap();
        assert_eq!((seen.number, seen.reads), (7, vec![(Mono(2), 3), (Mono(3), 13)]));
        let cut = Raw { bytes: raw.bytes[..30].to_vec(), ..raw };
        assert!(body_reads(&cut).is_none());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn it_asks_what_the_lanes_ask() {
        let shape = Shape { concurrency: 2, rounds: 3, tokens: 5, ttft_ms: 4.0, tpot_ms: 1.0 };
        let (clock, pool) = (Clock::start(), Handle::current());
        let measured = measure(shape, clock, &pool, &Gauge::off()).await.unwrap();
        assert_eq!((measured.requests, measured.failed, measured.errors.arrival_ms.len()), (6, 0, 30));
    }
}
