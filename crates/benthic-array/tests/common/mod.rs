//! Arrays for tests: random ones, stored with every codec that a test can encode, and the results
//! of NumPy's definitions, computed slowly and obviously.

pub mod hostile;
pub mod regrid;
pub mod statistics;
pub mod suite;

use benthic_array::{Array, Dtype, Place, Slice};
use benthic_core::{ObjectId, Pool};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;

/// A small generator of random numbers (xorshift64*).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number less than `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}

/// An array in memory. The values are quarters, so that sums of floats are exact in any order.
#[derive(Clone, Debug)]
pub struct Expected {
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    /// In C order; NaN for a missing float.
    pub values: Vec<f64>,
}

impl Expected {
    pub fn random(numbers: &mut Numbers, dtype: Dtype, shape: &[u64]) -> Expected {
        let elements: u64 = shape.iter().product();
        let value = |numbers: &mut Numbers| match dtype {
            Dtype::Bool => numbers.below(2) as f64,
            Dtype::Float32 | Dtype::Float64 if numbers.below(20) == 0 => f64::NAN,
            Dtype::Float32 | Dtype::Float64 => numbers.below(4_000) as f64 / 4.0 - 300.0,
            Dtype::Int8 | Dtype::Int16 | Dtype::Int32 | Dtype::Int64 => numbers.below(200) as f64 - 100.0,
            _ => numbers.below(200) as f64,
        };
        let values = (0..elements).map(|_| value(numbers)).collect();
        Expected { dtype, shape: shape.to_vec(), values }
    }

    fn at(&self, position: &[u64]) -> f64 {
        let index = position.iter().zip(&self.shape).fold(0, |index, (at, len)| index * len + at);
        self.values[index as usize]
    }

    /// The selected values, each with its index in the selection.
    pub fn selected(&self, slices: &[Slice]) -> Vec<(Vec<u64>, f64)> {
        let counts: Vec<u64> = slices.iter().map(|slice| slice.count).collect();
        positions(&counts)
            .into_iter()
            .map(|index| {
                let position: Vec<u64> =
                    index.iter().zip(slices).map(|(index, slice)| slice.start + index * slice.step).collect();
                let value = self.at(&position);
                (index, value)
            })
            .collect()
    }
}

/// All positions of a box, in C order.
pub fn positions(shape: &[u64]) -> Vec<Vec<u64>> {
    shape.iter().fold(vec![Vec::new()], |before, len| {
        before
            .iter()
            .flat_map(|start| (0..*len).map(|at| start.iter().copied().chain([at]).collect()))
            .collect()
    })
}

pub fn encode(dtype: Dtype, value: f64, is_big_endian: bool) -> Vec<u8> {
    let mut bytes = match dtype {
        Dtype::Bool | Dtype::Uint8 => vec![value as u8],
        Dtype::Int8 => (value as i8).to_le_bytes().to_vec(),
        Dtype::Int16 => (value as i16).to_le_bytes().to_vec(),
        Dtype::Int32 => (value as i32).to_le_bytes().to_vec(),
        Dtype::Int64 => (value as i64).to_le_bytes().to_vec(),
        Dtype::Uint16 => (value as u16).to_le_bytes().to_vec(),
        Dtype::Uint32 => (value as u32).to_le_bytes().to_vec(),
        Dtype::Uint64 => (value as u64).to_le_bytes().to_vec(),
        Dtype::Float32 => (value as f32).to_le_bytes().to_vec(),
        Dtype::Float64 => value.to_le_bytes().to_vec(),
    };
    if is_big_endian {
        bytes.reverse();
    }
    bytes
}

/// How an array is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    pub chunk: Vec<u64>,
    /// The shape of inner chunks, if chunks are shards.
    pub inner: Option<Vec<u64>>,
    pub codec: &'static str,
    pub is_big_endian: bool,
    pub is_transposed: bool,
    pub is_index_at_start: bool,
}

pub const CODECS: [&str; 8] = ["none", "gzip", "zlib", "zstd", "lz4", "shuffle", "crc32c", "fletcher32"];

fn compress(codec: &str, element_bytes: usize, data: &[u8]) -> Vec<u8> {
    match codec {
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        }
        "zlib" => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        }
        "zstd" => zstd::bulk::compress(data, 1).unwrap(),
        "lz4" => {
            let len = (data.len() as u32).to_le_bytes();
            len.into_iter().chain(lz4_flex::block::compress(data)).collect()
        }
        "shuffle" => {
            let count = data.len() / element_bytes;
            (0..element_bytes)
                .flat_map(|byte| (0..count).map(move |index| data[index * element_bytes + byte]))
                .collect()
        }
        "crc32c" => data.iter().copied().chain(crc32c::crc32c(data).to_le_bytes()).collect(),
        "fletcher32" => {
            let (mut low, mut high) = (0u64, 0u64);
            for word in data.chunks(2) {
                low += u64::from(word[0]) << 8 | u64::from(word.get(1).copied().unwrap_or(0));
                high += low;
            }
            // As HDF5 folds its sums: never to 0, unless all words are.
            let fold = |sum: u64| if sum > 0 && sum.is_multiple_of(65_535) { 65_535 } else { sum % 65_535 };
            let sum = ((fold(high) << 16) | fold(low)) as u32;
            data.iter().copied().chain(sum.to_le_bytes()).collect()
        }
        _ => data.to_vec(),
    }
}

impl Stored {
    fn codecs(&self, dtype: Dtype, axes: usize) -> Value {
        let mut codecs = Vec::new();
        if self.is_transposed {
            let order: Vec<usize> = (0..axes).rev().collect();
            codecs.push(json!({"name": "transpose", "configuration": {"order": order}}));
        }
        let endian = if self.is_big_endian { "big" } else { "little" };
        codecs.push(json!({"name": "bytes", "configuration": {"endian": endian}}));
        match self.codec {
            "none" => {}
            "shuffle" => codecs.push(
                json!({"name": "numcodecs.shuffle", "configuration": {"elementsize": dtype.size_bytes()}}),
            ),
            codec @ ("gzip" | "zstd" | "crc32c") => codecs.push(json!({"name": codec, "configuration": {}})),
            codec => codecs.push(json!({"name": format!("numcodecs.{codec}")})),
        }
        let codecs = Value::Array(codecs);
        let Some(inner) = &self.inner else { return codecs };
        let location = if self.is_index_at_start { "start" } else { "end" };
        json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": inner, "codecs": codecs, "index_location": location,
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]}}])
    }

    fn chunk(&self, array: &Expected, origin: &[u64], shape: &[u64], fill: f64) -> Option<Vec<u8>> {
        let order: Vec<Vec<u64>> = match self.is_transposed {
            false => positions(shape),
            true => {
                let reversed: Vec<u64> = shape.iter().rev().copied().collect();
                positions(&reversed).into_iter().map(|at| at.into_iter().rev().collect()).collect()
            }
        };
        let mut data = Vec::new();
        let mut is_empty = true;
        for at in order {
            let at: Vec<u64> = at.iter().zip(origin).map(|(at, origin)| at + origin).collect();
            let is_in = at.iter().zip(&array.shape).all(|(at, len)| at < len);
            let value = if is_in { array.at(&at) } else { fill };
            is_empty &= value.to_bits() == fill.to_bits();
            data.extend(encode(array.dtype, value, self.is_big_endian));
        }
        (!is_empty).then(|| compress(self.codec, array.dtype.size_bytes(), &data))
    }

    /// Stores an array. Chunks of fill values alone are not stored.
    pub async fn store(&self, place: &Place, array: &Expected, fill: f64) -> Array {
        let fill_json = if fill.is_nan() { json!("NaN") } else { json!(fill) };
        let fill_json = if array.dtype == Dtype::Bool { json!(fill != 0.0) } else { fill_json };
        let document = json!({
            "zarr_format": 3, "node_type": "array", "shape": array.shape, "data_type": array.dtype.name(),
            "fill_value": fill_json, "attributes": {},
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": self.chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": self.codecs(array.dtype, array.shape.len()),
        });
        let put = async |key: &str, data: Vec<u8>| {
            place.pool.write_full(&place.object(key).unwrap(), data).await.unwrap();
        };
        put("zarr.json", document.to_string().into_bytes()).await;
        let grid: Vec<u64> =
            array.shape.iter().zip(&self.chunk).map(|(len, chunk)| len.div_ceil(*chunk)).collect();
        for cell in positions(&grid) {
            let origin: Vec<u64> = cell.iter().zip(&self.chunk).map(|(index, len)| index * len).collect();
            let encoded = match &self.inner {
                None => self.chunk(array, &origin, &self.chunk, fill),
                Some(inner) => self.shard(array, &origin, inner, fill),
            };
            if let Some(encoded) = encoded {
                let key = std::iter::once("c".to_owned()).chain(cell.iter().map(u64::to_string));
                put(&key.collect::<Vec<_>>().join("/"), encoded).await;
            }
        }
        Array::open(place.clone()).await.unwrap()
    }

    fn shard(&self, array: &Expected, origin: &[u64], inner: &[u64], fill: f64) -> Option<Vec<u8>> {
        let grid: Vec<u64> = self.chunk.iter().zip(inner).map(|(len, inner)| len / inner).collect();
        let index_bytes = positions(&grid).len() * 16 + 4;
        let mut data = if self.is_index_at_start { vec![0; index_bytes] } else { Vec::new() };
        let start = data.len();
        let mut index = Vec::new();
        for cell in positions(&grid) {
            let at = cell.iter().zip(inner).zip(origin).map(|((index, len), origin)| origin + index * len);
            let (offset, len) = match self.chunk(array, &at.collect::<Vec<_>>(), inner, fill) {
                None => (u64::MAX, u64::MAX),
                Some(chunk) => {
                    data.extend_from_slice(&chunk);
                    ((data.len() - chunk.len()) as u64, chunk.len() as u64)
                }
            };
            index.extend_from_slice(&offset.to_le_bytes());
            index.extend_from_slice(&len.to_le_bytes());
        }
        if data.len() == start {
            return None;
        }
        index.extend_from_slice(&crc32c::crc32c(&index).to_le_bytes());
        match self.is_index_at_start {
            true => data[..index_bytes].copy_from_slice(&index),
            false => data.extend(index),
        }
        Some(data)
    }
}

pub fn place(pool: &Arc<dyn Pool>, path: &str) -> Place {
    Place { pool: Arc::clone(pool), namespace: String::new(), path: path.to_owned() }
}

pub fn object(name: &str) -> ObjectId {
    ObjectId::new(name).unwrap()
}
