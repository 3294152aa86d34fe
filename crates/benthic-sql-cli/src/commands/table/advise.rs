//! `benthic table advise`: records the access of queries to a table, and suggests indexes and a
//! sort order.

use super::{TableAddress, count, line, time, with_separators};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use benthic_table::{
    Access, Advice, ConditionKind, Index, IndexKind, Snapshot, SnapshotSelector, Suggested, Suggestion,
    advise,
};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

/// Arguments of `benthic table advise`.
#[derive(Args)]
#[command(after_help = "\
Start with --record on. From then on, queries of the table by SQL and Python add to its records which columns they read, \
which kinds of conditions they have, how many rows these select and how many bytes they read. The records have no values \
of conditions and take at most 64 KiB. A kind of query that did not occur for 30 days is removed. Of queries with a limit, \
only the columns and indexes are recorded. A query takes two more round trips at its end. --record off removes the records.

Without an option, the command derives suggestions from the records, each with the command to run. The bytes after a \
change are an estimate, which assumes that the selected rows are scattered. The command also names indexes that no recorded \
query used. UPDATE, DELETE, joins that look up keys, Dask, Ray and Spark may use them, and are not recorded.

Examples:
  benthic table advise lake/trips --record on
  benthic table advise lake/trips
  benthic table advise lake/trips --record off")]
pub struct AdviseArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    /// Start to record access, or stop and remove the records
    #[arg(long, value_enum)]
    record: Option<Record>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Record {
    On,
    Off,
}

pub async fn run(args: AdviseArgs, session: &Session) -> Outcome {
    let table = args.table.open(session).await?;
    if let Some(record) = args.record {
        let on = record == Record::On;
        table.record_access(on).await?;
        let state =
            if on { "queries are recorded" } else { "queries are not recorded, and the records are gone" };
        return session.out.result(format_args!("{}: {state}", line(&args.table)), || {
            let mut fields = args.table.fields();
            fields.insert("recording".to_owned(), json!(on));
            Value::Object(fields)
        });
    }
    let snapshot = table.snapshot(SnapshotSelector::Current).await?;
    let access = table.access().await?.unwrap_or_default();
    let advice = advise(&access, &snapshot);
    let mut unused = Vec::with_capacity(advice.unused_indexes.len());
    for index in &advice.unused_indexes {
        unused.push((index, snapshot.index_bytes(index.number).await?));
    }
    let page = Page { table: &args.table, snapshot: &snapshot, access: &access, advice: &advice, unused };
    session.out.result(page.text(), || page.value())
}

struct Page<'a> {
    table: &'a TableAddress,
    snapshot: &'a Snapshot,
    access: &'a Access,
    advice: &'a Advice,
    /// Unused indexes and their sizes.
    unused: Vec<(&'a Index, u64)>,
}

impl Page<'_> {
    fn text(&self) -> String {
        let address = line(self.table);
        let queries = self.access.queries();
        let start = match quote(&self.table.to_string()) {
            Some(table) => format!("`benthic table advise {table} --record on` starts to record them"),
            None => "`benthic table advise POOL/TABLE --record on` starts to record them".to_owned(),
        };
        if queries == 0 {
            return match self.snapshot.records_access() {
                true => {
                    format!("{address}: no query is recorded yet; run the queries that should become faster")
                }
                false => format!("{address}: queries are not recorded; {start}"),
            };
        }
        let since = time(self.access.since_ms);
        let mut text = format!("{address}: {} recorded since {since}", count_queries(queries));
        if !self.snapshot.records_access() {
            text += &format!("; now, queries are not recorded; {start}");
        }
        for one in &self.advice.suggested {
            let sums = &one.sums;
            text += &format!(
                "\n\n  {}\n    {} with {} read {} and selected {} of {}{}; they would read about {}",
                self.change(&one.suggestion),
                count_queries(sums.queries),
                line(self.conditions(one)),
                units::size(sums.bytes_read),
                with_separators(sums.rows_selected),
                count(sums.rows, "row"),
                percent(sums.rows_selected, sums.rows),
                units::size(one.bytes_after)
            );
        }
        if self.advice.suggested.is_empty() {
            text += "\n\n  no index and no sort order would have saved much";
        }
        for (index, bytes) in &self.unused {
            text += &format!(
                "\n\n  not used by a recorded query: the index {}, which takes about {}",
                line(self.index_name(index)),
                units::size(*bytes)
            );
        }
        if !self.unused.is_empty() {
            text += "\n    before you drop an index: UPDATE, DELETE, joins that look up keys, Dask, Ray and Spark \
                are not recorded";
        }
        if !self.advice.unread_columns.is_empty() {
            let names = self.names(&self.advice.unread_columns).join(", ");
            text += &format!("\n\n  no recorded query read these columns: {}", line(names));
        }
        text
    }

    fn value(&self) -> Value {
        let suggestion = |one: &Suggested| {
            let (kind, columns) = match &one.suggestion {
                Suggestion::Index(columns) => ("index", self.names(columns)),
                Suggestion::TextIndex(column) => ("text_index", self.names(&[*column])),
                Suggestion::Sort(columns) => ("sort", self.names(columns)),
            };
            json!({
                "kind": kind,
                "columns": columns,
                "command": self.command(&one.suggestion),
                "conditions": self.conditions(one),
                "queries": one.sums.queries,
                "rows": one.sums.rows,
                "rows_selected": one.sums.rows_selected,
                "bytes_read": one.sums.bytes_read,
                "bytes_after": one.bytes_after,
            })
        };
        let unused = |(index, bytes): &(&Index, u64)| {
            json!({
                "kind": if index.kind == IndexKind::Words { "text_index" } else { "index" },
                "columns": self.names(&index.columns),
                "size_bytes": bytes,
            })
        };
        let mut fields = self.table.fields();
        fields.insert("recording".to_owned(), json!(self.snapshot.records_access()));
        fields.insert("since_unix_ms".to_owned(), json!(self.access.since_ms));
        fields.insert("queries".to_owned(), json!(self.access.queries()));
        fields.insert("suggestions".to_owned(), self.advice.suggested.iter().map(suggestion).collect());
        fields.insert("unused_indexes".to_owned(), self.unused.iter().map(unused).collect());
        fields.insert("unread_columns".to_owned(), json!(self.names(&self.advice.unread_columns)));
        Value::Object(fields)
    }

    /// The command that makes a change. `None` if a name in it has no safe form.
    fn command(&self, suggestion: &Suggestion) -> Option<String> {
        let table = quote(&self.table.to_string())?;
        let list = |columns: &[u32]| list(&self.names(columns));
        Some(match suggestion {
            Suggestion::Index(columns) => format!("benthic table index {table} {}", list(columns)?),
            Suggestion::TextIndex(column) => {
                format!("benthic table index {table} --text {}", list(&[*column])?)
            }
            Suggestion::Sort(columns) => {
                format!("benthic table rewrite {table} --sort-by {}", list(columns)?)
            }
        })
    }

    /// The command that makes a change, or its description.
    fn change(&self, suggestion: &Suggestion) -> String {
        let described = || {
            let (change, columns) = match suggestion {
                Suggestion::Index(columns) => ("an index of the columns", self.names(columns)),
                Suggestion::TextIndex(column) => ("a text index of the column", self.names(&[*column])),
                Suggestion::Sort(columns) => ("rows sorted by the columns", self.names(columns)),
            };
            format!("{change}: {}", line(columns.join(", ")))
        };
        self.command(suggestion).unwrap_or_else(described)
    }

    fn index_name(&self, index: &Index) -> String {
        let prefix = if index.kind == IndexKind::Words { "text" } else { "" };
        format!("{prefix}({})", self.names(&index.columns).join(", "))
    }

    /// The conditions of the queries that a suggestion helps, without values: `name = ?, day
    /// between ?`.
    fn conditions(&self, one: &Suggested) -> String {
        let condition = |(id, kind): &(u32, ConditionKind)| {
            Some(format!("{} {}", self.snapshot.schema().by_id(*id)?.name, kind.text()))
        };
        one.conditions.iter().filter_map(condition).collect::<Vec<_>>().join(", ")
    }

    fn names(&self, columns: &[u32]) -> Vec<String> {
        let schema = self.snapshot.schema();
        columns.iter().filter_map(|id| schema.by_id(*id)).map(|column| column.name.clone()).collect()
    }
}

fn count_queries(queries: u64) -> String {
    format!("{} {}", with_separators(queries), if queries == 1 { "query" } else { "queries" })
}

fn percent(part: u64, whole: u64) -> String {
    let percent = part as f64 * 100.0 / whole.max(1) as f64;
    match percent {
        percent if part == 0 || percent >= 0.01 => format!(" ({percent:.2}%)"),
        _ => " (below 0.01%)".to_owned(),
    }
}

/// A list of columns in a command. `None` if the command would take a name for something else.
fn list(names: &[String]) -> Option<String> {
    let is_safe = |name: &String| !name.is_empty() && !name.contains(',') && name.trim() == name;
    names.iter().all(is_safe).then(|| quote(&names.join(","))).flatten()
}

/// A word of a command, in quotes if a shell would change it. `None` for a word that the command
/// would take for an option, and for one with control characters.
fn quote(word: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./,".contains(c);
    if word.starts_with('-') || word.contains(char::is_control) {
        return None;
    }
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Some(word.to_owned()),
        false => Some(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}
