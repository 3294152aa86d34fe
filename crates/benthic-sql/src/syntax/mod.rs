//! The syntax of types, columns and partitionings: parsers, and the printers that `benthic table
//! show` uses.

mod lexer;
mod partitioning;
mod types;

pub use partitioning::{PartitionBy, parse_partitioning, show_partitioning};
pub use types::{parse_column, parse_columns, show_column, show_type};
