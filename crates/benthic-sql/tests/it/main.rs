//! Queries of objects, on the memory engine and the embedded one, and through the program.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod data;
mod equal;
mod program;
mod queries;
mod refusals;
mod support;
mod tables;
