//! Functions that read values out of texts in JSON: `json_get`, `json_as_text`, `json_get_str`,
//! `json_get_int`, `json_get_float`, `json_get_bool`, `json_length` and `json_contains`.
//!
//! Their names are those of the crate `datafusion-functions-json`, which depends on all of
//! DataFusion, so that a class in an OSD cannot have it. Their results may differ from the crate's.
//! For example, `json_get` returns the text of a value in JSON, not a union of types, and a
//! negative position counts from the end. A text that is no JSON, and a value that is missing or of
//! another type, give null.
//!
//! A value is found without building the others: each step of a path reads the elements of one
//! object or list up to the wanted one, and skips them. So the time is proportional to the text
//! times the steps of the path. Values may be nested to any depth, because `serde_json` skips them
//! without recursion.

use crate::text_search::strings;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StringViewArray, StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::{Result, ScalarValue, plan_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Deserializer;
use std::sync::Arc;

/// Maximum number of steps of a path, each a key or a position.
pub const STEPS_MAX: usize = 16;

/// The name of the function that returns a value as JSON.
pub const GET: &str = "json_get";
/// The name of the function that returns a value as a text.
pub const AS_TEXT: &str = "json_as_text";

/// The functions.
pub fn functions() -> [Arc<ScalarUDF>; 8] {
    use Access::{AsText, Bool, Contains, Float, Int, Json, Length, Text};
    [AsText, Bool, Contains, Float, Int, Json, Length, Text]
        .map(|access| Arc::new(ScalarUDF::from(JsonAccess::new(access))))
}

/// The form in which a function returns the value at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Access {
    /// Its text in JSON.
    Json,
    /// The characters of a text, or the text in JSON of another value. Null for a null.
    AsText,
    Text,
    Int,
    Float,
    Bool,
    /// The number of elements of a list or object.
    Length,
    /// Whether there is one.
    Contains,
}

impl Access {
    fn name(self) -> &'static str {
        match self {
            Access::Json => GET,
            Access::AsText => AS_TEXT,
            Access::Text => "json_get_str",
            Access::Int => "json_get_int",
            Access::Float => "json_get_float",
            Access::Bool => "json_get_bool",
            Access::Length => "json_length",
            Access::Contains => "json_contains",
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonAccess {
    access: Access,
    signature: Signature,
}

impl JsonAccess {
    fn new(access: Access) -> JsonAccess {
        JsonAccess { access, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for JsonAccess {
    fn name(&self) -> &str {
        self.access.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let Some((text, path)) = given.split_first() else {
            return plan_err!("{} takes a text in JSON, and a path of keys and positions", self.name());
        };
        if path.len() > STEPS_MAX {
            return plan_err!("{} takes a path of at most {STEPS_MAX} steps", self.name());
        }
        let is_text = |given: &DataType| given.is_string() || given.is_null();
        let taken = |given: &DataType| match given {
            text if is_text(text) => Ok(DataType::Utf8View),
            position if position.is_integer() => Ok(DataType::Int64),
            other => plan_err!(
                "a step of a path in JSON is a key, which is a text, or a position, which is an integer, but not {other}; in \
                 a comparison, write parentheses: (doc -> 'key') = 'value'"
            ),
        };
        if !is_text(text) {
            return plan_err!("{} reads a text in JSON, but not {text}", self.name());
        }
        given.iter().map(taken).collect()
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.access {
            Access::Json | Access::AsText | Access::Text => DataType::Utf8View,
            Access::Int | Access::Length => DataType::Int64,
            Access::Float => DataType::Float64,
            Access::Bool | Access::Contains => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let are_scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if are_scalars { 1 } else { args.number_rows };
        let Some((text, path)) = args.args.split_first() else {
            return plan_err!("{} takes a text in JSON", self.name());
        };
        let texts = strings(&text.to_array(rows)?)?;
        let steps = path.iter().map(|step| Steps::of(step, rows)).collect::<Result<Vec<_>>>()?;
        let values: Vec<Option<&str>> = (0..rows)
            .map(|row| {
                let text = texts.is_valid(row).then(|| texts.value(row))?;
                steps.iter().try_fold(text, |text, steps| find(text, &steps.at(row)?))
            })
            .collect();
        let found = self.access.of(&texts, &values);
        match are_scalars {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?)),
            false => Ok(ColumnarValue::Array(found)),
        }
    }
}

impl Access {
    fn of(self, texts: &StringViewArray, values: &[Option<&str>]) -> ArrayRef {
        let values_of = values.iter().copied();
        match self {
            Access::Json => texts_of(values_of, |value| parse::<IgnoredAny>(value).map(|_| value.trim())),
            Access::AsText => texts_of(values_of, |value| match value.trim_start().starts_with('"') {
                true => parse(value),
                false => parse::<IgnoredAny>(value)
                    .map(|_| value.trim().to_owned())
                    .filter(|value| value != "null"),
            }),
            Access::Text => texts_of(values_of, parse::<String>),
            Access::Int => Arc::new(values_of.map(|value| parse::<i64>(value?)).collect::<Int64Array>()),
            Access::Float => Arc::new(values_of.map(|value| float(value?)).collect::<Float64Array>()),
            Access::Bool => Arc::new(values_of.map(|value| parse::<bool>(value?)).collect::<BooleanArray>()),
            Access::Length => Arc::new(values_of.map(|value| length(value?)).collect::<Int64Array>()),
            Access::Contains => {
                let contains = |(row, value): (usize, &Option<&str>)| {
                    let is_there = value.is_some_and(|value| parse::<IgnoredAny>(value).is_some());
                    texts.is_valid(row).then_some(is_there)
                };
                Arc::new(values.iter().enumerate().map(contains).collect::<BooleanArray>())
            }
        }
    }
}

fn texts_of<'a, T: AsRef<str>>(
    values: impl Iterator<Item = Option<&'a str>>,
    of: impl Fn(&'a str) -> Option<T>,
) -> ArrayRef {
    let mut texts = StringViewBuilder::new();
    values.for_each(|value| texts.append_option(value.and_then(&of)));
    Arc::new(texts.finish())
}

/// The value of a whole text.
fn parse<'a, T: Deserialize<'a>>(value: &'a str) -> Option<T> {
    serde_json::from_str(value).ok()
}

/// The number nearest to the text. `serde_json` alone may be off by one unit in the last place.
fn float(value: &str) -> Option<f64> {
    parse::<f64>(value)?;
    value.trim().parse().ok()
}

/// One step of the paths of all rows.
enum Steps<'a> {
    Same(Option<Step<'a>>),
    Keys(StringViewArray),
    Positions(ArrayRef),
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Position(i64),
}

impl<'a> Steps<'a> {
    fn of(step: &'a ColumnarValue, rows: usize) -> Result<Steps<'a>> {
        match step {
            ColumnarValue::Scalar(ScalarValue::Int64(position)) => {
                Ok(Steps::Same(position.map(Step::Position)))
            }
            ColumnarValue::Scalar(scalar) if scalar.data_type().is_string() => {
                Ok(Steps::Same(scalar.try_as_str().flatten().map(Step::Key)))
            }
            ColumnarValue::Array(array) if array.data_type().is_string() => Ok(Steps::Keys(strings(array)?)),
            other => Ok(Steps::Positions(cast(&other.to_array(rows)?, &DataType::Int64)?)),
        }
    }

    fn at(&self, row: usize) -> Option<Step<'_>> {
        match self {
            Steps::Same(step) => *step,
            Steps::Keys(keys) => keys.is_valid(row).then(|| Step::Key(keys.value(row))),
            Steps::Positions(positions) => {
                let positions = positions.as_primitive::<Int64Type>();
                positions.is_valid(row).then(|| Step::Position(positions.value(row)))
            }
        }
    }
}

/// The text of the element of an object with this key, or of a list at this position. A negative
/// position counts from the end.
fn find<'a>(text: &'a str, step: &Step<'_>) -> Option<&'a str> {
    match *step {
        Step::Key(wanted) => {
            let mut elements = Elements::of(text, '{')?;
            while let Some((key, value)) = elements.next()? {
                if key.is_some_and(|key| parse::<String>(key).is_some_and(|key| key == wanted)) {
                    return Some(value);
                }
            }
            None
        }
        Step::Position(position) => {
            let position = match usize::try_from(position) {
                Ok(position) => position,
                Err(_) => {
                    let length = usize::try_from(length(text)?).ok()?;
                    length.checked_sub(usize::try_from(position.unsigned_abs()).ok()?)?
                }
            };
            let mut elements = Elements::of(text, '[')?;
            for _ in 0..position {
                elements.next()??;
            }
            elements.next()?.map(|(_, value)| value)
        }
    }
}

fn length(text: &str) -> Option<i64> {
    let mut elements = Elements::of(text, '[').or_else(|| Elements::of(text, '{'))?;
    let mut length = 0;
    while elements.next()?.is_some() {
        length += 1;
    }
    elements.rest.trim_start().is_empty().then_some(length)
}

/// The elements of an object or list, in their order.
struct Elements<'a> {
    /// The text after the last element.
    rest: &'a str,
    has_keys: bool,
    is_first: bool,
}

impl<'a> Elements<'a> {
    fn of(text: &'a str, start: char) -> Option<Elements<'a>> {
        let rest = text.trim_start().strip_prefix(start)?;
        Some(Elements { rest, has_keys: start == '{', is_first: true })
    }

    /// The texts of the next element and its key. The inner option is `None` at the end, and the
    /// outer one for a text that is no JSON.
    fn next(&mut self) -> Option<Option<(Option<&'a str>, &'a str)>> {
        let end = if self.has_keys { '}' } else { ']' };
        let mut rest = self.rest.trim_start();
        if let Some(after) = rest.strip_prefix(end) {
            self.rest = after;
            return Some(None);
        }
        if !self.is_first {
            rest = rest.strip_prefix(',')?;
        }
        self.is_first = false;
        let mut key = None;
        if self.has_keys {
            rest = rest.trim_start();
            if !rest.starts_with('"') {
                return None;
            }
            let (text, after) = value(rest)?;
            (key, rest) = (Some(text), after.trim_start().strip_prefix(':')?);
        }
        let (text, after) = value(rest)?;
        self.rest = after;
        Some(Some((key, text)))
    }
}

/// Splits a text after its first value.
fn value(text: &str) -> Option<(&str, &str)> {
    let mut values = Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    text.split_at_checked(values.byte_offset())
}
