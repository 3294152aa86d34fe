//! Definitions of tables from Iceberg's JSON form.

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use benthic_core::{Error, ErrorKind, Result};
use benthic_table::{Definition, Partitioning, Ranges};
use serde_json::Value;

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
    let text = field["type"].as_str().ok_or_else(|| nested_column(name))?;
    let data_type = data_type(text).ok_or_else(|| {
        unsupported("a table cannot have a column of this type").with("column", name).with("type", text)
    })?;
    Ok(Field::new(name, data_type, !is_required))
}

pub(super) fn data_type(text: &str) -> Option<DataType> {
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
            DataType::FixedSizeBinary(i32::try_from(len_bytes).ok()?)
        }
    })
}

pub(super) fn nested_column(column: &str) -> Error {
    unsupported("the catalog does not support lists, structs and maps yet").with("column", column)
}

pub(super) fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

pub(super) fn unsupported(message: &str) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}
