//! The verbs.

mod prompt;
mod rows;
pub mod sql;
pub mod table;
