//! What a lane does when servers close, hang, refuse or go on for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use counterpoise::deploy::{Deadline, Dialect, EndOfBody, Exchanged, OpenAiChat, Outcome, TransportError};
use counterpoise::spec::Timeouts;
use counterpoise::units::Span;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::server::{ask, bounded, lane, listen, read_request, request, target, timeouts};

const ANSWER: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Paris\"},\"finish_reason\":\"stop\"}]}\n\n";

fn response(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Answers `per_connection` requests on each connection, then closes it; counts connections.
async fn serve(listener: TcpListener, per_connection: usize, connections: Arc<AtomicUsize>) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { return };
        connections.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            stream.set_nodelay(true).unwrap();
            for _ in 0..per_connection {
                if read_request(&mut stream).await.is_none() {
                    return;
                }
                stream.write_all(response(&format!("{ANSWER}data: [DONE]\n\n")).as_bytes()).await.unwrap();
            }
        });
    }
}

fn outcome(exchanged: &Exchanged) -> Outcome {
    OpenAiChat.read(exchanged).outcome
}

#[tokio::test]
async fn ten_thousand_requests_share_one_connection() {
    let (listener, address) = listen().await;
    let connections = Arc::new(AtomicUsize::new(0));
    let server = tokio::spawn(serve(listener, usize::MAX, Arc::clone(&connections)));
    let target = target(&format!("http://{address}/v1"), timeouts(10_000));
    let mut lane = lane(&target);
    let request = request(&target, true);
    bounded(lane.open()).await.unwrap();
    for index in 0..10_000 {
        let exchanged = bounded(lane.exchange(&request, &OpenAiChat)).await;
        assert_eq!(outcome(&exchanged), Outcome::Completed);
        assert_eq!(exchanged.marks.tcp_ns.is_some(), index == 0, "connection parts belong to the first exchange");
        assert!(!exchanged.reopened);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    server.abort();
}

/// The server gives back the question; no answer strays into another lane.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_lanes_each_get_their_own_answers() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                while let Some(request) = read_request(&mut stream).await {
                    let (_, body) = request.split_once("\r\n\r\n").unwrap();
                    let body: serde_json::Value = serde_json::from_str(body).unwrap();
                    let content = &body["messages"][0]["content"];
                    let answer =
                        serde_json::json!({"choices": [{"delta": {"content": content}, "finish_reason": "stop"}]});
                    let answer = response(&format!("data: {answer}\n\ndata: [DONE]\n\n"));
                    for piece in answer.as_bytes().chunks(50) {
                        stream.write_all(piece).await.unwrap();
                        tokio::task::yield_now().await;
                    }
                }
            });
        }
    });
    let target = target(&format!("http://{address}/v1"), timeouts(30_000));
    let lanes = (0..40).map(|number| {
        let target = target.clone();
        tokio::spawn(async move {
            let mut lane = lane(&target);
            lane.open().await.unwrap();
            for round in 0..20 {
                let question = format!("lane {number}, round {round}");
                let mut request = request(&target, true);
                let mut body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
                body["messages"][0]["content"] = question.clone().into();
                request.body = body.to_string().into();
                let exchanged = lane.exchange(&request, &OpenAiChat).await;
                assert_eq!(OpenAiChat.read(&exchanged).text, question);
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        bounded(lane).await.unwrap();
    }
    server.abort();
}

#[tokio::test]
async fn marks_are_in_the_order_of_events() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(serve(listener, 1, Arc::default()));
    let exchanged = ask(address).await;
    let marks = exchanged.marks;
    let instants = [Some(marks.dispatched), marks.sent, marks.first_byte, marks.headers, marks.eof];
    let instants: Vec<_> = instants.into_iter().map(Option::unwrap).collect();
    assert!(instants.is_sorted(), "{instants:?}");
    assert!(exchanged.frames.iter().all(|frame| Some(frame.at) >= marks.first_byte && Some(frame.at) <= marks.eof));
    assert_eq!((marks.dns_ns, marks.tls_ns), (None, None), "an address needs no name, http no TLS");
    server.abort();
}

#[tokio::test]
async fn a_host_name_is_resolved_and_timed() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(serve(listener, 1, Arc::default()));
    let target = target(&format!("http://localhost:{}/v1", address.port()), timeouts(10_000));
    let exchanged = bounded(lane(&target).exchange(&request(&target, true), &OpenAiChat)).await;
    assert_eq!(outcome(&exchanged), Outcome::Completed);
    assert!(exchanged.marks.dns_ns.is_some());
    server.abort();
}

#[tokio::test]
async fn a_lane_notices_the_close_and_opens_again() {
    let (listener, address) = listen().await;
    let connections = Arc::new(AtomicUsize::new(0));
    let server = tokio::spawn(serve(listener, 2, Arc::clone(&connections)));
    let target = target(&format!("http://{address}/v1"), timeouts(10_000));
    let mut lane = lane(&target);
    let request = request(&target, true);
    assert!(!lane.is_open());
    bounded(lane.open()).await.unwrap();
    for round in 0..3 {
        for _ in 0..2 {
            assert_eq!(outcome(&bounded(lane.exchange(&request, &OpenAiChat)).await), Outcome::Completed);
        }
        bounded(async {
            while lane.is_open() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        assert_eq!(connections.load(Ordering::SeqCst), round + 1);
        bounded(lane.open()).await.unwrap();
        assert!(lane.is_open());
    }
    server.abort();
}

/// The first connection reads the request and closes; the second answers.
#[tokio::test]
async fn a_standing_lane_that_closes_before_any_byte_sends_once_more() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        read_request(&mut first).await.unwrap();
        drop(first);
        let (mut second, _) = listener.accept().await.unwrap();
        read_request(&mut second).await.unwrap();
        second.write_all(response(ANSWER).as_bytes()).await.unwrap();
    });
    let target = target(&format!("http://{address}/v1"), timeouts(10_000));
    let mut lane = lane(&target);
    bounded(lane.open()).await.unwrap();
    let exchanged = bounded(lane.exchange(&request(&target, true), &OpenAiChat)).await;
    assert_eq!(outcome(&exchanged), Outcome::Completed);
    assert!(exchanged.reopened);
    assert!(exchanged.marks.tcp_ns.is_some());
    server.await.unwrap();
}

#[tokio::test]
async fn a_server_that_always_closes_is_asked_twice_at_most() {
    let (listener, address) = listen().await;
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let server = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            read_request(&mut stream).await;
        }
    });
    let target = target(&format!("http://{address}/v1"), timeouts(10_000));
    let mut lane = lane(&target);
    bounded(lane.open()).await.unwrap();
    let exchanged = bounded(lane.exchange(&request(&target, true), &OpenAiChat)).await;
    assert_eq!(exchanged.end, EndOfBody::Broken(TransportError::ClosedBeforeResponse));
    assert_eq!(outcome(&exchanged), Outcome::Transport);
    assert_eq!(connections.load(Ordering::SeqCst), 2);
    // A connection that the exchange itself opened gets no second chance.
    let exchanged = bounded(lane.exchange(&request(&target, true), &OpenAiChat)).await;
    assert!(!exchanged.reopened);
    assert_eq!(connections.load(Ordering::SeqCst), 3);
    server.abort();
}

#[tokio::test]
async fn a_refused_port_is_unreachable() {
    let (listener, address) = listen().await;
    drop(listener);
    let exchanged = ask(address).await;
    let reply = OpenAiChat.read(&exchanged);
    assert_eq!(reply.outcome, Outcome::Unreachable);
    let error = reply.error.unwrap();
    assert!(error.contains("connection refused") && error.contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn urls_that_lead_nowhere_are_told() {
    // A label of more than 63 characters is no name that a resolver would ask the network about.
    let no_name = format!("http://{}.invalid/v1", "a".repeat(64));
    for (url, part) in [
        ("no url", "it is no url"),
        ("ftp://127.0.0.1/", "neither http nor https"),
        (no_name.as_str(), "could not resolve `aaaa"),
    ] {
        let target = target(url, timeouts(10_000));
        let mut lane = lane(&target);
        let exchanged = bounded(lane.exchange(&request(&target, true), &OpenAiChat)).await;
        let reply = OpenAiChat.read(&exchanged);
        assert_eq!(reply.outcome, Outcome::Unreachable, "{url}");
        assert!(reply.error.as_deref().unwrap().contains(part), "{url}: {:?}", reply.error);
        assert!(bounded(lane.open()).await.is_err(), "{url}");
    }
}

/// Accepts, reads the request, writes `bytes`, and keeps the connection open.
async fn hang(listener: TcpListener, bytes: String) {
    let (mut stream, _) = listener.accept().await.unwrap();
    read_request(&mut stream).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    read_request(&mut stream).await;
}

/// Asks a server that hangs after `bytes`; a short timeout runs for what the test waits for, and for nothing else.
async fn against_hanging(bytes: String, short: Deadline) -> (Exchanged, bool) {
    let (listener, address) = listen().await;
    let server = tokio::spawn(hang(listener, bytes));
    let mut timeouts = timeouts(20_000);
    match short {
        Deadline::FirstToken => timeouts.first_token = Span::from_ms(100),
        Deadline::BetweenTokens => timeouts.between_tokens = Span::from_ms(100),
        Deadline::Connect | Deadline::Total => {}
    }
    let target = target(&format!("http://{address}/v1"), timeouts);
    let mut lane = lane(&target);
    let exchanged = bounded(lane.exchange(&request(&target, true), &OpenAiChat)).await;
    let open = lane.is_open();
    server.abort();
    (exchanged, open)
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

#[tokio::test]
async fn a_server_that_says_nothing_runs_into_first_token() {
    let (exchanged, open) = against_hanging(String::new(), Deadline::FirstToken).await;
    assert_eq!(outcome(&exchanged), Outcome::Timeout(Deadline::FirstToken));
    assert!(!open && exchanged.marks.sent.is_some());
    let role = chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n");
    let (exchanged, _) = against_hanging(format!("{HEAD}{role}"), Deadline::FirstToken).await;
    assert_eq!(outcome(&exchanged), Outcome::Timeout(Deadline::FirstToken));
}

#[tokio::test]
async fn a_stream_that_stalls_runs_into_between_tokens_and_keeps_its_text() {
    let token = chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Par\"}}]}\n\n");
    let (exchanged, open) = against_hanging(format!("{HEAD}{token}"), Deadline::BetweenTokens).await;
    let reply = OpenAiChat.read(&exchanged);
    assert_eq!((reply.outcome, reply.text.as_str()), (Outcome::Timeout(Deadline::BetweenTokens), "Par"));
    assert!(!open);
}

#[tokio::test]
async fn a_response_kept_open_after_done_is_complete() {
    let (exchanged, open) =
        against_hanging(format!("{HEAD}{}{}", chunk(ANSWER), chunk("data: [DONE]\n\n")), Deadline::Total).await;
    assert_eq!(exchanged.end, EndOfBody::DoneMarker);
    assert_eq!(outcome(&exchanged), Outcome::Completed);
    assert_eq!(exchanged.marks.eof, exchanged.frames.last().map(|frame| frame.at));
    assert!(!open, "what is left of the response must not reach the next request");
}

#[tokio::test]
async fn what_is_not_http_is_told() {
    let (exchanged, _) = against_hanging("SSH-2.0-OpenSSH_9.2\r\n\r\n".to_owned(), Deadline::Total).await;
    assert!(matches!(exchanged.end, EndOfBody::Broken(TransportError::NotHttp(_))), "{:?}", exchanged.end);
    assert_eq!(outcome(&exchanged), Outcome::Transport);
}

#[tokio::test]
async fn dropping_an_exchange_closes_its_lane() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(hang(listener, HEAD.to_owned()));
    let target = target(&format!("http://{address}/v1"), timeouts(10_000));
    let mut lane = lane(&target);
    let request = request(&target, true);
    bounded(lane.open()).await.unwrap();
    let dropped = tokio::time::timeout(Duration::from_millis(50), lane.exchange(&request, &OpenAiChat)).await;
    assert!(dropped.is_err());
    assert!(!lane.is_open());
    bounded(server).await.unwrap();
}

#[tokio::test]
async fn chunks_of_one_read_carry_one_instant() {
    let (listener, address) = listen().await;
    let token = chunk("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n");
    let bytes = format!("{HEAD}{}{}0\r\n\r\n", token.repeat(5), chunk(ANSWER));
    let server = tokio::spawn(hang(listener, bytes));
    let reply = OpenAiChat.read(&ask(address).await);
    assert_eq!(reply.text, "aaaaaParis");
    assert!(reply.arrivals.iter().all(|a| Some(a.at) == reply.first_token()), "{:?}", reply.arrivals);
    server.abort();
}

#[tokio::test]
async fn a_chunk_of_a_megabyte_and_a_long_prompt_go_through() {
    let (listener, address) = listen().await;
    let text = "x".repeat(1 << 20);
    let event = chunk(&format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":\"stop\"}}]}}\n\n"
    ));
    let server = tokio::spawn(hang(listener, format!("{HEAD}{event}0\r\n\r\n")));
    let mut target = target(&format!("http://{address}/v1"), timeouts(30_000));
    target.body.insert("padding".to_owned(), "word ".repeat(64_000).into());
    let exchanged = bounded(lane(&target).exchange(&request(&target, true), &OpenAiChat)).await;
    let reply = OpenAiChat.read(&exchanged);
    assert_eq!((reply.outcome, reply.text.len()), (Outcome::Completed, 1 << 20));
    server.abort();
}

/// The server reads nothing for a while, and the request is larger than what sockets buffer.
#[tokio::test]
async fn sent_is_when_the_last_byte_left() {
    let (listener, address) = listen().await;
    let pause = Duration::from_millis(80);
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::time::sleep(pause).await;
        read_request(&mut stream).await.unwrap();
        stream.write_all(response(ANSWER).as_bytes()).await.unwrap();
    });
    let mut target = target(&format!("http://{address}/v1"), timeouts(30_000));
    target.body.insert("padding".to_owned(), "x".repeat(16 << 20).into());
    let mut lane = lane(&target);
    let request = request(&target, true);
    bounded(lane.open()).await.unwrap();
    let exchanged = bounded(lane.exchange(&request, &OpenAiChat)).await;
    assert_eq!(outcome(&exchanged), Outcome::Completed);
    let sending = exchanged.marks.sent.unwrap().since(exchanged.marks.dispatched).unwrap();
    assert!(sending >= 60_000_000, "{sending} ns");
    server.await.unwrap();
}

/// The server answers as soon as it has seen the head, and never reads the rest.
#[tokio::test]
async fn an_answer_before_the_request_is_whole_counts() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.readable().await.unwrap();
        let refusal = "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo large";
        stream.write_all(refusal.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_mins(1)).await;
    });
    let mut target = target(&format!("http://{address}/v1"), timeouts(10_000));
    target.body.insert("padding".to_owned(), "x".repeat(32 << 20).into());
    let mut lane = lane(&target);
    let exchanged = bounded(lane.exchange(&request(&target, true), &OpenAiChat)).await;
    assert_eq!((exchanged.status, outcome(&exchanged)), (Some(413), Outcome::BadRequest), "{:?}", exchanged.end);
    assert!(!lane.is_open());
    server.abort();
}

/// Comments without end keep the socket busy; the deadline holds all the same.
#[tokio::test]
async fn a_flood_of_comments_runs_into_first_token() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await.unwrap();
        stream.write_all(HEAD.as_bytes()).await.unwrap();
        let ping = chunk(": ping\n\n").repeat(100);
        while stream.write_all(ping.as_bytes()).await.is_ok() {}
    });
    let timeouts = Timeouts { first_token: Span::from_ms(100), ..timeouts(20_000) };
    let target = target(&format!("http://{address}/v1"), timeouts);
    let exchanged = bounded(lane(&target).exchange(&request(&target, true), &OpenAiChat)).await;
    assert_eq!(outcome(&exchanged), Outcome::Timeout(Deadline::FirstToken), "{:?}", exchanged.end);
    bounded(server).await.unwrap();
}

#[tokio::test]
async fn interim_responses_without_end_are_broken_off() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await.unwrap();
        let flood = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1_000);
        while stream.write_all(flood.as_bytes()).await.is_ok() {}
    });
    let exchanged = ask(address).await;
    assert!(
        matches!(&exchanged.end, EndOfBody::Broken(error) if error.to_string().contains("interim")),
        "{exchanged:?}"
    );
    bounded(server).await.unwrap();
}

#[tokio::test]
async fn the_host_header_carries_the_port_unless_the_target_sets_it() {
    for (header, wanted) in [(None, None), (Some("models.example"), Some("models.example"))] {
        let (listener, address) = listen().await;
        let server = tokio::spawn(super::server::serve_once(listener, vec![response(ANSWER).into_bytes()]));
        let mut target = target(&format!("http://{address}/base/v1/?api-version=1"), timeouts(10_000));
        target.query.insert("tag".to_owned(), "a b&c".to_owned());
        target.headers.extend(header.map(|value| ("Host".to_owned(), value.to_owned())));
        let exchanged = bounded(lane(&target).exchange(&request(&target, true), &OpenAiChat)).await;
        assert_eq!(outcome(&exchanged), Outcome::Completed);
        let request = server.await.unwrap().unwrap().to_ascii_lowercase();
        let host = wanted.map_or_else(|| address.to_string(), str::to_owned);
        assert!(
            request.starts_with("post /base/v1/chat/completions?api-version=1&tag=a+b%26c http/1.1\r\n"),
            "{request}"
        );
        assert_eq!(request.matches("host: ").count(), 1, "{request}");
        assert!(request.contains(&format!("\r\nhost: {host}\r\n")), "{request}");
        assert!(request.contains("\r\nauthorization: bearer secret-key-of-the-test\r\n"));
    }
}

#[tokio::test]
async fn a_refusal_never_repeats_the_key() {
    let (listener, address) = listen().await;
    let body = "{\"error\":{\"message\":\"bad key secret-key-of-the-test\"}}";
    let bytes = format!(
        "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let server = tokio::spawn(hang(listener, bytes));
    let exchanged = ask(address).await;
    let reply = OpenAiChat.read(&exchanged);
    assert_eq!(reply.outcome, Outcome::Auth);
    assert!(reply.error.as_deref().unwrap().contains("bad key [key]"), "{reply:?}");
    assert!(!format!("{exchanged:?}").contains("secret-key-of-the-test"));
    server.abort();
}
