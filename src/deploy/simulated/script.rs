//! What a simulated server will do with one request: every byte and its instant, fixed when the request arrives.

use bytes::Bytes;

use crate::deploy::Frame;
use crate::units::Mono;

/// Method, path, headers and body of a request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub method: &'a str,
    /// With or without query.
    pub path: &'a str,
    /// Names in any case.
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
}

impl Request<'_> {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// Status and headers, written at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub at: Mono,
    pub status: u16,
    /// Lower-case names, without Content-Length and Transfer-Encoding.
    pub headers: Vec<(String, String)>,
    /// The body's length where it is known; else the body is chunked.
    pub content_length: Option<usize>,
}

/// How a response ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Complete,
    /// The connection breaks.
    Cut,
    /// Nothing more comes, and the response is never ended.
    Hang,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Of the request, from 0, in the order of arrival.
    pub number: u64,
    /// Absent where no response byte is ever written.
    pub head: Option<Head>,
    /// Body bytes, in order of time.
    pub frames: Vec<Frame>,
    pub end: End,
    /// When the response ends or the connection breaks; for a hang, when the last byte was written.
    pub end_at: Mono,
    /// The connection is closed after the response; `announced` by `Connection: close`.
    pub close: Option<Close>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    Announced,
    Silent,
}

impl Script {
    /// A whole response at one instant.
    pub fn page(number: u64, at: Mono, status: u16, content_type: &str, body: impl Into<Bytes>) -> Script {
        let body: Bytes = body.into();
        let head = Head {
            at,
            status,
            headers: vec![
                ("server".to_owned(), "counterpoise-simulated".to_owned()),
                ("content-type".to_owned(), content_type.to_owned()),
            ],
            content_length: Some(body.len()),
        };
        let frames = if body.is_empty() { Vec::new() } else { vec![Frame { at, bytes: body }] };
        Script { number, head: Some(head), frames, end: End::Complete, end_at: at, close: None }
    }

    /// A response that consists of nothing at all.
    pub fn nothing(number: u64, at: Mono, end: End) -> Script {
        Script { number, head: None, frames: Vec::new(), end, end_at: at, close: None }
    }

    /// The body's bytes, joined.
    pub fn body(&self) -> Vec<u8> {
        self.frames.iter().flat_map(|frame| frame.bytes.iter().copied()).collect()
    }
}
