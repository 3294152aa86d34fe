//! Loads files, or objects of a pool, into a table, in one commit for all of them.

use super::TableAddress;
use super::limits::{LimitArgs, Throttle};
use crate::commands::one_of;
use arrow::datatypes::{FieldRef, Schema};
use benthic_core::{Error, ErrorKind, ObjectAddress, Result, WORKER_THREAD};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_sql::input::{self, Feed, Format, Input, Options, STDIN, find_objects, text_if_unknown};
use benthic_table::{Snapshot, Table, Writer, WriterOptions};
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;

/// The sources to load and how to read them, for `create` and `append`.
#[derive(Args)]
pub struct InputArgs {
    /// Parquet, CSV, TSV, JSON lines or Arrow files; - is stdin
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Read objects of a pool instead of files; *, ? and [a-z] in the name match several; may be
    /// given more than once
    #[arg(long, value_name = "POOL/OBJECT", conflicts_with = "files")]
    from: Vec<ObjectAddress>,
    /// Format of all files; by default, the file names determine it
    #[arg(long, value_parser = one_of(&FORMATS))]
    format: Option<Format>,
    /// Delimiter of CSV: one ASCII character, or 'tab'
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter)]
    delimiter: Option<u8>,
    /// Text that represents null in CSV; by default, an empty value
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    null: String,
    #[command(flatten)]
    limits: LimitArgs,
}

const FORMATS: [(&str, &str, Format); 5] = [
    ("parquet", "Parquet", Format::Parquet),
    ("csv", "Comma-separated values; the first line names the columns", Format::Csv),
    ("tsv", "Tab-separated values; the first line names the columns", Format::Tsv),
    ("json", "JSON lines: one object per line", Format::Json),
    ("arrow", "Arrow IPC, file or stream", Format::Arrow),
];

fn parse_delimiter(text: &str) -> std::result::Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => Err("a delimiter is one ASCII character, or 'tab'".to_owned()),
    }
}

async fn find(
    from: &[ObjectAddress],
    options: Options,
    limits: LimitArgs,
    session: &Session,
) -> Outcome<Inputs> {
    let mut inputs = Inputs { files: Vec::new(), options, size_bytes: 0, limits };
    for address in from {
        let pool = session.pool(&address.pool).await?;
        for object in find_objects(&pool, address).await? {
            object.check(&inputs.options)?;
            inputs.size_bytes = inputs.size_bytes.saturating_add(object.size_bytes());
            inputs.files.push(Input::Object(object));
        }
    }
    Ok(inputs)
}

/// Checked input files, or objects, and their total size.
pub struct Inputs {
    files: Vec<Input>,
    options: Options,
    size_bytes: u64,
    limits: LimitArgs,
}

impl InputArgs {
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.from.is_empty()
    }

    /// Checks all files, and finds all objects, before any work starts.
    pub async fn check(self, session: &Session) -> Outcome<Inputs> {
        let limits = self.limits;
        let options = Options { format: self.format, delimiter: self.delimiter, null: self.null };
        if !self.from.is_empty() {
            return find(&self.from, options, limits, session).await;
        }
        if self.files.iter().filter(|path| path.as_os_str() == STDIN).count() > 1 {
            return Err(Failure::Usage("stdin can be read only once; name - once".to_owned()));
        }
        let files = self.files;
        let checked = blocking(move || {
            let sizes: Result<Vec<u64>> = files.iter().map(|path| input::check(path, &options)).collect();
            let size_bytes = sizes?.iter().fold(0, |sum: u64, size| sum.saturating_add(*size));
            let files = files.into_iter().map(Input::Path).collect();
            Ok(Inputs { files, options, size_bytes, limits })
        });
        Ok(checked.await?)
    }
}

impl Inputs {
    /// The first file or object.
    pub fn first(&self) -> Option<PathBuf> {
        self.files.first().map(name)
    }

    /// Opens the first file, and returns its columns. If it has no value of a column, the next
    /// files determine the column's type.
    pub async fn schema(&mut self) -> Outcome<arrow::datatypes::SchemaRef> {
        let mut files = std::mem::take(&mut self.files).into_iter();
        let first = files.next();
        let first = first.ok_or_else(|| Error::internal("no file to take columns from"))?;
        let others: Vec<Input> = files.as_slice().iter().filter_map(again).collect();
        let options = self.options.clone();
        let opened = read(move || {
            let (path, source) = first.open(&options)?;
            let mut schema = source.schema()?.as_ref().clone();
            for other in others {
                if schema.fields().iter().all(|field| !field.data_type().is_null()) {
                    break;
                }
                schema = with_types_of(&schema, other.open(&options)?.1.schema()?.as_ref());
            }
            Ok((Arc::new(text_if_unknown(&schema)), Input::Open(path, source)))
        });
        let (schema, open) = opened.await?;
        self.files = std::iter::once(open).chain(files).collect();
        Ok(schema)
    }
}

fn name(input: &Input) -> PathBuf {
    match input {
        Input::Path(path) | Input::Open(path, _) => path.clone(),
        Input::Object(object) => object.path(),
    }
}

/// The input, if it can be opened twice.
fn again(input: &Input) -> Option<Input> {
    match input {
        Input::Path(path) if path.as_os_str() != STDIN => Some(Input::Path(path.clone())),
        Input::Object(object) => Some(Input::Object(object.clone())),
        _ => None,
    }
}

/// The schema with the types that another schema has for columns of type Null.
fn with_types_of(schema: &Schema, other: &Schema) -> Schema {
    let field = |field: &FieldRef| match other.field_with_name(field.name()) {
        Ok(other) if field.data_type().is_null() => Arc::new(other.clone()),
        _ => Arc::clone(field),
    };
    Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>())
}

/// Reads on a thread that is not joined after a signal, because a read from a terminal cannot be
/// interrupted.
async fn read<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Outcome<T> {
    let (to, from) = tokio::sync::oneshot::channel();
    let started =
        std::thread::Builder::new().name(WORKER_THREAD.to_owned()).spawn(move || to.send(work()).is_ok());
    started.map_err(|error| Error::unavailable("cannot start a thread").with_source(error))?;
    tokio::select! {
        outcome = from => match outcome {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(Error::internal("the thread that read a file ended early").into()),
        },
        () = interrupt::wait() => Err(Failure::Interrupted),
    }
}

/// The result of a load.
pub struct Loaded {
    pub rows: u64,
    pub snapshot: Snapshot,
}

/// Adds the rows of all files in one commit. After a failure or a signal, the table contains none
/// of the rows, and their data objects are removed if possible.
pub async fn load(
    table: &Table,
    inputs: Inputs,
    add_columns: bool,
    address: &TableAddress,
) -> Outcome<Loaded> {
    let options = WriterOptions { add_columns, ..inputs.limits.options() };
    let mut writer = table.writer(options).await?;
    let progress = Progress::bytes(&format!("loading {address}"), inputs.size_bytes);
    let throttle = inputs.limits.throttle();
    let filled = fill(&mut writer, inputs, throttle, &progress).await;
    let rows = match filled {
        Ok(rows) => rows,
        Err(failure) => {
            if let Err(error) = writer.abort().await {
                tracing::warn!(%error, "unused objects remain; `benthic table vacuum` removes them");
            }
            return Err(failure);
        }
    };
    let snapshot = writer.finish().await?;
    Ok(Loaded { rows, snapshot })
}

async fn fill(
    writer: &mut Writer,
    inputs: Inputs,
    mut throttle: Throttle,
    progress: &Progress,
) -> Outcome<u64> {
    let mut feed = input::feed(inputs.files, inputs.options, writer.schema().clone())?;
    let mut rows = 0;
    while let Some((path, batch)) = next(&mut feed).await? {
        let written = writer.write(&batch.rows).await;
        written.map_err(|error| match error.kind() {
            ErrorKind::InvalidArgument | ErrorKind::LimitExceeded | ErrorKind::Unsupported => {
                error.with("path", path.display())
            }
            _ => error,
        })?;
        rows += batch.rows.num_rows() as u64;
        progress.advance(batch.read_bytes);
        throttle.wait(batch.read_bytes).await;
    }
    Ok(rows)
}

async fn next(feed: &mut Feed) -> Outcome<Option<(PathBuf, input::Batch)>> {
    // Encoding never waits. Yield so that the task that watches for signals can run.
    tokio::task::yield_now().await;
    interrupt::check()?;
    tokio::select! {
        batch = feed.next() => Ok(batch?),
        () = interrupt::wait() => Err(Failure::Interrupted),
    }
}
