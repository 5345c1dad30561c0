//! What grading says of an answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units::Id;

/// A grader's word on one answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Scored(Score),
    /// Nobody can say: the sample is left out of `accuracy` and counted apart.
    Unscored {
        why: Unscored,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    pub pass: bool,
    /// 0 to 1.
    pub value: f64,
    /// What was extracted from the reply; absent where no answer could be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Why, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
    /// Further measures of the grader by name (`raw`, `unwrapped`, `schema_valid`), each 0 to 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measures: BTreeMap<String, f64>,
}

impl Score {
    pub fn binary(pass: bool, answer: Option<String>, explanation: impl Into<String>) -> Score {
        Score {
            pass,
            value: if pass { 1.0 } else { 0.0 },
            answer,
            explanation: Some(explanation.into()),
            measures: BTreeMap::new(),
        }
    }
}

/// Why there is no score. None of these is the model's fault, except as the outcome says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unscored {
    /// The request failed: the outcome's name.
    Outcome(String),
    Harness,
    Quota,
    Judge,
    Sandbox,
    /// The suite's own expectation can't be used for this row (an empty gold answer, a schema that does not compile).
    Suite,
    /// The comparison can't decide.
    Undecided,
}

impl Unscored {
    pub fn name(&self) -> String {
        match self {
            Unscored::Outcome(outcome) => outcome.clone(),
            Unscored::Harness => "harness".to_owned(),
            Unscored::Quota => "quota".to_owned(),
            Unscored::Judge => "judge".to_owned(),
            Unscored::Sandbox => "sandbox".to_owned(),
            Unscored::Suite => "suite_error".to_owned(),
            Unscored::Undecided => "undecided".to_owned(),
        }
    }
}

/// One line of `scores.jsonl`: the verdict on one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreRecord {
    pub unit: Id,
    pub pair: Id,
    pub arm: String,
    pub task: String,
    pub sample: u32,
    pub repeat: u32,
    /// Absent where unscored.
    pub pass: Option<bool>,
    /// Weighted mean of the graders of weight > 0; absent where unscored.
    pub value: Option<f64>,
    /// What the deciding grader extracted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unscored_why: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graders: Vec<GraderRecord>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraderRecord {
    pub name: String,
    pub kind: String,
    /// Bumped whenever scores of this kind can move.
    pub version: u32,
    pub weight: f64,
    pub verdict: Verdict,
}
