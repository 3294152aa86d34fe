//! Types, columns and partitionings as people write them, and as `benthic table show` writes them back.

mod partitioning;
mod types;
mod words;

pub use partitioning::{PartitionBy, parse_partitioning, show_partitioning};
pub use types::{parse_column, parse_columns, show_column, show_type};
