//! Writes the selected records as CSV or JSON.

use super::failure::Failure;
use super::json::write_text;
use super::value::Value;
use super::wire::{CsvOutput, Output, check_delimiter, one_byte};

/// The form of an answer, checked.
pub(super) enum Writer {
    Csv { output: CsvOutput, quote: Option<u8>, escape: Option<u8> },
    Json(String),
}

impl Writer {
    pub fn new(output: &Output) -> Result<Writer, Failure> {
        match output {
            Output::Json(delimiter) => {
                check_delimiter(delimiter, 2, "the record delimiter of the answer")?;
                Ok(Writer::Json(delimiter.clone()))
            }
            Output::Csv(output) => {
                check_delimiter(&output.record_delimiter, 2, "the record delimiter of the answer")?;
                check_delimiter(&output.field_delimiter, 1, "the field delimiter of the answer")?;
                Ok(Writer::Csv {
                    quote: one_byte(&output.quote, "the quote of the answer")?,
                    escape: one_byte(&output.escape, "the quote escape of the answer")?,
                    output: output.clone(),
                })
            }
        }
    }

    pub fn begin(&self, to: &mut Vec<u8>) {
        if let Writer::Json(_) = self {
            to.push(b'{');
        }
    }

    /// Writes a field of a record that has `index` fields already. Returns whether it did: JSON has
    /// no missing values.
    pub fn field(&self, index: usize, name: &str, value: &Value<'_>, to: &mut Vec<u8>) -> bool {
        match self {
            Writer::Csv { output, quote, escape } => {
                if index > 0 {
                    to.extend_from_slice(output.field_delimiter.as_bytes());
                }
                let text = value.text();
                let needs_quotes = || {
                    text.contains(&output.field_delimiter)
                        || text.contains(&output.record_delimiter)
                        || text.bytes().any(|byte| matches!(byte, b'\n' | b'\r') || Some(byte) == *quote)
                };
                match quote {
                    Some(quote) if output.always_quotes || needs_quotes() => {
                        let escape = escape.unwrap_or(*quote);
                        to.push(*quote);
                        for byte in text.bytes() {
                            if byte == *quote || byte == escape {
                                to.push(escape);
                            }
                            to.push(byte);
                        }
                        to.push(*quote);
                    }
                    _ => to.extend_from_slice(text.as_bytes()),
                }
                true
            }
            Writer::Json(_) => {
                if matches!(value, Value::Missing) {
                    return false;
                }
                if index > 0 {
                    to.push(b',');
                }
                write_text(name, to);
                to.push(b':');
                match value {
                    Value::Null => to.extend_from_slice(b"null"),
                    // JSON has no such numbers.
                    Value::Float(value) if !value.is_finite() => to.extend_from_slice(b"null"),
                    Value::Text(_) | Value::Time(_) => write_text(&value.text(), to),
                    other => to.extend_from_slice(other.text().as_bytes()),
                }
                true
            }
        }
    }

    pub fn end(&self, to: &mut Vec<u8>) {
        match self {
            Writer::Csv { output, .. } => to.extend_from_slice(output.record_delimiter.as_bytes()),
            Writer::Json(delimiter) => {
                to.push(b'}');
                to.extend_from_slice(delimiter.as_bytes());
            }
        }
    }
}
