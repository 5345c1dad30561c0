//! Splits a reply into reasoning and answer.
//!
//! Models that reason inside their reply mark it by `<think>`, `<thinking>`, `<reasoning>` or `[THINK]`. Three shapes occur:
//! closed, unclosed (the token limit fell inside a thought: everything after the tag is reasoning, never a half-thought graded as the answer), and an
//! orphan closing tag (the chat template wrote the opening one into the prompt: all that precedes it is reasoning).

/// How the reasoning inside the reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningEnd {
    /// There is none in the reply's text.
    Absent,
    Closed,
    Unclosed,
    /// A closing tag without an opening one.
    Orphan,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitReply {
    pub answer: String,
    /// From the server's own field first, then from tags; pieces are joined by a line break.
    pub reasoning: String,
    pub end: ReasoningEnd,
}

const TAGS: [(&str, &str); 4] =
    [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<reasoning>", "</reasoning>"), ("[think]", "[/think]")];

/// Splits `text`; `field` is what the server sent as reasoning beside it (empty where it sent none).
///
/// A tag right after a backtick or a quote is talk about tags, not a tag.
pub fn split_reasoning(text: &str, field: &str) -> SplitReply {
    let mut answer = String::new();
    let mut thoughts: Vec<&str> = if field.is_empty() { Vec::new() } else { vec![field] };
    let mut orphaned = String::new();
    let mut end = ReasoningEnd::Absent;
    let mut inside = false;
    let mut from = 0;
    for (start, stop, opens) in tags(text) {
        let piece = text.get(from..start).unwrap_or_default();
        match (inside, opens) {
            (false, true) => {
                answer.push_str(piece);
                inside = true;
            }
            (true, false) => {
                thoughts.push(piece);
                inside = false;
                end = ReasoningEnd::Closed;
            }
            (false, false) => {
                answer.push_str(piece);
                orphaned.push_str(&answer);
                answer.clear();
                end = ReasoningEnd::Orphan;
            }
            // A tag quoted inside a thought: the thought goes on.
            (true, true) => continue,
        }
        from = stop;
    }
    let rest = text.get(from..).unwrap_or_default();
    if inside {
        thoughts.push(rest);
        end = ReasoningEnd::Unclosed;
    } else {
        answer.push_str(rest);
    }
    if !orphaned.is_empty() {
        thoughts.push(&orphaned);
    }
    let reasoning = thoughts.iter().map(|t| t.trim()).filter(|t| !t.is_empty()).collect::<Vec<_>>().join("\n");
    SplitReply { answer, reasoning, end }
}

/// Every tag of `text` in order: start, end, and whether it opens.
fn tags(text: &str) -> Vec<(usize, usize, bool)> {
    let mut found = Vec::new();
    for (at, c) in text.char_indices() {
        if c != '<' && c != '[' {
            continue;
        }
        let quoted = text.get(..at).is_some_and(|before| before.ends_with(['`', '"', '\'']));
        if quoted {
            continue;
        }
        for (open, close) in TAGS {
            for (tag, opens) in [(open, true), (close, false)] {
                let end = at + tag.len();
                if text.get(at..end).is_some_and(|piece| piece.eq_ignore_ascii_case(tag)) {
                    found.push((at, end, opens));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> (String, String, ReasoningEnd) {
        let split = split_reasoning(text, "");
        (split.answer.trim().to_owned(), split.reasoning, split.end)
    }

    #[test]
    fn closed_thoughts_are_taken_out() {
        let (answer, reasoning, end) = split("<think>\n2+2=4\n</think>\n\n4");
        assert_eq!((answer.as_str(), reasoning.as_str(), end), ("4", "2+2=4", ReasoningEnd::Closed));
        let (answer, reasoning, _) = split("<THINK>a</THINK>x <think>b</think>y");
        assert_eq!((answer.as_str(), reasoning.as_str()), ("x y", "a\nb"));
    }

    #[test]
    fn an_unclosed_thought_leaves_no_answer() {
        let (answer, reasoning, end) = split("<think>The answer is 4, or maybe");
        assert_eq!((answer.as_str(), end), ("", ReasoningEnd::Unclosed));
        assert!(reasoning.contains("maybe"));
    }

    #[test]
    fn an_orphan_closing_tag_ends_a_thought() {
        let (answer, reasoning, end) = split("Okay, 2+2 is 5? No, 4.\n</think>\n4");
        assert_eq!((answer.as_str(), end), ("4", ReasoningEnd::Orphan));
        assert!(reasoning.starts_with("Okay"));
    }

    #[test]
    fn a_second_closing_tag_after_a_closed_thought_still_ends_reasoning() {
        let (answer, ..) = split("<think>a</think> more thought </think> 7");
        assert_eq!(answer, "7");
    }

    #[test]
    fn talk_about_tags_is_no_tag() {
        let (answer, _, end) = split("Wrap it in `<think>` and `</think>`.");
        assert_eq!((answer.as_str(), end), ("Wrap it in `<think>` and `</think>`.", ReasoningEnd::Absent));
    }

    #[test]
    fn the_servers_own_field_comes_first() {
        let split = split_reasoning("<think>b</think>4", "a");
        assert_eq!((split.answer.as_str(), split.reasoning.as_str()), ("4", "a\nb"));
    }
}
