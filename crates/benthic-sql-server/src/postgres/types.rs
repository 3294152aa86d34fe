//! The types of columns and parameters: Arrow's and Postgres'.
//!
//! Values of an Arrow type without a type of Postgres are converted to the nearest one that holds
//! them all. Structs, maps and lists of lists are text.

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};

/// A type of Postgres.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PgType {
    pub name: &'static str,
    pub oid: u32,
    /// The type of arrays of this type.
    pub array_oid: u32,
    /// Length of a value in bytes; -1 if it varies.
    pub len: i16,
    /// The category, as `pg_type` has it.
    pub category: char,
}

const fn pg(name: &'static str, oid: u32, array_oid: u32, len: i16, category: char) -> PgType {
    PgType { name, oid, array_oid, len, category }
}

const BOOL: PgType = pg("bool", 16, 1000, 1, 'B');
const BYTEA: PgType = pg("bytea", 17, 1001, -1, 'U');
const INT8: PgType = pg("int8", 20, 1016, 8, 'N');
const INT2: PgType = pg("int2", 21, 1005, 2, 'N');
const INT4: PgType = pg("int4", 23, 1007, 4, 'N');
/// Text, which is also the type of values without a Postgres type of their own.
pub const TEXT: PgType = pg("text", 25, 1009, -1, 'S');
const FLOAT4: PgType = pg("float4", 700, 1021, 4, 'N');
const FLOAT8: PgType = pg("float8", 701, 1022, 8, 'N');
const DATE: PgType = pg("date", 1082, 1182, 4, 'D');
const TIME: PgType = pg("time", 1083, 1183, 8, 'D');
const TIMESTAMP: PgType = pg("timestamp", 1114, 1115, 8, 'D');
const TIMESTAMPTZ: PgType = pg("timestamptz", 1184, 1185, 8, 'D');
const INTERVAL: PgType = pg("interval", 1186, 1187, 16, 'T');
const NUMERIC: PgType = pg("numeric", 1700, 1231, -1, 'N');

/// All types that columns have, and those that only parameters and the catalog have.
pub const TYPES: [PgType; 20] = [
    BOOL,
    BYTEA,
    INT8,
    INT2,
    INT4,
    TEXT,
    FLOAT4,
    FLOAT8,
    DATE,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    INTERVAL,
    NUMERIC,
    pg("char", 18, 1002, 1, 'Z'),
    pg("name", 19, 1003, 64, 'S'),
    pg("oid", 26, 1028, 4, 'N'),
    pg("bpchar", 1042, 1014, -1, 'S'),
    pg("varchar", 1043, 1015, -1, 'S'),
    pg("unknown", 705, 0, -2, 'X'),
];

/// Postgres' type of an Arrow type, without lists.
fn scalar(data_type: &DataType) -> PgType {
    match data_type {
        DataType::Boolean => BOOL,
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => INT2,
        DataType::UInt16 | DataType::Int32 => INT4,
        DataType::UInt32 | DataType::Int64 => INT8,
        DataType::Float16 | DataType::Float32 => FLOAT4,
        DataType::Float64 => FLOAT8,
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => NUMERIC,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            BYTEA
        }
        DataType::Date32 | DataType::Date64 => DATE,
        DataType::Time32(_) | DataType::Time64(_) => TIME,
        DataType::Timestamp(_, None) => TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => TIMESTAMPTZ,
        DataType::Interval(_) => INTERVAL,
        DataType::Dictionary(_, values) => scalar(values),
        _ => TEXT,
    }
}

/// Whether lists of this type are arrays of Postgres.
fn is_list(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            (!field.data_type().is_nested()).then_some(field.data_type())
        }
        _ => None,
    }
}

/// The number of Postgres' type of a column, and the length of its values, or -1 if it varies.
pub fn of_column(data_type: &DataType) -> (u32, i16) {
    match is_list(data_type) {
        Some(item) => (scalar(item).array_oid, -1),
        None => (scalar(data_type).oid, scalar(data_type).len),
    }
}

/// The name of a column's type in SQL, as `format_type` returns it.
pub fn sql_name(oid: u32) -> Option<String> {
    let name = |found: &PgType| match found.name {
        "bool" => "boolean",
        "int2" => "smallint",
        "int4" => "integer",
        "int8" => "bigint",
        "float4" => "real",
        "float8" => "double precision",
        "time" => "time without time zone",
        "timestamp" => "timestamp without time zone",
        "timestamptz" => "timestamp with time zone",
        "varchar" => "character varying",
        "bpchar" => "character",
        "char" => "\"char\"",
        name => name,
    };
    let of_value = TYPES.iter().find(|found| found.oid == oid).map(|found| name(found).to_owned());
    of_value.or_else(|| {
        TYPES.iter().find(|found| found.array_oid == oid).map(|found| format!("{}[]", name(found)))
    })
}

/// The Arrow type of a column's values when they are encoded.
pub fn encoded(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => DataType::BinaryView,
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Dictionary(_, values) => encoded(values),
        other => other.clone(),
    }
}

/// The Arrow type of a parameter that the client declares with this number. `None` leaves the type
/// to the query.
pub fn of_parameter(oid: u32) -> Option<DataType> {
    if let Some(item) = TYPES.iter().find(|item| item.array_oid == oid && oid != 0) {
        return of_parameter(item.oid).map(|item| DataType::new_list(item, true));
    }
    Some(match oid {
        16 => DataType::Boolean,
        17 => DataType::Binary,
        20 => DataType::Int64,
        26 => DataType::Int64,
        21 => DataType::Int16,
        23 => DataType::Int32,
        700 => DataType::Float32,
        701 => DataType::Float64,
        1082 => DataType::Date32,
        1083 => DataType::Time64(TimeUnit::Microsecond),
        1114 => DataType::Timestamp(TimeUnit::Microsecond, None),
        1184 => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        18 | 19 | 25 | 1042 | 1043 => DataType::Utf8,
        _ => return None,
    })
}
