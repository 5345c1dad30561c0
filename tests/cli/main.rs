//! The command line as its users meet it: what is printed, what is written, which exit code.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod demo;
mod errors;
mod instrument;
mod kit;
mod resume;
mod verdicts;
mod workload;
