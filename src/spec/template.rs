//! Templates over a row: strict about what is not there, bounded in work and in size, and never HTML.

use std::collections::BTreeSet;
use std::io;
use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde_json::Value;
use thiserror::Error as ThisError;

use super::task::{Field, Row};
use super::template_bounds;

/// Instructions that one rendering may take.
const FUEL: u64 = 200_000;
/// Bytes that one rendering may yield.
const MAX_OUTPUT: usize = 8 << 20;
/// Bytes that `fromjson` reads.
const MAX_JSON: usize = 8 << 20;

#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum TemplateError {
    #[error("the template is not valid: {detail}")]
    Syntax { detail: String, line: usize },
    #[error("{detail}")]
    Undefined { detail: String },
    #[error("the template takes too much work; a loop that is too long?")]
    OutOfFuel,
    #[error("the template yields more than {MAX_OUTPUT} bytes")]
    TooLong,
    #[error("the template can't be rendered: {detail}")]
    Failed { detail: String },
}

static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(engine);

fn engine() -> Environment<'static> {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_auto_escape_callback(|_| AutoEscape::None);
    engine.set_fuel(Some(FUEL));
    // What is written is what is sent: the engine drops a last line feed unless told otherwise.
    if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
        engine.set_syntax(syntax);
    }
    // A namespace carries values from round to round of a loop, where no bound on what is written counts.
    engine.remove_global("namespace");
    engine.add_filter("fromjson", from_json);
    engine.add_filter("tojson", to_json);
    engine
}

fn from_json(text: &str) -> Result<minijinja::Value, Error> {
    if text.len() > MAX_JSON {
        return Err(Error::new(ErrorKind::InvalidOperation, "fromjson: the text is too long"));
    }
    let value: Value = serde_json::from_str(text)
        .map_err(|e| Error::new(ErrorKind::InvalidOperation, format!("fromjson: the text is not JSON: {e}")))?;
    Ok(minijinja::Value::from(Serde(&value)))
}

/// JSON as it is. The engine's own filter escapes apostrophes and angle brackets for HTML, which a prompt would show.
#[allow(clippy::needless_pass_by_value)] // The engine hands filters their arguments by value.
fn to_json(value: Serde<Value>, indent: Option<bool>) -> Result<String, Error> {
    let text = match indent {
        Some(true) => serde_json::to_string_pretty(&value.0),
        _ => serde_json::to_string(&value.0),
    };
    text.map_err(|e| Error::new(ErrorKind::InvalidOperation, format!("tojson: {e}")))
}

/// Whether a text has anything to fill in.
pub fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%") || text.contains("{#")
}

/// Renders a template to text.
pub fn render_text(text: &str, row: &Row) -> Result<String, TemplateError> {
    if !is_template(text) {
        return Ok(text.to_owned());
    }
    template_bounds::check(text)?;
    let template = ENGINE.template_from_str(text).map_err(told)?;
    let mut out = Bounded::default();
    template
        .render_captured_to(minijinja::Value::from(Serde(row)), &mut out)
        .map_err(|e| if out.full { TemplateError::TooLong } else { told(e) })?;
    String::from_utf8(out.bytes).map_err(|e| TemplateError::Failed { detail: e.to_string() })
}

/// Renders a grader's field: text that is exactly one `{{ expression }}` yields the expression's value with its type,
/// other text is a template that yields text, lists and maps are rendered item by item.
pub fn render_field(field: &Field, row: &Row) -> Result<Value, TemplateError> {
    render_value(&field.0, row)
}

fn render_value(value: &Value, row: &Row) -> Result<Value, TemplateError> {
    match value {
        Value::String(text) => match single_expression(text)? {
            Some(expression) => evaluate(expression, row),
            None => render_text(text, row).map(Value::String),
        },
        Value::Array(items) => items.iter().map(|item| render_value(item, row)).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, item)| Ok((key.clone(), render_value(item, row)?)))
            .collect::<Result<_, _>>()
            .map(Value::Object),
        other => Ok(other.clone()),
    }
}

fn evaluate(expression: &str, row: &Row) -> Result<Value, TemplateError> {
    // A bare column needs no engine, and keeps its number exactly.
    if let Some(value) = row.get(expression) {
        return Ok(value.clone());
    }
    let compiled = ENGINE.compile_expression(expression).map_err(told)?;
    let value = compiled.eval(minijinja::Value::from(Serde(row))).map_err(told)?;
    if value.is_undefined() {
        return Err(TemplateError::Undefined { detail: format!("`{expression}` is undefined") });
    }
    serde_json::to_value(&value).map_err(|e| TemplateError::Failed { detail: e.to_string() })
}

/// The expression of a text that is exactly one `{{ expression }}`.
fn single_expression(text: &str) -> Result<Option<&str>, TemplateError> {
    let Some(inner) = text.strip_prefix("{{").and_then(|inner| inner.strip_suffix("}}")) else { return Ok(None) };
    template_bounds::check(text)?;
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
    let inner = inner.strip_suffix('-').unwrap_or(inner).trim();
    // `{{ a }} and {{ b }}` also starts and ends so; its inside is no expression.
    let one = !inner.is_empty() && !inner.contains("{{") && ENGINE.compile_expression(inner).is_ok();
    Ok(one.then_some(inner))
}

/// The variables that a template reads and does not set itself; functions of the engine are none.
pub fn variables(text: &str) -> Result<BTreeSet<String>, TemplateError> {
    if !is_template(text) {
        return Ok(BTreeSet::new());
    }
    template_bounds::check(text)?;
    let template = ENGINE.template_from_str(text).map_err(told)?;
    let globals: BTreeSet<&str> = ENGINE.globals().map(|(name, _)| name).collect();
    let free = template.undeclared_variables(false).into_iter();
    Ok(free.filter(|name| !globals.contains(name.as_str())).collect())
}

/// The same for a field, its lists and maps included.
pub fn field_variables(value: &Value) -> Result<BTreeSet<String>, TemplateError> {
    match value {
        Value::String(text) => variables(text),
        Value::Array(items) => collect(items.iter()),
        Value::Object(map) => collect(map.values()),
        _ => Ok(BTreeSet::new()),
    }
}

fn collect<'v>(values: impl Iterator<Item = &'v Value>) -> Result<BTreeSet<String>, TemplateError> {
    let mut all = BTreeSet::new();
    for value in values {
        all.append(&mut field_variables(value)?);
    }
    Ok(all)
}

#[allow(clippy::needless_pass_by_value)] // Passed to `map_err` by name.
fn told(error: Error) -> TemplateError {
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.kind() {
        ErrorKind::SyntaxError => TemplateError::Syntax { detail, line: error.line().unwrap_or(1) },
        ErrorKind::UndefinedError => TemplateError::Undefined { detail },
        ErrorKind::OutOfFuel => TemplateError::OutOfFuel,
        ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction => {
            TemplateError::Syntax { detail, line: error.line().unwrap_or(1) }
        }
        _ => TemplateError::Failed { detail },
    }
}

#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    full: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + chunk.len() > MAX_OUTPUT {
            self.full = true;
            return Err(io::Error::other("too long"));
        }
        self.bytes.extend_from_slice(chunk);
        Ok(chunk.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(value: Value) -> Row {
        serde_json::from_value(value).unwrap()
    }

    fn row_of_options() -> Row {
        row(json!({"o": {"b": "it's <x>", "a": 1.5}}))
    }

    #[test]
    fn text_is_rendered_as_written() {
        let row = row(json!({"q": "1 < 2 & \"x\"", "n": 3, "ü": "ä"}));
        assert_eq!(render_text("Q: {{ q }}\nA:\n", &row).unwrap(), "Q: 1 < 2 & \"x\"\nA:\n");
        assert_eq!(render_text("no braces }} here", &row).unwrap(), "no braces }} here");
        assert_eq!(render_text("{{ n + 1 }}", &row).unwrap(), "4");
        let row = row_of_options();
        assert_eq!(render_text("{{ o | tojson }}", &row).unwrap(), r#"{"b":"it's <x>","a":1.5}"#);
        assert_eq!(
            render_text("{% for k, v in o | items %}{{ k }}={{ v }};{% endfor %}", &row).unwrap(),
            "b=it's <x>;a=1.5;"
        );
    }

    #[test]
    fn one_expression_keeps_its_type() {
        let row = row(json!({"a": [1, "x"], "n": 0.5, "big": 18_446_744_073_709_551_615_u64, "j": "{\"k\": [1]}"}));
        let field = |v: Value| render_field(&Field(v), &row).unwrap();
        assert_eq!(field(json!("{{ a }}")), json!([1, "x"]));
        assert_eq!(field(json!("{{ n }}")), json!(0.5));
        assert_eq!(field(json!("{{ big }}")), json!(18_446_744_073_709_551_615_u64));
        assert_eq!(field(json!("{{ j | fromjson }}")), json!({"k": [1]}));
        assert_eq!(field(json!("{{ n }}!")), json!("0.5!"));
        assert_eq!(field(json!("{{ n }} {{ n }}")), json!("0.5 0.5"));
        assert_eq!(field(json!(["no", "{{ n }}"])), json!(["no", 0.5]));
        assert_eq!(field(json!({"k": "{{ a[1] }}"})), json!({"k": "x"}));
    }

    #[test]
    fn faults_are_told_with_their_line() {
        let line = |text: &str| match render_text(text, &row(json!({"q": "x"}))) {
            Err(TemplateError::Syntax { line, .. }) => line,
            other => panic!("{other:?}"),
        };
        assert_eq!(line("a\n\n{{ q | uper }}\nb\n"), 3);
        assert_eq!(line("a\n{{ q \nb\n{% endif %}"), 3);
        assert_eq!(line("{% if q %}\n{{ q + }}{% endif %}"), 2);
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let row = row(json!({"q": "x"}));
        assert!(matches!(render_text("{{ qq }}", &row), Err(TemplateError::Undefined { .. })));
        assert!(matches!(render_field(&Field(json!("{{ qq }}")), &row), Err(TemplateError::Undefined { .. })));
        assert!(matches!(render_text("{{ q.z.z }}", &row), Err(TemplateError::Undefined { .. })));
        assert!(matches!(render_text("{{ q", &row), Err(TemplateError::Syntax { .. })));
        assert!(matches!(render_text("{% include 'x' %}", &row), Err(TemplateError::Failed { .. })));
        assert!(render_text("{% if z is defined %}{{ z }}{% endif %}", &row).is_ok());
    }

    #[test]
    fn no_template_runs_away() {
        let row = row(json!({"q": "x"}));
        let nested = "{% for a in range(9999) %}{% for b in range(9999) %}{{ b }}{% endfor %}{% endfor %}";
        assert_eq!(render_text(nested, &row), Err(TemplateError::OutOfFuel));
        let long = "{% set s = q * 1000000 %}{% for a in range(100) %}{{ s }}{% endfor %}";
        assert_eq!(render_text(long, &row), Err(TemplateError::TooLong));
        assert!(render_text("{{ q * 99999999999 }}", &row).is_err());
    }

    #[test]
    fn free_variables_are_found() {
        let found =
            variables("{% for x in items %}{{ x.a }}{{ loop.index }}{% endfor %}{{ range(3) }}{{ q }}").unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["items", "q"]);
        assert_eq!(field_variables(&json!(["{{ a }}", {"k": "{{ b }}"}])).unwrap().len(), 2);
    }
}
