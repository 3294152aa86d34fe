//! Queries of objects and tables, on the memory engine and the embedded one, and through the program; tables from the command
//! line.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod data;
mod equal;
mod home;
mod indexes;
mod input;
mod made;
mod program;
mod queries;
mod random;
mod refusals;
mod slt;
mod slt_here;
mod support;
mod syntax;
mod table;
mod table_bad_input;
mod table_index;
mod table_process;
mod tables;
mod tpch;
mod tpch_memory;
