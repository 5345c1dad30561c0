//! What each arm did: outcomes, quality, latency, throughput, tokens, cost, stability, the server's own figures.

use std::collections::{BTreeMap, BTreeSet};

use rust_decimal::Decimal;
use serde_json::{Value, json};

use super::SHOWN_LEVEL;
use super::estimate::Estimate;
use super::latency;
use super::money::{SpendSum, to_f64};
use super::rows::{Row, Run};
use super::samples::{self, Rate};
use super::stats::{Spend, cost_per_success, percentile, sorted, wilson};
use super::summary::{ArmSummary, Cost, QualityFigure, Stability, Tokens};
use super::throughput::Rates;
use crate::deploy::{Outcome, Provenance};
use crate::drive::SlotEnd;
use crate::plan::{Arm, Block, Plan, Slot};
use crate::spec::Price;
use crate::spec::money::{gpu_spend, has_request_price};

pub fn summary(plan: &Plan, run: &Run, rates: Rates<'_>, index: usize, arm: &Arm) -> ArmSummary {
    let rows: Vec<&Row> = run.rows_of(index).collect();
    let deployment = plan.suite.deployment(&arm.deployment);
    ArmSummary {
        deployment: arm.deployment.clone(),
        optimization: deployment.map(|d| name_of(&d.optimization)).unwrap_or_default(),
        model: deployment.and_then(|d| d.model.clone()),
        twin_of: arm.twin_of.clone(),
        requests: requests(planned(plan, run, index), &rows),
        unscored: tally(rows.iter().filter_map(|row| row.graded.unscored_why.as_deref())),
        quality: quality(&rows),
        latency: latency::of_arm(&rows),
        cold_start: run.extras.get(index).and_then(|extras| extras.cold_start.as_ref()).map(|(_, cold)| cold.clone()),
        throughput: rates.throughput(index),
        tokens: tokens(&rows),
        cost: cost(plan, run, rates, index, &rows),
        stability: stability(&rows),
        server: server(&rows),
        speed_of_light: None, // By `light::fill`, once figures are withdrawn.
    }
}

/// A serialized enum's own word.
pub fn name_of<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Measured requests that an arm was to be asked: what the plan has for it, without the rest of slots that ended by the
/// clock or were given up.
pub fn planned(plan: &Plan, run: &Run, arm: usize) -> u64 {
    let mut rows_by_slot: BTreeMap<u32, u64> = BTreeMap::new();
    for row in run.rows_of(arm) {
        *rows_by_slot.entry(row.slot).or_default() += 1;
    }
    let of_slot = |slot: &Slot| {
        if run.slot_ends.get(&slot.index).is_some_and(SlotEnd::leaves_rest_unasked) {
            return rows_by_slot.get(&slot.index).copied().unwrap_or(0);
        }
        plan.blocks.get(slot.block as usize).map_or(0, Block::requests)
    };
    plan.slots().iter().filter(|slot| slot.arm == arm).map(of_slot).sum()
}

fn requests(planned: u64, rows: &[&Row]) -> BTreeMap<String, u64> {
    let mut counts = tally(rows.iter().map(|row| row.outcome.name()));
    counts.insert("planned".to_owned(), planned);
    counts
}

/// How often each name occurs.
pub fn tally<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name.to_owned()).or_insert(0) += 1;
    }
    counts
}

/// Names of all metrics that some row has: `accuracy` and `success` where anything was or could be graded.
pub fn metric_names<'a>(rows: impl Iterator<Item = &'a Row>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for row in rows {
        if row.graded.unscored_why.as_deref() != Some("no_grader") {
            names.insert("accuracy".to_owned());
            names.insert("success".to_owned());
        }
        names.extend(row.graded.metrics.iter().map(|(name, _)| name.to_string()));
    }
    names
}

fn quality(rows: &[&Row]) -> BTreeMap<String, QualityFigure> {
    let figure = |metric: String| {
        let estimate = |rows: &[&Row]| metric_rate(rows, &metric).estimate(SHOWN_LEVEL);
        let overall = Some(estimate(rows)).filter(|e| e.n > 0)?;
        let by = |key: fn(&Row) -> Option<&str>| {
            let groups = group(rows, key).into_iter().map(|(name, rows)| (name, estimate(&rows)));
            groups.filter(|(_, e)| e.n > 0).collect()
        };
        let by_task = by(|row| Some(&row.task));
        let by_category = by(|row| row.category.as_deref());
        Some((metric, QualityFigure { overall, by_task, by_category }))
    };
    metric_names(rows.iter().copied()).into_iter().filter_map(figure).collect()
}

pub fn metric_rate(rows: &[&Row], metric: &str) -> Rate {
    let value = |row: &&Row| row.graded.metric(metric);
    let values: Vec<_> = rows.iter().filter_map(|row| value(row).map(|value| samples::Value::of(row, value))).collect();
    Rate::of(&values)
}

pub fn group<'a>(rows: &[&'a Row], key: fn(&Row) -> Option<&str>) -> BTreeMap<String, Vec<&'a Row>> {
    let mut groups: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        if let Some(name) = key(row) {
            groups.entry(name.to_owned()).or_default().push(row);
        }
    }
    groups
}

/// A sum is absent where any answered request lacks its count.
fn tokens(rows: &[&Row]) -> Tokens {
    let answered: Vec<&&Row> = rows.iter().filter(|row| row.is_answered()).collect();
    let sum = |count: fn(&Row) -> Option<u64>| {
        let total = answered.iter().try_fold(0_u64, |sum, row| sum.checked_add(count(row)?));
        total.filter(|_| !answered.is_empty())
    };
    let with_usage =
        answered.iter().filter(|r| r.input_tokens.is_some() && r.output_provenance == Some(Provenance::Server)).count();
    Tokens {
        input: sum(|row| row.input_tokens),
        cached_input: sum(|row| row.cached_tokens),
        output: sum(|row| row.output_tokens),
        provenance: provenance(&answered),
        usage_share: (!answered.is_empty()).then(|| with_usage as f64 / answered.len() as f64),
    }
}

fn provenance(answered: &[&&Row]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for provenance in answered.iter().filter_map(|row| row.output_provenance) {
        *counts.entry(name_of(&provenance)).or_insert(0) += 1;
    }
    counts
}

/// Measured spend of one arm: its requests and its GPUs' hours, whichever has a price.
pub fn total_spend(price: &Price, run: &Run, rates: Rates<'_>, index: usize, rows: &[&Row]) -> SpendSum {
    let mut sum = SpendSum::default();
    if has_request_price(price) {
        for row in rows {
            sum.add(row.spend);
        }
        if let Some(extras) = run.extras.get(index) {
            sum.merge(extras.unfinished_spend);
        }
    }
    if price.gpu_usd_per_hour.is_some() {
        sum.add(gpu_spend(price, rates.window_us(index)));
    }
    sum
}

fn cost(plan: &Plan, run: &Run, rates: Rates<'_>, index: usize, rows: &[&Row]) -> Cost {
    let deployment = plan.arms.get(index).and_then(|arm| plan.suite.deployment(&arm.deployment));
    let Some(price) = deployment.and_then(|d| d.price.as_ref()) else {
        return Cost { note: Some("no price is set".to_owned()), ..Cost::default() };
    };
    if rows.is_empty() {
        return Cost { note: Some("no request was made".to_owned()), ..Cost::default() };
    }
    let sum = total_spend(price, run, rates, index, rows);
    let successes = rows.iter().filter(|row| row.graded.pass == Some(true)).count() as u64;
    let attempted = rows.len() as u64;
    let Some(total) = sum.total() else {
        let note = format!(
            "{} of {attempted} requests told no usage: what they cost is unknown; the others cost {} USD",
            sum.unknown,
            sum.known.normalize()
        );
        return Cost { note: Some(note), ..Cost::default() };
    };
    let usd = to_f64(total);
    let gradable = rows.iter().any(|row| row.graded.unscored_why.as_deref() != Some("no_grader"));
    let per_success =
        usd.filter(|_| gradable).map(|total| cost_per_success(&Spend { total, successes, attempted }, SHOWN_LEVEL));
    Cost {
        total_usd: Some(total.normalize().to_string()),
        usd_per_request: usd.map(|usd| usd / attempted as f64),
        usd_per_success: per_success,
        note: cost_note(price, run, index),
    }
}

fn cost_note(price: &Price, run: &Run, index: usize) -> Option<String> {
    let warmup = run.extras.get(index).filter(|e| e.warmup_spend.known > Decimal::ZERO);
    let warmup = warmup.map(|e| format!("warm-up apart: {} USD", e.warmup_spend.known.normalize()));
    let gpu = price.gpu_usd_per_hour.map(|_| "GPU hours of the arm's own slots".to_owned());
    let notes: Vec<String> = gpu.into_iter().chain(warmup).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// One of the rates of [`crate::spec::STABILITY_METRICS`]: (requests that have it, requests). Absent for other names.
pub fn stability_counts(rows: &[&Row], metric: &str) -> Option<(u64, u64)> {
    let has = |row: &Row| match metric {
        "error_rate" => Some(row.outcome.is_error()),
        "timeout_rate" => Some(matches!(row.outcome, Outcome::Timeout(_))),
        "truncated_rate" => Some(row.outcome == Outcome::Truncated),
        "empty_rate" => Some(row.outcome == Outcome::Empty),
        "retry_rate" => Some(row.attempts > 1),
        _ => None,
    };
    let flags = rows.iter().map(|row| has(row)).collect::<Option<Vec<bool>>>()?;
    Some((flags.iter().filter(|flag| **flag).count() as u64, flags.len() as u64))
}

fn stability(rows: &[&Row]) -> Stability {
    let rate = |metric: &str| -> Option<Estimate> {
        let (count, n) = stability_counts(rows, metric).filter(|(_, n)| *n > 0)?;
        Some(wilson(count, n, SHOWN_LEVEL))
    };
    Stability {
        error_rate: rate("error_rate"),
        timeout_rate: rate("timeout_rate"),
        truncated_rate: rate("truncated_rate"),
        empty_rate: rate("empty_rate"),
        retry_rate: rate("retry_rate"),
    }
}

/// The server's own figures of answered requests, and how the measured ones stand to them.
fn server(rows: &[&Row]) -> BTreeMap<String, Value> {
    let answered = || rows.iter().filter(|row| row.is_answered());
    let mut figures = BTreeMap::new();
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            figures.insert(name.to_owned(), json!(value));
        }
    };
    put("prompt_ms_p50", median(answered().filter_map(|row| row.server.prompt_ms)));
    put("predicted_per_token_ms_p50", median(answered().filter_map(|row| row.server.predicted_per_token_ms)));
    let over = answered().filter_map(|row| Some(row.ttft_ms? - row.server.prompt_ms?));
    put("ttft_minus_prompt_ms_p50", median(over));
    let ratio = answered().filter_map(|row| Some(row.tpot_ms? / row.server.predicted_per_token_ms?));
    put("tpot_to_predicted_per_token_p50", median(ratio));
    let sum = |count: fn(&Row) -> Option<u64>| answered().filter_map(|row| count(row)).fold(0, u64::saturating_add);
    let (drafted, accepted) = (sum(|row| row.server.draft_n), sum(|row| row.server.draft_accepted));
    if drafted > 0 {
        put("draft_acceptance", Some(accepted as f64 / drafted as f64));
        figures.insert("draft_n".to_owned(), json!(drafted));
        figures.insert("draft_n_accepted".to_owned(), json!(accepted));
    }
    let models: BTreeSet<&str> = answered().filter_map(|row| row.served_model.as_deref()).collect();
    if !models.is_empty() {
        figures.insert("served_models".to_owned(), json!(models));
    }
    let prints: BTreeSet<&str> = answered().filter_map(|row| row.system_fingerprint.as_deref()).collect();
    if !prints.is_empty() {
        figures.insert("system_fingerprints".to_owned(), json!(prints));
    }
    figures
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    percentile(&sorted(values), 0.5)
}
