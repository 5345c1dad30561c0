//! Stand-in with the calls of the shared reading state.

use bytes::Bytes;

use crate::deploy::{Deadline, Dialect};
use crate::spec::Timeouts;
use crate::units::Mono;

pub const MAX_RESPONSE_BYTES: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Continue,
    Done,
    TooLarge,
}

pub struct Watch<'a> {
    timeouts: Timeouts,
    dialect: &'a dyn Dialect,
    started: Mono,
    stream: bool,
    last_token: Option<Mono>,
    line: Vec<u8>,
    bytes: u64,
}

impl<'a> Watch<'a> {
    pub fn new(timeouts: Timeouts, started: Mono, stream: bool, dialect: &'a dyn Dialect) -> Watch<'a> {
        Watch { timeouts, dialect, started, stream, last_token: None, line: Vec::new(), bytes: 0 }
    }

    pub fn deadline(&self) -> (Mono, Deadline) {
        let total = (self.started.plus(self.timeouts.total.0), Deadline::Total);
        let token = match self.last_token {
            _ if !self.stream => return total,
            None => (self.started.plus(self.timeouts.first_token.0), Deadline::FirstToken),
            Some(last) => (last.plus(self.timeouts.between_tokens.0), Deadline::BetweenTokens),
        };
        if token.0 < total.0 { token } else { total }
    }

    pub fn on_headers(&mut self, _at: Mono, content_type: Option<&str>) {
        self.stream = content_type.is_none_or(|c| c.starts_with("text/event-stream"));
    }

    pub fn on_frame(&mut self, at: Mono, bytes: &Bytes) -> Flow {
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_RESPONSE_BYTES {
            return Flow::TooLarge;
        }
        let mut flow = Flow::Continue;
        for byte in bytes.iter().filter(|_| self.stream) {
            if !matches!(byte, b'\n' | b'\r') {
                self.line.push(*byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            if let Some(data) = line.strip_prefix(b"data:") {
                let data = data.trim_ascii_start();
                if data == b"[DONE]" {
                    flow = Flow::Done;
                } else if self.dialect.may_carry_token(data) {
                    self.last_token = Some(at);
                }
            }
        }
        flow
    }
}
