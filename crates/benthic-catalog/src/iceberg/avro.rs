//! Avro files (Avro specification, "Object Container Files").
//!
//! The bytes of the files that we write depend on their content only. They are computed for each
//! request, and a client may read parts of one file from several servers. Libraries draw a random
//! marker for each file. A file that a client wrote may be damaged on purpose.

use benthic_core::{Error, Result};
use bytes::Bytes;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use std::borrow::Cow;
use std::sync::Arc;

/// Limit of the size of a file that we write.
const FILE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Limit of the expanded size of a client's file.
const READ_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Limit of the values in a client's file. A value can take no byte, such as null, but takes time.
const READ_VALUES_MAX: usize = 64 * 1024 * 1024;
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
                Err(Error::limit_exceeded(message).with("len_bytes_max", FILE_BYTES_MAX))
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

/// A record that a client wrote: its fields by name. Nulls, arrays and maps are left out.
pub struct Record(Vec<(Arc<str>, Field)>);

enum Field {
    Skipped,
    Number(i64),
    Bytes(Vec<u8>),
    Record(Record),
}

impl Record {
    fn get(&self, name: &str) -> Option<&Field> {
        self.0.iter().find(|(field, _)| &**field == name).map(|(_, value)| value)
    }

    /// # Errors
    /// `InvalidArgument` if there is no such field, or it is not text.
    pub fn text(&self, name: &'static str) -> Result<&str> {
        match self.get(name) {
            Some(Field::Bytes(bytes)) => std::str::from_utf8(bytes).map_err(|_| missing_field(name)),
            _ => Err(missing_field(name)),
        }
    }

    /// A number; `None` if it is null or missing.
    ///
    /// # Errors
    /// `InvalidArgument` if the field is not a number.
    pub fn number(&self, name: &'static str) -> Result<Option<i64>> {
        match self.get(name) {
            Some(Field::Number(number)) => Ok(Some(*number)),
            Some(Field::Skipped) | None => Ok(None),
            Some(_) => Err(missing_field(name)),
        }
    }

    /// # Errors
    /// `InvalidArgument` if there is no such field, or it is not a record.
    pub fn record(&self, name: &'static str) -> Result<&Record> {
        if let Some(Field::Record(record)) = self.get(name) { Ok(record) } else { Err(missing_field(name)) }
    }
}

fn missing_field(field: &'static str) -> Error {
    invalid("a manifest lacks a field, or has one of another type").with("field", field)
}

/// Calls `each` for the records of a file that a client wrote, one after the other: records take
/// much more memory than their bytes. Time and memory are bounded; the libraries that we tried
/// never return for some damaged files, or do not limit the expanded size of a block.
///
/// # Errors
/// `InvalidArgument` for a file that is not valid, has another codec than deflate, or expands to
/// more than 64 MiB or 64 million values; errors of `each`.
pub fn read(file: &[u8], mut each: impl FnMut(Record) -> Result<()>) -> Result<()> {
    let mut rest = file;
    let rest = &mut rest;
    if take(rest, MAGIC.len())? != MAGIC {
        return Err(invalid("a file is not an Avro file"));
    }
    let (mut schema, mut codec) = (None, &b"null"[..]);
    loop {
        let entries = read_count(rest)?;
        if entries == 0 {
            break;
        }
        for _ in 0..entries {
            match (read_bytes(rest)?, read_bytes(rest)?) {
                (b"avro.schema", value) => schema = serde_json::from_slice(value).ok(),
                (b"avro.codec", value) => codec = value,
                _ => {}
            }
        }
    }
    let schema = Type::parse(&schema.ok_or_else(|| invalid("an Avro file has no schema"))?)?;
    let marker = take(rest, MARKER_BYTES)?;
    let (mut expanded, mut values) = (0, READ_VALUES_MAX);
    while !rest.is_empty() {
        let count = read_number(rest)?;
        let block = read_bytes(rest)?;
        let left = READ_BYTES_MAX - expanded;
        let block = match codec {
            b"null" if block.len() <= left => Cow::Borrowed(block),
            b"deflate" => decompress_to_vec_with_limit(block, left)
                .map(Cow::Owned)
                .map_err(|_| invalid("a block of an Avro file is damaged, or the file expands too far"))?,
            b"null" => return Err(invalid("an Avro file is too large")),
            _ => {
                let message =
                    "an Avro file has another codec than deflate; set write.avro.compression-codec to gzip";
                return Err(invalid(message));
            }
        };
        expanded += block.len();
        // Each record takes at least one byte.
        if usize::try_from(count).map_or(true, |count| count > block.len()) {
            return Err(invalid("a block of an Avro file has fewer records than it says"));
        }
        let mut block = Block { rest: &block, values_left: values };
        for _ in 0..count {
            match schema.read(&mut block)? {
                Field::Record(record) => each(record)?,
                _ => return Err(invalid("an Avro file has no records")),
            }
        }
        values = block.values_left;
        if !block.rest.is_empty() || take(rest, MARKER_BYTES)? != marker {
            return Err(invalid("an Avro file is damaged"));
        }
    }
    Ok(())
}

/// The unread part of a block.
struct Block<'b> {
    rest: &'b [u8],
    /// How many more values the file may have.
    values_left: usize,
}

/// A type of a schema, without the parts that only matter to readers.
enum Type {
    Null,
    /// A type of this many bytes: `boolean`, `float`, `double` or `fixed`.
    Fixed(usize),
    /// `int`, `long` or `enum`.
    Number,
    /// `bytes` or `string`.
    Bytes,
    Array(Box<Type>),
    Map(Box<Type>),
    Union(Vec<Type>),
    Record(Vec<(Arc<str>, Type)>),
}

impl Type {
    /// Parses a schema. The JSON parser limits its depth. A type cannot refer to another one by
    /// name, so no type contains itself.
    fn parse(schema: &serde_json::Value) -> Result<Type> {
        let unknown = || invalid("the schema of an Avro file has an unknown type");
        let list = |name: &str| schema[name].as_array().ok_or_else(unknown);
        if let Some(variants) = schema.as_array() {
            return Ok(Type::Union(variants.iter().map(Type::parse).collect::<Result<_>>()?));
        }
        Ok(match schema.as_str().or_else(|| schema["type"].as_str()) {
            Some("null") => Type::Null,
            Some("boolean") => Type::Fixed(1),
            Some("float") => Type::Fixed(4),
            Some("double") => Type::Fixed(8),
            Some("int" | "long" | "enum") => Type::Number,
            Some("bytes" | "string") => Type::Bytes,
            Some("fixed") => {
                let size = schema["size"].as_u64().and_then(|size| usize::try_from(size).ok());
                Type::Fixed(size.ok_or_else(unknown)?)
            }
            Some("array") => Type::Array(Box::new(Type::parse(&schema["items"])?)),
            Some("map") => Type::Map(Box::new(Type::parse(&schema["values"])?)),
            Some("record") => {
                let field = |field: &serde_json::Value| {
                    Ok((field["name"].as_str().ok_or_else(unknown)?.into(), Type::parse(&field["type"])?))
                };
                Type::Record(list("fields")?.iter().map(field).collect::<Result<_>>()?)
            }
            None if schema["type"].is_object() || schema["type"].is_array() => Type::parse(&schema["type"])?,
            _ => return Err(unknown()),
        })
    }

    fn read(&self, block: &mut Block<'_>) -> Result<Field> {
        let left = block.values_left.checked_sub(1);
        block.values_left = left.ok_or_else(|| invalid("an Avro file has too many values"))?;
        let rest = &mut block.rest;
        Ok(match self {
            Type::Null => Field::Skipped,
            Type::Fixed(size) => take(rest, *size).map(|_| Field::Skipped)?,
            Type::Number => Field::Number(read_number(rest)?),
            Type::Bytes => Field::Bytes(read_bytes(rest)?.to_vec()),
            Type::Union(variants) => {
                let variant = usize::try_from(read_number(rest)?).ok().and_then(|place| variants.get(place));
                variant.ok_or_else(|| invalid("an Avro record is damaged"))?.read(block)?
            }
            Type::Record(fields) => {
                let mut record = Vec::new();
                for (name, data_type) in fields {
                    match data_type.read(block)? {
                        Field::Skipped => {}
                        field => record.push((Arc::clone(name), field)),
                    }
                }
                Field::Record(Record(record))
            }
            Type::Array(items) => Type::skip(block, |block| items.read(block).map(drop))?,
            Type::Map(values) => Type::skip(block, |block| {
                read_bytes(&mut block.rest)?;
                values.read(block).map(drop)
            })?,
        })
    }

    /// Skips the blocks of an array or a map. Each item must take a byte, so that few bytes cannot
    /// stand for many items.
    fn skip(block: &mut Block<'_>, mut item: impl FnMut(&mut Block<'_>) -> Result<()>) -> Result<Field> {
        loop {
            let count = read_count(&mut block.rest)?;
            if count == 0 {
                return Ok(Field::Skipped);
            }
            if count > block.rest.len() as u64 {
                return Err(invalid("an Avro record is damaged"));
            }
            (0..count).try_for_each(|_| item(block))?;
        }
    }
}

/// The number of items in a block of an array or a map. If it is negative, the size of the items in
/// bytes follows.
fn read_count(rest: &mut &[u8]) -> Result<u64> {
    let count = read_number(rest)?;
    if count < 0 {
        read_number(rest)?;
    }
    Ok(count.unsigned_abs())
}

fn invalid(message: &str) -> Error {
    Error::invalid_argument(message)
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
