//! The wire: recorded servers, broken ones, and how lanes carry them. Every recording goes through a real socket.

#![allow(clippy::unwrap_used)] // The whole of an integration test is test code.

mod lanes;
mod recordings;
mod server;
mod tls;
