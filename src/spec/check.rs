//! Checks a tree against the table of keys: unknown keys, wrong types, bad words, missing keys, keys that are not
//! built yet. What needs more than one place to judge is left to [`super::decode`].

use super::diagnostic::{Mistake, Sink};
use super::keys::SUITE;
use super::node::{Entry, Kind, Node};
use super::scalar::{self, Fault};
use super::secrets;
use super::shape::{KeySpec, Section, Shape, Status, Variants, Word};
use super::source::Place;
use super::suggest;
use super::suite::SpeedMetric;

/// Keys that people write where a key must never be, and what to write instead.
const LITERAL_KEYS: [&str; 5] = ["api_key", "apikey", "api-key", "key", "token"];

/// Checks the suite's root node.
pub fn check_section(node: &Node, section: &'static Section, sink: &mut Sink) {
    Checker { sink, told_later: false, key: "" }.section(node, None, section);
}

struct Checker<'s> {
    sink: &'s mut Sink,
    /// One "not yet" is enough for a key and all below it.
    told_later: bool,
    /// The key whose value is being checked, for messages about words.
    key: &'static str,
}

impl Checker<'_> {
    /// `owner` is the key that the node is the value of: what is missing in it is told there.
    fn shape(&mut self, node: &Node, owner: Option<Place>, shape: &'static Shape) {
        match shape {
            Shape::Text | Shape::Path | Shape::Url | Shape::Template => self.text(node),
            Shape::Name => self.name(node),
            Shape::EnvName => self.env_name(node),
            Shape::Field | Shape::Json => self.json(node),
            Shape::Bool => self.scalar(node, scalar::boolean(node)),
            Shape::Int { min, max } => self.scalar(node, scalar::integer(node, *min, *max)),
            Shape::Number { min, max } => self.scalar(node, scalar::number(node, *min, *max)),
            Shape::Duration => self.scalar(node, scalar::duration(node)),
            Shape::Share => self.scalar(node, scalar::share(node)),
            Shape::Usd => self.scalar(node, scalar::usd(node)),
            Shape::Words(words) => self.word(node, words),
            Shape::SpeedMetric => self.metric(node.scalar(), node),
            Shape::JsonMap | Shape::Row => {
                if self.map(node).is_some() {
                    self.json(node);
                }
            }
            Shape::List(item) => self.list(node, item),
            Shape::OneOrList(item) => match node.kind {
                Kind::Seq(_) => self.list(node, item),
                _ => self.shape(node, owner, item),
            },
            Shape::MapOf(value) => {
                for entry in self.map(node).unwrap_or_default() {
                    if matches!(value, Shape::Section(_)) {
                        self.name_text(&entry.key.text, entry.key.place);
                    }
                    self.value(entry, value);
                }
            }
            Shape::Targets => self.targets(node),
            Shape::Section(section) => self.section(node, owner, section),
            Shape::Variants(variants) => self.variants(node, variants),
            Shape::ListOr(item, section) => match node.kind {
                Kind::Map(_) => self.section(node, owner, section),
                _ => self.list(node, item),
            },
            Shape::Or(shape, variants) => match node.kind {
                Kind::Map(_) => self.variants(node, variants),
                _ => self.shape(node, owner, shape),
            },
            Shape::VariantOr(variants, section) => {
                let is_section = section.keys.iter().any(|key| key.required && node.get(key.name).is_some());
                if is_section {
                    self.section(node, owner, section);
                } else {
                    self.variants(node, variants);
                }
            }
        }
    }

    fn wrong_type(&mut self, node: &Node, want: &str) {
        let message = format!("expected {want}, found {}", node.describe());
        self.sink.report(Mistake::new("wrong-type", node.place, message));
    }

    fn map<'n>(&mut self, node: &'n Node) -> Option<&'n [Entry]> {
        if node.entries().is_none() {
            self.wrong_type(node, "a map of `key: value`");
        }
        node.entries()
    }

    fn list(&mut self, node: &Node, item: &'static Shape) {
        let Some(items) = node.items() else { return self.wrong_type(node, "a list") };
        for node in items {
            self.shape(node, None, item);
        }
    }

    fn scalar<T>(&mut self, node: &Node, result: Result<T, Fault>) {
        if let Err(Fault { code, message, hint }) = result {
            self.sink.report(Mistake::new(code, node.place, message).maybe_hint(hint));
        }
    }

    fn text(&mut self, node: &Node) {
        if node.scalar().is_none() || node.is_null() {
            self.wrong_type(node, "text");
        }
    }

    /// NaN and infinities have no JSON.
    fn json(&mut self, node: &Node) {
        node.to_json(super::node::Numbers::Values, self.sink);
    }

    fn name(&mut self, node: &Node) {
        match node.scalar().filter(|_| !node.is_null()) {
            Some(text) => self.name_text(text, node.place),
            None => self.wrong_type(node, "a name"),
        }
    }

    fn name_text(&mut self, text: &str, place: Place) {
        let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
        let ends_well = text.chars().next().is_some_and(char::is_alphanumeric);
        if !ends_well || text.chars().count() > 64 || !text.chars().all(fits) {
            let short: String = text.chars().take(40).collect();
            let message = format!("`{short}` can't be a name");
            let hint = "start with a letter or a digit; letters, digits, `-`, `_`, `.`, `+`; at most 64 characters";
            self.sink.report(Mistake::new("bad-name", place, message).hint(hint));
        }
    }

    fn env_name(&mut self, node: &Node) {
        let Some(text) = node.scalar().filter(|_| !node.is_null()) else {
            return self.wrong_type(node, "the name of an environment variable");
        };
        let fits = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if secrets::looks_secret(text) || !fits || text.starts_with(|c: char| c.is_ascii_digit()) {
            let message = "expected the name of an environment variable, found something else";
            let hint = "put the key into a variable and write the variable's name, such as `OPENAI_API_KEY`";
            self.sink.report(Mistake::new("literal-secret", node.place, message).hint(hint).secret());
        }
    }

    fn word(&mut self, node: &Node, words: &'static [Word]) {
        let Some(text) = node.scalar() else { return self.wrong_type(node, "a word") };
        match words.iter().find(|w| w.text == text) {
            Some(Word { status: Status::Live, .. }) => {}
            Some(_) => self.not_yet(node.place, &format!("{}: {text}", self.key)),
            None => {
                let live = || words.iter().filter(|w| w.status == Status::Live).map(|w| w.text);
                let message = format!("{} is no value of `{}`", node.describe(), self.key);
                let hint = suggest::did_you_mean(text, words.iter().map(|w| w.text));
                let mistake = Mistake::new("bad-word", node.place, message).maybe_hint(hint);
                self.sink.report(mistake.help(format!("allowed: {}", suggest::list(live()))));
            }
        }
    }

    fn metric(&mut self, text: Option<&str>, node: &Node) {
        let Some(text) = text else { return self.wrong_type(node, "a speed metric") };
        self.metric_text(text, node.place);
    }

    fn metric_text(&mut self, text: &str, place: Place) {
        if text.parse::<SpeedMetric>().is_err() {
            let names = SpeedMetric::all_names();
            let message = format!("`{text}` is not a speed metric");
            let hint = suggest::did_you_mean(text, names.iter().map(String::as_str));
            let help = format!("allowed: {}", suggest::list(names.iter().map(String::as_str)));
            self.sink.report(Mistake::new("unknown-metric", place, message).maybe_hint(hint).help(help));
        }
    }

    fn targets(&mut self, node: &Node) {
        for entry in self.map(node).unwrap_or_default() {
            self.metric_text(&entry.key.text, entry.key.place);
            match entry.key.text.parse::<SpeedMetric>() {
                Ok(SpeedMetric::Latency { .. }) => self.scalar(&entry.value, scalar::duration(&entry.value)),
                Ok(SpeedMetric::ErrorRate) => self.scalar(&entry.value, scalar::share(&entry.value)),
                Ok(_) => {
                    let message = format!("`{}` has no \"at most\"; a higher one is better", entry.key.text);
                    let hint = "use a speed gate with `ratio_at_least`";
                    self.sink.report(Mistake::new("unknown-metric", entry.key.place, message).hint(hint));
                }
                Err(_) => {}
            }
        }
    }

    fn section(&mut self, node: &Node, owner: Option<Place>, section: &'static Section) {
        let Some(entries) = self.map(node) else { return };
        let place = owner.or(entries.first().map(|e| e.key.place)).unwrap_or(node.place);
        let told_before = self.told_later;
        for entry in entries {
            match section.key(&entry.key.text) {
                Some(key) => self.known(entry, key, told_before || !std::ptr::eq(section, &raw const SUITE)),
                None => self.unknown_key(entry, section),
            }
        }
        self.told_later = told_before;
        for key in section.keys.iter().filter(|k| k.required && node.entry(k.name).is_none()) {
            let message = format!("{} has no `{}`", section.name, key.name);
            self.sink.report(Mistake::new("missing-key", place, message).hint(lower_first(key.doc)));
        }
    }

    /// In the suite itself each key stands alone; below it, one "not yet" explains the keys beside it
    /// (`mode: open` and `arrivals:`).
    fn known(&mut self, entry: &Entry, key: &'static KeySpec, sticky: bool) {
        let before = self.told_later;
        self.key = key.name;
        if key.status == Status::NotYet {
            self.not_yet(entry.key.place, key.name);
        }
        if !(key.nullable && entry.value.is_null() && entry.value.scalar() != Some("")) {
            self.value(entry, &key.shape);
        }
        self.told_later = before || (self.told_later && sticky);
    }

    fn value(&mut self, entry: &Entry, shape: &'static Shape) {
        let may_be_null = matches!(shape, Shape::Json | Shape::Field);
        if entry.value.is_null() && !may_be_null {
            let message = format!("`{}` has no value", entry.key.text);
            self.sink.report(Mistake::new("no-value", entry.key.place, message).hint("fill it in or remove the key"));
        } else {
            self.shape(&entry.value, Some(entry.key.place), shape);
        }
    }

    fn not_yet(&mut self, place: Place, what: &str) {
        if !self.told_later {
            let message = format!("`{what}` is not built yet");
            self.sink.report(Mistake::new("not-yet", place, message).hint("this version knows the word, and no more"));
            self.told_later = true;
        }
    }

    fn unknown_key(&mut self, entry: &Entry, section: &'static Section) {
        let name = entry.key.text.as_str();
        if LITERAL_KEYS.contains(&name) && section.key("api_key_env").is_some() {
            let message = format!("`{name}` holds a key; a suite never does");
            let hint = "put the key into an environment variable and write `api_key_env: NAME_OF_THE_VARIABLE`";
            let mistake = Mistake::new("literal-secret", entry.key.place, message).hint(hint);
            // The value must not be shown either: the place covers key and value.
            let place = Place { end: entry.value.place.end.max(entry.key.place.end), ..entry.key.place };
            self.sink.report(Mistake { place, ..mistake }.secret());
            return;
        }
        let message = format!("unknown key `{}` in {}", short(name), section.name);
        let live = section.keys.iter().filter(|k| k.status == Status::Live).map(|k| k.name);
        let hint = suggest::did_you_mean(name, section.keys.iter().map(|k| k.name));
        let mistake = Mistake::new("unknown-key", entry.key.place, message).maybe_hint(hint);
        self.sink.report(mistake.help(format!("allowed: {}", suggest::list(live))));
    }

    fn variants(&mut self, node: &Node, variants: &'static Variants) {
        let Some(entries) = self.map(node) else { return };
        let kinds = || variants.kinds.iter().map(|k| k.name);
        let live = || variants.kinds.iter().filter(|k| k.status == Status::Live).map(|k| k.name);
        let (mut kind, mut unknown) = (None, None);
        for entry in entries {
            let name = entry.key.text.as_str();
            if variants.beside.contains(&name) {
                continue;
            }
            match variants.kinds.iter().find(|k| k.name == name) {
                Some(key) if kind.is_none() => kind = Some((entry, key)),
                Some(_) => {
                    let message = format!("{} is one kind; `{name}` is a second one", variants.name);
                    let own = || format!("give `{name}` a list item of its own");
                    let hint = if variants.listed { own() } else { "keep one of the two".to_owned() };
                    self.sink.report(Mistake::new("two-kinds", entry.key.place, message).hint(hint));
                }
                None => unknown = unknown.or(Some(entry)),
            }
        }
        match (kind, unknown) {
            (Some((entry, key)), unknown) => {
                self.kind(node, entry, key, variants);
                if let Some(extra) = unknown {
                    let message = format!("unknown key `{}` beside `{}`", short(&extra.key.text), key.name);
                    let hint = format!("keys of {} go inside it: `{}: {{…}}`", variants.name, key.name);
                    self.sink.report(Mistake::new("unknown-key", extra.key.place, message).hint(hint));
                }
            }
            (None, Some(entry)) => {
                let message = format!("`{}` is not a kind of {}", short(&entry.key.text), bare(variants.name));
                let hint = suggest::did_you_mean(&entry.key.text, kinds());
                let mistake = Mistake::new("unknown-kind", entry.key.place, message).maybe_hint(hint);
                self.sink.report(mistake.help(format!("allowed: {}", suggest::list(live()))));
            }
            (None, None) => {
                let message = format!("{} needs its kind as the one key", variants.name);
                let help = format!("allowed: {}", suggest::list(live()));
                self.sink.report(Mistake::new("missing-key", node.place, message).help(help));
            }
        }
    }

    fn kind(&mut self, node: &Node, entry: &Entry, key: &'static KeySpec, variants: &'static Variants) {
        let before = self.told_later;
        if key.status == Status::NotYet {
            self.not_yet(entry.key.place, key.name);
        }
        match &key.shape {
            // `- exact:` alone takes all defaults.
            Shape::Section(section) if entry.value.is_null() => {
                let empty = Node { place: entry.key.place, kind: Kind::Map(vec![]) };
                self.section(&empty, Some(entry.key.place), section);
            }
            Shape::Section(section) => self.section(&entry.value, Some(entry.key.place), section),
            shape => self.value(entry, shape),
        }
        self.told_later = before;
        let Shape::Section(section) = &key.shape else { return };
        for name in variants.beside {
            let Some(beside) = node.entry(name) else { continue };
            if let Some(inside) = entry.value.entry(name) {
                let message = format!("`{name}` stands beside `{}` and inside it", key.name);
                let mistake = Mistake::new("duplicate-key", beside.key.place, message);
                self.sink.report(mistake.earlier(inside.key.place, "also written"));
            }
            if let Some(spec) = section.key(name) {
                self.value(beside, &spec.shape);
            }
        }
    }
}

fn bare(name: &str) -> &str {
    name.trim_start_matches("an ").trim_start_matches("a ")
}

fn short(name: &str) -> String {
    name.chars().take(60).collect()
}

fn lower_first(doc: &str) -> String {
    let mut chars = doc.trim_end_matches('.').chars();
    chars.next().map(|c| c.to_lowercase().chain(chars).collect()).unwrap_or_default()
}
