//! Parses and prints types and columns.

use super::lexer::{Lexer, show_name};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use benthic_core::Result;
use benthic_table::Column;
use std::fmt::Write;
use std::sync::Arc;

/// Maximum nesting depth of a parsed type. A table refuses deeper types anyway.
const DEPTH_MAX: usize = 32;

const KNOWN: &str = "a type is bool, int8 to int64, uint8 to uint64, float16 to float64, utf8, binary, binary(LENGTH), date, \
    time(UNIT), timestamp(UNIT) or timestamp(UNIT, 'ZONE') with ms, us or ns, decimal(PRECISION, SCALE), list(TYPE), \
    list(TYPE, LENGTH), struct(NAME TYPE, …) or map(TYPE, TYPE)";

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
/// `InvalidArgument` for a text that does not parse.
pub fn parse_columns(text: &str) -> Result<Fields> {
    let mut lexer = Lexer::new(text);
    let fields = fields(&mut lexer, 0)?;
    end(&lexer, fields)
}

/// Parses one column, such as `name utf8`.
///
/// # Errors
/// `InvalidArgument` for a text that does not parse.
pub fn parse_column(text: &str) -> Result<Field> {
    let mut lexer = Lexer::new(text);
    let name = lexer.name()?;
    let field = parse_field(&mut lexer, &name, 0)?;
    end(&lexer, field)
}

fn end<T>(lexer: &Lexer<'_>, parsed: T) -> Result<T> {
    match lexer.is_empty() {
        true => Ok(parsed),
        false => {
            Err(lexer.error("unexpected text; a column is NAME TYPE, optionally followed by 'not null'"))
        }
    }
}

fn fields(lexer: &mut Lexer<'_>, depth: usize) -> Result<Fields> {
    let mut fields = Vec::new();
    loop {
        let name = lexer.name()?;
        fields.push(parse_field(lexer, &name, depth)?);
        if !lexer.sign(',') {
            return Ok(fields.into());
        }
    }
}

fn parse_field(lexer: &mut Lexer<'_>, name: &str, depth: usize) -> Result<Field> {
    let data_type = parse(lexer, depth)?;
    let nullable = !lexer.word("not");
    if !nullable && !lexer.word("null") {
        return Err(lexer.error("'null' must follow 'not'"));
    }
    Ok(Field::new(name, data_type, nullable))
}

fn parse(lexer: &mut Lexer<'_>, depth: usize) -> Result<DataType> {
    if depth > DEPTH_MAX {
        return Err(lexer.error("the type is nested too deeply"));
    }
    let name = lexer.take().to_ascii_lowercase();
    let has_arguments = lexer.sign('(');
    let plain = PLAIN.iter().find(|(word, others, _)| *word == name || others.contains(&name.as_str()));
    if let (Some((_, _, plain)), false) = (plain, has_arguments) {
        return Ok(plain.clone());
    }
    if !has_arguments {
        return Err(lexer.error(KNOWN));
    }
    let parsed = match name.as_str() {
        "binary" => DataType::FixedSizeBinary(number(lexer)?),
        "time" => match unit(lexer)? {
            unit @ TimeUnit::Millisecond => DataType::Time32(unit),
            unit => DataType::Time64(unit),
        },
        "timestamp" => {
            let unit = unit(lexer)?;
            let zone = if lexer.sign(',') { Some(lexer.text()?.into()) } else { None };
            DataType::Timestamp(unit, zone)
        }
        "decimal" | "decimal128" | "decimal256" => {
            let precision: u8 = number(lexer)?;
            lexer.expect(',')?;
            let scale: i8 = number(lexer)?;
            match name == "decimal256" || (name == "decimal" && precision > 38) {
                true => DataType::Decimal256(precision, scale),
                false => DataType::Decimal128(precision, scale),
            }
        }
        "list" => {
            let element = Arc::new(parse_field(lexer, "element", depth + 1)?);
            match lexer.sign(',') {
                true => DataType::FixedSizeList(element, number(lexer)?),
                false => DataType::List(element),
            }
        }
        "struct" => DataType::Struct(fields(lexer, depth + 1)?),
        "map" => {
            let key = parse_field(lexer, "key", depth + 1)?.with_nullable(false);
            lexer.expect(',')?;
            let pair = Fields::from(vec![key, parse_field(lexer, "value", depth + 1)?]);
            DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(pair), false)), false)
        }
        _ => return Err(lexer.error(KNOWN)),
    };
    lexer.expect(')')?;
    Ok(parsed)
}

fn number<T: std::str::FromStr>(lexer: &mut Lexer<'_>) -> Result<T> {
    lexer.take().parse().map_err(|_| lexer.error("a number is missing, or out of range"))
}

fn unit(lexer: &mut Lexer<'_>) -> Result<TimeUnit> {
    match lexer.take() {
        "ms" => Ok(TimeUnit::Millisecond),
        "us" => Ok(TimeUnit::Microsecond),
        "ns" => Ok(TimeUnit::Nanosecond),
        _ => Err(lexer.error("a unit of time is ms, us or ns")),
    }
}

/// Prints a column of a table in the syntax of [`parse_column`].
pub fn show_column(column: &Column) -> String {
    let not_null = if column.nullable { "" } else { " not null" };
    format!("{} {}{not_null}", show_name(&column.name), show_type(&column.data_type))
}

/// Prints a type of a table in the syntax of [`parse_column`].
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
        DataType::List(element) => format!("list({})", show_field_type(element)),
        DataType::FixedSizeList(element, len) => format!("list({}, {len})", show_field_type(element)),
        DataType::Struct(fields) => {
            let mut text = "struct(".to_owned();
            for (place, field) in fields.iter().enumerate() {
                let comma = if place == 0 { "" } else { ", " };
                // Writing to a string does not fail.
                let _ = write!(text, "{comma}{} {}", show_name(field.name()), show_field_type(field));
            }
            text + ")"
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => {
                format!("map({}, {})", show_type(pair[0].data_type()), show_field_type(&pair[1]))
            }
            other => format!("map({other})"),
        },
        other => other.to_string(),
    }
}

fn show_field_type(field: &FieldRef) -> String {
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
