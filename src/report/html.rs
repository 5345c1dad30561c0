//! The page: one self-contained file without any address outside itself.
//!
//! Style and script are inlined and allowed by their hash alone, so that nothing that a model wrote can run or load,
//! even if an escape failed. The page is complete without the script.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};

use super::ReportError;
use super::text::csp_hash;
use super::view;
use super::view::{RATIO_COLUMNS, SPEED_COLUMNS, STEP_COLUMNS};
use crate::analyze::Summary;

const TEMPLATE: &str = include_str!("../../reports/report.html.j2");
const STYLE: &str = include_str!("../../reports/report.css");
const SCRIPT: &str = include_str!("../../reports/report.js");

/// The report as one HTML file. `generated_wall_ms`: milliseconds since the epoch, shown in the foot.
pub fn html(summary: &Summary, generated_wall_ms: u64) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment
        .set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(template_error)?);
    let template = environment.template_from_str(TEMPLATE).map_err(template_error)?;
    let policy = format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        csp_hash(STYLE),
        csp_hash(SCRIPT)
    );
    let speed_columns: Vec<&str> = SPEED_COLUMNS.iter().map(|column| column.1).collect();
    template
        .render(context! {
            page => Value::from(Serde(view::page(summary, generated_wall_ms))),
            policy,
            speed_columns,
            step_columns => STEP_COLUMNS,
            step_ratio_columns => RATIO_COLUMNS,
            style => STYLE,
            script => SCRIPT,
        })
        .map_err(template_error)
}

fn template_error(error: minijinja::Error) -> ReportError {
    ReportError::Template { source: error }
}
