//! A request and an answer of the class, and the checks of a request's parameters.

use super::failure::Failure;
use benthic_core::Error;
use serde::{Deserialize, Serialize};

/// Limit of an encoded request: an expression of 256 KiB, in which JSON may escape every byte.
pub const REQUEST_BYTES_MAX: usize = 2 * 1024 * 1024;

/// A query and the forms of the data and of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub expression: String,
    pub input: Input,
    /// How the object as a whole is compressed.
    #[serde(default)]
    pub compression: Compression,
    pub output: Output,
    /// Only records that start in this part of the object are read.
    #[serde(default)]
    pub range: Option<ScanRange>,
}

/// The form of the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Input {
    Csv(CsvInput),
    /// A value in each line.
    JsonLines,
    /// Values one after the other, each over any number of lines.
    JsonDocument,
    /// Rows with types. Only the class `table` and the gateway read them.
    Parquet,
}

/// The compression of CSV and JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    #[default]
    None,
    Gzip,
    Bzip2,
}

/// The form of data in CSV, with the defaults of S3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CsvInput {
    pub header: Header,
    pub record_delimiter: String,
    pub field_delimiter: String,
    /// Empty for none.
    pub quote: String,
    pub escape: String,
    pub comment: String,
    pub quoted_record_delimiter: bool,
}

/// The use of the first record of CSV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Header {
    /// It has the names of the columns.
    Use,
    /// It is skipped.
    Ignore,
    /// It is a record like the others.
    #[default]
    None,
}

impl Default for CsvInput {
    fn default() -> CsvInput {
        CsvInput {
            header: Header::None,
            record_delimiter: "\n".to_owned(),
            field_delimiter: ",".to_owned(),
            quote: "\"".to_owned(),
            escape: "\"".to_owned(),
            comment: "#".to_owned(),
            quoted_record_delimiter: false,
        }
    }
}

/// The form of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Output {
    Csv(CsvOutput),
    /// An object for each record, and this text after it.
    Json(String),
}

/// The form of an answer in CSV, with the defaults of S3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CsvOutput {
    pub record_delimiter: String,
    pub field_delimiter: String,
    pub quote: String,
    pub escape: String,
    pub always_quotes: bool,
}

impl Default for CsvOutput {
    fn default() -> CsvOutput {
        CsvOutput {
            record_delimiter: "\n".to_owned(),
            field_delimiter: ",".to_owned(),
            quote: "\"".to_owned(),
            escape: "\"".to_owned(),
            always_quotes: false,
        }
    }
}

/// A part of an object: from `start` to `end`, which belongs to it; without a start, the last `end`
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanRange {
    pub start: Option<u64>,
    pub end: Option<u64>,
}

/// Sizes of the data that a query read and returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Bytes of the object.
    pub scanned_bytes: u64,
    /// Bytes of its data, without compression.
    pub processed_bytes: u64,
    pub returned_bytes: u64,
}

/// The part of the class's answer before the records, as JSON in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    pub totals: Totals,
    /// Why the query ended after the records. An error of the method would have no message on Ceph.
    pub failure: Option<Failure>,
}

/// An answer of the class: the totals of a query or why it ended early, and its records.
///
/// # Errors
/// `Internal` if the head has no JSON.
pub fn encode_answer(totals: Totals, failure: Option<Failure>, records: &[u8]) -> Result<Vec<u8>, Error> {
    let mut answer = serde_json::to_vec(&Head { totals, failure })
        .map_err(|error| Error::internal("the output cannot be encoded").with_source(error))?;
    answer.push(b'\n');
    answer.extend_from_slice(records);
    Ok(answer)
}

/// The head and the records of an answer; `None` if it is not one.
pub fn decode_answer(answer: &[u8]) -> Option<(Head, usize)> {
    let end = memchr::memchr(b'\n', answer)?;
    Some((serde_json::from_slice(&answer[..end]).ok()?, end + 1))
}

/// Checks a delimiter of `characters_max` characters.
pub(super) fn check_delimiter(text: &str, characters_max: usize, what: &str) -> Result<(), Failure> {
    if (1..=characters_max).contains(&text.chars().count()) {
        return Ok(());
    }
    let message = format!("{what} must have 1 to {characters_max} characters");
    Err(Failure::new("InvalidRequestParameter", message))
}

/// A character that may be absent.
pub(super) fn one_byte(text: &str, what: &str) -> Result<Option<u8>, Failure> {
    match text.as_bytes() {
        [] => Ok(None),
        [byte] if byte.is_ascii() => Ok(Some(*byte)),
        _ => Err(Failure::new("InvalidRequestParameter", format!("{what} must be one character of ASCII"))),
    }
}
