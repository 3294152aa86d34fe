//! The socket through which other processes reach the owner of a store: `DIR/control.sock`.
//! docs/formats.md draws the protocol.

pub(crate) mod client;
mod outbox;
pub(crate) mod server;
pub(crate) mod wire;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// The first bytes that each side sends. They change with the protocol.
pub(crate) const GREETING: [u8; 8] = *b"BNTHSK02";
/// The owner's number follows its greeting.
const OWNER_BYTES: usize = 8;
const SOCKET_NAME: &str = "control.sock";
/// Maximum frame size: the largest operation and its names.
const FRAME_BYTES_MAX: usize = 72 * 1024 * 1024;

/// A path to the socket that is short enough for any directory. It is valid while the returned file
/// is open.
fn socket_path(dir: &Path) -> io::Result<(File, PathBuf)> {
    let dir = File::open(dir)?;
    let path = format!("/proc/self/fd/{}/{SOCKET_NAME}", dir.as_raw_fd());
    Ok((dir, PathBuf::from(path)))
}

/// Reads a frame: a length, followed by that many bytes.
pub(crate) fn read_frame(stream: &mut impl Read) -> io::Result<bytes::Bytes> {
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > FRAME_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame of the socket is too large"));
    }
    // The buffer grows with the bytes that arrive, not with the announced length.
    let mut frame = Vec::with_capacity(len.min(1024 * 1024));
    stream.take(len as u64).read_to_end(&mut frame)?;
    if frame.len() < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes::Bytes::from(frame))
}
