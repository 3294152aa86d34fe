//! netCDF's classic formats: netCDF-3 with 32-bit and 64-bit offsets, and CDF-5.

use super::contiguous::{Block, divide};
use super::{
    FILL_VALUE, FileChunks, ReadElements, Skipped, SourceArray, SourceGroup, attribute_values,
    fill_value_attribute, reserved_name, unreadable,
};
use benthic_array::{AttributeValue, Dtype, NewAttributes};
use benthic_core::Result;
use netcdf_reader::classic::data::compute_record_stride;
use netcdf_reader::{
    DynStorage, NcAttrValue, NcAttribute, NcFile, NcSliceInfo, NcSliceInfoElem, NcType, NcVariable,
};
use std::sync::Arc;

/// Reads the metadata of a file.
///
/// # Errors
/// `Corrupt`.
pub fn read(storage: DynStorage, skipped: &mut Vec<Skipped>) -> Result<SourceGroup> {
    let failed = |error| unreadable("the file is not a sound netCDF file", error);
    let file = Arc::new(NcFile::from_storage(storage).map_err(failed)?);
    let group = file.root_group().map_err(failed)?;
    let mut arrays = Vec::new();
    for variable in &group.variables {
        let path = variable.name.clone();
        match (dtype(&variable.dtype), reserved_name(&path)) {
            (None, _) => {
                // The classic formats have no other type that arrays lack.
                let reason = "arrays do not support the type text".to_owned();
                skipped.push(Skipped { path, reason });
            }
            (_, Some(reason)) => skipped.push(Skipped { path, reason }),
            (Some(dtype), None) => arrays.push(array(&file, variable, dtype)),
        }
    }
    Ok(SourceGroup { attributes: attributes(&group.attributes), arrays, groups: Vec::new() })
}

fn dtype(nc_type: &NcType) -> Option<Dtype> {
    Some(match nc_type {
        NcType::Byte => Dtype::Int8,
        NcType::Short => Dtype::Int16,
        NcType::Int => Dtype::Int32,
        NcType::Float => Dtype::Float32,
        NcType::Double => Dtype::Float64,
        NcType::UByte => Dtype::Uint8,
        NcType::UShort => Dtype::Uint16,
        NcType::UInt => Dtype::Uint32,
        NcType::Int64 => Dtype::Int64,
        NcType::UInt64 => Dtype::Uint64,
        _ => return None,
    })
}

fn array(file: &Arc<NcFile>, variable: &NcVariable, dtype: Dtype) -> SourceArray {
    // The file stores every element, so any fill value is correct.
    let own_fill = variable.attribute(FILL_VALUE).and_then(|fill| elements(&fill.value));
    let own_fill =
        own_fill.filter(|(fill_type, data)| *fill_type == dtype && data.len() == dtype.size_bytes());
    let mut attributes = attributes(&variable.attributes);
    for (name, value) in &mut attributes {
        if name == FILL_VALUE {
            *value = fill_value_attribute(dtype, value.clone());
        }
    }
    SourceArray {
        name: variable.name.clone(),
        dtype,
        shape: variable.shape(),
        chunk_shape: None,
        fill: own_fill.map_or_else(|| vec![0; dtype.size_bytes()], |(_, data)| data).into(),
        dimensions: variable.dimensions.iter().map(|dimension| Some(dimension.name.clone())).collect(),
        attributes,
        elements: Arc::new(Variable { file: Arc::clone(file), name: variable.name.clone(), dtype }),
    }
}

fn attributes(attributes: &[NcAttribute]) -> NewAttributes {
    let value = |value: &NcAttrValue| match value {
        NcAttrValue::Chars(text) => Some(AttributeValue::Text(text.clone())),
        value => elements(value).map(|(dtype, data)| attribute_values(dtype, &data)),
    };
    attributes.iter().filter_map(|own| Some((own.name.clone(), value(&own.value)?))).collect()
}

/// The numbers of an attribute, little-endian. `None` for texts.
fn elements(value: &NcAttrValue) -> Option<(Dtype, Vec<u8>)> {
    macro_rules! numbers {
        ($dtype:ident, $numbers:expr) => {
            (Dtype::$dtype, $numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
        };
    }
    Some(match value {
        NcAttrValue::Bytes(numbers) => numbers!(Int8, numbers),
        NcAttrValue::Shorts(numbers) => numbers!(Int16, numbers),
        NcAttrValue::Ints(numbers) => numbers!(Int32, numbers),
        NcAttrValue::Floats(numbers) => numbers!(Float32, numbers),
        NcAttrValue::Doubles(numbers) => numbers!(Float64, numbers),
        NcAttrValue::UBytes(numbers) => numbers!(Uint8, numbers),
        NcAttrValue::UShorts(numbers) => numbers!(Uint16, numbers),
        NcAttrValue::UInts(numbers) => numbers!(Uint32, numbers),
        NcAttrValue::Int64s(numbers) => numbers!(Int64, numbers),
        NcAttrValue::UInt64s(numbers) => numbers!(Uint64, numbers),
        NcAttrValue::Chars(_) | NcAttrValue::Strings(_) | NcAttrValue::UserDefined { .. } => return None,
    })
}

struct Variable {
    file: Arc<NcFile>,
    name: String,
    dtype: Dtype,
}

impl ReadElements for Variable {
    fn read(&self, start: &[u64], counts: &[u64]) -> Result<Vec<u8>> {
        let axis = |(start, count): (&u64, &u64)| NcSliceInfoElem::Slice {
            start: *start,
            end: start + count,
            step: 1,
        };
        let selection = NcSliceInfo { selections: start.iter().zip(counts).map(axis).collect() };
        macro_rules! read {
            ($type:ident) => {{
                let read = self.file.read_variable_slice::<$type>(&self.name, &selection);
                // The vector of an array in C order has its elements.
                read.map(|array| {
                    array.into_raw_vec_and_offset().0.into_iter().flat_map($type::to_le_bytes).collect()
                })
            }};
        }
        let read = match self.dtype {
            Dtype::Int8 => read!(i8),
            Dtype::Int16 => read!(i16),
            Dtype::Int32 => read!(i32),
            Dtype::Int64 => read!(i64),
            Dtype::Bool | Dtype::Uint8 => read!(u8),
            Dtype::Uint16 => read!(u16),
            Dtype::Uint32 => read!(u32),
            Dtype::Uint64 => read!(u64),
            Dtype::Float32 => read!(f32),
            Dtype::Float64 => read!(f64),
        };
        read.map_err(|error| unreadable("cannot read a variable", error).with("variable", &self.name))
    }

    fn chunks(&self) -> Result<Option<FileChunks>> {
        let failed = |error| unreadable("cannot read a variable", error).with("variable", &self.name);
        let group = self.file.root_group().map_err(failed)?;
        let variable = self.file.variable(&self.name).map_err(failed)?;
        let record_bytes = compute_record_stride(&group.variables).map_err(failed)?;
        let block = Block {
            offset_bytes: variable.data_offset,
            record_bytes: variable.is_record_var.then_some(record_bytes),
        };
        divide(&variable.shape(), self.dtype, &block, true).map(Some)
    }
}
