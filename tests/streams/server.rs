//! Servers on loopback that say exactly the bytes they are told to, and what a client needs to ask them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use counterpoise::deploy::{Dialect, Exchanged, GenRequest, Lane, OpenAiChat, Sockets, Target, Transport, WireRequest};
use counterpoise::plan::Message;
use counterpoise::spec::{Api, Role, Sampling, Timeouts};
use counterpoise::units::Span;
use counterpoise::world::Clock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/streams")
}

pub fn timeouts(ms: u64) -> Timeouts {
    let span = Span::from_ms(ms);
    Timeouts { connect: span, first_token: span, between_tokens: span, total: Span::from_ms(30_000) }
}

pub fn target(url: &str, timeouts: Timeouts) -> Target {
    Target {
        name: "under-test".to_owned(),
        api: Api::OpenaiChat,
        url: url.to_owned(),
        model: Some("m".to_owned()),
        api_key: Some("secret-key-of-the-test".to_owned()),
        headers: BTreeMap::new(),
        query: BTreeMap::new(),
        body: serde_json::Map::new(),
        ca_file: None,
        timeouts,
    }
}

pub fn lane(target: &Target) -> Box<dyn Lane> {
    Sockets::new(Clock::start()).lane(&Arc::new(target.clone()))
}

pub fn request(target: &Target, stream: bool) -> WireRequest {
    let request = GenRequest {
        messages: vec![Message { role: Role::User, content: "What is the capital of France?".to_owned() }],
        sampling: Sampling {
            temperature: Some(0.0),
            top_p: None,
            top_k: None,
            max_tokens: 8,
            seed: 7,
            stop: Vec::new(),
        },
        seed: 7,
        response_format: None,
        stream,
    };
    OpenAiChat.request(target, &request)
}

/// Asks through a lane of its own; the test fails where no end comes.
pub async fn ask(address: SocketAddr) -> Exchanged {
    let target = target(&format!("http://{address}/v1"), timeouts(10_000));
    let mut lane = lane(&target);
    let request = request(&target, true);
    bounded(lane.exchange(&request, &OpenAiChat)).await
}

/// No test waits for ever.
pub async fn bounded<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), future).await.expect("no end within 60 s")
}

pub async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Reads one request, head and body; `None` where the client closed instead.
pub async fn read_request<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut bytes = Vec::new();
    let mut needed = None;
    let mut buffer = vec![0_u8; 1 << 16];
    while needed.is_none_or(|needed| bytes.len() < needed) {
        let n = stream.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&buffer[..n]);
        if needed.is_none() {
            needed = request_length(&bytes);
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Bytes of the whole request, once its head is there.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let (head, _) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    Some(head.len() + 4 + length.map_or(0, |number| number.trim().parse().unwrap()))
}

/// Serves one connection: reads a request and answers with these pieces, each written on its own, then closes.
pub async fn serve_once(listener: TcpListener, pieces: Vec<Vec<u8>>) -> Option<String> {
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.set_nodelay(true).unwrap();
    let request = read_request(&mut stream).await;
    write_pieces(&mut stream, &pieces).await;
    request
}

pub async fn write_pieces(stream: &mut TcpStream, pieces: &[Vec<u8>]) {
    for piece in pieces {
        if stream.write_all(piece).await.is_err() {
            return; // The client has what it needs.
        }
        tokio::task::yield_now().await;
    }
    let _ = stream.shutdown().await;
}
