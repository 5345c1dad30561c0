//! From a suite's grader to one that is ready to run: patterns and schemas compiled once, every setting checked.

use regex::RegexBuilder;

use super::choice::Choice;
use super::combine::{All, Any, Not};
use super::extract::Extraction;
use super::grader::{AnswerText, FieldRenderer, Grader};
use super::json::{JsonGrader, compile_schema};
use super::numeric::Numeric;
use super::score::{GraderRecord, Score, Verdict};
use super::text::{Contains, Exact, Pattern};
use crate::spec::{GraderKind, GraderSpec, Row, Task};

/// Size of a compiled pattern.
pub const MAX_PATTERN_BYTES: usize = 1 << 20;
/// How deep `all`, `any` and `not` may nest.
const MAX_NESTING: usize = 16;

/// A grader of a suite that can't be built. Every variant names the grader.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum GradeError {
    #[error("grader `{grader}`: {detail}")]
    Extract { grader: String, detail: String },
    #[error("grader `{grader}`: the pattern can't be used: {detail}")]
    Pattern { grader: String, detail: String },
    #[error("grader `{grader}`: {detail}")]
    Schema { grader: String, detail: String },
    #[error("grader `{grader}`: `{setting}` must be {must}, not {is}")]
    Setting { grader: String, setting: &'static str, must: &'static str, is: f64 },
    #[error("grader `{grader}`: `{kind}` needs at least one part of weight above 0")]
    NoParts { grader: String, kind: &'static str },
    #[error("grader `{grader}`: nested more than {MAX_NESTING} deep")]
    TooDeep { grader: String },
}

/// A grader with its place in the task.
pub struct Built {
    pub name: String,
    pub weight: f64,
    pub grader: Box<dyn Grader>,
}

impl Built {
    pub fn record(&self, verdict: Verdict) -> GraderRecord {
        GraderRecord {
            name: self.name.clone(),
            kind: self.grader.kind().to_owned(),
            version: self.grader.version(),
            weight: self.weight,
            verdict,
        }
    }
}

/// All graders of a task, in its order.
pub fn build_task(task: &Task) -> Result<Vec<Built>, GradeError> {
    task.graders.iter().map(|spec| built(spec, 0)).collect()
}

/// One grader with its extraction and threshold. A schema that does not compile is no error here: its rows are
/// unscored (see [`check`] for the strict reading).
pub fn build(spec: &GraderSpec) -> Result<Box<dyn Grader>, GradeError> {
    built(spec, 0).map(|built| built.grader)
}

/// Every mistake of a grader, schemas and nested graders included.
pub fn check(spec: &GraderSpec) -> Vec<GradeError> {
    let parts: &[GraderSpec] = match &spec.kind {
        GraderKind::All(parts) | GraderKind::Any(parts) => parts,
        GraderKind::Not(part) => std::slice::from_ref(part),
        _ => &[],
    };
    let mut errors: Vec<GradeError> = parts.iter().flat_map(check).collect();
    if let GraderKind::Json { schema: Some(schema), .. } = &spec.kind
        && let Err(detail) = compile_schema(schema)
    {
        errors.push(GradeError::Schema { grader: spec.name.clone(), detail });
    }
    if let Err(error) = build(spec)
        && !errors.contains(&error)
    {
        errors.push(error);
    }
    errors
}

fn built(spec: &GraderSpec, depth: usize) -> Result<Built, GradeError> {
    let grader = || spec.name.clone();
    if depth > MAX_NESTING {
        return Err(GradeError::TooDeep { grader: grader() });
    }
    let setting = |setting, ok: bool, must, is| {
        if ok { Ok(()) } else { Err(GradeError::Setting { grader: grader(), setting, must, is }) }
    };
    setting("weight", spec.weight.is_finite() && spec.weight >= 0.0, "a number of at least 0", spec.weight)?;
    if let Some(threshold) = spec.threshold {
        setting("threshold", (0.0..=1.0).contains(&threshold), "between 0 and 1", threshold)?;
    }
    let extract = match &spec.extract {
        None => Extraction::Reply,
        Some(name) => Extraction::named(name).map_err(|detail| GradeError::Extract { grader: grader(), detail })?,
    };
    if let GraderKind::Numeric { abs_tolerance, rel_tolerance, .. } = &spec.kind {
        let sound = |value: f64| value.is_finite() && value >= 0.0;
        setting("abs_tolerance", sound(*abs_tolerance), "a number of at least 0", *abs_tolerance)?;
        setting("rel_tolerance", sound(*rel_tolerance), "a number of at least 0", *rel_tolerance)?;
    }
    let inner = comparison(spec, depth)?;
    let piped = Piped { inner, extract, threshold: spec.threshold };
    Ok(Built { name: grader(), weight: spec.weight, grader: Box::new(piped) })
}

fn comparison(spec: &GraderSpec, depth: usize) -> Result<Box<dyn Grader>, GradeError> {
    let parts = |specs: &[GraderSpec]| -> Result<Vec<Built>, GradeError> {
        let parts: Vec<Built> = specs.iter().map(|part| built(part, depth + 1)).collect::<Result<_, _>>()?;
        if parts.iter().any(|part| part.weight > 0.0) {
            Ok(parts)
        } else {
            Err(GradeError::NoParts { grader: spec.name.clone(), kind: spec.kind.name() })
        }
    };
    Ok(match &spec.kind {
        GraderKind::Exact { answer } => Box::new(Exact { answer: answer.clone() }),
        GraderKind::Contains { answer } => Box::new(Contains { answer: answer.clone() }),
        GraderKind::Regex { pattern, which, answer } => {
            let pattern = RegexBuilder::new(pattern)
                .size_limit(MAX_PATTERN_BYTES)
                .dfa_size_limit(2 * MAX_PATTERN_BYTES)
                .build()
                .map_err(|error| GradeError::Pattern { grader: spec.name.clone(), detail: error.to_string() })?;
            Box::new(Pattern { regex: pattern, which: *which, answer: answer.clone() })
        }
        GraderKind::Numeric { answer, abs_tolerance, rel_tolerance, locale } => Box::new(Numeric {
            answer: answer.clone(),
            abs_tolerance: *abs_tolerance,
            rel_tolerance: *rel_tolerance,
            locale: *locale,
        }),
        GraderKind::Choice { answer, options } => Box::new(Choice { answer: answer.clone(), options: options.clone() }),
        GraderKind::Json { schema, fields } => Box::new(JsonGrader::new(schema.as_ref(), fields.clone())),
        GraderKind::All(specs) => Box::new(All(parts(specs)?)),
        GraderKind::Any(specs) => Box::new(Any(parts(specs)?)),
        GraderKind::Not(part) => Box::new(Not(Box::new(built(part, depth + 1)?))),
    })
}

/// A comparison behind its extraction, with its threshold.
struct Piped {
    inner: Box<dyn Grader>,
    extract: Extraction,
    threshold: Option<f64>,
}

impl Grader for Piped {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn version(&self) -> u32 {
        self.inner.version()
    }

    fn grade(&self, answer: &AnswerText<'_>, row: &Row, fields: &FieldRenderer<'_>) -> Verdict {
        let part = if self.extract == Extraction::Reply { Some(answer.text) } else { self.extract.apply(answer.text) };
        // The comparison runs on nothing too, so that an unusable gold is told apart from a missing answer.
        let verdict = self.inner.grade(&AnswerText { text: part.unwrap_or_default(), ..*answer }, row, fields);
        match verdict {
            Verdict::Scored(score) if part.is_none() && !answer.is_empty() => Verdict::Scored(Score {
                explanation: Some(format!("nothing to extract by `{}`", self.extract.name())),
                ..score
            }),
            Verdict::Scored(score) => Verdict::Scored(self.with_threshold(score)),
            unscored @ Verdict::Unscored { .. } => unscored,
        }
    }
}

impl Piped {
    /// No threshold lifts a score without an answer.
    fn with_threshold(&self, score: Score) -> Score {
        match self.threshold {
            Some(threshold) if score.answer.is_some() => Score { pass: score.value >= threshold, ..score },
            _ => score,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::spec::{Field, JsonSchemaRef, NumberLocale, Which};

    fn spec(kind: GraderKind) -> GraderSpec {
        GraderSpec { name: "g".to_owned(), weight: 1.0, threshold: None, extract: None, kind }
    }

    fn exact() -> GraderKind {
        GraderKind::Exact { answer: Field(json!("x")) }
    }

    fn pattern(pattern: &str) -> GraderKind {
        GraderKind::Regex { pattern: pattern.to_owned(), which: Which::Last, answer: None }
    }

    #[test]
    fn mistakes_are_told_at_once_and_by_name() {
        let numeric = |abs_tolerance| GraderKind::Numeric {
            answer: Field(json!("1")),
            abs_tolerance,
            rel_tolerance: 0.0,
            locale: NumberLocale::En,
        };
        let nonsense = JsonSchemaRef { source: "s.json".to_owned(), schema: json!({"type": "nonsense"}) };
        for (spec, says) in [
            (GraderSpec { extract: Some("lastline".to_owned()), ..spec(exact()) }, "last_line"),
            (GraderSpec { weight: -1.0, ..spec(exact()) }, "weight"),
            (GraderSpec { weight: f64::NAN, ..spec(exact()) }, "weight"),
            (GraderSpec { threshold: Some(1.5), ..spec(exact()) }, "threshold"),
            (spec(numeric(-0.1)), "abs_tolerance"),
            (spec(numeric(f64::INFINITY)), "abs_tolerance"),
            (spec(pattern("(")), "pattern"),
            (spec(pattern("(?=x)")), "pattern"),
            (spec(pattern("(?:a{1000}){1000}")), "pattern"),
            (spec(GraderKind::All(vec![])), "part"),
            (spec(GraderKind::Any(vec![GraderSpec { weight: 0.0, ..spec(exact()) }])), "part"),
            (spec(GraderKind::Not(Box::new(spec(pattern("["))))), "pattern"),
            (spec(GraderKind::Json { schema: Some(nonsense), fields: None }), "s.json"),
        ] {
            let errors = check(&spec);
            assert_eq!(errors.len(), 1, "{spec:?}: {errors:?}");
            let text = errors[0].to_string();
            assert!(text.contains(says) && text.contains("`g`"), "{text}");
        }
        assert_eq!(check(&spec(exact())), []);
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = (0..100).fold(spec(exact()), |inner, _| spec(GraderKind::Not(Box::new(inner))));
        assert!(matches!(build(&deep).err(), Some(GradeError::TooDeep { .. })));
    }
}
