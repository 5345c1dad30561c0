use super::*;
use crate::deploy::simulated::{AnswerBook, Entry, Fault, FaultKind, Profile};
use crate::deploy::{Deadline, GenRequest, Reply};
use crate::spec::{Api, Timeouts};
use crate::units::Span;
use bytes::Bytes;
use std::time::Duration;

const MS: u64 = 1_000_000;
const ANSWER: &str = "one two three";

/// Reads nothing; knows a token by its text. What it says of a reply is not asked here.
struct Plain;

impl Dialect for Plain {
    fn request(&self, _: &Target, _: &GenRequest) -> WireRequest {
        request(true)
    }

    fn read(&self, _: &Exchanged) -> Reply {
        Reply::failed(crate::deploy::Outcome::Malformed, "not read")
    }

    fn may_carry_token(&self, data: &[u8]) -> bool {
        String::from_utf8_lossy(data).contains("\"content\":\"")
    }
}

fn request(stream: bool) -> WireRequest {
    let body = format!("{{\"messages\":[{{\"content\":\"count\"}}],\"temperature\":0,\"stream\":{stream}}}");
    WireRequest { path: "/v1/chat/completions".to_owned(), headers: Vec::new(), body: Bytes::from(body), stream }
}

fn target(timeouts: Timeouts) -> Arc<Target> {
    Arc::new(Target {
        name: "sim".to_owned(),
        api: Api::Simulated,
        url: "sim".to_owned(),
        model: None,
        api_key: None,
        headers: BTreeMap::new(),
        query: BTreeMap::new(),
        body: serde_json::Map::new(),
        ca_file: None,
        timeouts,
    })
}

const PATIENT: Timeouts = Timeouts {
    connect: Span::from_ms(1_000),
    first_token: Span::from_ms(10_000),
    between_tokens: Span::from_ms(5_000),
    total: Span::from_ms(60_000),
};

fn transport(change: impl FnOnce(&mut Profile)) -> MemoryTransport {
    let mut profile = Profile::builtin("exact").unwrap();
    change(&mut profile);
    let book = AnswerBook::from_entries(vec![Entry::new("count", ANSWER)]);
    MemoryTransport::new(Clock::start()).with("sim", Engine::new(profile, book, 1))
}

fn struck(fault: Fault) -> MemoryTransport {
    transport(|p| p.faults = vec![fault])
}

async fn once(transport: &MemoryTransport, timeouts: Timeouts) -> (Exchanged, bool) {
    let mut lane = transport.lane(&target(timeouts));
    lane.open().await.unwrap();
    let exchanged = lane.exchange(&request(true), &Plain).await;
    (exchanged, lane.is_open())
}

#[tokio::test(start_paused = true)]
async fn frames_carry_exact_instants_and_the_clock_follows() {
    let transport = transport(|_| {});
    let clock = transport.clock;
    tokio::time::advance(Duration::from_millis(3)).await;
    let (exchanged, open) = once(&transport, PATIENT).await;
    let at: Vec<u64> = exchanged.frames.iter().map(|f| f.at.0 / MS).collect();
    assert_eq!(at, [53, 63, 73, 73, 73]);
    let marks = exchanged.marks;
    assert_eq!((marks.dispatched, marks.sent, marks.headers), (Mono(3 * MS), Some(Mono(3 * MS)), Some(Mono(53 * MS))));
    assert_eq!((marks.first_byte, marks.eof, marks.tcp_ns), (Some(Mono(53 * MS)), Some(Mono(73 * MS)), Some(0)));
    assert_eq!((exchanged.status, exchanged.end, open), (Some(200), EndOfBody::Complete, true));
    assert!((73..=74).contains(&(clock.now().0 / MS)), "{:?}", clock.now());
}

#[tokio::test(start_paused = true)]
async fn timeouts_run_out_where_they_should() {
    let cases = [
        (Fault::always(FaultKind::Hang), Deadline::FirstToken, 200),
        (Fault { after_tokens: Some(2), ..Fault::always(FaultKind::Hang) }, Deadline::BetweenTokens, 60 + 100),
        (
            Fault { after_tokens: Some(1), ms: Some(9e3), ..Fault::always(FaultKind::Stall) },
            Deadline::BetweenTokens,
            150,
        ),
    ];
    for (fault, which, at_ms) in cases {
        let transport = struck(fault);
        let timeouts = Timeouts { first_token: Span::from_ms(200), between_tokens: Span::from_ms(100), ..PATIENT };
        let (exchanged, open) = once(&transport, timeouts).await;
        assert_eq!((exchanged.end, open), (EndOfBody::TimedOut(which), false));
        assert_eq!(transport.clock.now().0 / MS, at_ms);
        assert_eq!(transport.stats("sim").unwrap().in_flight, 0);
    }
    let total = Timeouts { total: Span::from_ms(55), ..PATIENT };
    let (exchanged, _) = once(&transport(|_| {}), total).await;
    assert_eq!((exchanged.end, exchanged.frames.len()), (EndOfBody::TimedOut(Deadline::Total), 1));
}

#[tokio::test(start_paused = true)]
async fn a_response_left_open_after_done_ends_by_its_marker() {
    let (exchanged, open) = once(&struck(Fault::always(FaultKind::KeepOpen)), PATIENT).await;
    assert_eq!((exchanged.end, exchanged.marks.eof, open), (EndOfBody::DoneMarker, Some(Mono(70 * MS)), false));
}

#[tokio::test(start_paused = true)]
async fn broken_connections_are_told_apart() {
    let (dropped, open) = once(&struck(Fault::always(FaultKind::Drop)), PATIENT).await;
    assert_eq!(
        (dropped.end, dropped.status, open),
        (EndOfBody::Broken(TransportError::ClosedBeforeResponse), None, false)
    );
    let (cut, _) = once(&struck(Fault { after_tokens: Some(1), ..Fault::always(FaultKind::Cut) }), PATIENT).await;
    assert!(matches!(cut.end, EndOfBody::Broken(TransportError::Broken(_))), "{:?}", cut.end);
    assert_eq!((cut.status, cut.frames.len()), (Some(200), 1));
}

#[tokio::test(start_paused = true)]
async fn a_reused_lane_that_closes_is_reopened_and_asks_once_more() {
    let transport = struck(Fault { rate: 0.0, at: vec![1], ..Fault::always(FaultKind::Drop) });
    let mut lane = transport.lane(&target(PATIENT));
    lane.open().await.unwrap();
    let first = lane.exchange(&request(true), &Plain).await;
    let second = lane.exchange(&request(true), &Plain).await;
    assert_eq!((first.reopened, second.reopened, &second.end), (false, true, &EndOfBody::Complete));
    assert_eq!((first.marks.tcp_ns, transport.stats("sim").unwrap().requests), (Some(0), 3));
    let third = lane.exchange(&request(true), &Plain).await;
    assert_eq!((third.reopened, third.marks.tcp_ns), (false, None));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_in_silence_leaves_a_closed_lane() {
    let transport = struck(Fault::always(FaultKind::CloseAfter));
    let mut lane = transport.lane(&target(PATIENT));
    lane.open().await.unwrap();
    let first = lane.exchange(&request(true), &Plain).await;
    assert_eq!((first.end, lane.is_open()), (EndOfBody::Complete, false));
    let second = lane.exchange(&request(true), &Plain).await;
    assert!(second.reopened && second.end == EndOfBody::Complete);
}

#[tokio::test(start_paused = true)]
async fn the_server_sees_as_many_requests_as_lanes_are_busy() {
    let transport = transport(|p| p.slots = 2);
    let lanes = (0..5).map(|_| {
        let mut lane = transport.lane(&target(PATIENT));
        async move { lane.exchange(&request(true), &Plain).await }
    });
    let all = lanes.map(tokio::spawn).collect::<Vec<_>>();
    let mut firsts = Vec::new();
    for lane in all {
        firsts.push(lane.await.unwrap().frames[0].at.0 / MS);
    }
    assert_eq!(firsts, [50, 50, 120, 120, 190]);
    let stats = transport.stats("sim").unwrap();
    assert_eq!((stats.peak_in_flight, stats.in_flight), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_exchange_frees_the_server_and_closes_the_lane() {
    let transport = transport(|p| p.slots = 1);
    let mut lane = transport.lane(&target(PATIENT));
    lane.open().await.unwrap();
    let within = tokio::time::timeout(Duration::from_millis(55), lane.exchange(&request(true), &Plain)).await;
    assert!(within.is_err() && !lane.is_open());
    assert_eq!(transport.stats("sim").unwrap().in_flight, 0);
    let (next, _) = once(&transport, PATIENT).await;
    assert_eq!(next.frames[0].at, next.marks.sent.unwrap().plus_ns(50 * MS));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_is_not_there_refuses_the_connection() {
    let transport = MemoryTransport::new(Clock::start());
    let mut lane = transport.lane(&target(PATIENT));
    assert!(lane.open().await.is_err_and(|e| e.before_connection()));
    let exchanged = lane.exchange(&request(true), &Plain).await;
    assert!(matches!(exchanged.end, EndOfBody::Broken(TransportError::Connect { .. })));
    assert_eq!(transport.get("sim", "/health"), None);
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_stream_waits_for_the_total_only() {
    let transport = transport(|p| p.ttft_ms = crate::deploy::simulated::Dist::Fixed { fixed: 20_000.0 });
    let mut lane = transport.lane(&target(PATIENT));
    let exchanged = lane.exchange(&request(false), &Plain).await;
    assert_eq!((exchanged.end, exchanged.frames.len()), (EndOfBody::Complete, 1));
    assert_eq!(transport.get("sim", "/health"), Some((200, b"{\"status\":\"ok\"}".to_vec())));
}

#[tokio::test(start_paused = true)]
async fn a_worn_or_idle_connection_is_closed_by_the_server() {
    let transport = transport(|p| (p.requests_per_connection, p.idle_close_ms) = (2, 500));
    let mut lane = transport.lane(&target(PATIENT));
    lane.open().await.unwrap();
    let mut ask = async |pause_ms: u64| {
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        let open = lane.is_open();
        (open, lane.exchange(&request(true), &Plain).await.reopened)
    };
    assert_eq!(ask(400).await, (true, false));
    assert_eq!(ask(400).await, (true, false));
    assert_eq!(ask(0).await, (false, true), "after two requests");
    assert_eq!(ask(600).await, (false, true), "after half a second");
    assert_eq!(ask(0).await, (true, false));
}
