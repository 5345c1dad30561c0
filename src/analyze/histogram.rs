//! Mergeable latencies: counts by value at three significant digits, from 1 µs to an hour.
//!
//! Percentiles of two runs can't be averaged; their histograms can be added. A value stands for its bucket's upper end,
//! so that a percentile of a histogram lies at most 0.1 % (and the rounding to a microsecond) above the value itself.

use std::collections::BTreeMap;

use hdrhistogram::Histogram as Recorder;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const HIGHEST_US: u64 = 3_600_000_000;
const DIGITS: u8 = 3;

/// (upper end of the bucket in µs, count), rising; empty buckets are left out. In files it is one text,
/// `1000:2 250623:1`: a line for each number would make most of a summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(Vec<(u64, u64)>);

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pairs: Vec<String> = self.0.iter().map(|(value, count)| format!("{value}:{count}")).collect();
        serializer.serialize_str(&pairs.join(" "))
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let pair = |pair: &str| -> Option<(u64, u64)> {
            let (value, count) = pair.split_once(':')?;
            Some((value.parse().ok()?, count.parse().ok()?))
        };
        let told = |word: &str| pair(word).ok_or_else(|| D::Error::custom(format!("`{word}` is no `µs:count`")));
        let pairs: Vec<(u64, u64)> = text.split_whitespace().map(told).collect::<Result<_, _>>()?;
        // Whoever wrote it: values rise and stand once.
        Ok(Histogram::default().merge(&Histogram(pairs)))
    }
}

impl Histogram {
    /// Of values in milliseconds. Below 1 µs and above an hour they count as these; what is not finite is left out.
    pub fn of_ms(values: impl IntoIterator<Item = f64>) -> Histogram {
        let Ok(mut recorder) = Recorder::<u64>::new_with_bounds(1, HIGHEST_US, DIGITS) else {
            return Histogram::default();
        };
        for ms in values.into_iter().filter(|ms| ms.is_finite()) {
            recorder.saturating_record(((ms * 1e3).round() as u64).clamp(1, HIGHEST_US));
        }
        Histogram(recorder.iter_recorded().map(|it| (it.value_iterated_to(), it.count_at_value())).collect())
    }

    /// The histogram of both samples together, whichever comes first.
    #[must_use]
    pub fn merge(&self, other: &Histogram) -> Histogram {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for (value, count) in self.0.iter().chain(&other.0) {
            let sum = counts.entry(*value).or_default();
            *sum = sum.saturating_add(*count);
        }
        Histogram(counts.into_iter().collect())
    }

    pub fn n(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The nearest-rank percentile in milliseconds. Absent without values, and for q outside (0, 1].
    pub fn percentile_ms(&self, q: f64) -> Option<f64> {
        let n = self.n();
        if n == 0 || !(q > 0.0 && q <= 1.0) {
            return None;
        }
        let exact = q * n as f64;
        let wanted = ((exact - exact * 1e-12).ceil() as u64).clamp(1, n);
        let mut seen = 0_u64;
        let found = self.0.iter().find(|(_, count)| {
            seen = seen.saturating_add(*count);
            seen >= wanted
        });
        found.map(|(value, _)| *value as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::stats::{percentile, sorted};
    use proptest::prelude::*;

    fn values() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(0.001_f64..5_000_000.0, 0..200)
    }

    #[test]
    fn values_beyond_the_range_count_at_its_ends() {
        let histogram = Histogram::of_ms([0.0, 1e9, f64::NAN, f64::INFINITY]);
        assert_eq!(histogram.n(), 2);
        assert_eq!(histogram.percentile_ms(0.5), Some(0.001));
        assert!((histogram.percentile_ms(1.0).unwrap() / 3.6e6 - 1.0).abs() < 1e-3);
        assert_eq!(Histogram::default().percentile_ms(0.5), None);
        assert_eq!(histogram.percentile_ms(f64::NAN), None);
    }

    #[test]
    fn what_is_written_reads_back() {
        let histogram = Histogram::of_ms([1.0, 1.0, 250.5]);
        let text = serde_json::to_string(&histogram).unwrap();
        assert!(text.starts_with("\"1000:2 250"), "{text}");
        assert!(serde_json::from_str::<Histogram>("\"1000:x\"").is_err());
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
    }

    proptest! {
        #[test]
        fn merging_neither_asks_for_an_order_nor_for_brackets(a in values(), b in values(), c in values()) {
            let [a, b, c] = [a, b, c].map(Histogram::of_ms);
            prop_assert_eq!(a.merge(&b), b.merge(&a));
            prop_assert_eq!(a.merge(&b).merge(&c), a.merge(&b.merge(&c)));
            prop_assert_eq!(a.merge(&Histogram::default()), a);
        }

        #[test]
        fn percentiles_of_the_merged_are_those_of_all_values(a in values(), b in values(), q in 0.01_f64..=1.0) {
            let all = sorted(a.iter().chain(&b).copied());
            let merged = Histogram::of_ms(a).merge(&Histogram::of_ms(b));
            prop_assert_eq!(merged.n(), all.len() as u64);
            if let Some(exact) = percentile(&all, q) {
                // Within 0.1 %, an hour at the most, and half a microsecond for the rounding.
                let exact = exact.min(3.6e6);
                let found = merged.percentile_ms(q).unwrap();
                prop_assert!((found - exact).abs() <= exact * 1e-3 + 0.000_5, "{} {}", found, exact);
            }
        }
    }
}
