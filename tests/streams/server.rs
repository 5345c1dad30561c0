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
        sampling: Sampling { temperature: Some(0.0), top_p: None, top_k: None, max_tokens: 8, seed: 7, stop: Vec::new() },
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
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("no end within 60 s")
}

pub async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Reads one request, head and body; `None` where the client closed instead.
pub async fn read_request<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0_u8; 4096];
        let n = stream.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&buffer[..n]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some(head) = text.find("\r\n\r\n") else { continue };
        let length = text.to_ascii_lowercase().split("content-length: ").nth(1).and_then(|rest| {
            rest.split("\r\n").next().and_then(|number| number.trim().parse::<usize>().ok())
        });
        if bytes.len() >= head + 4 + length.unwrap_or(0) {
            return Some(text);
        }
    }
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
