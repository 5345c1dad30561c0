//! Scalars by their field's type: strict, and with a message that says what to write instead.

use std::str::FromStr;

use rust_decimal::Decimal;

use super::node::{Kind, Node, is_not_finite};
use crate::units::Span;

/// What is wrong with a scalar and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

fn fault(code: &'static str, message: String, hint: Option<&str>) -> Fault {
    Fault { code, message, hint: hint.map(str::to_owned) }
}

/// The plain text of a scalar that is not text by its field: quotes around a number or a boolean are a mistake.
fn plain<'n>(node: &'n Node, want: &str) -> Result<&'n str, Fault> {
    let wrong = |hint| fault("wrong-type", format!("expected {want}, found {}", node.describe()), hint);
    match &node.kind {
        Kind::Scalar { text, .. } if text.contains("${env:") => {
            Err(wrong(Some("`${env:…}` works in text only; use `--set path=value` here")))
        }
        Kind::Scalar { text, plain: true, .. } => Ok(text),
        Kind::Scalar { .. } => Err(wrong(Some("remove the quotes"))),
        _ => Err(wrong(None)),
    }
}

pub fn boolean(node: &Node) -> Result<bool, Fault> {
    let want = "`true` or `false`";
    let text = plain(node, want)?;
    let hint = match text {
        "true" => return Ok(true),
        "false" => return Ok(false),
        "yes" | "Yes" | "on" | "On" | "y" | "True" | "TRUE" | "1" => Some("write `true`"),
        "no" | "No" | "off" | "Off" | "n" | "False" | "FALSE" | "0" => Some("write `false`"),
        _ => None,
    };
    Err(fault("wrong-type", format!("expected {want}, found {}", node.describe()), hint))
}

pub fn integer(node: &Node, min: u64, max: u64) -> Result<u64, Fault> {
    let range = if max > 1_000_000_000_000 { format!("of at least {min}") } else { format!("from {min} to {max}") };
    let want = format!("a whole number {range}");
    let text = plain(node, &want)?;
    let wrong = |code, hint| fault(code, format!("expected {want}, found {}", node.describe()), hint);
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        let hint = text.contains('_').then_some("write the number without `_`");
        return Err(wrong(if is_not_finite(text) { "bad-number" } else { "wrong-type" }, hint));
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return Err(wrong("wrong-type", Some("write the number without leading zeros")));
    }
    match text.parse::<u64>() {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => Err(wrong("out-of-range", None)),
    }
}

pub fn number(node: &Node, min: f64, max: f64) -> Result<f64, Fault> {
    let range = match (min, max) {
        (min, max) if max >= 1e6 && min <= 1e-6 => {
            if min > 0.0 {
                "above 0".into()
            } else {
                "of at least 0".into()
            }
        }
        (min, max) => format!("from {min} to {max}"),
    };
    let want = format!("a number {range}");
    let text = plain(node, &want)?;
    let wrong = |code, hint| fault(code, format!("expected {want}, found {}", node.describe()), hint);
    if is_not_finite(text) {
        return Err(wrong("bad-number", None));
    }
    let Ok(value) = serde_json::from_str::<f64>(text) else {
        let hint = text.ends_with('%').then_some("write the plain ratio, such as 0.9");
        return Err(wrong("wrong-type", hint));
    };
    if !value.is_finite() || value < min || value > max {
        return Err(wrong("out-of-range", None));
    }
    Ok(value)
}

/// A duration longer than nothing.
pub fn duration(node: &Node) -> Result<Span, Fault> {
    let text = text_like(node, "a duration")?;
    let wrong = |hint: String| Fault {
        code: "bad-duration",
        message: format!("expected a duration such as `1500ms`, `30s`, `10m` or `2h`, found {}", node.describe()),
        hint: Some(hint),
    };
    match Span::from_str(text) {
        Ok(span) if span.0.is_zero() => Err(wrong("it must be longer than nothing".into())),
        Ok(span) => Ok(span),
        Err(_) if text.parse::<f64>().is_ok_and(|n| n.is_finite() && n >= 0.0) => {
            Err(wrong(format!("add the unit: `{text}s` or `{text}ms`")))
        }
        Err(_) => Err(wrong("a number and one of us, ms, s, m, h, without a space; at most 1000h".into())),
    }
}

/// A share between 0 and 1: `2%`, `2pp` or `0.02`.
pub fn share(node: &Node) -> Result<f64, Fault> {
    let text = text_like(node, "a share")?;
    let wrong = |hint: String| Fault {
        code: "bad-share",
        message: format!("expected a share such as `2%`, `2pp` or `0.02`, found {}", node.describe()),
        hint: Some(hint),
    };
    let unit = text.strip_suffix("pp").or_else(|| text.strip_suffix('%'));
    let digits = unit.unwrap_or(text);
    let bare = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let Some(value) = digits.parse::<f64>().ok().filter(|_| bare) else {
        return Err(wrong("a number and `%` or `pp`, without a space".into()));
    };
    match unit {
        Some(_) if value <= 100.0 => Ok(value / 100.0),
        None if value < 1.0 => Ok(value),
        None if value <= 100.0 => Err(wrong(format!("write `{text}%` if that is meant"))),
        _ => Err(wrong("at most 100%".into())),
    }
}

/// An amount of money, exact.
pub fn usd(node: &Node) -> Result<Decimal, Fault> {
    let want = "an amount in USD such as `0.10`";
    let text = plain(node, want)?;
    let message = format!("expected {want}, found {}", node.describe());
    let digits = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let hint = if text.starts_with('$') {
        "write the number alone"
    } else if text.starts_with('-') {
        "a price is never negative"
    } else {
        "digits and at most one point"
    };
    let value = Decimal::from_str(text).ok().filter(|_| digits);
    value.filter(|v| *v <= Decimal::from(1_000_000_000)).ok_or_else(|| fault("bad-price", message, Some(hint)))
}

/// A scalar as text, plain or quoted; the content counts, not the style.
fn text_like<'n>(node: &'n Node, want: &str) -> Result<&'n str, Fault> {
    match &node.kind {
        Kind::Scalar { text, .. } if text.contains("${env:") => plain(node, want),
        Kind::Scalar { text, .. } => Ok(text),
        _ => Err(fault("wrong-type", format!("expected {want}, found {}", node.describe()), None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::source::Place;

    fn plain(text: &str) -> Node {
        Node { place: Place::default(), kind: Kind::Scalar { text: text.into(), plain: true, literal: false } }
    }

    #[test]
    fn booleans_are_true_and_false_only() {
        assert_eq!(boolean(&plain("true")), Ok(true));
        for text in ["yes", "no", "on", "True", "1", ""] {
            assert!(boolean(&plain(text)).is_err(), "{text}");
        }
        assert_eq!(boolean(&plain("no")).unwrap_err().hint.as_deref(), Some("write `false`"));
    }

    #[test]
    fn integers_are_plain_decimals_in_range() {
        assert_eq!(integer(&plain("12"), 1, 20), Ok(12));
        assert_eq!(integer(&plain("18446744073709551615"), 0, u64::MAX), Ok(u64::MAX));
        for text in ["012", "1_0", "0x1", "1.0", "1e1", "-1", "21", "", ".nan", "18446744073709551616"] {
            assert!(integer(&plain(text), 1, 20).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_have_a_unit_or_are_below_one() {
        let near = |text: &str, want: f64| assert!((share(&plain(text)).unwrap() - want).abs() < 1e-12, "{text}");
        near("2%", 0.02);
        near("2pp", 0.02);
        near("0.02", 0.02);
        near("100%", 1.0);
        near("0", 0.0);
        for text in ["2", "1", "-2%", "101%", "2 %", "%", "nan", "1e-2", ".nan", "two%"] {
            assert!(share(&plain(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn money_is_exact_and_never_negative() {
        assert_eq!(usd(&plain("0.10")).unwrap().to_string(), "0.10");
        for text in ["-1", "$1", "1,5", "1e9", "", "free", "99999999999"] {
            assert!(usd(&plain(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration(&plain("1500ms")), Ok(Span::from_ms(1500)));
        assert_eq!(duration(&plain("30")).unwrap_err().hint.as_deref(), Some("add the unit: `30s` or `30ms`"));
        for text in ["0s", "-1s", "5 s", "1d", "inf"] {
            assert!(duration(&plain(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_finite() {
        assert_eq!(number(&plain("0.9"), 0.0, 2.0), Ok(0.9));
        for text in [".nan", ".inf", "nan", "1e999", "0x1", "3", "90%"] {
            assert!(number(&plain(text), 0.0, 2.0).is_err(), "{text}");
        }
    }
}
