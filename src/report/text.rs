//! Text from outside (answers, task names, server words) made safe to show.
//!
//! Two steps, always in this order: [`visible`] replaces what would act on the reader's screen instead of being read
//! (control characters, terminal escapes, bidi overrides, zero-width characters), then the format's own escaping.

use std::fmt::Write as _;

use base64_digits::encode;

/// Shows characters that act instead of being read as `⟨U+001B⟩`. Newline and tab are kept. (Unicode's own pictures of
/// control characters are missing from many fonts.)
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            // A carriage return before a newline says nothing that the newline does not.
            '\r' if rest.peek() == Some(&'\n') => {}
            '\n' | '\t' => out.push(c),
            c if acts(c) => {
                let _ = write!(out, "⟨U+{:04X}⟩", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

/// [`visible`] on one line: newlines and tabs become `⏎` and a space.
pub fn one_line(text: &str) -> String {
    visible(text).replace('\n', "⏎").replace('\t', " ")
}

/// At most `limit` characters; what is cut is marked by `…`.
pub fn clipped(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// C0 and C1 controls, bidi marks, embeddings, overrides and isolates, zero-width characters, line and paragraph separators,
/// tags, and noncharacters. The zero-width joiner is spared: emoji and Indic scripts are written with it.
fn acts(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200c}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

/// Escaped for HTML and XML, in text as in quoted attributes. Call [`visible`] first: XML 1.0 has no way at all to
/// write most control characters.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// One line of GitHub markdown, fit for a table cell: nothing in it is markup, a link, a mention or a cell border.
pub fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let line = one_line(text);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' | '!' => {
                out.push('\\');
                out.push(c);
            }
            // As entities, so that nobody is notified and no address becomes a link.
            '@' => out.push_str("&#64;"),
            ':' if rest.peek() == Some(&'/') => out.push_str("&#58;"),
            '.' if out.ends_with("www") => out.push_str("&#46;"),
            c => out.push(c),
        }
    }
    out
}

/// `'sha256-…'`, the source expression that allows exactly this inline text (CSP level 3, §6.7.2).
pub fn csp_hash(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    format!("'sha256-{}'", encode(digest.as_ref()))
}

mod base64_digits {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    /// Standard base64 with padding (RFC 4648 §4).
    pub fn encode(bytes: &[u8]) -> String {
        let digit = |bits: u32| DIGITS.get((bits & 63) as usize).map_or('A', |digit| char::from(*digit));
        let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
        for group in bytes.chunks(3) {
            let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for index in 0..4_u32 {
                let used = index as usize <= group.len();
                out.push(if used { digit(bits >> (18 - 6 * index)) } else { '=' });
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_shown_instead() {
        assert_eq!(visible("a\u{1b}[31mred\u{7f}"), "a⟨U+001B⟩[31mred⟨U+007F⟩");
        assert_eq!(visible("\u{202e}txt\u{200b}\u{9b}"), "⟨U+202E⟩txt⟨U+200B⟩⟨U+009B⟩");
        assert_eq!(visible("a\r\nb\rc\td"), "a\nb⟨U+000D⟩c\td");
        assert_eq!(visible("שלום עולם · 👩‍👧 · é"), "שלום עולם · 👩‍👧 · é");
        assert_eq!(one_line("a\nb\tc"), "a⏎b c");
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(escaped("<a href=\"x\" id='y'>&"), "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;");
        assert_eq!(markdown("see: ftp://x www.y.z"), "see: ftp&#58;//x www&#46;y.z");
        assert_eq!(markdown("a|b `c` <d> @me\n[x](y)"), "a\\|b \\`c\\` &lt;d&gt; &#64;me⏎\\[x\\](y)");
    }

    #[test]
    fn clipping_counts_characters() {
        assert_eq!(clipped("äöü", 3), "äöü");
        assert_eq!(clipped("äöü", 2), "äö…");
    }

    #[test]
    fn hashes_are_those_of_the_standard() {
        // FIPS 180-4: SHA-256 of the empty string.
        assert_eq!(csp_hash(""), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
        for (bytes, text) in [("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(encode(bytes.as_bytes()), text);
        }
    }
}
