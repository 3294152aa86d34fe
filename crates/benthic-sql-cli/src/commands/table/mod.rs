//! `benthic table`: the verbs that manage tables, one file each.

mod advise;
mod alter;
mod append;
mod compact;
mod create;
mod demo;
mod diff;
mod drop;
mod fsck;
mod history;
mod index;
mod layout;
mod limits;
mod load;
mod ls;
mod rewrite;
mod rewriting;
mod rollback;
mod show;
mod tag;
mod vacuum;

use benthic_core::{Environment, Error, ErrorKind, Pool, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use benthic_program::units;
use benthic_table::ids::check_table_name;
use benthic_table::{Snapshot, SnapshotSelector, Table};
use clap::Subcommand;
use serde_json::{Map, Value, json};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Examples of `benthic table`.
pub const EXAMPLES: &str = "Examples:\n  benthic table create lake/trips trips-*.parquet\n  \
    benthic table append lake/trips today.csv\n  benthic table show lake/trips";

/// The verbs of `benthic table`.
#[derive(Subcommand)]
pub enum TableCommand {
    /// Create a table, and load files into it
    Create(create::CreateArgs),
    /// Add the rows of files to a table, all or none
    Append(append::AppendArgs),
    /// List tables
    Ls(ls::LsArgs),
    /// Show a table: size, partitioning, columns
    Show(show::ShowArgs),
    /// List the snapshots of a table
    History(history::HistoryArgs),
    /// Change the columns of a table
    Alter(alter::AlterArgs),
    /// Add, build, rebuild or drop an index of a table
    Index(index::IndexArgs),
    /// Record what queries read, and suggest indexes and a sort order
    Advise(advise::AdviseArgs),
    /// Read a whole table, and check its lists, objects and indexes
    Fsck(fsck::FsckArgs),
    /// Return a table to an earlier snapshot
    Rollback(rollback::RollbackArgs),
    /// Print the rows that differ between two snapshots
    Diff(diff::DiffArgs),
    /// Name a snapshot, so that vacuums keep it; list or remove names
    Tag(tag::TagArgs),
    /// Write small objects, and objects with deleted rows, again as fewer whole ones
    Compact(compact::CompactArgs),
    /// Change how objects store the rows: codec, sizes, sort order, Bloom filters
    Rewrite(rewrite::RewriteArgs),
    /// Remove a table with all its rows
    Drop(drop::DropArgs),
    /// Remove old snapshots of a table, and the remains of interrupted loads
    Vacuum(vacuum::VacuumArgs),
    /// Run the table experiment: TPC-H queries beside the objects and in the client, with a report
    Demo(demo::DemoArgs),
}

pub async fn run(command: TableCommand, session: &Session) -> Outcome {
    match command {
        TableCommand::Create(args) => create::run(args, session).await,
        TableCommand::Append(args) => append::run(args, session).await,
        TableCommand::Ls(args) => ls::run(args, session).await,
        TableCommand::Show(args) => show::run(args, session).await,
        TableCommand::History(args) => history::run(args, session).await,
        TableCommand::Alter(args) => alter::run(args, session).await,
        TableCommand::Index(args) => index::run(args, session).await,
        TableCommand::Advise(args) => advise::run(args, session).await,
        TableCommand::Fsck(args) => fsck::run(args, session).await,
        TableCommand::Rollback(args) => rollback::run(args, session).await,
        TableCommand::Diff(args) => diff::run(args, session).await,
        TableCommand::Tag(args) => tag::run(args, session).await,
        TableCommand::Compact(args) => compact::run(args, session).await,
        TableCommand::Rewrite(args) => rewrite::run(args, session).await,
        TableCommand::Drop(args) => drop::run(args, session).await,
        TableCommand::Vacuum(args) => vacuum::run(args, session).await,
        TableCommand::Demo(args) => demo::run(args, session).await,
    }
}

/// A snapshot by its number, or by a tag.
#[derive(Clone, Debug)]
pub enum SnapshotName {
    Id(u64),
    Tag(String),
}

impl FromStr for SnapshotName {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> std::result::Result<SnapshotName, Self::Err> {
        Ok(text.parse().map_or_else(|_| SnapshotName::Tag(text.to_owned()), SnapshotName::Id))
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotName::Id(id) => write!(f, "{id}"),
            SnapshotName::Tag(tag) => f.write_str(tag),
        }
    }
}

impl SnapshotName {
    fn selector(&self) -> SnapshotSelector {
        match self {
            SnapshotName::Id(id) => SnapshotSelector::Id(*id),
            SnapshotName::Tag(tag) => SnapshotSelector::Tag(tag.clone()),
        }
    }
}

/// A table's address as `POOL/TABLE`.
#[derive(Clone, Debug)]
pub struct TableAddress {
    pool: String,
    table: String,
}

impl FromStr for TableAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<TableAddress> {
        let invalid = |message: &str| Error::invalid_argument(message).with("got", text);
        let Some((pool, table)) = text.split_once('/') else {
            return Err(invalid("a table is POOL/TABLE"));
        };
        if pool.contains(':') {
            return Err(invalid("a table is POOL/TABLE; tables have no namespaces"));
        }
        benthic_core::names::check_pool_name(pool)?;
        check_table_name(table)?;
        Ok(TableAddress { pool: pool.to_owned(), table: table.to_owned() })
    }
}

impl fmt::Display for TableAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pool, self.table)
    }
}

impl TableAddress {
    async fn pool(&self, session: &Session) -> Result<Arc<dyn Pool>> {
        session.pool(&self.pool).await
    }

    async fn open(&self, session: &Session) -> Result<Table> {
        Table::open(self.pool(session).await?, &self.table, Environment::default()).await
    }

    /// Adds a suggestion for the table name to a "not found" error.
    async fn with_hint(&self, session: &Session, error: Error) -> Failure {
        match self.open(session).await {
            Err(hinted) if error.kind() == ErrorKind::NotFound => hinted.into(),
            _ => error.into(),
        }
    }

    fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("pool".to_owned(), json!(self.pool));
        fields.insert("table".to_owned(), json!(self.table));
        fields
    }

    /// JSON fields of the table's name and the size of a snapshot.
    fn size_fields(&self, snapshot: &Snapshot) -> Map<String, Value> {
        let mut fields = self.fields();
        fields.insert("snapshot".to_owned(), json!(snapshot.id()));
        fields.insert("rows".to_owned(), json!(snapshot.rows()));
        fields.insert("objects".to_owned(), json!(snapshot.objects()));
        fields.insert("size_bytes".to_owned(), json!(snapshot.data_bytes()));
        fields
    }
}

/// The size of a snapshot as text: `1,200,000 rows in 4 objects, 88.2 MiB, snapshot 2`.
fn describe_size(snapshot: &Snapshot) -> String {
    format!(
        "{} in {}, {}, snapshot {}",
        count(snapshot.rows(), "row"),
        count(snapshot.objects(), "object"),
        units::size(snapshot.data_bytes()),
        snapshot.id()
    )
}

/// Parses a name of an option `COLUMN,...`.
pub fn column_name(name: &str) -> std::result::Result<String, String> {
    match name.trim() {
        "" => Err("the list of columns has an empty name".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// A number and a noun: `1 row`, `1,200,000 rows`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", with_separators(number), if number == 1 { "" } else { "s" })
}

/// A number with thousands separators: `1,200,000`.
fn with_separators(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The time of a snapshot in UTC.
fn time(time_ms: u64) -> String {
    units::utc(time_ms.saturating_mul(1_000_000))
}

/// Escapes a name or type so that it stays on one line.
fn line(text: impl fmt::Display) -> String {
    units::one_line(&text.to_string())
}
