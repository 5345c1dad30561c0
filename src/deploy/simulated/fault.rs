//! Faults that servers and networks have shown to users of this field, each by its name.

use serde::{Deserialize, Serialize};

use super::draw::share;
use crate::units::Id;

/// What goes wrong. Several may strike one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// An error status with a JSON error: `status`, else 500.
    #[serde(rename = "http_500")]
    Http500,
    /// 429, with `Retry-After` where `retry_after_s` is given.
    #[serde(rename = "http_429")]
    Http429,
    /// 429 because the account has nothing left.
    Quota,
    /// 503 while the model is loading.
    Loading,
    /// Status 200 and an HTML page.
    HtmlPage,
    /// Status 200 and no byte of a body.
    Empty,
    /// A stream that ends well and says nothing.
    EmptyAnswer,
    /// The provider declines: `finish_reason: content_filter` and no text.
    Refusal,
    /// No byte ever comes; after `after_tokens`, where given.
    Hang,
    /// The connection closes before any response byte.
    Drop,
    /// The connection breaks after `after_tokens`.
    Cut,
    /// An error object in the stream after `after_tokens`, which then ends.
    ErrorInStream,
    /// An event of broken JSON after `after_tokens`; the stream goes on.
    MalformedJson,
    /// The stream ends without `[DONE]`.
    NoDone,
    /// No chunk has a finish reason.
    NoFinish,
    /// No usage is told.
    NoUsage,
    /// The role chunk comes `ms` after the start of service (default 5), long before the first token.
    EarlyRole,
    /// No role chunk.
    NoRole,
    /// A first chunk without choices, with `prompt_filter_results`.
    FilterResults,
    /// Usage in every chunk, growing.
    UsageInEveryChunk,
    /// Usage in the last chunk that has a choice, and in none of its own.
    UsageWithFinish,
    /// The usage chunk has `choices: null`.
    UsageNullChoices,
    /// `tokens` of reasoning (default 20) come before the answer.
    Reasoning,
    /// One event carries the last reasoning token and the first answer token.
    MixedReasoning,
    /// The first event carries `tokens` (default 5).
    BurstFirst,
    /// The whole answer arrives in one piece when it is finished.
    OnePacket,
    /// Nothing comes for `ms` (default 2000) after `after_tokens`.
    Stall,
    /// Lines end with CR LF.
    Crlf,
    /// Lines end with CR.
    Cr,
    /// `data:{…}` without the space.
    NoSpace,
    /// Comment lines between events.
    Comments,
    /// `event:` and `id:` lines before each `data:`.
    EventLines,
    /// Each event's JSON is spread over several `data:` lines.
    MultiLine,
    /// The last event lacks its blank line.
    NoFinalBlank,
    /// A comment of `bytes` (default 1 MiB) comes before the first event.
    Padding,
    /// The answer is the same few words over and over, up to the token limit.
    Loop,
    /// The connection closes after the response, without `Connection: close`.
    CloseAfter,
    /// The response is not ended after `[DONE]`.
    KeepOpen,
}

/// What a fault's draw hangs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StrikesBy {
    /// Each call draws anew, so that a retry may go well.
    #[default]
    Request,
    /// A prompt that is struck is struck in every call.
    Sample,
}

/// A fault and whom it strikes: a share of requests, or the requests with certain numbers (from 0, as received).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub kind: FaultKind,
    #[serde(default)]
    pub rate: f64,
    #[serde(default)]
    pub by: StrikesBy,
    #[serde(default)]
    pub at: Vec<u64>,
    #[serde(default)]
    pub status: Option<u16>,
    #[serde(default)]
    pub retry_after_s: Option<f64>,
    #[serde(default)]
    pub after_tokens: Option<u32>,
    #[serde(default)]
    pub tokens: Option<u32>,
    #[serde(default)]
    pub ms: Option<f64>,
    #[serde(default)]
    pub bytes: Option<u32>,
}

impl Fault {
    /// A fault that strikes every request.
    pub fn always(kind: FaultKind) -> Fault {
        Fault {
            kind,
            rate: 1.0,
            by: StrikesBy::Request,
            at: Vec::new(),
            status: None,
            retry_after_s: None,
            after_tokens: None,
            tokens: None,
            ms: None,
            bytes: None,
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let name = format!("{:?}", self.kind);
        if !(0.0..=1.0).contains(&self.rate) {
            return Err(format!("has a rate of {} for {name}; a rate is a share from 0 to 1", self.rate));
        }
        if self.status.is_some_and(|status| !(400..=599).contains(&status)) {
            return Err(format!("has a status for {name} that is no error status (400 to 599)"));
        }
        let times = [self.ms.map(|ms| ms / 1e3), self.retry_after_s];
        if times.into_iter().flatten().any(|s| !(0.0..=3_600.0).contains(&s)) {
            return Err(format!("has a time for {name} outside 0 to one hour"));
        }
        if self.bytes.is_some_and(|bytes| bytes > 64 << 20) || self.tokens.is_some_and(|tokens| tokens > 100_000) {
            return Err(format!("has a size for {name} above 64 MiB or 100000 tokens"));
        }
        Ok(())
    }

    fn strikes(&self, seed: u64, number: u64, prompt: Id, call: u64) -> bool {
        if self.at.contains(&number) {
            return true;
        }
        let call = if self.by == StrikesBy::Request { call } else { 0 };
        self.rate > 0.0
            && share(seed, "fault", &[format!("{:?}", self.kind).as_bytes(), &prompt.0, &call.to_le_bytes()])
                < self.rate
    }
}

/// The faults of one request.
#[derive(Clone, Debug, Default)]
pub struct Struck<'a>(Vec<&'a Fault>);

impl<'a> Struck<'a> {
    /// `number`: the request's, as received. `call`: how many requests asked the same prompt before.
    pub fn draw(faults: &'a [Fault], seed: u64, number: u64, prompt: Id, call: u64) -> Struck<'a> {
        Struck(faults.iter().filter(|f| f.strikes(seed, number, prompt, call)).collect())
    }

    pub fn get(&self, kind: FaultKind) -> Option<&'a Fault> {
        self.0.iter().copied().find(|f| f.kind == kind)
    }

    pub fn has(&self, kind: FaultKind) -> bool {
        self.get(kind).is_some()
    }

    /// The fault and its `after_tokens`, 0 where not given.
    pub fn after(&self, kind: FaultKind) -> Option<u32> {
        self.get(kind).map(|fault| fault.after_tokens.unwrap_or(0))
    }
}
