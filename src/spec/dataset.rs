//! Rows of a task: JSONL, CSV, or written in the suite.

use std::path::Path;

use serde_json::Value;
use thiserror::Error;

use super::files::{self, FileError};
use super::task::{Dataset, Row, Task};

const MAX_FILE_BYTES: u64 = 1 << 30;
const MAX_LINE_BYTES: usize = 16 << 20;
const MAX_COLUMNS: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DatasetError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{path}` is not read; datasets are .jsonl or .csv files")]
    Format { path: String },
    #[error("`{path}`, line {line}: {why}")]
    Line { path: String, line: usize, why: String },
    #[error("`{path}` has no rows")]
    Empty { path: String },
}

/// The rows of a task in their order: the dataset's own limit and `limit` both hold.
pub fn read(task: &Task, limit: Option<usize>) -> Result<Vec<Row>, DatasetError> {
    let smaller = |own: Option<usize>| own.unwrap_or(usize::MAX).min(limit.unwrap_or(usize::MAX));
    match &task.dataset {
        Dataset::Cases(rows) => Ok(rows.iter().take(smaller(None)).cloned().collect()),
        Dataset::File { path, limit: own } => read_file(path, smaller(*own)),
    }
}

/// The first `limit` rows of a file; none at all is an error.
pub fn read_file(path: &Path, limit: usize) -> Result<Vec<Row>, DatasetError> {
    let shown = path.display().to_string();
    let format = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    let reader = match format.as_deref() {
        Some("jsonl" | "ndjson") => jsonl,
        Some("csv") => csv,
        _ => return Err(DatasetError::Format { path: shown }),
    };
    let bytes = files::read(path, MAX_FILE_BYTES)?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let rows = reader(bytes, limit).map_err(|(line, why)| DatasetError::Line { path: shown.clone(), line, why })?;
    if rows.is_empty() {
        return Err(DatasetError::Empty { path: shown });
    }
    Ok(rows)
}

type LineError = (usize, String);

fn jsonl(bytes: &[u8], limit: usize) -> Result<Vec<Row>, LineError> {
    let mut rows = vec![];
    for (index, line) in bytes.split(|b| *b == b'\n').enumerate() {
        if rows.len() >= limit {
            break;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let at = index + 1;
        if line.len() > MAX_LINE_BYTES {
            return Err((at, format!("the line has more than {MAX_LINE_BYTES} bytes")));
        }
        let text = std::str::from_utf8(line).map_err(|_| (at, "the line is not UTF-8".to_owned()))?;
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(row)) => rows.push(row),
            Ok(_) => return Err((at, "each line must be a JSON object, `{…}`".to_owned())),
            Err(e) => return Err((at, format!("not valid JSON: {}", json_fault(&e)))),
        }
    }
    Ok(rows)
}

/// The parser's message without its line, which is always 1 here.
fn json_fault(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    format!("{text}, at column {}", error.column())
}

fn csv(bytes: &[u8], limit: usize) -> Result<Vec<Row>, LineError> {
    let mut reader = csv::ReaderBuilder::new().has_headers(true).flexible(false).from_reader(bytes);
    let header = reader.headers().map_err(|e| csv_fault(&e))?.clone();
    let mut names = std::collections::HashSet::new();
    if header.len() > MAX_COLUMNS {
        return Err((1, format!("more than {MAX_COLUMNS} columns")));
    }
    for name in &header {
        if name.trim().is_empty() {
            return Err((1, "a column has no name; the first line must name the columns".to_owned()));
        }
        if !names.insert(name.to_owned()) {
            return Err((1, format!("the column `{name}` is there twice")));
        }
    }
    let mut rows = vec![];
    for record in reader.records().take(limit) {
        let record = record.map_err(|e| csv_fault(&e))?;
        let cells = header.iter().zip(record.iter());
        rows.push(cells.map(|(name, cell)| (name.to_owned(), Value::String(cell.to_owned()))).collect());
    }
    Ok(rows)
}

fn csv_fault(error: &csv::Error) -> LineError {
    let line = error.position().map_or(1, |p| usize::try_from(p.line()).unwrap_or(usize::MAX));
    let why = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} {} where the header has {expected_len}", if *len == 1 { "cell" } else { "cells" })
        }
        csv::ErrorKind::Utf8 { .. } => "the line is not UTF-8".to_owned(),
        other => format!("not valid CSV: {other:?}"),
    };
    (line, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows(name: &str, content: &[u8], limit: usize) -> Result<Vec<Row>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        read_file(&path, limit).map_err(|e| e.to_string().replace(&path.display().to_string(), name))
    }

    #[test]
    fn jsonl_rows_keep_their_types_and_order() {
        let text = b"\xef\xbb\xbf{\"b\": \"no\", \"a\": 012}\n".as_slice();
        assert!(rows("x.jsonl", text, 9).unwrap_err().contains("line 1: not valid JSON"));
        let text = b"{\"b\": \"012\", \"a\": [1]}\r\n\n{\"b\": null}\n{\"b\": 3}";
        let read = rows("x.jsonl", text, 2).unwrap();
        assert_eq!(json!(read), json!([{"b": "012", "a": [1]}, {"b": null}]));
        assert_eq!(read[0].keys().collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn a_bad_line_is_told_with_its_number() {
        assert!(rows("x.jsonl", b"{}\n[1]\n", 9).unwrap_err().starts_with("`x.jsonl`, line 2: each line"));
        assert!(rows("x.jsonl", b"{}\n\n{\"a\":\n", 9).unwrap_err().starts_with("`x.jsonl`, line 3: not valid JSON"));
        assert!(rows("x.jsonl", b"{\"a\": \"\xff\"}\n", 9).unwrap_err().contains("not UTF-8"));
        assert_eq!(rows("x.jsonl", b"{}\n[1]\n", 1).unwrap().len(), 1);
        assert_eq!(rows("x.jsonl", b" \n\n", 9).unwrap_err(), "`x.jsonl` has no rows");
        let deep = format!("{{\"a\": {}}}", "[".repeat(100_000));
        assert!(rows("x.jsonl", deep.as_bytes(), 9).unwrap_err().contains("recursion"));
    }

    #[test]
    fn csv_cells_are_text() {
        let read = rows("x.csv", b"id,answer\n1,no\n2,\"a, \"\"b\"\"\"\n3,012\n", 3).unwrap();
        let want =
            json!([{"id": "1", "answer": "no"}, {"id": "2", "answer": "a, \"b\""}, {"id": "3", "answer": "012"}]);
        assert_eq!(json!(read), want);
    }

    #[test]
    fn csv_faults_are_told_with_their_line() {
        let told = |text: &[u8]| rows("x.csv", text, 9).unwrap_err();
        assert_eq!(told(b"a,b\n1,2\n3\n"), "`x.csv`, line 3: 1 cell where the header has 2");
        assert_eq!(told(b"a,a\n1,2\n"), "`x.csv`, line 1: the column `a` is there twice");
        assert!(told(b"a,\n1,2\n").contains("no name"));
        assert_eq!(told(b"a,b\n"), "`x.csv` has no rows");
        assert!(rows("x.parquet", b"PAR1", 9).unwrap_err().contains(".jsonl or .csv"));
    }
}
