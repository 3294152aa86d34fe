//! Making arrays and groups, in Zarr's format version 3.
//!
//! [`Creation`](crate::Creation) has the order of the writes.

use crate::array::Place;
use crate::block::Block;
use crate::codec::{Compressor, decoded_bytes};
use crate::dtype::{Dtype, NumberKind};
use crate::gather;
use crate::json::{element_json, parse_element};
use crate::metadata::{ArrayMetadata, METADATA_BYTES_MAX, Node, parse_v3};
use crate::references::{REFERENCES_FIELD, References};
use crate::runner::blocking;
use crate::selection::{Slice, TouchedChunks, strides, within};
use crate::values::Values;
use benthic_core::{Error, Result, limits};
use bytes::Bytes;
use futures::{TryStreamExt, stream};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Approximate limit on the memory of the chunks in flight.
const IN_FLIGHT_BYTES_MAX: u64 = 128 << 20;
/// Limit on the chunks in flight.
const IN_FLIGHT_MAX: u64 = 16;
/// A chunk in flight exists decoded, shuffled and encoded.
const COPIES: u64 = 3;
/// Limit on the decoded size of a chunk. Encoded, it may be a little larger, and must fit into one
/// write.
const CHUNK_BYTES_MAX: u64 = limits::OPERATION_BYTES_MAX - (1 << 20);

/// The value of an attribute of a new array or group.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    Text(String),
    Integer(i64),
    Unsigned(u64),
    /// NaN and the infinities are written as Python writes them.
    Float(f64),
    List(Vec<AttributeValue>),
}

/// The attributes of a new array or group, by name.
pub type NewAttributes = Vec<(String, AttributeValue)>;

impl AttributeValue {
    fn write(&self, out: &mut String) {
        match self {
            AttributeValue::Text(text) => out.push_str(&json!(text).to_string()),
            AttributeValue::Integer(number) => out.push_str(&number.to_string()),
            AttributeValue::Unsigned(number) => out.push_str(&number.to_string()),
            AttributeValue::Float(number) if number.is_finite() => out.push_str(&json!(number).to_string()),
            AttributeValue::Float(number) if number.is_nan() => out.push_str("NaN"),
            AttributeValue::Float(number) => {
                out.push_str(if *number > 0.0 { "Infinity" } else { "-Infinity" });
            }
            AttributeValue::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    item.write(out);
                }
                out.push(']');
            }
        }
    }
}

/// A document with attributes. `serde_json` writes the other fields; it cannot write a NaN.
fn document(fields: &Value, attributes: &NewAttributes) -> Result<Bytes> {
    let mut text = fields.to_string();
    text.truncate(text.len() - 1);
    text.push_str(",\"attributes\":{");
    for (index, (name, value)) in attributes.iter().enumerate() {
        text.push_str(if index > 0 { "," } else { "" });
        text.push_str(&json!(name).to_string());
        text.push(':');
        value.write(&mut text);
    }
    text.push_str("}}");
    if text.len() as u64 > METADATA_BYTES_MAX {
        let message = "the attributes of an array or group are too large";
        return Err(Error::limit_exceeded(message).with("document_bytes_max", METADATA_BYTES_MAX));
    }
    Ok(text.into())
}

/// The metadata document of a group.
///
/// # Errors
/// `LimitExceeded` if the attributes are too large.
pub fn group_document(attributes: &NewAttributes) -> Result<Bytes> {
    document(&json!({ "zarr_format": 3, "node_type": "group" }), attributes)
}

/// An array that is to be made.
#[derive(Clone, Debug)]
pub struct NewArray {
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    pub chunk_shape: Vec<u64>,
    /// The element of chunks that are not stored, little-endian.
    pub fill: Bytes,
    /// A name for each axis; `None` for an axis without a name.
    pub dimensions: Vec<Option<String>>,
    pub attributes: NewAttributes,
    pub compressor: Compressor,
}

impl NewArray {
    /// The metadata document.
    ///
    /// # Errors
    /// `LimitExceeded` if the attributes are too large.
    pub fn document(&self) -> Result<Bytes> {
        document(&self.fields(false, self.compressor.metadata(self.dtype)), &self.attributes)
    }

    /// The metadata document of an array whose chunks are in a file. The codecs from bytes to bytes
    /// are those of the file, and the compressor is not used.
    ///
    /// # Errors
    /// `LimitExceeded` if the attributes are too large; those of parsing the document.
    pub fn document_in_file(
        &self,
        is_big_endian: bool,
        codecs: Vec<Value>,
        references: &References,
    ) -> Result<Bytes> {
        let mut fields = self.fields(is_big_endian, codecs);
        fields[REFERENCES_FIELD] = references.to_json();
        let document = document(&fields, &self.attributes)?;
        parse_v3(&document)?;
        Ok(document)
    }

    fn fields(&self, is_big_endian: bool, compression: impl IntoIterator<Item = Value>) -> Value {
        let endian = if is_big_endian { "big" } else { "little" };
        let mut codecs = vec![match self.dtype.size_bytes() {
            1 => json!({ "name": "bytes" }),
            _ => json!({ "name": "bytes", "configuration": { "endian": endian } }),
        }];
        codecs.extend(compression);
        let mut fields = json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": self.shape,
            "data_type": self.dtype.name(),
            "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": self.chunk_shape } },
            "chunk_key_encoding": { "name": "default", "configuration": { "separator": "/" } },
            "fill_value": fill_json(self.dtype, &self.fill),
            "codecs": codecs,
        });
        // xarray refuses a name that is null, and names the axes itself if there are no names.
        if self.dimensions.iter().any(Option::is_some) {
            fields["dimension_names"] = json!(self.dimensions);
        }
        fields
    }
}

/// A fill value as JSON. A float that a parser might change is written as its bits: a NaN that is
/// not the usual one, and a number that `serde_json`, which does not always round to the nearest,
/// reads as another one.
fn fill_json(dtype: Dtype, fill: &[u8]) -> Value {
    let value = element_json(dtype, fill);
    let parsed = serde_json::from_str(&value.to_string()).ok();
    match parsed.and_then(|value: Value| parse_element(dtype, &value)) {
        Some(element) if element == fill => value,
        _ => json!(fill.iter().rev().fold("0x".to_owned(), |bits, byte| bits + &format!("{byte:02x}"))),
    }
}

/// The attribute `_FillValue`, as xarray writes it in version 3: of floats, the base64 of a
/// float64.
pub fn fill_attribute(dtype: Dtype, element: &[u8]) -> AttributeValue {
    match (dtype.number_kind(), element_json(dtype, element)) {
        (NumberKind::Float, _) => {
            let number = match dtype {
                Dtype::Float32 => f64::from(f32::from_le_bytes(first_bytes(element))),
                _ => f64::from_le_bytes(first_bytes(element)),
            };
            AttributeValue::Text(base64_simd::STANDARD.encode_to_string(number.to_le_bytes()))
        }
        (NumberKind::Signed, value) => AttributeValue::Integer(value.as_i64().unwrap_or_default()),
        (NumberKind::Unsigned, Value::Bool(value)) => AttributeValue::Unsigned(value.into()),
        (NumberKind::Unsigned, value) => AttributeValue::Unsigned(value.as_u64().unwrap_or_default()),
    }
}

fn first_bytes<const N: usize>(element: &[u8]) -> [u8; N] {
    element.first_chunk().copied().unwrap_or([0; N])
}

/// Progress of writing arrays. Counters never decrease.
#[derive(Debug, Default)]
pub struct WriteStats {
    chunks: AtomicU64,
    stored_bytes: AtomicU64,
    done_bytes: AtomicU64,
}

impl WriteStats {
    /// Counts a stored chunk.
    pub fn add_stored(&self, stored_bytes: u64, decoded_bytes: u64) {
        self.chunks.fetch_add(1, Ordering::Relaxed);
        self.stored_bytes.fetch_add(stored_bytes, Ordering::Relaxed);
        self.done_bytes.fetch_add(decoded_bytes, Ordering::Relaxed);
    }

    /// Counts bytes that are done, but belong to no stored chunk.
    pub fn add_done(&self, done_bytes: u64) {
        self.done_bytes.fetch_add(done_bytes, Ordering::Relaxed);
    }

    /// Number of chunks that were stored. Chunks of fill values are not.
    pub fn chunks(&self) -> u64 {
        self.chunks.load(Ordering::Relaxed)
    }

    /// Size of the stored chunks, encoded.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes.load(Ordering::Relaxed)
    }

    /// Size of the elements that are done, decoded, including fill values.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed)
    }
}

/// Writes the chunks of a new array. [`Creation::finish`](crate::Creation::finish) writes its
/// metadata.
#[derive(Debug)]
pub struct ArrayWriter {
    place: Place,
    document: Bytes,
    metadata: Arc<ArrayMetadata>,
    compressor: Compressor,
    stats: Arc<WriteStats>,
}

impl ArrayWriter {
    /// Prepares the array. Stores nothing yet.
    ///
    /// # Errors
    /// `InvalidArgument` if the lengths are inconsistent; `LimitExceeded` if a chunk does not fit
    /// into one write, or the name of an object is too long.
    pub fn new(place: Place, array: &NewArray, stats: Arc<WriteStats>) -> Result<ArrayWriter> {
        let chunk_bytes = decoded_bytes(array.dtype, &array.chunk_shape)? as u64;
        if chunk_bytes > CHUNK_BYTES_MAX {
            let message = "a chunk is too large to be written at once; choose smaller chunks";
            return Err(Error::limit_exceeded(message)
                .with("array", &place.path)
                .with("chunk_bytes", chunk_bytes)
                .with("chunk_bytes_max", CHUNK_BYTES_MAX));
        }
        let document = array.document()?;
        let invalid = |error: Error| Error::invalid_argument(error.message()).with("array", &place.path);
        match parse_v3(&document).map_err(invalid)? {
            Node::Array(metadata) => {
                // No other name is longer than that of the last chunk.
                let counts = array.shape.iter().zip(&array.chunk_shape);
                let last: Vec<u64> = counts.map(|(len, chunk)| len.saturating_sub(1) / chunk).collect();
                place.object("zarr.json")?;
                place.object(&metadata.chunk_key(&last))?;
                let (metadata, compressor) = (Arc::new(*metadata), array.compressor);
                Ok(ArrayWriter { place, document, metadata, compressor, stats })
            }
            Node::Group(_) => Err(Error::internal("an array is not a group")),
        }
    }

    /// The metadata document.
    pub fn document(&self) -> &Bytes {
        &self.document
    }

    /// Stores the chunks in a box of elements, several at once. Each write is atomic and durable.
    /// The box consists of whole chunks, except at the end of an axis. A chunk that has only fill
    /// values is not stored.
    ///
    /// # Errors
    /// `InvalidArgument` if the box does not begin with a chunk or leaves the array; those of the
    /// pool.
    pub async fn write(&self, start: &[u64], values: Values) -> Result<()> {
        let (shape, chunk_shape) = (&self.metadata.shape, &self.metadata.format.shape.0);
        let fits = start.len() == shape.len()
            && values.shape.len() == shape.len()
            && values.dtype == self.metadata.format.dtype
            && values.data.len() == decoded_bytes(values.dtype, &values.shape)?
            && start.iter().zip(chunk_shape).all(|(start, chunk)| start.is_multiple_of(*chunk))
            && start.iter().zip(&values.shape).zip(shape.iter().zip(chunk_shape)).all(
                |((start, count), (len, chunk))| {
                    start + count == *len || (start + count < *len && count.is_multiple_of(*chunk))
                },
            );
        if !fits {
            return Err(Error::invalid_argument("the elements are not whole chunks"));
        }
        let slices: Vec<Slice> = start
            .iter()
            .zip(&values.shape)
            .map(|(start, count)| Slice { start: *start, step: 1, count: *count })
            .collect();
        let chunk_bytes = decoded_bytes(values.dtype, chunk_shape)? as u64;
        let at_once = (IN_FLIGHT_BYTES_MAX / (COPIES * chunk_bytes).max(1)).clamp(1, IN_FLIGHT_MAX);
        let strides = strides(&values.shape);
        let block = Arc::new(Block { dtype: values.dtype, data: values.data.into(), strides });
        stream::iter(TouchedChunks::new(&slices, chunk_shape).map(Ok))
            .try_for_each_concurrent(at_once as usize, |position| {
                let block = Arc::clone(&block);
                self.write_chunk(position, &slices, block)
            })
            .await
    }

    async fn write_chunk(&self, position: Vec<u64>, slices: &[Slice], block: Arc<Block>) -> Result<()> {
        let chunk_shape = self.metadata.format.shape.0.clone();
        let origin: Vec<u64> = position.iter().zip(&chunk_shape).map(|(index, len)| index * len).collect();
        // The elements of the chunk, as a selection of the box.
        let outside = || Error::internal("a chunk is not in the elements");
        let mut part = within(slices, &origin, &chunk_shape).ok_or_else(outside)?;
        for (slice, first) in part.slices.iter_mut().zip(&mut part.first) {
            (slice.start, *first) = (*first, slice.start);
        }
        let elements: u64 = part.slices.iter().map(|slice| slice.count).product();
        let size_bytes = elements * block.dtype.size_bytes() as u64;
        let (fill, compressor) = (self.metadata.format.fill.clone(), self.compressor);
        let encoded = blocking(move || {
            let dtype = block.dtype;
            let mut chunk = fill.repeat(decoded_bytes(dtype, &chunk_shape)? / fill.len());
            gather::copy(&block, &part, &chunk_shape, &mut chunk, &mut || Ok(()))?;
            let is_fill = chunk.chunks_exact(fill.len()).all(|element| element == fill);
            if is_fill { Ok(None) } else { compressor.encode(dtype, chunk).map(Some) }
        })
        .await?;
        if let Some(encoded) = encoded {
            let object = self.place.object(&self.metadata.chunk_key(&position))?;
            let encoded_bytes = encoded.len() as u64;
            let written = self.place.pool.write_full(&object, encoded).await;
            written.map_err(|error| error.with("object", &object))?;
            self.stats.add_stored(encoded_bytes, size_bytes);
        } else {
            self.stats.add_done(size_bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "create_tests.rs"]
mod tests;
