//! Reports: one [`Summary`](crate::analyze::Summary), shown to people ([`html`], [`terminal`], [`markdown`]) and to
//! machines ([`json`], [`junit`], [`rows`]).
//!
//! All are pure functions of the summary. Figures are written by [`format`], words by `words`, and all text from
//! outside passes [`text`], in every format.

pub mod format;
mod html;
mod instrument;
mod json;
mod junit;
mod markdown;
pub mod rows;
mod svg;
mod terminal;
mod terminal_steps;
pub mod text;
mod view;
mod words;

#[cfg(test)]
mod sample;

pub use html::html;
pub use json::json;
pub use junit::junit;
pub use markdown::markdown;
pub use terminal::terminal;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("the report's template could not be filled: {source:#}")]
    Template {
        #[source]
        source: minijinja::Error,
    },
    #[error("the summary could not be written as JSON: {source}")]
    Json {
        #[source]
        source: serde_json::Error,
    },
    #[error("a row of the table could not be written: {source}")]
    Row {
        #[source]
        source: csv::Error,
    },
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_steps;
