//! Rows as messages: values as text, and in Postgres' binary format.

use super::copy::{BINARY_START, RowForm, put_row};
use super::messages::Writer;
use super::types::encoded;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Field, FieldRef, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, SchemaRef, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use arrow::temporal_conversions::{date32_to_datetime, time64us_to_time, timestamp_us_to_datetime};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use benthic_core::{Error, Result};
use benthic_sql::errors::from_datafusion;
use bytes::{BufMut, BytesMut};
use std::fmt::Write;

/// Days and microseconds from 1970 to 2000, where Postgres' times begin.
const DAYS_1970_TO_2000: i32 = 10_957;
const US_1970_TO_2000: i64 = DAYS_1970_TO_2000 as i64 * 86_400_000_000;

/// The formats of the columns of a portal, as Bind gives them: none, one for all, or one for each.
pub fn format_of(formats: &[i16], column: usize) -> i16 {
    match formats {
        [] => 0,
        [one] => *one,
        each => each.get(column).copied().unwrap_or(0),
    }
}

/// Writes the description of columns.
pub fn describe(writer: &mut Writer, schema: &SchemaRef, formats: &[i16]) {
    writer.message(b'T', |body| {
        body.put_i16(i16::try_from(schema.fields().len()).unwrap_or(i16::MAX));
        for (number, field) in schema.fields().iter().enumerate() {
            let (oid, len) = super::types::of_column(field.data_type());
            super::messages::put_text(body, field.name());
            body.put_i32(0);
            body.put_i16(0);
            body.put_u32(oid);
            body.put_i16(len);
            body.put_i32(-1);
            body.put_i16(format_of(formats, number));
        }
    });
}

/// The columns of a batch, ready to be written row by row.
pub struct Columns {
    columns: Vec<(ArrayRef, i16)>,
    pub rows: usize,
}

impl Columns {
    /// Converts the values to the types of the described columns.
    ///
    /// # Errors
    /// `InvalidArgument` for a value outside the type's range.
    pub fn new(batch: &RecordBatch, described: &SchemaRef, formats: &[i16]) -> Result<Columns> {
        let converted = |(number, (column, field)): (usize, (&ArrayRef, &FieldRef))| {
            let options = CastOptions { safe: false, ..CastOptions::default() };
            let wanted = match field.data_type() {
                DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
                    let item = Field::new_list_field(encoded(field.data_type()), true);
                    DataType::List(item.into())
                }
                other => encoded(other),
            };
            let array = match *column.data_type() == wanted {
                true => column.clone(),
                false => cast_with_options(column, &wanted, &options).map_err(failure)?,
            };
            Ok((array, format_of(formats, number)))
        };
        let columns = batch.columns().iter().zip(described.fields()).enumerate().map(converted);
        Ok(Columns { columns: columns.collect::<Result<_>>()?, rows: batch.num_rows() })
    }

    /// Changes the formats of the columns.
    pub fn set_formats(&mut self, formats: &[i16]) {
        for (number, (_, format)) in self.columns.iter_mut().enumerate() {
            *format = format_of(formats, number);
        }
    }

    /// Writes a row, which may be the first one of a query. In the binary format of COPY, a row is
    /// as in a message.
    ///
    /// # Errors
    /// `InvalidArgument` for a value that has no text; `LimitExceeded` for a value that is too
    /// large.
    pub fn write_row(&self, writer: &mut Writer, row: usize, form: RowForm, is_first: bool) -> Result<()> {
        let mut written = Ok(());
        if matches!(form, RowForm::Text | RowForm::Csv) {
            let columns = self.columns.iter().map(|(array, _)| array.clone());
            writer.message(b'd', |body| written = put_row(body, form, columns, row));
            return written;
        }
        let (kind, start) = match form {
            RowForm::Binary if is_first => (b'd', BINARY_START),
            RowForm::Binary => (b'd', &[][..]),
            _ => (b'D', &[][..]),
        };
        writer.message(kind, |body| {
            body.put_slice(start);
            body.put_i16(i16::try_from(self.columns.len()).unwrap_or(i16::MAX));
            for (array, format) in &self.columns {
                if written.is_ok() {
                    written = put_value(body, array, row, *format);
                }
            }
        });
        written
    }
}

fn failure(error: ArrowError) -> Error {
    from_datafusion(&error.into())
}

/// Writes a value with its length before it.
fn put_value(body: &mut BytesMut, array: &dyn Array, row: usize, format: i16) -> Result<()> {
    if array.is_null(row) {
        body.put_i32(-1);
        return Ok(());
    }
    let start = body.len();
    body.put_i32(0);
    if format == 1 {
        put_binary(body, array, row)?
    } else {
        put_plain(body, array, row)?
    }
    let len = i32::try_from(body.len() - start - 4)
        .map_err(|_| Error::limit_exceeded("the value is too large for Postgres' protocol"))?;
    body[start..start + 4].copy_from_slice(&len.to_be_bytes());
    Ok(())
}

/// Writes a value as text.
pub fn put_plain(body: &mut BytesMut, array: &dyn Array, row: usize) -> Result<()> {
    let written = match array.data_type() {
        DataType::Boolean => body.write_str(if array.as_boolean().value(row) { "t" } else { "f" }),
        DataType::Int16 => write!(body, "{}", array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => write!(body, "{}", array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => write!(body, "{}", array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => {
            let value = array.as_primitive::<Float32Type>().value(row);
            put_float(body, value.into(), value.to_string(), || format!("{value:e}"))
        }
        DataType::Float64 => {
            let value = array.as_primitive::<Float64Type>().value(row);
            put_float(body, value, value.to_string(), || format!("{value:e}"))
        }
        DataType::Utf8View => {
            body.put_slice(array.as_string_view().value(row).as_bytes());
            Ok(())
        }
        DataType::BinaryView => {
            let bytes = array.as_binary_view().value(row);
            body.put_slice(b"\\x");
            bytes.iter().try_for_each(|byte| write!(body, "{byte:02x}"))
        }
        DataType::Interval(_) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            put_interval(body, value.months, value.days, value.nanoseconds / 1_000)
        }
        DataType::Timestamp(..) => {
            let value = array.as_primitive::<TimestampMicrosecondType>().value(row);
            let time = timestamp_us_to_datetime(value).ok_or_else(out_of_range)?;
            let zone = if matches!(array.data_type(), DataType::Timestamp(_, Some(_))) { "+00" } else { "" };
            write!(body, "{}{zone}", time.format("%Y-%m-%d %H:%M:%S%.f"))
        }
        DataType::Date32 => {
            let date = date32_to_datetime(array.as_primitive::<Date32Type>().value(row));
            write!(body, "{}", date.ok_or_else(out_of_range)?.format("%Y-%m-%d"))
        }
        DataType::Time64(_) => {
            let time = time64us_to_time(array.as_primitive::<Time64MicrosecondType>().value(row));
            write!(body, "{}", time.ok_or_else(out_of_range)?.format("%H:%M:%S%.f"))
        }
        DataType::List(field) if !field.data_type().is_nested() => {
            return put_array(body, &array.as_list::<i32>().value(row));
        }
        _ => {
            let options = FormatOptions::new().with_display_error(false);
            let text = ArrayFormatter::try_new(array, &options).map_err(failure)?;
            let text = text.value(row).try_to_string().map_err(failure)?;
            body.write_str(&text)
        }
    };
    written.map_err(|_| Error::internal("cannot write a value"))
}

fn out_of_range() -> Error {
    Error::invalid_argument("a date or time is outside the calendar")
}

fn put_float(
    body: &mut BytesMut,
    value: f64,
    plain: String,
    short: impl FnOnce() -> String,
) -> std::fmt::Result {
    match value {
        value if value.is_nan() => body.write_str("NaN"),
        f64::INFINITY => body.write_str("Infinity"),
        f64::NEG_INFINITY => body.write_str("-Infinity"),
        value if value != 0.0 && !(1e-4..1e15).contains(&value.abs()) => body.write_str(&short()),
        _ => body.write_str(&plain),
    }
}

fn put_interval(body: &mut BytesMut, months: i32, days: i32, us: i64) -> std::fmt::Result {
    let before = body.len();
    for (count, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if count != 0 {
            let space = if body.len() > before { " " } else { "" };
            write!(body, "{space}{count} {unit}{}", if count == 1 { "" } else { "s" })?;
        }
    }
    if us != 0 || body.len() == before {
        let space = if body.len() > before { " " } else { "" };
        let (sign, us) = (if us < 0 { "-" } else { "" }, us.unsigned_abs());
        let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
        write!(body, "{space}{sign}{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)?;
        if fraction != 0 {
            body.write_str(format!(".{fraction:06}").trim_end_matches('0'))?;
        }
    }
    Ok(())
}

/// Writes an array as text, such as `{1,NULL,"a b"}`.
fn put_array(body: &mut BytesMut, items: &dyn Array) -> Result<()> {
    body.put_u8(b'{');
    for row in 0..items.len() {
        if row > 0 {
            body.put_u8(b',');
        }
        if items.is_null(row) {
            body.put_slice(b"NULL");
            continue;
        }
        let mut item = BytesMut::new();
        put_plain(&mut item, items, row)?;
        let is_plain = |byte: &u8| !b"{},\"\\".contains(byte) && !byte.is_ascii_whitespace();
        if !item.is_empty() && item.iter().all(is_plain) && !item.eq_ignore_ascii_case(b"NULL") {
            body.put_slice(&item);
            continue;
        }
        body.put_u8(b'"');
        for byte in item {
            if matches!(byte, b'"' | b'\\') {
                body.put_u8(b'\\');
            }
            body.put_u8(byte);
        }
        body.put_u8(b'"');
    }
    body.put_u8(b'}');
    Ok(())
}

/// Writes a value in the binary format of its type.
fn put_binary(body: &mut BytesMut, array: &dyn Array, row: usize) -> Result<()> {
    match array.data_type() {
        DataType::Boolean => body.put_u8(array.as_boolean().value(row).into()),
        DataType::Int16 => body.put_i16(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => body.put_i32(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => body.put_i64(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => body.put_f32(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => body.put_f64(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(..) => {
            put_numeric(body, &array.as_primitive::<Decimal128Type>().value_as_string(row))?;
        }
        DataType::Decimal256(..) => {
            put_numeric(body, &array.as_primitive::<Decimal256Type>().value_as_string(row))?;
        }
        DataType::BinaryView => body.put_slice(array.as_binary_view().value(row)),
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>().value(row);
            body.put_i32(days.checked_sub(DAYS_1970_TO_2000).ok_or_else(out_of_range)?);
        }
        DataType::Time64(_) => body.put_i64(array.as_primitive::<Time64MicrosecondType>().value(row)),
        DataType::Timestamp(..) => {
            let us = array.as_primitive::<TimestampMicrosecondType>().value(row);
            body.put_i64(us.checked_sub(US_1970_TO_2000).ok_or_else(out_of_range)?);
        }
        DataType::Interval(_) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            body.put_i64(value.nanoseconds / 1_000);
            body.put_i32(value.days);
            body.put_i32(value.months);
        }
        DataType::List(field) if !field.data_type().is_nested() => {
            let items = array.as_list::<i32>().value(row);
            body.put_i32(i32::from(!items.is_empty()));
            body.put_i32(i32::from(items.null_count() > 0));
            body.put_u32(super::types::of_column(items.data_type()).0);
            if !items.is_empty() {
                body.put_i32(i32::try_from(items.len()).unwrap_or(i32::MAX));
                body.put_i32(1);
            }
            for item in 0..items.len() {
                put_value(body, &items, item, 1)?;
            }
        }
        // Text has the same bytes in both formats.
        _ => put_plain(body, array, row)?,
    }
    Ok(())
}

/// Writes a decimal number: groups of four digits, and the position of the point among them.
fn put_numeric(body: &mut BytesMut, text: &str) -> Result<()> {
    let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches('0');
    let pad = |len: usize| "0".repeat(len.next_multiple_of(4) - len);
    let digits = format!("{}{whole}{fraction}{}", pad(whole.len()), pad(fraction.len()));
    let mut groups = Vec::new();
    for group in digits.as_bytes().chunks(4) {
        groups.push(group.iter().fold(0, |value, digit| value * 10 + i16::from(digit - b'0')));
    }
    let mut weight = whole.len().div_ceil(4) as i64 - 1;
    while groups.first() == Some(&0) {
        groups.remove(0);
        weight -= 1;
    }
    while groups.last() == Some(&0) {
        groups.pop();
    }
    let too_large = |_| Error::limit_exceeded("the number is too large for the protocol");
    body.put_i16(i16::try_from(groups.len()).map_err(too_large)?);
    body.put_i16(if groups.is_empty() { 0 } else { i16::try_from(weight).map_err(too_large)? });
    body.put_i16(if is_negative && !groups.is_empty() { 0x4000 } else { 0 });
    body.put_i16(i16::try_from(fraction.len()).map_err(too_large)?);
    groups.into_iter().for_each(|group| body.put_i16(group));
    Ok(())
}
