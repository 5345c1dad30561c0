//! From the datasets that a profile names to the answers that its model knows.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::answers::{AnswerBook, Entry, plain, prompt_text};
use super::profile::{AnswerSource, Profile};
use crate::spec::{DatasetError, Field, Row, dataset, template};

/// Why a profile's answers could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("the profile's dataset {dataset}: {error}")]
    Dataset { dataset: String, error: DatasetError },
    #[error("the profile's `{field}` for row {row} of {dataset}: {reason}")]
    Template { dataset: String, row: usize, field: &'static str, reason: String },
}

impl AnswerBook {
    /// Everything that a profile answers from. Relative datasets lie under `base`.
    pub fn of_profile(profile: &Profile, base: &Path) -> Result<AnswerBook, SourceError> {
        let mut entries = Vec::new();
        for source in &profile.answers {
            let rows = dataset::read_file(&path(&source.dataset, base), usize::MAX)
                .map_err(|error| SourceError::Dataset { dataset: source.dataset.clone(), error })?;
            for (index, row) in rows.iter().enumerate() {
                entries.push(entry(source, index + 1, row)?);
            }
        }
        Ok(AnswerBook::from_entries(entries))
    }
}

fn path(dataset: &str, base: &Path) -> PathBuf {
    if dataset.starts_with("builtin:") { PathBuf::from(dataset) } else { base.join(dataset) }
}

/// `number`: the row's, from 1.
fn entry(source: &AnswerSource, number: usize, row: &Row) -> Result<Entry, SourceError> {
    let failed =
        |field, reason: String| SourceError::Template { dataset: source.dataset.clone(), row: number, field, reason };
    let text = |field, of: &str| template::render_text(of, row).map_err(|e| failed(field, e.to_string()));
    let optional = |field, of: &Option<String>| of.as_deref().map(|of| text(field, of)).transpose();
    // A list holds alternatives here too: the first is what counts.
    let value = |field, of: &str| {
        template::render_field(&Field(Value::from(of)), row).map_err(|e| failed(field, e.to_string()))
    };
    let system = optional("system", &source.system)?;
    let prompt = text("prompt", &source.prompt)?;
    Ok(Entry {
        prompt: prompt_text(system.as_deref().into_iter().chain([prompt.as_str()])),
        right: value("right", &source.right)?,
        wrong: optional("wrong", &source.wrong)?,
        evidence: source.evidence.as_deref().map(|of| value("evidence", of).map(|v| plain(&v))).transpose()?,
        category: optional("category", &source.category)?,
        wordings: source.wordings.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::simulated::{Engine, Request};
    use crate::units::Mono;
    use serde_json::json;
    use std::io::Write;

    fn dataset(rows: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::File::create(folder.path().join("rows.jsonl")).unwrap().write_all(rows.as_bytes()).unwrap();
        folder
    }

    fn profile(change: impl FnOnce(&mut AnswerSource)) -> Profile {
        let answers = json!([{
            "dataset": "rows.jsonl", "system": "Be brief.", "prompt": "Q: {{ q }}", "right": "{{ a }}", "evidence": "{{ a }}",
            "category": "{{ c }}",
        }]);
        let mut profile = Profile::from_value(json!({"answers": answers})).unwrap();
        change(&mut profile.answers[0]);
        profile
    }

    const ROWS: &str = concat!(
        r#"{"q": "Rome is where?", "a": ["Rome", "Roma"], "c": "x"}"#,
        "\n",
        r#"{"q": "Name the capital of France", "a": "Paris", "c": "x"}"#,
        "\n",
    );

    #[test]
    fn prompts_are_those_that_a_task_sends_and_evidence_counts() {
        let folder = dataset(ROWS);
        let profile = profile(|_| {});
        let book = AnswerBook::of_profile(&profile, folder.path()).unwrap();
        assert_eq!(book.len(), 2);
        let mut engine = Engine::new(profile, book, 1);
        let mut ask = |question: &str| {
            let messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]);
            let body = json!({"messages": messages}).to_string();
            let request = Request { method: "POST", path: "/v1/chat/completions", headers: &[], body: body.as_bytes() };
            let script = engine.on_request(Mono(0), &request);
            let value: Value = serde_json::from_slice(&script.body()).unwrap();
            value["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
        };
        assert_eq!(ask("Q: Rome is where?"), "Rome");
        assert_eq!(ask("Q: Name the capital of France"), "Rome", "Paris does not stand in the prompt");
    }

    #[test]
    fn what_is_missing_is_named() {
        let folder = dataset(ROWS);
        let message = |profile: &Profile| AnswerBook::of_profile(profile, folder.path()).unwrap_err().to_string();
        let absent = message(&profile(|source| source.dataset = "none.jsonl".to_owned()));
        assert!(absent.contains("none.jsonl"), "{absent}");
        let undefined = message(&profile(|source| source.right = "{{ b }}".to_owned()));
        assert!(undefined.contains("`right` for row 1 of rows.jsonl"), "{undefined}");
    }

    /// Prompts of the shipped demo's tasks, as a plan would send them.
    fn demo_prompts() -> Vec<String> {
        let world = crate::world::FixedWorld::new(&[]);
        let source = crate::spec::SuiteSource::Builtin("demo".to_owned());
        let suite = crate::spec::load(source, &world, &crate::spec::LoadOptions::default()).unwrap().suite;
        let prompts = suite.tasks.iter().flat_map(|task| {
            let rows = dataset::read(task, None).unwrap();
            let contents =
                |row: &Row| task.messages.iter().map(|m| template::render_text(&m.content, row).unwrap()).collect();
            rows.iter().map(contents).collect::<Vec<Vec<String>>>()
        });
        prompts.map(|contents| prompt_text(contents.iter().map(String::as_str))).collect()
    }

    /// How many of the prompts a profile answers right in its first call; every one must be known.
    fn right(name: &str, prompts: &[String], shown: impl Fn(&str) -> String) -> Vec<bool> {
        let profile = Profile::builtin(name).unwrap();
        let book = AnswerBook::of_profile(&profile, Path::new("/")).unwrap();
        let draws = crate::deploy::simulated::Draws {
            errors: &profile.errors,
            nondeterminism: crate::deploy::simulated::Nondeterminism::default(),
            seed: 1,
            call: 0,
            temperature: 0.0,
            request_seed: 0,
            chatter_tokens: 10,
        };
        prompts.iter().map(|p| book.answer(&shown(p), &draws).right.unwrap_or_else(|| panic!("unknown: {p}"))).collect()
    }

    #[test]
    fn the_demo_profiles_know_every_prompt_of_the_demo_and_differ_as_they_say() {
        let prompts = demo_prompts();
        assert!(prompts.len() >= 200, "{}", prompts.len());
        let whole = |prompt: &str| prompt.to_owned();
        let tail = |prompt: &str| prompt.chars().skip(prompt.chars().count().saturating_sub(1_000)).collect::<String>();
        let baseline = right("demo-baseline", &prompts, whole);
        let count = |answers: &[bool]| answers.iter().filter(|r| **r).count();
        let share = count(&baseline) as f64 / prompts.len() as f64;
        assert!((0.8..0.95).contains(&share), "{share}");
        assert_eq!(right("demo-speculative", &prompts, whole), baseline);
        assert_eq!(right("demo-truncated", &prompts, whole), baseline);
        let quantized = right("demo-quantized", &prompts, whole);
        let lost = count(&baseline) as i64 - count(&quantized) as i64;
        assert!((1..=5).contains(&lost), "{lost} fewer right answers");
        let truncated = right("demo-truncated", &prompts, tail);
        assert!(count(&truncated) + 30 < count(&baseline), "{} of {}", count(&truncated), count(&baseline));
    }
}
