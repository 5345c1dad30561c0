//! One cell of a table: a figure, its interval, and what it means.

use serde::Serialize;

use crate::analyze::Estimate;
use crate::report::format::{self, Unit};
use crate::report::words::{self, Better};

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cell {
    /// The figure with its unit, or a dash.
    pub main: String,
    /// Its interval, or a second line.
    pub sub: String,
    /// What it means: `faster`, `~ within noise`.
    pub word: String,
    /// Class that colours the word: `good`, `bad`, `noise`, `absent`.
    pub tone: &'static str,
    /// n, level and method; or why the figure is absent.
    pub title: String,
    /// Units of analysis, where the figure is an estimate.
    pub n: Option<u64>,
}

impl Cell {
    pub fn text(main: impl Into<String>) -> Cell {
        Cell { main: main.into(), ..Cell::default() }
    }

    /// A dash that says why.
    pub fn absent(why: impl Into<String>) -> Cell {
        Cell { main: format::ABSENT.to_owned(), title: why.into(), tone: "absent", ..Cell::default() }
    }

    pub fn figure(unit: Unit, value: Option<f64>, why_absent: &str) -> Cell {
        match value.filter(|value| value.is_finite()) {
            Some(value) => Cell::text(format::figure(unit, Some(value))),
            None => Cell::absent(why_absent),
        }
    }

    /// A count, or a dash.
    pub fn count(value: Option<u64>, why_absent: &str) -> Cell {
        value.map_or_else(|| Cell::absent(why_absent), |value| Cell::text(format::count(value)))
    }

    /// A figure with its interval and n.
    pub fn estimate(unit: Unit, estimate: Option<&Estimate>, why_absent: &str) -> Cell {
        let Some(estimate) = estimate else { return Cell::absent(why_absent) };
        if estimate.point.is_none_or(|point| !point.is_finite()) {
            return Cell::absent(format!("{why_absent}; {}", provenance(estimate)));
        }
        Cell {
            main: format::figure(unit, estimate.point),
            sub: format::interval(unit, estimate.low, estimate.high).unwrap_or_else(|| "no interval".to_owned()),
            title: provenance(estimate),
            n: Some(estimate.n),
            ..Cell::default()
        }
    }

    /// A comparison: the estimate and the word for what its interval excludes.
    pub fn compared(
        unit: Unit,
        estimate: Option<&Estimate>,
        better: Better,
        words: (&'static str, &'static str),
        why_absent: &str,
    ) -> Cell {
        let mut cell = Cell::estimate(unit, estimate, why_absent);
        if let Some(estimate) = estimate.filter(|_| cell.tone != "absent") {
            let (word, tone) = words::reading(unit, estimate, better, words);
            word.clone_into(&mut cell.word);
            cell.tone = tone;
        }
        cell
    }
}

/// `n 532, 90% interval, tango`.
pub fn provenance(estimate: &Estimate) -> String {
    let level = format::figure(Unit::Percent, Some(estimate.level)).replace(".0%", "%");
    format!("n {}, {level} interval, {}", format::count(estimate.n), super::name(&estimate.method))
}
