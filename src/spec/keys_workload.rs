//! The table of a suite's keys: `workload`.

use super::shape::{KeySpec, Section, Shape, Variants};

/// No use of a distribution takes a larger number; the decoder knows each use's own range.
const NUMBER: Shape = Shape::Number { min: 0.0, max: 1e9 };
const TOKENS: Shape = Shape::Or(&Shape::Int { min: 1, max: 2_000_000 }, &DISTRIBUTION);

pub static WORKLOAD: Section = Section {
    name: "`workload`",
    keys: &[
        KeySpec::new(
            "mix",
            Shape::MapOf(&Shape::Number { min: 1e-6, max: 1e6 }),
            "Tasks and their weights: of each task as many samples are asked, from its first on, as keep the proportion. \
             Every task needs one.",
        ),
        KeySpec::new(
            "prompt_tokens",
            TOKENS,
            "Length of each prompt, by 4 characters a token: a passage of plain prose before the task's own prompt makes \
             it up. A prompt that is longer stays as it is; of a conversation each turn's own message is meant.",
        ),
        KeySpec::new(
            "output_tokens",
            TOKENS,
            "Each request's `max_tokens`, never above `sampling.max_tokens`. An answer that meets it is truncated.",
        ),
        KeySpec::new("shared_prefix", Shape::Section(&SHARED_PREFIX), "Text that prompts of one group begin with."),
        KeySpec::new(
            "turns",
            Shape::Or(&Shape::Int { min: 1, max: 1_000 }, &DISTRIBUTION),
            "Samples of one task, in their order, form conversations of so many turns.",
        ),
        KeySpec::new(
            "think_time",
            Shape::Or(&Shape::Duration, &DISTRIBUTION),
            "Pause between an answer and the next turn; a distribution is one of seconds.",
        ),
        KeySpec::new("stream", Shape::Bool, "Whether answers are streamed. Without a stream there is no first token.")
            .or("true"),
    ],
};

pub static SHARED_PREFIX: Section = Section {
    name: "`shared_prefix`",
    keys: &[
        KeySpec::new("tokens", Shape::Int { min: 1, max: 1_000_000 }, "Its length, by 4 characters a token.")
            .required(),
        KeySpec::new("groups", Shape::Int { min: 1, max: 100_000 }, "Prompts are dealt out to so many groups.").or("1"),
    ],
};

pub static DISTRIBUTION: Variants = Variants {
    name: "a distribution",
    kinds: &[
        KeySpec::new("fixed", NUMBER, "Always this number."),
        KeySpec::new("uniform", Shape::Section(&UNIFORM), "Any number between two, each as likely."),
        KeySpec::new("normal", Shape::Section(&NORMAL), "A normal distribution."),
        KeySpec::new("lognormal", Shape::Section(&LOGNORMAL), "A lognormal one, as lengths and pauses often are."),
        KeySpec::new("file", Shape::Path, "A text file with one number a line, drawn with replacement."),
    ],
    listed: false,
    beside: &[],
};

pub static UNIFORM: Section = Section {
    name: "`uniform`",
    keys: &[
        KeySpec::new("min", NUMBER, "The smallest number.").required(),
        KeySpec::new("max", NUMBER, "The largest number.").required(),
    ],
};

pub static NORMAL: Section = Section {
    name: "`normal`",
    keys: &[
        KeySpec::new("mean", NUMBER, "The mean.").required(),
        KeySpec::new("sd", NUMBER, "The standard deviation.").required(),
        KeySpec::new("min", NUMBER, "What is drawn below it becomes it."),
        KeySpec::new("max", NUMBER, "What is drawn above it becomes it."),
    ],
};

pub static LOGNORMAL: Section = Section {
    name: "`lognormal`",
    keys: &[
        KeySpec::new("median", NUMBER, "Half of the numbers are below it.").required(),
        KeySpec::new("p95", NUMBER, "95 % of the numbers are below it.").required(),
        KeySpec::new("max", NUMBER, "What is drawn above it becomes it."),
    ],
};
