//! What the instrument adds: the real lanes ask a simulated server that writes down when it wrote, and the client's
//! stamps are held against that record.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Map;
use tokio::runtime::Handle;

use super::EndReason;
use super::exchange::{Came, Done, Job, SlotExchange};
use super::instrument::{Gauge, Reading};
use super::lane::{Crew, CrewContext, open_all};
use super::stop::Stop;
use crate::deploy::simulated::{AnswerBook, Dist, Entry, Profile, ServeError, Server, WrittenAt};
use crate::deploy::{
    Dialect, EndOfBody, GenRequest, OpenAiChat, Sockets, Target, Transport, TransportError, WireRequest,
};
use crate::plan::Message;
use crate::spec::{Api, Role, Sampling, Timeouts};
use crate::units::{Id, Mono, Span, nanos};
use crate::world::Clock;

/// What the server is asked, and what carries the number of a request.
const PROMPT: &str = "Count.";
const REQUEST_ID: &str = "x-request-id";
/// An answer of the server has at most so many tokens.
const TOKENS_MAX: u32 = 4_000;
/// How long the server's record of the last answers is waited for.
const RECORD_LOOKS: u32 = 1_000;
const RECORD_PAUSE: Duration = Duration::from_millis(1);
/// Values beyond a percentile that are needed to tell it.
const NEEDED_BEYOND: f64 = 10.0;

/// A load: so many streams at a time, each of so many answers in turn, every answer alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    pub concurrency: u32,
    /// Answers of each stream.
    pub rounds: u32,
    /// Tokens of an answer, one in each event.
    pub tokens: u32,
    pub ttft_ms: f64,
    pub tpot_ms: f64,
}

impl Shape {
    /// How long one answer takes.
    pub fn service(&self) -> Duration {
        let ms = self.ttft_ms + self.tpot_ms * f64::from(self.tokens.saturating_sub(1));
        Duration::try_from_secs_f64(ms / 1e3).unwrap_or(Duration::ZERO)
    }

    pub fn requests(&self) -> u64 {
        u64::from(self.concurrency) * u64::from(self.rounds)
    }

    /// Starts the server that answers so. `clock` must not be paused.
    pub fn serve(&self, clock: Clock) -> Result<Server, ServeError> {
        let profile = Profile {
            ttft_ms: Dist::Fixed { fixed: self.ttft_ms },
            token_gap_ms: Dist::Fixed { fixed: self.tpot_ms },
            ..Profile::default()
        };
        let answer = vec!["tick"; self.tokens.min(TOKENS_MAX) as usize].join(" ");
        let book = AnswerBook::from_entries(vec![Entry::new(PROMPT, answer)]);
        Server::start(profile, book, 1, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), clock)
    }

    /// The request of this shape, without its number.
    pub fn request(&self, target: &Target) -> WireRequest {
        let sampling = Sampling {
            temperature: Some(0.0),
            top_p: None,
            top_k: None,
            max_tokens: self.tokens,
            seed: 1,
            stop: vec![],
        };
        let messages = vec![Message { role: Role::User, content: PROMPT.to_owned() }];
        OpenAiChat.request(target, &GenRequest { messages, sampling, seed: 1, response_format: None, stream: true })
    }
}

/// The request with its number, by which the server's record names it.
pub fn numbered(request: &WireRequest, number: u64) -> WireRequest {
    let mut request = request.clone();
    request.headers.push((REQUEST_ID.to_owned(), number.to_string()));
    request
}

#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("the simulated server could not be asked: {0}")]
    Connect(#[from] TransportError),
}

/// What the client saw of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenAnswer {
    pub number: u64,
    /// Each read: its instant, and the bytes of the body up to its end.
    pub reads: Vec<(Mono, u64)>,
}

/// How far the client's stamps lie behind the server's writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Errors {
    /// Of first tokens, in milliseconds, sorted.
    pub ttft_ms: Vec<f64>,
    /// Of all tokens.
    pub arrival_ms: Vec<f64>,
    /// Answers that the server's record lacks, or that did not come whole.
    pub unmatched: u64,
}

impl Errors {
    /// Holds what was seen against what was written. The first `tokens` pieces of each answer bear a token each.
    pub fn of(seen: &[SeenAnswer], written: &[WrittenAt], tokens: u32) -> Errors {
        let number = |w: &WrittenAt| w.request_id.as_deref().and_then(|id| id.parse::<u64>().ok());
        let by_number: BTreeMap<u64, &WrittenAt> = written.iter().filter_map(|w| Some((number(w)?, w))).collect();
        let mut errors = Errors::default();
        for answer in seen {
            let Some(late) = by_number.get(&answer.number).and_then(|written| lateness_ms(answer, written, tokens))
            else {
                errors.unmatched += 1;
                continue;
            };
            errors.ttft_ms.extend(late.first());
            errors.arrival_ms.extend(late);
        }
        errors.ttft_ms.sort_by(f64::total_cmp);
        errors.arrival_ms.sort_by(f64::total_cmp);
        errors
    }
}

/// Of each token: the read that completed its piece − the write of the piece, in milliseconds.
fn lateness_ms(answer: &SeenAnswer, written: &WrittenAt, tokens: u32) -> Option<Vec<f64>> {
    let tokens = tokens as usize;
    let mut reads = answer.reads.iter().peekable();
    let mut end = 0_u64;
    let mut late = Vec::with_capacity(tokens);
    for ((_, at), size) in written.pieces.iter().zip(&written.sizes).take(tokens) {
        end += size;
        while reads.next_if(|(_, read)| *read < end).is_some() {}
        let (seen, _) = reads.peek()?;
        late.push(seen.since(*at).unwrap_or(0) as f64 / 1e6);
    }
    (late.len() == tokens).then_some(late)
}

/// One measurement of the client.
#[derive(Clone, Debug)]
pub struct Measured {
    pub shape: Shape,
    /// Answers that came whole.
    pub requests: u64,
    pub failed: u64,
    pub errors: Errors,
    /// From the first dispatch to the last end.
    pub load: Duration,
    pub reading: Option<Reading>,
}

impl Measured {
    pub fn tokens(&self) -> u64 {
        self.requests * u64::from(self.shape.tokens)
    }

    /// Processor time of the lanes' thread for each token; absent where the system doesn't tell.
    pub fn cpu_us_per_token(&self) -> Option<f64> {
        let cpu_ns = self.reading.as_ref()?.cpu_ns?;
        (self.tokens() > 0).then(|| cpu_ns as f64 / 1e3 / self.tokens() as f64)
    }

    pub fn calibration(&self, source: Source) -> Calibration {
        Calibration {
            concurrency: self.shape.concurrency,
            requests: self.requests,
            tokens: self.tokens(),
            ttft_error_ms: ErrorBars::of(&self.errors.ttft_ms),
            arrival_error_ms: ErrorBars::of(&self.errors.arrival_ms),
            cpu_us_per_token: self.cpu_us_per_token(),
            source,
        }
    }
}

/// The client's own error, as its stamps lie behind the server's writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    pub concurrency: u32,
    pub requests: u64,
    pub tokens: u64,
    pub ttft_error_ms: ErrorBars,
    pub arrival_error_ms: ErrorBars,
    /// Processor time of the lanes' thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_token: Option<f64>,
    pub source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// At the end of the run, with its own load.
    Run,
    /// Earlier on this host, by `doctor --bench`.
    Doctor,
}

/// Absent where fewer than ten values lie beyond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorBars {
    pub p50: Option<f64>,
    pub p99: Option<f64>,
}

impl ErrorBars {
    /// Of sorted values.
    pub fn of(sorted: &[f64]) -> ErrorBars {
        ErrorBars { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99) }
    }
}

/// Whether `n` values carry the percentile `q`.
pub(super) fn carries(n: f64, q: f64) -> bool {
    n * (1.0 - q) >= NEEDED_BEYOND * (1.0 - 1e-12)
}

/// Nearest rank of sorted values.
fn percentile(sorted: &[f64], q: f64) -> Option<f64> {
    let n = sorted.len() as f64;
    if !carries(n, q) {
        return None;
    }
    sorted.get((q * n).ceil() as usize - 1).copied()
}

/// A deployment's target as the simulated server has it.
pub fn target(url: String) -> Target {
    let long = Span::from_ms(600_000);
    Target {
        name: "calibration".to_owned(),
        api: Api::Simulated,
        url,
        model: None,
        api_key: None,
        headers: BTreeMap::new(),
        query: BTreeMap::new(),
        body: Map::new(),
        ca_file: None,
        timeouts: Timeouts { connect: long, first_token: long, between_tokens: long, total: long },
    }
}

/// Measures the client with `shape`: lanes on `pool`, the server on a thread of its own. Ends at `until` at the latest,
/// or with `stop`; what has come by then counts.
pub async fn measure(
    shape: Shape,
    clock: Clock,
    pool: &Handle,
    gauge: &Gauge,
    until: Option<Mono>,
    stop: &Stop,
) -> Result<Measured, CalibrateError> {
    let shape = Shape { tokens: shape.tokens.clamp(1, TOKENS_MAX), ..shape };
    let server = shape.serve(clock)?;
    let target = Arc::new(target(server.url()));
    let transport = Sockets::new(clock);
    let lanes = (0..shape.concurrency).map(|_| transport.lane(&target)).collect();
    let (lanes, failure) = open_all(lanes, pool).await;
    if let Some(error) = failure {
        return Err(error.into());
    }
    let watching = gauge.start(pool);
    let (exchange, mut results) = SlotExchange::new(usize::MAX);
    let load = Load { exchange: Arc::new(exchange), request: shape.request(&target), total: shape.requests() };
    let own_stop = Stop::default();
    let context = CrewContext {
        exchange: Arc::clone(&load.exchange),
        dialect: &OpenAiChat,
        clock,
        stop: own_stop.clone(),
        pool: pool.clone(),
    };
    let mut crew = Crew::new(context, lanes);
    let mut next = 0;
    for _ in 0..2 * u64::from(shape.concurrency) {
        load.offer(&mut next);
    }
    crew.start_rest(clock.now(), nanos(shape.service()));
    let mut seen = SeenLoad::default();
    while seen.settled < load.total {
        tokio::select! {
            biased;
            done = results.recv() => {
                let Some(done) = done else { break };
                load.offer(&mut next);
                seen.take(&done);
            }
            () = crew.watch() => break,
            () = clock.sleep_until(until.unwrap_or(Mono(u64::MAX / 4))) => break,
            () = stop.requested() => break,
        }
    }
    let reading = watching.finish().await;
    own_stop.request(EndReason::Interrupted);
    crew.dismiss().await;
    let written = record(&server, seen.answers.len(), clock).await;
    let errors = Errors::of(&seen.answers, &written, shape.tokens);
    let requests = seen.answers.len() as u64 - errors.unmatched;
    let failed = seen.settled - requests;
    Ok(Measured { shape, requests, failed, errors, load: seen.length(), reading })
}

struct Load {
    exchange: Arc<SlotExchange>,
    request: WireRequest,
    total: u64,
}

impl Load {
    fn offer(&self, next: &mut u64) {
        if *next < self.total {
            let request = numbered(&self.request, *next);
            let position = usize::try_from(*next).unwrap_or(usize::MAX);
            self.exchange.offer(Job { unit: Id([0; 16]), position, attempt: 1, intended: None, request });
            *next += 1;
        }
    }
}

#[derive(Default)]
struct SeenLoad {
    answers: Vec<SeenAnswer>,
    settled: u64,
    from: Option<Mono>,
    to: Mono,
}

impl SeenLoad {
    /// Reads the answer as a run does, and keeps its instants.
    fn take(&mut self, done: &Done) {
        self.settled += 1;
        let Came::Exchanged(exchanged) = &done.came else { return };
        let marks = &exchanged.marks;
        self.from = Some(self.from.map_or(marks.dispatched, |from| from.min(marks.dispatched)));
        self.to = self.to.max(marks.eof.unwrap_or_default());
        let whole = matches!(exchanged.end, EndOfBody::Complete | EndOfBody::DoneMarker);
        if !whole || OpenAiChat.read(exchanged).outcome.is_error() {
            return;
        }
        let mut bytes = 0;
        let reads = exchanged.frames.iter().map(|frame| {
            bytes += frame.bytes.len() as u64;
            (frame.at, bytes)
        });
        self.answers.push(SeenAnswer { number: done.position as u64, reads: reads.collect() });
    }

    fn length(&self) -> Duration {
        Duration::from_nanos(self.from.and_then(|from| self.to.since(from)).unwrap_or(0))
    }
}

/// The server's record, once it holds so many answers: it is written just after the last byte.
pub async fn record(server: &Server, answers: usize, clock: Clock) -> Vec<WrittenAt> {
    let mut written = server.take_written();
    for _ in 0..RECORD_LOOKS {
        if written.len() >= answers {
            break;
        }
        clock.sleep_until(clock.now().plus(RECORD_PAUSE)).await;
        written.extend(server.take_written());
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Mono {
        Mono(ms * 1_000_000)
    }

    fn written(number: u64, pieces: &[(u64, u64)]) -> WrittenAt {
        WrittenAt {
            number,
            request_id: Some(number.to_string()),
            pieces: pieces.iter().map(|(at, _)| (Mono(0), ms(*at))).collect(),
            sizes: pieces.iter().map(|(_, size)| *size).collect(),
        }
    }

    #[test]
    fn a_token_is_there_when_its_last_byte_is() {
        // The second piece comes in two reads, the third and the fourth in one.
        let seen = SeenAnswer { number: 4, reads: vec![(ms(51), 10), (ms(61), 15), (ms(63), 20), (ms(84), 40)] };
        let record = written(4, &[(50, 10), (60, 10), (70, 10), (80, 10)]);
        let errors = Errors::of(&[seen], &[written(3, &[(1, 40)]), record], 4);
        assert_eq!(errors.ttft_ms, [1.0]);
        assert_eq!(errors.arrival_ms, [1.0, 3.0, 4.0, 14.0]);
        assert_eq!(errors.unmatched, 0);
    }

    #[test]
    fn what_can_not_be_matched_is_counted() {
        let cut = SeenAnswer { number: 1, reads: vec![(ms(51), 5)] };
        let unknown = SeenAnswer { number: 9, reads: vec![(ms(51), 10)] };
        let errors = Errors::of(&[cut, unknown], &[written(1, &[(50, 10)])], 1);
        assert_eq!((errors.unmatched, errors.arrival_ms.len()), (2, 0));
    }

    #[test]
    fn a_percentile_needs_ten_values_beyond() {
        let values: Vec<f64> = (1..=1_000).map(f64::from).collect();
        assert_eq!(ErrorBars::of(&values), ErrorBars { p50: Some(500.0), p99: Some(990.0) });
        assert_eq!(ErrorBars::of(&values[..999]).p99, None);
        assert_eq!(ErrorBars::of(&values[..19]), ErrorBars::default());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_answer_of_a_load_is_matched() {
        let shape = Shape { concurrency: 3, rounds: 4, tokens: 9, ttft_ms: 5.0, tpot_ms: 1.0 };
        let (clock, pool) = (Clock::start(), Handle::current());
        let measured = measure(shape, clock, &pool, &Gauge::off(), None, &Stop::default()).await.unwrap();
        assert_eq!((measured.requests, measured.failed, measured.tokens()), (12, 0, 108));
        assert_eq!((measured.errors.ttft_ms.len(), measured.errors.arrival_ms.len()), (12, 108));
        assert_eq!(measured.calibration(Source::Run).ttft_error_ms, ErrorBars::default(), "12 values carry no median");
        assert!(measured.calibration(Source::Run).arrival_error_ms.p50.is_some());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_stop_ends_it_and_what_has_come_counts() {
        let shape = Shape { concurrency: 2, rounds: 1_000, tokens: 2, ttft_ms: 3_600_000.0, tpot_ms: 1.0 };
        let (clock, pool, stop) = (Clock::start(), Handle::current(), Stop::default());
        stop.request(EndReason::Interrupted);
        let measured = measure(shape, clock, &pool, &Gauge::off(), None, &stop).await.unwrap();
        assert_eq!((measured.requests, measured.failed), (0, 0));
        let over = Some(clock.now());
        let measured = measure(shape, clock, &pool, &Gauge::off(), over, &Stop::default()).await.unwrap();
        assert_eq!(measured.requests, 0);
    }
}
