//! From a suite's name to a [`Loaded`] suite, or to every mistake at once.

use std::path::{Path, PathBuf};

use super::decode::{self, Context};
use super::diagnostic::{Diagnostic, Diagnostics, Mistake, Sink};
use super::files::{self, BUILTIN, FileError, Root};
use super::keys::SUITE;
use super::node::Node;
use super::source::{Place, Sources};
use super::suite::Suite;
use super::task::Dataset;
use super::{builtin, check, env, overlay, suggest, yaml};
use crate::world::World;

/// Where a suite comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuiteSource {
    Path(PathBuf),
    Builtin(String),
}

impl SuiteSource {
    /// `builtin:NAME`, or a path.
    pub fn parse(text: &str) -> SuiteSource {
        match text.strip_prefix(BUILTIN) {
            Some(name) => SuiteSource::Builtin(name.to_owned()),
            None => SuiteSource::Path(PathBuf::from(text)),
        }
    }
}

impl std::fmt::Display for SuiteSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SuiteSource::Path(path) => write!(f, "{}", path.display()),
            SuiteSource::Builtin(name) => write!(f, "{BUILTIN}{name}"),
        }
    }
}

/// What the command line changes about a suite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// `path=value` texts, applied in their order before the suite is checked.
    pub set: Vec<String>,
    /// Only tasks whose name fits (`*`, `?`).
    pub task_glob: Option<String>,
    /// At most so many samples of each task.
    pub limit: Option<usize>,
}

/// A suite without mistakes.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// With `${env:NAME}` unresolved: for files.
    pub suite: Suite,
    /// With variables filled in: for the run. Never written.
    pub live: Suite,
    /// The file as it was read.
    pub text: String,
    pub warnings: Vec<Diagnostic>,
}

/// Reads, checks and resolves a suite.
#[allow(clippy::needless_pass_by_value)] // A source is made for the call; the callers read better so.
pub fn load(source: SuiteSource, world: &dyn World, options: &LoadOptions) -> Result<Loaded, Diagnostics> {
    let name = source.to_string();
    let (bytes, folder) = read(&source).map_err(|d| Diagnostics::from(*d))?;
    let text = decode_text(&name, bytes).map_err(|d| Diagnostics::from(*d))?;
    let mut sources = Sources::default();
    let mut sink = Sink::default();
    let id = sources.add(&name, &text);
    let Some(mut tree) = tree(id, &text, &mut sink) else { return Err(sink.finish(&sources)) };
    overlay::apply_sets(&mut tree, &options.set, &mut sources, &mut sink);
    overlay::resolve_extends(&mut tree, &mut sink);
    check::check_section(&tree, &SUITE, &mut sink);
    env::check(&tree, world, &mut sink);
    let root = root(&tree, &folder, world, &mut sink);
    let mut suite = decode::suite(&tree, &mut Context { sink: &mut sink, root: &root, world, sources: &sources });
    if !sink.has_errors() {
        narrow(&mut suite, options, &mut sink);
    }
    let failed = sink.has_errors();
    let told = sink.finish(&sources);
    if failed {
        return Err(told);
    }
    // Every variable was checked in the tree; one that only the suite has would be a slip of this room.
    let live = env::interpolate(&suite, world).map_err(|missing| missing_variables(&name, &missing))?;
    Ok(Loaded { suite, live, text, warnings: told.0 })
}

fn missing_variables(file: &str, names: &[String]) -> Diagnostics {
    let message = format!("environment variables are not set: {}", names.join(", "));
    Diagnostics::from(Diagnostic::without_place("missing-variable", file, message))
}

/// Where relative paths of a suite start.
enum Folder {
    Disk(PathBuf),
    Embedded(&'static str),
}

type Refusal = Box<Diagnostic>;

fn read(source: &SuiteSource) -> Result<(Vec<u8>, Folder), Refusal> {
    match source {
        SuiteSource::Builtin(name) => {
            let bytes = builtin::file(&format!("suites/{name}.yaml")).ok_or_else(|| {
                let names = builtin::suite_names();
                let message = format!("there is no built-in suite `{name}`");
                let mut refusal = Diagnostic::without_place("missing-file", &source.to_string(), message);
                refusal.hint = suggest::did_you_mean(name, names.iter().copied());
                refusal.help = Some(format!("built in: {}", suggest::list(names)));
                Box::new(refusal)
            })?;
            Ok((bytes.to_vec(), Folder::Embedded("suites")))
        }
        SuiteSource::Path(path) => {
            let bytes = files::read(path, yaml::MAX_BYTES as u64).map_err(|e| Box::new(unreadable(path, &e)))?;
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            Ok((bytes, Folder::Disk(folder.to_owned())))
        }
    }
}

fn unreadable(path: &Path, error: &FileError) -> Diagnostic {
    let code = match error {
        FileError::Missing { .. } => "missing-file",
        FileError::TooLarge { .. } => "too-large",
        _ => "unreadable-file",
    };
    let mut refusal = Diagnostic::without_place(code, &path.display().to_string(), error.to_string());
    refusal.hint = match error {
        FileError::Missing { near: Some(near), .. } => Some(format!("did you mean `{near}`?")),
        FileError::Missing { near: None, .. } => Some("`counterpoise init` writes a suite to start from".to_owned()),
        FileError::TooLarge { .. } => Some("put rows into a dataset file".to_owned()),
        _ => None,
    };
    refusal
}

/// UTF-8 without a byte-order mark.
fn decode_text(name: &str, bytes: Vec<u8>) -> Result<String, Refusal> {
    let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) => rest.to_vec(),
        None => bytes,
    };
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let lossy = String::from_utf8_lossy(error.as_bytes()).into_owned();
        let mut sources = Sources::default();
        let mut sink = Sink::default();
        // Up to the fault the lossy text has the same bytes.
        let place = Place::new(sources.add(name, &lossy), valid, valid + 1);
        let mistake = Mistake::new("not-utf8", place, "the file is not UTF-8 from here on");
        sink.report(mistake.hint("save it as UTF-8"));
        let first = sink.finish(&sources).0.into_iter().next();
        Box::new(first.unwrap_or_else(|| Diagnostic::without_place("not-utf8", name, "the file is not UTF-8")))
    })
}

fn tree(id: u16, text: &str, sink: &mut Sink) -> Option<Node> {
    let tree = yaml::parse(id, text, 0, sink);
    let empty = tree.as_ref().is_none_or(Node::is_null);
    if empty && !sink.has_errors() {
        let mistake = Mistake::new("empty-suite", Place::new(id, 0, 1), "the suite is empty");
        sink.report(mistake.hint("`counterpoise init` writes a suite to start from"));
    }
    tree.filter(|_| !empty)
}

fn root(tree: &Node, folder: &Folder, world: &dyn World, sink: &mut Sink) -> Root {
    let node = tree.get("root");
    let written = node.and_then(Node::scalar).and_then(|text| env::fill(text, world).ok());
    let place = node.map_or(tree.place, |n| n.place);
    let relative = written.unwrap_or_else(|| ".".to_owned());
    match folder {
        Folder::Embedded(folder) => Root::embedded(folder).below(&relative).unwrap_or_else(|error| {
            sink.report(decode::file_mistake(&error, place));
            Root::embedded(folder)
        }),
        Folder::Disk(folder) => Root::on_disk(&folder.join(&relative)).unwrap_or_else(|_| {
            let message = format!("the root `{relative}` is not a folder");
            sink.report(Mistake::new("bad-root", place, message).hint("it starts from the suite's own folder"));
            Root::on_disk(folder).unwrap_or_else(|_| Root::embedded(""))
        }),
    }
}

/// Applies `--task` and `--limit`.
fn narrow(suite: &mut Suite, options: &LoadOptions, sink: &mut Sink) {
    if let Some(glob) = &options.task_glob {
        let names: Vec<String> = suite.tasks.iter().map(|t| t.name.clone()).collect();
        suite.tasks.retain(|task| glob_fits(glob, &task.name));
        warn_of_gates(suite, glob, sink);
        if suite.tasks.is_empty() {
            let message = format!("no task fits `--task {glob}`");
            let help = format!("tasks: {}", suggest::list(names.iter().map(String::as_str)));
            sink.report(Mistake::new("unknown-task", Place::default(), message).help(help));
        }
    }
    if options.limit == Some(0) {
        let mistake = Mistake::new("empty-dataset", Place::default(), "`--limit 0` leaves nothing to ask");
        sink.report(mistake.hint("use at least `--limit 1`; `plan` sends nothing"));
    }
    for task in &mut suite.tasks {
        match (&mut task.dataset, options.limit) {
            (Dataset::File { limit, .. }, Some(most)) => *limit = Some(limit.map_or(most, |own| own.min(most))),
            (Dataset::Cases(rows), Some(most)) => rows.truncate(most),
            (_, None) => {}
        }
    }
}

/// A gate on a task that is left out stays, and can't be judged: a run of some tasks must not pass for the whole.
fn warn_of_gates(suite: &Suite, glob: &str, sink: &mut Sink) {
    for (index, gate) in suite.gates.iter().enumerate() {
        let Some(task) = gate.scope.task.as_deref().filter(|name| suite.tasks.iter().all(|t| t.name != **name)) else {
            continue;
        };
        let message = format!("gate {} weighs the task `{task}`, which `--task {glob}` leaves out", index + 1);
        let hint = "the gate can't be judged: run all tasks for a verdict";
        sink.report(Mistake::new("gate-left-out", Place::default(), message).hint(hint).warning());
    }
}

/// `*` stands for any characters, `?` for one.
fn glob_fits(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    // Where the last `*` was, and how much of the name it has taken: no recursion, no blow-up.
    let (mut g, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match glob.get(g) {
            Some('*') => {
                star = Some((g, n));
                g += 1;
            }
            Some(c) if *c == '?' || Some(c) == name.get(n) => {
                g += 1;
                n += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (g, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    glob.get(g..).is_none_or(|rest| rest.iter().all(|c| *c == '*'))
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
