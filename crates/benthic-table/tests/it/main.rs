//! Tests of tables through their public interface, on the memory engine and on the embedded engine.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod append;
mod bad_input;
mod changes;
mod concurrent;
mod corpus;
mod crash;
mod faulty;
mod groups;
mod indexes;
mod rewrite;
mod support;
mod types;
