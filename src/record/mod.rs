//! The run directory: plan, samples, journal, scores, summary. The journal is the truth; everything after it is a
//! pure function of these files.
//!
//! A reader takes exactly the major version that it knows (`counterpoise.journal/1`); new fields are additive and have
//! defaults, so that an old run stays readable.

mod journal;
mod rundir;

use std::path::{Path, PathBuf};

pub use journal::{JOURNAL_FORMAT, JournalWriter, Lines};
pub use rundir::{Progress, RunDir, SAMPLES_FORMAT, SCORES_FORMAT, write_file};

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{}: {reason}", path.display())]
    Encode { path: PathBuf, reason: String },
    #[error("{} line {line}: {reason}", path.display())]
    Line { path: PathBuf, line: u64, reason: String },
    #[error("{}: {found}, but this version reads `{expected}`; use the version that wrote the run", path.display())]
    Format { path: PathBuf, found: String, expected: String },
    #[error("{} is not empty; name a new directory with --out, or continue that run with --resume", path.display())]
    NotEmpty { path: PathBuf },
    #[error("{}: another process is writing this run; wait for it to end", path.display())]
    Busy { path: PathBuf },
    #[error("{} holds no run (no plan.json); name a directory that `run` wrote", path.display())]
    NotARun { path: PathBuf },
}

impl RecordError {
    pub(crate) fn at(path: &Path, error: std::io::Error) -> RecordError {
        RecordError::Io { path: path.to_owned(), error }
    }

    pub(crate) fn encode(path: &Path, error: &serde_json::Error) -> RecordError {
        RecordError::Encode { path: path.to_owned(), reason: error.to_string() }
    }
}
