//! `benthic table append`: adds the rows of files or objects to a table, in one commit for all.

use super::load::{self, InputArgs};
use super::{TableAddress, count, describe_size, line};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `benthic table append`.
#[derive(Args)]
#[command(after_help = "\
Columns match by name. A column that a file lacks is filled with null, and a smaller type is widened. All files become \
one snapshot: if one file is invalid, no rows are added.

Examples:
  benthic table append lake/trips today.parquet
  benthic table append lake/trips may.csv june.csv --delimiter ';' --null NA
  zcat today.json.gz | benthic table append lake/trips - --format json
  benthic table append lake/logs --from 'lake/logs/2024-*.csv' --rate 20MiB")]
pub struct AppendArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    #[command(flatten)]
    input: InputArgs,
    /// Add the columns that the files have and the table lacks; they stay even if the load then
    /// fails
    #[arg(long)]
    add_columns: bool,
}

pub async fn run(args: AppendArgs, session: &Session) -> Outcome {
    if args.input.is_empty() {
        return Err(Failure::Usage(
            "name files to append, or - for stdin, or objects of a pool with --from".to_owned(),
        ));
    }
    let inputs = args.input.check(session).await?;
    let table = args.table.open(session).await?;
    let loaded = load::load(&table, inputs, args.add_columns, &args.table).await?;
    let added = count(loaded.rows, "row");
    session.out.result(
        format_args!("{}: {added} added, {}", line(&args.table), describe_size(&loaded.snapshot)),
        || {
            let mut fields = args.table.size_fields(&loaded.snapshot);
            fields.insert("rows_added".to_owned(), json!(loaded.rows));
            Value::Object(fields)
        },
    )
}
