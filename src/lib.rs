//! Counterpoise
