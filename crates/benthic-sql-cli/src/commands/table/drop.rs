//! `benthic table drop`: removes a table.

use super::{TableAddress, count, line};
use benthic_core::{Environment, Error, ErrorKind};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_table::drop_table;
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `benthic table drop`.
#[derive(Args)]
#[command(after_help = "\
All rows disappear at once, and running queries fail. Repeat an interrupted drop to continue it. While another process \
loads into the table, the name stays taken: repeat the drop when that process is done, or use --force if it no longer \
runs.

Example:
  benthic table drop lake/trips")]
pub struct DropArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    /// Do not wait for writers; objects that a running writer still makes are left behind
    #[arg(long)]
    force: bool,
}

pub async fn run(args: DropArgs, session: &Session) -> Outcome {
    let pool = args.table.pool(session).await?;
    let dropped = match drop_table(pool, &args.table.table, args.force, &Environment::default()).await {
        Ok(dropped) => dropped,
        Err(error) => return Err(args.table.hinted(session, error).await),
    };
    if !dropped.finished {
        let message = "another process loads into the table; its rows are removed, but its name stays; drop it again when that \
            process is done, or with --force if it no longer runs";
        return Err(Error::new(ErrorKind::Busy, message)
            .with("table", &args.table)
            .with("objects_removed", dropped.objects)
            .into());
    }
    let removed = count(dropped.objects, "object");
    session.out.result(format_args!("{}: dropped, {removed} removed", line(&args.table)), || {
        let mut fields = args.table.fields();
        fields.insert("objects_removed".to_owned(), json!(dropped.objects));
        Value::Object(fields)
    })
}
