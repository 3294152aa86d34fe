//! Results as text, as JSON, and as files in NumPy's format, version 1.0.

use benthic_array::{ArrayAddress, ReadStats, Values, element_json};
use benthic_core::Error;
use benthic_program::exit::Outcome;
use benthic_program::local::NewFile;
use benthic_program::session::Session;
use benthic_program::units;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// Limit on the values that are printed.
const PRINTED_MAX: usize = 100_000;
/// The header's length is a multiple of this.
const ALIGNMENT: usize = 64;

/// Writes the values to a file, or prints them.
///
/// # Errors
/// `LimitExceeded` for more values than can be printed; those of the file.
pub fn deliver(
    values: &Values,
    out: Option<&Path>,
    array: &ArrayAddress,
    stats: &ReadStats,
    session: &Session,
) -> Outcome {
    let json = |key: &str, value: Value| {
        json!({
            "array": array.to_string(), "dtype": values.dtype.name(), "shape": values.shape, key: value,
            "stats": stats_json(stats),
        })
    };
    if let Some(path) = out {
        NewFile::write_whole(path, &npy(values))?;
        let text =
            format!("{}: {}", units::one_line_path(path), units::count(values.count() as u64, "value"));
        return session.out.result(text, || json("out", json!(path)));
    }
    if values.count() > PRINTED_MAX {
        return Err(Error::limit_exceeded("too many values to print; --out FILE.npy saves them")
            .with("values", values.count())
            .with("values_max", PRINTED_MAX)
            .into());
    }
    session.out.result(text(values), || json("values", nested_json(values)))
}

/// The counters of a read as JSON.
pub fn stats_json(stats: &ReadStats) -> Value {
    json!({
        "chunks": stats.chunks(),
        "pushed_chunks": stats.pushed_chunks(),
        "missing_chunks": stats.missing_chunks(),
        "pruned_chunks": stats.pruned_chunks(),
        "moved_bytes": stats.moved_bytes(),
    })
}

/// The values as lists in lists, one level for each axis. An array without values is an empty list.
fn nested_json(values: &Values) -> Value {
    fn part(values: &Values, shape: &[u64], data: &[u8]) -> Value {
        let Some((len, inner)) = shape.split_first() else { return element_json(values.dtype, data) };
        data.chunks_exact(data.len() / *len as usize).map(|data| part(values, inner, data)).collect()
    }
    if values.data.is_empty() { json!([]) } else { part(values, &values.shape, &values.data) }
}

/// A row of the last axis on each line, and an empty line between tables.
fn text(values: &Values) -> String {
    if values.data.is_empty() {
        return String::new();
    }
    let row = values.shape.last().copied().unwrap_or(1).max(1);
    let table = row * values.shape.iter().rev().nth(1).copied().unwrap_or(1).max(1);
    let mut text = String::new();
    for (index, element) in (0u64..).zip(values.data.chunks_exact(values.dtype.size_bytes())) {
        if index > 0 {
            text.push_str(match index {
                _ if index % table == 0 => "\n\n",
                _ if index % row == 0 => "\n",
                _ => " ",
            });
        }
        match element_json(values.dtype, element) {
            Value::String(special) => text.push_str(match &special[..] {
                "Infinity" => "inf",
                "-Infinity" => "-inf",
                _ => "nan",
            }),
            // Writing to a text cannot fail.
            value => drop(write!(text, "{value}")),
        }
    }
    text
}

fn npy(values: &Values) -> Vec<u8> {
    let axes: String = values.shape.iter().map(|len| format!("{len}, ")).collect();
    let mut header =
        format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({axes}), }}", values.dtype.type_string());
    let start_bytes = 10;
    while !(start_bytes + header.len() + 1).is_multiple_of(ALIGNMENT) {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(&values.data);
    file
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
