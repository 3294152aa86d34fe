//! The format of changes between two snapshots: that of `rbd export-diff`, version 1, which
//! Ceph's documentation describes (doc/dev/rbd-diff.rst). All numbers are little-endian.
//!
//! ```text
//! "rbd diff v1\n"
//! 'f'  length u32, name     the snapshot at which the changes begin; absent for all bytes
//! 't'  length u32, name     the snapshot at which they end; absent for the image
//! 's'  size u64             the size at the end
//! 'w'  offset u64, length u64, data
//! 'z'  offset u64, length u64     zeros
//! 'e'                       the end
//! ```

mod merge;

use crate::names::NAME_BYTES_MAX;
use benthic_core::{Action, Error, Result};
pub use merge::merge;
use std::io::{self, Read};

const MAGIC: &[u8; 12] = b"rbd diff v1\n";

/// The two states between which the changes are, and the size at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffHeader {
    pub from: Option<String>,
    pub to: Option<String>,
    pub size_bytes: u64,
}

/// One change. The data of a `Write` follows it in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Write { offset_bytes: u64, len_bytes: u64 },
    Zero { offset_bytes: u64, len_bytes: u64 },
}

/// Encodes the start of a stream.
pub fn encode_header(header: &DiffHeader) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for (tag, name) in [(b'f', &header.from), (b't', &header.to)] {
        if let Some(name) = name {
            out.push(tag);
            out.extend_from_slice(&(name.len() as u32).to_le_bytes());
            out.extend_from_slice(name.as_bytes());
        }
    }
    out.push(b's');
    out.extend_from_slice(&header.size_bytes.to_le_bytes());
    out
}

/// Encodes a change, without the data of a `Write`.
pub fn encode_change(change: Change) -> [u8; 17] {
    let (tag, offset_bytes, len_bytes) = match change {
        Change::Write { offset_bytes, len_bytes } => (b'w', offset_bytes, len_bytes),
        Change::Zero { offset_bytes, len_bytes } => (b'z', offset_bytes, len_bytes),
    };
    let mut out = [tag; 17];
    out[1..9].copy_from_slice(&offset_bytes.to_le_bytes());
    out[9..].copy_from_slice(&len_bytes.to_le_bytes());
    out
}

/// The last byte of a stream.
pub const END: u8 = b'e';

/// Reads a stream.
pub struct DiffReader<R> {
    input: R,
    header: DiffHeader,
    /// The tag of the first change, which ended the header.
    tag: Option<u8>,
    /// Data of the last `Write` that was not read yet.
    left_bytes: u64,
}

impl<R: Read> DiffReader<R> {
    /// Reads up to the first change.
    ///
    /// # Errors
    /// `InvalidArgument` for another format; those of reading.
    pub fn open(mut input: R) -> Result<DiffReader<R>> {
        let mut magic = [0; MAGIC.len()];
        read(&mut input, &mut magic)?;
        if magic != *MAGIC {
            return Err(invalid(
                "this is not a file of `export-diff`: it does not begin with \"rbd diff v1\"",
            ));
        }
        let mut header = DiffHeader::default();
        let mut has_size = false;
        let tag = loop {
            match read_array::<1>(&mut input)?[0] {
                b'f' => header.from = Some(read_name(&mut input)?),
                b't' => header.to = Some(read_name(&mut input)?),
                b's' => {
                    header.size_bytes = u64::from_le_bytes(read_array(&mut input)?);
                    has_size = true;
                }
                tag => break tag,
            }
        };
        if !has_size {
            return Err(invalid("the changes do not say the image's size"));
        }
        Ok(DiffReader { input, header, tag: Some(tag), left_bytes: 0 })
    }

    pub fn header(&self) -> &DiffHeader {
        &self.header
    }

    /// The next change; `None` at the end. The data of the last change must have been read.
    ///
    /// # Errors
    /// `InvalidArgument` for damage, for changes beyond the size, and for a stream that ends early.
    pub fn next_change(&mut self) -> Result<Option<Change>> {
        assert!(self.left_bytes == 0, "the data of a change must be read");
        let tag = if let Some(tag) = self.tag.take() { tag } else { read_array::<1>(&mut self.input)?[0] };
        if tag == END {
            self.tag = Some(END);
            return Ok(None);
        }
        if tag != b'w' && tag != b'z' {
            return Err(invalid("the changes have an unknown record"));
        }
        let offset_bytes = u64::from_le_bytes(read_array(&mut self.input)?);
        let len_bytes = u64::from_le_bytes(read_array(&mut self.input)?);
        if offset_bytes.checked_add(len_bytes).is_none_or(|end| end > self.header.size_bytes) {
            return Err(invalid("the changes reach beyond the size that they give"));
        }
        if tag == b'z' {
            return Ok(Some(Change::Zero { offset_bytes, len_bytes }));
        }
        self.left_bytes = len_bytes;
        Ok(Some(Change::Write { offset_bytes, len_bytes }))
    }

    /// Reads up to `len_bytes_max` of the last `Write`'s data. Empty if all of it was read.
    ///
    /// # Errors
    /// `InvalidArgument` for a stream that ends early.
    pub fn read_data(&mut self, len_bytes_max: u64) -> Result<Vec<u8>> {
        let mut data = vec![0; self.left_bytes.min(len_bytes_max) as usize];
        read(&mut self.input, &mut data)?;
        self.left_bytes -= data.len() as u64;
        Ok(data)
    }
}

fn read(input: &mut impl Read, out: &mut [u8]) -> Result<()> {
    input.read_exact(out).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => invalid("the changes end too early; the file is not complete"),
        _ => Error::io(Action::Read, "cannot read the changes", error),
    })
}

fn read_array<const N: usize>(input: &mut impl Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    read(input, &mut bytes)?;
    Ok(bytes)
}

fn read_name(input: &mut impl Read) -> Result<String> {
    let len = u32::from_le_bytes(read_array(input)?) as usize;
    if len > NAME_BYTES_MAX {
        return Err(invalid("the changes name a snapshot whose name is too long"));
    }
    let mut name = vec![0; len];
    read(input, &mut name)?;
    let name =
        String::from_utf8(name).map_err(|_| invalid("the changes name a snapshot that is not UTF-8"))?;
    crate::check_snapshot_name(&name).map(|()| name)
}

fn invalid(message: &str) -> Error {
    Error::invalid_argument(message)
}

#[cfg(test)]
mod tests;
