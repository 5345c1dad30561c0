//! The wire: recorded servers, broken ones, and how lanes carry them. Every recording goes through a real socket.

mod lanes;
mod recordings;
mod server;
mod tls;
