//! Plain prose of any length, composed of whole sentences by seeded draws.

use std::sync::LazyLock;

use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

/// One sentence a line.
static SENTENCES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| include_str!("corpus.txt").lines().map(str::trim).filter(|line| !line.is_empty()).collect());

/// A text of `chars` characters, or up to a word fewer: `head` first, then sentences in a drawn order. The last one is cut
/// at a word and ends with a full stop. The corpus is plain ASCII.
pub fn compose(head: &str, chars: usize, rng: &mut Pcg64) -> String {
    let mut text = String::with_capacity(chars);
    text.push_str(head);
    let mut order: Vec<&str> = SENTENCES.clone();
    while text.len() < chars {
        order.shuffle(rng);
        for sentence in &order {
            let space = usize::from(text.ends_with('.'));
            let room = chars.saturating_sub(text.len() + space);
            if room == 0 {
                return text;
            }
            let piece = fitting(sentence, room);
            if piece.is_empty() {
                return text;
            }
            if space == 1 {
                text.push(' ');
            }
            text.push_str(piece);
            if piece.len() < sentence.len() {
                text.push('.');
                return text;
            }
        }
    }
    text
}

/// The sentence, or as many of its words as leave room for a full stop.
fn fitting(sentence: &str, room: usize) -> &str {
    if sentence.len() <= room {
        return sentence;
    }
    let start = sentence.get(..room).unwrap_or_default();
    let words = start.rfind(' ').and_then(|at| start.get(..at)).unwrap_or_default();
    words.trim_end_matches([',', ' '])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::world::rng;

    #[test]
    fn the_corpus_is_three_hundred_sentences_that_begin_differently() {
        assert!(SENTENCES.len() >= 300);
        assert!(SENTENCES.iter().all(|s| s.is_ascii() && s.ends_with('.') && (30..200).contains(&s.len())));
        let beginnings: HashSet<&str> = SENTENCES.iter().map(|s| &s[..20]).collect();
        assert!(beginnings.len() * 100 >= SENTENCES.len() * 98, "{} of {}", beginnings.len(), SENTENCES.len());
    }

    #[test]
    fn a_text_has_the_length_asked_and_ends_as_a_sentence() {
        for chars in [60, 200, 1_000, 37_777, 100_000] {
            let text = compose("Note: ", chars, &mut rng(7, "prose"));
            assert!(text.len() <= chars && text.len() + 30 > chars, "{} of {chars}", text.len());
            assert!(text.starts_with("Note: ") && text.ends_with('.') && !text.contains(".."), "{text}");
        }
        assert_eq!(compose("", 500, &mut rng(7, "a")), compose("", 500, &mut rng(7, "a")));
        assert_ne!(compose("", 500, &mut rng(7, "a")), compose("", 500, &mut rng(7, "b")));
    }
}
