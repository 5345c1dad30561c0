//! The statistics of a comparison: plain functions of counts and slices.
//!
//! No function here reads, writes, logs or panics. What the data don't determine is `None`, never 0 or NaN. Levels of
//! intervals are two-sided; a `confidence` is one-sided (`two_sided_level` in [`super::estimate`] joins them).
//!
//! | question | answer |
//! |---|---|
//! | one rate, to show | [`wilson`] |
//! | one rate, to gate | [`clopper_pearson_upper`], [`clopper_pearson_lower`] |
//! | pass/fail on the same samples, to show | [`tango()`], [`mcnemar`] beside it |
//! | pass/fail on the same samples, to gate | [`non_inferiority`] |
//! | scores, repeats or clusters | [`paired_mean`], [`clustered_paired_mean`], [`MeanError::score_p_values`]; [`sign_flip`] beside it |
//! | a family of gates | [`holm()`] |
//! | percentiles of one arm | [`percentile_estimate`], printed where [`is_printable`] |
//! | ratios of latency percentiles, means, throughput | [`percentile_ratio`], [`mean_ratio`], [`sums_ratio`] |
//! | a ratio of two independent rates | [`ratio_of_means`] |
//! | cost per success | [`cost_per_success`], [`cost_ratio`] |
//! | is n large enough | [`pass_power`], [`fail_power`], [`n_to_decide`], [`smallest_detectable_loss`] |

pub mod blocks;
pub mod cost;
pub mod graded;
pub mod holm;
pub mod independent;
pub mod paired;
pub mod percentiles;
pub mod permutation;
pub mod power;
mod random;
pub mod rates;
pub mod special;
pub mod tango;
pub mod unconditional;

pub use blocks::{
    BlockPair, BlockSums, ENOUGH_BLOCKS, FEWEST_BLOCKS, Resampling, Sums, mean_ratio, percentile_ratio, sums_ratio,
};
pub use cost::{Spend, cost_per_success, cost_ratio};
pub use graded::{
    MeanError, VarianceParts, clustered_mean_error, clustered_paired_mean, mean_error, paired_mean, variance_parts,
};
pub use holm::holm;
pub use independent::ratio_of_means;
pub use paired::{Mcnemar, PairedCounts, mcnemar};
pub use percentiles::{interval_ranks, is_printable, percentile, percentile_estimate, sorted};
pub use permutation::{EXACT_SIGN_FLIPS, SignFlip, sign_flip};
pub use power::{Design, fail_power, n_to_decide, pass_power, smallest_detectable_loss};
pub use rates::{clopper_pearson, clopper_pearson_lower, clopper_pearson_upper, wilson};
pub use tango::{tango, tango_p_values, tango_statistic, zero_discordance_half_width};
pub use unconditional::{EXACT_UP_TO, NonInferiority, exact_p_above, exact_p_below, non_inferiority};
