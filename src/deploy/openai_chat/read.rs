//! From a recorded exchange to what it said and how it ended.

use std::borrow::Cow;

use super::errors::{Said, excerpt, for_people, hint, retry_after_s, with_hint};
use super::fold::{Fold, MAX_TEXT_BYTES};
use super::wire;
use crate::deploy::dialect::Reply;
use crate::deploy::outcome::Outcome;
use crate::deploy::sse::Decoder;
use crate::deploy::transport::{EndOfBody, Exchanged, TransportError};
use crate::deploy::watch::{is_event_stream, media_type};
use crate::units::Mono;

pub(super) fn read(exchanged: &Exchanged) -> Reply {
    match exchanged.status {
        None => no_response(&exchanged.end),
        Some(200..=299) => answer(exchanged),
        Some(status) => refusal(exchanged, status),
    }
}

/// Nothing came back.
fn no_response(end: &EndOfBody) -> Reply {
    match end {
        EndOfBody::Broken(error) if error.before_connection() => {
            Reply::failed(Outcome::Unreachable, for_people(&error.to_string()))
        }
        EndOfBody::Broken(error) => Reply::failed(Outcome::Transport, for_people(&error.to_string())),
        EndOfBody::TimedOut(deadline) => Reply::failed(Outcome::Timeout(*deadline), timed_out(end)),
        EndOfBody::Cancelled => Reply::failed(Outcome::Transport, timed_out(end)),
        EndOfBody::Complete | EndOfBody::DoneMarker => {
            Reply::failed(Outcome::Transport, "the exchange ended without a response")
        }
    }
}

fn timed_out(end: &EndOfBody) -> String {
    use crate::deploy::outcome::Deadline::{BetweenTokens, Connect, FirstToken, Total};
    let text = match end {
        EndOfBody::TimedOut(Connect) => "no connection within `timeouts.connect`",
        EndOfBody::TimedOut(FirstToken) => "no token within `timeouts.first_token`",
        EndOfBody::TimedOut(BetweenTokens) => "no further token within `timeouts.between_tokens`",
        EndOfBody::TimedOut(Total) => "no end of the answer within `timeouts.total`",
        EndOfBody::Cancelled => "the run stopped while the request was in flight",
        EndOfBody::Broken(_) | EndOfBody::Complete | EndOfBody::DoneMarker => "the response ended early",
    };
    text.to_owned()
}

/// A status that is no success: the body says why.
fn refusal(exchanged: &Exchanged, status: u16) -> Reply {
    let body = joined(exchanged);
    let text = String::from_utf8_lossy(&body);
    let parsed = wire::body(&text);
    let said = parsed
        .as_ref()
        .and_then(|body| Said::of(body, true))
        .unwrap_or_else(|| Said { message: excerpt(&body), ..Said::default() });
    let mut message = format!("HTTP {status}: {}", said.message);
    if said.is_quota() {
        message.push_str(" (the quota is used up: waiting does not help)");
    }
    if let Some(location) = header(exchanged, "location").filter(|_| (300..400).contains(&status)) {
        message = format!("HTTP {status}: moved to {location}");
    }
    let error = with_hint(&message, hint(status));
    Reply {
        retry_after_s: retry_after_s(&exchanged.headers),
        quota_exhausted: said.is_quota(),
        ..Reply::failed(said.outcome(Some(status)), error)
    }
}

fn answer(exchanged: &Exchanged) -> Reply {
    let mut fold = Fold::default();
    let body = joined(exchanged);
    let streamed = is_stream(exchanged, &body);
    let (outcome, error) =
        if streamed { read_stream(exchanged, &mut fold, &body) } else { read_whole(exchanged, &mut fold, &body) };
    let (outcome, error) = if fold.overlong {
        (Outcome::Malformed, Some(format!("the answer has more than {MAX_TEXT_BYTES} bytes of text")))
    } else {
        (outcome, error)
    };
    let error = error.map(|error| for_people(&error));
    let text = if fold.text.is_empty() { std::mem::take(&mut fold.refusal) } else { fold.text };
    Reply {
        outcome,
        error,
        text,
        reasoning: fold.reasoning,
        finish_reason: fold.finish_reason,
        usage: fold.usage,
        server_timings: fold.server_timings,
        system_fingerprint: fold.system_fingerprint,
        model: fold.model,
        arrivals: fold.arrivals,
        first_event: fold.first_event,
        finish_at: fold.finish_at,
        usage_at: fold.usage_at,
        retry_after_s: retry_after_s(&exchanged.headers).filter(|_| outcome.is_error()),
        quota_exhausted: false,
        streamed,
    }
}

/// What came decides, not what was asked for; where the type says neither, the first bytes do.
fn is_stream(exchanged: &Exchanged, body: &[u8]) -> bool {
    match header(exchanged, "content-type") {
        Some(kind) if is_event_stream(kind) => true,
        Some(kind) if media_type(kind).to_ascii_lowercase().contains("json") => false,
        _ => {
            let start = body.trim_ascii_start();
            [b"data:" as &[u8], b"event:", b"id:", b":"].iter().any(|field| start.starts_with(field))
        }
    }
}

type Ending = (Outcome, Option<String>);

fn read_stream(exchanged: &Exchanged, fold: &mut Fold, body: &[u8]) -> Ending {
    let mut decoder = Decoder::new();
    let mut events = Vec::new();
    let mut broken = None;
    for frame in &exchanged.frames {
        if let Err(error) = decoder.push(frame.at, &frame.bytes, &mut events) {
            broken = Some(error);
            break;
        }
        events.drain(..).for_each(|event| fold.event(&event));
    }
    let _ = decoder.finish(&mut events); // An error has been seen above.
    events.drain(..).for_each(|event| fold.event(&event));
    if fold.said.is_none() && fold.finish_reason.is_none() && !fold.done {
        fold.said = error_line(body);
    }
    if fold.said.is_none()
        && fold.first_event.is_none()
        && !body.trim_ascii().is_empty()
        && exchanged.end == EndOfBody::Complete
    {
        return read_whole(exchanged, fold, body);
    }
    if let Some(said) = &fold.said {
        return (said.outcome(None), Some(said.message.clone()));
    }
    if let Some(error) = broken {
        return (Outcome::Malformed, Some(error.to_string()));
    }
    if let Some(bad) = &fold.bad_event {
        return (Outcome::Malformed, Some(format!("an event of the stream is not JSON: {bad}")));
    }
    match &exchanged.end {
        EndOfBody::TimedOut(deadline) => return (Outcome::Timeout(*deadline), Some(timed_out(&exchanged.end))),
        EndOfBody::Broken(TransportError::TooLarge { .. }) => return too_large(&exchanged.end),
        EndOfBody::Complete if body.trim_ascii().is_empty() => {
            return (Outcome::Malformed, Some("the stream is empty".to_owned()));
        }
        EndOfBody::Complete if fold.answers == 0 => {
            return (Outcome::Malformed, Some(format!("the stream has no choices: {}", excerpt(body))));
        }
        _ => {}
    }
    if fold.finish_reason.is_none() && !fold.done {
        let why = match &exchanged.end {
            EndOfBody::Broken(error) => error.to_string(),
            EndOfBody::Cancelled => timed_out(&exchanged.end),
            _ => "the response ended".to_owned(),
        };
        return (Outcome::InterruptedStream, Some(format!("{why} before the stream gave a finish reason or [DONE]")));
    }
    by_finish(fold)
}

/// Older llama.cpp servers send their errors as a field of its own, which an event stream ignores: `error: {…}`.
fn error_line(body: &[u8]) -> Option<Said> {
    let json = body.split(|byte| matches!(byte, b'\n' | b'\r')).find_map(|line| line.strip_prefix(b"error:"))?;
    let json = String::from_utf8_lossy(json);
    wire::body(json.trim()).and_then(|body| Said::of(&body, true))
}

fn too_large(end: &EndOfBody) -> Ending {
    match end {
        EndOfBody::Broken(error) => (Outcome::Malformed, Some(error.to_string())),
        _ => (Outcome::Malformed, None),
    }
}

/// An answer that is one JSON object.
fn read_whole(exchanged: &Exchanged, fold: &mut Fold, body: &[u8]) -> Ending {
    match &exchanged.end {
        EndOfBody::TimedOut(deadline) => return (Outcome::Timeout(*deadline), Some(timed_out(&exchanged.end))),
        EndOfBody::Broken(TransportError::TooLarge { .. }) => return too_large(&exchanged.end),
        EndOfBody::Broken(error) => return (Outcome::Transport, Some(error.to_string())),
        EndOfBody::Cancelled => return (Outcome::Transport, Some(timed_out(&exchanged.end))),
        EndOfBody::Complete | EndOfBody::DoneMarker => {}
    }
    let text = String::from_utf8_lossy(body);
    let Some(parsed) = wire::body(&text) else {
        let encoding = header(exchanged, "content-encoding").filter(|encoding| *encoding != "identity");
        let message = match encoding {
            Some(encoding) => format!("the answer is compressed ({encoding}), which was not asked for"),
            None => format!("the answer is not JSON: {}", excerpt(body)),
        };
        return (Outcome::Malformed, Some(message));
    };
    if let Some(said) = Said::of(&parsed, false) {
        let ending = (said.outcome(None), Some(said.message.clone()));
        fold.said = Some(said);
        return ending;
    }
    fold.body(&parsed, Mono(0), false);
    if let Some(said) = &fold.said {
        return (said.outcome(None), Some(said.message.clone()));
    }
    if fold.answers == 0 {
        return (Outcome::Malformed, Some(format!("the answer has no choices: {}", excerpt(body))));
    }
    by_finish(fold)
}

/// The outcome of an answer that came to its end.
fn by_finish(fold: &Fold) -> Ending {
    let answered = fold.tool_call || !fold.text.trim().is_empty();
    match fold.finish_reason.as_deref() {
        Some("length" | "max_tokens" | "model_length") => (Outcome::Truncated, None),
        Some(reason @ ("content_filter" | "safety" | "refusal")) => {
            (Outcome::RefusedByProvider, Some(format!("the provider ended the answer: {reason}")))
        }
        Some(reason @ ("error" | "abort" | "cancelled")) => {
            (Outcome::ServerError, Some(format!("the server ended the answer: {reason}")))
        }
        _ if !fold.refusal.is_empty() => (Outcome::RefusedByProvider, Some(fold.refusal.clone())),
        _ if answered => (Outcome::Completed, None),
        _ => (Outcome::Empty, Some("the answer has no text".to_owned())),
    }
}

fn header<'a>(exchanged: &'a Exchanged, name: &str) -> Option<&'a str> {
    exchanged.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
}

fn joined(exchanged: &Exchanged) -> Cow<'_, [u8]> {
    if let [frame] = exchanged.frames.as_slice() {
        return Cow::Borrowed(&frame.bytes);
    }
    exchanged.frames.iter().flat_map(|frame| frame.bytes.iter().copied()).collect()
}
