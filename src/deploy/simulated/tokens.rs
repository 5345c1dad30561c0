//! Pieces of text that stand for tokens, and idle words. No model's tokenizer; near enough in size (about four
//! characters each), and the pieces joined are the text.

use rand_pcg::Pcg64;

use super::draw::pick;

/// Longest piece in characters, without its leading space.
const LONGEST: usize = 6;

/// Splits text into pieces: a word's part with the space before it, or one other character.
pub fn split(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut piece = String::new();
    let mut letters = 0_usize;
    for c in text.chars() {
        let joins = c.is_alphanumeric() && letters < LONGEST && (letters > 0 || piece == " " || piece.is_empty());
        if !joins && !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
            letters = 0;
        }
        piece.push(c);
        letters += usize::from(c.is_alphanumeric());
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

/// How many pieces `split` would give; costs no memory.
pub fn count(text: &str) -> u64 {
    let (mut pieces, mut letters, mut space) = (0_u64, 0_usize, false);
    for c in text.chars() {
        let joins = c.is_alphanumeric() && letters < LONGEST && (letters > 0 || space);
        if !joins {
            pieces += 1;
            letters = 0;
        }
        letters += usize::from(c.is_alphanumeric());
        space = c == ' ';
    }
    pieces
}

/// Words that answer nothing: none is a name, a number, an option's letter or a thing that one could ask for.
const WORDS: [&str; 40] = [
    "well",
    "here",
    "this",
    "seems",
    "rather",
    "often",
    "perhaps",
    "then",
    "also",
    "still",
    "about",
    "given",
    "being",
    "asked",
    "whether",
    "once",
    "again",
    "quite",
    "likely",
    "indeed",
    "thus",
    "since",
    "though",
    "always",
    "maybe",
    "further",
    "soon",
    "along",
    "instead",
    "mostly",
    "therefore",
    "hence",
    "anyway",
    "besides",
    "meanwhile",
    "somehow",
    "almost",
    "usually",
    "however",
    "together",
];

/// Sentences of idle words, about `tokens` pieces long, ending with a full stop. Empty for 0.
pub fn idle(rng: &mut Pcg64, tokens: u32) -> String {
    let mut text = String::new();
    for position in 0..tokens {
        let word = pick(rng, &WORDS).copied().unwrap_or("word");
        if position % 12 == 0 {
            text.push_str(if position == 0 { "" } else { ". " });
            let mut letters = word.chars();
            text.extend(letters.next().map(|c| c.to_ascii_uppercase()));
            text.push_str(letters.as_str());
        } else {
            text.push(' ');
            text.push_str(word);
        }
    }
    if !text.is_empty() {
        text.push('.');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_joined_are_the_text_and_count_agrees() {
        let texts = ["", " ", "Rome.", "The answer is 42.", "Straße  nach Łódź\n\n{\"a\": [1, 2.5]}", "🦀🦀 ok", "  x"];
        for text in texts {
            let pieces = split(text);
            assert_eq!(pieces.concat(), text);
            assert_eq!(pieces.len() as u64, count(text), "{pieces:?}");
        }
        assert_eq!(split("The answer is Rome."), ["The", " answer", " is", " Rome", "."]);
    }

    #[test]
    fn idle_words_have_the_length_asked() {
        let mut rng = crate::world::rng(1, "idle");
        assert_eq!(idle(&mut rng, 0), "");
        let tokens = count(&idle(&mut rng, 30));
        assert!((28..=45).contains(&tokens), "{tokens}");
    }
}
