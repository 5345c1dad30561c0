//! Conversations of a slot: what has been said in each, and which turn may follow.

use std::collections::{BTreeMap, HashMap};

use crate::deploy::Outcome;
use crate::plan::{Message, Plan, Unit};
use crate::spec::Role;
use crate::units::{Id, Span};

/// How a turn of an earlier session ended, and what the arm said.
pub type Answers = HashMap<Id, (Outcome, String)>;

/// The conversations of one arm's slot. Each is asked turn after turn, with the answers that this arm gave.
#[derive(Debug, Default)]
pub struct Talks {
    /// By conversation and repeat.
    talks: HashMap<(u32, u32), Talk>,
}

#[derive(Debug, Default)]
struct Talk {
    said: Vec<Message>,
    /// Turns that are still to be asked: turn → position in the slot.
    waiting: BTreeMap<u32, usize>,
}

/// What cannot begin with the slot.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Positions that wait for a turn before them.
    pub held: Vec<usize>,
    /// Positions behind a turn of an earlier session that left nothing to follow on.
    pub lost: Vec<Next>,
}

/// What a turn's end means for those behind it.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// Nothing follows.
    Nothing,
    /// This position follows, so long after the answer.
    Turn { position: usize, think: Span },
    /// These positions cannot be asked: what would stand between is missing.
    Lost { positions: Vec<usize>, outcome: Outcome, turn: u32 },
}

impl Talks {
    /// The talks of a slot's units. Those that an earlier session has asked are in `answers`; positions are those among the
    /// others, `open`.
    pub fn new(plan: &Plan, asked: &[Unit], open: &[Unit], answers: &Answers) -> (Talks, Waiting) {
        let mut talks = Talks::default();
        if plan.samples.iter().all(|s| s.conversation.is_none()) {
            return (talks, Waiting::default());
        }
        for (position, unit) in open.iter().enumerate() {
            if let Some((key, turn)) = turn_of(plan, unit) {
                talks.talks.entry(key).or_default().waiting.insert(turn, position);
            }
        }
        // Turns of earlier sessions are all before those that are open.
        let mut lost = Vec::new();
        for unit in asked {
            if let Some((outcome, text)) = answers.get(&unit.id) {
                let next = talks.ended(plan, unit, *outcome, text);
                lost.extend(matches!(next, Next::Lost { .. }).then_some(next));
            }
        }
        let begun = |talk: &Talk| talk.waiting.keys().next().copied();
        let held = talks.talks.values().flat_map(|talk| {
            let first = begun(talk);
            talk.waiting.iter().filter(move |(turn, _)| Some(**turn) != first).map(|(_, position)| *position)
        });
        let held = held.collect();
        (talks, Waiting { held, lost })
    }

    /// What was said before this unit's turn.
    pub fn said(&self, plan: &Plan, unit: &Unit) -> &[Message] {
        let talk = turn_of(plan, unit).and_then(|(key, _)| self.talks.get(&key));
        talk.map(|talk| talk.said.as_slice()).unwrap_or_default()
    }

    /// A turn has its outcome: takes the answer down and says what follows.
    pub fn ended(&mut self, plan: &Plan, unit: &Unit, outcome: Outcome, text: &str) -> Next {
        let Some((key, turn)) = turn_of(plan, unit) else { return Next::Nothing };
        let Some(talk) = self.talks.get_mut(&key) else { return Next::Nothing };
        talk.waiting.remove(&turn);
        let Some((_, &position)) = talk.waiting.first_key_value() else {
            self.talks.remove(&key);
            return Next::Nothing;
        };
        if !outcome.is_answered() || text.is_empty() {
            let positions = talk.waiting.values().copied().collect();
            self.talks.remove(&key);
            // Nobody has answered what was never asked.
            let outcome = if outcome.is_answered() { Outcome::Empty } else { outcome };
            return Next::Lost { positions, outcome, turn };
        }
        talk.said.extend_from_slice(plan.live_messages(unit.sample));
        talk.said.push(Message { role: Role::Assistant, content: text.to_owned() });
        let think = plan.samples.get(unit.sample as usize + 1).and_then(|s| s.think_time);
        Next::Turn { position, think: think.unwrap_or(Span::from_ms(0)) }
    }
}

/// The conversation and repeat of a measured unit, and its turn.
fn turn_of(plan: &Plan, unit: &Unit) -> Option<((u32, u32), u32)> {
    let sample = plan.samples.get(unit.sample as usize).filter(|_| unit.phase == crate::plan::Phase::Measured)?;
    sample.conversation.map(|(number, turn)| ((number, unit.repeat), turn))
}
