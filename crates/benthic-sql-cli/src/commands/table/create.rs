//! `benthic table create`: creates a table, and loads files or objects of a pool into it.

use super::layout::LayoutArgs;
use super::load::{self, InputArgs, Inputs};
use super::{TableAddress, describe_size, line};
use benthic_core::{Environment, Error, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use benthic_sql::syntax::{PartitionBy, parse_columns, parse_partitioning};
use benthic_table::{Definition, Snapshot, SnapshotSelector, Table, drop_table};
use clap::Args;
use serde_json::Value;
use std::sync::Arc;

/// Arguments of `benthic table create`.
#[derive(Args)]
#[command(after_help = "\
The table gets the columns and types of the first file. For CSV and JSON, the types are guessed from the first rows; \
--schema sets them. All files are loaded in one commit. If anything fails, the table is removed; a crash leaves at \
most an empty table, and `benthic table vacuum` removes the other remains. `benthic table rewrite` changes codec, sizes, \
sort order and Bloom filters later.

Types: bool, int8 to int64, uint8 to uint64, float16 to float64, utf8, binary, binary(LENGTH), date, time(UNIT), \
timestamp(UNIT), timestamp(UNIT, 'ZONE'), decimal(PRECISION, SCALE), list(TYPE), struct(NAME TYPE, ...), \
map(TYPE, TYPE). A unit is ms, us or ns.

Examples:
  benthic table create lake/trips trips-*.parquet
  benthic table create lake/trips trips.csv --partition-by 'range(day, month)' --sort-by day,fare
  benthic table create lake/logs --from 'lake/logs/2024-*.csv' --codec zstd
  benthic table create lake/users users.csv --bloom email,phone
  benthic table create lake/events --schema 'id int64 not null, at timestamp(us), kind utf8'")]
pub struct CreateArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    #[command(flatten)]
    input: InputArgs,
    /// The columns, instead of those of the first file: 'NAME TYPE [not null], ...'
    #[arg(long, value_name = "COLUMNS")]
    schema: Option<String>,
    /// How rows are distributed over objects: rows, hash(COLUMN, BUCKETS), range(COLUMN,
    /// day|month|year) or range(COLUMN, BOUND, ...)
    #[arg(long, value_name = "BY", value_parser = parse_partitioning, default_value = "rows")]
    partition_by: PartitionBy,
    #[command(flatten)]
    layout: LayoutArgs,
}

pub async fn run(args: CreateArgs, session: &Session) -> Outcome {
    if args.input.is_empty() && args.schema.is_none() {
        let message =
            "the columns are unknown; name a file, or objects with --from, or give --schema 'NAME TYPE, ...'";
        return Err(Failure::Usage(message.to_owned()));
    }
    let has_files = !args.input.is_empty();
    let mut inputs = args.input.check(session).await?;
    let first = inputs.first().filter(|_| args.schema.is_none()).map(|path| path.display().to_string());
    let schema = match &args.schema {
        Some(text) => Arc::new(arrow::datatypes::Schema::new(parse_columns(text)?)),
        None => inputs.schema().await?,
    };
    let definition = define(&schema, &args.partition_by, &args.layout);
    let definition = definition.map_err(|error| {
        let error = error.with("table", &args.table);
        first.into_iter().fold(error, |error, path| error.with("path", path))
    })?;
    let pool = args.table.pool(session).await?;
    let table = Table::create(pool, &args.table.table, &definition, Environment::default()).await?;
    let snapshot = match has_files {
        true => fill(&table, inputs, &args.table).await?,
        false => table.snapshot(SnapshotSelector::Current).await?,
    };
    session.out.result(format_args!("{}: {}", line(&args.table), describe_size(&snapshot)), || {
        Value::Object(args.table.size_fields(&snapshot))
    })
}

fn define(
    schema: &arrow::datatypes::Schema,
    partition_by: &PartitionBy,
    layout: &LayoutArgs,
) -> Result<Definition> {
    let mut definition = Definition::new(schema)?;
    definition.partitioning = partition_by.resolve(&definition.schema)?;
    definition.layout = definition.layout.with(&layout.change(), &definition.schema)?;
    Ok(definition)
}

/// Loads the files into the new table. Removes the table if that fails.
async fn fill(table: &Table, inputs: Inputs, address: &TableAddress) -> Outcome<Snapshot> {
    let failure = match load::load(table, inputs, false, address).await {
        Ok(loaded) => return Ok(loaded.snapshot),
        Err(failure) => failure,
    };
    match remove_empty(table).await {
        Ok(()) => Err(failure),
        Err(error) => {
            tracing::warn!(%error, "the empty table remains; `benthic table drop {address}` removes it");
            Err(failure)
        }
    }
}

/// Removes the table, unless another writer has already written to it.
async fn remove_empty(table: &Table) -> Result<()> {
    let head = table.head().await?;
    if head.snapshots.len() > 1 || !head.intents.is_empty() {
        return Err(Error::conflict("another writer already uses the table"));
    }
    drop_table(Arc::clone(table.pool()), table.name(), false, &Environment::default()).await.map(drop)
}
