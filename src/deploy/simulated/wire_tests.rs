//! Every fault, as the chat dialect reads it: through memory under a paused clock, and over a real socket.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::{AnswerBook, Engine, Entry, Fault, FaultKind, MemoryTransport, Profile, Server};
use crate::deploy::{Deadline, Dialect, GenRequest, OpenAiChat, Outcome, Reply, Sockets, Target, Transport};
use crate::plan::Message;
use crate::spec::{Api, Role, Sampling, Timeouts};
use crate::units::Span;
use crate::world::Clock;

const ANSWER: &str = "The answer is Łódź, I am quite sure of it.";

fn profile(fault: &Fault) -> Profile {
    let json = r#"{"ttft_ms": {"fixed": 4}, "token_gap_ms": {"fixed": 1}, "shape": {"usage": "always"}}"#;
    Profile { faults: vec![fault.clone()], ..Profile::from_json(json).unwrap() }
}

fn book() -> AnswerBook {
    AnswerBook::from_entries(vec![Entry::new("Which city?", ANSWER)])
}

fn target(url: String) -> Arc<Target> {
    let timeouts = Timeouts {
        connect: Span::from_ms(2_000),
        first_token: Span::from_ms(150),
        between_tokens: Span::from_ms(150),
        total: Span::from_ms(2_000),
    };
    Arc::new(Target {
        name: "sim".to_owned(),
        api: Api::Simulated,
        url,
        model: Some("sim".to_owned()),
        api_key: None,
        headers: BTreeMap::new(),
        query: BTreeMap::new(),
        body: serde_json::Map::new(),
        ca_file: None,
        timeouts,
    })
}

fn request() -> GenRequest {
    GenRequest {
        messages: vec![Message { role: Role::User, content: "Which city?".to_owned() }],
        sampling: Sampling {
            temperature: Some(0.0),
            top_p: None,
            top_k: None,
            max_tokens: 40,
            seed: 7,
            stop: Vec::new(),
        },
        seed: 3,
        response_format: None,
        stream: true,
    }
}

async fn ask(transport: &dyn Transport, target: &Arc<Target>) -> Reply {
    let mut lane = transport.lane(target);
    let wire = OpenAiChat.request(target, &request());
    let exchanged = lane.exchange(&wire, &OpenAiChat).await;
    OpenAiChat.read(&exchanged)
}

async fn in_memory(fault: &Fault) -> Reply {
    let transport = MemoryTransport::new(Clock::start()).with("sim", Engine::new(profile(fault), book(), 1));
    ask(&transport, &target("http://sim.invalid/v1".to_owned())).await
}

async fn over_a_socket(fault: &Fault) -> Reply {
    let clock = Clock::start();
    let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let server = Server::start(profile(fault), book(), 1, local, clock).unwrap();
    ask(&Sockets::new(clock), &target(server.url())).await
}

/// Each fault with the outcome that it must have. A whole answer is expected of every completed one.
fn cases() -> Vec<(Fault, Outcome)> {
    let plain = Fault::always;
    let after = |kind, tokens| Fault { after_tokens: Some(tokens), ..plain(kind) };
    let mut cases = vec![
        (plain(FaultKind::Http500), Outcome::ServerError),
        (Fault { status: Some(502), ..plain(FaultKind::Http500) }, Outcome::ServerError),
        (Fault { retry_after_s: Some(3.0), ..plain(FaultKind::Http429) }, Outcome::RateLimited),
        (plain(FaultKind::Quota), Outcome::RateLimited),
        (plain(FaultKind::Loading), Outcome::ServerError),
        (plain(FaultKind::HtmlPage), Outcome::Malformed),
        (plain(FaultKind::Empty), Outcome::Malformed),
        (plain(FaultKind::EmptyAnswer), Outcome::Empty),
        (plain(FaultKind::Refusal), Outcome::RefusedByProvider),
        (plain(FaultKind::Drop), Outcome::Transport),
        (plain(FaultKind::Hang), Outcome::Timeout(Deadline::FirstToken)),
        (after(FaultKind::Hang, 3), Outcome::Timeout(Deadline::BetweenTokens)),
        (after(FaultKind::Cut, 3), Outcome::InterruptedStream),
        (after(FaultKind::ErrorInStream, 3), Outcome::ServerError),
        (after(FaultKind::MalformedJson, 3), Outcome::Malformed),
        (plain(FaultKind::Loop), Outcome::Truncated),
        (Fault { ms: Some(60_000.0), ..after(FaultKind::Stall, 2) }, Outcome::Timeout(Deadline::BetweenTokens)),
        (Fault { bytes: Some(20_000), ..plain(FaultKind::Padding) }, Outcome::Completed),
    ];
    let harmless = [
        FaultKind::NoDone,
        FaultKind::NoUsage,
        FaultKind::EarlyRole,
        FaultKind::NoRole,
        FaultKind::FilterResults,
        FaultKind::UsageInEveryChunk,
        FaultKind::UsageWithFinish,
        FaultKind::UsageNullChoices,
        FaultKind::Reasoning,
        FaultKind::MixedReasoning,
        FaultKind::BurstFirst,
        FaultKind::OnePacket,
        FaultKind::Crlf,
        FaultKind::Cr,
        FaultKind::NoSpace,
        FaultKind::Comments,
        FaultKind::EventLines,
        FaultKind::MultiLine,
        FaultKind::NoFinalBlank,
        FaultKind::CloseAfter,
        FaultKind::KeepOpen,
    ];
    cases.extend(harmless.map(|kind| (plain(kind), Outcome::Completed)));
    cases
}

fn check(fault: &Fault, outcome: Outcome, reply: &Reply) {
    assert_eq!(reply.outcome, outcome, "{fault:?}: {:?}", reply.error);
    if outcome == Outcome::Completed {
        assert_eq!(reply.text, ANSWER, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_in_memory_is_read_as_what_it_is() {
    for (fault, outcome) in cases() {
        check(&fault, outcome, &in_memory(&fault).await);
    }
}

#[tokio::test]
async fn every_fault_over_a_socket_is_read_as_in_memory() {
    for (fault, outcome) in cases() {
        let reply = over_a_socket(&fault).await;
        check(&fault, outcome, &reply);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_told_is_read_back() {
    let plain = in_memory(&Fault { rate: 0.0, ..Fault::always(FaultKind::Loop) }).await;
    let tokens = super::tokens::split(ANSWER).len() as u64;
    assert_eq!((plain.usage.completion_tokens, plain.arrivals.len() as u64), (Some(tokens), tokens));
    assert_eq!(plain.finish_reason.as_deref(), Some("stop"));
    let timings = plain.server_timings.unwrap();
    assert_eq!((&timings["prompt_ms"], &timings["predicted_n"]), (&4.0.into(), &tokens.into()));
    let limited = in_memory(&Fault { retry_after_s: Some(3.0), ..Fault::always(FaultKind::Http429) }).await;
    assert_eq!(limited.retry_after_s, Some(3.0));
    let reasoned = in_memory(&Fault { tokens: Some(6), ..Fault::always(FaultKind::Reasoning) }).await;
    assert!(reasoned.first_token() < reasoned.first_answer() && !reasoned.reasoning.is_empty());
    let untold = in_memory(&Fault::always(FaultKind::NoUsage)).await;
    assert_eq!(untold.usage.completion_tokens, None);
}
