//! Coordinates of the arrays of a GRIB file. Equal ones are shared; others of the same name get a
//! number.

use super::super::{FileChunks, ReadElements, SourceArray};
use benthic_array::{AttributeValue, Dtype, NewAttributes};
use benthic_core::Result;
use std::sync::Arc;

/// Names and values of the attributes of a coordinate.
pub type Texts = &'static [(&'static str, &'static str)];

/// The values of a coordinate.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    Integers(Vec<i64>),
    Floats(Vec<f64>),
}

/// The dimensions of a coordinate.
#[derive(Clone, Debug, PartialEq)]
pub enum Dimensions {
    /// One dimension, which has the coordinate's name.
    Own,
    /// Names and lengths; none for a scalar.
    Named(Vec<(String, u64)>),
}

#[derive(Clone, Debug, PartialEq)]
struct Coordinate {
    usual_name: String,
    name: String,
    dimensions: Dimensions,
    numbers: Numbers,
    attributes: Vec<(String, String)>,
}

/// All coordinates of a file, and dimensions that have none.
#[derive(Default)]
pub struct Coordinates {
    all: Vec<Coordinate>,
    /// Usual name, name and length.
    bare: Vec<(String, String, u64)>,
}

impl Coordinates {
    /// Adds a coordinate if there is none like it. Returns its name.
    pub fn add(
        &mut self,
        usual_name: &str,
        dimensions: Dimensions,
        numbers: Numbers,
        texts: Texts,
    ) -> String {
        let is_same = |own: &&Coordinate| {
            own.usual_name == usual_name && own.dimensions == dimensions && own.numbers == numbers
        };
        if let Some(same) = self.all.iter().find(is_same) {
            return same.name.clone();
        }
        let attributes = texts.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let (usual_name, name) = (usual_name.to_owned(), self.unused(usual_name));
        self.all.push(Coordinate { usual_name, name: name.clone(), dimensions, numbers, attributes });
        name
    }

    /// The name of a dimension without coordinates.
    pub fn bare(&mut self, usual_name: &str, len: u64) -> String {
        if let Some((_, name, _)) = self.bare.iter().find(|own| own.0 == usual_name && own.2 == len) {
            return name.clone();
        }
        let name = self.unused(usual_name);
        self.bare.push((usual_name.to_owned(), name.clone(), len));
        name
    }

    /// This name, or with a number if it is used.
    pub fn unused(&self, usual_name: &str) -> String {
        let is_used = |name: &str| {
            self.all.iter().any(|own| own.name == name) || self.bare.iter().any(|own| own.1 == name)
        };
        let mut names = (2..).map(|number| format!("{usual_name}_{number}"));
        match is_used(usual_name) {
            true => names.find(|name| !is_used(name)).unwrap_or_default(),
            false => usual_name.to_owned(),
        }
    }

    pub fn into_arrays(self) -> Vec<SourceArray> {
        self.all.into_iter().map(Coordinate::into_array).collect()
    }
}

impl Coordinate {
    fn into_array(self) -> SourceArray {
        let (dtype, data): (Dtype, Vec<u8>) = match &self.numbers {
            Numbers::Integers(numbers) => {
                (Dtype::Int64, numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
            }
            Numbers::Floats(numbers) => {
                (Dtype::Float64, numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
            }
        };
        let dimensions = match self.dimensions {
            Dimensions::Own => vec![(self.name.clone(), (data.len() / dtype.size_bytes()) as u64)],
            Dimensions::Named(dimensions) => dimensions,
        };
        let shape: Vec<u64> = dimensions.iter().map(|(_, len)| *len).collect();
        let text = |(name, text)| (name, AttributeValue::Text(text));
        let attributes: NewAttributes = self.attributes.into_iter().map(text).collect();
        SourceArray {
            name: self.name,
            dtype,
            shape: shape.clone(),
            chunk_shape: None,
            fill: vec![0; dtype.size_bytes()].into(),
            dimensions: dimensions.into_iter().map(|(name, _)| Some(name)).collect(),
            attributes,
            elements: Arc::new(Computed { data, shape, element_bytes: dtype.size_bytes() as u64 }),
        }
    }
}

/// Elements that the file has in another form.
struct Computed {
    data: Vec<u8>,
    shape: Vec<u64>,
    element_bytes: u64,
}

impl ReadElements for Computed {
    fn read(&self, start: &[u64], counts: &[u64]) -> Result<Vec<u8>> {
        let mut data = Vec::new();
        copy_box(&self.data, &self.shape, start, counts, self.element_bytes, &mut data);
        Ok(data)
    }

    fn chunks(&self) -> Result<Option<FileChunks>> {
        Ok(None)
    }
}

/// Appends a box of an array in C order.
pub fn copy_box(data: &[u8], shape: &[u64], start: &[u64], counts: &[u64], stride: u64, out: &mut Vec<u8>) {
    let (Some(len), Some(first), Some(count)) = (shape.first(), start.first(), counts.first()) else {
        out.extend_from_slice(data);
        return;
    };
    // The distance between two positions along the first axis.
    let step = data.len() as u64 / (*len).max(1);
    if shape.len() == 1 {
        out.extend_from_slice(&data[(first * stride) as usize..((first + count) * stride) as usize]);
        return;
    }
    for position in *first..first + count {
        let part = &data[(position * step) as usize..((position + 1) * step) as usize];
        copy_box(part, &shape[1..], &start[1..], &counts[1..], stride, out);
    }
}
