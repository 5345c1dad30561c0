//! The run directory: `plan.json`, `samples.jsonl`, `journal.jsonl`, `scores.jsonl`, `summary.json`, `report.html`.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::RecordError;
use super::journal::{self, Header, JournalWriter, Lines};
use crate::drive::{Answers, Event};
use crate::plan::{PLAN_FORMAT, Phase, Plan, Sample};
use crate::units::Id;

pub const SAMPLES_FORMAT: &str = "counterpoise.samples/1";
pub const SCORES_FORMAT: &str = "counterpoise.scores/1";

/// A run on disk.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Makes a new run directory with its plan and samples. An existing directory must be empty.
    pub fn create(path: &Path, plan: &Plan) -> Result<RunDir, RecordError> {
        if path.is_dir() {
            let mut entries = fs::read_dir(path).map_err(|e| RecordError::at(path, e))?;
            if entries.next().is_some() {
                return Err(RecordError::NotEmpty { path: path.to_owned() });
            }
        }
        fs::create_dir_all(path).map_err(|e| RecordError::at(path, e))?;
        let dir = RunDir { path: path.to_owned() };
        dir.write_samples(&plan.samples)?;
        dir.write_json("plan.json", plan)?;
        Ok(dir)
    }

    /// Puts another plan in the place of one of which nothing was measured.
    pub fn replace_plan(&self, plan: &Plan) -> Result<(), RecordError> {
        self.write_samples(&plan.samples)?;
        self.write_json("plan.json", plan)
    }

    /// Opens a recorded run.
    pub fn open(path: &Path) -> Result<RunDir, RecordError> {
        let dir = RunDir { path: path.to_owned() };
        if dir.file("plan.json").is_file() { Ok(dir) } else { Err(RecordError::NotARun { path: path.to_owned() }) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn plan(&self) -> Result<Plan, RecordError> {
        let path = self.file("plan.json");
        let text = fs::read(&path).map_err(|e| RecordError::at(&path, e))?;
        let head: Header = serde_json::from_slice(&text).map_err(|e| RecordError::encode(&path, &e))?;
        if head.format != PLAN_FORMAT {
            let found = format!("format `{}`", head.format);
            return Err(RecordError::Format { path, found, expected: PLAN_FORMAT.to_owned() });
        }
        let mut plan: Plan = serde_json::from_slice(&text).map_err(|e| RecordError::encode(&path, &e))?;
        plan.samples = self.samples()?.collect::<Result<_, _>>()?;
        Ok(plan)
    }

    pub fn samples(&self) -> Result<Lines<Sample>, RecordError> {
        journal::open_lines(&self.file("samples.jsonl"), SAMPLES_FORMAT, false)
    }

    pub fn create_journal(&self) -> Result<JournalWriter, RecordError> {
        JournalWriter::create(&self.file("journal.jsonl"))
    }

    pub fn resume_journal(&self) -> Result<(JournalWriter, u64), RecordError> {
        JournalWriter::resume(&self.file("journal.jsonl"))
    }

    pub fn has_journal(&self) -> bool {
        self.file("journal.jsonl").is_file()
    }

    pub fn journal(&self) -> Result<Lines<Event>, RecordError> {
        journal::read(&self.file("journal.jsonl"))
    }

    /// The lines of `scores.jsonl`; their type is grading's own.
    pub fn scores<T>(&self) -> Result<Lines<T>, RecordError> {
        journal::open_lines(&self.file("scores.jsonl"), SCORES_FORMAT, false)
    }

    /// Writes `scores.jsonl` whole: into a file beside it that then takes its name, so that a crash loses nothing.
    pub fn write_scores<T: Serialize>(
        &self,
        scores: impl Iterator<Item = Result<T, RecordError>>,
    ) -> Result<u64, RecordError> {
        self.write_lines("scores.jsonl", SCORES_FORMAT, scores)
    }

    /// Writes a JSON file of the run in the same careful way.
    pub fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), RecordError> {
        let mut text = serde_json::to_vec_pretty(value).map_err(|e| RecordError::encode(&self.file(name), &e))?;
        text.push(b'\n');
        write_file(&self.file(name), &text)
    }

    /// What a resume needs to know: sessions so far, and the units that have an outcome.
    pub fn progress(&self) -> Result<Progress, RecordError> {
        let mut progress = Progress::default();
        for event in self.journal()? {
            match event? {
                Event::Session { .. } => progress.sessions += 1,
                // Warm-up belongs to its session: a resumed run warms up again.
                Event::Attempt(attempt) if attempt.last && attempt.phase == Phase::Measured => {
                    progress.done.insert(attempt.unit);
                }
                Event::SlotEnded { slot, phase: Phase::Measured, end, .. } if end.leaves_rest_unasked() => {
                    progress.ended_slots.insert(slot);
                }
                _ => {}
            }
        }
        Ok(progress)
    }

    /// What conversations came to so far: how each of their measured turns ended, and its answer. Empty where the plan has
    /// no conversation.
    pub fn answers(&self, plan: &Plan) -> Result<Answers, RecordError> {
        let mut answers = Answers::new();
        if plan.samples.iter().all(|s| s.conversation.is_none()) {
            return Ok(answers);
        }
        for event in self.journal()? {
            match event? {
                Event::Attempt(attempt) if attempt.last && attempt.phase == Phase::Measured => {
                    answers.entry(attempt.unit).or_insert((attempt.outcome, attempt.text));
                }
                _ => {}
            }
        }
        Ok(answers)
    }

    fn write_samples(&self, samples: &[Sample]) -> Result<u64, RecordError> {
        self.write_lines("samples.jsonl", SAMPLES_FORMAT, samples.iter().cloned().map(Ok))
    }

    fn write_lines<T: Serialize>(
        &self,
        name: &str,
        format: &str,
        values: impl Iterator<Item = Result<T, RecordError>>,
    ) -> Result<u64, RecordError> {
        let path = self.file(name);
        let at = |e: std::io::Error| RecordError::at(&path, e);
        let temporary = tempfile::NamedTempFile::new_in(&self.path).map_err(at)?;
        let mut count = 0;
        {
            let mut out = BufWriter::new(temporary.as_file());
            let mut line = |bytes: Vec<u8>| out.write_all(&bytes).and_then(|()| out.write_all(b"\n"));
            let header = Header { format: format.to_owned() };
            line(serde_json::to_vec(&header).map_err(|e| RecordError::encode(&path, &e))?).map_err(at)?;
            for value in values {
                line(serde_json::to_vec(&value?).map_err(|e| RecordError::encode(&path, &e))?).map_err(at)?;
                count += 1;
            }
            out.flush().map_err(at)?;
        }
        persist(temporary, &path)?;
        Ok(count)
    }
}

/// What a run has so far.
#[derive(Debug, Default)]
pub struct Progress {
    pub sessions: u32,
    pub done: HashSet<Id>,
    /// Slots that have ended, and whose rest is not asked.
    pub ended_slots: HashSet<u32>,
}

/// Writes a file so that either the old or the new content stands, never half of it.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), RecordError> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(folder).map_err(|e| RecordError::at(path, e))?;
    temporary.write_all(content).map_err(|e| RecordError::at(path, e))?;
    persist(temporary, path)
}

fn persist(temporary: tempfile::NamedTempFile, path: &Path) -> Result<(), RecordError> {
    use std::os::unix::fs::PermissionsExt;
    let at = |e: std::io::Error| RecordError::at(path, e);
    // A temporary file is private; what a run leaves behind is for whoever may read the directory.
    temporary.as_file().set_permissions(fs::Permissions::from_mode(0o644)).map_err(at)?;
    temporary.as_file().sync_data().map_err(at)?;
    temporary.persist(path).map(|_: File| ()).map_err(|e| at(e.error))
}
