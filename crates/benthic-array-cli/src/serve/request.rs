//! Requests of Reductionist's API, version 2 (stackhpc/reductionist-rs, `docs/api.md`), checked.

use super::failure::Failure;
use super::number::Number;
use benthic_array::decoders::BytesCodec;
use benthic_array::{Bounded, Dtype, Missing, parse_with_nan};
use bytes::Bytes;
use serde_json::{Map, Value};

/// Limit on the axes of a chunk, as in the class.
const AXES_MAX: usize = 32;
/// Limit on the filters. A compression is one more codec.
const FILTERS_MAX: usize = 15;
/// Limit on the different missing values, as in the class.
const MISSING_MAX: usize = 16;

/// The operation that a request computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Count,
    Sum,
    Min,
    Max,
    Select,
}

impl Operation {
    pub const ALL: [(&'static str, Operation); 5] = [
        ("count", Operation::Count),
        ("max", Operation::Max),
        ("min", Operation::Min),
        ("select", Operation::Select),
        ("sum", Operation::Sum),
    ];
}

/// The axes that a request reduces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Axes {
    All,
    /// In ascending order. May be empty: then each element is a result.
    Some(Vec<usize>),
}

/// Positions along an axis, as Python's slices have them: a start, an end and a step.
pub type PythonSlice = [i64; 3];

/// A checked request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub pool: String,
    pub object: String,
    pub dtype: Dtype,
    pub is_big_endian: bool,
    pub offset_bytes: u64,
    /// The rest of the object if absent.
    pub len_bytes: Option<u64>,
    /// One axis of unknown length if absent.
    pub shape: Option<Vec<u64>>,
    pub is_fortran: bool,
    pub selection: Option<Vec<PythonSlice>>,
    pub axes: Axes,
    /// In the order of encoding.
    pub codecs: Vec<BytesCodec>,
    pub missing: Missing,
    pub shape_as_bytes: bool,
    pub count_as_bytes: bool,
}

/// The fields of a JSON object that are not read yet.
struct Fields(Map<String, Value>);

impl Fields {
    fn of(value: Value, name: &str) -> Result<Fields, Failure> {
        match value {
            Value::Object(fields) => Ok(Fields(fields)),
            _ => Err(invalid(name, "it is not an object")),
        }
    }

    /// Takes a field. An absent one is null.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    fn require(&mut self, name: &str) -> Result<Value, Failure> {
        self.take(name).ok_or_else(|| invalid(name, "it is missing"))
    }

    fn text(&mut self, name: &str) -> Result<String, Failure> {
        match self.require(name)? {
            Value::String(text) => Ok(text),
            _ => Err(invalid(name, "it is not a string")),
        }
    }

    fn flag(&mut self, name: &str) -> Result<bool, Failure> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(invalid(name, "it is neither true nor false")),
        }
    }

    fn size(&mut self, name: &str) -> Result<Option<u64>, Failure> {
        self.take(name).map(|value| unsigned(&value, name)).transpose()
    }

    /// Takes a list. `None` if the field is absent.
    fn list(&mut self, name: &str, len_max: usize) -> Result<Option<Vec<Value>>, Failure> {
        self.take(name).map(|value| list(value, name, len_max)).transpose()
    }

    fn finish(self, name: &str) -> Result<(), Failure> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(field) => Err(Failure::bad_request(format!("{name} has the unknown field {field}"))),
        }
    }
}

fn invalid(field: &str, why: &str) -> Failure {
    Failure::bad_request(format!("the field {field} is invalid: {why}"))
}

fn list(value: Value, name: &str, len_max: usize) -> Result<Vec<Value>, Failure> {
    match value {
        Value::Array(items) if items.len() <= len_max => Ok(items),
        Value::Array(_) => Err(invalid(name, &format!("it has more than {len_max} items"))),
        _ => Err(invalid(name, "it is not a list")),
    }
}

fn unsigned(value: &Value, name: &str) -> Result<u64, Failure> {
    let number = Number::of(value).and_then(Number::integer).and_then(|number| number.try_into().ok());
    number.ok_or_else(|| invalid(name, "it is not an integer of 64 bits, or is negative"))
}

/// An index of a slice. Every number beyond the longest axis means the same.
fn index(value: &Value, name: &str) -> Result<i64, Failure> {
    let number = Number::of(value).and_then(Number::integer).and_then(|number| number.try_into().ok());
    number.ok_or_else(|| invalid(name, "an index is not an integer of 64 bits"))
}

impl Request {
    /// Parses the body of a request, and checks everything that does not depend on the object.
    pub fn parse(body: &[u8]) -> Result<Request, Failure> {
        let body = parse_with_nan(body)
            .map_err(|error| Failure::bad_request(format!("the body is not valid JSON: {error}")))?;
        let mut fields = Fields::of(body, "request")?;
        let interface = fields.text("interface_type")?;
        if !["s3", "http", "https"].contains(&interface.as_str()) {
            return Err(invalid("interface_type", "it is not s3, http or https"));
        }
        let (pool, object) = address(&fields.text("url")?)?;
        let dtype = match fields.text("dtype")?.as_str() {
            "int32" => Dtype::Int32,
            "int64" => Dtype::Int64,
            "uint32" => Dtype::Uint32,
            "uint64" => Dtype::Uint64,
            "float32" => Dtype::Float32,
            "float64" => Dtype::Float64,
            _ => return Err(invalid("dtype", "it is not int32, int64, uint32, uint64, float32 or float64")),
        };
        let one_of = |fields: &mut Fields, name: &str, choices: [&str; 2]| match fields.take(name) {
            None => Ok(false),
            Some(Value::String(text)) if text == choices[0] => Ok(false),
            Some(Value::String(text)) if text == choices[1] => Ok(true),
            Some(_) => Err(invalid(name, &format!("it is neither {} nor {}", choices[0], choices[1]))),
        };
        let is_big_endian = one_of(&mut fields, "byte_order", ["little", "big"])?;
        let is_fortran = one_of(&mut fields, "order", ["C", "F"])?;
        let offset_bytes = fields.size("offset")?.unwrap_or(0);
        let len_bytes = fields.size("size")?;
        let shape = shape(&mut fields)?;
        let selection = match fields.take("selection") {
            Some(_) if shape.is_none() => return Err(Failure::bad_request("a selection needs a shape")),
            value => value.map(selection).transpose()?,
        };
        let axes = axes(&mut fields)?;
        let codecs = codecs(&mut fields)?;
        let missing = fields.take("missing").map(|value| missing(value, dtype)).transpose()?;
        fields.flag("option_disable_chunk_cache")?;
        let shape_as_bytes = fields.flag("option_shape_as_bytes")?;
        let count_as_bytes = fields.flag("option_count_as_bytes")?;
        fields.finish("the request")?;
        let request = Request {
            pool,
            object,
            dtype,
            is_big_endian,
            offset_bytes,
            len_bytes,
            shape,
            is_fortran,
            selection,
            axes,
            codecs,
            missing: missing.unwrap_or_default(),
            shape_as_bytes,
            count_as_bytes,
        };
        request.check()?;
        Ok(request)
    }

    /// Whether the stored bytes are the elements, perhaps in another order.
    pub fn is_compressed(&self) -> bool {
        !self.codecs.iter().all(|codec| matches!(codec, BytesCodec::Shuffle { .. }))
    }

    fn check(&self) -> Result<(), Failure> {
        match self.len_bytes {
            Some(0) => return Err(invalid("size", "it is 0")),
            Some(len) if self.offset_bytes.checked_add(len).is_none() => {
                return Err(invalid("size", "the range ends after 2⁶⁴ bytes"));
            }
            _ => {}
        }
        let Some(shape) = &self.shape else {
            if self.axes != Axes::All {
                return Err(Failure::bad_request("an axis needs a shape"));
            }
            if self.is_compressed() {
                return Err(Failure::bad_request("a compression needs a shape, which limits the result"));
            }
            return Ok(());
        };
        if let Some(selection) = &self.selection
            && selection.len() != shape.len()
        {
            return Err(invalid("selection", "it does not have one slice for each axis of the shape"));
        }
        match &self.axes {
            Axes::Some(axes) if axes.iter().any(|axis| *axis >= shape.len()) => {
                Err(invalid("axis", "the shape has no such axis"))
            }
            Axes::Some(axes) if !axes.is_sorted_by(|one, next| one < next) => {
                Err(invalid("axis", "the axes are not in ascending order, or one occurs twice"))
            }
            _ => Ok(()),
        }
    }
}

/// The pool and the object of a URL. The server is irrelevant: the store is always this one.
fn address(url: &str) -> Result<(String, String), Failure> {
    let wrong = || invalid("url", "it is not SCHEME://SERVER/POOL/OBJECT");
    let (_, rest) = url.split_once("://").ok_or_else(wrong)?;
    let path = rest.split(['?', '#']).next().and_then(|rest| rest.split_once('/')).ok_or_else(wrong)?.1;
    // PyActiveStorage puts two slashes between the bucket and the object.
    let (pool, object) = path.trim_start_matches('/').split_once('/').ok_or_else(wrong)?;
    let decode = |text: &str| percent_decoded(text).filter(|text| !text.is_empty()).ok_or_else(wrong);
    Ok((decode(pool)?, decode(object.trim_start_matches('/'))?))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

fn shape(fields: &mut Fields) -> Result<Option<Vec<u64>>, Failure> {
    let Some(items) = fields.list("shape", AXES_MAX)? else { return Ok(None) };
    let shape = items.iter().map(|item| unsigned(item, "shape")).collect::<Result<Vec<u64>, _>>()?;
    if shape.is_empty() || shape.contains(&0) {
        return Err(invalid("shape", "it has no axis, or an axis has the length 0"));
    }
    Ok(Some(shape))
}

fn selection(value: Value) -> Result<Vec<PythonSlice>, Failure> {
    let items = list(value, "selection", AXES_MAX)?;
    let slice = |item: Value| {
        let numbers = list(item, "selection", 3)?;
        let [start, end, step] = numbers.as_slice() else {
            return Err(invalid("selection", "a slice is not [START, END, STRIDE]"));
        };
        let slice = [index(start, "selection")?, index(end, "selection")?, index(step, "selection")?];
        if slice[2] == 0 {
            return Err(invalid("selection", "a stride is 0"));
        }
        Ok(slice)
    };
    let slices = items.into_iter().map(slice).collect::<Result<Vec<PythonSlice>, _>>()?;
    if slices.is_empty() {
        return Err(invalid("selection", "it has no slice"));
    }
    Ok(slices)
}

fn axes(fields: &mut Fields) -> Result<Axes, Failure> {
    let axis =
        |value: &Value| unsigned(value, "axis").map(|axis| usize::try_from(axis).unwrap_or(usize::MAX));
    match fields.take("axis") {
        None => Ok(Axes::All),
        Some(value @ Value::Array(_)) => {
            let items = list(value, "axis", AXES_MAX)?;
            items.iter().map(axis).collect::<Result<_, _>>().map(Axes::Some)
        }
        Some(value) => Ok(Axes::Some(vec![axis(&value)?])),
    }
}

fn codecs(fields: &mut Fields) -> Result<Vec<BytesCodec>, Failure> {
    let mut codecs = Vec::new();
    for filter in fields.list("filters", FILTERS_MAX)?.unwrap_or_default() {
        let mut filter = Fields::of(filter, "filters")?;
        if !["shuffle", "shuffle_simd"].contains(&filter.text("id")?.as_str()) {
            return Err(invalid("filters", "the only filter is shuffle"));
        }
        let element_bytes = unsigned(&filter.require("element_size")?, "element_size")?;
        let element_bytes = u32::try_from(element_bytes).ok().filter(|element_bytes| *element_bytes > 0);
        let element_bytes =
            element_bytes.ok_or_else(|| invalid("element_size", "it is 0 or larger than 32 bits"))?;
        filter.finish("a filter")?;
        codecs.push(BytesCodec::Shuffle { element_bytes });
    }
    if let Some(compression) = fields.take("compression") {
        let mut compression = Fields::of(compression, "compression")?;
        codecs.push(match compression.text("id")?.as_str() {
            "gzip" => BytesCodec::Gzip {},
            "zlib" => BytesCodec::Zlib {},
            _ => return Err(invalid("compression", "it is neither gzip nor zlib")),
        });
        compression.finish("the compression")?;
    }
    Ok(codecs)
}

fn missing(value: Value, dtype: Dtype) -> Result<Missing, Failure> {
    let mut fields = Fields::of(value, "missing")?;
    if fields.0.len() != 1 {
        return Err(invalid("missing", "it does not have exactly one field"));
    }
    let number = |value: &Value| {
        let number = Number::of(value).filter(|number| number.fits(dtype));
        number.ok_or_else(|| invalid("missing", "a value does not fit the dtype"))
    };
    let element = |value: &Value| Ok::<_, Failure>(number(value)?.element(dtype));
    let mut missing = Missing::default();
    if let Some(value) = fields.take("missing_value") {
        missing.values = Bounded(vec![element(&value)?]);
    }
    if let Some(values) = fields.list("missing_values", MISSING_MAX)? {
        missing.values = Bounded(values.iter().map(element).collect::<Result<Vec<Bytes>, _>>()?);
    }
    if let Some(value) = fields.take("valid_min") {
        missing.min = Some(element(&value)?);
    }
    if let Some(value) = fields.take("valid_max") {
        missing.max = Some(element(&value)?);
    }
    if let Some(range) = fields.list("valid_range", 2)? {
        let [min, max] = range.as_slice() else {
            return Err(invalid("missing", "valid_range is not [MIN, MAX]"));
        };
        if number(min)? >= number(max)? {
            return Err(invalid("missing", "the minimum of valid_range is not less than the maximum"));
        }
        (missing.min, missing.max) = (Some(element(min)?), Some(element(max)?));
    }
    fields.finish("the field missing")?;
    Ok(missing)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
