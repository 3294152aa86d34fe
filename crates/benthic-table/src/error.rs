//! Converts errors of Arrow and Parquet to Benthic errors, and suggests names.

use benthic_core::Error;
use parquet::errors::ParquetError;
use strsim::levenshtein;

/// The error of an Arrow kernel that failed on data checked before.
pub(crate) fn arrow(message: &str, source: arrow::error::ArrowError) -> Error {
    Error::internal(message).with_source(source)
}

pub(crate) fn value_error(column: &str, source: arrow::error::ArrowError) -> Error {
    Error::invalid_argument("a value does not fit the column").with("column", column).with_source(source)
}

/// The error of a Parquet object that cannot be read: the pool's error if the pool failed, else
/// `Corrupt`.
pub(crate) fn parquet(source: ParquetError) -> Error {
    let corrupt = || Error::corrupt("a Parquet object cannot be read");
    match source {
        ParquetError::External(source) => match source.downcast::<Error>() {
            Ok(error) => *error,
            Err(source) => corrupt().with_source(source),
        },
        other => corrupt().with_source(other),
    }
}

/// A "did you mean" suggestion for a name that is not among `names`: a name that differs only in
/// case, else the nearest within three edits.
pub fn suggest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // The distance costs the product of the lengths, so only short names are compared.
    const CHARS_MAX: usize = 64;
    let lower = name.to_lowercase();
    let short = |name: &str| name.chars().nth(CHARS_MAX).is_none();
    let mut best: Option<(usize, &str)> = None;
    for candidate in names {
        let other = candidate.to_lowercase();
        let distance = match other == lower {
            true => 0,
            false if short(&other) && short(&lower) => levenshtein(&other, &lower),
            false => continue,
        };
        let near = distance <= 3 && distance < lower.chars().count();
        if near && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, name)| name)
}

pub(crate) fn no_such_column<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Error {
    let error = |message: String| Error::invalid_argument(message).with("column", name);
    match suggest(name, names) {
        Some(hint) => error(format!("the table has no such column; did you mean {hint:?}")),
        None => error("the table has no such column".to_owned()),
    }
}
