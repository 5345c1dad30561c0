//! The suite after all decisions of its file: every default filled in, every name resolved, every value typed.
//!
//! A `Suite` is data. It serializes into `plan.json` with `${env:NAME}` unresolved, so that no secret is written;
//! [`Suite::interpolated`](super::env) gives the copy that a run works with.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::gate::Gate;
use super::load_shape::{Capacity, Load, Sweep};
use super::model::{Hardware, ModelShape, section_or_none};
use super::task::Task;
use super::workload::Workload;
use crate::units::Span;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suite {
    pub name: String,
    /// Base of relative paths and their limit: absolute.
    pub root: PathBuf,
    /// In the file's order; the first is the baseline of all others unless `comparisons` says otherwise.
    pub deployments: Vec<Deployment>,
    pub comparisons: Vec<Comparison>,
    pub sampling: Sampling,
    pub repeats: u32,
    pub arms: ArmsMode,
    pub cache: CacheMode,
    /// Whether the baseline runs again as a twin arm.
    pub noise_floor: bool,
    pub retry: Retry,
    pub budget: Budget,
    pub load: Load,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    #[serde(default)]
    pub sweep: Option<Sweep>,
    #[serde(default)]
    pub capacity: Option<Capacity>,
    pub slo: Vec<SloTarget>,
    pub tasks: Vec<Task>,
    pub gates: Vec<Gate>,
}

impl Deployment {
    /// Scheme, host and port of the server; what requests of one origin leave in its cache, others find. A simulated
    /// deployment is a server of its own.
    pub fn origin(&self) -> String {
        let Some(url) = self.url.as_deref().filter(|_| self.api != Api::Simulated) else {
            return format!("simulated:{}", self.name);
        };
        url::Url::parse(url).map_or_else(|_| url.to_owned(), |parsed| parsed.origin().ascii_serialization())
    }
}

impl Suite {
    pub fn deployment(&self, name: &str) -> Option<&Deployment> {
        self.deployments.iter().find(|d| d.name == name)
    }

    pub fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.iter().find(|t| t.name == name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    OpenaiChat,
    OpenaiCompletions,
    OpenaiResponses,
    AnthropicMessages,
    Simulated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimization {
    None,
    WeightQuantized,
    KvQuantized,
    Speculative,
    TruncatedContext,
    SlidingWindow,
    Vendor,
    Release,
}

/// An endpoint under test. `url`, `model`, `headers`, `query` and strings of `body` may hold `${env:NAME}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deployment {
    pub name: String,
    pub api: Api,
    /// Version path included (`…/v1`). Absent only for `simulated`.
    pub url: Option<String>,
    pub model: Option<String>,
    /// The name of the environment variable that holds the key; never the key.
    pub api_key_env: Option<String>,
    pub optimization: Optimization,
    pub host: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub query: BTreeMap<String, String>,
    pub tls_ca_file: Option<PathBuf>,
    pub ready_timeout: Span,
    /// Merged into every request body (RFC 7396: null deletes).
    pub body: Map<String, Value>,
    /// The suite's sampling with this deployment's overrides applied.
    pub sampling: Sampling,
    pub metrics_url: Option<String>,
    pub price: Option<Price>,
    pub context: Option<Context>,
    pub timeouts: Timeouts,
    pub limits: Limits,
    /// Only for `simulated`: a file (absolute) or `builtin:NAME`.
    pub profile: Option<String>,
    #[serde(default, deserialize_with = "section_or_none")]
    pub hardware: Option<Hardware>,
    #[serde(default, deserialize_with = "section_or_none")]
    pub model_shape: Option<ModelShape>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    pub baseline: String,
    pub candidate: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<u32>,
    pub max_tokens: u32,
    pub seed: u64,
    pub stop: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArmsMode {
    Alternate,
    Together,
    Sequential,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheMode {
    AsIs,
    Cold,
    Warm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    RateLimited,
    ServerError,
    Transport,
    Timeout,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    pub max_attempts: u32,
    pub on: Vec<RetryOn>,
    pub base: Span,
    pub cap: Span,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    pub usd: Option<Decimal>,
    pub requests: Option<u64>,
    pub time: Option<Span>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    pub input_usd_per_mtok: Option<Decimal>,
    pub cached_input_usd_per_mtok: Option<Decimal>,
    pub cache_write_usd_per_mtok: Option<Decimal>,
    pub output_usd_per_mtok: Option<Decimal>,
    pub usd_per_request: Option<Decimal>,
    pub gpu_usd_per_hour: Option<Decimal>,
    pub gpus: Decimal,
}

/// Truncated context done by the harness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    pub max_prompt_tokens: u32,
    pub keep: Keep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    Head,
    Tail,
    MiddleOut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    pub connect: Span,
    pub first_token: Span,
    pub between_tokens: Span,
    pub total: Span,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub in_flight: Option<u32>,
    pub requests_per_min: Option<u32>,
    pub tokens_per_min: Option<u32>,
}

/// One line of `slo:`: `ttft_p95: 1500ms` or `error_rate: 2%`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SloTarget {
    pub metric: SpeedMetric,
    /// Milliseconds for latencies, a share (0.02 for 2 %) for rates.
    pub at_most: f64,
}

/// A speed figure by name: `ttft_p50`, `requests_per_s`, `error_rate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SpeedMetric {
    Latency { figure: LatencyFigure, percentile: u8 },
    RequestsPerS,
    OutputTokensPerS,
    InputTokensPerS,
    ErrorRate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LatencyFigure {
    Ttft,
    Ttfa,
    Tpot,
    Itl,
    E2e,
    Response,
}

impl LatencyFigure {
    pub const ALL: [LatencyFigure; 6] = [
        LatencyFigure::Ttft,
        LatencyFigure::Ttfa,
        LatencyFigure::Tpot,
        LatencyFigure::Itl,
        LatencyFigure::E2e,
        LatencyFigure::Response,
    ];

    pub fn name(self) -> &'static str {
        match self {
            LatencyFigure::Ttft => "ttft",
            LatencyFigure::Ttfa => "ttfa",
            LatencyFigure::Tpot => "tpot",
            LatencyFigure::Itl => "itl",
            LatencyFigure::E2e => "e2e",
            LatencyFigure::Response => "response",
        }
    }
}

/// The percentiles that figures are printed at.
pub const PERCENTILES: [u8; 4] = [50, 90, 95, 99];

impl SpeedMetric {
    /// Whether a smaller value is the better one.
    pub fn lower_is_better(self) -> bool {
        matches!(self, SpeedMetric::Latency { .. } | SpeedMetric::ErrorRate)
    }

    /// Every name that a suite may write.
    pub fn all_names() -> Vec<String> {
        let latencies = LatencyFigure::ALL
            .into_iter()
            .flat_map(|figure| PERCENTILES.map(|percentile| SpeedMetric::Latency { figure, percentile }));
        let rest = [
            SpeedMetric::RequestsPerS,
            SpeedMetric::OutputTokensPerS,
            SpeedMetric::InputTokensPerS,
            SpeedMetric::ErrorRate,
        ];
        latencies.chain(rest).map(|metric| metric.to_string()).collect()
    }
}

impl std::fmt::Display for SpeedMetric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SpeedMetric::Latency { figure, percentile } => write!(f, "{}_p{percentile}", figure.name()),
            SpeedMetric::RequestsPerS => f.write_str("requests_per_s"),
            SpeedMetric::OutputTokensPerS => f.write_str("output_tokens_per_s"),
            SpeedMetric::InputTokensPerS => f.write_str("input_tokens_per_s"),
            SpeedMetric::ErrorRate => f.write_str("error_rate"),
        }
    }
}

impl std::str::FromStr for SpeedMetric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = match text {
            "requests_per_s" => Some(SpeedMetric::RequestsPerS),
            "output_tokens_per_s" => Some(SpeedMetric::OutputTokensPerS),
            "input_tokens_per_s" => Some(SpeedMetric::InputTokensPerS),
            "error_rate" => Some(SpeedMetric::ErrorRate),
            _ => None,
        };
        plain
            .or_else(|| {
                let (figure, percentile) = text.split_once("_p")?;
                let figure = LatencyFigure::ALL.into_iter().find(|f| f.name() == figure)?;
                let percentile = PERCENTILES.into_iter().find(|p| p.to_string() == percentile)?;
                Some(SpeedMetric::Latency { figure, percentile })
            })
            .ok_or_else(|| {
                format!("`{text}` is not a speed metric; use one of {}", SpeedMetric::all_names().join(", "))
            })
    }
}

impl Serialize for SpeedMetric {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SpeedMetric {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
