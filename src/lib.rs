//! Counterpoise weighs the quality that an LLM optimization costs against the speed and money it buys.

pub mod analyze;
