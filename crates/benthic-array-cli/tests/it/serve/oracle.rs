//! Random requests and their results, computed slowly and obviously.

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;

/// A part of a result in CBOR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Bytes(Vec<u8>),
    Text(String),
    Numbers(Vec<u64>),
}

/// Parses a map in CBOR.
pub fn parse(data: &[u8]) -> BTreeMap<String, Item> {
    fn head(data: &mut &[u8]) -> (u8, u64) {
        let first = data[0];
        let len = match first & 31 {
            0..24 => {
                *data = &data[1..];
                return (first >> 5, (first & 31).into());
            }
            24 => 1,
            25 => 2,
            26 => 4,
            _ => 8,
        };
        let number = data[1..=len].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        *data = &data[1 + len..];
        (first >> 5, number)
    }
    fn item(data: &mut &[u8]) -> Item {
        let (major, len) = head(data);
        if major == 4 {
            let number = |data: &mut &[u8]| match head(data) {
                (0, number) => number,
                other => panic!("not a number: {other:?}"),
            };
            return Item::Numbers((0..len).map(|_| number(data)).collect());
        }
        let (bytes, rest) = data.split_at(len as usize);
        *data = rest;
        match major {
            2 => Item::Bytes(bytes.to_vec()),
            3 => Item::Text(String::from_utf8(bytes.to_vec()).unwrap()),
            _ => panic!("an unexpected item of type {major}"),
        }
    }
    let mut rest = data;
    let (5, len) = head(&mut rest) else { panic!("not a map") };
    let mut map = BTreeMap::new();
    for _ in 0..len {
        let Item::Text(name) = item(&mut rest) else { panic!("a name is not a text") };
        assert!(map.insert(name, item(&mut rest)).is_none());
    }
    assert!(rest.is_empty());
    map
}

/// A small generator of random numbers (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % end
    }

    fn is_one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

const DTYPES: [&str; 6] = ["int32", "int64", "uint32", "uint64", "float32", "float64"];

/// An array in an object, and a request for a part of it.
pub struct Case {
    pub seed: u64,
    dtype: &'static str,
    shape: Vec<usize>,
    /// In C order. Sums of them are exact in every type.
    values: Vec<f64>,
    is_big_endian: bool,
    is_fortran: bool,
    is_shuffled: bool,
    compression: Option<&'static str>,
    before_bytes: usize,
    /// Start, end and step of each axis.
    selection: Option<Vec<[i64; 3]>>,
    axes: Option<Vec<usize>>,
    missing: Value,
    as_bytes: bool,
}

impl Case {
    pub fn random(seed: u64) -> Case {
        let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let dtype = DTYPES[numbers.below(6) as usize];
        let shape: Vec<usize> = (0..=numbers.below(3)).map(|_| 1 + numbers.below(7) as usize).collect();
        let value = |numbers: &mut Numbers| match dtype {
            "float32" | "float64" if numbers.is_one_in(300) => f64::NAN,
            "float32" | "float64" => numbers.below(400) as f64 / 4.0 - 50.0,
            "int32" | "int64" => numbers.below(40) as f64 - 20.0,
            _ => numbers.below(40) as f64,
        };
        let values: Vec<f64> = (0..shape.iter().product()).map(|_| value(&mut numbers)).collect();
        let bound =
            |numbers: &mut Numbers, len: usize| numbers.below(2 * len as u64 + 4) as i64 - len as i64 - 2;
        let slice = |numbers: &mut Numbers, len: usize| {
            let step = 1 + numbers.below(3) as i64;
            match numbers.below(4) {
                0 => [0, len as i64, 1],
                1 => [bound(numbers, len), bound(numbers, len), -step],
                _ => [bound(numbers, len), bound(numbers, len), step],
            }
        };
        let is_part = !numbers.is_one_in(3);
        let selection = is_part.then(|| shape.iter().map(|len| slice(&mut numbers, *len)).collect());
        let is_some = !numbers.is_one_in(3);
        let axes = is_some.then(|| (0..shape.len()).filter(|_| numbers.is_one_in(2)).collect());
        let json = |value: f64| if dtype.starts_with("float") { json!(value) } else { json!(value as i64) };
        let mut one = || {
            json(
                values
                    .iter()
                    .copied()
                    .find(|_| numbers.is_one_in(5))
                    .filter(|one| !one.is_nan())
                    .unwrap_or(3.0),
            )
        };
        let (first, second) = (one(), one());
        let missing = match numbers.below(7) {
            0 => json!({ "missing_value": first }),
            1 => json!({ "missing_values": [first, second] }),
            2 => json!({ "valid_min": first }),
            3 => json!({ "valid_max": first }),
            4 => json!({ "valid_range": [json(2.0), json(15.0)] }),
            _ => Value::Null,
        };
        Case {
            seed,
            dtype,
            shape,
            values,
            is_big_endian: numbers.is_one_in(2),
            is_fortran: numbers.is_one_in(3),
            is_shuffled: numbers.is_one_in(3),
            compression: [None, Some("gzip"), Some("zlib")][numbers.below(3) as usize],
            before_bytes: numbers.below(50) as usize,
            selection,
            axes,
            missing,
            as_bytes: numbers.is_one_in(4),
        }
    }

    fn size_bytes(&self) -> usize {
        if self.dtype.ends_with("64") { 8 } else { 4 }
    }

    fn element(&self, value: f64) -> Vec<u8> {
        match self.dtype {
            "int32" => (value as i32).to_le_bytes().to_vec(),
            "uint32" => (value as u32).to_le_bytes().to_vec(),
            "int64" => (value as i64).to_le_bytes().to_vec(),
            "uint64" => (value as u64).to_le_bytes().to_vec(),
            "float32" => (value as f32).to_le_bytes().to_vec(),
            _ => value.to_le_bytes().to_vec(),
        }
    }

    /// The positions of a box, in C order or in Fortran's.
    fn positions(lens: &[usize], is_fortran: bool) -> Vec<Vec<usize>> {
        let mut positions = vec![Vec::new()];
        for len in lens {
            positions = positions
                .into_iter()
                .flat_map(|position| (0..*len).map(move |index| [&position[..], &[index]].concat()))
                .collect();
        }
        if is_fortran {
            positions.sort_by_key(|position| position.iter().rev().copied().collect::<Vec<_>>());
        }
        positions
    }

    fn at(&self, position: &[usize]) -> f64 {
        let index = position.iter().zip(&self.shape).fold(0, |index, (at, len)| index * len + at);
        self.values[index]
    }

    fn encoded(&self) -> Vec<u8> {
        let size_bytes = self.size_bytes();
        let mut data = Vec::new();
        for position in Case::positions(&self.shape, self.is_fortran) {
            let mut element = self.element(self.at(&position));
            if self.is_big_endian {
                element.reverse();
            }
            data.extend(element);
        }
        if self.is_shuffled {
            let elements = data.len() / size_bytes;
            let at = |index: usize| data[index % elements * size_bytes + index / elements];
            data = (0..data.len()).map(at).collect();
        }
        match self.compression {
            Some("gzip") => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(&data).unwrap();
                encoder.finish().unwrap()
            }
            Some(_) => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(&data).unwrap();
                encoder.finish().unwrap()
            }
            None => data,
        }
    }

    /// The object: the chunk between other bytes.
    pub fn object(&self) -> Vec<u8> {
        [vec![0xA5; self.before_bytes], self.encoded(), vec![0x5A; 20]].concat()
    }

    pub fn request(&self, url: &str) -> Value {
        let mut request = json!({
            "interface_type": "s3", "url": url, "dtype": self.dtype, "offset": self.before_bytes,
            "size": self.encoded().len(), "shape": self.shape,
            "byte_order": if self.is_big_endian { "big" } else { "little" },
            "order": if self.is_fortran { "F" } else { "C" }, "selection": self.selection, "axis": self.axes,
            "missing": self.missing, "option_shape_as_bytes": self.as_bytes,
            "option_count_as_bytes": self.as_bytes,
        });
        if self.is_shuffled {
            request["filters"] = json!([{"id": "shuffle", "element_size": self.size_bytes()}]);
        }
        if let Some(id) = self.compression {
            request["compression"] = json!({ "id": id });
        }
        if let Some([axis]) = self.axes.as_deref() {
            request["axis"] = json!(axis);
        }
        request
    }

    /// The positions that a slice selects, as Python's `range(len)[start:end:step]`.
    fn selected(&self, axis: usize) -> Vec<usize> {
        let len = self.shape[axis] as i64;
        let Some(selection) = &self.selection else { return (0..len as usize).collect() };
        let [start, end, step] = selection[axis];
        let wrap = |index: i64| if index < 0 { index + len } else { index };
        let (start, end) = (wrap(start), wrap(end));
        // Walk far enough in both directions, and keep the positions on the axis.
        let first = if step > 0 { start.max(0) } else { start.min(len - 1) };
        (0..len + 2)
            .map(|index| first + index * step)
            .filter(|at| (0..len).contains(at) && if step > 0 { *at < end } else { *at > end })
            .map(|at| at as usize)
            .collect()
    }

    fn is_missing(&self, value: f64) -> bool {
        let number = |value: &Value| value.as_f64().unwrap();
        let missing = &self.missing;
        let has =
            |name: &str, test: &dyn Fn(f64) -> bool| !missing[name].is_null() && test(number(&missing[name]));
        has("missing_value", &|one| value == one)
            || missing["missing_values"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| value == number(one)))
            || has("valid_min", &|min| value < min)
            || has("valid_max", &|max| value > max)
            || missing["valid_range"]
                .as_array()
                .is_some_and(|range| value < number(&range[0]) || value > number(&range[1]))
    }

    fn limit(&self, is_largest: bool) -> Vec<u8> {
        match (self.dtype, is_largest) {
            ("int32", true) => i32::MAX.to_le_bytes().to_vec(),
            ("int32", false) => i32::MIN.to_le_bytes().to_vec(),
            ("int64", true) => i64::MAX.to_le_bytes().to_vec(),
            ("int64", false) => i64::MIN.to_le_bytes().to_vec(),
            ("uint32", true) => u32::MAX.to_le_bytes().to_vec(),
            ("uint64", true) => u64::MAX.to_le_bytes().to_vec(),
            ("float32", true) => f32::MAX.to_le_bytes().to_vec(),
            ("float32", false) => f32::MIN.to_le_bytes().to_vec(),
            ("float64", true) => f64::MAX.to_le_bytes().to_vec(),
            ("float64", false) => f64::MIN.to_le_bytes().to_vec(),
            _ => vec![0; self.size_bytes()],
        }
    }

    fn reduced(&self, operation: &str, values: &[f64]) -> Vec<u8> {
        if operation == "count" {
            return (values.len() as u64).to_le_bytes().to_vec();
        }
        if operation == "sum" {
            return self.element(values.iter().sum());
        }
        if values.iter().any(|value| value.is_nan()) {
            return self.element(f64::NAN);
        }
        let is_minimum = operation == "min";
        let best = values
            .iter()
            .copied()
            .reduce(|one, other| if is_minimum { one.min(other) } else { one.max(other) });
        best.map_or_else(|| self.limit(is_minimum), |best| self.element(best))
    }

    /// Checks a result. The data are in C order, except that elements in Fortran's order stay in
    /// it.
    pub fn check(&self, operation: &str, result: &BTreeMap<String, Item>) {
        let context = format!("seed={} {operation} {}", self.seed, self.request(""));
        let selected: Vec<Vec<usize>> = (0..self.shape.len()).map(|axis| self.selected(axis)).collect();
        let axes = match (&self.axes, operation) {
            (_, "select") => Vec::new(),
            (None, _) => (0..self.shape.len()).collect(),
            (Some(axes), _) => axes.clone(),
        };
        let kept: Vec<usize> = (0..self.shape.len()).filter(|axis| !axes.contains(axis)).collect();
        let lens = |axes: &[usize]| axes.iter().map(|axis| selected[*axis].len()).collect::<Vec<_>>();
        let shape = lens(&kept);
        let is_fortran = self.is_fortran && axes.is_empty() && operation != "count";
        let (mut data, mut counts) = (Vec::new(), Vec::new());
        for outer in Case::positions(&shape, is_fortran) {
            let mut values = Vec::new();
            for inner in Case::positions(&lens(&axes), false) {
                let mut position = vec![0; self.shape.len()];
                kept.iter().zip(&outer).for_each(|(axis, index)| position[*axis] = selected[*axis][*index]);
                axes.iter().zip(&inner).for_each(|(axis, index)| position[*axis] = selected[*axis][*index]);
                values.push(self.at(&position));
            }
            let is_element = axes.is_empty() && operation != "count";
            let present: Vec<f64> = values.iter().copied().filter(|value| !self.is_missing(*value)).collect();
            counts.push(present.len() as u64);
            data.extend(if is_element { self.element(values[0]) } else { self.reduced(operation, &present) });
        }
        if operation == "select" {
            counts = vec![counts.iter().sum()];
        }
        let dtype = if operation == "count" { "int64" } else { self.dtype };
        assert_eq!(result["dtype"], Item::Text(dtype.to_owned()), "{context}");
        assert_eq!(result["byte_order"], Item::Text("little".to_owned()));
        let shape = shape.into_iter().map(|len| len as u64).collect();
        for (name, numbers) in [("shape", shape), ("count", counts)] {
            let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            let (list, bytes) = if self.as_bytes { (Vec::new(), bytes) } else { (numbers, Vec::new()) };
            assert_eq!(result[name], Item::Numbers(list), "{name} {context}");
            assert_eq!(result[&format!("{name}_as_bytes")], Item::Bytes(bytes), "{name} {context}");
        }
        let Item::Bytes(found) = &result["bytes"] else { panic!("{context}") };
        assert_eq!(self.numbers(dtype, found), self.numbers(dtype, &data), "{context}");
    }

    /// The elements as texts, in which all NaN are the same.
    fn numbers(&self, dtype: &str, data: &[u8]) -> Vec<String> {
        match dtype {
            "float32" => data
                .as_chunks()
                .0
                .iter()
                .map(|bytes| f32::from_le_bytes(*bytes).abs_zero().to_string())
                .collect(),
            "float64" => data
                .as_chunks()
                .0
                .iter()
                .map(|bytes| f64::from_le_bytes(*bytes).abs_zero().to_string())
                .collect(),
            _ => data
                .chunks(if dtype.ends_with("64") { 8 } else { 4 })
                .map(|bytes| format!("{bytes:?}"))
                .collect(),
        }
    }
}

/// The sum of no values is 0.0, that of Rust's iterator -0.0.
trait AbsZero {
    fn abs_zero(self) -> Self;
}

impl AbsZero for f32 {
    fn abs_zero(self) -> f32 {
        if self == 0.0 { 0.0 } else { self }
    }
}

impl AbsZero for f64 {
    fn abs_zero(self) -> f64 {
        if self == 0.0 { 0.0 } else { self }
    }
}
