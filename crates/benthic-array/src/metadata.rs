//! Metadata documents of Zarr: `zarr.json` of version 3, `.zarray` and `.zattrs` of version 2.
//!
//! Source: the Zarr core specifications, versions 2 and 3.1.

use crate::codec::{BytesCodec, CODECS_MAX, Codecs, Pipeline};
use crate::dtype::Dtype;
use crate::format::{Encoding, ObjectFormat, ShardIndexFormat};
use crate::json::{parse_element, parse_with_nan};
use crate::references::{REFERENCES_FIELD, References, references_of};
use crate::selection::{AXES_MAX, Bounded};
use benthic_core::{Error, ErrorKind, Result};
use bytes::Bytes;
use serde_json::{Map, Value};
use std::cmp::Reverse;

/// Limit on the size of a metadata document.
pub const METADATA_BYTES_MAX: u64 = 16 << 20;
/// The codec of a field of a GRIB file.
pub const GRIB_CODEC: &str = "benthic_grib";
/// The object that reserves a place while arrays are made there. It has a random token.
pub const CREATION_MARKER: &str = ".benthic-create";
/// Limit on the length of an array along an axis.
const LEN_MAX: u64 = 1 << 62;

/// The objects with metadata of an array or group. The first three make an array or group.
pub const METADATA_KEYS: [&str; 5] = ["zarr.json", ".zarray", ".zgroup", ".zmetadata", ".zattrs"];
/// Number of the keys that make an array or group.
const NODE_KEYS: usize = 3;

/// Returns whether an object has metadata of an array or group.
pub fn is_metadata(name: &str) -> bool {
    METADATA_KEYS.contains(&leaf(name))
}

/// Returns whether an object makes an array or group.
pub fn is_node(name: &str) -> bool {
    METADATA_KEYS[..NODE_KEYS].contains(&leaf(name))
}

fn leaf(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The order in which metadata are written: the innermost first, and the document that makes an
/// array or group after its others.
pub fn writing_order(name: &str) -> impl Ord + use<> {
    (Reverse(name.matches('/').count()), is_node(name))
}

/// Attributes of an array or group.
pub type Attributes = Map<String, Value>;

/// The attribute in which version 2 has the names of the dimensions. xarray invented it.
const DIMENSIONS: &str = "_ARRAY_DIMENSIONS";

/// The metadata of an array.
#[derive(Clone, Debug)]
pub struct ArrayMetadata {
    /// The version of the format, 2 or 3.
    pub zarr_format: u8,
    pub shape: Vec<u64>,
    pub format: ObjectFormat,
    keys: KeyEncoding,
    pub attributes: Attributes,
    /// The document with the attributes as it is stored: `zarr.json` or `.zattrs`. Python's parser
    /// reads numbers from it that JSON lacks, such as NaN.
    pub document: Bytes,
    /// A name for each axis; `None` for an axis without a name.
    pub dimensions: Vec<Option<String>>,
    /// The codecs, for people.
    pub codecs: Vec<String>,
    /// The fill value of version 2. xarray takes it as the value of missing elements.
    pub v2_fill: Option<Bytes>,
    /// The file with the chunks, if they are not objects.
    pub references: Option<References>,
}

/// How the object names of chunks are formed from their positions.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyEncoding {
    /// Whether a key starts with `c`, as version 3 has it by default.
    has_prefix: bool,
    separator: char,
}

/// A node of a hierarchy.
#[derive(Clone, Debug)]
pub enum Node {
    Array(Box<ArrayMetadata>),
    Group(GroupMetadata),
}

/// The metadata of a group.
#[derive(Clone, Debug)]
pub struct GroupMetadata {
    pub zarr_format: u8,
    pub attributes: Attributes,
    /// As [`ArrayMetadata::document`].
    pub document: Bytes,
}

impl ArrayMetadata {
    /// Whether the same objects mean the same elements.
    pub fn has_same_layout(&self, other: &ArrayMetadata) -> bool {
        self.shape == other.shape
            && self.format == other.format
            && self.keys == other.keys
            && self.references == other.references
    }

    /// The object name of a chunk or shard, without the name of the array.
    pub fn chunk_key(&self, position: &[u64]) -> String {
        let separator = self.keys.separator.to_string();
        let numbers = position.iter().map(u64::to_string).collect::<Vec<_>>().join(&separator);
        match (self.keys.has_prefix, numbers.is_empty()) {
            (true, true) => "c".to_owned(),
            (true, false) => format!("c{separator}{numbers}"),
            (false, true) => "0".to_owned(),
            (false, false) => numbers,
        }
    }

    /// The position of the chunk with this key. `None` if no chunk of the array has the key.
    pub fn chunk_position(&self, key: &str) -> Option<Vec<u64>> {
        let numbers = match self.keys.has_prefix {
            true => key.strip_prefix('c')?.trim_start_matches(self.keys.separator),
            false => key,
        };
        let position: Vec<u64> = match self.shape.len() {
            0 => Vec::new(),
            _ => {
                numbers.split(self.keys.separator).map(|number| number.parse().ok()).collect::<Option<_>>()?
            }
        };
        let lens = self.shape.iter().zip(&self.format.shape.0);
        let is_in_grid = position.len() == self.shape.len()
            && position.iter().zip(lens).all(|(index, (len, chunk))| *index < len.div_ceil(*chunk));
        (is_in_grid && self.chunk_key(&position) == key).then_some(position)
    }
}

fn malformed(message: &str) -> Error {
    Error::corrupt(format!("the metadata are malformed: {message}"))
}

fn unsupported(what: &str, name: impl std::fmt::Display) -> Error {
    Error::unsupported(format!("this {what} is not supported; zarr-python may read it")).with("name", name)
}

fn object(document: &[u8]) -> Result<Map<String, Value>> {
    match parse_with_nan(document) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(malformed("not a JSON object")),
        Err(error) => Err(malformed("not JSON").with_source(error)),
    }
}

fn field<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a Value> {
    fields.get(name).ok_or_else(|| malformed(&format!("{name:?} is missing")))
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a str> {
    field(fields, name)?.as_str().ok_or_else(|| malformed(&format!("{name:?} is not text")))
}

fn lens(fields: &Map<String, Value>, name: &str, min: u64) -> Result<Vec<u64>> {
    let invalid = || malformed(&format!("{name:?} is not a list of lengths"));
    let items = field(fields, name)?.as_array().ok_or_else(invalid)?;
    if items.len() > AXES_MAX {
        return Err(Error::limit_exceeded("an array has too many axes").with("axes_max", AXES_MAX));
    }
    let len = |item: &Value| item.as_u64().filter(|len| (min..=LEN_MAX).contains(len)).ok_or_else(invalid);
    items.iter().map(len).collect()
}

fn attributes(value: Option<&Value>) -> Result<Attributes> {
    match value {
        None => Ok(Map::new()),
        Some(Value::Object(attributes)) => Ok(attributes.clone()),
        Some(_) => Err(malformed("the attributes are not an object")),
    }
}

/// A codec's or other extension's name and configuration. Version 3 allows a name alone.
fn extension(value: &Value) -> Result<(&str, &Map<String, Value>)> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    match value {
        Value::String(name) => Ok((name, &EMPTY)),
        Value::Object(fields) => {
            let configuration = match fields.get("configuration") {
                None => &EMPTY,
                Some(Value::Object(configuration)) => configuration,
                Some(_) => return Err(malformed("a configuration is not an object")),
            };
            Ok((text(fields, "name")?, configuration))
        }
        _ => Err(malformed("a codec or other extension is neither a name nor an object")),
    }
}

/// Parses `zarr.json`.
///
/// # Errors
/// `Corrupt` for a malformed document; `Unsupported` for a type, codec or extension that this
/// version lacks; `LimitExceeded` for a chunk that is too large.
pub fn parse_v3(document: &Bytes) -> Result<Node> {
    let fields = object(document)?;
    if field(&fields, "zarr_format")? != 3 {
        return Err(unsupported("zarr_format", &fields["zarr_format"]));
    }
    match text(&fields, "node_type")? {
        "group" => Ok(Node::Group(GroupMetadata {
            zarr_format: 3,
            attributes: attributes(fields.get("attributes"))?,
            document: document.clone(),
        })),
        "array" => array_v3(&fields, document).map(|array| Node::Array(Box::new(array))),
        other => Err(malformed(&format!("the node type {other:?} is unknown"))),
    }
}

const ARRAY_FIELDS_V3: [&str; 11] = [
    "zarr_format",
    "node_type",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "attributes",
    "storage_transformers",
    "dimension_names",
];

fn array_v3(fields: &Map<String, Value>, document: &Bytes) -> Result<ArrayMetadata> {
    for (name, value) in fields {
        let may_ignore = value.get("must_understand") == Some(&Value::Bool(false));
        let is_known = ARRAY_FIELDS_V3.contains(&&name[..]) || name == REFERENCES_FIELD;
        if !is_known && !may_ignore {
            return Err(unsupported("extension", name));
        }
    }
    let shape = lens(fields, "shape", 0)?;
    let (type_name, _) = extension(field(fields, "data_type")?)?;
    let dtype = Dtype::from_name(type_name).ok_or_else(|| unsupported("data type", type_name))?;
    let (grid, grid_fields) = extension(field(fields, "chunk_grid")?)?;
    if grid != "regular" {
        return Err(unsupported("chunk grid", grid));
    }
    let chunk_shape = lens(grid_fields, "chunk_shape", 1)?;
    if chunk_shape.len() != shape.len() {
        return Err(malformed("the chunk shape and the array shape have different numbers of axes"));
    }
    let (key_name, key_fields) = extension(field(fields, "chunk_key_encoding")?)?;
    let (has_prefix, usual) = match key_name {
        "default" => (true, "/"),
        "v2" => (false, "."),
        other => return Err(unsupported("chunk key encoding", other)),
    };
    let separator = key_fields.get("separator").map_or(Ok(usual), |_| text(key_fields, "separator"))?;
    let keys = KeyEncoding { has_prefix, separator: parse_separator(separator)? };
    if fields
        .get("storage_transformers")
        .is_some_and(|value| value.as_array().is_none_or(|all| !all.is_empty()))
    {
        return Err(unsupported("extension", "storage_transformers"));
    }
    let codecs = field(fields, "codecs")?.as_array().ok_or_else(|| malformed("\"codecs\" is not a list"))?;
    let encoding = encoding_v3(codecs, &chunk_shape)?;
    let references = references_of(fields)?;
    if references.is_some() && matches!(encoding, Encoding::Shard { .. }) {
        return Err(unsupported("codec", "sharding_indexed in a file"));
    }
    let format = ObjectFormat {
        dtype,
        fill: fill_value(dtype, field(fields, "fill_value")?)?,
        shape: Bounded(chunk_shape),
        encoding,
    };
    check(&format)?;
    let dimensions = match fields.get("dimension_names") {
        None | Some(Value::Null) => vec![None; shape.len()],
        Some(names) => dimension_names(names, shape.len())?,
    };
    let mut described = names_of(codecs)?;
    if let Some(inner) =
        codecs.first().map(extension).transpose()?.and_then(|(_, fields)| fields.get("codecs"))
    {
        described.extend(names_of(inner.as_array().map_or(&[], Vec::as_slice))?);
    }
    Ok(ArrayMetadata {
        zarr_format: 3,
        shape,
        format,
        keys,
        attributes: attributes(fields.get("attributes"))?,
        document: document.clone(),
        dimensions,
        codecs: described,
        v2_fill: None,
        references,
    })
}

/// The names of codecs, without the one that only says the byte order.
fn names_of(codecs: &[Value]) -> Result<Vec<String>> {
    let names = codecs.iter().map(|codec| extension(codec).map(|(name, _)| name.to_owned()));
    Ok(names.collect::<Result<Vec<_>>>()?.into_iter().filter(|name| name != "bytes").collect())
}

/// Reports an invalid format as `Corrupt`, because it comes from stored metadata.
fn check(format: &ObjectFormat) -> Result<()> {
    format.check().map_err(|error| match error.kind() {
        ErrorKind::InvalidArgument => malformed(error.message()),
        _ => error,
    })
}

fn parse_separator(text: &str) -> Result<char> {
    match text {
        "/" => Ok('/'),
        "." => Ok('.'),
        _ => Err(malformed("the separator of chunk keys is neither / nor .")),
    }
}

fn dimension_names(names: &Value, axes: usize) -> Result<Vec<Option<String>>> {
    let name = |name: &Value| match name {
        Value::Null => Ok(None),
        Value::String(name) => Ok(Some(name.clone())),
        _ => Err(malformed("a dimension's name is not text")),
    };
    let names = names.as_array().ok_or_else(|| malformed("the dimensions' names are not a list"))?;
    if names.len() != axes {
        return Err(malformed("the dimensions' names do not fit the shape"));
    }
    names.iter().map(name).collect()
}

fn encoding_v3(codecs: &[Value], shape: &[u64]) -> Result<Encoding> {
    let first = codecs.first().ok_or_else(|| malformed("there is no codec"))?;
    let (name, fields) = extension(first)?;
    if name != "sharding_indexed" {
        return Ok(Encoding::Chunk { pipeline: pipeline_v3(codecs, shape.len())? });
    }
    if codecs.len() > 1 {
        return Err(unsupported("codec", "sharding_indexed with a codec after it"));
    }
    let list = |name: &str| {
        field(fields, name)?.as_array().ok_or_else(|| malformed("the codecs of a shard are not a list"))
    };
    let inner = list("codecs")?;
    if inner.iter().any(|codec| extension(codec).is_ok_and(|(name, _)| name == "sharding_indexed")) {
        return Err(unsupported("codec", "sharding_indexed in a shard"));
    }
    let mut index = ShardIndexFormat {
        is_at_start: match fields.get("index_location") {
            None => false,
            Some(_) => match text(fields, "index_location")? {
                "start" => true,
                "end" => false,
                _ => return Err(malformed("the index of a shard is neither at its start nor at its end")),
            },
        },
        is_big_endian: false,
        has_checksum: false,
    };
    for codec in list("index_codecs")? {
        match extension(codec)? {
            ("bytes", fields) => index.is_big_endian = is_big_endian(fields)?,
            ("crc32c", _) if !index.has_checksum => index.has_checksum = true,
            (other, _) => return Err(unsupported("codec", format!("{other} in the index of a shard"))),
        }
    }
    let inner_shape = lens(fields, "chunk_shape", 1)?;
    let pipeline = pipeline_v3(inner, shape.len())?;
    Ok(Encoding::Shard { inner_shape: Bounded(inner_shape), pipeline, index })
}

fn is_big_endian(fields: &Map<String, Value>) -> Result<bool> {
    match fields.get("endian") {
        None => Ok(false),
        Some(endian) if endian == "little" => Ok(false),
        Some(endian) if endian == "big" => Ok(true),
        Some(_) => Err(malformed("the byte order is neither little nor big")),
    }
}

fn pipeline_v3(codecs: &[Value], axes: usize) -> Result<Pipeline> {
    let mut pipeline = Pipeline::default();
    let mut has_bytes = false;
    for codec in codecs {
        let (name, fields) = extension(codec)?;
        let decoder = match (name, has_bytes) {
            ("transpose", false) => {
                transpose(&mut pipeline, fields, axes)?;
                continue;
            }
            ("bytes", false) => {
                has_bytes = true;
                pipeline.is_big_endian = is_big_endian(fields)?;
                continue;
            }
            ("transpose" | "bytes", true) => return Err(malformed("the codecs are in an invalid order")),
            ("blosc", _) => BytesCodec::Blosc {},
            ("gzip", _) => BytesCodec::Gzip {},
            ("zstd" | "numcodecs.zstd", _) => BytesCodec::Zstd {},
            ("crc32c", _) => crc32c(fields)?,
            ("numcodecs.zlib", _) => BytesCodec::Zlib {},
            ("numcodecs.lz4", _) => BytesCodec::Lz4 {},
            ("numcodecs.shuffle", _) => shuffle(fields)?,
            ("numcodecs.fletcher32", _) => BytesCodec::Fletcher32 {},
            (GRIB_CODEC, _) => grib(fields)?,
            (other, _) => return Err(unsupported("codec", other)),
        };
        if !has_bytes {
            return Err(malformed("the codecs are in an invalid order"));
        }
        pipeline.bytes.0.push(decoder);
    }
    if !has_bytes {
        return Err(malformed("the codec \"bytes\" is missing"));
    }
    limit(&pipeline.bytes)?;
    Ok(pipeline)
}

fn limit(codecs: &Codecs) -> Result<()> {
    match codecs.0.len() {
        0..=CODECS_MAX => Ok(()),
        _ => Err(Error::limit_exceeded("a chunk has too many codecs").with("codecs_max", CODECS_MAX)),
    }
}

fn transpose(pipeline: &mut Pipeline, fields: &Map<String, Value>, axes: usize) -> Result<()> {
    let order = lens(fields, "order", 0)?;
    if !pipeline.order.0.is_empty() {
        return Err(unsupported("codec", "a second transpose"));
    }
    let axis = |axis: &u64| u8::try_from(*axis).map_err(|_| malformed("a transposition names no axis"));
    pipeline.order.0 = order.iter().map(axis).collect::<Result<_>>()?;
    pipeline.check(axes).map_err(|error| malformed(error.message()))
}

fn crc32c(fields: &Map<String, Value>) -> Result<BytesCodec> {
    match fields.get("location").and_then(Value::as_str) {
        Some("start") => Err(unsupported("codec", "crc32c at the start")),
        _ => Ok(BytesCodec::Crc32c {}),
    }
}

fn shuffle(fields: &Map<String, Value>) -> Result<BytesCodec> {
    let element_bytes = match fields.get("elementsize") {
        // The default of numcodecs.
        None => Some(4),
        Some(size) => size.as_u64().and_then(|size| u32::try_from(size).ok()),
    };
    let element_bytes =
        element_bytes.ok_or_else(|| malformed("the element size of a shuffle is no number"))?;
    Ok(BytesCodec::Shuffle { element_bytes })
}

fn grib(fields: &Map<String, Value>) -> Result<BytesCodec> {
    let number = |name: &str| {
        let number = field(fields, name)?.as_u64().and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| malformed(&format!("{name:?} of a GRIB field is no number")))
    };
    Ok(BytesCodec::Grib { element_bytes: number("elementsize")?, row_elements: number("alternating")? })
}

/// Parses `.zarray`, and `.zattrs` if the array has attributes.
///
/// # Errors
/// As [`parse_v3`].
pub fn parse_v2(document: &[u8], attributes_document: Option<&Bytes>) -> Result<ArrayMetadata> {
    let fields = object(document)?;
    if field(&fields, "zarr_format")? != 2 {
        return Err(unsupported("zarr_format", &fields["zarr_format"]));
    }
    let shape = lens(&fields, "shape", 0)?;
    let chunk_shape = lens(&fields, "chunks", 1)?;
    if chunk_shape.len() != shape.len() {
        return Err(malformed("the chunk shape and the array shape have different numbers of axes"));
    }
    let type_string = field(&fields, "dtype")?;
    let parsed = type_string.as_str().and_then(Dtype::from_type_string);
    let (dtype, is_big_endian) = parsed.ok_or_else(|| unsupported("data type", type_string))?;
    let order = match text(&fields, "order")? {
        "C" => Vec::new(),
        "F" => (0..shape.len() as u8).rev().collect(),
        _ => return Err(malformed("the order is neither C nor F")),
    };
    let mut codecs = Codecs::default();
    let mut described = Vec::new();
    if !order.is_empty() {
        described.push("order F".to_owned());
    }
    let filters = match fields.get("filters") {
        None | Some(Value::Null) => &[],
        Some(Value::Array(filters)) => &filters[..],
        Some(_) => return Err(malformed("the filters are not a list")),
    };
    let compressor = fields.get("compressor").filter(|compressor| !compressor.is_null());
    for codec in filters.iter().chain(compressor) {
        let fields = codec.as_object().ok_or_else(|| malformed("a codec is not an object"))?;
        let id = text(fields, "id")?;
        codecs.0.push(match id {
            "blosc" => BytesCodec::Blosc {},
            "gzip" => BytesCodec::Gzip {},
            "zlib" => BytesCodec::Zlib {},
            "zstd" => BytesCodec::Zstd {},
            "lz4" => BytesCodec::Lz4 {},
            "shuffle" => shuffle(fields)?,
            "crc32c" => crc32c(fields)?,
            "fletcher32" => BytesCodec::Fletcher32 {},
            other => return Err(unsupported("codec", other)),
        });
        described.push(id.to_owned());
    }
    let v2_fill = match field(&fields, "fill_value")? {
        Value::Null => None,
        value => Some(fill_value(dtype, value)?),
    };
    limit(&codecs)?;
    let pipeline = Pipeline { order: Bounded(order), is_big_endian, bytes: codecs };
    let format = ObjectFormat {
        dtype,
        fill: v2_fill.clone().unwrap_or_else(|| Bytes::from(vec![0; dtype.size_bytes()])),
        shape: Bounded(chunk_shape),
        encoding: Encoding::Chunk { pipeline },
    };
    check(&format)?;
    let separator = match fields.get("dimension_separator") {
        None | Some(Value::Null) => ".",
        Some(_) => text(&fields, "dimension_separator")?,
    };
    let keys = KeyEncoding { has_prefix: false, separator: parse_separator(separator)? };
    let mut attributes = attributes_document.map_or_else(|| Ok(Map::new()), |document| object(document))?;
    let dimensions = match attributes.remove(DIMENSIONS) {
        None => vec![None; shape.len()],
        Some(names) => dimension_names(&names, shape.len())?,
    };
    Ok(ArrayMetadata {
        zarr_format: 2,
        shape,
        format,
        keys,
        attributes,
        document: attributes_document.cloned().unwrap_or_default(),
        dimensions,
        codecs: described,
        v2_fill,
        references: None,
    })
}

/// Parses `.zgroup`, and `.zattrs` if the group has attributes.
///
/// # Errors
/// As [`parse_v3`].
pub fn parse_v2_group(document: &[u8], attributes_document: Option<&Bytes>) -> Result<GroupMetadata> {
    let fields = object(document)?;
    if field(&fields, "zarr_format")? != 2 {
        return Err(unsupported("zarr_format", &fields["zarr_format"]));
    }
    Ok(GroupMetadata {
        zarr_format: 2,
        attributes: attributes_document.map_or_else(|| Ok(Map::new()), |document| object(document))?,
        document: attributes_document.cloned().unwrap_or_default(),
    })
}

fn fill_value(dtype: Dtype, value: &Value) -> Result<Bytes> {
    let invalid = || malformed(&format!("{value} is no fill value of the type {dtype}"));
    parse_element(dtype, value).ok_or_else(invalid)
}

#[cfg(test)]
#[path = "metadata_tests.rs"]
mod tests;
