//! Named extractions: which part of a reply a comparison sees.

use super::phrase::last_boxed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extraction {
    /// The whole reply.
    Reply,
    /// The first line that is not blank.
    FirstLine,
    /// The last line that is not blank.
    LastLine,
    /// The last `\boxed{…}` whose braces balance.
    Boxed,
    /// What follows the last line-leading `answer:` (any case; `final answer:`, Markdown emphasis and a heading or list mark before it allowed),
    /// on its line or, where that is empty, on the next line that is not blank.
    AnswerLine,
}

/// Every name that `extract:` takes.
pub const EXTRACTIONS: [(&str, Extraction); 5] = [
    ("reply", Extraction::Reply),
    ("first_line", Extraction::FirstLine),
    ("last_line", Extraction::LastLine),
    ("boxed", Extraction::Boxed),
    ("answer_line", Extraction::AnswerLine),
];

impl Extraction {
    /// The extraction of this name; the error lists all names.
    pub fn named(name: &str) -> Result<Extraction, String> {
        EXTRACTIONS.iter().find(|(known, _)| *known == name).map(|(_, extraction)| *extraction).ok_or_else(|| {
            let names: Vec<&str> = EXTRACTIONS.iter().map(|(name, _)| *name).collect();
            format!("unknown extraction `{name}`; there are {}", names.join(", "))
        })
    }

    pub fn name(self) -> &'static str {
        EXTRACTIONS.iter().find(|(_, extraction)| *extraction == self).map_or("reply", |(name, _)| name)
    }

    /// The chosen part, trimmed; `None` where the reply has no such part or it is blank.
    pub fn apply(self, text: &str) -> Option<&str> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let part = match self {
            Extraction::Reply => Some(text),
            Extraction::FirstLine => lines.next(),
            Extraction::LastLine => lines.next_back(),
            Extraction::Boxed => last_boxed(text),
            Extraction::AnswerLine => answer_line(text),
        };
        part.map(str::trim).filter(|part| !part.is_empty())
    }
}

const MARKS: [char; 8] = ['*', '_', '#', '>', '-', '`', ' ', '\t'];

fn answer_line(text: &str) -> Option<&str> {
    let mut wanted = None;
    let mut pending = false;
    for line in text.lines() {
        if let Some(rest) = after_answer_label(line) {
            pending = rest.is_empty();
            wanted = Some(rest);
        } else if pending && !line.trim().is_empty() {
            wanted = Some(line.trim());
            pending = false;
        }
    }
    wanted
}

/// `Rome` of `**Answer:** Rome`; the emphasis that wraps the whole line goes with it.
fn after_answer_label(line: &str) -> Option<&str> {
    let bare = line.trim_start_matches(MARKS);
    let bare = strip_word(bare, "final").map_or(bare, str::trim_start);
    let rest = strip_word(bare, "answer")?.trim_start_matches(['*', '_', ' ', '\t']);
    let rest = rest.strip_prefix(':').or_else(|| rest.strip_prefix('：'))?.trim();
    // `**Answer:** x` leaves marks in front, `**Answer: x**` behind.
    Some(match rest.strip_prefix("**").or_else(|| rest.strip_prefix("__")) {
        Some(inner) if !inner.contains("**") && !inner.contains("__") => inner.trim(),
        None if line.trim_start().starts_with("**") => rest.strip_suffix("**").unwrap_or(rest).trim(),
        None | Some(_) => rest,
    })
}

fn strip_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let head = text.get(..word.len())?;
    head.eq_ignore_ascii_case(word).then(|| text.get(word.len()..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_lines_are_found() {
        for (text, want) in [
            ("Answer: Rome", Some("Rome")),
            ("ANSWER: Rome\nanswer: Oslo", Some("Oslo")),
            ("**Answer:** Rome", Some("Rome")),
            ("**Answer: Rome**", Some("Rome")),
            ("## Final Answer:\n\nRome\nmore", Some("Rome")),
            ("The answer: Rome", None),
            ("Answer Rome", None),
            ("Answer:", None),
        ] {
            assert_eq!(Extraction::AnswerLine.apply(text), want, "{text}");
        }
    }

    #[test]
    fn lines_and_boxes() {
        assert_eq!(Extraction::FirstLine.apply("\n a \n b\n\n"), Some("a"));
        assert_eq!(Extraction::LastLine.apply("\n a \n b\r\n\n"), Some("b"));
        assert_eq!(Extraction::Boxed.apply(r"so \boxed{ 7 }"), Some("7"));
        assert_eq!(Extraction::Reply.apply(" x "), Some("x"));
        assert_eq!(Extraction::LastLine.apply("  \n"), None);
    }

    #[test]
    fn an_unknown_name_lists_the_known() {
        let error = Extraction::named("lastline").unwrap_err();
        assert!(error.contains("lastline") && error.contains("last_line") && error.contains("answer_line"), "{error}");
    }
}
