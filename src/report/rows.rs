//! Tables for other programs: one row per request, one row per request and grader.
//!
//! CSV after RFC 4180: comma, quotes where needed, a header, `\n` at line ends, UTF-8, absent values empty, `pass` as
//! `true` or `false`, instants and sizes as plain numbers with their unit in the heading.
//!
//! **Formulas.** Answers and task names are written verbatim, also where they begin with `=`, `+`, `-`, `@`: a prefixed
//! quote would change the data that the table is for (`-5` is a common answer). Numbers and verdicts are made here and
//! are never text. Whoever opens the table in a spreadsheet imports the text columns as text.

use std::io::Write;

use serde::Serialize;

use super::ReportError;

/// One measured request. Absent figures are `None`, never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RequestRow {
    pub unit: String,
    pub arm: String,
    pub task: String,
    pub category: Option<String>,
    /// The row's own id where the dataset has one, else its index.
    pub sample: String,
    pub repeat: u32,
    pub phase: String,
    pub slot: u32,
    pub attempts: u32,
    pub outcome: String,
    pub finish_reason: Option<String>,
    /// Absent where unscored.
    pub pass: Option<bool>,
    pub value: Option<f64>,
    /// What the deciding grader extracted.
    pub answer: Option<String>,
    pub unscored_why: Option<String>,
    pub ttft_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    pub e2e_ms: Option<f64>,
    pub input_tokens: Option<u64>,
    pub cached_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    /// An exact decimal.
    pub usd: Option<String>,
    /// Index into the load's stages: the step of a sweep.
    pub stage: u16,
}

/// One grader's word on one request.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GradeRow {
    pub unit: String,
    pub arm: String,
    pub task: String,
    pub sample: String,
    pub repeat: u32,
    pub grader: String,
    pub kind: String,
    pub version: u32,
    pub weight: f64,
    pub pass: Option<bool>,
    pub value: Option<f64>,
    pub answer: Option<String>,
    pub explanation: Option<String>,
    pub unscored_why: Option<String>,
}

const REQUEST_COLUMNS: [&str; 23] = [
    "unit",
    "arm",
    "task",
    "category",
    "sample",
    "repeat",
    "phase",
    "slot",
    "attempts",
    "outcome",
    "finish_reason",
    "pass",
    "value",
    "answer",
    "unscored_why",
    "ttft_ms",
    "tpot_ms",
    "e2e_ms",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "usd",
    "stage",
];
const GRADE_COLUMNS: [&str; 14] = [
    "unit",
    "arm",
    "task",
    "sample",
    "repeat",
    "grader",
    "kind",
    "version",
    "weight",
    "pass",
    "value",
    "answer",
    "explanation",
    "unscored_why",
];

/// Writes requests as CSV; rows are taken one by one and never held. A table without rows still has its header.
pub fn write_csv(rows: impl IntoIterator<Item = RequestRow>, out: impl Write) -> Result<(), ReportError> {
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    let rows = rows.into_iter().map(|row| RequestRow {
        value: finite(row.value),
        ttft_ms: finite(row.ttft_ms),
        tpot_ms: finite(row.tpot_ms),
        e2e_ms: finite(row.e2e_ms),
        ..row
    });
    write(&REQUEST_COLUMNS, rows, out)
}

/// Writes grades as CSV, see [`write_csv`].
pub fn write_grades_csv(rows: impl IntoIterator<Item = GradeRow>, out: impl Write) -> Result<(), ReportError> {
    let rows = rows.into_iter().map(|row| GradeRow { value: row.value.filter(|value| value.is_finite()), ..row });
    write(&GRADE_COLUMNS, rows, out)
}

fn write(columns: &[&str], rows: impl Iterator<Item = impl Serialize>, out: impl Write) -> Result<(), ReportError> {
    let failed = |source| ReportError::Row { source };
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(out);
    writer.write_record(columns).map_err(failed)?;
    for row in rows {
        writer.serialize(row).map_err(failed)?;
    }
    writer.flush().map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(rows: Vec<RequestRow>) -> String {
        let mut out = Vec::new();
        write_csv(rows, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn request() -> RequestRow {
        RequestRow {
            unit: "9f2c".to_owned(),
            arm: "q4".to_owned(),
            task: "capitals".to_owned(),
            category: Some("qa".to_owned()),
            sample: "cap-017".to_owned(),
            phase: "measured".to_owned(),
            slot: 3,
            attempts: 1,
            outcome: "completed".to_owned(),
            finish_reason: Some("stop".to_owned()),
            pass: Some(false),
            value: Some(0.0),
            answer: Some("Sydney, \"its\" largest\ncity".to_owned()),
            ttft_ms: Some(61.25),
            e2e_ms: Some(284.5),
            input_tokens: Some(71),
            output_tokens: Some(36),
            usd: Some("0.0000172".to_owned()),
            ..RequestRow::default()
        }
    }

    #[test]
    fn requests_have_the_columns_of_the_format() {
        let failed = RequestRow {
            outcome: "timeout".to_owned(),
            finish_reason: None,
            pass: None,
            value: Some(f64::NAN),
            answer: None,
            unscored_why: Some("timeout".to_owned()),
            ttft_ms: None,
            e2e_ms: Some(f64::INFINITY),
            usd: None,
            ..request()
        };
        insta::assert_snapshot!(text(vec![request(), failed]));
    }

    #[test]
    fn the_header_is_that_of_the_row() {
        let mut out = Vec::new();
        let mut writer = csv::Writer::from_writer(&mut out);
        writer.serialize(RequestRow::default()).unwrap();
        drop(writer);
        let names = String::from_utf8(out).unwrap();
        assert_eq!(names.lines().next().unwrap(), REQUEST_COLUMNS.join(","));
        let mut out = Vec::new();
        let mut writer = csv::Writer::from_writer(&mut out);
        writer.serialize(GradeRow::default()).unwrap();
        drop(writer);
        assert_eq!(String::from_utf8(out).unwrap().lines().next().unwrap(), GRADE_COLUMNS.join(","));
    }

    #[test]
    fn what_is_written_reads_back() {
        let formula = RequestRow { answer: Some("=HYPERLINK(\"x\")".to_owned()), ..request() };
        let written = text(vec![request(), formula]);
        let mut reader = csv::Reader::from_reader(written.as_bytes());
        let answers: Vec<String> = reader.records().map(|row| row.unwrap()[13].to_owned()).collect();
        assert_eq!(answers, ["Sydney, \"its\" largest\ncity", "=HYPERLINK(\"x\")"]);
    }

    #[test]
    fn a_table_without_rows_has_its_header() {
        assert_eq!(text(Vec::new()), format!("{}\n", REQUEST_COLUMNS.join(",")));
        let mut out = Vec::new();
        write_grades_csv(Vec::new(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("{}\n", GRADE_COLUMNS.join(",")));
    }

    #[test]
    fn grades_snapshot() {
        let row = GradeRow {
            unit: "9f2c".to_owned(),
            arm: "q4".to_owned(),
            task: "invoice-fields".to_owned(),
            sample: "402".to_owned(),
            repeat: 1,
            grader: "schema".to_owned(),
            kind: "json".to_owned(),
            version: 1,
            weight: 0.5,
            pass: Some(false),
            value: Some(0.25),
            answer: Some("{\"number\":2291}".to_owned()),
            explanation: Some("`number` is not a string".to_owned()),
            unscored_why: None,
        };
        let mut out = Vec::new();
        write_grades_csv([row], &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }
}
