//! `COPY … TO STDOUT`: rows as Postgres writes them into files. DuckDB reads tables in this way,
//! and psql's `\copy` exports them.
//!
//! Source: Postgres' documentation, "COPY", section "File Formats".

use super::control::without_comments;
use super::encode::put_plain;
use super::messages::Writer;
use crate::statement;
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::SchemaRef;
use benthic_core::{Error, Result};
use bytes::{BufMut, BytesMut};
use datafusion::sql::sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident, Statement,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// The start of the binary format: a signature, flags, and the length of an extension. Clients
/// expect it in one message with the first row, or with the end.
pub const BINARY_START: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// How rows are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowForm {
    /// As rows of a query.
    Message,
    /// Not at all.
    Skipped,
    Binary,
    Text,
    Csv,
}

/// A statement `COPY … TO STDOUT`.
#[derive(Debug, PartialEq, Eq)]
pub struct CopyOut {
    /// The query with the rows.
    pub query: String,
    pub form: RowForm,
    has_names: bool,
}

/// Whether a statement is `COPY`.
pub fn is_copy(sql: &str) -> bool {
    let mut words = without_comments(sql).split(|c: char| c.is_whitespace() || c == '(');
    words.next().is_some_and(|verb| verb.eq_ignore_ascii_case("COPY"))
}

/// Reads a statement `COPY`. Runs on a thread of queries, because a deep statement needs its stack.
///
/// # Errors
/// `InvalidArgument` for invalid SQL; `Unsupported` for other kinds of COPY and for options.
pub fn parse(sql: &str) -> Result<CopyOut> {
    statement::check(sql)?;
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql);
    let mut parsed = parsed
        .map_err(|error| Error::invalid_argument(format!("{error}; the server has COPY … TO STDOUT only")))?;
    let Some(Statement::Copy {
        source, to: true, target: CopyTarget::Stdout, options, legacy_options, ..
    }) = parsed.pop()
    else {
        return Err(unsupported("the server only reads: write COPY … TO STDOUT"));
    };
    let query = match source {
        CopySource::Query(query) => query.to_string(),
        CopySource::Table { table_name, columns } if columns.is_empty() => {
            format!("SELECT * FROM {table_name}")
        }
        CopySource::Table { table_name, columns } => {
            let columns: Vec<String> = columns.iter().map(Ident::to_string).collect();
            format!("SELECT {} FROM {table_name}", columns.join(", "))
        }
    };
    let mut copy = CopyOut { query, form: RowForm::Text, has_names: false };
    for option in options {
        match option {
            CopyOption::Format(name) => {
                copy.form = match name.value.to_lowercase().as_str() {
                    "binary" => RowForm::Binary,
                    "csv" => RowForm::Csv,
                    "text" => RowForm::Text,
                    _ => return Err(unsupported("the formats of COPY are binary, csv and text")),
                };
            }
            CopyOption::Header(has_names) => copy.has_names = has_names,
            other => return Err(unsupported("COPY has the options FORMAT and HEADER").with("option", other)),
        }
    }
    for option in legacy_options {
        match option {
            CopyLegacyOption::Binary => copy.form = RowForm::Binary,
            CopyLegacyOption::Header => copy.has_names = true,
            CopyLegacyOption::Csv(options) => {
                copy.form = RowForm::Csv;
                copy.has_names |= options.contains(&CopyLegacyCsvOption::Header);
                if let Some(other) = options.iter().find(|option| **option != CopyLegacyCsvOption::Header) {
                    return Err(unsupported("COPY has the options FORMAT and HEADER").with("option", other));
                }
            }
            other => return Err(unsupported("COPY has the options FORMAT and HEADER").with("option", other)),
        }
    }
    Ok(copy)
}

fn unsupported(message: &str) -> Error {
    Error::unsupported(message)
}

impl CopyOut {
    /// The format of the values: 1 for binary.
    pub fn format(&self) -> i16 {
        i16::from(self.form == RowForm::Binary)
    }

    /// Announces rows with these columns.
    pub fn begin(&self, writer: &mut Writer, schema: &SchemaRef) {
        let columns = schema.fields().len();
        writer.message(b'H', |body| {
            body.put_u8(u8::from(self.form == RowForm::Binary));
            body.put_i16(i16::try_from(columns).unwrap_or(i16::MAX));
            (0..columns).for_each(|_| body.put_i16(self.format()));
        });
        if self.has_names && self.form != RowForm::Binary {
            let names = schema.fields().iter().map(|field| Some(field.name().as_bytes()));
            writer.message(b'd', |body| put_line(body, self.form, names));
        }
    }

    /// Ends the rows, of which so many were sent.
    pub fn end(&self, writer: &mut Writer, sent: u64) {
        if self.form == RowForm::Binary {
            writer.message(b'd', |body| {
                body.put_slice(if sent == 0 { BINARY_START } else { &[] });
                body.put_i16(-1);
            });
        }
        writer.message(b'c', |_| {});
    }
}

/// Writes the values of a row as a line of a file.
///
/// # Errors
/// `InvalidArgument` for a value that has no text.
pub fn put_row(
    body: &mut BytesMut,
    form: RowForm,
    columns: impl Iterator<Item = ArrayRef>,
    row: usize,
) -> Result<()> {
    let mut values = Vec::new();
    for column in columns {
        let mut value = BytesMut::new();
        let is_null = column.is_null(row);
        if !is_null {
            put_plain(&mut value, &column, row)?;
        }
        values.push((!is_null).then_some(value));
    }
    put_line(body, form, values.iter().map(Option::as_deref));
    Ok(())
}

fn put_line<'v>(body: &mut BytesMut, form: RowForm, values: impl Iterator<Item = Option<&'v [u8]>>) {
    for (number, value) in values.enumerate() {
        if number > 0 {
            body.put_u8(if form == RowForm::Csv { b',' } else { b'\t' });
        }
        match (form, value) {
            (RowForm::Csv, None) => {}
            (RowForm::Csv, Some(value)) => put_quoted(body, value),
            (_, None) => body.put_slice(b"\\N"),
            (_, Some(value)) => put_escaped(body, value),
        }
    }
    body.put_u8(b'\n');
}

/// A value of CSV. An empty text has quotes, because nothing at all is NULL.
fn put_quoted(body: &mut BytesMut, value: &[u8]) {
    let is_plain =
        !value.is_empty() && value != b"\\." && !value.iter().any(|byte| b",\"\r\n".contains(byte));
    if is_plain {
        return body.put_slice(value);
    }
    body.put_u8(b'"');
    for byte in value {
        if *byte == b'"' {
            body.put_u8(b'"');
        }
        body.put_u8(*byte);
    }
    body.put_u8(b'"');
}

fn put_escaped(body: &mut BytesMut, value: &[u8]) {
    for byte in value {
        let escaped = match byte {
            b'\\' => b'\\',
            8 => b'b',
            9 => b't',
            10 => b'n',
            11 => b'v',
            12 => b'f',
            13 => b'r',
            byte => {
                body.put_u8(*byte);
                continue;
            }
        };
        body.put_slice(&[b'\\', escaped]);
    }
}
