//! Which tokens of a text are numbers, and which are not.

use super::*;

fn tokens(text: &str) -> Vec<(String, bool)> {
    let chars = prepare(text);
    Scanner::new(&chars).map(|t| (t.text(&chars), t.number(&chars, NumberLocale::En).is_some())).collect()
}

fn readable(text: &str) -> Vec<String> {
    tokens(text).into_iter().filter(|(_, readable)| *readable).map(|(text, _)| text).collect()
}

#[test]
fn numbers_are_whole_tokens() {
    for (text, want) in [
        ("$29.00 each", vec!["29.00"]),
        ("18... wait", vec!["18"]),
        ("−7", vec!["-7"]),
        ("４２", vec!["42"]),
        ("1,234,567.5", vec!["1,234,567.5"]),
        ("3/4 and 1 3/4 and 1½", vec!["3/4", "1 3/4", "1 1/2"]),
        ("1.5e-3 and 2 × 10^5 and 10⁶", vec!["1.5e-3", "2 × 10^5", "10^6"]),
        ("7-3 is x - 5", vec!["5"]),
        ("3 - 5", vec!["3", "5"]),
        ("-$5 or $-6", vec!["-5", "-6"]),
        ("H2O GPT-4 v1.2 x^2 a_1 3rd 25 cm²", vec!["25"]),
        ("12% or 12 percent", vec!["12%", "12 percent"]),
        (".5", vec![".5"]),
        ("答えは42です", vec!["42"]),
        ("٤٢", vec!["42"]),
    ] {
        assert_eq!(readable(text), want, "{text}");
    }
}

#[test]
fn what_is_no_single_number_is_unreadable_as_a_whole() {
    for text in
        ["10-15", "1.234,56", "1.2.3", "12/31/2024", "2024-01-15", "10:30", "0x1F", "3,5", "2^10", "1/0", "10–15"]
    {
        let found = tokens(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(!found[0].1, "{text} was read: {found:?}");
    }
}

#[test]
fn remarks_are_marked() {
    let chars = prepare("5 (see eq. 3) [2]\n(7\n8");
    let remarks: Vec<bool> = Scanner::new(&chars).map(|t| t.remark).collect();
    assert_eq!(remarks, [false, true, true, true, false]);
}

#[test]
fn locale_decides_what_the_marks_mean() {
    let read = |text: &str, locale| {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        let whole = Number::decimal(false, &digits, "", 0).unwrap();
        let chars = prepare(text);
        Scanner::new(&chars).next().and_then(|t| t.number(&chars, locale)).map(|n| n.equals(&whole, 0.0, 0.0))
    };
    assert_eq!(read("1.234", NumberLocale::En), Some(false));
    assert_eq!(read("1.234", NumberLocale::De), Some(true));
    assert_eq!(read("1.234,56", NumberLocale::De), Some(false));
    assert_eq!(read("1.234,56", NumberLocale::En), None);
    assert_eq!(read("0,123", NumberLocale::En), None);
    assert_eq!(read("12,34,567", NumberLocale::En), Some(true));
}
