//! The program as users run it: queries, and tables from the command line.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod changes;
#[path = "../../../benthic-sql/tests/it/data.rs"]
mod data;
#[path = "../../../benthic-sql/tests/it/files.rs"]
mod files;
mod home;
mod local_files;
mod program;
mod table;
mod table_advise;
mod table_bad_input;
mod table_index;
mod table_process;
mod table_rewrite;
mod terminal;
#[path = "../../../benthic-sql/tests/it/text_class.rs"]
mod text_class;
mod wasm;
