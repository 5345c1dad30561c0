//! One type for every estimate.

use serde::{Deserialize, Serialize};

/// A figure with its interval. Ends may be absent; nothing in it is ever NaN or infinite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub point: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Two-sided level of the interval, for example 0.9.
    pub level: f64,
    /// Units of analysis.
    pub n: u64,
    /// How the interval was made: `wilson`, `tango`, `block-bootstrap`, …
    pub method: String,
}
