//! The mounts that this process sees.

use benthic_core::{Action, Error, Result};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A line of /proc/self/mountinfo, which proc(5) describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The device of the file system, as `MAJOR:MINOR`.
    pub device: String,
    /// The mounted directory of the file system; `/` for all of it.
    pub root: PathBuf,
    pub point: PathBuf,
    pub fs_type: String,
    /// The program's name for the device, such as `/dev/sda1`.
    pub source: PathBuf,
}

/// All mounts, in the order in which they were made.
///
/// # Errors
/// Those of reading the list.
pub fn mounts() -> Result<Vec<Mount>> {
    let lines = fs::read("/proc/self/mountinfo")
        .map_err(|error| Error::io(Action::Admin, "cannot read the list of mounts", error))?;
    Ok(lines.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

fn parse(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    // Optional fields end with a dash.
    let rest = fields.iter().position(|field| field == b"-")?;
    let text = |at: usize| Some(String::from_utf8_lossy(fields.get(at)?).into_owned());
    let path = |at: usize| Some(PathBuf::from(OsString::from_vec(unescape(fields.get(at)?))));
    Some(Mount {
        device: text(2)?,
        root: path(3)?,
        point: path(4)?,
        fs_type: text(rest + 1)?,
        source: path(rest + 2)?,
    })
}

/// Spaces and other separators are backslashes with three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
#[path = "mounts_tests.rs"]
mod tests;
