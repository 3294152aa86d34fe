//! Reads rows from files and from objects of a pool: Parquet, CSV, JSON lines, Arrow files and
//! streams.
//!
//! Every error names the file. Memory is bounded: one batch at a time, with at most [`BATCH_ROWS`]
//! rows and, in text formats, about [`BATCH_BYTES`]. All calls block; [`feed`] reads on a separate
//! thread.

mod arrow_ipc;
mod csv;
mod exact;
mod feed;
mod json;
mod object;
mod parquet;
mod quotes;
mod reader;
mod text;

pub use feed::{Feed, Input, feed};
pub use object::{PoolObject, find_objects};
pub use reader::{BATCH_BYTES, BATCH_ROWS, Batch, text_if_unknown};

use arrow::datatypes::SchemaRef;
use benthic_core::{Error, Result};
use benthic_table::TableSchema;
use reader::{Raw, Reader, unreadable};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The path that stands for standard input.
pub const STDIN: &str = "-";

/// File formats of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Parquet,
    /// Comma-separated values. The first line contains the column names.
    Csv,
    Tsv,
    /// JSON lines: one object per line.
    Json,
    Arrow,
}

impl Format {
    pub fn of(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "parquet" | "parq" | "pq" => Format::Parquet,
            "csv" => Format::Csv,
            "tsv" | "tab" => Format::Tsv,
            "json" | "jsonl" | "ndjson" => Format::Json,
            "arrow" | "arrows" | "feather" | "ipc" => Format::Arrow,
            _ => return None,
        })
    }
}

/// Options for reading files.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format of all files. If absent, the file names determine it.
    pub format: Option<Format>,
    /// Delimiter of CSV. By default a comma, or a tab for TSV.
    pub delimiter: Option<u8>,
    /// Text that represents null in CSV.
    pub null: String,
}

/// An open file whose beginning matches its format.
pub struct Source {
    name: String,
    reader: Box<dyn Reader>,
}

impl Source {
    /// Opens a file, or standard input if the path is `-`.
    ///
    /// # Errors
    /// `InvalidArgument` for a directory, an unknown format, or content of another format; errors
    /// of the file system.
    pub fn open(path: &Path, options: &Options) -> Result<Source> {
        let is_stdin = path.as_os_str() == STDIN;
        let name = if is_stdin { "stdin".to_owned() } else { path.display().to_string() };
        let format = options.format.or_else(|| if is_stdin { None } else { Format::of(path) });
        let raw = || Ok(if is_stdin { Raw::Stdin } else { Raw::File(open_file(path)?) });
        Source::open_as(name, format.ok_or_else(|| unknown_format(is_stdin)), raw, options)
    }

    /// Opens an object of a pool. A format that needs the end of a file first is copied to a
    /// temporary file. All calls read the object with `block_on`, so do not make them in an async
    /// task.
    ///
    /// # Errors
    /// As [`Source::open`], instead of errors of the file system those of
    /// [`Pool::read`](benthic_core::Pool::read). In these calls and in the rows, `Conflict` if the
    /// object has changed since it was found.
    pub fn open_object(object: &PoolObject, options: &Options) -> Result<Source> {
        let format = options.format.or_else(|| object.format()).ok_or_else(|| unknown_format(false));
        let raw = || Ok(Raw::Object(object.stream()));
        Source::open_as(object.path().display().to_string(), format, raw, options)
    }

    fn open_as(
        name: String,
        format: Result<Format>,
        raw: impl FnOnce() -> Result<Raw>,
        options: &Options,
    ) -> Result<Source> {
        let reader = catch_panic(&name, || {
            let (format, raw) = (format?, raw()?);
            let reader: Box<dyn Reader> = match format {
                Format::Parquet => Box::new(parquet::Parquet::open(raw.seekable()?)?),
                Format::Arrow => Box::new(arrow_ipc::ArrowIpc::open(raw)?),
                Format::Csv | Format::Tsv => {
                    let usual = if format == Format::Csv { b',' } else { b'\t' };
                    Box::new(csv::Csv::open(raw, options.delimiter.unwrap_or(usual), &options.null)?)
                }
                Format::Json => Box::new(json::Json::open(raw)?),
            };
            Ok(reader)
        })?;
        Ok(Source { name, reader })
    }

    /// The columns of the file. In CSV and JSON, the first rows determine them, and a column
    /// without values has the type Null: other files or [`text_if_unknown`] determine its type.
    ///
    /// # Errors
    /// `InvalidArgument` if the rows have no columns.
    pub fn schema(&self) -> Result<SchemaRef> {
        catch_panic(&self.name, || self.reader.schema())
    }

    /// The rows. Text values get the types of `known` for its columns, and types guessed from the
    /// first rows for others.
    ///
    /// # Errors
    /// `InvalidArgument` for columns that the format does not support. The iterator returns errors
    /// of single rows, with their line number.
    pub fn batches(self, known: &TableSchema) -> Result<impl Iterator<Item = Result<Batch>> + Send + use<>> {
        let Source { name, reader } = self;
        let mut batches = catch_panic(&name, || reader.batches(known))?;
        let mut ended = false;
        Ok(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let batch = catch_panic(&name, || batches.next().transpose()).transpose();
            // A reader that failed cannot continue.
            ended = !matches!(batch, Some(Ok(_)));
            batch
        }))
    }
}

/// Checks that the path may be a file of rows, and returns its size, or 0 if it has none, such as a
/// pipe.
///
/// # Errors
/// `InvalidArgument` for a directory or an unknown format; errors of the file system.
pub fn check(path: &Path, options: &Options) -> Result<u64> {
    let is_stdin = path.as_os_str() == STDIN;
    if is_stdin {
        return if options.format.is_some() { Ok(0) } else { Err(unknown_format(true)) };
    }
    let checked = || {
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        if metadata.is_dir() {
            return Err(directory());
        }
        options.format.or_else(|| Format::of(path)).ok_or_else(|| unknown_format(false))?;
        Ok(if metadata.is_file() { metadata.len() } else { 0 })
    };
    checked().map_err(|error| error.with("path", path.display()))
}

fn open_file(path: &Path) -> Result<File> {
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() { Err(directory()) } else { Ok(file) }
}

fn directory() -> Error {
    Error::invalid_argument("this is a directory; name the files in it, such as DIR/*.parquet")
}

fn unknown_format(is_stdin: bool) -> Error {
    let message = match is_stdin {
        true => "stdin has no file name; give --format parquet, csv, tsv, json or arrow",
        false => "the file name does not tell the format; give --format parquet, csv, tsv, json or arrow",
    };
    Error::invalid_argument(message)
}

/// Runs code of a format. Converts panics, which a damaged file may cause, to errors, and adds the
/// file name to errors.
fn catch_panic<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let outcome = catch_unwind(AssertUnwindSafe(work));
    let gave_up = |_| Error::invalid_argument("the file is damaged; its reader panicked");
    outcome.map_err(gave_up).flatten().map_err(|error| error.with("path", name))
}
