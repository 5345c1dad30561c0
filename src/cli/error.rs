//! What ends a command early, and its exit code.

use super::exit::Exit;
use crate::analyze::AnalyzeError;
use crate::deploy::simulated::{ProfileError, ServeError, SourceError};
use crate::drive::calibrate::CalibrateError;
use crate::grade::GradeError;
use crate::plan::PlanError;
use crate::record::RecordError;
use crate::report::ReportError;
use crate::spec::Diagnostics;

#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Printed by the diagnostics' own renderer.
    #[error("the suite has mistakes")]
    Suite(Diagnostics),
    #[error("these environment variables are not set: {}; the suite names them as ${{env:NAME}}", .0.join(", "))]
    MissingEnv(Vec<String>),
    #[error(
        "deployment `{deployment}` takes its key from ${variable}, which is not set; export it, or remove `api_key_env`"
    )]
    MissingKey { deployment: String, variable: String },
    #[error("{0}")]
    Usage(String),
    #[error("`{0}` is not there yet in this version")]
    NotYet(&'static str),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("deployment `{deployment}`: {error}")]
    Profile { deployment: String, error: ProfileError },
    #[error(transparent)]
    Answers(#[from] SourceError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Grade(#[from] GradeError),
    #[error("{0}")]
    Analyze(#[from] AnalyzeError),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error("the recorder broke down and the run was stopped; what is in the journal stands")]
    Recorder,
    #[error("cannot start what the run needs: {0}")]
    Runtime(std::io::Error),
    #[error(transparent)]
    Calibrate(#[from] CalibrateError),
    #[error("the benchmark could not be made: {0}")]
    Bench(String),
    #[error("{path}: {error}")]
    Output { path: String, error: std::io::Error },
}

impl CliError {
    /// Nothing here depends on a deployment: every one is input that cannot be used, or a host that cannot run it.
    pub fn exit(&self) -> Exit {
        match self {
            CliError::Runtime(_) | CliError::Recorder | CliError::Calibrate(_) | CliError::Bench(_) => Exit::Invalid,
            _ => Exit::BadInput,
        }
    }
}
