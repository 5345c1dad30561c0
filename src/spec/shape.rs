//! What a suite file may say, as data: the reader's check, the decoder's defaults, the JSON Schema and the commented
//! suite of `init` all come from the one table in [`super::keys`].

/// A map with known keys.
#[derive(Debug)]
pub struct Section {
    /// How messages call it, with its article: `a deployment`.
    pub name: &'static str,
    pub keys: &'static [KeySpec],
}

#[derive(Debug)]
pub struct KeySpec {
    pub name: &'static str,
    pub shape: Shape,
    pub required: bool,
    /// `null` is a value of its own: leave this out of the request.
    pub nullable: bool,
    pub status: Status,
    /// The value that holds where the key is left out, as YAML.
    pub default: Option<&'static str>,
    pub doc: &'static str,
}

/// Whether this version acts on a key, or only knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Live,
    NotYet,
}

#[derive(Debug)]
pub enum Shape {
    Text,
    /// A name that becomes part of paths and arguments: letters, digits, `-`, `_`, `.`, `+`.
    Name,
    /// The name of an environment variable.
    EnvName,
    /// A path below the root.
    Path,
    Url,
    /// A template that renders to text.
    Template,
    /// A grader's field: see [`super::task::Field`].
    Field,
    Bool,
    Int {
        min: u64,
        max: u64,
    },
    Number {
        min: f64,
        max: f64,
    },
    /// `1500ms`, longer than nothing.
    Duration,
    /// `2%`, `2pp` or `0.02`.
    Share,
    /// An amount of money.
    Usd,
    Words(&'static [Word]),
    SpeedMetric,
    /// Any value, as JSON.
    Json,
    /// A map of any values, as JSON.
    JsonMap,
    /// A row of data.
    Row,
    List(&'static Shape),
    OneOrList(&'static Shape),
    /// A map with free keys.
    MapOf(&'static Shape),
    /// `slo:`: speed metrics to the most that they may be.
    Targets,
    Section(&'static Section),
    /// A map with one key that says what it is.
    Variants(&'static Variants),
    /// A list or a section, told apart by the node; a section also where it has `key`.
    ListOr(&'static Shape, &'static Section),
    /// Variants where there is a map, else the shape.
    Or(&'static Shape, &'static Variants),
    /// A variant, or a section where the map has a key of that section.
    VariantOr(&'static Variants, &'static Section),
}

/// One word of a closed set.
#[derive(Debug)]
pub struct Word {
    pub text: &'static str,
    pub status: Status,
}

/// Single-key maps: the key names the kind, the value is that kind's section.
#[derive(Debug)]
pub struct Variants {
    /// `a grader`.
    pub name: &'static str,
    pub kinds: &'static [KeySpec],
    /// Whether such maps stand in a list, one for each kind that is wanted.
    pub listed: bool,
    /// Keys that may stand beside the one, as well as inside it.
    pub beside: &'static [&'static str],
}

impl KeySpec {
    pub const fn new(name: &'static str, shape: Shape, doc: &'static str) -> KeySpec {
        KeySpec { name, shape, required: false, nullable: false, status: Status::Live, default: None, doc }
    }

    #[must_use]
    pub const fn required(mut self) -> KeySpec {
        self.required = true;
        self
    }

    #[must_use]
    pub const fn nullable(mut self) -> KeySpec {
        self.nullable = true;
        self
    }

    #[must_use]
    pub const fn or(mut self, default: &'static str) -> KeySpec {
        self.default = Some(default);
        self
    }

    #[must_use]
    pub const fn later(mut self) -> KeySpec {
        self.status = Status::NotYet;
        self
    }
}

impl Section {
    pub fn key(&self, name: &str) -> Option<&'static KeySpec> {
        self.keys.iter().find(|k| k.name == name)
    }
}

pub const fn word(text: &'static str) -> Word {
    Word { text, status: Status::Live }
}

pub const fn later(text: &'static str) -> Word {
    Word { text, status: Status::NotYet }
}
