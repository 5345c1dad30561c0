//! Warm-up prompts: like the measured ones in length, and never one of them, so that no cache is primed.

use super::types::{Message, Sample};
use crate::spec::Role;

const SUBJECTS: [&str; 8] = [
    "how bread dough changes while it rests",
    "why rivers bend on flat land",
    "what a tide table is used for",
    "how a bicycle stays upright",
    "why leaves turn yellow in autumn",
    "what a lighthouse keeper did at night",
    "how paper is made from wood",
    "why bridges have expansion joints",
];

const FILLER: &str = "The answer should be short, in plain words, and without a list. ";

/// `count` prompts of about the median length of the measured ones.
pub fn prompts(count: u32, samples: &[Sample]) -> Vec<Vec<Message>> {
    let mut lengths: Vec<usize> =
        samples.iter().map(|s| s.messages.iter().map(|m| m.content.len()).sum::<usize>()).collect();
    lengths.sort_unstable();
    let target = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    (0..count).map(|index| vec![Message { role: Role::User, content: prompt(index, target) }]).collect()
}

/// The number comes first, so that no two prompts share a prefix that an engine could cache.
fn prompt(index: u32, target_bytes: usize) -> String {
    let subject = SUBJECTS.get(index as usize % SUBJECTS.len()).copied().unwrap_or_default();
    let mut text = format!("Warm-up {}: explain {subject}. ", index + 1);
    while text.len() + FILLER.len() <= target_bytes {
        text.push_str(FILLER);
    }
    text.trim_end().to_owned()
}
