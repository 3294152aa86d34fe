//! Queries of objects and tables, on the memory engine and the embedded one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod common_subplan;
mod data;
mod equal;
mod estimates;
mod files;
mod filters;
mod fixtures;
mod groups;
mod index_choice;
mod indexes;
mod input;
mod local_files;
mod operators;
mod partitioned_joins;
mod physics;
mod pushed;
mod queries;
mod random;
mod record;
mod refusals;
mod slt;
mod slt_here;
mod structs;
mod support;
mod syntax;
mod tables;
mod text_class;
mod text_index;
mod tpch;
mod tpch_memory;
mod unmatched_rows;
mod wasm;
