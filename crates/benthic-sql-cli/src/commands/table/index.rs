//! `benthic table index`: adds, builds, rebuilds and drops indexes.

use super::{TableAddress, column_name, count, line, with_separators};
use benthic_core::Result;
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_table::{IndexBuildResult, Snapshot, SnapshotSelector, Table};
use clap::Args;
use futures::stream::{BoxStream, StreamExt};
use serde_json::{Value, json};

/// Arguments of `benthic table index`.
#[derive(Args)]
#[command(after_help = "\
An index covers the values of one to four columns, or the words of one column of texts. A query with conditions on the \
first column, or on the first columns together, looks them up in each object that statistics do not exclude, and reads \
only the rows that may match. One query uses several indexes. A text index helps the functions contains_words, \
contains_phrase and contains_prefix. An index over a column of lists has the elements, and helps array_has, array_has_any \
and array_has_all. Rows that are added later are indexed as they are written. Repeat an interrupted \
run to continue it; until it is done, queries read objects without the index in full.

Examples:
  benthic table index lake/trips id
  benthic table index lake/trips city,day
  benthic table index lake/docs --text body
  benthic table index lake/docs tags
  benthic table index lake/trips --drop city,day
  benthic table index lake/docs --drop-text body
  benthic table index lake/trips --rebuild")]
pub struct IndexArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    /// The columns of a new index, in order; without them, builds the missing parts of all indexes
    #[arg(value_name = "COLUMN,...", value_delimiter = ',', value_parser = column_name, conflicts_with = "drop")]
    columns: Vec<String>,
    /// Add an index over the words of this column
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["columns", "drop", "drop_text"])]
    text: Option<String>,
    /// Drop the index over these columns
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',', value_parser = column_name)]
    drop: Vec<String>,
    /// Drop the index over the words of this column
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["columns", "drop"])]
    drop_text: Option<String>,
    /// Also rebuild existing parts
    #[arg(long, conflicts_with_all = ["drop", "drop_text"])]
    rebuild: bool,
}

fn names(columns: &[String]) -> Vec<&str> {
    columns.iter().map(String::as_str).collect()
}

pub async fn run(args: IndexArgs, session: &Session) -> Outcome {
    let table = args.table.open(session).await?;
    if let Some(column) = &args.drop_text {
        let index = table.drop_text_index(column).await?;
        return remove_pages(&args, &table, index.number, ("dropped_text", json!(column)), session).await;
    }
    if !args.drop.is_empty() {
        let index = table.drop_index(&names(&args.drop)).await?;
        let columns = json!(names(&args.drop));
        return remove_pages(&args, &table, index.number, ("dropped", columns), session).await;
    }
    if let Some(column) = &args.text {
        table.add_text_index(column).await?;
    }
    if !args.columns.is_empty() {
        table.add_index(&names(&args.columns)).await?;
    }
    let snapshot = table.snapshot(SnapshotSelector::Current).await?;
    if snapshot.indexes().next().is_none() {
        return Err(Failure::Usage("the table has no index; name the columns of a new one".to_owned()));
    }
    let (mut objects, mut built, mut too_large) = (0, 0, 0);
    let add = |done: IndexBuildResult| {
        objects += u64::from(done.built > 0);
        built += done.built as u64;
        too_large += done.too_large as u64;
        done.bytes
    };
    let progress = format!("indexing {}", args.table);
    watch(&progress, &snapshot, snapshot.build_indexes(args.rebuild), add).await?;
    if too_large > 0 {
        let left = count(too_large, "index part");
        session.out.warning(format_args!("{left} would be too large; queries read those objects in full"));
    }
    let of = count(snapshot.objects(), "object");
    let text = format!(
        "{}: {} built in {} of {of}",
        line(&args.table),
        count(built, "index part"),
        with_separators(objects)
    );
    session.out.result(text, || {
        let mut fields = args.table.fields();
        fields.insert("objects".to_owned(), json!(snapshot.objects()));
        fields.insert("objects_indexed".to_owned(), json!(objects));
        fields.insert("parts_built".to_owned(), json!(built));
        fields.insert("parts_too_large".to_owned(), json!(too_large));
        Value::Object(fields)
    })
}

/// Removes the pages of an index that was dropped, and prints the result.
async fn remove_pages(
    args: &IndexArgs,
    table: &Table,
    index: u32,
    (field, columns): (&str, Value),
    session: &Session,
) -> Outcome {
    let snapshot = table.snapshot(SnapshotSelector::Current).await?;
    let progress = format!("dropping an index of {}", args.table);
    watch(&progress, &snapshot, snapshot.remove_pages(index), |bytes| bytes).await?;
    session.out.result(format_args!("{}: index dropped", line(&args.table)), || {
        let mut fields = args.table.fields();
        fields.insert(field.to_owned(), columns.clone());
        Value::Object(fields)
    })
}

/// Shows progress until all objects are done, or fails after a signal. `bytes_of` returns the size
/// of a finished object.
pub async fn watch<T>(
    what: &str,
    snapshot: &Snapshot,
    mut done: BoxStream<'static, Result<T>>,
    mut bytes_of: impl FnMut(T) -> u64,
) -> Outcome {
    let progress = Progress::bytes(what, snapshot.data_bytes());
    loop {
        // Encoding never waits. Yield so that the task that watches for signals can run.
        tokio::task::yield_now().await;
        interrupt::check()?;
        tokio::select! {
            next = done.next() => match next {
                Some(next) => progress.advance(bytes_of(next?)),
                None => return Ok(()),
            },
            () = interrupt::wait() => return Err(Failure::Interrupted),
        }
    }
}
