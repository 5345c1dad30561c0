//! What each arm did: throughput, tokens, cost, outcomes, stability, the server's own figures, and how to repeat it.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::{Cell, arm_names, name};
use crate::analyze::Summary;
use crate::analyze::summary::ArmSummary;
use crate::report::format::{self, Unit};
use crate::report::text::{clipped, one_line};
use crate::report::words;

#[derive(Serialize)]
pub struct Arms {
    pub rows: Vec<Row>,
    /// Headings of the outcomes that occurred anywhere.
    pub outcomes: Vec<String>,
    /// Headings of the reasons why samples are unscored.
    pub unscored: Vec<String>,
    pub server: Vec<ServerRow>,
    pub environment: Vec<Entry>,
    pub run: Vec<Entry>,
}

#[derive(Serialize)]
pub struct Row {
    pub name: String,
    pub deployment: String,
    pub optimization: String,
    pub model: String,
    pub twin_of: String,
    pub throughput: Vec<Cell>,
    pub window: String,
    pub tokens: Vec<Cell>,
    pub inflation: Cell,
    pub cost: Vec<Cell>,
    pub cost_note: String,
    pub planned: Cell,
    pub outcomes: Vec<String>,
    pub unscored: Vec<String>,
    pub rates: Vec<Cell>,
}

/// A figure of the server, an arm a column.
#[derive(Serialize)]
pub struct ServerRow {
    pub figure: String,
    pub values: Vec<String>,
}

#[derive(Serialize)]
pub struct Entry {
    pub label: String,
    pub value: String,
}

pub fn arms(summary: &Summary) -> Arms {
    let names = arm_names(summary);
    let arms: Vec<(&str, &ArmSummary)> =
        names.iter().filter_map(|name| summary.arms.get(*name).map(|arm| (*name, arm))).collect();
    let outcomes = keys(arms.iter().flat_map(|(_, arm)| arm.requests.keys()), "planned");
    let unscored = keys(arms.iter().flat_map(|(_, arm)| arm.unscored.keys()), "");
    Arms {
        rows: arms.iter().map(|(name, arm)| row(summary, name, arm, &outcomes, &unscored)).collect(),
        outcomes: outcomes.iter().map(|outcome| words::metric(outcome)).map(|outcome| name(&outcome)).collect(),
        unscored: unscored.iter().map(|why| words::metric(why)).map(|why| name(&why)).collect(),
        server: server(&arms),
        environment: entries(summary.environment.iter()),
        run: run(summary),
    }
}

fn keys<'a>(names: impl Iterator<Item = &'a String>, without: &str) -> Vec<&'a str> {
    let mut keys: Vec<&str> = names.map(String::as_str).filter(|name| *name != without).collect();
    // `completed` first, the rest by name.
    keys.sort_by_key(|name| (*name != "completed", *name));
    keys.dedup();
    keys
}

fn row(summary: &Summary, arm: &str, figures: &ArmSummary, outcomes: &[&str], unscored: &[&str]) -> Row {
    let no_usage = "the server did not tell the usage of every request";
    let counts = |names: &[&str], of: &std::collections::BTreeMap<String, u64>| {
        names.iter().map(|name| of.get(*name).map_or_else(|| "0".to_owned(), |count| format::count(*count))).collect()
    };
    let comparison = summary.comparisons.iter().find(|comparison| comparison.candidate == arm);
    let throughput = &figures.throughput;
    let no_window = "the arm has no window of its own, or the figure is withdrawn";
    let cost = &figures.cost;
    let why = cost.note.as_deref().map_or_else(|| "no price is given".to_owned(), name);
    let total = cost.total_usd.as_deref().map(format::usd_exact);
    let stability = &figures.stability;
    let rates = [
        &stability.error_rate,
        &stability.timeout_rate,
        &stability.truncated_rate,
        &stability.empty_rate,
        &stability.retry_rate,
    ];
    Row {
        name: name(arm),
        deployment: name(&figures.deployment),
        optimization: name(&figures.optimization),
        model: figures.model.as_deref().map_or_else(|| format::ABSENT.to_owned(), name),
        twin_of: figures.twin_of.as_deref().map(name).unwrap_or_default(),
        throughput: [throughput.requests_per_s, throughput.output_tokens_per_s, throughput.input_tokens_per_s]
            .into_iter()
            .map(|value| Cell::figure(Unit::PerSecond, value, no_window))
            .collect(),
        window: format::wall(throughput.window_s),
        tokens: vec![
            Cell::count(figures.tokens.input, no_usage),
            Cell::count(figures.tokens.cached_input, "the server did not tell cached tokens"),
            Cell::count(figures.tokens.output, no_usage),
            Cell::figure(Unit::Percent, figures.tokens.usage_share, "no answered request"),
        ],
        inflation: Cell::estimate(
            Unit::Ratio,
            comparison.and_then(|comparison| comparison.token_inflation.as_ref()),
            "compared with the baseline only",
        ),
        cost: vec![
            total.filter(|total| total != format::ABSENT).map_or_else(|| Cell::absent(why.clone()), Cell::text),
            Cell::figure(Unit::Usd, cost.usd_per_request, &why),
            Cell::estimate(Unit::Usd, cost.usd_per_success.as_ref(), &why),
        ],
        cost_note: cost.note.as_deref().map(name).unwrap_or_default(),
        planned: Cell::count(figures.requests.get("planned").copied(), "not recorded"),
        outcomes: counts(outcomes, &figures.requests),
        unscored: counts(unscored, &figures.unscored),
        rates: rates.into_iter().map(|rate| Cell::estimate(Unit::Percent, rate.as_ref(), "not measured")).collect(),
    }
}

fn server(arms: &[(&str, &ArmSummary)]) -> Vec<ServerRow> {
    let figures: BTreeSet<&String> = arms.iter().flat_map(|(_, arm)| arm.server.keys()).collect();
    figures
        .into_iter()
        .map(|figure| ServerRow {
            figure: name(&figure.replace('_', " ")),
            values: arms
                .iter()
                .map(|(_, arm)| arm.server.get(figure).map_or_else(|| format::ABSENT.to_owned(), value))
                .collect(),
        })
        .collect()
}

fn entries<'a>(map: impl Iterator<Item = (&'a String, &'a Value)>) -> Vec<Entry> {
    map.map(|(label, item)| Entry { label: name(&label.replace('_', " ")), value: value(item) }).collect()
}

/// A value from outside on one line: numbers to three digits, text as it is, the rest as JSON.
fn value(value: &Value) -> String {
    match value {
        Value::Null => format::ABSENT.to_owned(),
        Value::Bool(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) => format::count(whole),
            (None, Some(float)) => format::significant(float),
            (None, None) => format::ABSENT.to_owned(),
        },
        Value::String(text) => clipped(&one_line(text), 400),
        Value::Array(items) => {
            clipped(&items.iter().map(|item| clipped(&self::value(item), 160)).collect::<Vec<_>>().join(", "), 1_000)
        }
        Value::Object(map) => {
            let entries = map.iter().map(|(key, item)| format!("{}: {}", name(key), clipped(&self::value(item), 160)));
            clipped(&entries.collect::<Vec<_>>().join(" · "), 1_000)
        }
    }
}

fn run(summary: &Summary) -> Vec<Entry> {
    let run = &summary.run;
    let entry = |label: &str, value: String| Entry { label: label.to_owned(), value };
    vec![
        entry("suite", name(&summary.suite)),
        entry("suite hash", name(&run.suite_hash)),
        entry("seed", run.seed.to_string()),
        entry("harness", format!("counterpoise {}", name(&run.harness_version))),
        entry("summary format", name(&summary.format)),
        entry("started", format::date(run.started_wall_ms)),
        entry("arms", name(&run.arms_mode)),
    ]
}
