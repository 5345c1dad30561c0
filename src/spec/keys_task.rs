//! The table of a suite's keys, continued: tasks, graders, gates.

use super::shape::{KeySpec, Section, Shape, Variants, Word, word};

const SHARE_01: Shape = Shape::Number { min: 0.0, max: 1.0 };
const POSITIVE: Shape = Shape::Number { min: 0.000_001, max: 1e6 };

pub static TASK: Section = Section {
    name: "a task",
    keys: &[
        KeySpec::new("name", Shape::Text, "The task's name, unique in the suite.").required(),
        KeySpec::new("category", Shape::Text, "Tasks of one category are also summed up together."),
        KeySpec::new("dataset", Shape::Section(&DATASET), "Where the samples come from."),
        KeySpec::new("cases", Shape::List(&Shape::Row), "Samples written in place of a dataset."),
        KeySpec::new("prompt", Shape::Template, "The user's message, a template over the sample's columns."),
        KeySpec::new("system", Shape::Template, "The system message before `prompt`."),
        KeySpec::new("messages", Shape::List(&Shape::Section(&MESSAGE)), "A whole conversation in place of `prompt`."),
        KeySpec::new("cluster_by", Shape::Text, "A column whose equal values mark samples that are not independent."),
        KeySpec::new("graders", Shape::List(&Shape::Variants(&GRADERS)), "How an answer is judged.").required(),
        KeySpec::new("examples", Shape::List(&Shape::Section(&EXAMPLE)), "Replies with the verdict they must get."),
        KeySpec::new("weight", POSITIVE, "The task's weight in `accuracy`.").or("1"),
        KeySpec::new("grade_truncated", Shape::Bool, "Grade answers that hit the token limit.").or("false"),
        KeySpec::new("latency", Shape::Bool, "False: the task's requests are graded only, not timed.").or("true"),
        KeySpec::new("response_format", Shape::JsonMap, "Sent as written."),
        KeySpec::new("stop", Shape::OneOrList(&Shape::Text), "Texts that end an answer, in place of the suite's."),
    ],
};

pub static DATASET: Section = Section {
    name: "`dataset`",
    keys: &[
        KeySpec::new("file", Shape::Path, "JSONL or CSV, below the root."),
        KeySpec::new("limit", Shape::Int { min: 1, max: 100_000_000 }, "Read the first rows only."),
        KeySpec::new("cases", Shape::List(&Shape::Row), "Samples written in place of a file."),
    ],
};

pub static MESSAGE: Section = Section {
    name: "a message",
    keys: &[
        KeySpec::new("role", Shape::Words(&ROLES), "Who says it.").required(),
        KeySpec::new("content", Shape::Template, "A template over the sample's columns.").required(),
    ],
};

static ROLES: [Word; 3] = [word("system"), word("user"), word("assistant")];

pub static EXAMPLE: Section = Section {
    name: "an example",
    keys: &[
        KeySpec::new("row", Shape::Row, "A sample.").required(),
        KeySpec::new("reply", Shape::Text, "A reply to it.").required(),
        KeySpec::new("pass", Shape::Json, "true, false, or null where it must stay unscored.").required(),
    ],
};

const NAME: KeySpec = KeySpec::new("name", Shape::Name, "The metric's name; default: the grader's kind.");
const WEIGHT: KeySpec =
    KeySpec::new("weight", Shape::Number { min: 0.0, max: 1e6 }, "0 measures without deciding.").or("1");
const THRESHOLD: KeySpec = KeySpec::new("threshold", SHARE_01, "Passes where the value is at least this.");
const EXTRACT: KeySpec = KeySpec::new("extract", Shape::Words(&EXTRACTS), "What is taken from the reply first.");
const ANSWER: KeySpec =
    KeySpec::new("answer", Shape::Field, "What is right: a text or a list of texts.").or("\"{{ answer }}\"");

/// The extractions that a grader may name.
pub static EXTRACTS: [Word; 5] =
    [word("reply"), word("last_line"), word("first_line"), word("boxed"), word("answer_line")];

macro_rules! grader {
    ($static:ident, $name:literal $(, $key:expr)* $(,)?) => {
        static $static: Section = Section { name: $name, keys: &[$($key,)* NAME, WEIGHT, THRESHOLD, EXTRACT] };
    };
}

grader!(EXACT, "`exact`", ANSWER);
grader!(CONTAINS, "`contains`", ANSWER);
grader!(F1, "`f1`", ANSWER);
grader!(MATH, "`math`", ANSWER);
grader!(
    REGEX,
    "`regex`",
    KeySpec::new("pattern", Shape::Text, "A regular expression; its first group, if any, is the answer.").required(),
    KeySpec::new("which", Shape::Words(&WHICH), "Which match counts.").or("first"),
    KeySpec::new("answer", Shape::Field, "What the match must be; left out, any match passes."),
);
grader!(
    NUMERIC,
    "`numeric`",
    ANSWER,
    KeySpec::new("abs_tolerance", Shape::Number { min: 0.0, max: 1e300 }, "Allowed difference.").or("0"),
    KeySpec::new("rel_tolerance", Shape::Number { min: 0.0, max: 1e3 }, "Allowed difference ÷ answer.").or("0"),
    KeySpec::new("locale", Shape::Words(&LOCALES), "How numbers are written: 1,234.5 or 1.234,5.").or("en"),
);
grader!(
    CHOICE,
    "`choice`",
    ANSWER,
    KeySpec::new("options", Shape::Field, "The options in their order.").or("\"{{ options }}\""),
);
grader!(
    JSON,
    "`json`",
    KeySpec::new("schema", Shape::Json, "A JSON Schema: a file below the root, or in place."),
    KeySpec::new("fields", Shape::Field, "Fields and the values they must have."),
);
grader!(IFEVAL, "`ifeval`", KeySpec::new("instructions", Shape::Json, "Instructions to follow."));
grader!(
    CODE,
    "`code`",
    KeySpec::new("language", Shape::Text, "The language."),
    KeySpec::new("kind", Shape::Words(&CODE_KINDS), "How it is run."),
    KeySpec::new("entry_point", Shape::Text, "The function."),
    KeySpec::new("tests", Shape::Json, "Calls or inputs with what must come out."),
    KeySpec::new("script", Shape::Text, "A test script."),
    KeySpec::new("types", Shape::Json, "How values are compared."),
    KeySpec::new("integrity", Shape::Json, "What must not change."),
    KeySpec::new("limits", Shape::Json, "Time and memory."),
);
grader!(
    CITATIONS,
    "`citations`",
    KeySpec::new("sources", Shape::Field, "The sources."),
    KeySpec::new("must_cite", Shape::Json, "What must be cited."),
    KeySpec::new("grammar", Shape::Json, "How citations are written."),
);
grader!(
    SAFETY,
    "`safety`",
    KeySpec::new("probe", Shape::Text, "What is probed."),
    KeySpec::new("refusals", Shape::Json, "What counts as a refusal."),
);
grader!(
    JUDGE,
    "`judge`",
    KeySpec::new("deployment", Shape::Text, "Who judges."),
    KeySpec::new("rubric", Shape::Text, "What is judged."),
);
grader!(PROGRAM, "`program`", KeySpec::new("command", Shape::Json, "The checker's command."));
grader!(
    ALL,
    "`all`",
    KeySpec::new("graders", Shape::List(&Shape::Variants(&GRADERS)), "All of these must pass.").required(),
);
grader!(
    ANY,
    "`any`",
    KeySpec::new("graders", Shape::List(&Shape::Variants(&GRADERS)), "One of these must pass.").required(),
);
grader!(NOT, "`not`", KeySpec::new("grader", Shape::Variants(&GRADERS), "This must fail.").required());

static WHICH: [Word; 2] = [word("first"), word("last")];
static LOCALES: [Word; 2] = [word("en"), word("de")];
static CODE_KINDS: [Word; 4] = [word("io"), word("call"), word("script"), word("inproc")];

pub static GRADERS: Variants = Variants {
    name: "a grader",
    kinds: &[
        KeySpec::new("exact", Shape::Section(&EXACT), "The reply is the answer, case and punctuation aside."),
        KeySpec::new("contains", Shape::Section(&CONTAINS), "The reply contains the answer."),
        KeySpec::new("f1", Shape::Section(&F1), "Word overlap.").later(),
        KeySpec::new("regex", Shape::Section(&REGEX), "The reply matches a pattern."),
        KeySpec::new("numeric", Shape::Section(&NUMERIC), "The reply's number is the answer."),
        KeySpec::new("math", Shape::Section(&MATH), "The same by value.").later(),
        KeySpec::new("choice", Shape::Section(&CHOICE), "The right option."),
        KeySpec::new("json", Shape::Section(&JSON), "Valid JSON, by a schema, with the right fields."),
        KeySpec::new("ifeval", Shape::Section(&IFEVAL), "Instructions that can be checked.").later(),
        KeySpec::new("code", Shape::Section(&CODE), "Code that passes tests.").later(),
        KeySpec::new("citations", Shape::Section(&CITATIONS), "Cited sources.").later(),
        KeySpec::new("safety", Shape::Section(&SAFETY), "Refusals where they are due.").later(),
        KeySpec::new("judge", Shape::Section(&JUDGE), "A model judges.").later(),
        KeySpec::new("program", Shape::Section(&PROGRAM), "A checker of your own.").later(),
        KeySpec::new("all", Shape::ListOr(&Shape::Variants(&GRADERS), &ALL), "All of a list pass."),
        KeySpec::new("any", Shape::ListOr(&Shape::Variants(&GRADERS), &ANY), "One of a list passes."),
        KeySpec::new("not", Shape::VariantOr(&GRADERS, &NOT), "The grader fails."),
    ],
    listed: true,
    beside: &[],
};

const SCOPE_KEY: KeySpec = KeySpec::new("scope", Shape::Section(&SCOPE), "Judge one task or category only.");
const ADVISORY: KeySpec = KeySpec::new("advisory", Shape::Bool, "Shown, and never decides.").or("false");
const CONFIDENCE: KeySpec = KeySpec::new("confidence", Shape::Share, "One-sided.").or("0.95");
const MAYBE_CONFIDENCE: KeySpec =
    KeySpec::new("confidence", Shape::Share, "Decide by a bound; left out: by the observed value.");
const RATIO: Shape = Shape::Number { min: 0.000_001, max: 1e6 };

pub static SCOPE: Section = Section {
    name: "`scope`",
    keys: &[KeySpec::new("task", Shape::Text, "A task's name."), KeySpec::new("category", Shape::Text, "A category.")],
};

macro_rules! gate {
    ($static:ident, $name:literal $(, $key:expr)* $(,)?) => {
        static $static: Section = Section { name: $name, keys: &[$($key,)* SCOPE_KEY, ADVISORY] };
    };
}

gate!(
    QUALITY,
    "a quality gate",
    KeySpec::new("metric", Shape::Text, "`accuracy`, `success` or a grader's name.").or("accuracy"),
    KeySpec::new("margin", Shape::Share, "The loss that is tolerated: `2pp`.").required(),
    CONFIDENCE,
    KeySpec::new("at_least", Shape::Share, "A floor for the candidate itself: `60%`."),
    KeySpec::new("each", Shape::Words(&EACH), "One gate for each task or category."),
);
gate!(
    SPEED,
    "a speed gate",
    KeySpec::new("metric", Shape::SpeedMetric, "`ttft_p50`, `requests_per_s`, …").required(),
    KeySpec::new("ratio_at_most", RATIO, "Candidate ÷ baseline, by the upper bound."),
    KeySpec::new("ratio_at_least", RATIO, "Candidate ÷ baseline, by the lower bound."),
    CONFIDENCE,
);
gate!(SLO, "an slo gate", KeySpec::new("all", Shape::Bool, "All targets of `slo` hold.").or("true"), MAYBE_CONFIDENCE,);
gate!(
    STABILITY,
    "a stability gate",
    KeySpec::new("metric", Shape::Words(&STABILITY_WORDS), "A rate of the candidate's requests.").required(),
    KeySpec::new("at_most", Shape::Share, "The most that it may be.").required(),
    MAYBE_CONFIDENCE,
);
gate!(
    COST,
    "a cost gate",
    KeySpec::new("metric", Shape::Words(&COST_METRICS), "What is compared.").required(),
    KeySpec::new("ratio_at_most", RATIO, "Candidate ÷ baseline.").required(),
    CONFIDENCE,
);
gate!(SAFETY_GATE, "a safety gate", KeySpec::new("probe", Shape::Text, "What is probed."), CONFIDENCE);
gate!(
    GOODPUT,
    "a goodput gate",
    KeySpec::new("metric", Shape::Text, "Which goodput."),
    KeySpec::new("at_least", Shape::Json, "The least that it may be."),
    KeySpec::new("ratio_at_least", RATIO, "Candidate ÷ baseline."),
    CONFIDENCE,
);
gate!(
    REQUIRE,
    "a require gate",
    KeySpec::new("sandbox", Shape::Text, "The weakest sandbox that is good enough."),
    KeySpec::new("judge", Shape::Text, "`calibrated`."),
);

static EACH: [Word; 2] = [word("task"), word("category")];
static STABILITY_WORDS: [Word; 5] =
    [word("error_rate"), word("timeout_rate"), word("truncated_rate"), word("empty_rate"), word("retry_rate")];
static COST_METRICS: [Word; 2] = [word("usd_per_request"), word("usd_per_success")];

pub static GATES: Variants = Variants {
    name: "a gate",
    kinds: &[
        KeySpec::new("quality", Shape::Section(&QUALITY), "The candidate is not worse by more than a margin."),
        KeySpec::new("speed", Shape::Section(&SPEED), "The candidate is faster, or not slower."),
        KeySpec::new("slo", Shape::Section(&SLO), "The candidate holds the targets of `slo`."),
        KeySpec::new("stability", Shape::Section(&STABILITY), "The candidate's requests seldom fail."),
        KeySpec::new("cost", Shape::Section(&COST), "The candidate is not dearer."),
        KeySpec::new("safety", Shape::Section(&SAFETY_GATE), "The candidate is not less safe.").later(),
        KeySpec::new("goodput", Shape::Section(&GOODPUT), "Requests a second within the SLO.").later(),
        KeySpec::new("require", Shape::Section(&REQUIRE), "What the run itself must have.").later(),
    ],
    listed: true,
    beside: &["scope", "advisory"],
};
