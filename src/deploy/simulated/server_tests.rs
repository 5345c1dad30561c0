use super::*;
use crate::deploy::simulated::{Entry, Fault, FaultKind, Request};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn quick(change: impl FnOnce(&mut Profile)) -> Profile {
    let mut profile = Profile::from_json(r#"{"ttft_ms": {"fixed": 3}, "token_gap_ms": {"fixed": 1}}"#).unwrap();
    change(&mut profile);
    profile
}

fn book() -> AnswerBook {
    AnswerBook::from_entries(vec![Entry::new("count", "one two three, é and ü")])
}

fn server(change: impl FnOnce(&mut Profile)) -> Server {
    Server::start(quick(change), book(), 1, LOCAL, Clock::start()).unwrap()
}

fn faulty(fault: Fault) -> Server {
    server(|p| p.faults = vec![fault])
}

const BODY: &str = r#"{"messages":[{"content":"count"}],"stream":true,"temperature":0}"#;

/// An HTTP client that is not ours.
struct Client(hyper::client::conn::http1::SendRequest<Full<Bytes>>);

impl Client {
    async fn connect(server: &Server) -> Client {
        let stream = TcpStream::connect(server.addr()).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Client(sender)
    }

    async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
    ) -> hyper::Result<http::Response<hyper::body::Incoming>> {
        let request =
            http::Request::builder().method(method).uri(path).header("host", "sim").header("x-request-id", "r-1");
        self.0.send_request(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()).await
    }

    /// Status, content type and body; `None` in place of a body that broke off.
    async fn post(&mut self, body: &str) -> Option<(u16, String, Option<Bytes>)> {
        let response = self.send("POST", "/v1/chat/completions", body).await.ok()?;
        let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.ok().map(http_body_util::Collected::to_bytes);
        Some((status, content_type, body))
    }
}

/// What the same engine says without a socket.
fn expected(profile: Profile, body: &str) -> Script {
    let mut engine = Engine::new(profile, book(), 1);
    engine.on_request(
        Mono(0),
        &Request { method: "POST", path: "/v1/chat/completions", headers: &[], body: body.as_bytes() },
    )
}

#[tokio::test]
async fn the_socket_carries_the_bytes_of_the_engine() {
    let shapes: [fn(&mut Profile); 5] = [
        |_| {},
        |p| p.shape.chunk_bytes = Some(5),
        |p| p.faults = vec![Fault::always(FaultKind::Crlf), Fault::always(FaultKind::UsageInEveryChunk)],
        |p| p.faults = vec![Fault::always(FaultKind::Http429)],
        |p| p.faults = vec![Fault::always(FaultKind::Empty)],
    ];
    for (number, shape) in shapes.into_iter().enumerate() {
        for body in [BODY, &BODY.replace("true", "false"), "{"] {
            let server = server(shape);
            let (status, content_type, got) = Client::connect(&server).await.post(body).await.unwrap();
            let script = expected(quick(shape), body);
            let head = script.head.clone().unwrap();
            assert_eq!(status, head.status);
            assert!(head.headers.contains(&("content-type".to_owned(), content_type)));
            assert_eq!(got.unwrap(), script.body(), "shape {number}, {body}");
        }
    }
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_each_piece_is_a_chunk() {
    let server = server(|p| p.shape.chunk_bytes = Some(7));
    let mut stream = TcpStream::connect(server.addr()).await.unwrap();
    let script = expected(quick(|p| p.shape.chunk_bytes = Some(7)), BODY);
    for number in 0..3 {
        let request = format!("POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {}\r\n\r\n{BODY}", BODY.len());
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut got = Vec::new();
        while !got.ends_with(b"\r\n0\r\n\r\n") {
            assert!(stream.read_buf(&mut got).await.unwrap() > 0, "closed at request {number}");
        }
        let text = String::from_utf8_lossy(&got).into_owned();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("transfer-encoding: chunked\r\n"), "{text}");
        let at = memchr::memmem::find(&got, b"\r\n\r\n").unwrap() + 4;
        let sizes: Vec<usize> = chunks(&got[at..]).iter().map(Vec::len).collect();
        assert_eq!(sizes, script.frames.iter().map(|frame| frame.bytes.len()).collect::<Vec<_>>());
    }
    assert_eq!(server.stats().requests, 3);
}

/// The chunks of a chunked body, without the last, empty one.
fn chunks(mut body: &[u8]) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    loop {
        let end = memchr::memmem::find(body, b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return chunks;
        }
        chunks.push(body[end + 2..end + 2 + size].to_vec());
        body = &body[end + 2 + size + 2..];
    }
}

#[tokio::test]
async fn broken_responses_break_the_connection() {
    let cut = faulty(Fault { after_tokens: Some(2), ..Fault::always(FaultKind::Cut) });
    assert!(matches!(Client::connect(&cut).await.post(BODY).await, Some((200, _, None))));
    let whole = BODY.replace("true", "false");
    assert!(matches!(Client::connect(&cut).await.post(&whole).await, Some((200, _, None))));
    let dropped = faulty(Fault::always(FaultKind::Drop));
    assert!(Client::connect(&dropped).await.post(BODY).await.is_none());
    let silent = faulty(Fault::always(FaultKind::CloseAfter));
    let mut client = Client::connect(&silent).await;
    assert!(client.post(BODY).await.is_some_and(|(status, _, body)| status == 200 && body.is_some()));
    assert!(client.post(BODY).await.is_none(), "the connection still stands");
}

#[tokio::test]
async fn a_client_that_leaves_a_hanging_request_is_noticed() {
    for fault in [Fault::always(FaultKind::Hang), Fault { ms: Some(3_600_000.0), ..Fault::always(FaultKind::Stall) }] {
        let server = faulty(fault);
        let mut client = Client::connect(&server).await;
        let waited = tokio::time::timeout(Duration::from_millis(40), client.post(BODY)).await;
        assert!(waited.is_err(), "a hanging request was answered");
        assert_eq!(server.stats().in_flight, 1);
        drop(client);
        while server.stats().in_flight > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test]
async fn pages_are_served_beside_a_running_stream() {
    let server = server(|p| p.ttft_ms = crate::deploy::simulated::Dist::Fixed { fixed: 3_000.0 });
    let mut busy = Client::connect(&server).await;
    let asking = tokio::spawn(async move { busy.post(BODY).await });
    while server.stats().in_flight == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let response = Client::connect(&server).await.send("GET", "/metrics", "").await.unwrap();
    let page = response.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&page).contains("llamacpp:requests_processing 1\n"));
    asking.abort();
}

#[tokio::test]
async fn what_is_no_http_gets_a_400_and_the_connection_is_closed() {
    let server = server(|_| {});
    let mut stream = TcpStream::connect(server.addr()).await.unwrap();
    stream.write_all(b"\x16\x03\x01\x02\x00 hello\r\n\r\n").await.unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).await.unwrap();
    assert!(got.starts_with(b"HTTP/1.1 400 Bad Request\r\n"), "{}", String::from_utf8_lossy(&got));
}

#[tokio::test]
async fn writes_are_recorded_and_never_early() {
    let server = server(|_| {});
    Client::connect(&server).await.post(BODY).await.unwrap();
    let mut written = server.take_written();
    while written.is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
        written = server.take_written();
    }
    let script = expected(quick(|_| {}), BODY);
    assert_eq!((written.len(), written[0].number, written[0].request_id.as_deref()), (1, 0, Some("r-1")));
    assert_eq!(written[0].pieces.len(), script.frames.len());
    assert!(written[0].pieces.iter().all(|(due, at)| due <= at));
    let sizes: Vec<u64> = script.frames.iter().map(|frame| frame.bytes.len() as u64).collect();
    assert_eq!(written[0].sizes, sizes);
    let gap = |pieces: &[(Mono, Mono)]| pieces[1].0.since(pieces[0].0);
    assert_eq!(gap(&written[0].pieces), script.frames[1].at.since(script.frames[0].at));
}

#[tokio::test]
async fn a_server_ends_when_it_is_told_even_while_it_answers() {
    let server = faulty(Fault::always(FaultKind::Hang));
    let addr = server.addr();
    let mut client = Client::connect(&server).await;
    let asking = tokio::spawn(async move { client.post(BODY).await });
    while server.stats().in_flight == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::task::spawn_blocking(move || server.shutdown()).await.unwrap();
    assert!(asking.await.unwrap().is_none());
    assert!(TcpStream::connect(addr).await.is_err(), "the port still listens");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let server = server(|_| {});
    let second = Server::start(quick(|_| {}), book(), 1, server.addr(), Clock::start());
    let message = second.err().unwrap().to_string();
    assert!(message.contains(&server.addr().to_string()), "{message}");
}

#[tokio::test]
async fn it_serves_on_the_callers_runtime_until_it_is_told() {
    let listener = TcpListener::bind(LOCAL).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let engine = Engine::new(quick(|_| {}), book(), 1);
    let serving = tokio::spawn(serve_until(listener, engine, Clock::start(), async move { drop(stopped.await) }));
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").await.unwrap();
    let mut got = String::new();
    stream.read_to_string(&mut got).await.unwrap();
    assert!(got.ends_with("{\"status\":\"ok\"}"), "{got}");
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_worn_or_idle_connection_is_closed() {
    let worn = server(|p| p.requests_per_connection = 2);
    let mut client = Client::connect(&worn).await;
    assert!(client.post(BODY).await.is_some() && client.post(BODY).await.is_some());
    assert!(client.post(BODY).await.is_none(), "a third request was served");
    let idle = server(|p| p.idle_close_ms = 20);
    let mut stream = TcpStream::connect(idle.addr()).await.unwrap();
    assert_eq!(stream.read_to_end(&mut Vec::new()).await.unwrap(), 0);
}
