//! The verbs.

mod rows;
pub mod sql;
pub mod table;
