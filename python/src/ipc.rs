//! Rows as Arrow IPC messages, the form in which they cross the boundary to pyarrow.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamEncoder;
use benthic_core::{Error, ErrorKind, Result};
use pyo3::prelude::{Bound, PyResult, Python};
use pyo3::types::PyBytes;
use std::sync::Arc;

/// The schema that Python sees. Views of strings and bytes become plain types, because parts of
/// pyarrow cannot handle views. Dictionary columns become plain columns.
pub fn plain_schema(schema: &Schema) -> SchemaRef {
    Arc::new(Schema::new(schema.fields().iter().map(plain_field).collect::<Vec<_>>()))
}

fn plain_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), plain_type(field.data_type()), field.is_nullable()))
}

fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, value) => plain_type(value),
        DataType::List(item) => DataType::List(plain_field(item)),
        DataType::LargeList(item) => DataType::LargeList(plain_field(item)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(plain_field(item), *len),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(plain_field(entries), *sorted),
        other => other.clone(),
    }
}

/// A message as a list of buffers, which are not yet joined.
pub struct Message(Vec<Buffer>);

impl Message {
    /// Encodes a schema as an Arrow IPC stream without rows.
    ///
    /// # Errors
    /// `Internal`; not expected, because Arrow IPC can encode every schema of a table.
    pub fn of_schema(schema: &Schema) -> Result<Message> {
        StreamEncoder::try_new(schema).and_then(StreamEncoder::finish).map(Message).map_err(encode_error)
    }

    /// Joins the buffers into a Python bytes object. This is the only copy of the rows.
    ///
    /// # Errors
    /// `MemoryError`.
    pub fn into_bytes(self, py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
        let len_bytes = self.0.iter().map(Buffer::len).sum();
        PyBytes::new_with(py, len_bytes, |bytes| {
            let mut rest = bytes;
            for piece in &self.0 {
                let (to, next) = rest.split_at_mut(piece.len());
                to.copy_from_slice(piece);
                rest = next;
            }
            Ok(())
        })
    }
}

/// Encodes batches as messages.
pub struct Encoder {
    schema: SchemaRef,
    encoder: StreamEncoder,
}

impl Encoder {
    /// Creates an encoder that casts batches to `schema`, a result of [`plain_schema`].
    ///
    /// # Errors
    /// `Internal`; not expected, because Arrow IPC can encode every schema of a table.
    pub fn new(schema: SchemaRef) -> Result<Encoder> {
        let mut encoder = StreamEncoder::try_new(&schema).map_err(encode_error)?;
        // The first message carries the schema, which the reader already has.
        encoder.encode(&RecordBatch::new_empty(Arc::clone(&schema))).map_err(encode_error)?;
        Ok(Encoder { schema, encoder })
    }

    /// Encodes a batch as a message without its schema.
    ///
    /// # Errors
    /// `LimitExceeded` if the values of a column are together too long for 32-bit offsets.
    pub fn encode(&mut self, batch: &RecordBatch) -> Result<Message> {
        let column = |(column, field): (&ArrayRef, &FieldRef)| match column.data_type() == field.data_type() {
            true => Ok(Arc::clone(column)),
            false => cast(column, field.data_type()),
        };
        let columns: Result<_, ArrowError> =
            batch.columns().iter().zip(self.schema.fields()).map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = columns.and_then(|columns| {
            RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
        });
        batch.and_then(|batch| self.encoder.encode(&batch)).map(Message).map_err(encode_error)
    }
}

fn encode_error(error: ArrowError) -> Error {
    let (kind, message) = match error {
        ArrowError::OffsetOverflowError(_) => {
            (ErrorKind::LimitExceeded, "the values of a batch are too long together; select fewer columns")
        }
        _ => (ErrorKind::Internal, "the rows cannot be encoded for Python"),
    };
    Error::new(kind, message).with_source(error)
}

/// Decodes and validates a stream that pyarrow wrote.
///
/// # Errors
/// `InvalidArgument` for a malformed stream; `Unsupported` for types that this build does not know.
pub fn read_stream(stream: Vec<u8>) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let mut decoder = StreamDecoder::new();
    let mut stream = Buffer::from_vec(stream);
    let mut batches = Vec::new();
    while !stream.is_empty() {
        batches.extend(decoder.decode(&mut stream).map_err(decode_error)?);
    }
    let schema = decoder.schema();
    let schema = schema.ok_or_else(|| Error::invalid_argument("the data have no schema"))?;
    Ok((schema, batches))
}

fn decode_error(error: ArrowError) -> Error {
    let (kind, message) = match error {
        ArrowError::NotYetImplemented(_) => {
            (ErrorKind::Unsupported, "the data have a column of an unsupported type; cast the column first")
        }
        _ => (ErrorKind::InvalidArgument, "the data are not an Arrow stream"),
    };
    Error::new(kind, message).with_source(error)
}
