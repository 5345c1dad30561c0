//! As much of HTTP/1.1 as a simulated server needs, by hand: a library would decide when bytes are written.

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::script::{Close, Head, Request};

const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_BODY_BYTES: usize = 32 << 20;

/// A request as it came over a socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The client speaks HTTP/1.0 or asks to close.
    pub last: bool,
    pub http10: bool,
}

impl Received {
    pub fn request(&self) -> Request<'_> {
        Request { method: &self.method, path: &self.path, headers: &self.headers, body: &self.body }
    }
}

/// Why a request could not be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("the client closed the connection")]
    Closed,
    #[error("the request is not HTTP/1.1: {0}")]
    Malformed(&'static str),
    #[error("the request is larger than this server takes")]
    TooLarge,
}

impl ReadError {
    /// The status that tells the client, where it can be told.
    pub fn status(&self) -> Option<u16> {
        match self {
            ReadError::Closed => None,
            ReadError::Malformed(_) => Some(400),
            ReadError::TooLarge => Some(413),
        }
    }
}

/// Reads one request; `buffer` keeps what came beyond it. `on_continue` is called where the client waits to be told
/// to send its body.
pub async fn read_request<R: AsyncRead + Unpin>(
    reader: &mut R,
    buffer: &mut BytesMut,
    on_continue: impl AsyncFnOnce() -> std::io::Result<()>,
) -> Result<Received, ReadError> {
    let end = loop {
        if let Some(at) = memchr::memmem::find(buffer, b"\r\n\r\n") {
            break at;
        }
        if buffer.len() > MAX_HEAD_BYTES {
            return Err(ReadError::TooLarge);
        }
        fill(reader, buffer).await?;
    };
    let head = buffer.split_to(end);
    buffer.advance(4);
    let mut received = parse_head(&head)?;
    let header = |name: &str| received.request().header(name).map(str::to_ascii_lowercase);
    if header("expect").is_some_and(|value| value == "100-continue") {
        on_continue().await.map_err(|_| ReadError::Closed)?;
    }
    if header("transfer-encoding").is_some() {
        received.body = chunked_body(reader, buffer).await?;
    } else if let Some(length) = header("content-length") {
        let length: usize = length.trim().parse().map_err(|_| ReadError::Malformed("content-length is no number"))?;
        received.body = exactly(reader, buffer, length).await?;
    }
    Ok(received)
}

async fn fill<R: AsyncRead + Unpin>(reader: &mut R, buffer: &mut BytesMut) -> Result<(), ReadError> {
    match reader.read_buf(buffer).await {
        Ok(0) | Err(_) => Err(ReadError::Closed),
        Ok(_) => Ok(()),
    }
}

async fn exactly<R: AsyncRead + Unpin>(
    reader: &mut R,
    buffer: &mut BytesMut,
    length: usize,
) -> Result<Vec<u8>, ReadError> {
    if length > MAX_BODY_BYTES {
        return Err(ReadError::TooLarge);
    }
    while buffer.len() < length {
        fill(reader, buffer).await?;
    }
    Ok(buffer.split_to(length).to_vec())
}

async fn line<R: AsyncRead + Unpin>(reader: &mut R, buffer: &mut BytesMut) -> Result<BytesMut, ReadError> {
    loop {
        if let Some(at) = memchr::memmem::find(buffer, b"\r\n") {
            let line = buffer.split_to(at);
            buffer.advance(2);
            return Ok(line);
        }
        if buffer.len() > MAX_HEAD_BYTES {
            return Err(ReadError::Malformed("a chunk's line does not end"));
        }
        fill(reader, buffer).await?;
    }
}

async fn chunked_body<R: AsyncRead + Unpin>(reader: &mut R, buffer: &mut BytesMut) -> Result<Vec<u8>, ReadError> {
    let mut body = Vec::new();
    loop {
        let size = line(reader, buffer).await?;
        let size = String::from_utf8_lossy(&size);
        let digits = size.split(';').next().unwrap_or_default().trim();
        let size =
            usize::from_str_radix(digits, 16).map_err(|_| ReadError::Malformed("a chunk's size is no number"))?;
        if size == 0 {
            while !line(reader, buffer).await?.is_empty() {}
            return Ok(body);
        }
        if body.len().saturating_add(size) > MAX_BODY_BYTES {
            return Err(ReadError::TooLarge);
        }
        body.extend(exactly(reader, buffer, size).await?);
        if !line(reader, buffer).await?.is_empty() {
            return Err(ReadError::Malformed("a chunk is longer than its size"));
        }
    }
}

fn parse_head(head: &[u8]) -> Result<Received, ReadError> {
    let text = std::str::from_utf8(head).map_err(|_| ReadError::Malformed("the head is not UTF-8"))?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(path), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(ReadError::Malformed("the first line is not a method, a path and a version"));
    };
    if !version.starts_with("HTTP/1.") {
        return Err(ReadError::Malformed("the version is not 1.1"));
    }
    let headers: Option<Vec<(String, String)>> = lines
        .map(|line| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned())))
        .collect();
    let headers = headers.ok_or(ReadError::Malformed("a header line has no colon"))?;
    let mut received = Received { method: method.to_owned(), path: path.to_owned(), headers, ..Received::default() };
    received.http10 = version == "HTTP/1.0";
    let asks_close = received.request().header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    received.last = received.http10 || asks_close;
    Ok(received)
}

/// How a body travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Chunked,
    /// By length, or to the connection's end.
    Raw,
}

impl Framing {
    pub fn of(head: &Head, http10: bool) -> Framing {
        if head.content_length.is_some() || http10 { Framing::Raw } else { Framing::Chunked }
    }

    /// A body's piece as written; never empty, since an empty chunk would end the body.
    pub fn piece(self, bytes: &[u8], into: &mut Vec<u8>) {
        match self {
            Framing::Raw => into.extend_from_slice(bytes),
            Framing::Chunked if bytes.is_empty() => {}
            Framing::Chunked => {
                into.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
                into.extend_from_slice(bytes);
                into.extend_from_slice(b"\r\n");
            }
        }
    }

    pub fn last(self) -> &'static [u8] {
        match self {
            Framing::Raw => b"",
            Framing::Chunked => b"0\r\n\r\n",
        }
    }
}

/// Status line and headers.
pub fn head_bytes(head: &Head, framing: Framing, close: Option<Close>, last: bool) -> Vec<u8> {
    let reason = http::StatusCode::from_u16(head.status).ok().and_then(|s| s.canonical_reason()).unwrap_or("Unknown");
    let mut lines = vec![format!("HTTP/1.1 {} {reason}", head.status)];
    lines.extend(head.headers.iter().map(|(name, value)| format!("{name}: {value}")));
    match (head.content_length, framing) {
        (Some(length), _) => lines.push(format!("content-length: {length}")),
        (None, Framing::Chunked) => lines.push("transfer-encoding: chunked".to_owned()),
        (None, Framing::Raw) => {}
    }
    if last || close == Some(Close::Announced) {
        lines.push("connection: close".to_owned());
    }
    let mut text = lines.join("\r\n");
    text.push_str("\r\n\r\n");
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(mut bytes: &[u8]) -> Result<(Received, bool), ReadError> {
        let mut buffer = BytesMut::new();
        let mut continued = false;
        let received = read_request(&mut bytes, &mut buffer, async || {
            continued = true;
            Ok(())
        })
        .await?;
        Ok((received, continued))
    }

    #[tokio::test]
    async fn bodies_come_by_length_and_in_chunks() {
        let (by_length, continued) =
            read(b"POST /v1/x?a=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabcX")
                .await
                .unwrap();
        assert_eq!(
            (by_length.path.as_str(), by_length.body.as_slice(), by_length.last),
            ("/v1/x?a=1", b"abc".as_slice(), false)
        );
        assert!(continued);
        let chunks = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2;x=1\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        let (chunked, _) = read(chunks).await.unwrap();
        assert_eq!((chunked.body.as_slice(), chunked.last), (b"abc".as_slice(), true));
    }

    #[tokio::test]
    async fn what_is_no_request_is_refused() {
        let cases: [(&[u8], Option<u16>); 9] = [
            (b"", None),
            (b"GET / HTTP/1.1\r\nHost", None),
            (b"GET /\r\n\r\n", Some(400)),
            (b"GET / HTTP/2\r\n\r\n", Some(400)),
            (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", Some(400)),
            (b"\xff\xfe / HTTP/1.1\r\n\r\n", Some(400)),
            (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", Some(400)),
            (b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", Some(413)),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", Some(400)),
        ];
        for (bytes, status) in cases {
            assert_eq!(read(bytes).await.unwrap_err().status(), status, "{}", String::from_utf8_lossy(bytes));
        }
        let endless = "GET / HTTP/1.1\r\nA: ".to_owned() + &"a".repeat(MAX_HEAD_BYTES + 10);
        assert_eq!(read(endless.as_bytes()).await.unwrap_err(), ReadError::TooLarge);
    }
}
