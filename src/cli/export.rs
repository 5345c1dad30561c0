//! CSV exports: one row for each request, or for each request and grader.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use super::error::CliError;
use crate::analyze::rows::{self, Row};
use crate::drive::Event;
use crate::grade::{ScoreRecord, Verdict};
use crate::plan::{Phase, Plan};
use crate::record::{RecordError, RunDir};
use crate::report::rows::{GradeRow, RequestRow, write_csv, write_grades_csv};

fn create(path: &Path) -> Result<BufWriter<File>, CliError> {
    let file = File::create(path).map_err(|error| CliError::Output { path: path.display().to_string(), error })?;
    Ok(BufWriter::new(file))
}
