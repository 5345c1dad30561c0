//! Templates against the rows that they will meet: every variable is a column, every row renders.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Context;
use crate::spec::diagnostic::Mistake;
use crate::spec::node::{Kind, Node};
use crate::spec::source::Place;
use crate::spec::suggest;
use crate::spec::task::{Field, Row};
use crate::spec::template::{self, TemplateError};

/// A template of a task and where it is written.
pub struct Use {
    place: Place,
    /// The blank lines above the place of a `|` block, whose lines are those of the file.
    literal: Option<usize>,
    content: Content,
    /// Said where the field is not written but a default.
    implied: Option<String>,
}

enum Content {
    Text(String),
    Field(Field),
}

impl Use {
    pub fn text(node: &Node, content: &str) -> Use {
        let is_literal = matches!(node.kind, Kind::Scalar { literal: true, .. });
        let literal = is_literal.then(|| content.len() - content.trim_start_matches('\n').len());
        Use { place: node.place, literal, content: Content::Text(content.to_owned()), implied: None }
    }

    pub fn field(place: Place, field: &Field, implied: Option<String>) -> Use {
        Use { place, literal: None, content: Content::Field(field.clone()), implied }
    }

    /// The place of the template's line `line`, from 1, where its lines are those of the file.
    fn line(&self, line: usize, cx: &Context<'_>) -> Option<Place> {
        cx.sources.line_below(self.place, line.checked_sub(1)?.checked_sub(self.literal?)?)
    }

    /// Where a name is first read.
    fn place_of(&self, name: &str, cx: &Context<'_>) -> Place {
        let Content::Text(text) = &self.content else { return self.place };
        let line = text.lines().position(|line| line.contains(name) && line.contains('{'));
        line.and_then(|index| self.line(index + 1, cx)).unwrap_or(self.place)
    }

    fn variables(&self) -> Result<BTreeSet<String>, TemplateError> {
        match &self.content {
            Content::Text(text) => template::variables(text),
            Content::Field(field) => template::field_variables(&field.0),
        }
    }

    fn render(&self, row: &Row) -> Result<Value, TemplateError> {
        match &self.content {
            Content::Text(text) => template::render_text(text, row).map(Value::String),
            Content::Field(field) => template::render_field(field, row),
        }
    }
}

/// Syntax alone, where no rows could be read.
pub fn check_syntax(uses: &[Use], cx: &mut Context<'_>) {
    for one in uses {
        if let Err(error) = one.variables() {
            cx.report(bad_template(&error, one, None, cx));
        }
    }
}

pub fn check(uses: &[Use], rows: &[Row], cx: &mut Context<'_>) {
    let columns: BTreeSet<&str> = rows.iter().flat_map(Row::keys).map(String::as_str).collect();
    for one in uses {
        let variables = match one.variables() {
            Ok(variables) => variables,
            Err(error) => {
                cx.report(bad_template(&error, one, None, cx));
                continue;
            }
        };
        let Some((index, error)) = first_fault(one, rows) else { continue };
        let unknown: Vec<&String> = variables.iter().filter(|v| !columns.contains(v.as_str())).collect();
        for name in &unknown {
            let message = format!("`{name}` is not a column of the dataset");
            let hint = suggest::did_you_mean(name, columns.iter().copied()).or_else(|| one.implied.clone());
            let help = format!("columns: {}", suggest::list(columns.iter().copied()));
            cx.report(Mistake::new("unknown-variable", one.place_of(name, cx), message).maybe_hint(hint).help(help));
        }
        if unknown.is_empty() {
            cx.report(row_fault(&variables, index, rows.get(index), &error, one, cx));
        }
    }
}

fn first_fault(one: &Use, rows: &[Row]) -> Option<(usize, TemplateError)> {
    rows.iter().enumerate().find_map(|(index, row)| one.render(row).err().map(|e| (index, e)))
}

fn row_fault(
    variables: &BTreeSet<String>,
    index: usize,
    row: Option<&Row>,
    error: &TemplateError,
    one: &Use,
    cx: &Context<'_>,
) -> Mistake {
    let lacking = variables.iter().find(|v| row.is_some_and(|r| !r.contains_key(*v)));
    match lacking {
        Some(name) if matches!(error, TemplateError::Undefined { .. }) => {
            let message = format!("row {} of the dataset has no column `{name}`", index + 1);
            Mistake::new("missing-column", one.place_of(name, cx), message)
                .hint("fill it in there, or test `is defined` here")
        }
        // A template that is wrong in itself is so in every row.
        _ if matches!(error, TemplateError::Syntax { .. }) => bad_template(error, one, None, cx),
        _ => bad_template(error, one, Some(index + 1), cx),
    }
}

/// An example's row must have what the graders read; prompts are not rendered for it.
pub fn check_examples(uses: &[Use], rows: &[(Place, Row)], cx: &mut Context<'_>) {
    for (place, row) in rows {
        let fields = uses.iter().filter(|u| matches!(u.content, Content::Field(_)));
        for one in fields {
            let (Ok(variables), Err(TemplateError::Undefined { .. })) = (one.variables(), one.render(row)) else {
                continue;
            };
            let Some(name) = variables.iter().find(|v| !row.contains_key(*v)) else { continue };
            let message = format!("the example's row has no `{name}`, which a grader reads");
            cx.report(Mistake::new("missing-column", *place, message));
        }
    }
}

fn bad_template(error: &TemplateError, one: &Use, row: Option<usize>, cx: &Context<'_>) -> Mistake {
    let at = row.map(|n| format!("row {n}: ")).unwrap_or_default();
    let place = match error {
        TemplateError::Syntax { line, .. } => one.line(*line, cx),
        _ => None,
    };
    let message = match (error, place) {
        (TemplateError::Syntax { detail, line }, None) if *line > 1 => {
            format!("{at}the template is not valid, line {line} of it: {detail}")
        }
        (error, _) => format!("{at}{error}"),
    };
    Mistake::new("bad-template", place.unwrap_or(one.place), message)
}
