//! Load as a suite asks for it: one shape, stages one after the other, or a sweep of steps; and what capacity is wanted.
//!
//! Everything after the reader works on [`Stage`]s: a plain load is one stage without a duration, a sweep is one stage
//! for each step.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::workload::{Distribution, Workload};
use crate::units::Span;

/// How long a request of an open load is taken to last while nobody knows yet: it sizes blocks and the lanes that are
/// opened beforehand, and no figure.
pub const PLANNED_SERVICE_S: f64 = 2.0;

/// Load per arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum Load {
    Closed { concurrency: u32, warmup_requests: u32, start: Start },
    Open { arrivals: Arrivals, max_in_flight: u32, warmup_requests: u32 },
    Stages { stages: Vec<Stage>, warmup_requests: u32 },
}

/// How a closed loop's first requests of a slot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Lane i of C starts at the fraction i/C of one service time.
    Spread,
    Burst,
}

/// One load for one stretch of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    pub shape: LoadShape,
    /// How long it lasts, for each arm; absent where it asks every sample once.
    pub duration: Option<Span>,
    /// Requests that begin within this time of a slot's start are answered and graded, and carry no latency.
    pub warmup: Option<Span>,
    /// With a duration: the stage goes on until so many requests are answered.
    pub min_requests: u64,
    /// The value of a sweep's step.
    pub step: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum LoadShape {
    Closed {
        concurrency: u32,
        start: Start,
        /// Lanes start evenly over this time, whatever `start` says.
        ramp: Option<Span>,
    },
    Open {
        arrivals: Arrivals,
        max_in_flight: u32,
    },
}

/// When requests of an open load arrive. Rates are means, in requests per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "process", rename_all = "snake_case")]
pub enum Arrivals {
    Constant {
        rate: Rate,
    },
    /// Exponential gaps.
    Poisson {
        rate: Rate,
    },
    /// Gamma gaps: shape 1 is Poisson, below it arrivals clump, above it they even out.
    Gamma {
        rate: Rate,
        shape: f64,
    },
    /// `size` requests at one instant, at even distances.
    Burst {
        rate: Rate,
        size: u32,
    },
    /// Instants from a file: seconds since the stage's start, one on a line.
    Trace {
        file: PathBuf,
    },
}

/// A rate that holds, or moves evenly to another one over the stage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    pub per_s: f64,
    pub ramp_to_per_s: Option<f64>,
}

impl Rate {
    pub fn steady(per_s: f64) -> Rate {
        Rate { per_s, ramp_to_per_s: None }
    }

    pub fn highest(self) -> f64 {
        self.ramp_to_per_s.map_or(self.per_s, |to| to.max(self.per_s))
    }
}

impl Arrivals {
    /// Absent for a trace, whose file says it.
    pub fn rate(&self) -> Option<Rate> {
        match self {
            Arrivals::Constant { rate }
            | Arrivals::Poisson { rate }
            | Arrivals::Gamma { rate, .. }
            | Arrivals::Burst { rate, .. } => Some(*rate),
            Arrivals::Trace { .. } => None,
        }
    }

    /// The same process at another rate; a trace has none and becomes Poisson.
    #[must_use]
    pub fn at_rate(&self, per_s: f64) -> Arrivals {
        let rate = Rate::steady(per_s);
        match self {
            Arrivals::Constant { .. } => Arrivals::Constant { rate },
            Arrivals::Gamma { shape, .. } => Arrivals::Gamma { rate, shape: *shape },
            Arrivals::Burst { size, .. } => Arrivals::Burst { rate, size: *size },
            Arrivals::Poisson { .. } | Arrivals::Trace { .. } => Arrivals::Poisson { rate },
        }
    }
}

impl LoadShape {
    pub fn is_open(&self) -> bool {
        matches!(self, LoadShape::Open { .. })
    }

    /// Requests that are planned to be in flight at one time; of an open load, ⌈rate × planned service time⌉.
    pub fn planned_in_flight(&self) -> u32 {
        match self {
            LoadShape::Closed { concurrency, .. } => (*concurrency).max(1),
            LoadShape::Open { arrivals, max_in_flight } => {
                let rate = arrivals.rate().map_or(1.0, Rate::highest);
                ((rate * PLANNED_SERVICE_S).ceil() as u32).clamp(1, (*max_in_flight).max(1))
            }
        }
    }

    /// The most requests that may be in flight.
    pub fn in_flight_max(&self) -> u32 {
        match self {
            LoadShape::Closed { concurrency, .. } => *concurrency,
            LoadShape::Open { max_in_flight, .. } => *max_in_flight,
        }
    }
}

impl Stage {
    /// Microseconds of its warm-up; 0 without one.
    pub fn warmup_us(&self) -> u64 {
        self.warmup.map_or(0, Span::as_us)
    }

    fn plain(shape: LoadShape) -> Stage {
        Stage { shape, duration: None, warmup: None, min_requests: 0, step: None }
    }
}

impl Load {
    pub fn stages(&self) -> Vec<Stage> {
        match self {
            Load::Closed { concurrency, start, .. } => {
                vec![Stage::plain(LoadShape::Closed { concurrency: *concurrency, start: *start, ramp: None })]
            }
            Load::Open { arrivals, max_in_flight, .. } => {
                vec![Stage::plain(LoadShape::Open { arrivals: arrivals.clone(), max_in_flight: *max_in_flight })]
            }
            Load::Stages { stages, .. } => stages.clone(),
        }
    }

    /// Requests that are planned to be in flight at one time, at the load's highest.
    pub fn concurrency(&self) -> u32 {
        self.stages().iter().map(|stage| stage.shape.planned_in_flight()).max().unwrap_or(1)
    }

    pub fn warmup_requests(&self) -> u32 {
        match self {
            Load::Closed { warmup_requests, .. }
            | Load::Open { warmup_requests, .. }
            | Load::Stages { warmup_requests, .. } => *warmup_requests,
        }
    }

    /// Paths that the load names.
    pub fn trace_files(&mut self) -> Vec<&mut PathBuf> {
        let file = |arrivals| match arrivals {
            &mut Arrivals::Trace { ref mut file } => Some(file),
            _ => None,
        };
        match self {
            Load::Closed { .. } => Vec::new(),
            Load::Open { arrivals, .. } => file(arrivals).into_iter().collect(),
            Load::Stages { stages, .. } => {
                let open = stages.iter_mut().filter_map(|stage| match &mut stage.shape {
                    LoadShape::Open { arrivals, .. } => file(arrivals),
                    LoadShape::Closed { .. } => None,
                });
                open.collect()
            }
        }
    }

    /// The process of an open load; Poisson where there is none.
    fn arrivals_at(&self, per_s: f64) -> Arrivals {
        match self {
            Load::Open { arrivals, .. } => arrivals.at_rate(per_s),
            _ => Arrivals::Poisson { rate: Rate::steady(per_s) },
        }
    }
}

/// Load raised step by step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    pub over: SweepOver,
    /// In the order in which they run.
    pub steps: Vec<f64>,
    pub step_duration: Span,
    pub step_warmup: Option<Span>,
    pub min_requests: u64,
    /// An arm whose step errs more than this is not asked further steps.
    pub stop_error_rate: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SweepOver {
    Concurrency,
    RatePerS,
    /// The load stays; prompts get longer.
    PromptTokens,
    /// The load stays; answers may get longer.
    OutputTokens,
}

impl SweepOver {
    /// Whether the length of requests is raised, and not the load.
    pub fn is_length(self) -> bool {
        matches!(self, SweepOver::PromptTokens | SweepOver::OutputTokens)
    }

    pub fn name(self) -> &'static str {
        match self {
            SweepOver::Concurrency => "concurrency",
            SweepOver::RatePerS => "rate_per_s",
            SweepOver::PromptTokens => "prompt_tokens",
            SweepOver::OutputTokens => "output_tokens",
        }
    }
}

/// The cap of an open sweep's steps where the load has none.
pub const DEFAULT_MAX_IN_FLIGHT: u32 = 256;

impl Sweep {
    /// The workload of a step: the suite's own, with the length that the step sets.
    pub fn workload_of(&self, workload: Option<&Workload>, value: f64) -> Option<Workload> {
        if !self.over.is_length() {
            return workload.cloned();
        }
        let mut own = workload.cloned().unwrap_or_default();
        let length = Some(Distribution::Fixed(value));
        match self.over {
            SweepOver::PromptTokens => own.prompt_tokens = length,
            _ => own.output_tokens = length,
        }
        Some(own)
    }

    /// The sweep as a load of stages; an open one takes its process and cap from `load`, one over lengths all of it.
    pub fn as_load(&self, load: &Load) -> Load {
        let cap = match load {
            Load::Open { max_in_flight, .. } => *max_in_flight,
            _ => DEFAULT_MAX_IN_FLIGHT,
        };
        let start = match load {
            Load::Closed { start, .. } => *start,
            _ => Start::Spread,
        };
        let plain = LoadShape::Closed { concurrency: 1, start, ramp: None };
        let own = load.stages().into_iter().next().map_or(plain, |stage| stage.shape);
        let stage = |&value: &f64| Stage {
            shape: match self.over {
                SweepOver::Concurrency => LoadShape::Closed { concurrency: value as u32, start, ramp: None },
                SweepOver::RatePerS => LoadShape::Open { arrivals: load.arrivals_at(value), max_in_flight: cap },
                SweepOver::PromptTokens | SweepOver::OutputTokens => own.clone(),
            },
            duration: Some(self.step_duration),
            warmup: self.step_warmup,
            min_requests: self.min_requests,
            step: Some(value),
        };
        Load::Stages { stages: self.steps.iter().map(stage).collect(), warmup_requests: load.warmup_requests() }
    }
}

/// The demand that a deployment is to carry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Mean requests per second that are expected.
    pub rate_per_s: f64,
    /// Peak ÷ mean.
    pub peak_factor: f64,
    /// Share of a replica's capacity that is kept free.
    pub headroom: f64,
    /// One-sided level of the percentile's upper bound that must meet the SLO.
    pub confidence: f64,
}
