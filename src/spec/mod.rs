//! Suites: from a YAML file to a resolved [`Suite`], or to every mistake of the file at once.
//!
//! ```text
//! text ─ yaml ─▶ tree with places ─ overlay (--set, extends) ─ check (table of keys) ─ decode (names, defaults,
//! files, templates) ─▶ Suite ─ env ─▶ Suite for this run
//! ```
//!
//! One table ([`keys`]) says what a suite may contain; the check, the defaults and the JSON Schema come from it.
//! Each step reports into one sink and goes on, so that one mistake does not hide the next.

mod builtin;
mod check;
pub mod dataset;
mod decode;
mod diagnostic;
mod env;
mod files;
pub mod gate;
mod gguf;
mod hf_config;
mod init;
mod keys;
mod keys_task;
mod keys_workload;
mod load;
pub mod load_shape;
pub mod model;
pub mod money;
mod node;
mod overlay;
pub mod reference;
mod render;
mod scalar;
pub mod schema;
mod secrets;
mod shape;
mod source;
mod suggest;
pub mod suite;
pub mod task;
pub mod template;
mod template_bounds;
mod view;
pub mod workload;
mod yaml;

pub use dataset::DatasetError;
pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use env::interpolate;
pub use files::{FileError, read as read_file};
pub use gate::{CostMetric, Each, Gate, GateKind, STABILITY_METRICS, Scope};
pub use init::init_template;
pub use load::{LoadOptions, Loaded, SuiteSource, load};
pub use load_shape::{Arrivals, Capacity, Load, LoadShape, Rate, Stage, Start, Sweep, SweepOver};
pub use model::{Hardware, ModelShape, ShapeSource};
pub use suite::{
    Api, ArmsMode, Budget, CacheMode, Comparison, Context, Deployment, Keep, LatencyFigure, Limits, Optimization,
    PERCENTILES, Price, Retry, RetryOn, Sampling, SloTarget, SpeedMetric, Suite, Timeouts,
};
pub use task::{
    Dataset, Example, Field, GraderKind, GraderSpec, JsonSchemaRef, MessageTemplate, NumberLocale, Role, Row, Task,
    Which,
};
pub use workload::{Distribution, SharedPrefix, Workload};

/// The source of a schema that is written in the suite itself.
pub const INLINE: &str = "inline";

/// Metrics that every task has, beside its graders' names.
pub const RESERVED_METRICS: [&str; 2] = ["accuracy", "success"];
