//! Diagnostics for people (full), for logs (concise) and for programs (JSON).

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;

use super::diagnostic::{Diagnostic, Diagnostics, Severity};

const WIDTH: usize = 80;

/// ANSI styles; empty where colour is off.
#[derive(Clone, Copy)]
struct Paint {
    red: &'static str,
    yellow: &'static str,
    blue: &'static str,
    bold: &'static str,
    off: &'static str,
}

const PLAIN: Paint = Paint { red: "", yellow: "", blue: "", bold: "", off: "" };
const COLOUR: Paint =
    Paint { red: "\x1b[1;31m", yellow: "\x1b[1;33m", blue: "\x1b[34m", bold: "\x1b[1m", off: "\x1b[0m" };

impl Diagnostics {
    /// Each with its place, its line, an underline and a hint, 80 columns wide; a count at the end.
    pub fn full(&self, colour: bool) -> String {
        let paint = if colour { COLOUR } else { PLAIN };
        let mut out = String::new();
        for diagnostic in &self.0 {
            full(diagnostic, paint, &mut out);
            out.push('\n');
        }
        let errors = self.errors().count();
        let warnings = self.0.len() - errors;
        let count = |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
        let parts = [(errors, "error"), (warnings, "warning")];
        let parts: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| count(*n, what)).collect();
        if !parts.is_empty() {
            let _ = writeln!(out, "{}", parts.join(", "));
        }
        out
    }

    /// One line each: `file:line:column: error[code]: message (hint)`.
    pub fn concise(&self) -> String {
        self.0.iter().fold(String::new(), |mut out, d| {
            let hint = d.hint.as_ref().map(|h| format!(" ({})", clean(h))).unwrap_or_default();
            let _ = writeln!(
                out,
                "{}:{}:{}: {}[{}]: {}{hint}",
                clean(&d.file),
                d.line,
                d.column,
                severity(d.severity),
                d.code,
                clean(&d.message),
            );
            out
        })
    }

    /// A JSON array of the diagnostics' fields.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(&self.0).unwrap_or_else(|_| "[]".to_owned())
    }
}

impl std::fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.full(false))
    }
}

impl std::error::Error for Diagnostics {}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

fn full(d: &Diagnostic, paint: Paint, out: &mut String) {
    let tint = if d.severity == Severity::Error { paint.red } else { paint.yellow };
    let Paint { blue, bold, off, .. } = paint;
    let head = format!("{}[{}]: ", severity(d.severity), d.code);
    let message = wrap(&clean(&d.message), WIDTH, head.chars().count(), 2);
    let _ = writeln!(out, "{tint}{head}{off}{bold}{message}{off}");
    let number = d.line.to_string();
    let gutter = " ".repeat(number.len());
    let at = if d.source_line.is_some() { format!(":{}:{}", d.line, d.column) } else { String::new() };
    let _ = writeln!(out, "{gutter}{blue}-->{off} {}{at}", clean(&d.file));
    if let Some(line) = &d.source_line {
        let (shown, before, len) = window(line, d.column, d.span_len, WIDTH - number.len() - 3);
        let _ = writeln!(out, "{gutter} {blue}|{off}");
        let _ = writeln!(out, "{blue}{number} |{off} {shown}");
        let _ = writeln!(out, "{gutter} {blue}|{off} {}{tint}{}{off}", " ".repeat(before), "^".repeat(len));
    }
    for (label, text) in [("hint", &d.hint), ("help", &d.help)] {
        if let Some(text) = text {
            let text = wrap(&clean(text), WIDTH, number.len() + 9, number.len() + 9);
            let _ = writeln!(out, "{gutter} {blue}={off} {bold}{label}{off}: {text}");
        }
    }
}

/// The part of a line around the place, at most `width` columns, and where and how long to underline it.
fn window(line: &str, column: usize, span_len: usize, width: usize) -> (String, usize, usize) {
    let cells: Vec<char> = line.chars().map(visible).collect();
    let at = (column - 1).min(cells.len());
    let total: usize = cells.iter().map(|c| wide(*c)).sum();
    let mut from = 0;
    if total > width {
        // A third of the width before the place shows what it belongs to.
        let mut room = width / 3;
        from = at;
        while from > 0 && cells.get(from - 1).is_some_and(|c| wide(*c) <= room) {
            from -= 1;
            room -= cells.get(from).map_or(0, |c| wide(*c));
        }
    }
    let lead = if from > 0 { "…" } else { "" };
    let mut shown = lead.to_owned();
    let mut used = lead.chars().count();
    let mut before = used;
    let mut len = 0;
    for (index, cell) in cells.iter().enumerate().skip(from) {
        if used + wide(*cell) + 1 > width && index + 1 < cells.len() {
            shown.push('…');
            break;
        }
        used += wide(*cell);
        shown.push(*cell);
        if index < at {
            before += wide(*cell);
        } else if index < at + span_len {
            len += wide(*cell);
        }
    }
    (shown.trim_end().to_owned(), before, len.max(1))
}

fn wide(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// A character that is safe to print and takes a known width: no control characters, no bidirectional overrides.
fn visible(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
        {
            '\u{fffd}'
        }
        c => c,
    }
}

fn clean(text: &str) -> String {
    text.chars().map(visible).collect()
}

/// Breaks a text at spaces; the first line has `used` columns taken, later ones are indented.
fn wrap(text: &str, width: usize, used: usize, indent: usize) -> String {
    let mut out = String::new();
    let mut column = used;
    for (index, word) in text.split(' ').enumerate() {
        let len: usize = word.chars().map(wide).sum();
        if index > 0 && column + 1 + len > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if index > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += len;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str, column: usize, span_len: usize) -> Diagnostic {
        Diagnostic {
            code: "unknown-key",
            severity: Severity::Error,
            file: "s.yaml".into(),
            line: 12,
            column,
            span_len,
            message: "unknown key `promt` in a task".into(),
            hint: Some("did you mean `prompt`?".into()),
            help: None,
            source_line: Some(line.into()),
        }
    }

    #[test]
    fn full_shows_the_line_and_underlines_the_place() {
        let shown = Diagnostics(vec![one("    promt: \"x\"", 5, 5)]).full(false);
        let want = "error[unknown-key]: unknown key `promt` in a task
  --> s.yaml:12:5
   |
12 |     promt: \"x\"
   |     ^^^^^
   = hint: did you mean `prompt`?

1 error
";
        assert_eq!(shown, want);
    }

    #[test]
    fn long_and_wide_lines_stay_in_eighty_columns() {
        let line = format!("{{{}promt: 日本語, {}}}", "a: 1, ".repeat(40), "b: 2, ".repeat(40));
        let column = line.find("promt").unwrap() + 1;
        let shown = Diagnostics(vec![one(&line, column, 5)]).full(false);
        for line in shown.lines() {
            assert!(line.chars().map(wide).sum::<usize>() <= WIDTH, "{line}");
        }
        let lines: Vec<&str> = shown.lines().collect();
        let at = lines[3].find("promt").map(|at| lines[3][..at].chars().map(wide).sum::<usize>());
        let under = lines[4].find('^').map(|at| lines[4][..at].chars().count());
        assert_eq!(at, under);
    }

    #[test]
    fn terminals_are_not_steered_by_a_file() {
        let mut hostile = one("promt: \u{1b}[2J \u{202e}x", 1, 5);
        hostile.message = "unknown key `\u{1b}[31m`\nerror: none".into();
        let all = Diagnostics(vec![hostile]);
        for text in [all.full(false), all.concise()] {
            assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
        }
        assert_eq!(all.concise().lines().count(), 1);
    }

    #[test]
    fn json_has_every_field() {
        let value: serde_json::Value = serde_json::from_str(&Diagnostics(vec![one("x", 1, 1)]).json()).unwrap();
        assert_eq!(value[0]["line"], 12);
        assert_eq!(value[0]["severity"], "error");
        assert_eq!(value[0]["code"], "unknown-key");
    }
}
