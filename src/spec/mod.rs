//! Suites: from a YAML file to a resolved [`Suite`], or to every mistake of the file at once.
//!
//! ```text
//! text ─ wire (YAML with spans) ─ resolve (names, defaults, files) ─▶ Suite ─ interpolate ─▶ Suite for this run
//! ```

pub mod dataset;
pub mod gate;
pub mod money;
pub mod suite;
pub mod task;
pub mod template;

pub use gate::{CostMetric, Each, Gate, GateKind, STABILITY_METRICS, Scope};
pub use suite::{
    Api, ArmsMode, Budget, CacheMode, Comparison, Context, Deployment, Keep, LatencyFigure, Limits, Load, Optimization,
    PERCENTILES, Price, Retry, RetryOn, Sampling, SloTarget, SpeedMetric, Start, Suite, Timeouts,
};
pub use task::{
    Dataset, Example, Field, GraderKind, GraderSpec, JsonSchemaRef, MessageTemplate, NumberLocale, Role, Row, Task,
    Which,
};
