//! An array of the fields with the same product and grid.

use super::super::{FileChunks, ReadElements, Skipped, SourceArray, not_in_chunks};
use super::coordinates::{Coordinates, Dimensions, Numbers, Texts, copy_box};
use super::grid::Grid;
use super::messages::{Field, LocalFile, Values};
use super::parameters::Names;
use super::product::{AXES, LEVEL, NUMBER, Position, ProductKey, STEP, TIME};
use benthic_array::decoders::{ByteRange, BytesCodec, Codecs};
use benthic_array::{AttributeValue, Bounded, CHUNKS_MAX, Dtype, GRIB_CODEC, NewAttributes, PART_BYTES};
use benthic_core::Result;
use bytes::Bytes;
use serde_json::json;
use std::rc::Rc;
use std::sync::Arc;

const SECONDS_PER_HOUR: f64 = 3600.0;
/// Limits on the cells of an array: for each of its fields, and in addition.
const CELLS_PER_FIELD_MAX: u64 = 64;
const CELLS_MAX: u64 = 4096;

const NUMBER_TEXTS: Texts =
    &[("units", "1"), ("standard_name", "realization"), ("long_name", "ensemble member numerical id")];
const TIME_TEXTS: Texts = &[
    ("units", "seconds since 1970-01-01T00:00:00"),
    ("calendar", "proleptic_gregorian"),
    ("standard_name", "forecast_reference_time"),
    ("long_name", "initial time of forecast"),
];
const STEP_TEXTS: Texts = &[
    ("units", "hours"),
    ("standard_name", "forecast_period"),
    ("long_name", "time since forecast_reference_time"),
    // xarray decodes it to durations.
    ("dtype", "timedelta64[ns]"),
];
const VALID_TIME_TEXTS: Texts = &[
    ("units", "seconds since 1970-01-01T00:00:00"),
    ("calendar", "proleptic_gregorian"),
    ("standard_name", "time"),
    ("long_name", "time"),
];
const LATITUDE_TEXTS: Texts =
    &[("units", "degrees_north"), ("standard_name", "latitude"), ("long_name", "latitude")];
const LONGITUDE_TEXTS: Texts =
    &[("units", "degrees_east"), ("standard_name", "longitude"), ("long_name", "longitude")];

fn level_texts(level_type: &str, edition: u8) -> Texts {
    match level_type {
        "isobaricInhPa" => &[
            ("units", "hPa"),
            ("positive", "down"),
            ("stored_direction", "decreasing"),
            ("standard_name", "air_pressure"),
            ("long_name", "pressure"),
        ],
        "isobaricInPa" => &[
            ("units", "Pa"),
            ("positive", "down"),
            ("stored_direction", "decreasing"),
            ("standard_name", "air_pressure"),
            ("long_name", "pressure"),
        ],
        "heightAboveGround" => &[
            ("units", "m"),
            ("positive", "up"),
            ("standard_name", "height"),
            ("long_name", "height above the surface"),
        ],
        // Edition 1 has centimetres.
        "depthBelowLand" | "depthBelowLandLayer" if edition == 2 => {
            &[("units", "m"), ("positive", "down"), ("standard_name", "depth"), ("long_name", "soil depth")]
        }
        "hybrid" => &[
            ("units", "1"),
            ("positive", "down"),
            ("standard_name", "atmosphere_hybrid_sigma_pressure_coordinate"),
            ("long_name", "hybrid level"),
        ],
        _ => &[("units", "1")],
    }
}

/// An array of a GRIB file.
pub struct Variable {
    pub name: String,
    pub key: ProductKey,
    names: Rc<Names>,
    grid: Rc<Grid>,
    /// The positions of each axis, in order.
    axes: [Vec<Position>; AXES],
    /// In C order. `None` if the file has no such field.
    cells: Vec<Option<Values>>,
    /// The names of the axes that are longer than 1, and of those of the grid.
    dimensions: Vec<Option<String>>,
    /// The names of all coordinates that are no axis.
    others: Vec<String>,
}

impl Variable {
    /// Makes an array of fields, of which the first is kept if two are at the same place. `None` if
    /// the array would have few fields in many cells, which are in memory.
    pub fn new(
        key: ProductKey,
        names: Rc<Names>,
        grid: Rc<Grid>,
        fields: &[(&Field, Values)],
        skipped: &mut Vec<Skipped>,
    ) -> Option<Variable> {
        let axes: [Vec<Position>; AXES] = std::array::from_fn(|axis| {
            let mut positions: Vec<Position> =
                fields.iter().map(|(field, _)| field.product.at[axis]).collect();
            positions.sort_by(order);
            positions.dedup();
            if axis == LEVEL && key.level_type.starts_with("isobaricIn") {
                positions.reverse();
            }
            positions
        });
        let len = axes.iter().fold(1u64, |product, axis| product.saturating_mul(axis.len() as u64));
        let cells_max = CELLS_PER_FIELD_MAX * fields.len() as u64 + CELLS_MAX;
        if len > cells_max.min(CHUNKS_MAX) {
            let reason = format!(
                "its {} fields have too many different times, steps and levels: an array would have {len} \
                 places for them; split the file",
                fields.len()
            );
            skipped.push(Skipped { path: names.name.clone(), reason });
            return None;
        }
        let mut cells = vec![None; len as usize];
        let mut twice = 0;
        for (field, values) in fields {
            let cell = axes.iter().zip(&field.product.at).fold(0, |cell, (axis, at)| {
                // An axis has few positions, and is sorted in one of two directions.
                let is_ascending = order(&axis[0], &axis[axis.len() - 1]).is_le();
                let index =
                    axis.binary_search_by(|own| if is_ascending { order(own, at) } else { order(at, own) });
                cell * axis.len() + index.unwrap_or_default()
            });
            match &mut cells[cell] {
                Some(_) => twice += 1,
                cell => *cell = Some(*values),
            }
        }
        if twice > 0 {
            let reason = format!("{twice} of its fields have the same time, step and level as earlier ones");
            skipped.push(Skipped { path: names.name.clone(), reason });
        }
        let (dimensions, others) = (Vec::new(), Vec::new());
        Some(Variable { name: names.name.clone(), key, names, grid, axes, cells, dimensions, others })
    }

    /// Adds the coordinates of axes, or those of length 1.
    pub fn add_coordinates(&mut self, coordinates: &mut Coordinates, are_axes: bool) {
        let mut times = Vec::new();
        for axis in 0..AXES {
            let positions = &self.axes[axis];
            let is_axis = positions.len() > 1;
            if axis == NUMBER && !self.key.has_members {
                continue;
            }
            let integers = || Numbers::Integers(positions.iter().map(|at| at[0] as i64).collect());
            let floats = |unit: f64| Numbers::Floats(positions.iter().map(|at| at[0] / unit).collect());
            let (name, numbers, texts) = match axis {
                NUMBER => ("number", integers(), NUMBER_TEXTS),
                TIME => ("time", integers(), TIME_TEXTS),
                STEP => ("step", floats(SECONDS_PER_HOUR), STEP_TEXTS),
                _ => {
                    let texts = level_texts(&self.key.level_type, self.key.parameter.edition);
                    // Layers that overlap may have the same first bound.
                    let has_order = positions.is_sorted_by(|one, next| one[0] < next[0])
                        || positions.is_sorted_by(|one, next| one[0] > next[0]);
                    let middle = |at: &Position| (at[0] + at[1]) / 2.0;
                    let middles = || Numbers::Floats(positions.iter().map(middle).collect());
                    (&self.key.level_type[..], if has_order { floats(1.0) } else { middles() }, texts)
                }
            };
            let dimensions = if is_axis { Dimensions::Own } else { Dimensions::Named(Vec::new()) };
            if is_axis != are_axes {
                continue;
            }
            let name = coordinates.add(name, dimensions, numbers, texts);
            if is_axis && matches!(axis, TIME | STEP) {
                times.push((name.clone(), positions.len() as u64));
            }
            if is_axis { self.dimensions.push(Some(name)) } else { self.others.push(name) }
        }
        if !are_axes {
            return;
        }
        let steps = &self.axes[STEP];
        let valid =
            self.axes[TIME].iter().flat_map(|time| steps.iter().map(|step| (time[0] + step[0]) as i64));
        let (dimensions, numbers) = (Dimensions::Named(times), Numbers::Integers(valid.collect()));
        self.others.push(coordinates.add("valid_time", dimensions, numbers, VALID_TIME_TEXTS));
        for axis in &self.grid.axes {
            let name = match &axis.coordinates {
                None => coordinates.bare(axis.name, axis.len),
                Some(numbers) => {
                    let texts = if axis.name == "latitude" { LATITUDE_TEXTS } else { LONGITUDE_TEXTS };
                    coordinates.add(axis.name, Dimensions::Own, Numbers::Floats(numbers.clone()), texts)
                }
            };
            self.dimensions.push(Some(name));
        }
    }

    pub fn into_array(self, file: &Arc<LocalFile>) -> SourceArray {
        let text = |name: &str, text: &str| (name.to_owned(), AttributeValue::Text(text.to_owned()));
        let mut attributes: NewAttributes = vec![
            text("long_name", &self.names.long_name),
            text("units", &self.names.units),
            text("coordinates", &self.others.join(" ")),
            text("GRIB_typeOfLevel", &self.key.level_type),
            text("GRIB_stepType", &self.key.step_type),
            text("GRIB_gridType", self.grid.name),
        ];
        attributes.extend(self.names.standard_name.iter().map(|name| text("standard_name", name)));
        let is_double = self.cells.iter().flatten().any(|values| values.is_double);
        let (dtype, fill) = match is_double {
            true => (Dtype::Float64, f64::NAN.to_le_bytes().to_vec()),
            false => (Dtype::Float32, f32::NAN.to_le_bytes().to_vec()),
        };
        let lens = self.axes.iter().map(|axis| axis.len() as u64).filter(|len| *len > 1);
        let field_shape: Vec<u64> = self.grid.axes.iter().map(|axis| axis.len).collect();
        let shape: Vec<u64> = lens.chain(field_shape.iter().copied()).collect();
        let elements = FieldElements {
            file: Arc::clone(file),
            cells: self.cells,
            header_axes: shape.len() - field_shape.len(),
            shape: shape.clone(),
            dtype,
            alternating: self.grid.alternating,
        };
        SourceArray {
            name: self.name,
            dtype,
            chunk_shape: Some(elements.chunk_shape()),
            shape,
            fill: fill.into(),
            dimensions: self.dimensions,
            attributes,
            elements: Arc::new(elements),
        }
    }
}

/// The order of the middles of layers.
fn order(left: &Position, right: &Position) -> std::cmp::Ordering {
    let middle = |at: &Position| at[0] + at[1];
    let bound = |bound: usize| left[bound].total_cmp(&right[bound]);
    middle(left).total_cmp(&middle(right)).then(bound(0)).then(bound(1))
}

/// The values of an array.
struct FieldElements {
    file: Arc<LocalFile>,
    cells: Vec<Option<Values>>,
    shape: Vec<u64>,
    /// The number of axes before those of the grid.
    header_axes: usize,
    dtype: Dtype,
    alternating: u32,
}

impl FieldElements {
    fn chunk_shape(&self) -> Vec<u64> {
        let mut shape = self.shape.clone();
        shape[..self.header_axes].fill(1);
        shape
    }

    fn decode(&self, range: ByteRange) -> Result<Bytes> {
        let element_bytes = self.dtype.size_bytes() as u32;
        let points: u64 = self.shape[self.header_axes..].iter().product();
        let encoded = Bytes::from(self.file.read(range.offset_bytes, range.len_bytes)?);
        let codec = BytesCodec::Grib { element_bytes, row_elements: self.alternating };
        let codecs: Codecs = Bounded(vec![codec]);
        let decoded = codecs.decode(&encoded, points as usize * self.dtype.size_bytes(), &mut || Ok(()));
        decoded.map_err(|error| error.with("offset_bytes", range.offset_bytes))
    }
}

impl ReadElements for FieldElements {
    fn read(&self, start: &[u64], counts: &[u64]) -> Result<Vec<u8>> {
        let (start, field_start) = start.split_at(self.header_axes);
        let (counts, field_counts) = counts.split_at(self.header_axes);
        let (header_shape, field_shape) = self.shape.split_at(self.header_axes);
        let element_bytes = self.dtype.size_bytes() as u64;
        let mut data = Vec::new();
        for index in 0..counts.iter().product() {
            // The position in the box, and from it the cell.
            let (mut rest, mut cell, mut stride) = (index, 0, 1);
            for axis in (0..self.header_axes).rev() {
                cell += (start[axis] + rest % counts[axis]) * stride;
                rest /= counts[axis];
                stride *= header_shape[axis];
            }
            match self.cells[cell as usize] {
                Some(values) => {
                    let field = self.decode(values.range)?;
                    copy_box(&field, field_shape, field_start, field_counts, element_bytes, &mut data);
                }
                None => {
                    let nan = match self.dtype {
                        Dtype::Float64 => f64::NAN.to_le_bytes().to_vec(),
                        _ => f32::NAN.to_le_bytes().to_vec(),
                    };
                    data.extend(nan.repeat(field_counts.iter().product::<u64>() as usize));
                }
            }
        }
        Ok(data)
    }

    fn chunks(&self) -> Result<Option<FileChunks>> {
        let is_far = |values: &Values| values.shares_bitmap && values.range.len_bytes > PART_BYTES;
        if self.cells.iter().flatten().any(is_far) {
            let reason = "its fields share a bitmap that is far before them; split the messages with: \
                          grib_copy IN OUT";
            return Err(not_in_chunks(reason));
        }
        let configuration =
            json!({ "elementsize": self.dtype.size_bytes(), "alternating": self.alternating });
        Ok(Some(FileChunks {
            chunk_shape: self.chunk_shape(),
            is_clipped: false,
            is_big_endian: false,
            codecs: vec![json!({ "name": GRIB_CODEC, "configuration": configuration })],
            ranges: self.cells.iter().map(|values| values.map(|values| values.range)).collect(),
        }))
    }
}
