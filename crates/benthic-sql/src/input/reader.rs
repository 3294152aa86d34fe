//! The interface of all formats, and their input.

use super::object::ObjectStream;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use benthic_core::{Action, Error, Result};
use benthic_table::TableSchema;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

/// Maximum rows of a batch.
pub const BATCH_ROWS: usize = 8_192;
/// Target size of a batch's text.
pub const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// A batch of rows, with the number of bytes read for progress reports.
#[derive(Debug)]
pub struct Batch {
    pub rows: RecordBatch,
    pub read_bytes: u64,
}

pub(super) trait Reader: Send {
    /// Column names, and types as far as the file determines them. In text formats, a column
    /// without values has the type Null.
    fn schema(&self) -> Result<SchemaRef>;

    /// The rows. Where the format only has text, values get the types of `known`.
    fn batches(
        self: Box<Self>,
        known: &TableSchema,
    ) -> Result<Box<dyn Iterator<Item = Result<Batch>> + Send>>;
}

/// The schema with text for the columns whose type is not known.
pub fn text_if_unknown(schema: &Schema) -> Schema {
    let field = |field: &FieldRef| match field.data_type() {
        DataType::Null => Arc::new(Field::new(field.name(), DataType::Utf8, true)),
        _ => Arc::clone(field),
    };
    Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>())
}

pub(super) enum Raw {
    File(File),
    Stdin,
    Object(ObjectStream),
}

impl Raw {
    /// A seekable file. Input from a pipe or an object is first copied to a temporary file.
    pub(super) fn seekable(self) -> Result<File> {
        match self {
            Raw::File(file) if file.metadata().map_err(unreadable)?.is_file() => Ok(file),
            piped => {
                // The error may be one of ours, from the pool of an object.
                let failed = |error: io::Error| match error.downcast::<Error>() {
                    Ok(ours) => ours,
                    Err(error) => {
                        Error::io(Action::Admin, "cannot copy the input to a temporary file", error)
                    }
                };
                let mut file = tempfile::tempfile().map_err(failed)?;
                io::copy(&mut piped.stream(), &mut file).map_err(failed)?;
                file.seek(SeekFrom::Start(0)).map_err(failed)?;
                Ok(file)
            }
        }
    }

    pub(super) fn stream(self) -> Box<dyn Read + Send> {
        match self {
            Raw::File(file) => Box::new(BufReader::with_capacity(256 * 1024, file)),
            Raw::Stdin => Box::new(io::stdin()),
            Raw::Object(object) => Box::new(object),
        }
    }
}

pub(super) fn unreadable(error: io::Error) -> Error {
    // The error may wrap one of ours, for example of a size limit.
    match error.downcast::<Error>() {
        Ok(ours) => ours,
        Err(error) => Error::io(Action::Read, "cannot read the file", error),
    }
}

/// Converts an error of a format's library. An I/O error inside it keeps its kind.
pub(super) fn format_error(message: &str, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, source) if source.kind() != io::ErrorKind::UnexpectedEof => unreadable(source),
        other => Error::invalid_argument(message).with_source(other),
    }
}
