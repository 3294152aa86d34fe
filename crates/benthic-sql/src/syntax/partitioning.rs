//! Parses and prints partitionings.

use super::lexer::{Lexer, show_name};
use benthic_core::{Error, Result};
use benthic_table::{Partitioning, Ranges, TableSchema};

/// A partitioning that refers to its column by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionBy {
    /// No partitioning: rows stay in the order of arrival.
    Rows,
    Hash {
        column: String,
        buckets: u32,
    },
    Range {
        column: String,
        ranges: Ranges,
    },
}

/// Parses `rows`, `hash(COLUMN, BUCKETS)`, `range(COLUMN, day|month|year)` or `range(COLUMN, BOUND,
/// …)`.
///
/// # Errors
/// `InvalidArgument` for a text that does not parse.
pub fn parse_partitioning(text: &str) -> Result<PartitionBy> {
    let mut lexer = Lexer::new(text);
    let kind = lexer.take().to_ascii_lowercase();
    let parsed = match kind.as_str() {
        "rows" => PartitionBy::Rows,
        "hash" => {
            lexer.expect('(')?;
            let column = lexer.name()?;
            lexer.expect(',')?;
            let buckets = lexer.take().parse();
            let buckets = buckets.map_err(|_| lexer.error("the number of buckets is missing or invalid"))?;
            lexer.expect(')')?;
            PartitionBy::Hash { column, buckets }
        }
        "range" => {
            lexer.expect('(')?;
            let column = lexer.name()?;
            lexer.expect(',')?;
            let ranges = ranges(&mut lexer)?;
            lexer.expect(')')?;
            PartitionBy::Range { column, ranges }
        }
        _ => return Err(unknown(text)),
    };
    if lexer.is_empty() { Ok(parsed) } else { Err(unknown(text)) }
}

fn unknown(text: &str) -> Error {
    let message = "a partitioning is rows, hash(COLUMN, BUCKETS), range(COLUMN, day|month|year) or range(COLUMN, BOUND, …)";
    Error::invalid_argument(message).with("got", text)
}

fn ranges(lexer: &mut Lexer<'_>) -> Result<Ranges> {
    for (name, ranges) in [("day", Ranges::Day), ("month", Ranges::Month), ("year", Ranges::Year)] {
        if lexer.word(name) {
            return Ok(ranges);
        }
    }
    let mut bounds = Vec::new();
    loop {
        let bound = lexer.take().parse();
        bounds.push(bound.map_err(|_| lexer.error("a range needs day, month, year or integer bounds"))?);
        if !lexer.sign(',') {
            return Ok(Ranges::Bounds(bounds));
        }
    }
}

impl PartitionBy {
    /// Resolves the column name to the column's number.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown column, with a hint.
    pub fn resolve(&self, schema: &TableSchema) -> Result<Partitioning> {
        Ok(match self {
            PartitionBy::Rows => Partitioning::Rows,
            PartitionBy::Hash { column, buckets } => {
                Partitioning::Hash { field: schema.by_name(column)?.id, buckets: *buckets }
            }
            PartitionBy::Range { column, ranges } => {
                Partitioning::Range { field: schema.by_name(column)?.id, ranges: ranges.clone() }
            }
        })
    }
}

/// Prints a table's partitioning in the syntax of [`parse_partitioning`].
pub fn show_partitioning(partitioning: &Partitioning, schema: &TableSchema) -> String {
    let name =
        |id: &u32| schema.by_id(*id).map_or_else(|| format!("#{id}"), |column| show_name(&column.name));
    match partitioning {
        Partitioning::Rows => "rows".to_owned(),
        Partitioning::Hash { field, buckets } => format!("hash({}, {buckets})", name(field)),
        Partitioning::Range { field, ranges } => {
            let ranges = match ranges {
                Ranges::Day => "day".to_owned(),
                Ranges::Month => "month".to_owned(),
                Ranges::Year => "year".to_owned(),
                Ranges::Bounds(bounds) => bounds.iter().map(i64::to_string).collect::<Vec<_>>().join(", "),
            };
            format!("range({}, {ranges})", name(field))
        }
    }
}
