//! One request over an open connection: hyper's connection, its response and its body are polled in one task, and
//! every frame is stamped with the instant at which its bytes left the socket.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Incoming};
use hyper::{Request, Response};
use tokio::time::Sleep;

use super::chain;
use super::connect::{Body, Live};
use super::io::Stamps;
use crate::deploy::outcome::Deadline;
use crate::deploy::transport::{EndOfBody, Exchanged, Frame, TransportError};
use crate::deploy::watch::{Flow, MAX_RESPONSE_BYTES, Watch};
use crate::units::Mono;
use crate::world::Clock;

/// How long the end of a response is waited for after the stream said that it is done. A connection that ends its
/// response within it can serve the next request.
const DONE_GRACE: Duration = Duration::from_millis(100);

/// What became of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// It can serve another request.
    Reusable,
    /// It can't; `Exchanged::end` says how the response ended.
    Over,
    /// It closed before any response byte.
    ClosedFirst,
}

/// Sends the request and reads the answer into `exchanged`, under the deadlines of `watch`.
pub(super) async fn exchange(
    clock: Clock,
    live: &mut Live,
    request: &Request<Body>,
    watch: &mut Watch<'_>,
    exchanged: &mut Exchanged,
) -> Sent {
    live.stamps.arm();
    let mut sleep = pin!(tokio::time::sleep_until(clock.instant(watch.deadline().0)));
    let mut alarm = Alarm { clock, sleep: sleep.as_mut(), grace_ends: None };

    let head = head(live, request, watch, &mut alarm).await;
    exchanged.marks.sent = live.stamps.sent();
    exchanged.marks.first_byte = live.stamps.first_byte();
    let response = match head {
        Head::Response(response) => response,
        Head::Closed => return Sent::ClosedFirst,
        Head::Ended(end) => {
            exchanged.end = end;
            return Sent::Over;
        }
    };
    live.stamps.end_head();
    let at = stamp(clock, &live.stamps);
    exchanged.marks.headers = Some(at);
    exchanged.status = Some(response.status().as_u16());
    exchanged.headers = headers(&response);
    let content_type = exchanged.headers.iter().find(|(name, _)| name == "content-type");
    watch.on_headers(at, content_type.map(|(_, value)| value.as_str()));

    let done = body(live, response.into_body(), watch, &mut alarm, exchanged).await;
    exchanged.marks.eof = Some(done.at);
    exchanged.end = done.end;
    // An answer that came before the request was whole leaves a connection that takes no other.
    if done.reusable && super::still_open(live) && live.sender.is_ready() { Sent::Reusable } else { Sent::Over }
}

enum Head {
    Response(Response<Incoming>),
    Closed,
    Ended(EndOfBody),
}

/// Sends the request and awaits the response's headers.
async fn head(live: &mut Live, request: &Request<Body>, watch: &Watch<'_>, alarm: &mut Alarm<'_>) -> Head {
    // A connection is ready as soon as it has been polled once after its last response.
    let Live { sender, connection, stamps, .. } = live;
    let ready = std::future::poll_fn(|cx| {
        let ended = Pin::new(&mut *connection).poll(cx);
        match sender.poll_ready(cx) {
            Poll::Ready(ready) => Poll::Ready(ready.is_err().then_some(Head::Closed)),
            Poll::Pending if ended.is_ready() => Poll::Ready(Some(Head::Closed)),
            Poll::Pending => alarm.poll(cx, watch).map(|end| Some(Head::Ended(end))),
        }
    });
    if let Some(head) = ready.await {
        return head;
    }
    let mut answer = pin!(sender.send_request(request.clone()));
    let mut ended: Option<hyper::Result<()>> = None;
    let result = std::future::poll_fn(|cx| {
        // A flood of interim responses leaves no poll pending: the deadline is looked at first.
        let (deadline, which) = alarm.deadline(watch);
        if deadline <= alarm.clock.now() {
            return Poll::Ready(Err(EndOfBody::TimedOut(which)));
        }
        if ended.is_none()
            && let Poll::Ready(end) = Pin::new(&mut *connection).poll(cx)
        {
            ended = Some(end);
        }
        if let Poll::Ready(result) = answer.as_mut().poll(cx) {
            return Poll::Ready(Ok(result));
        }
        alarm.poll(cx, watch).map(Err)
    })
    .await;
    match result {
        Ok(Ok(response)) => Head::Response(response),
        Ok(Err(error)) => failed_head(&error, ended, stamps),
        Err(end) => Head::Ended(end),
    }
}

fn failed_head(error: &hyper::Error, ended: Option<hyper::Result<()>>, stamps: &Stamps) -> Head {
    if error.is_parse() && stamps.first_byte().is_some() {
        return Head::Ended(EndOfBody::Broken(TransportError::NotHttp(chain(error))));
    }
    if stamps.first_byte().is_none() && !error.is_user() {
        return Head::Closed;
    }
    let text = match ended {
        Some(Err(cause)) if error.is_canceled() => chain(&cause),
        _ => chain(error),
    };
    Head::Ended(EndOfBody::Broken(TransportError::Broken(text)))
}

struct Done {
    at: Mono,
    end: EndOfBody,
    reusable: bool,
}

/// What one look at the connection gave.
enum Step {
    Bytes(Bytes),
    End,
    Broken(TransportError),
    Deadline(EndOfBody),
}

/// Reads the body to its end, the done marker, a deadline or the size limit.
async fn body(
    live: &mut Live,
    mut incoming: Incoming,
    watch: &mut Watch<'_>,
    alarm: &mut Alarm<'_>,
    exchanged: &mut Exchanged,
) -> Done {
    let clock = alarm.clock;
    let mut ended = false;
    let mut done_at = None;
    let mut store = Store::default();
    loop {
        let step = std::future::poll_fn(|cx| {
            let mut polled = poll_body(&mut incoming, cx);
            if polled.is_pending() {
                if !ended {
                    ended = Pin::new(&mut live.connection).poll(cx).is_ready();
                }
                polled = poll_body(&mut incoming, cx);
            }
            if polled.is_pending() { alarm.poll(cx, watch).map(Step::Deadline) } else { polled }
        })
        .await;
        match step {
            Step::Bytes(bytes) => {
                let at = stamp(clock, &live.stamps);
                let flow = watch.on_frame(at, &bytes);
                exchanged.frames.push(Frame { at, bytes: store.keep(bytes) });
                match flow {
                    // A flood of bytes leaves the timer no turn: it is the deadline that counts.
                    Flow::Continue if alarm.deadline(watch).0 <= at => {
                        let end =
                            done_at.map_or(EndOfBody::TimedOut(alarm.deadline(watch).1), |_| EndOfBody::DoneMarker);
                        return Done { at: done_at.unwrap_or(at), end, reusable: false };
                    }
                    Flow::Continue => alarm.hurry(watch),
                    Flow::Done => {
                        let done_at = *done_at.get_or_insert(at);
                        alarm.end_at(done_at.plus(DONE_GRACE));
                    }
                    Flow::TooLarge => {
                        let error = TransportError::TooLarge { limit_bytes: MAX_RESPONSE_BYTES };
                        return Done { at, end: EndOfBody::Broken(error), reusable: false };
                    }
                }
            }
            Step::End => return Done { at: clock.now(), end: EndOfBody::Complete, reusable: !ended },
            Step::Broken(_) | Step::Deadline(_) if done_at.is_some() => {
                let at = done_at.unwrap_or_default();
                return Done { at, end: EndOfBody::DoneMarker, reusable: false };
            }
            Step::Broken(error) => return Done { at: clock.now(), end: EndOfBody::Broken(error), reusable: false },
            Step::Deadline(end) => return Done { at: clock.now(), end, reusable: false },
        }
    }
}

/// A small frame is copied: as a slice of the connection's buffer it would hold the whole of it, and the connection would
/// take a new one for each read.
const COPIED_BYTES: usize = 4 << 10;
/// Room for copies is taken in pieces of this size.
const STORE_BYTES: usize = 8 << 10;

/// Copies of small frames, side by side.
#[derive(Default)]
struct Store {
    room: BytesMut,
}

impl Store {
    fn keep(&mut self, bytes: Bytes) -> Bytes {
        if bytes.len() > COPIED_BYTES {
            return bytes;
        }
        if self.room.capacity() < bytes.len() {
            self.room = BytesMut::with_capacity(STORE_BYTES);
        }
        self.room.extend_from_slice(&bytes);
        self.room.split().freeze()
    }
}

fn poll_body(incoming: &mut Incoming, cx: &mut Context<'_>) -> Poll<Step> {
    loop {
        let polled = Pin::new(&mut *incoming).poll_frame(cx);
        return match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => Poll::Ready(Step::End),
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(bytes) if bytes.is_empty() => continue,
                Ok(bytes) => Poll::Ready(Step::Bytes(bytes)),
                Err(_) => continue, // Trailers say nothing that is measured.
            },
            Poll::Ready(Some(Err(error))) => {
                let text =
                    if is_early_end(&error) { "it closed in the middle of the response".into() } else { chain(&error) };
                Poll::Ready(Step::Broken(TransportError::Broken(text)))
            }
        };
    }
}

fn is_early_end(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    error.is_incomplete_message() || cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::UnexpectedEof)
}

/// The timer of an exchange. It is moved only when it has to be: deadlines that move away are looked at when it fires.
struct Alarm<'a> {
    clock: Clock,
    sleep: Pin<&'a mut Sleep>,
    /// Set once the stream is done: nothing but the end of the response is awaited until then.
    grace_ends: Option<Mono>,
}

impl Alarm<'_> {
    fn poll(&mut self, cx: &mut Context<'_>, watch: &Watch<'_>) -> Poll<EndOfBody> {
        while self.sleep.as_mut().poll(cx).is_ready() {
            let (at, which) = self.deadline(watch);
            if at <= self.clock.now() {
                return Poll::Ready(EndOfBody::TimedOut(which));
            }
            self.set(at);
        }
        Poll::Pending
    }

    /// Moves the timer forward where the deadline has come nearer.
    fn hurry(&mut self, watch: &Watch<'_>) {
        let (at, _) = self.deadline(watch);
        if self.clock.instant(at) < self.sleep.deadline() {
            self.set(at);
        }
    }

    fn end_at(&mut self, at: Mono) {
        self.grace_ends = Some(at);
        self.set(at);
    }

    fn deadline(&self, watch: &Watch<'_>) -> (Mono, Deadline) {
        self.grace_ends.map_or_else(|| watch.deadline(), |at| (at, Deadline::Total))
    }

    fn set(&mut self, at: Mono) {
        self.sleep.as_mut().reset(self.clock.instant(at));
    }
}

/// The instant of the read that brought what was just handed up.
fn stamp(clock: Clock, stamps: &Stamps) -> Mono {
    stamps.last_read().unwrap_or_else(|| clock.now())
}

fn headers(response: &Response<Incoming>) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    response.headers().iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}
