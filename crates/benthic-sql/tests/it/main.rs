//! Queries of objects and tables, on the memory engine and the embedded one, and through the program.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod data;
mod equal;
mod made;
mod program;
mod queries;
mod random;
mod refusals;
mod slt;
mod slt_here;
mod support;
mod tpch;
mod tpch_memory;
