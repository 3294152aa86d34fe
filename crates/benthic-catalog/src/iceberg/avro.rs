//! Avro files (Avro specification, "Object Container Files").
//!
//! The bytes of the files that we write depend on their content only. They are computed for each
//! request, and a client may read parts of one file from several servers. Libraries draw a random
//! marker for each file.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow_avro::reader::ReaderBuilder;
use arrow_avro::schema::AvroSchema;
use benthic_core::{Error, ErrorKind, Result};
use bytes::Bytes;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Limit of the size of a file that we write.
const FILE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Limit of what a client's file expands to.
const READ_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of records that are compressed together.
const BLOCK_BYTES: usize = 64 * 1024;
const COMPRESSION_LEVEL: u8 = 6;
const MAGIC: &[u8] = b"Obj\x01";
const MARKER_BYTES: usize = 16;

/// A value of an Avro schema. A record has its fields in the order of the schema.
pub enum Value {
    Boolean(bool),
    /// An `int` or a `long`.
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
    /// A union of null and another type.
    Optional(Option<Box<Value>>),
    Record(Vec<Value>),
    Array(Vec<Value>),
}

impl Value {
    pub fn optional(value: Option<Value>) -> Value {
        Value::Optional(value.map(Box::new))
    }

    fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Value::Boolean(value) => to.push(u8::from(*value)),
            Value::Number(number) => encode_number(*number, to),
            Value::Text(text) => encode_bytes(text.as_bytes(), to),
            Value::Bytes(bytes) => encode_bytes(bytes, to),
            Value::Optional(None) => encode_number(0, to),
            Value::Optional(Some(value)) => {
                encode_number(1, to);
                value.encode(to);
            }
            Value::Record(fields) => fields.iter().for_each(|field| field.encode(to)),
            Value::Array(items) => {
                if !items.is_empty() {
                    encode_len(items.len(), to);
                    items.iter().for_each(|item| item.encode(to));
                }
                encode_number(0, to);
            }
        }
    }
}

fn encode_bytes(bytes: &[u8], to: &mut Vec<u8>) {
    encode_len(bytes.len(), to);
    to.extend_from_slice(bytes);
}

fn encode_len(len: usize, to: &mut Vec<u8>) {
    encode_number(i64::try_from(len).unwrap_or(i64::MAX), to);
}

/// Appends a number in zigzag coding, seven bits a byte.
fn encode_number(number: i64, to: &mut Vec<u8>) {
    let mut rest = (number.wrapping_shl(1) ^ (number >> 63)) as u64;
    while rest > 0x7f {
        to.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    to.push(rest as u8);
}

/// Writes a file.
pub struct AvroFile {
    file: Vec<u8>,
    marker: [u8; MARKER_BYTES],
    block: Vec<u8>,
    records: usize,
}

impl AvroFile {
    /// A file of records of this schema, with these entries of metadata.
    pub fn new(schema: &str, metadata: &[(&str, String)]) -> AvroFile {
        let mut file = header(schema, "deflate", metadata);
        let mut marker = [0; MARKER_BYTES];
        marker.copy_from_slice(&blake3::hash(&file).as_bytes()[..MARKER_BYTES]);
        file.extend_from_slice(&marker);
        AvroFile { file, marker, block: Vec::new(), records: 0 }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// `LimitExceeded` above 256 MiB.
    pub fn push(&mut self, record: &Value) -> Result<()> {
        record.encode(&mut self.block);
        self.records += 1;
        if self.block.len() < BLOCK_BYTES {
            return Ok(());
        }
        self.write_block();
        match self.file.len() > FILE_BYTES_MAX {
            true => {
                let message = "the metadata of the table are too large for a file";
                Err(Error::new(ErrorKind::LimitExceeded, message).with("len_bytes_max", FILE_BYTES_MAX))
            }
            false => Ok(()),
        }
    }

    /// The file's bytes.
    pub fn finish(mut self) -> Bytes {
        if self.records > 0 {
            self.write_block();
        }
        self.file.into()
    }

    fn write_block(&mut self) {
        encode_len(self.records, &mut self.file);
        encode_bytes(&compress_to_vec(&self.block, COMPRESSION_LEVEL), &mut self.file);
        self.file.extend_from_slice(&self.marker);
        self.block.clear();
        self.records = 0;
    }
}

/// The beginning of a file, without the marker.
fn header(schema: &str, codec: &str, metadata: &[(&str, String)]) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    let own = metadata.iter().map(|(key, value)| (*key, value.as_str()));
    encode_len(2 + metadata.len(), &mut header);
    for (key, value) in [("avro.schema", schema), ("avro.codec", codec)].into_iter().chain(own) {
        encode_bytes(key.as_bytes(), &mut header);
        encode_bytes(value.as_bytes(), &mut header);
    }
    encode_number(0, &mut header);
    header
}

/// Reads the records of a file that a client wrote, with the fields of `schema`.
///
/// # Errors
/// `InvalidArgument` for a file that is not valid, lacks a field, has another codec than deflate, or
/// expands to more than 64 MiB.
pub fn read(file: &[u8], schema: &str) -> Result<Vec<RecordBatch>> {
    let (plain, written) = expand(file)?;
    let mut schema: serde_json::Value = serde_json::from_str(schema)
        .map_err(|error| Error::new(ErrorKind::Internal, "a schema is not valid").with_source(error))?;
    let written = serde_json::from_str(&written)
        .map_err(|error| invalid("the schema of an Avro file is not valid").with_source(error))?;
    take_names(&mut schema, &written);
    let read = || -> std::result::Result<Vec<RecordBatch>, ArrowError> {
        let schema = AvroSchema::new(schema.to_string());
        ReaderBuilder::new().with_reader_schema(schema).build(Cursor::new(plain))?.collect()
    };
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(batches) => batches.map_err(|error| invalid("an Avro file cannot be read").with_source(error)),
        Err(_) => Err(invalid("an Avro file is damaged")),
    }
}

/// Gives the records of a schema the names that they have in a file. Writers of Iceberg use different
/// ones, and Avro compares them.
fn take_names(schema: &mut serde_json::Value, written: &serde_json::Value) {
    for name in ["name", "namespace"] {
        if let (Some(schema), Some(value)) = (schema.as_object_mut(), written.get(name)) {
            schema.insert(name.to_owned(), value.clone());
        }
    }
    let named = written["fields"].as_array().map_or(&[][..], Vec::as_slice);
    for field in
        schema["fields"].as_array_mut().into_iter().flatten().filter(|field| field["type"].is_object())
    {
        if let Some(named) = named.iter().find(|named| named["name"] == field["name"]) {
            take_names(&mut field["type"], &named["type"]);
        }
    }
}

/// The same file without compression, and its schema. Libraries do not limit what a block expands to.
fn expand(file: &[u8]) -> Result<(Vec<u8>, String)> {
    let mut rest = file;
    let rest = &mut rest;
    if take(rest, MAGIC.len())? != MAGIC {
        return Err(invalid("a file is not an Avro file"));
    }
    let (mut schema, mut codec) = (None, &b"null"[..]);
    loop {
        let entries = read_number(rest)?;
        if entries == 0 {
            break;
        }
        if entries < 0 {
            // The size of the entries in bytes follows.
            read_number(rest)?;
        }
        for _ in 0..entries.unsigned_abs() {
            match (read_bytes(rest)?, read_bytes(rest)?) {
                (b"avro.schema", value) => schema = std::str::from_utf8(value).ok(),
                (b"avro.codec", value) => codec = value,
                _ => {}
            }
        }
    }
    let schema = schema.ok_or_else(|| invalid("an Avro file has no schema"))?;
    let marker = take(rest, MARKER_BYTES)?;
    let mut plain = header(schema, "null", &[]);
    plain.extend_from_slice(marker);
    while !rest.is_empty() {
        let records = read_number(rest)?;
        let block = read_bytes(rest)?;
        let left = READ_BYTES_MAX.saturating_sub(plain.len());
        let block = match codec {
            b"null" if block.len() <= left => block.to_vec(),
            b"deflate" => decompress_to_vec_with_limit(block, left)
                .map_err(|_| invalid("a block of an Avro file is damaged, or the file expands too far"))?,
            b"null" => return Err(invalid("an Avro file is too large")),
            _ => {
                let message =
                    "an Avro file has another codec than deflate; set write.avro.compression-codec to gzip";
                return Err(invalid(message));
            }
        };
        // Each record takes at least one byte.
        if usize::try_from(records).map_or(true, |records| records > block.len()) {
            return Err(invalid("a block of an Avro file has fewer records than it says"));
        }
        encode_number(records, &mut plain);
        encode_bytes(&block, &mut plain);
        if take(rest, MARKER_BYTES)? != marker {
            return Err(invalid("an Avro file is damaged"));
        }
        plain.extend_from_slice(marker);
    }
    Ok((plain, schema.to_owned()))
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

fn take<'f>(rest: &mut &'f [u8], len: usize) -> Result<&'f [u8]> {
    let (taken, left) = rest.split_at_checked(len).ok_or_else(|| invalid("an Avro file ends early"))?;
    *rest = left;
    Ok(taken)
}

fn read_bytes<'f>(rest: &mut &'f [u8]) -> Result<&'f [u8]> {
    let len =
        usize::try_from(read_number(rest)?).map_err(|_| invalid("an Avro file has a negative length"))?;
    take(rest, len)
}

fn read_number(rest: &mut &[u8]) -> Result<i64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    Err(invalid("a number in an Avro file is too long"))
}

#[cfg(test)]
#[path = "avro_tests.rs"]
mod tests;
