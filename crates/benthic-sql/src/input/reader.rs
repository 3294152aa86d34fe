//! What all formats implement, and what they read from.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use benthic_core::{Action, Error, ErrorKind, Result};
use benthic_table::TableSchema;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// Rows of a batch.
pub const BATCH_ROWS: usize = 8_192;
/// What the text of a batch aims at.
pub const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Rows, and how many bytes of the file they took, for whoever shows progress.
#[derive(Debug)]
pub struct Batch {
    /// The rows.
    pub rows: RecordBatch,
    /// Bytes of the file since the batch before.
    pub read_bytes: u64,
}

/// One format's way of reading.
pub(super) trait Reader: Send {
    /// The columns: names, and types as far as the file tells.
    fn schema(&self) -> Result<SchemaRef>;

    /// The rows, with types of `known` where text has to be told.
    fn batches(
        self: Box<Self>,
        known: &TableSchema,
    ) -> Result<Box<dyn Iterator<Item = Result<Batch>> + Send>>;
}

/// What a format is read from.
pub(super) enum Raw {
    File(File),
    Stdin,
}

impl Raw {
    /// A file to read from any place; what comes by a pipe is put into a temporary one.
    pub(super) fn seekable(self) -> Result<File> {
        match self {
            Raw::File(file) if file.metadata().map_err(unreadable)?.is_file() => Ok(file),
            piped => {
                let failed = |error| Error::io(Action::Admin, "cannot keep what comes by a pipe", error);
                let mut file = tempfile::tempfile().map_err(failed)?;
                io::copy(&mut piped.stream(), &mut file).map_err(failed)?;
                file.seek(SeekFrom::Start(0)).map_err(failed)?;
                Ok(file)
            }
        }
    }

    /// All bytes in order.
    pub(super) fn stream(self) -> Box<dyn Read + Send> {
        match self {
            Raw::File(file) => Box::new(BufReader::with_capacity(256 * 1024, file)),
            Raw::Stdin => Box::new(io::stdin()),
        }
    }
}

/// An error of the file system.
pub(super) fn unreadable(error: io::Error) -> Error {
    // What reads through limits of ours says it in our words.
    match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(error) => Error::io(Action::Admin, "cannot read the file", error),
    }
}

/// What a format's library says of a file; an error of the file system that it carries keeps its kind.
pub(super) fn format_error(message: &str, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, source) if source.kind() != io::ErrorKind::UnexpectedEof => unreadable(source),
        other => Error::new(ErrorKind::InvalidArgument, message).with_source(other),
    }
}
