//! The table of a suite's keys: deployments, load and the suite itself. Tasks, graders and gates are in
//! [`super::keys_task`], the workload is in [`super::keys_workload`].

use super::keys_task::{GATES, TASK};
use super::keys_workload::WORKLOAD;
use super::shape::{KeySpec, Section, Shape, Word, later, word};

const ANY_COUNT: Shape = Shape::Int { min: 1, max: 1_000_000_000 };
const TEXTS: Shape = Shape::MapOf(&Shape::Text);

pub static SUITE: Section = Section {
    name: "the suite",
    keys: &[
        KeySpec::new("suite", Shape::Name, "The suite's name; runs are named after it.").required(),
        KeySpec::new("root", Shape::Text, "Base of relative paths and their limit; default: the suite's folder."),
        KeySpec::new(
            "deployments",
            Shape::MapOf(&Shape::Section(&DEPLOYMENT)),
            "The endpoints under test, by name. The first is the baseline unless `comparisons` says otherwise.",
        )
        .required(),
        KeySpec::new(
            "comparisons",
            Shape::List(&Shape::Section(&COMPARISON)),
            "Which candidate is weighed against which baseline; default: the first deployment against each other one.",
        ),
        KeySpec::new("sampling", Shape::Section(&SAMPLING), "How answers are sampled, the same on all deployments."),
        KeySpec::new("repeats", Shape::Int { min: 1, max: 1_000 }, "How often each sample is asked.").or("1"),
        KeySpec::new("arms", Shape::Words(&ARMS), "How deployments take turns.").or("alternate"),
        KeySpec::new(
            "cache",
            Shape::Words(&CACHE),
            "Prompt caches: left alone, kept out of play, or filled before each slot; default: `cold` where arms share a \
             server, else `as_is`.",
        ),
        KeySpec::new(
            "noise_floor",
            Shape::Bool,
            "Run the baseline again as a twin, to see how much two runs of the same differ; \
             default: on where there is a candidate and tokens cost nothing.",
        ),
        KeySpec::new("retry", Shape::Section(&RETRY), "Which failures are tried again."),
        KeySpec::new("budget", Shape::Section(&BUDGET), "The run stops before it goes over any of these."),
        KeySpec::new("load", Shape::Section(&LOAD), "The load that each arm gets."),
        KeySpec::new("workload", Shape::Section(&WORKLOAD), "The shape of requests: mix, lengths, conversations."),
        KeySpec::new("sweep", Shape::Section(&SWEEP), "Load raised step by step, by `counterpoise sweep`."),
        KeySpec::new("capacity", Shape::Section(&CAPACITY), "Replicas for a demand, from a sweep over `rate_per_s`."),
        KeySpec::new("slo", Shape::Targets, "Service level: speed metrics and the most that they may be."),
        KeySpec::new("tasks", Shape::List(&Shape::Section(&TASK)), "What is asked and how answers are graded.")
            .required(),
        KeySpec::new("gates", Shape::List(&Shape::Variants(&GATES)), "What must hold for the verdict `pass`."),
    ],
};

pub static DEPLOYMENT: Section = Section {
    name: "a deployment",
    keys: &[
        KeySpec::new("extends", Shape::Text, "A deployment whose keys hold where this one does not say otherwise."),
        KeySpec::new("api", Shape::Words(&APIS), "The wire format.").or("openai-chat"),
        KeySpec::new("url", Shape::Url, "Base URL, version path included: `https://host/v1`."),
        KeySpec::new("model", Shape::Text, "The model's name as the server knows it."),
        KeySpec::new("api_key_env", Shape::EnvName, "The environment variable that holds the key."),
        KeySpec::new("optimization", Shape::Words(&OPTIMIZATIONS), "What was done to it.").or("none"),
        KeySpec::new("host", Shape::Text, "The hardware; deployments that share it share this name."),
        KeySpec::new("headers", TEXTS, "Headers of every request."),
        KeySpec::new("query", TEXTS, "Query parameters of every request."),
        KeySpec::new("tls", Shape::Section(&TLS), "TLS settings."),
        KeySpec::new("ready_timeout", Shape::Duration, "How long a server that answers 502 to 504 may take to get ready; one that refuses connections is given up after 10 s.").or("10m"),
        KeySpec::new("body", Shape::JsonMap, "Merged into every request body (RFC 7396: null deletes)."),
        KeySpec::new("sampling", Shape::Section(&SAMPLING), "Overrides the suite's `sampling`."),
        KeySpec::new("metrics_url", Shape::Url, "Prometheus page of the server."),
        KeySpec::new("price", Shape::Section(&PRICE), "By tokens, by requests, or by GPU-hours."),
        KeySpec::new("context", Shape::Section(&CONTEXT), "Truncate prompts before they are sent."),
        KeySpec::new("timeouts", Shape::Section(&TIMEOUTS), "When a request is given up."),
        KeySpec::new("limits", Shape::Section(&LIMITS), "The most that the server is asked for."),
        KeySpec::new("profile", Shape::Path, "A file or `builtin:NAME` that says how a simulated server behaves."),
        KeySpec::new("hardware", Shape::Section(&HARDWARE), "What it runs on; with `model_shape`: the bounds of its speed."),
        KeySpec::new("model_shape", Shape::Section(&MODEL_SHAPE), "What the model is made of, from a file or stated."),
    ],
};

static APIS: [Word; 5] = [
    word("openai-chat"),
    later("openai-completions"),
    later("openai-responses"),
    later("anthropic-messages"),
    word("simulated"),
];

static OPTIMIZATIONS: [Word; 8] = [
    word("none"),
    word("weight-quantized"),
    word("kv-quantized"),
    word("speculative"),
    word("truncated-context"),
    word("sliding-window"),
    word("vendor"),
    word("release"),
];

static ARMS: [Word; 3] = [word("alternate"), word("together"), word("sequential")];
static CACHE: [Word; 3] = [word("as_is"), word("cold"), word("warm")];

pub static TLS: Section = Section {
    name: "`tls`",
    keys: &[KeySpec::new("ca_file", Shape::Path, "Certificates to trust, in PEM, beside the public ones.").required()],
};

pub static COMPARISON: Section = Section {
    name: "a comparison",
    keys: &[
        KeySpec::new("baseline", Shape::Text, "A deployment.").required(),
        KeySpec::new("candidate", Shape::Text, "Another deployment.").required(),
    ],
};

pub static SAMPLING: Section = Section {
    name: "`sampling`",
    keys: &[
        KeySpec::new("temperature", Shape::Number { min: 0.0, max: 10.0 }, "`null` leaves it out of requests.")
            .nullable()
            .or("0"),
        KeySpec::new("top_p", Shape::Number { min: 0.0, max: 1.0 }, "Nucleus sampling.").nullable(),
        KeySpec::new("top_k", Shape::Int { min: 1, max: 1_000_000 }, "The k likeliest tokens.").nullable(),
        KeySpec::new("max_tokens", Shape::Int { min: 1, max: 10_000_000 }, "The longest answer, in tokens.").or("256"),
        KeySpec::new("seed", Shape::Int { min: 0, max: u64::MAX }, "All seeds of the run derive from it.").or("7"),
        KeySpec::new("stop", Shape::OneOrList(&Shape::Text), "Texts that end an answer.").nullable(),
    ],
};

pub static RETRY: Section = Section {
    name: "`retry`",
    keys: &[
        KeySpec::new("max_attempts", Shape::Int { min: 1, max: 20 }, "The first one included.").or("3"),
        KeySpec::new("on", Shape::List(&Shape::Words(&RETRY_ON)), "What is tried again.")
            .or("[rate_limited, server_error, transport]"),
        KeySpec::new("base", Shape::Duration, "The first wait; it doubles each time.").or("1s"),
        KeySpec::new("cap", Shape::Duration, "The longest wait.").or("30s"),
    ],
};

static RETRY_ON: [Word; 4] = [word("rate_limited"), word("server_error"), word("transport"), word("timeout")];

pub static BUDGET: Section = Section {
    name: "`budget`",
    keys: &[
        KeySpec::new("usd", Shape::Usd, "Money."),
        KeySpec::new("requests", Shape::Int { min: 1, max: 1_000_000_000_000 }, "Requests."),
        KeySpec::new("time", Shape::Duration, "Wall time."),
    ],
};

const CONCURRENCY: Shape = Shape::Int { min: 1, max: 4_096 };
const MAX_IN_FLIGHT: Shape = Shape::Int { min: 1, max: 16_384 };
const RATE: Shape = Shape::Number { min: 1e-6, max: 1e6 };

pub static LOAD: Section = Section {
    name: "`load`",
    keys: &[
        KeySpec::new("mode", Shape::Words(&LOAD_MODES), "`closed`: a fixed number in flight; `open`: a schedule.")
            .or("closed"),
        KeySpec::new("concurrency", CONCURRENCY, "Closed: requests in flight, per arm.").or("4"),
        KeySpec::new("warmup_requests", Shape::Int { min: 0, max: 100_000 }, "Asked first, with prompts of their own.")
            .or("8"),
        KeySpec::new("start", Shape::Words(&STARTS), "Closed: spread over one service time, or all at once.")
            .or("spread"),
        KeySpec::new("arrivals", Shape::Section(&ARRIVALS), "Open: when requests arrive."),
        KeySpec::new("max_in_flight", MAX_IN_FLIGHT, "Open: a request that is due over it is dropped, and counted.")
            .or("256"),
        KeySpec::new("stages", Shape::List(&Shape::Section(&STAGE)), "Loads one after the other."),
    ],
};

static LOAD_MODES: [Word; 2] = [word("closed"), word("open")];
static STARTS: [Word; 2] = [word("spread"), word("burst")];

pub static ARRIVALS: Section = Section {
    name: "`arrivals`",
    keys: &[
        KeySpec::new("process", Shape::Words(&PROCESSES), "How arrivals are spaced.").or("poisson"),
        KeySpec::new("rate_per_s", RATE, "Mean rate."),
        KeySpec::new("ramp_to_per_s", RATE, "The rate moves evenly to this one over the stage's duration."),
        KeySpec::new("shape", Shape::Number { min: 0.01, max: 1e3 }, "gamma: 1 is Poisson, less is burstier."),
        KeySpec::new("size", Shape::Int { min: 1, max: 4_096 }, "burst: requests at one instant."),
        KeySpec::new("file", Shape::Path, "trace: seconds since the start, one arrival on a line."),
    ],
};

static PROCESSES: [Word; 5] = [word("constant"), word("poisson"), word("gamma"), word("burst"), word("trace")];

pub static STAGE: Section = Section {
    name: "a stage",
    keys: &[
        KeySpec::new("mode", Shape::Words(&LOAD_MODES), "Closed or open.").or("closed"),
        KeySpec::new("concurrency", CONCURRENCY, "Closed: requests in flight, per arm.").or("4"),
        KeySpec::new("start", Shape::Words(&STARTS), "Closed: spread over one service time, or all at once.")
            .or("spread"),
        KeySpec::new("ramp", Shape::Duration, "Closed: lanes start evenly over this time."),
        KeySpec::new("arrivals", Shape::Section(&ARRIVALS), "Open: when requests arrive."),
        KeySpec::new("max_in_flight", MAX_IN_FLIGHT, "Open: a request that is due over it is dropped, and counted.")
            .or("256"),
        KeySpec::new("duration", Shape::Duration, "How long it lasts, for each arm; else every sample is asked."),
        KeySpec::new("warmup", Shape::Duration, "Requests that begin in this time carry no latency."),
        KeySpec::new("min_requests", ANY_COUNT, "With a duration: goes on until so many are answered."),
    ],
};

pub static SWEEP: Section = Section {
    name: "`sweep`",
    keys: &[
        KeySpec::new(
            "over",
            Shape::Words(&SWEEP_OVER),
            "What is raised: the load, or the length of requests at the suite's load.",
        )
        .or("concurrency"),
        KeySpec::new("steps", Shape::List(&RATE), "Its values, rising.").required(),
        KeySpec::new("step", Shape::Section(&SWEEP_STEP), "How long each step lasts."),
        KeySpec::new("stop", Shape::Section(&SWEEP_STOP), "What ends the sweep of an arm early."),
    ],
};

static SWEEP_OVER: [Word; 4] = [word("concurrency"), word("rate_per_s"), word("prompt_tokens"), word("output_tokens")];
pub static SWEEP_STEP: Section = Section {
    name: "`step`",
    keys: &[
        KeySpec::new("duration", Shape::Duration, "How long a step lasts, for each arm, warm-up included.").or("30s"),
        KeySpec::new("warmup", Shape::Duration, "Requests that begin in this time carry no latency.").or("5s"),
        KeySpec::new("min_requests", ANY_COUNT, "A step goes on until so many are answered.").or("100"),
    ],
};
pub static SWEEP_STOP: Section = Section {
    name: "`stop`",
    keys: &[KeySpec::new("error_rate", Shape::Share, "An arm whose step errs more is not asked further.").or("5%")],
};

pub static CAPACITY: Section = Section {
    name: "`capacity`",
    keys: &[
        KeySpec::new("demand", Shape::Section(&DEMAND), "The load that is expected.").required(),
        KeySpec::new("headroom", Shape::Share, "Share of each replica that is kept free.").or("20%"),
        KeySpec::new("confidence", Shape::Share, "One-sided level at which a percentile must meet its SLO.").or("0.95"),
    ],
};
pub static DEMAND: Section = Section {
    name: "`demand`",
    keys: &[
        KeySpec::new("rate_per_s", RATE, "Mean requests per second.").required(),
        KeySpec::new("peak_factor", Shape::Number { min: 1.0, max: 1e3 }, "Peak ÷ mean.").or("1.5"),
    ],
};

pub static PRICE: Section = Section {
    name: "`price`",
    keys: &[
        KeySpec::new("input_usd_per_mtok", Shape::Usd, "Per million input tokens."),
        KeySpec::new("cached_input_usd_per_mtok", Shape::Usd, "Per million input tokens that were in the cache."),
        KeySpec::new("cache_write_usd_per_mtok", Shape::Usd, "Per million tokens written to the cache."),
        KeySpec::new("output_usd_per_mtok", Shape::Usd, "Per million output tokens."),
        KeySpec::new("usd_per_request", Shape::Usd, "Per request."),
        KeySpec::new("gpu_usd_per_hour", Shape::Usd, "Per GPU and hour."),
        KeySpec::new("gpus", Shape::Number { min: 0.001, max: 100_000.0 }, "GPUs of the deployment.").or("1"),
    ],
};

pub static CONTEXT: Section = Section {
    name: "`context`",
    keys: &[
        KeySpec::new("max_prompt_tokens", Shape::Int { min: 1, max: 100_000_000 }, "Tokens that are kept.").required(),
        KeySpec::new("keep", Shape::Words(&KEEPS), "Which end is kept.").or("tail"),
    ],
};

const ABOVE_0: Shape = Shape::Number { min: 1e-6, max: 1e18 };

pub static HARDWARE: Section = Section {
    name: "`hardware`",
    keys: &[
        KeySpec::new("bandwidth_gb_s", ABOVE_0, "Memory bandwidth of all devices together, in 10⁹ bytes a second."),
        KeySpec::new("tflops", ABOVE_0, "Arithmetic of all devices together, in 10¹² operations a second."),
        KeySpec::new("memory_gb", ABOVE_0, "Memory for weights and KV cache, in 10⁹ bytes."),
    ],
};

pub static MODEL_SHAPE: Section = Section {
    name: "`model_shape`",
    keys: &[
        KeySpec::new(
            "gguf",
            Shape::Path,
            "A GGUF file whose header says the sizes. A path that an environment variable holds may lie anywhere.",
        ),
        KeySpec::new("config", Shape::Path, "A Hugging Face `config.json` that says them."),
        KeySpec::new("params", ABOVE_0, "Weights, by number. What is stated goes before what a file says."),
        KeySpec::new("active_params", ABOVE_0, "Weights that one token uses; default: `params`."),
        KeySpec::new("bytes_per_weight", Shape::Number { min: 0.01, max: 16.0 }, "Bytes of a weight: 0.5 for 4 bits."),
        KeySpec::new("layers", Shape::Int { min: 1, max: 100_000 }, "Layers with a KV cache."),
        KeySpec::new("kv_heads", Shape::Int { min: 1, max: 100_000 }, "Key-value heads of a layer."),
        KeySpec::new("head_dim", Shape::Int { min: 1, max: 1_000_000 }, "Numbers of a head's key, and of its value."),
        KeySpec::new("kv_bytes", Shape::Number { min: 0.01, max: 16.0 }, "Bytes of a number in the KV cache.").or("2"),
    ],
};

static KEEPS: [Word; 3] = [word("head"), word("tail"), word("middle_out")];

pub static TIMEOUTS: Section = Section {
    name: "`timeouts`",
    keys: &[
        KeySpec::new("connect", Shape::Duration, "DNS, TCP and TLS.").or("5s"),
        KeySpec::new("first_token", Shape::Duration, "From sent to the first token.").or("60s"),
        KeySpec::new("between_tokens", Shape::Duration, "Between two tokens.").or("30s"),
        KeySpec::new("total", Shape::Duration, "The whole request.").or("300s"),
    ],
};

pub static LIMITS: Section = Section {
    name: "`limits`",
    keys: &[
        KeySpec::new("in_flight", Shape::Int { min: 1, max: 100_000 }, "Requests at one time."),
        KeySpec::new("requests_per_min", Shape::Int { min: 1, max: 1_000_000_000 }, "Requests a minute."),
        KeySpec::new("tokens_per_min", Shape::Int { min: 1, max: 4_000_000_000 }, "Tokens a minute."),
    ],
};
