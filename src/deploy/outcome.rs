//! How a request ended, and what follows from it. The accounting of every outcome stands here once.

use serde::{Deserialize, Serialize};

/// Which timeout ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deadline {
    Connect,
    FirstToken,
    BetweenTokens,
    Total,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Completed,
    /// The token limit cut the answer (`finish_reason: length`).
    Truncated,
    /// The stream ended well and carried no answer.
    Empty,
    RefusedByProvider,
    ContextOverflow,
    RateLimited,
    ServerError,
    Transport,
    Timeout(Deadline),
    /// The server said 200 and something that is no answer of its dialect.
    Malformed,
    /// The stream broke off without a finish reason.
    InterruptedStream,
    /// Open load: the cap on requests in flight was reached.
    Dropped,
    Auth,
    BadRequest,
    /// No connection was ever made to the deployment.
    Unreachable,
}

impl Outcome {
    pub const ALL: [Outcome; 18] = [
        Outcome::Completed,
        Outcome::Truncated,
        Outcome::Empty,
        Outcome::RefusedByProvider,
        Outcome::ContextOverflow,
        Outcome::RateLimited,
        Outcome::ServerError,
        Outcome::Transport,
        Outcome::Timeout(Deadline::Connect),
        Outcome::Timeout(Deadline::FirstToken),
        Outcome::Timeout(Deadline::BetweenTokens),
        Outcome::Timeout(Deadline::Total),
        Outcome::Malformed,
        Outcome::InterruptedStream,
        Outcome::Dropped,
        Outcome::Auth,
        Outcome::BadRequest,
        Outcome::Unreachable,
    ];

    /// The outcome's name in files and tables; every timeout is `timeout`.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Completed => "completed",
            Outcome::Truncated => "truncated",
            Outcome::Empty => "empty",
            Outcome::RefusedByProvider => "refused_by_provider",
            Outcome::ContextOverflow => "context_overflow",
            Outcome::RateLimited => "rate_limited",
            Outcome::ServerError => "server_error",
            Outcome::Transport => "transport",
            Outcome::Timeout(_) => "timeout",
            Outcome::Malformed => "malformed",
            Outcome::InterruptedStream => "interrupted_stream",
            Outcome::Dropped => "dropped",
            Outcome::Auth => "auth",
            Outcome::BadRequest => "bad_request",
            Outcome::Unreachable => "unreachable",
        }
    }

    /// How grading treats the request.
    pub fn grading(self) -> Grading {
        match self {
            Outcome::Completed => Grading::ByText,
            Outcome::Truncated | Outcome::Empty | Outcome::RefusedByProvider | Outcome::ContextOverflow => {
                Grading::NoAnswer
            }
            _ => Grading::Unscored,
        }
    }

    /// An error of the error rate; +∞ for SLO percentiles.
    pub fn is_error(self) -> bool {
        !matches!(self.grading(), Grading::ByText | Grading::NoAnswer)
    }

    /// Whether the request's latency stands (the server answered to the end).
    pub fn is_answered(self) -> bool {
        matches!(self, Outcome::Completed | Outcome::Truncated)
    }

    /// Whether the server served the request to its end, if only with nothing or a refusal: how long that took stands.
    pub fn is_served(self) -> bool {
        self.is_answered() || matches!(self, Outcome::Empty | Outcome::RefusedByProvider)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grading {
    ByText,
    /// Fails as no answer and counts in `accuracy`.
    NoAnswer,
    Unscored,
}
