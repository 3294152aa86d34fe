//! Reuse of the buffers that readers get their data in.
//!
//! A new buffer costs about as much as the copy into it: the allocator zeroes it, and a large one
//! comes from the kernel, so that each of its pages causes a fault. So a buffer returns here when
//! its last reader drops it, and the next read of about the same length gets it. Its memory is then
//! still in the processor's cache.

use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Shorter buffers are not reused, because the allocator is as fast.
const BUFFER_BYTES_MIN: usize = 32 * 1024;
/// Limit on the memory of idle buffers.
const IDLE_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Default)]
pub(crate) struct Buffers {
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// Oldest first.
    buffers: VecDeque<Vec<u8>>,
    len_bytes: usize,
}

/// A buffer that contains arbitrary bytes until its user has written all of it.
pub(crate) struct Buffer {
    /// At least `len_bytes` long.
    bytes: Vec<u8>,
    len_bytes: usize,
    owner: Arc<Buffers>,
}

impl Buffers {
    pub fn take(self: &Arc<Buffers>, len_bytes: usize) -> Buffer {
        let reused = if len_bytes < BUFFER_BYTES_MIN { None } else { self.idle.lock().take(len_bytes) };
        let bytes = reused.unwrap_or_else(|| vec![0; len_bytes]);
        Buffer { bytes, len_bytes, owner: Arc::clone(self) }
    }
}

impl Idle {
    fn take(&mut self, len_bytes: usize) -> Option<Vec<u8>> {
        let suitable = len_bytes..=2 * len_bytes;
        let at = self.buffers.iter().rposition(|buffer| suitable.contains(&buffer.len()))?;
        let buffer = self.buffers.remove(at)?;
        self.len_bytes -= buffer.len();
        Some(buffer)
    }

    fn put(&mut self, buffer: Vec<u8>) {
        self.len_bytes += buffer.len();
        self.buffers.push_back(buffer);
        while self.len_bytes > IDLE_BYTES_MAX {
            let Some(oldest) = self.buffers.pop_front() else { break };
            self.len_bytes -= oldest.len();
        }
    }
}

impl Buffer {
    pub fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len_bytes]
    }

    pub fn freeze(mut self) -> Bytes {
        if self.bytes.len() < BUFFER_BYTES_MIN {
            return Bytes::from(std::mem::take(&mut self.bytes));
        }
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len_bytes]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if (BUFFER_BYTES_MIN..=IDLE_BYTES_MAX).contains(&bytes.len()) {
            self.owner.idle.lock().put(bytes);
        }
    }
}

#[cfg(test)]
#[path = "buffers_tests.rs"]
mod tests;
