//! Small value types that cross room borders, so that no bare number loses its unit on the way.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A monotonic instant: nanoseconds since the run's anchor (see `world::Clock`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

impl Mono {
    /// Nanoseconds from `earlier` to `self`; `None` where `earlier` is later, so that no negative latency exists.
    pub fn since(self, earlier: Mono) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }

    /// Whole microseconds since the anchor: the journal's resolution.
    pub fn as_us(self) -> u64 {
        self.0 / 1_000
    }

    /// The instant that lies `nanos` later.
    #[must_use]
    pub fn plus_ns(self, nanos: u64) -> Mono {
        Mono(self.0.saturating_add(nanos))
    }

    /// The instant that lies `duration` later.
    #[must_use]
    pub fn plus(self, duration: std::time::Duration) -> Mono {
        self.plus_ns(nanos(duration))
    }
}

/// A duration in nanoseconds; what does not fit (five hundred years) is as long as fits.
pub fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A 128-bit content hash, written as 32 hex digits. Units, pair keys, prompts and suites are named by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub [u8; 16]);

impl Id {
    /// Hashes a list of parts. Each part is length-prefixed, so `["ab","c"]` and `["a","bc"]` differ.
    pub fn of(domain: &str, parts: &[&[u8]]) -> Id {
        let mut hasher = blake3::Hasher::new();
        for part in std::iter::once(domain.as_bytes()).chain(parts.iter().copied()) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let mut id = [0_u8; 16];
        hasher.finalize_xof().fill(&mut id);
        Id(id)
    }

    /// The first eight bytes as a number: seeds are derived from it.
    pub fn as_u64(self) -> u64 {
        let mut low = [0_u8; 8];
        low.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(low)
    }

    /// The first eight hex digits, for people.
    pub fn short(self) -> String {
        self.to_string().chars().take(8).collect()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

impl std::str::FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not an id of 32 hex digits");
        if text.len() != 32 || !text.is_ascii() {
            return Err(bad());
        }
        let mut id = [0_u8; 16];
        for (slot, pair) in id.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(pair).map_err(|_| bad())?;
            *slot = u8::from_str_radix(digits, 16).map_err(|_| bad())?;
        }
        Ok(Id(id))
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A length of time as suites write it (`1500ms`, `30s`, `10m`, `2h`); serialized in the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub std::time::Duration);

impl Span {
    pub const fn from_ms(ms: u64) -> Span {
        Span(std::time::Duration::from_millis(ms))
    }

    pub fn as_ms(self) -> f64 {
        self.0.as_secs_f64() * 1e3
    }

    pub fn as_us(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0.as_micros();
        match us {
            us if us % 1_000 != 0 => write!(f, "{us}us"),
            us if us % 1_000_000 != 0 || us == 0 => write!(f, "{}ms", us / 1_000),
            us if us % 60_000_000 != 0 => write!(f, "{}s", us / 1_000_000),
            us if us % 3_600_000_000 != 0 => write!(f, "{}m", us / 60_000_000),
            us => write!(f, "{}h", us / 3_600_000_000),
        }
    }
}

impl std::str::FromStr for Span {
    type Err = String;

    /// Accepts a decimal number and one of `us`, `ms`, `s`, `m`, `h`; at most 1000 hours.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a duration; write for example 1500ms, 30s, 10m or 2h");
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let (number, unit) = text.split_at(digits);
        let value: f64 = number.parse().map_err(|_| bad())?;
        let seconds = match unit {
            "us" => value / 1e6,
            "ms" => value / 1e3,
            "s" => value,
            "m" => value * 60.0,
            "h" => value * 3_600.0,
            _ => return Err(bad()),
        };
        if seconds > 3_600_000.0 {
            return Err(format!("`{text}` is longer than 1000 hours"));
        }
        Ok(Span(std::time::Duration::from_micros((seconds * 1e6).round() as u64)))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_back_what_they_write() {
        for text in ["1500ms", "30s", "10m", "2h", "250us", "0ms", "90s"] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.to_string(), text);
        }
        assert_eq!("1.5s".parse::<Span>().unwrap(), Span::from_ms(1_500));
    }

    #[test]
    fn spans_refuse_what_has_no_unit() {
        for text in ["", "5", "s", "5 s", "-5s", "1e3s", "5d", "99999h", "1.2.3s"] {
            assert!(text.parse::<Span>().is_err(), "{text} was taken");
        }
    }

    #[test]
    fn ids_depend_on_where_parts_end() {
        assert_ne!(Id::of("t", &[b"ab", b"c"]), Id::of("t", &[b"a", b"bc"]));
        let id = Id::of("t", &[b"x"]);
        assert_eq!(id.to_string().parse::<Id>().unwrap(), id);
        assert!("zz".parse::<Id>().is_err());
    }

    #[test]
    fn no_negative_latency() {
        assert_eq!(Mono(5).since(Mono(7)), None);
        assert_eq!(Mono(7).since(Mono(5)), Some(2));
    }
}
