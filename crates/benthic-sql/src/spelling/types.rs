//! Types and columns.

use super::words::{Words, show_name};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use benthic_core::Result;
use benthic_table::Column;
use std::fmt::Write;
use std::sync::Arc;

/// How deep types nest in what is parsed; deeper ones a table refuses anyway.
const DEPTH_MAX: usize = 32;

const KNOWN: &str = "a type is bool, int8 to int64, uint8 to uint64, float16 to float64, utf8, binary, binary(LENGTH), date, \
    time(UNIT), timestamp(UNIT) or timestamp(UNIT, 'ZONE') with ms, us or ns, decimal(PRECISION, SCALE), list(TYPE), \
    list(TYPE, LENGTH), struct(NAME TYPE, …) or map(TYPE, TYPE)";

/// The types of one word, with the other names that people know them by.
const PLAIN: [(&str, &[&str], DataType); 15] = [
    ("bool", &["boolean"], DataType::Boolean),
    ("int8", &["tinyint"], DataType::Int8),
    ("int16", &["smallint"], DataType::Int16),
    ("int32", &["int", "integer"], DataType::Int32),
    ("int64", &["bigint", "long"], DataType::Int64),
    ("uint8", &[], DataType::UInt8),
    ("uint16", &[], DataType::UInt16),
    ("uint32", &[], DataType::UInt32),
    ("uint64", &[], DataType::UInt64),
    ("float16", &["half"], DataType::Float16),
    ("float32", &["real", "float"], DataType::Float32),
    ("float64", &["double"], DataType::Float64),
    ("utf8", &["string", "text", "varchar"], DataType::Utf8),
    ("binary", &["bytes"], DataType::Binary),
    ("date", &["date32"], DataType::Date32),
];

/// Parses the columns of a table, such as `id int64 not null, name utf8`.
///
/// # Errors
/// `InvalidArgument`.
pub fn parse_columns(text: &str) -> Result<Fields> {
    let mut words = Words::new(text);
    let fields = fields(&mut words, 0)?;
    end(&words, fields)
}

/// Parses one column, such as `name utf8`.
///
/// # Errors
/// `InvalidArgument`.
pub fn parse_column(text: &str) -> Result<Field> {
    let mut words = Words::new(text);
    let name = words.name()?;
    let field = typed(&mut words, &name, 0)?;
    end(&words, field)
}

fn end<T>(words: &Words<'_>, parsed: T) -> Result<T> {
    match words.is_empty() {
        true => Ok(parsed),
        false => Err(words.wrong("this is too much; a column is NAME TYPE, and maybe 'not null'")),
    }
}

fn fields(words: &mut Words<'_>, depth: usize) -> Result<Fields> {
    let mut fields = Vec::new();
    loop {
        let name = words.name()?;
        fields.push(typed(words, &name, depth)?);
        if !words.sign(',') {
            return Ok(fields.into());
        }
    }
}

fn typed(words: &mut Words<'_>, name: &str, depth: usize) -> Result<Field> {
    let data_type = parse(words, depth)?;
    let nullable = !words.word("not");
    if !nullable && !words.word("null") {
        return Err(words.wrong("'not' wants 'null' behind it"));
    }
    Ok(Field::new(name, data_type, nullable))
}

fn parse(words: &mut Words<'_>, depth: usize) -> Result<DataType> {
    if depth > DEPTH_MAX {
        return Err(words.wrong("the type nests too deep"));
    }
    let name = words.take().to_ascii_lowercase();
    let has_arguments = words.sign('(');
    let plain = PLAIN.iter().find(|(word, others, _)| *word == name || others.contains(&name.as_str()));
    if let (Some((_, _, plain)), false) = (plain, has_arguments) {
        return Ok(plain.clone());
    }
    if !has_arguments {
        return Err(words.wrong(KNOWN));
    }
    let parsed = match name.as_str() {
        "binary" => DataType::FixedSizeBinary(number(words)?),
        "time" => match unit(words)? {
            unit @ TimeUnit::Millisecond => DataType::Time32(unit),
            unit => DataType::Time64(unit),
        },
        "timestamp" => {
            let unit = unit(words)?;
            let zone = if words.sign(',') { Some(words.text()?.into()) } else { None };
            DataType::Timestamp(unit, zone)
        }
        "decimal" | "decimal128" | "decimal256" => {
            let precision: u8 = number(words)?;
            words.expect(',')?;
            let scale: i8 = number(words)?;
            match name == "decimal256" || (name == "decimal" && precision > 38) {
                true => DataType::Decimal256(precision, scale),
                false => DataType::Decimal128(precision, scale),
            }
        }
        "list" => {
            let element = Arc::new(typed(words, "element", depth + 1)?);
            match words.sign(',') {
                true => DataType::FixedSizeList(element, number(words)?),
                false => DataType::List(element),
            }
        }
        "struct" => DataType::Struct(fields(words, depth + 1)?),
        "map" => {
            let key = typed(words, "key", depth + 1)?.with_nullable(false);
            words.expect(',')?;
            let pair = Fields::from(vec![key, typed(words, "value", depth + 1)?]);
            DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(pair), false)), false)
        }
        _ => return Err(words.wrong(KNOWN)),
    };
    words.expect(')')?;
    Ok(parsed)
}

fn number<T: std::str::FromStr>(words: &mut Words<'_>) -> Result<T> {
    words.take().parse().map_err(|_| words.wrong("a number is missing, or out of range"))
}

fn unit(words: &mut Words<'_>) -> Result<TimeUnit> {
    match words.take() {
        "ms" => Ok(TimeUnit::Millisecond),
        "us" => Ok(TimeUnit::Microsecond),
        "ns" => Ok(TimeUnit::Nanosecond),
        _ => Err(words.wrong("a unit of time is ms, us or ns")),
    }
}

/// A column of a table as [`parse_column`] reads it.
pub fn show_column(column: &Column) -> String {
    let not_null = if column.nullable { "" } else { " not null" };
    format!("{} {}{not_null}", show_name(&column.name), show_type(&column.data_type))
}

/// A type of a table as [`parse_column`] reads it.
pub fn show_type(data_type: &DataType) -> String {
    if let Some((name, _, _)) = PLAIN.iter().find(|(_, _, plain)| plain == data_type) {
        return (*name).to_owned();
    }
    match data_type {
        DataType::FixedSizeBinary(len_bytes) => format!("binary({len_bytes})"),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("time({})", show_unit(*unit)),
        DataType::Timestamp(unit, None) => format!("timestamp({})", show_unit(*unit)),
        DataType::Timestamp(unit, Some(zone)) => {
            format!("timestamp({}, '{}')", show_unit(*unit), zone.replace('\'', "''"))
        }
        DataType::Decimal128(precision, scale) => format!("decimal({precision}, {scale})"),
        DataType::Decimal256(precision, scale) if *precision > 38 => format!("decimal({precision}, {scale})"),
        DataType::Decimal256(precision, scale) => format!("decimal256({precision}, {scale})"),
        DataType::List(element) => format!("list({})", show_typed(element)),
        DataType::FixedSizeList(element, len) => format!("list({}, {len})", show_typed(element)),
        DataType::Struct(fields) => {
            let mut text = "struct(".to_owned();
            for (place, field) in fields.iter().enumerate() {
                let comma = if place == 0 { "" } else { ", " };
                // Writing to a string does not fail.
                let _ = write!(text, "{comma}{} {}", show_name(field.name()), show_typed(field));
            }
            text + ")"
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => {
                format!("map({}, {})", show_type(pair[0].data_type()), show_typed(&pair[1]))
            }
            other => format!("map({other})"),
        },
        other => other.to_string(),
    }
}

fn show_typed(field: &FieldRef) -> String {
    let not_null = if field.is_nullable() { "" } else { " not null" };
    show_type(field.data_type()) + not_null
}

fn show_unit(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}
