//! Spells text out for [`super::number_scan`]: one minus, ASCII digits, fractions and exponents in full, LaTeX unwrapped.

use super::fold::{is_dash, is_invisible, superscript, vulgar_fraction};

/// Thin and no-break spaces: separators of thousands, never borders of numbers.
pub const GROUP_SPACE: char = '\u{a0}';

/// Text made ready for the scanner: one minus, ASCII digits, fractions and exponents spelled out, LaTeX unwrapped.
pub fn prepare(text: &str) -> Vec<char> {
    let mut out: Vec<char> = Vec::with_capacity(text.len());
    let mut rest = text;
    let mut in_superscript = false;
    while let Some(c) = rest.chars().next() {
        let mut eaten = c.len_utf8();
        let was_superscript = std::mem::take(&mut in_superscript);
        if let Some(digit) = superscript(c) {
            if !was_superscript {
                out.push('^');
            }
            out.push(digit);
            in_superscript = true;
        } else if let Some(fraction) = vulgar_fraction(c) {
            if out.last().is_some_and(char::is_ascii_digit) {
                out.push(' ');
            }
            out.extend(fraction.chars());
        } else if c == '\\' {
            eaten = latex(rest, &mut out);
        } else if c == '{' {
            eaten = brace(rest, &mut out);
        } else if !is_invisible(c) {
            out.push(plain(c));
        }
        rest = rest.get(eaten..).unwrap_or_default();
    }
    out
}

fn plain(c: char) -> char {
    match c {
        '\u{a0}' | '\u{2007}' | '\u{2009}' | '\u{202f}' => GROUP_SPACE,
        '\u{2044}' => '/',
        '×' | '·' | '⋅' | '∙' => '×',
        '’' | '′' => '\'',
        '٪' | '﹪' => '%',
        '\u{ff01}'..='\u{ff5e}' if !is_dash(c) => char::from_u32(u32::from(c) - 0xFEE0).unwrap_or(c),
        c if is_dash(c) => '-',
        c => decimal_digit(c).unwrap_or(c),
    }
}

/// Digits of other scripts that are used like ours.
fn decimal_digit(c: char) -> Option<char> {
    const ZEROS: [u32; 6] = [0x0660, 0x06F0, 0x0966, 0x09E6, 0x0E50, 0x1040];
    let code = u32::from(c);
    ZEROS.iter().find(|zero| (**zero..**zero + 10).contains(&code)).and_then(|zero| char::from_digit(code - zero, 10))
}

/// A command at the start of `rest`; gives the bytes it took.
fn latex(rest: &str, out: &mut Vec<char>) -> usize {
    const DROPPED: [&str; 8] = ["\\left", "\\right", "\\!", "\\(", "\\)", "\\[", "\\]", "\\displaystyle"];
    const TIMES: [&str; 2] = ["\\times", "\\cdot"];
    const FRACTIONS: [&str; 3] = ["\\frac", "\\dfrac", "\\tfrac"];
    const SPACES: [&str; 2] = ["\\,", "\\;"];
    for name in FRACTIONS {
        if let Some(taken) = rest.strip_prefix(name).and_then(|args| fraction_arguments(args, out)) {
            return name.len() + taken;
        }
    }
    let lookup = |names: &[&'static str]| names.iter().copied().find(|name| rest.starts_with(name));
    if let Some(name) = lookup(&DROPPED) {
        out.push(' ');
        return name.len();
    }
    if let Some(name) = lookup(&TIMES) {
        out.push('×');
        return name.len();
    }
    if let Some(name) = lookup(&SPACES) {
        out.push(GROUP_SPACE);
        return name.len();
    }
    if rest.starts_with("\\circ") {
        out.push('°');
        return 5;
    }
    // `\$`, `\%`: the mark itself follows. Another command's name can't be a number's neighbour.
    let name: usize = rest.get(1..).unwrap_or_default().bytes().take_while(u8::is_ascii_alphabetic).count();
    if name > 0 {
        out.push(' ');
    }
    1 + name
}

/// `{3}{4}` becomes `3/4`; anything but digits in the braces is left to be read as it stands.
fn fraction_arguments(args: &str, out: &mut Vec<char>) -> Option<usize> {
    // Longer arguments are no plain numbers; looking no further keeps the walk linear.
    let args = args.get(..args.floor_char_boundary(96))?;
    let (num, rest) = args.strip_prefix('{')?.split_once('}')?;
    let (den, _) = rest.strip_prefix('{')?.split_once('}')?;
    let plain_number = |text: &str| {
        !text.is_empty() && text.len() < 40 && text.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit())
    };
    if !plain_number(num) || !plain_number(den) {
        return None;
    }
    if out.last().is_some_and(char::is_ascii_digit) {
        out.push(' ');
    }
    out.extend(num.chars().chain(['/']).chain(den.chars()));
    Some(num.len() + den.len() + 4)
}

/// `{,}` is a LaTeX separator of thousands, `^{5}` an exponent; other braces are spaces.
fn brace(rest: &str, out: &mut Vec<char>) -> usize {
    if rest.starts_with("{,}") {
        out.push(',');
        return 3;
    }
    if out.last() == Some(&'^') {
        let near = rest.get(1..rest.floor_char_boundary(10));
        let inner = near.and_then(|r| r.split_once('}')).map(|(inner, _)| inner);
        if let Some(inner) = inner.filter(|i| i.len() < 8 && i.chars().all(|c| c.is_ascii_digit() || c == '-')) {
            out.extend(inner.chars());
            return inner.len() + 2;
        }
    }
    out.push(' ');
    1
}
