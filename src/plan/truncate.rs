//! Truncated context done by the harness, by a character estimate of tokens.

use super::types::Message;
use crate::spec::{Context, Keep};

/// Characters that make one token: a common rule of thumb for English text. Figures that rest on it are marked.
pub const CHARS_PER_TOKEN: u64 = 4;

/// Cuts the longest message so that all messages together hold about `max_prompt_tokens`. Returns the messages and the
/// number of characters cut; `None` where nothing had to be cut.
pub fn truncate(messages: &[Message], context: &Context) -> Option<(Vec<Message>, u64)> {
    let budget = u64::from(context.max_prompt_tokens) * CHARS_PER_TOKEN;
    let lengths: Vec<u64> = messages.iter().map(|m| m.content.chars().count() as u64).collect();
    let total: u64 = lengths.iter().sum();
    if total <= budget {
        return None;
    }
    let (longest, length) = lengths.iter().copied().enumerate().max_by_key(|&(index, length)| (length, index))?;
    let kept = length.saturating_sub(total - budget);
    let mut cut = messages.to_vec();
    let message = cut.get_mut(longest)?;
    message.content = keep_chars(&message.content, kept as usize, context.keep);
    Some((cut, length - kept))
}

/// `kept` characters of `text`: its head, its tail, or both ends with the middle left out.
fn keep_chars(text: &str, kept: usize, keep: Keep) -> String {
    let chars: Vec<char> = text.chars().collect();
    let (head, tail) = match keep {
        Keep::Head => (kept, 0),
        Keep::Tail => (0, kept),
        Keep::MiddleOut => (kept.div_ceil(2), kept / 2),
    };
    let from_tail = chars.len().saturating_sub(tail);
    chars.iter().take(head).chain(chars.iter().skip(from_tail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Role;

    fn user(text: &str) -> Message {
        Message { role: Role::User, content: text.to_owned() }
    }

    fn cut(text: &str, tokens: u32, keep: Keep) -> Option<(String, u64)> {
        let context = Context { max_prompt_tokens: tokens, keep };
        truncate(&[user(text)], &context).map(|(m, n)| (m[0].content.clone(), n))
    }

    #[test]
    fn what_fits_is_left_alone() {
        assert_eq!(cut("abcdefgh", 2, Keep::Tail), None);
    }

    #[test]
    fn each_rule_keeps_its_end() {
        assert_eq!(cut("abcdefghij", 2, Keep::Head), Some(("abcdefgh".into(), 2)));
        assert_eq!(cut("abcdefghij", 2, Keep::Tail), Some(("cdefghij".into(), 2)));
        assert_eq!(cut("abcdefghij", 2, Keep::MiddleOut), Some(("abcdghij".into(), 2)));
    }

    #[test]
    fn cuts_between_characters_and_only_the_longest_message() {
        let context = Context { max_prompt_tokens: 1, keep: Keep::Tail };
        let (messages, n) = truncate(&[user("é"), user("äöüß€")], &context).unwrap();
        assert_eq!((messages[0].content.as_str(), messages[1].content.as_str(), n), ("é", "üß€", 2));
    }
}
