//! Tasks and graders of a resolved suite.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One row of a dataset: column → value. CSV cells are text.
pub type Row = Map<String, Value>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub name: String,
    pub category: Option<String>,
    pub dataset: Dataset,
    /// Chat messages, each a template over the row. A plain `prompt:` is one user message, with `system:` before it.
    pub messages: Vec<MessageTemplate>,
    /// A column whose equal values mark samples that are not independent.
    pub cluster_by: Option<String>,
    pub graders: Vec<GraderSpec>,
    pub examples: Vec<Example>,
    pub weight: f64,
    pub grade_truncated: bool,
    /// False: the task's requests carry no latency (they are graded only).
    pub latency: bool,
    /// `response_format` of `OpenAI`'s API, sent as written.
    pub response_format: Option<Value>,
    pub stop: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dataset {
    /// `path` is absolute and lies under the suite's root (or is `builtin:…`).
    File {
        path: PathBuf,
        limit: Option<usize>,
    },
    Cases(Vec<Row>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    System,
    User,
    Assistant,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageTemplate {
    pub role: Role,
    pub content: String,
}

/// `{row, reply, pass}`: a reply whose verdict is known; `validate` runs it. `pass: null` means Unscored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Example {
    pub row: Row,
    pub reply: String,
    pub pass: Option<bool>,
}

/// A grader's field. Text that is exactly one `{{ expression }}` yields the expression's value, other text is a
/// template that yields text; a list or map of such fields yields a list or map. What has no template in it is itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Field(pub Value);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraderSpec {
    /// The metric's name beside `accuracy`; unique within a task. Default: the kind.
    pub name: String,
    /// 0 measures without deciding.
    pub weight: f64,
    /// Passes where the value is at least this; default: the grader's own pass rule.
    pub threshold: Option<f64>,
    /// A named extraction that runs before the comparison (`reply`, `last_line`, `first_line`, `boxed`, `answer_line`).
    pub extract: Option<String>,
    pub kind: GraderKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraderKind {
    Exact { answer: Field },
    Contains { answer: Field },
    Regex { pattern: String, which: Which, answer: Option<Field> },
    Numeric { answer: Field, abs_tolerance: f64, rel_tolerance: f64, locale: NumberLocale },
    Choice { answer: Field, options: Field },
    Json { schema: Option<JsonSchemaRef>, fields: Option<Field> },
    All(Vec<GraderSpec>),
    Any(Vec<GraderSpec>),
    Not(Box<GraderSpec>),
}

impl GraderKind {
    pub fn name(&self) -> &'static str {
        match self {
            GraderKind::Exact { .. } => "exact",
            GraderKind::Contains { .. } => "contains",
            GraderKind::Regex { .. } => "regex",
            GraderKind::Numeric { .. } => "numeric",
            GraderKind::Choice { .. } => "choice",
            GraderKind::Json { .. } => "json",
            GraderKind::All(_) => "all",
            GraderKind::Any(_) => "any",
            GraderKind::Not(_) => "not",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    First,
    Last,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NumberLocale {
    /// `1,234.5`
    En,
    /// `1.234,5`
    De,
}

/// A JSON Schema, read once at load so that grading needs no file: the text travels in the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JsonSchemaRef {
    /// Where it came from, for messages; `inline` where written in the suite.
    pub source: String,
    pub schema: Value,
}
