//! The statistics of a comparison: plain functions of counts and slices.
//!
//! No function here reads, writes, logs or panics. What the data don't determine is `None`, never 0 or NaN. Levels of
//! intervals are two-sided; a `confidence` is one-sided.

pub mod rates;
pub mod special;

pub use rates::{clopper_pearson, clopper_pearson_lower, clopper_pearson_upper, wilson};
