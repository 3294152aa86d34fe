//! HDF5 files, and netCDF-4 files, which are HDF5 files with conventions.
//!
//! A dimension is a dataset, its scale, to which the attribute `DIMENSION_LIST` of other datasets
//! refers. Its name is that of the scale. In netCDF-4, the scale of a dimension without coordinates
//! has no values. An unlimited dimension is as long as the longest dataset along it; the shorter
//! ones end with fill values.
//!
//! Sources: the HDF5 Dimension Scale specification; "NetCDF-4 Format" in the netCDF User's Guide.

use super::hdf5_chunks::{FILTER_BLOSC, FILTER_ZSTD, chunks, failed, is_big_endian};
use super::{
    FILL_VALUE, FileChunks, ReadElements, Skipped, SourceArray, SourceGroup, attribute_values,
    fill_value_attribute, join, reserved_name,
};
use benthic_array::decoders::{BytesCodec, Codecs};
use benthic_array::{AttributeValue, Bounded, Dtype, NewAttributes};
use benthic_core::Result;
use bytes::Bytes;
use hdf5_reader::group::Group;
use hdf5_reader::storage::DynStorage;
use hdf5_reader::{
    Attribute, Dataset, Datatype, FilterRegistry, H5Type, Hdf5File, OpenOptions, SliceInfo, SliceInfoElem,
    reference,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Limit on nested groups.
const DEPTH_MAX: usize = 64;
/// Limit on a decoded chunk.
const CHUNK_BYTES_MAX: usize = 1 << 30;
/// The crate decodes this filter, but does not extend the sign of a number with fewer bits than its
/// type, and does not tell how many bits a number has.
const FILTER_NBIT: u16 = 5;

/// Attributes by which HDF5 and netCDF-4 describe dimensions.
const INTERNAL: [&str; 7] = [
    "DIMENSION_LIST",
    "DIMENSION_LABELS",
    "REFERENCE_LIST",
    "_NCProperties",
    "_Netcdf4Coordinates",
    "_Netcdf4Dimid",
    "_nc3_strict",
];
/// Attributes by which a scale is known. Other datasets may have attributes of these names.
const INTERNAL_OF_SCALES: [&str; 2] = ["CLASS", "NAME"];
/// The beginning of the attribute `NAME` of a scale without values.
const NO_COORDINATES: &str = "This is a netCDF dimension but not a netCDF variable";
/// The prefix with which netCDF-4 marks a variable that has a dimension's name but is no
/// coordinate.
const NO_COORDINATE_PREFIX: &str = "_nc4_non_coord_";

/// Reads the metadata of a file.
///
/// # Errors
/// `Corrupt`.
pub fn read(storage: DynStorage, skipped: &mut Vec<Skipped>) -> Result<SourceGroup> {
    let mut filters = FilterRegistry::new();
    for (id, codec) in [(FILTER_BLOSC, BytesCodec::Blosc {}), (FILTER_ZSTD, BytesCodec::Zstd {})] {
        let codec: Codecs = Bounded(vec![codec]);
        let decode = move |_: &_, data: &[u8], _| {
            let decoded = codec.decode(&Bytes::copy_from_slice(data), CHUNK_BYTES_MAX, &mut || Ok(()));
            decoded.map(Vec::from).map_err(|error| hdf5_reader::error::Error::FilterError(error.to_string()))
        };
        filters.register(id, Box::new(decode));
    }
    let unsupported =
        |_: &_, _: &[u8], _| Err(hdf5_reader::error::Error::UnsupportedFilter("nbit".to_owned()));
    filters.register(FILTER_NBIT, Box::new(unsupported));
    let options = OpenOptions { max_chunk_bytes: CHUNK_BYTES_MAX, ..OpenOptions::default() }
        .with_filter_registry(filters);
    let file = Hdf5File::from_storage_with_options(storage, options).map_err(failed)?;
    let mut scales = Scales::default();
    let root = file.root_group().map_err(failed)?;
    let tree = tree(root, &mut HashSet::new(), &mut scales, skipped, "")?;
    scales.add_lengths(&tree);
    group(&file, &tree, &scales, skipped, "")
}

/// The groups and datasets of a file.
struct Tree {
    group: Group,
    datasets: Vec<Dataset>,
    children: Vec<(String, Tree)>,
}

/// A group may be in several groups, also in itself. It is read once.
fn tree(
    group: Group,
    seen: &mut HashSet<u64>,
    scales: &mut Scales,
    skipped: &mut Vec<Skipped>,
    path: &str,
) -> Result<Tree> {
    seen.insert(group.address());
    let (groups, datasets) = group.members().map_err(failed)?;
    datasets.iter().for_each(|dataset| scales.add(dataset));
    let mut children = Vec::new();
    for child in groups {
        let name = leaf(child.name()).to_owned();
        let child_path = join(path, &name);
        let reason = match reserved_name(&name) {
            Some(reason) => Some(reason),
            None if seen.contains(&child.address()) => Some("another group has the same content".to_owned()),
            None if path.split('/').count() >= DEPTH_MAX => Some("too many nested groups".to_owned()),
            None => None,
        };
        match reason {
            Some(reason) => skipped.push(Skipped { path: child_path, reason }),
            None => children.push((name, tree(child, seen, scales, skipped, &child_path)?)),
        }
    }
    Ok(Tree { group, datasets, children })
}

fn leaf(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The dimensions of a file.
#[derive(Default)]
struct Scales {
    /// Name and length, by the address of the scale.
    by_address: HashMap<u64, (String, u64)>,
    /// The addresses by netCDF's number of a dimension.
    by_number: HashMap<i32, u64>,
}

impl Scales {
    fn add(&mut self, dataset: &Dataset) {
        if !is_scale(dataset) {
            return;
        }
        let name = leaf(dataset.name()).to_owned();
        let len = dataset.shape().first().copied().unwrap_or(0);
        self.by_address.insert(dataset.address(), (name, len));
        if let Ok(number) = dataset.attribute("_Netcdf4Dimid").and_then(|number| number.read_scalar()) {
            self.by_number.insert(number, dataset.address());
        }
    }

    /// Extends unlimited dimensions to the longest dataset along each.
    fn add_lengths(&mut self, tree: &Tree) {
        for dataset in &tree.datasets {
            let axes = self.of(dataset);
            for (axis, address) in axes.into_iter().enumerate() {
                let is_unlimited = is_unlimited(dataset, axis);
                if let Some((_, len)) = address.and_then(|address| self.by_address.get_mut(&address))
                    && is_unlimited
                {
                    *len = (*len).max(dataset.shape()[axis]);
                }
            }
        }
        tree.children.iter().for_each(|(_, child)| self.add_lengths(child));
    }

    /// The address of the scale of each axis.
    fn of(&self, dataset: &Dataset) -> Vec<Option<u64>> {
        let axes = dataset.ndim();
        if is_scale(dataset) {
            if let Ok(numbers) =
                dataset.attribute("_Netcdf4Coordinates").and_then(|list| list.read_1d::<i32>())
                && numbers.len() == axes
            {
                return numbers.iter().map(|number| self.by_number.get(number).copied()).collect();
            }
            return (0..axes).map(|axis| (axis == 0).then(|| dataset.address())).collect();
        }
        let reference_bytes = dataset.vlen_reference_size();
        // A reference has a length, an address of this size, and a number.
        let address_bytes = reference_bytes - 2 * size_of::<u32>();
        let list = dataset.attribute("DIMENSION_LIST").map(|list| list.raw_data).unwrap_or_default();
        let mut found: Vec<Option<u64>> = list
            .chunks_exact(reference_bytes)
            .take(axes)
            .map(|entry| {
                let references = dataset.resolve_vlen_reference_bytes(entry, address_bytes).ok()?;
                let addresses = reference::read_object_references(&references, address_bytes as u8).ok()?;
                addresses.first().copied().filter(|address| self.by_address.contains_key(address))
            })
            .collect();
        found.resize(axes, None);
        found
    }
}

fn is_scale(dataset: &Dataset) -> bool {
    let class = dataset.attribute("CLASS").and_then(|class| class.read_string());
    class.is_ok_and(|class| class == "DIMENSION_SCALE")
}

fn is_unlimited(dataset: &Dataset, axis: usize) -> bool {
    dataset.max_dims().and_then(|lens| lens.get(axis)) == Some(&u64::MAX)
}

fn group(
    file: &Hdf5File,
    tree: &Tree,
    scales: &Scales,
    skipped: &mut Vec<Skipped>,
    path: &str,
) -> Result<SourceGroup> {
    let attributes = attributes(&tree.group.attributes().map_err(failed)?, false, skipped, path);
    let mut arrays = Vec::new();
    for dataset in &tree.datasets {
        let is_scale = is_scale(dataset);
        let label = dataset.attribute("NAME").and_then(|name| name.read_string());
        if is_scale && label.is_ok_and(|label| label.starts_with(NO_COORDINATES)) {
            continue;
        }
        let name = leaf(dataset.name());
        let name = name.strip_prefix(NO_COORDINATE_PREFIX).unwrap_or(name);
        let path = join(path, name);
        let reason = match (dtype(dataset.dtype()), reserved_name(name)) {
            (_, Some(reason)) => reason,
            _ if is_taken(&arrays, tree, name) => "another variable or group has the same name".to_owned(),
            (None, _) => format!("arrays do not support the type {}", type_name(dataset.dtype())),
            (_, None) if dataset.ndim() == 0 && dataset.num_elements().is_ok_and(|count| count == 0) => {
                "it has no elements".to_owned()
            }
            (Some(dtype), None) => {
                arrays.push(array(file, dataset, name, dtype, scales, skipped, &path)?);
                continue;
            }
        };
        skipped.push(Skipped { path, reason });
    }
    let mut groups = Vec::new();
    for (name, child) in &tree.children {
        groups.push((name.clone(), group(file, child, scales, skipped, &join(path, name))?));
    }
    Ok(SourceGroup { attributes, arrays, groups })
}

/// Returns whether a name without its prefix is that of another variable or group.
fn is_taken(arrays: &[SourceArray], tree: &Tree, name: &str) -> bool {
    arrays.iter().any(|array| array.name == name) || tree.children.iter().any(|(child, _)| child == name)
}

fn array(
    file: &Hdf5File,
    dataset: &Dataset,
    name: &str,
    dtype: Dtype,
    scales: &Scales,
    skipped: &mut Vec<Skipped>,
    path: &str,
) -> Result<SourceArray> {
    let (mut shape, mut dimensions) = (dataset.shape().to_vec(), Vec::new());
    for (axis, address) in scales.of(dataset).into_iter().enumerate() {
        let scale = address.and_then(|address| scales.by_address.get(&address));
        if let Some((_, len)) = scale
            && is_unlimited(dataset, axis)
        {
            shape[axis] = shape[axis].max(*len);
        }
        dimensions.push(scale.map(|(name, _)| name.clone()));
    }
    let mut attributes = attributes(&dataset.attributes(), is_scale(dataset), skipped, path);
    for (name, value) in &mut attributes {
        if name == FILL_VALUE {
            *value = fill_value_attribute(dtype, value.clone());
        }
    }
    let mut fill = dataset.fill_value().and_then(|fill| fill.value.clone()).unwrap_or_default();
    fill.resize(dtype.size_bytes(), 0);
    if is_big_endian(dataset.dtype()) {
        fill.reverse();
    }
    let chunk_shape = dataset.chunks().map(|lens| lens.into_iter().map(u64::from).collect());
    let stored_shape = dataset.shape().to_vec();
    let padded = dataset.clone().with_padded_shape(&shape).map_err(failed)?;
    let elements =
        Elements { file: file.clone(), dataset: padded, stored_shape, dtype, path: path.to_owned() };
    Ok(SourceArray {
        name: name.to_owned(),
        dtype,
        shape,
        chunk_shape,
        fill: Bytes::from(fill),
        dimensions,
        attributes,
        elements: Arc::new(elements),
    })
}

fn dtype(datatype: &Datatype) -> Option<Dtype> {
    Some(match datatype {
        Datatype::FixedPoint { size: 1, signed: true, .. } => Dtype::Int8,
        Datatype::FixedPoint { size: 2, signed: true, .. } => Dtype::Int16,
        Datatype::FixedPoint { size: 4, signed: true, .. } => Dtype::Int32,
        Datatype::FixedPoint { size: 8, signed: true, .. } => Dtype::Int64,
        Datatype::FixedPoint { size: 1, .. } => Dtype::Uint8,
        Datatype::FixedPoint { size: 2, .. } => Dtype::Uint16,
        Datatype::FixedPoint { size: 4, .. } => Dtype::Uint32,
        Datatype::FixedPoint { size: 8, .. } => Dtype::Uint64,
        Datatype::FloatingPoint { size: 4, .. } => Dtype::Float32,
        Datatype::FloatingPoint { size: 8, .. } => Dtype::Float64,
        // h5py stores booleans so. Of other enumerations, the numbers remain.
        Datatype::Enum { base, members } => {
            let is_bool = members.len() == 2 && members[0].name == "FALSE" && members[1].name == "TRUE";
            match dtype(base)? {
                Dtype::Int8 if is_bool => Dtype::Bool,
                base => base,
            }
        }
        _ => return None,
    })
}

fn type_name(datatype: &Datatype) -> &'static str {
    match datatype {
        Datatype::FixedPoint { .. } => "integer of an unusual size",
        Datatype::FloatingPoint { .. } => "float of an unusual size",
        Datatype::String { .. } => "text",
        Datatype::Compound { .. } => "compound",
        Datatype::Array { .. } => "array in an element",
        Datatype::Enum { .. } => "enumeration of an unusual size",
        Datatype::VarLen { .. } => "text or list of variable length",
        Datatype::Opaque { .. } => "opaque bytes",
        Datatype::Reference { .. } => "reference",
        Datatype::Bitfield { .. } => "bit field",
    }
}

fn attributes(
    attributes: &[Attribute],
    is_scale: bool,
    skipped: &mut Vec<Skipped>,
    path: &str,
) -> NewAttributes {
    let mut values = Vec::new();
    for attribute in attributes {
        let name = &attribute.name[..];
        if INTERNAL.contains(&name) || (is_scale && INTERNAL_OF_SCALES.contains(&name)) {
            continue;
        }
        match attribute_of(attribute) {
            Some(value) => values.push((name.to_owned(), value)),
            None => {
                let reason = format!("attributes do not support the type {}", type_name(&attribute.datatype));
                skipped.push(Skipped { path: format!("{path}@{name}"), reason });
            }
        }
    }
    values
}

fn attribute_of(attribute: &Attribute) -> Option<AttributeValue> {
    let is_empty = attribute.num_elements().ok()? == 0;
    if let Some(dtype) = dtype(&attribute.datatype) {
        let data = match dtype.size_bytes() {
            _ if is_empty => Vec::new(),
            1 => little_endian(attribute.read_1d::<LittleEndian<1>>().ok()?),
            2 => little_endian(attribute.read_1d::<LittleEndian<2>>().ok()?),
            4 => little_endian(attribute.read_1d::<LittleEndian<4>>().ok()?),
            _ => little_endian(attribute.read_1d::<LittleEndian<8>>().ok()?),
        };
        return Some(attribute_values(dtype, &data));
    }
    match &attribute.datatype {
        // netCDF stores an empty text without an element.
        Datatype::String { .. } if is_empty => Some(AttributeValue::Text(String::new())),
        Datatype::String { .. } | Datatype::VarLen { .. } => match attribute.read_strings() {
            Ok(mut texts) if texts.len() == 1 => Some(AttributeValue::Text(texts.remove(0))),
            Ok(texts) => Some(AttributeValue::List(texts.into_iter().map(AttributeValue::Text).collect())),
            Err(_) => attribute.read_string().ok().map(AttributeValue::Text),
        },
        _ => None,
    }
}

/// An element in little-endian order, of any type with this size.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct LittleEndian<const N: usize>([u8; N]);

impl<const N: usize> H5Type for LittleEndian<N> {
    fn hdf5_type() -> Datatype {
        Datatype::Opaque { size: N as u32, tag: String::new() }
    }

    fn from_bytes(bytes: &[u8], dtype: &Datatype) -> hdf5_reader::error::Result<Self> {
        let short = || hdf5_reader::error::Error::InvalidData("an element is too short".to_owned());
        let mut element = *bytes.first_chunk::<N>().ok_or_else(short)?;
        if is_big_endian(dtype) {
            element.reverse();
        }
        Ok(LittleEndian(element))
    }

    fn element_size(_: &Datatype) -> usize {
        N
    }

    fn native_copy_compatible(dtype: &Datatype) -> bool {
        !is_big_endian(dtype)
    }
}

fn little_endian<const N: usize>(elements: impl IntoIterator<Item = LittleEndian<N>>) -> Vec<u8> {
    elements.into_iter().map(|element| element.0).collect::<Vec<_>>().into_flattened()
}

struct Elements {
    file: Hdf5File,
    dataset: Dataset,
    /// Shorter than the dataset along an unlimited dimension that others extend.
    stored_shape: Vec<u64>,
    dtype: Dtype,
    path: String,
}

impl ReadElements for Elements {
    fn read(&self, start: &[u64], counts: &[u64]) -> Result<Vec<u8>> {
        let axis = |(start, count): (&u64, &u64)| SliceInfoElem::Slice {
            start: *start,
            end: start + count,
            step: 1,
        };
        let selection = SliceInfo { selections: start.iter().zip(counts).map(axis).collect() };
        macro_rules! read {
            ($size:literal) => {{
                let read = self.dataset.read_slice::<LittleEndian<$size>>(&selection);
                // The vector of an array in C order has its elements.
                read.map(|array| little_endian(array.into_raw_vec_and_offset().0))
            }};
        }
        let read = match self.dtype.size_bytes() {
            1 => read!(1),
            2 => read!(2),
            4 => read!(4),
            _ => read!(8),
        };
        read.map_err(|error| failed(error).with("variable", &self.path))
    }

    fn chunks(&self) -> Result<Option<FileChunks>> {
        chunks(&self.file, &self.dataset, &self.stored_shape, self.dtype)
            .map(Some)
            .map_err(|error| error.with("variable", &self.path))
    }
}
