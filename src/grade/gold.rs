//! Gold answers: what a suite expects of a row, checked before it is compared with anything.

use serde_json::Value;

use super::grader::FieldRenderer;
use crate::spec::{Field, Row};

/// The field's value for this row.
pub fn rendered(field: &Field, row: &Row, fields: &FieldRenderer<'_>) -> Result<Value, String> {
    fields(field, row).map_err(|detail| format!("the expected answer can't be rendered: {detail}"))
}

/// The text of a scalar; what has none says why.
pub fn scalar_text(value: &Value) -> Result<String, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Null => return Err("the expected answer is null".to_owned()),
        Value::Array(_) | Value::Object(_) => {
            return Err("the expected answer must be text, a number, true or false, or a list of these".to_owned());
        }
    };
    if text.trim().is_empty() {
        return Err("the expected answer is empty".to_owned());
    }
    Ok(text)
}

/// One or several accepted answers: a list means any of them.
pub fn accepted(value: &Value) -> Result<Vec<&Value>, String> {
    match value {
        Value::Array(items) if items.is_empty() => Err("the list of expected answers is empty".to_owned()),
        Value::Array(items) => Ok(items.iter().collect()),
        single => Ok(vec![single]),
    }
}

/// The accepted answers of a field as text, rendered for this row.
pub fn texts(field: &Field, row: &Row, fields: &FieldRenderer<'_>) -> Result<Vec<String>, String> {
    let value = rendered(field, row, fields)?;
    accepted(&value)?.into_iter().map(scalar_text).collect()
}
