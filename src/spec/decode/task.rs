//! Tasks: where samples come from, what is asked, how answers are judged.

use std::collections::HashMap;
use std::path::PathBuf;

use super::deployment::file_mistake;
use super::templates::{self, Use};
use super::{Context, grader};
use crate::spec::dataset::{self, DatasetError};
use crate::spec::diagnostic::Mistake;
use crate::spec::env;
use crate::spec::keys_task::{DATASET, EXAMPLE, MESSAGE, TASK};
use crate::spec::node::{Node, Numbers};
use crate::spec::source::Place;
use crate::spec::suggest;
use crate::spec::task::{Dataset, Example, MessageTemplate, Role, Row, Task};
use crate::spec::view::{View, text};

/// A task with what gates need to know of it.
pub struct Decoded {
    pub task: Task,
    /// Rows that the task asks; absent where its dataset could not be read.
    pub samples: Option<usize>,
}

pub fn all(suite: &View<'_>, cx: &mut Context<'_>) -> Vec<Decoded> {
    let nodes = suite.items("tasks");
    if let (Some(node), []) = (suite.node("tasks"), nodes)
        && node.items().is_some()
    {
        cx.report(Mistake::new("missing-key", node.place, "`tasks` is empty").hint("write at least one task"));
    }
    let mut names: HashMap<&str, Place> = HashMap::new();
    for node in nodes.iter().filter_map(|n| n.get("name")) {
        let Some(name) = node.scalar() else { continue };
        if name.trim().is_empty() || name.chars().any(char::is_control) || name.chars().count() > 120 {
            let mistake = Mistake::new("bad-name", node.place, "a task's name is one line of 1 to 120 characters");
            cx.report(mistake);
        }
        if let Some(first) = names.get(name) {
            let message = format!("two tasks are called `{name}`");
            cx.report(Mistake::new("duplicate-name", node.place, message).earlier(*first, "first written"));
        } else {
            names.insert(name, node.place);
        }
    }
    nodes.iter().map(|node| one(node, cx)).collect()
}

fn one(node: &Node, cx: &mut Context<'_>) -> Decoded {
    let start = Place { end: node.place.start + 1, ..node.place };
    let view = View::new(Some(node), &TASK, start);
    let (dataset, rows) = dataset(&view, cx);
    let (messages, mut uses) = messages(&view, cx);
    let graders = grader::all(&view, &mut uses, cx);
    let examples = examples(&view, cx);
    if let Some(rows) = &rows {
        templates::check(&uses, rows, cx);
        check_cluster(&view, rows, cx);
        warn_of_ids(&view, rows, cx);
    } else {
        templates::check_syntax(&uses, cx);
    }
    let rows_of_examples: Vec<(Place, Row)> = examples.iter().map(|(place, e)| (*place, e.row.clone())).collect();
    templates::check_examples(&uses, &rows_of_examples, cx);
    let task = Task {
        name: view.text("name").unwrap_or_default(),
        category: view.text("category"),
        dataset,
        messages,
        cluster_by: view.text("cluster_by"),
        graders,
        examples: examples.into_iter().map(|(_, example)| example).collect(),
        weight: view.number("weight").unwrap_or(1.0),
        grade_truncated: view.boolean("grade_truncated").unwrap_or(false),
        latency: view.boolean("latency").unwrap_or(true),
        response_format: view.node("response_format").map(|n| n.to_json(Numbers::Values, cx.sink)),
        stop: view.texts("stop").unwrap_or_default(),
    };
    Decoded { samples: rows.map(|r| r.len()), task }
}

/// A path below the root: resolved and checked with its variables filled in, kept with them unresolved.
pub fn resolve(written: &str, place: Place, cx: &mut Context<'_>) -> Option<PathBuf> {
    let filled = cx.filled(written)?;
    match cx.root.resolve(&filled) {
        Ok(_) if env::has_variable(written) => Some(cx.root.path().join(written)),
        Ok(path) => Some(path),
        // What a variable holds is not shown, not even as a path.
        Err(_) if env::has_variable(written) => {
            let message = format!("`{written}` is no file below the root once its variables are filled in");
            cx.report(Mistake::new("missing-file", place, message));
            None
        }
        Err(error) => {
            cx.report(file_mistake(&error, place));
            None
        }
    }
}

fn dataset(task: &View<'_>, cx: &mut Context<'_>) -> (Dataset, Option<Vec<Row>>) {
    let view = task.section("dataset", &DATASET);
    let homes = [
        task.node("cases").map(|n| (n, task.key_place("cases"))),
        view.node("cases").map(|n| (n, view.key_place("cases"))),
        view.node("file").map(|n| (n, view.key_place("file"))),
    ];
    let mut present = homes.iter().flatten();
    let nothing = (Dataset::Cases(vec![]), None);
    let Some((node, _)) = present.next() else {
        // A dataset of the wrong type was told already.
        if task.node("dataset").is_none_or(|n| n.entries().is_some()) {
            let message = "the task has no samples";
            let hint = "write `dataset: {file: …}` or `cases: […]`";
            cx.report(Mistake::new("missing-key", task.place, message).hint(hint));
        }
        return nothing;
    };
    if let Some((_, second)) = present.next() {
        let message = "a task has one source of samples, this is a second one";
        cx.report(Mistake::new("two-kinds", *second, message).hint("keep `file` or `cases`"));
        return nothing;
    }
    let limit = view.integer("limit").and_then(|n| usize::try_from(n).ok());
    if view.node("file").is_some() { file(&view, node, limit, cx) } else { cases(node, limit, cx) }
}

fn cases(node: &Node, limit: Option<usize>, cx: &mut Context<'_>) -> (Dataset, Option<Vec<Row>>) {
    let Some(items) = node.items() else { return (Dataset::Cases(vec![]), None) };
    if items.is_empty() {
        cx.report(Mistake::new("empty-dataset", node.place, "`cases` is empty").hint("write at least one row"));
        return (Dataset::Cases(vec![]), None);
    }
    let kept = items.iter().take(limit.unwrap_or(usize::MAX));
    let rows: Vec<Row> = kept.map(|row| row.to_object(Numbers::AsWritten, cx.sink)).collect();
    (Dataset::Cases(rows.clone()), Some(rows))
}

fn file(view: &View<'_>, node: &Node, limit: Option<usize>, cx: &mut Context<'_>) -> (Dataset, Option<Vec<Row>>) {
    let nothing = (Dataset::Cases(vec![]), None);
    let Some(written) = text(node) else { return nothing };
    if written.to_ascii_lowercase().ends_with(".parquet") {
        let mistake = Mistake::new("not-yet", node.place, "Parquet datasets are not built yet");
        cx.report(mistake.hint("export it as .jsonl or .csv"));
        return nothing;
    }
    let Some(path) = resolve(&written, view.place_of("file"), cx) else { return nothing };
    let dataset = Dataset::File { path, limit };
    let filled = cx.filled(&written).and_then(|filled| cx.root.resolve(&filled).ok());
    let Some(real) = filled else { return (dataset, None) };
    match dataset::read_file(&real, limit.unwrap_or(usize::MAX)) {
        Ok(rows) => (dataset, Some(rows)),
        Err(error) => {
            cx.report(dataset_mistake(&error, &written, node.place));
            (dataset, None)
        }
    }
}

fn dataset_mistake(error: &DatasetError, written: &str, place: Place) -> Mistake {
    let new = |code, message: String| Mistake::new(code, place, message);
    match error {
        DatasetError::File(error) => file_mistake(error, place),
        DatasetError::Format { .. } => {
            new("bad-dataset", format!("`{written}` is not read")).hint("datasets are .jsonl or .csv files")
        }
        DatasetError::Empty { .. } => new("empty-dataset", format!("`{written}` has no rows")),
        DatasetError::Line { line, why, .. } => {
            new("bad-dataset", format!("`{written}`, line {line}: {why}")).hint("mend that line of the dataset")
        }
    }
}

fn messages<'n>(view: &View<'n>, cx: &mut Context<'_>) -> (Vec<MessageTemplate>, Vec<Use>) {
    let (mut messages, mut uses) = (vec![], vec![]);
    let mut add = |role: Role, node: &'n Node| {
        let Some(content) = text(node) else { return };
        uses.push(Use::text(node, &content));
        messages.push(MessageTemplate { role, content });
    };
    match (view.node("prompt"), view.node("messages")) {
        (Some(_), Some(_)) => {
            let message = "`messages` beside `prompt`";
            let mistake = Mistake::new("two-kinds", view.key_place("messages"), message);
            cx.report(mistake.hint("keep one; `prompt` is one user message"));
        }
        (None, None) => {
            let mistake = Mistake::new("missing-key", view.place, "the task asks nothing");
            cx.report(mistake.hint("write `prompt: \"…\"` or `messages: […]`"));
        }
        (Some(prompt), None) => {
            if let Some(system) = view.node("system") {
                add(Role::System, system);
            }
            add(Role::User, prompt);
        }
        (None, Some(list)) => {
            if view.node("system").is_some() {
                let message = "`system` beside `messages`";
                let mistake = Mistake::new("two-kinds", view.key_place("system"), message);
                cx.report(mistake.hint("write it as the first message, with `role: system`"));
            }
            if list.items().is_some_and(<[Node]>::is_empty) {
                cx.report(Mistake::new("missing-key", list.place, "`messages` is empty"));
            }
            for node in list.items().unwrap_or_default() {
                let message = View::new(Some(node), &MESSAGE, node.place);
                if let Some((role, content)) = message.word("role").zip(message.node("content")) {
                    add(role, content);
                }
            }
        }
    }
    (messages, uses)
}

fn examples(view: &View<'_>, cx: &mut Context<'_>) -> Vec<(Place, Example)> {
    let mut all = vec![];
    for node in view.items("examples") {
        let example = View::new(Some(node), &EXAMPLE, node.place);
        let pass = match example.node("pass") {
            Some(node) if node.is_null() => None,
            Some(node) => match crate::spec::scalar::boolean(node) {
                Ok(pass) => Some(pass),
                Err(fault) => {
                    let mistake = Mistake::new(fault.code, node.place, fault.message).maybe_hint(fault.hint);
                    cx.report(mistake.help("null means that the reply must stay unscored"));
                    None
                }
            },
            None => None,
        };
        let row = example.node("row").map(|n| n.to_object(Numbers::AsWritten, cx.sink)).unwrap_or_default();
        let reply = example.text("reply").unwrap_or_default();
        all.push((example.place_of("row"), Example { row, reply, pass }));
    }
    all
}

fn check_cluster(view: &View<'_>, rows: &[Row], cx: &mut Context<'_>) {
    let Some(column) = view.text("cluster_by") else { return };
    if let Some(row) = rows.iter().position(|r| !r.contains_key(&column)) {
        let columns: Vec<&str> = rows.iter().flat_map(Row::keys).map(String::as_str).take(1000).collect();
        let message = format!("row {} has no column `{column}`", row + 1);
        let mistake = Mistake::new("missing-column", view.place_of("cluster_by"), message);
        cx.report(mistake.maybe_hint(suggest::did_you_mean(&column, columns)));
    }
}

/// Two rows of one id could not be told apart in the report.
fn warn_of_ids(view: &View<'_>, rows: &[Row], cx: &mut Context<'_>) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, id) in rows.iter().enumerate().filter_map(|(index, row)| Some((index, row.get("id")?))) {
        if let Some(first) = seen.insert(id.to_string(), index) {
            let place = if view.node("cases").is_some() { view.key_place("cases") } else { view.key_place("dataset") };
            let message = format!("rows {} and {} have the same `id`: {id}", first + 1, index + 1);
            cx.report(Mistake::new("duplicate-id", place, message).hint("give each row an id of its own").warning());
            return;
        }
    }
}

/// Samples of all timed tasks together.
pub fn timed_samples(tasks: &[Decoded]) -> Option<usize> {
    tasks.iter().filter(|t| t.task.latency).map(|t| t.samples).sum()
}
