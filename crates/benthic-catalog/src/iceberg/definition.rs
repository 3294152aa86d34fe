//! Definitions of tables from Iceberg's JSON form.

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use benthic_core::{Error, Result};
use benthic_table::{Definition, Partitioning, Ranges};
use serde_json::Value;
use std::sync::Arc;

/// Limit of the levels of a nested type.
const DEPTH_MAX: usize = 16;
/// Limit of the length of a binary value of fixed length. In memory, a null is as long as a value.
const FIXED_BYTES_MAX: i64 = 4_096;

/// The definition of the table that a client wants to create.
///
/// # Errors
/// `InvalidArgument` for JSON that is not a table, `Unsupported` for a type, a partitioning or an
/// order that Benthic's tables do not have.
pub fn of_request(request: &Value) -> Result<Definition> {
    let given = fields(&request["schema"])?;
    let columns = given.iter().map(field).collect::<Result<Vec<Field>>>()?;
    let mut definition = Definition::new(&Schema::new(columns))?;
    let spec = request["partition-spec"]["fields"].as_array().map_or(&[][..], Vec::as_slice);
    definition.partitioning = match spec {
        [] => Partitioning::Rows,
        [one] => {
            // The client's ids are its own; the table numbers its columns from 1.
            let source = given.iter().position(|field| field["id"] == one["source-id"]);
            let source =
                source.ok_or_else(|| invalid("the partitioning names a column that does not exist"))?;
            let ranges = match one["transform"].as_str().unwrap_or_default() {
                "day" => Ranges::Day,
                "month" => Ranges::Month,
                "year" => Ranges::Year,
                other => {
                    return Err(
                        unsupported("a table is partitioned by day, month or year").with("got", other)
                    );
                }
            };
            Partitioning::Range { field: definition.schema.columns()[source].id, ranges }
        }
        _ => return Err(unsupported("a table is partitioned by one column")),
    };
    if request["write-order"]["fields"].as_array().is_some_and(|fields| !fields.is_empty()) {
        return Err(unsupported(
            "the catalog creates tables without sort order; `benthic table create` has --sort-by",
        ));
    }
    Ok(definition)
}

pub(super) fn fields(schema: &Value) -> Result<&Vec<Value>> {
    schema["fields"].as_array().ok_or_else(|| invalid("the request has no schema with fields"))
}

fn field(field: &Value) -> Result<Field> {
    let name = field["name"].as_str().ok_or_else(|| invalid("a field of the schema has no name"))?;
    let is_required = field["required"].as_bool().unwrap_or(false);
    Ok(Field::new(name, column_type(name, &field["type"])?, !is_required))
}

/// The type of a column: a name, or an object for lists, structs and maps.
///
/// # Errors
/// `Unsupported` for a type that a table cannot store.
pub(super) fn column_type(column: &str, given: &Value) -> Result<DataType> {
    data_type(given, 0).ok_or_else(|| {
        let text = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
        unsupported("a table cannot have a column of this type").with("column", column).with("type", text)
    })
}

fn data_type(given: &Value, depth: usize) -> Option<DataType> {
    if let Some(text) = given.as_str() {
        return plain_type(text);
    }
    if depth == DEPTH_MAX {
        return None;
    }
    let part = |name: &str, given: &Value, required: &Value| {
        Some(Field::new(name, data_type(given, depth + 1)?, required != true))
    };
    Some(match given["type"].as_str()? {
        "list" => {
            let item = part("element", &given["element"], &given["element-required"])?;
            DataType::List(Arc::new(item))
        }
        "struct" => {
            let fields = given["fields"].as_array()?.iter();
            let fields =
                fields.map(|field| part(field["name"].as_str()?, &field["type"], &field["required"]));
            DataType::Struct(fields.collect::<Option<Vec<Field>>>()?.into())
        }
        "map" => {
            let key = part("key", &given["key"], &Value::Bool(true))?;
            let value = part("value", &given["value"], &given["value-required"])?;
            let pair = DataType::Struct(vec![key, value].into());
            DataType::Map(Arc::new(Field::new("key_value", pair, false)), false)
        }
        _ => return None,
    })
}

fn plain_type(text: &str) -> Option<DataType> {
    let numbers = |prefix: &str, end: char| -> Option<Vec<i64>> {
        let inner = text.strip_prefix(prefix)?.strip_suffix(end)?;
        inner.split(',').map(|number| number.trim().parse().ok()).collect()
    };
    Some(match text {
        "boolean" => DataType::Boolean,
        "int" => DataType::Int32,
        "long" => DataType::Int64,
        "float" => DataType::Float32,
        "double" => DataType::Float64,
        "date" => DataType::Date32,
        "time" => DataType::Time64(TimeUnit::Microsecond),
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        "string" => DataType::Utf8,
        "binary" => DataType::Binary,
        _ => {
            if let Some([precision, scale]) = numbers("decimal(", ')').as_deref() {
                let (precision, scale) = (u8::try_from(*precision).ok()?, i8::try_from(*scale).ok()?);
                return (precision <= 38).then_some(DataType::Decimal128(precision, scale));
            }
            let [len_bytes]: [i64; 1] = numbers("fixed[", ']')?.try_into().ok()?;
            let len_bytes = Some(len_bytes).filter(|len_bytes| *len_bytes <= FIXED_BYTES_MAX)?;
            DataType::FixedSizeBinary(i32::try_from(len_bytes).ok()?)
        }
    })
}

pub(super) fn invalid(message: &str) -> Error {
    Error::invalid_argument(message)
}

pub(super) fn unsupported(message: &str) -> Error {
    Error::unsupported(message)
}
