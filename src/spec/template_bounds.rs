//! What a template may be before the engine sees it: the engine walks nested code on the stack, and copies values
//! without counting the work, so both are bounded by what is written.

use super::template::TemplateError;

/// Bytes of a whole template that has tags.
const MAX_TEXT: usize = 64 << 10;
/// Bytes inside one `{{ … }}` or `{% … %}`.
const MAX_TAG: usize = 4 << 10;
/// Words, signs and texts inside one tag: a chain of operators is as deep as it is long.
const MAX_TOKENS: usize = 300;
const MAX_TAGS: usize = 500;
/// An `elif` lies inside the one before it.
const MAX_ELIFS: usize = 50;
/// How much larger than the row all `set`, `with` and `for` together may make a value.
const MAX_GROWTH: usize = 1 << 12;

/// Refuses a template that is too long, too deep, or multiplies values without end. Reads the text once, as the
/// engine's lexer does: texts, comments, raw blocks and brackets may all hold what looks like the end of a tag.
pub fn check(text: &str) -> Result<(), TemplateError> {
    let mut found = Found { elifs: 0, growth: 1 };
    let (mut rest, mut tags) = (text, 0);
    while let Some((at, kind)) = next_tag(rest) {
        let start = text.len() - rest.len() + at;
        let line = 1 + text.get(..start).map_or(0, |before| before.matches('\n').count());
        let refuse = |detail: String| Err(TemplateError::Syntax { detail, line });
        if text.len() > MAX_TEXT {
            return refuse(format!("a template has at most {MAX_TEXT} bytes, this one has {}", text.len()));
        }
        rest = rest.get(at + 2..).unwrap_or_default();
        if kind == '#' {
            rest = rest.split_once("#}").map_or("", |(_, after)| after);
            continue;
        }
        if let Some(after) = (kind == '%').then(|| basic_tag(rest, "raw")).flatten() {
            rest = after_raw(after);
            continue;
        }
        tags += 1;
        if tags > MAX_TAGS {
            return refuse(format!("a template has at most {MAX_TAGS} tags"));
        }
        let tag = Tag::read(rest, kind);
        if tag.len > MAX_TAG {
            return refuse(format!("a tag has at most {MAX_TAG} bytes"));
        }
        if tag.tokens > MAX_TOKENS {
            return refuse(format!("a tag has at most {MAX_TOKENS} words and signs"));
        }
        found.statement(&tag, kind).or_else(refuse)?;
        rest = rest.get(tag.len..).unwrap_or_default();
    }
    Ok(())
}

/// What adds up over the tags of one template.
struct Found {
    elifs: usize,
    growth: usize,
}

impl Found {
    fn statement(&mut self, tag: &Tag<'_>, kind: char) -> Result<(), String> {
        if kind != '%' {
            return Ok(());
        }
        match tag.word {
            "macro" | "call" => return Err("`macro` and `call` are not for suites".into()),
            "set" if !tag.assigns => return Err("a `set` needs `=`: text can't be gathered in a block".into()),
            "elif" => self.elifs += 1,
            "set" | "with" | "for" => self.growth = self.growth.saturating_mul(1 + tag.growing),
            _ => {}
        }
        if self.elifs > MAX_ELIFS {
            return Err(format!("a template has at most {MAX_ELIFS} `elif`"));
        }
        if self.growth > MAX_GROWTH {
            return Err("`set`, `with` and `for` with `+`, `~`, `*` or lists could grow a value without end".into());
        }
        Ok(())
    }
}

fn next_tag(text: &str) -> Option<(usize, char)> {
    let signs = text.bytes().zip(text.bytes().skip(1)).enumerate();
    let mut openers = signs.filter(|(_, pair)| matches!(pair, (b'{', b'{' | b'%' | b'#')));
    openers.next().map(|(at, (_, sign))| (at, char::from(sign)))
}

/// What follows the `%}` of a tag that is the one word `name`.
fn basic_tag<'t>(inside: &'t str, name: &str) -> Option<&'t str> {
    let inside = inside.strip_prefix(['-', '+']).unwrap_or(inside);
    let inside = inside.trim_ascii_start().strip_prefix(name)?.trim_ascii_start();
    inside.strip_prefix(['-', '+']).unwrap_or(inside).strip_prefix("%}")
}

fn after_raw(mut text: &str) -> &str {
    while let Some((_, inside)) = text.split_once("{%") {
        if let Some(after) = basic_tag(inside, "endraw") {
            return after;
        }
        text = inside;
    }
    ""
}

struct Tag<'t> {
    /// Bytes up to its end, which is not counted.
    len: usize,
    tokens: usize,
    /// Signs that may make a value larger than its parts, or hold one more than once.
    growing: usize,
    assigns: bool,
    word: &'t str,
}

impl<'t> Tag<'t> {
    fn read(inside: &'t str, kind: char) -> Tag<'t> {
        let end: &[u8] = if kind == '%' { b"%}" } else { b"}}" };
        let bytes = inside.as_bytes();
        let word = inside.trim_start_matches(['-', '+']).trim_ascii_start();
        let word = word.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        let mut tag = Tag { len: 0, tokens: 0, growing: 0, assigns: false, word };
        let (mut depth, mut quote, mut in_word) = (0_i64, None, false);
        while let Some(&byte) = bytes.get(tag.len) {
            if let Some(open) = quote {
                if byte == b'\\' {
                    tag.len += 1;
                } else if byte == open {
                    quote = None;
                }
                tag.len += 1;
                continue;
            }
            if depth == 0 && bytes.get(tag.len..).is_some_and(|rest| rest.starts_with(end)) {
                break;
            }
            let part = byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
            if !(byte.is_ascii_whitespace() || part && in_word) {
                tag.tokens += 1;
            }
            in_word = part;
            match byte {
                b'\'' | b'"' => quote = Some(byte),
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth -= 1,
                b'+' | b'~' | b'*' | b',' => tag.growing += 1,
                b'=' => tag.assigns = true,
                _ => {}
            }
            tag.len += 1;
        }
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::task::{Field, Row};
    use crate::spec::template::{render_field, render_text};
    use serde_json::json;

    fn refused(text: &str) -> String {
        match check(text) {
            Err(TemplateError::Syntax { detail, .. }) => detail,
            other => panic!("{other:?}: {text:.60}"),
        }
    }

    #[test]
    fn nothing_overflows_the_stack() {
        for n in [50_000, 2_000] {
            let elif = format!("{{% if x %}}{}{{% endif %}}", "{% elif x %}".repeat(n));
            let chains = ["1+", "- ", "-", "not ", "x|upper|", "x.", "1 if x else ", "x and "].map(|p| p.repeat(n));
            for text in chains.iter().map(|chain| format!("{{{{ {chain}x }}}}")).chain([elif]) {
                let row = Row::default();
                assert!(matches!(render_text(&text, &row), Err(TemplateError::Syntax { .. })), "{text:.40}");
                assert!(matches!(render_field(&Field(json!(text)), &row), Err(TemplateError::Syntax { .. })));
            }
        }
    }

    #[test]
    fn what_is_allowed_fits_the_stack() {
        let row: Row = serde_json::from_value(json!({"x": 1})).unwrap();
        for part in ["1+", "-", "not ", "x if x else ", "x and ", "x~"] {
            let inside = if part.contains("if") { part.repeat(70) } else { part.repeat(140) };
            assert!(render_text(&format!("{{{{ {inside}x }}}}"), &row).is_ok(), "{part}");
        }
        let elif = format!("{{% if not x %}}{}{{% endif %}}", "{% elif not x %}".repeat(MAX_ELIFS));
        assert_eq!(render_text(&elif, &row).unwrap(), "");
        assert!(render_text(&"{{ x }}\n".repeat(MAX_TAGS), &row).is_ok());
    }

    #[test]
    fn ends_of_tags_are_found_as_the_engine_finds_them() {
        let chain = "1+".repeat(2_000);
        for hidden in [
            format!("{{{{ \"}}}}\" + {chain}1 }}}}"),
            format!("{{{{ {{'a': {{}}}} + {chain}1 }}}}"),
            format!("{{% raw %}}{{{{ ' {{% endraw %}}{{{{ \"' }}}}\" + {chain}1 }}}}"),
            format!("{{# {{{{ ' #}}{{{{ \"' }}}}\" + {chain}1 }}}}"),
        ] {
            assert!(refused(&hidden).contains("words and signs"), "{hidden:.60}");
        }
        assert_eq!(check(&format!("{{% raw %}}{{{{ {chain} }}}}{{% endraw %}}{{{{ x }}}}")), Ok(()));
    }

    #[test]
    fn no_value_doubles_without_end() {
        let doubled = |tag: &str| format!("{{% set x = [1] %}}{}{{{{ x|length }}}}", tag.repeat(34));
        for tag in ["{% set x = x + x %}", "{% set x = [x, x] %}", "{% for x in [x ~ x] %}", "{% with x = x * 2 %}"] {
            assert!(refused(&doubled(tag)).contains("without end"), "{tag}");
        }
        assert!(refused(&doubled("{% set x %}{{ x }}{{ x }}{% endset %}")).contains("block"));
        assert!(refused("{% macro f(x) %}{{ f(x + x) }}{% endmacro %}").contains("macro"));
        assert_eq!(check("{% set a = b ~ c %}{% for k, v in o|items %}{{ k + v }}{% endfor %}"), Ok(()));
    }
}
