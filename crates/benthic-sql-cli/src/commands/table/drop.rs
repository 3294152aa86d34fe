//! `benthic table drop`: removes a table.

use super::{TableAddress, count, line};
use benthic_core::{Environment, Error, Pool};
use benthic_program::confirm::Deletion;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use benthic_table::head::{ListRef, TableState};
use benthic_table::{Table, drop_table};
use clap::Args;
use serde_json::{Value, json};
use std::sync::Arc;

/// Arguments of `benthic table drop`.
#[derive(Args)]
#[command(after_help = "\
All rows disappear at once, and running queries fail. The command lists what it deletes and asks for the table's \
address; --yes POOL/TABLE answers without a terminal. Repeat an interrupted drop to continue it. While another process \
loads into the table, the name stays taken: repeat the drop when that process is done, or use --force if it no longer \
runs.

Examples:
  benthic table drop lake/trips
  benthic table drop lake/trips --yes lake/trips")]
pub struct DropArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    /// Confirm the deletion: the table's address again
    #[arg(long, value_name = "POOL/TABLE")]
    yes: Option<String>,
    /// Do not wait for writers; objects that a running writer still makes are left behind
    #[arg(long)]
    force: bool,
}

pub async fn run(args: DropArgs, session: &Session) -> Outcome {
    let pool = session.pool_for_removal(&args.table.pool).await?;
    let name = args.table.to_string();
    let deletion = Deletion { noun: "table", name: &name, yes: args.yes.as_deref(), missing: None };
    deletion.confirm(&session.out, async || contents(&pool, &args, session).await).await?;
    let dropped = match drop_table(pool, &args.table.table, args.force, &Environment::default()).await {
        Ok(dropped) => dropped,
        Err(error) => return Err(args.table.with_hint(session, error).await),
    };
    if !dropped.finished {
        let message = "another process loads into the table; its rows are removed, but its name stays; drop it again when that \
            process is done, or with --force if it no longer runs";
        return Err(Error::busy(message)
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

/// Describes the table. A table that is being dropped has no contents: its rows are gone already.
async fn contents(pool: &Arc<dyn Pool>, args: &DropArgs, session: &Session) -> Outcome<Vec<String>> {
    let head = match Table::read_head(Arc::clone(pool), &args.table.table).await {
        Ok(head) => head,
        Err(error) => return Err(args.table.with_hint(session, error).await),
    };
    if head.state == TableState::Dropping {
        return Ok(Vec::new());
    }
    let lists = head.lists_of(head.current()?.0);
    let sum = |of: fn(&ListRef) -> u64| -> u64 { lists.iter().map(of).sum() };
    Ok(vec![
        count(sum(|list| list.rows), "row"),
        format!(
            "{} with {}",
            count(sum(|list| list.objects), "object"),
            units::size(sum(|list| list.data_bytes))
        ),
        count(head.snapshots.len() as u64, "snapshot"),
    ])
}
