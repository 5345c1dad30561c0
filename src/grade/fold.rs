//! Folding: which differences of writing never matter.
//!
//! Both sides of a comparison go through the same folding:
//! 1. invisible characters go (zero-width, soft hyphen, direction marks);
//! 2. Unicode NFKC; but `10²` becomes `10^2` and `1½` becomes `1 1/2`, so that no digits fuse;
//! 3. curly quotes become straight ones, every dash and minus becomes `-`;
//! 4. case folding (upper, then lower case of each character: `ß` = `ss`, final sigma = sigma);
//! 5. Markdown emphasis (`*`, `_` at a word's border), backticks, and the backslash before `$ % # & _ * -` go;
//! 6. white space collapses;
//! 7. edges: enclosing quotes, and trailing `. , ; : !` go (never `?`, `%` or a bracket), as long as something is left.

use unicode_normalization::UnicodeNormalization;

/// Characters that print nothing.
pub fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Scripts that write words without spaces (or glue particles to them), so that word borders say nothing.
pub fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x3040..=0x30FF | 0x3400..=0x4DBF
        | 0x4E00..=0x9FFF | 0xAC00..=0xD7AF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}

/// The digit that a superscript character shows.
pub fn superscript(c: char) -> Option<char> {
    Some(match c {
        '⁰' => '0',
        '¹' => '1',
        '²' => '2',
        '³' => '3',
        '⁴' => '4',
        '⁵' => '5',
        '⁶' => '6',
        '⁷' => '7',
        '⁸' => '8',
        '⁹' => '9',
        '⁻' => '-',
        _ => return None,
    })
}

/// Numerator and denominator of a vulgar fraction character.
pub fn vulgar_fraction(c: char) -> Option<&'static str> {
    Some(match c {
        '½' => "1/2",
        '⅓' => "1/3",
        '⅔' => "2/3",
        '¼' => "1/4",
        '¾' => "3/4",
        '⅕' => "1/5",
        '⅖' => "2/5",
        '⅗' => "3/5",
        '⅘' => "4/5",
        '⅙' => "1/6",
        '⅚' => "5/6",
        '⅐' => "1/7",
        '⅛' => "1/8",
        '⅜' => "3/8",
        '⅝' => "5/8",
        '⅞' => "7/8",
        '⅑' => "1/9",
        '⅒' => "1/10",
        _ => return None,
    })
}

/// One writing of each dash and minus.
pub fn is_dash(c: char) -> bool {
    matches!(c, '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}')
}

/// Steps 1 to 3.
pub fn normalize(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let mut spelled = String::with_capacity(text.len());
    let mut in_superscript = false;
    for c in text.chars() {
        if is_invisible(c) {
            continue;
        }
        if let Some(digit) = superscript(c) {
            if !in_superscript {
                spelled.push('^');
            }
            spelled.push(digit);
            in_superscript = true;
            continue;
        }
        in_superscript = false;
        if let Some(fraction) = vulgar_fraction(c) {
            if spelled.ends_with(|p: char| p.is_numeric()) {
                spelled.push(' ');
            }
            spelled.push_str(fraction);
            continue;
        }
        spelled.push(c);
    }
    spelled
        .nfkc()
        .map(|c| match c {
            '‘' | '’' | '‚' | '‛' | '′' => '\'',
            '“' | '”' | '„' | '‟' | '«' | '»' | '″' => '"',
            '\u{2044}' => '/',
            c if is_dash(c) => '-',
            c => c,
        })
        .collect()
}

/// Step 4. Dotless `ı` stays itself, so that it never equals `i`.
fn fold_case(text: &str) -> Vec<char> {
    if text.is_ascii() {
        return text.chars().map(|c| c.to_ascii_lowercase()).collect();
    }
    let mut folded = Vec::with_capacity(text.len());
    for c in text.chars() {
        if c == 'ı' {
            folded.push(c);
        } else {
            folded.extend(c.to_uppercase().flat_map(char::to_lowercase));
        }
    }
    folded
}

/// Step 5.
fn strip_markup(chars: &[char]) -> Vec<char> {
    let mut kept: Vec<char> = Vec::with_capacity(chars.len());
    let mut at = 0;
    let mut before: Option<char> = None;
    while let Some(&c) = chars.get(at) {
        let run = match c {
            '*' | '_' => chars.iter().skip(at).take_while(|x| **x == c).count(),
            _ => 1,
        };
        let after = chars.get(at + run).copied();
        let drop = match c {
            '`' => true,
            '\\' => matches!(after, Some('$' | '%' | '#' | '&' | '_' | '*' | '-')),
            '*' | '_' => {
                let opens = before.is_none_or(|b| !b.is_alphanumeric()) && after.is_some_and(|a| !a.is_whitespace());
                let closes = before.is_some_and(|b| !b.is_whitespace()) && after.is_none_or(|a| !a.is_alphanumeric());
                opens || closes
            }
            _ => false,
        };
        if !drop {
            kept.extend(std::iter::repeat_n(c, run));
        }
        before = Some(c);
        at += run;
    }
    kept
}

/// Steps 1 to 6: for a search inside a text.
pub fn fold_inner(text: &str) -> String {
    let folded = strip_markup(&fold_case(&normalize(text)));
    let mut out = String::with_capacity(folded.len());
    for c in folded {
        if !c.is_whitespace() {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with(' ') {
            out.push(' ');
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Step 7.
fn strip_edges(text: &str) -> &str {
    let mut text = text.trim();
    loop {
        let mut next = text.trim_end_matches(['.', ',', ';', ':', '!']).trim_end();
        for quote in ['"', '\''] {
            if let Some(inner) = next.strip_prefix(quote).and_then(|t| t.strip_suffix(quote)) {
                next = inner.trim();
            }
        }
        if next.is_empty() || next.len() == text.len() {
            return text;
        }
        text = next;
    }
}

/// Steps 1 to 7: two texts are equal for `exact` where their foldings are.
pub fn fold(text: &str) -> String {
    strip_edges(&fold_inner(text)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_does_not_matter() {
        for (a, b) in [
            ("**Rome**.", "rome"),
            ("“Rome.”", "Rome"),
            ("`Rome`", "ROME"),
            ("Ro\u{200b}me", "Rome"),
            ("Cafe\u{301}", "Café"),
            ("Ｒｏｍｅ", "Rome"),
            ("Straße", "STRASSE"),
            ("ΟΔΟΣ", "οδος"),
            ("1990–1995", "1990-1995"),
            ("New\n York", "new york"),
            ("\\$5", "$5"),
            ("10²", "10^2"),
            ("1½", "1 1/2"),
            ("l’eau", "l'eau"),
        ] {
            assert_eq!(fold(a), fold(b), "{a} and {b}");
        }
    }

    #[test]
    fn what_carries_meaning_stays() {
        for (a, b) in [
            ("10²", "102"),
            ("2**3", "23"),
            ("snake_case", "snakecase"),
            ("20%", "20"),
            ("really?", "really"),
            ("-5", "5"),
            ("1½", "11/2"),
            ("ı", "i"),
            ("f(x)", "fx"),
        ] {
            assert_ne!(fold(a), fold(b), "{a} and {b}");
        }
    }

    #[test]
    fn edges_never_strip_to_nothing() {
        assert_eq!(fold("..."), "...");
        assert_eq!(fold("!"), "!");
        assert_eq!(fold("\"\""), "\"\"");
    }
}
