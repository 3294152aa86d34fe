//! Files that arrays are made from: their groups, arrays and attributes, in one model for all
//! formats.
//!
//! The crates `hdf5-reader` and `netcdf-reader` parse the files. They are written in Rust, need no
//! library of the system, and limit the memory that a damaged file makes them allocate. The crates
//! around libhdf5 support more filters, but need the library, and it runs one call at a time. GRIB
//! files are parsed here.

mod classic;
mod contiguous;
mod grib;
mod hdf5;
mod hdf5_chunks;

use benthic_array::decoders::ByteRange;
use benthic_array::{AttributeValue, Dtype, NewAttributes, NumberKind, fill_attribute};
use benthic_core::{Error, Result};
use benthic_program::local;
use bytes::Bytes;
use hdf5_reader::FileStorage;
use serde_json::Value;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::sync::Arc;

/// The name of the attribute for missing values.
const FILL_VALUE: &str = "_FillValue";
/// Limit on the variables that an error lists.
const VARIABLES_LISTED_MAX: usize = 10;
/// The beginning of a file in netCDF's classic formats.
const CLASSIC_MAGIC: &[u8] = b"CDF";
const HDF5_MAGIC: &[u8] = b"\x89HDF";
/// A GRIB file may begin with other bytes, such as the header of a bulletin. This many bytes are
/// searched for its first message.
const GRIB_START_MAX: u64 = 1 << 10;

/// A group of a file.
#[derive(Default)]
pub struct SourceGroup {
    pub attributes: NewAttributes,
    pub arrays: Vec<SourceArray>,
    pub groups: Vec<(String, SourceGroup)>,
}

/// An array of a file.
pub struct SourceArray {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    /// `None` if the file does not store the array in chunks.
    pub chunk_shape: Option<Vec<u64>>,
    /// The element of parts that the file does not store, little-endian.
    pub fill: Bytes,
    pub dimensions: Vec<Option<String>>,
    pub attributes: NewAttributes,
    pub elements: Arc<dyn ReadElements>,
}

/// Reads elements of one array.
pub trait ReadElements: Send + Sync {
    /// Reads a box of elements, in C order and little-endian. Blocks.
    fn read(&self, start: &[u64], counts: &[u64]) -> Result<Vec<u8>>;

    /// Where the file has the chunks; `None` if the elements are computed from the file. Blocks.
    ///
    /// # Errors
    /// `Unsupported` if an array cannot refer to them; those of the file.
    fn chunks(&self) -> Result<Option<FileChunks>>;
}

/// The chunks of an array in a file.
pub struct FileChunks {
    pub chunk_shape: Vec<u64>,
    /// Whether a chunk that exceeds the array is stored without the elements outside.
    pub is_clipped: bool,
    pub is_big_endian: bool,
    /// The codecs from bytes to bytes, as `zarr.json` has them.
    pub codecs: Vec<Value>,
    /// In C order. `None` stands for a chunk that is not stored.
    pub ranges: Vec<Option<ByteRange>>,
}

/// An error for an array that cannot refer to its chunks in the file.
fn not_in_chunks(reason: &str) -> Error {
    Error::unsupported(reason)
}

/// A part of a file that an array or group cannot have.
pub struct Skipped {
    /// An array, an attribute as `ARRAY@ATTRIBUTE`, or a file in a directory.
    pub path: String,
    pub reason: String,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "skipped {}: {}", self.path, self.reason)
    }
}

/// Opens a netCDF, HDF5 or GRIB file. Blocks.
///
/// # Errors
/// `Corrupt` for a damaged file, and for one in another format; `LimitExceeded` and `Unsupported`
/// for a GRIB file; those of the file system.
pub fn open(path: &Path) -> Result<(SourceGroup, Vec<Skipped>)> {
    let failed = local::failed("cannot read the file", path);
    let mut file = File::open(path).map_err(&failed)?;
    let mut magic = Vec::new();
    (&mut file).take(GRIB_START_MAX).read_to_end(&mut magic).map_err(&failed)?;
    file.rewind().map_err(&failed)?;
    let mut skipped = Vec::new();
    let is_grib = !magic.starts_with(CLASSIC_MAGIC)
        && !magic.starts_with(HDF5_MAGIC)
        && magic.windows(grib::MAGIC.len()).any(|window| window == grib::MAGIC);
    if is_grib {
        let root = grib::read(file, path, &mut skipped);
        return root.map(|root| (root, skipped)).map_err(|error| error.with("path", path.display()));
    }
    // A mapping into memory would end the program if the file became shorter.
    let storage =
        Arc::new(FileStorage::from_file(file).map_err(|error| unreadable("cannot read the file", error))?);
    let root = match magic.starts_with(CLASSIC_MAGIC) {
        true => classic::read(storage, &mut skipped),
        false => hdf5::read(storage, &mut skipped),
    };
    root.map(|root| (root, skipped)).map_err(|error| error.with("path", path.display()))
}

fn unreadable(message: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::corrupt(message).with_source(error)
}

impl SourceGroup {
    /// Returns whether an array here or below has this number of axes.
    pub fn has_array_with(&self, axes: usize) -> bool {
        self.arrays.iter().any(|array| array.shape.len() == axes)
            || self.groups.iter().any(|(_, group)| group.has_array_with(axes))
    }

    /// Adds the paths of all arrays here and below, in a group with this path.
    fn add_variables(&self, path: &str, variables: &mut Vec<String>) {
        variables.extend(self.arrays.iter().map(|array| join(path, &array.name)));
        self.groups.iter().for_each(|(name, group)| group.add_variables(&join(path, name), variables));
    }

    /// Keeps only the array with this path, and its coordinates, in one group: those of its
    /// dimensions, and those that the attribute `coordinates` names.
    ///
    /// # Errors
    /// `NotFound` if there is no such array; `Unsupported` if it was skipped.
    pub fn select(self, path: &str, skipped: &[Skipped]) -> Result<SourceGroup> {
        let path = path.trim_matches('/');
        let (groups, name) = path.rsplit_once('/').map_or(("", path), |(groups, name)| (groups, name));
        let mut variables = Vec::new();
        self.add_variables("", &mut variables);
        // The arrays of the outer groups, the innermost first: coordinates may be there.
        let mut visible = Vec::new();
        let mut group = self;
        for part in groups.split('/').filter(|part| !part.is_empty()) {
            let position = group.groups.iter().position(|(name, _)| name == part);
            let inner = position.map(|position| group.groups.swap_remove(position).1);
            visible.splice(0..0, group.arrays);
            group = inner.ok_or_else(|| no_such_variable(path, &variables, skipped))?;
        }
        visible.splice(0..0, group.arrays);
        let position = visible.iter().position(|array| array.name == name);
        let array = position.map(|position| visible.remove(position));
        let array = array.ok_or_else(|| no_such_variable(path, &variables, skipped))?;
        let mut arrays: Vec<SourceArray> = Vec::new();
        for (dimension, len) in array.dimensions.iter().zip(&array.shape) {
            let Some(dimension) = dimension else { continue };
            let is_taken = *dimension == array.name || arrays.iter().any(|taken| taken.name == *dimension);
            let is_coordinate = |found: &SourceArray| found.name == *dimension && found.shape == [*len];
            if let Some(position) = visible.iter().position(is_coordinate)
                && !is_taken
            {
                arrays.push(visible.remove(position));
            }
        }
        let named = array.attributes.iter().find(|(name, _)| name == "coordinates");
        if let Some((_, AttributeValue::Text(names))) = named {
            for name in names.split_whitespace().filter(|name| *name != array.name) {
                let position = visible.iter().position(|found| found.name == name);
                arrays.extend(position.map(|position| visible.remove(position)));
            }
        }
        arrays.push(array);
        Ok(SourceGroup { attributes: group.attributes, arrays, groups: Vec::new() })
    }
}

fn no_such_variable(path: &str, variables: &[String], skipped: &[Skipped]) -> Error {
    if let Some(skipped) = skipped.iter().find(|skipped| skipped.path == path) {
        let message = format!("this variable cannot become an array: {}", skipped.reason);
        return Error::unsupported(message).with("variable", path);
    }
    let inside = join(path, "");
    let message = match variables.iter().any(|variable| variable.starts_with(&inside)) {
        true => "this is a group of the file, not a variable; name a variable in it",
        false => "the file has no such variable",
    };
    let mut names = variables[..variables.len().min(VARIABLES_LISTED_MAX)].join(", ");
    if variables.len() > VARIABLES_LISTED_MAX {
        names += ", …";
    }
    Error::not_found(message).with("variable", path).with("variables", names)
}

/// Adds a child's name to the path of a group.
fn join(group: &str, name: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") }
}

/// Returns why an array or group cannot have this name; `None` if it can.
pub fn reserved_name(name: &str) -> Option<String> {
    let is_reserved = matches!(name, "" | "." | "..")
        || name.contains('/')
        || name.starts_with("__")
        || benthic_array::is_metadata(name);
    is_reserved.then(|| "Zarr does not allow this name".to_owned())
}

/// Elements as values of an attribute: one value, or a list.
fn attribute_values(dtype: Dtype, data: &[u8]) -> AttributeValue {
    let mut values: Vec<AttributeValue> =
        data.chunks_exact(dtype.size_bytes()).map(|element| attribute_value(dtype, element)).collect();
    // netCDF does not distinguish a list with one value from the value.
    if values.len() == 1 { values.remove(0) } else { AttributeValue::List(values) }
}

fn attribute_value(dtype: Dtype, element: &[u8]) -> AttributeValue {
    let mut bytes = [0; 8];
    bytes[..element.len()].copy_from_slice(element);
    let number = u64::from_le_bytes(bytes);
    match (dtype.number_kind(), dtype) {
        (NumberKind::Float, Dtype::Float32) => AttributeValue::Float(f32::from_bits(number as u32).into()),
        (NumberKind::Float, _) => AttributeValue::Float(f64::from_bits(number)),
        (NumberKind::Unsigned, _) => AttributeValue::Unsigned(number),
        (NumberKind::Signed, _) => {
            // Moves the sign to the highest bit and back.
            let unused_bits = 64 - 8 * element.len() as u32;
            AttributeValue::Integer((number << unused_bits).cast_signed() >> unused_bits)
        }
    }
}

/// The attribute `_FillValue` of an array, as Zarr has it. netCDF gives it the type of the array.
fn fill_value_attribute(dtype: Dtype, value: AttributeValue) -> AttributeValue {
    let is_float = dtype.number_kind() == NumberKind::Float;
    let float = |number: f64| fill_attribute(Dtype::Float64, &number.to_le_bytes());
    match value {
        AttributeValue::Float(number) if is_float => float(number),
        AttributeValue::Integer(number) if is_float => float(number as f64),
        AttributeValue::Unsigned(number) if is_float => float(number as f64),
        AttributeValue::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
            AttributeValue::Integer(number as i64)
        }
        other => other,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
