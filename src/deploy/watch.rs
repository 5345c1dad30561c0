//! What the reading thread must know while an answer arrives, and nothing more: which timeout runs, whether the
//! stream has said that it is done, whether the answer has grown too large. Sans-IO, so that sockets and the
//! in-memory transport end an exchange by the same rules.

use bytes::Bytes;

use super::dialect::Dialect;
use super::outcome::Deadline;
use super::sse::Decoder;
use crate::spec::Timeouts;
use crate::units::Mono;

/// A response larger than this is broken off.
pub const MAX_RESPONSE_BYTES: u64 = 64 << 20;

/// Whether reading goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Continue,
    /// The stream said that it is done. The end of the response follows at once, or the server keeps it open.
    Done,
    /// The response passed [`MAX_RESPONSE_BYTES`].
    TooLarge,
}

/// Reading state of one exchange.
pub struct Watch<'a> {
    timeouts: Timeouts,
    dialect: &'a dyn Dialect,
    started: Mono,
    /// Read as server-sent events: asked for, until the headers say what came.
    stream: bool,
    last_token: Option<Mono>,
    /// `None` once the stream can't be framed; timeouts then stay where they are.
    decoder: Option<Decoder>,
    bytes: u64,
    limit_bytes: u64,
}

impl<'a> Watch<'a> {
    /// A watch over an exchange that started at `started`, when the request was handed to an open connection.
    pub fn new(timeouts: Timeouts, started: Mono, stream: bool, dialect: &'a dyn Dialect) -> Watch<'a> {
        Watch {
            timeouts,
            dialect,
            started,
            stream,
            last_token: None,
            decoder: Some(Decoder::new()),
            bytes: 0,
            limit_bytes: MAX_RESPONSE_BYTES,
        }
    }

    /// The instant at which reading is given up, and which timeout that is. Without a stream only the total counts:
    /// nothing of such an answer arrives before all of it is generated.
    pub fn deadline(&self) -> (Mono, Deadline) {
        let total = (self.started.plus(self.timeouts.total.0), Deadline::Total);
        let token = match self.last_token {
            _ if !self.stream => return total,
            None => (self.started.plus(self.timeouts.first_token.0), Deadline::FirstToken),
            Some(last) => (last.plus(self.timeouts.between_tokens.0), Deadline::BetweenTokens),
        };
        if token.0 < total.0 { token } else { total }
    }

    /// Takes the response's headers: what came decides how it is read, not what was asked for.
    pub fn on_headers(&mut self, _at: Mono, content_type: Option<&str>) {
        if let Some(content_type) = content_type {
            self.stream = is_event_stream(content_type);
        }
    }

    /// Takes body bytes that arrived at `at`.
    pub fn on_frame(&mut self, at: Mono, bytes: &Bytes) -> Flow {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > self.limit_bytes {
            return Flow::TooLarge;
        }
        let Some(decoder) = self.decoder.as_mut().filter(|_| self.stream) else {
            return Flow::Continue;
        };
        let (dialect, last_token) = (self.dialect, &mut self.last_token);
        let mut flow = Flow::Continue;
        let read = decoder.scan(bytes, &mut |event| {
            if dialect.is_done(event.event, event.data) {
                flow = Flow::Done;
            } else if dialect.may_carry_token(event.data) {
                *last_token = Some(at);
            }
        });
        if read.is_err() {
            self.decoder = None;
        }
        flow
    }
}

/// Whether a `Content-Type` names server-sent events.
pub fn is_event_stream(content_type: &str) -> bool {
    media_type(content_type).eq_ignore_ascii_case("text/event-stream")
}

/// The media type of a `Content-Type`, without its parameters.
pub fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::openai_chat::OpenAiChat;
    use crate::units::Span;

    const TIMEOUTS: Timeouts = Timeouts {
        connect: Span::from_ms(1),
        first_token: Span::from_ms(100),
        between_tokens: Span::from_ms(10),
        total: Span::from_ms(1_000),
    };

    fn ms(ms: u64) -> Mono {
        Mono(ms * 1_000_000)
    }

    fn watch(stream: bool) -> Watch<'static> {
        Watch::new(TIMEOUTS, ms(5), stream, &OpenAiChat)
    }

    fn token(text: &str) -> Bytes {
        Bytes::from(format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"))
    }

    #[test]
    fn a_role_alone_leaves_the_first_token_awaited() {
        let mut watch = watch(true);
        assert_eq!(watch.deadline(), (ms(105), Deadline::FirstToken));
        watch.on_headers(ms(6), Some("text/event-stream; charset=utf-8"));
        let role = Bytes::from_static(
            b"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
        );
        assert_eq!(watch.on_frame(ms(7), &role), Flow::Continue);
        assert_eq!(watch.deadline(), (ms(105), Deadline::FirstToken));
        watch.on_frame(ms(50), &token("a"));
        assert_eq!(watch.deadline(), (ms(60), Deadline::BetweenTokens));
        watch.on_frame(ms(58), &token("b"));
        assert_eq!(watch.deadline(), (ms(68), Deadline::BetweenTokens));
    }

    #[test]
    fn the_total_bounds_a_stream_that_keeps_going() {
        let mut watch = watch(true);
        watch.on_frame(ms(1_000), &token("a"));
        assert_eq!(watch.deadline(), (ms(1_005), Deadline::Total));
    }

    #[test]
    fn a_json_answer_has_the_total_only() {
        assert_eq!(watch(false).deadline(), (ms(1_005), Deadline::Total));
        let mut asked_for_a_stream = watch(true);
        asked_for_a_stream.on_headers(ms(6), Some("application/json"));
        assert_eq!(asked_for_a_stream.deadline(), (ms(1_005), Deadline::Total));
        let mut got_a_stream = watch(false);
        got_a_stream.on_headers(ms(6), Some("Text/Event-Stream"));
        assert_eq!(got_a_stream.on_frame(ms(8), &Bytes::from_static(b"data: [DONE]\n\n")), Flow::Done);
    }

    #[test]
    fn done_is_seen_in_any_split() {
        let mut watch = watch(true);
        assert_eq!(watch.on_frame(ms(6), &Bytes::from_static(b"data: [DO")), Flow::Continue);
        assert_eq!(watch.on_frame(ms(7), &Bytes::from_static(b"NE]\r\n\r")), Flow::Done);
    }

    #[test]
    fn a_response_without_end_is_broken_off() {
        let mut watch = watch(false);
        watch.limit_bytes = 10;
        assert_eq!(watch.on_frame(ms(6), &Bytes::from_static(b"1234567890")), Flow::Continue);
        assert_eq!(watch.on_frame(ms(7), &Bytes::from_static(b"1")), Flow::TooLarge);
    }
}
