//! `summary.json`.

use crate::analyze::Summary;

use super::ReportError;

/// The summary as JSON: indented, fields in the order of the type, maps by name, a newline at the end. The same summary
/// gives the same bytes. A figure that is not finite, which no analysis makes, is written as `null`.
pub fn json(summary: &Summary) -> Result<String, ReportError> {
    let mut text = serde_json::to_string_pretty(summary).map_err(|source| ReportError::Json { source })?;
    text.push('\n');
    Ok(text)
}
