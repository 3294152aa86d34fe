//! Text input: a sample for type inference, and a count of the bytes read.

use super::reader::{BATCH_BYTES, BATCH_ROWS};
use benthic_core::Error;
use std::io::{self, Chain, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum size of the sample from which types are inferred.
pub(super) const SAMPLE_BYTES: usize = 1024 * 1024;
pub(super) const SAMPLE_ROWS: usize = 10_000;
/// Maximum bytes read for one batch. If a batch needs more, a quote is probably not closed, or a
/// row is too large.
const READ_BYTES_MAX: u64 = 256 * 1024 * 1024;

pub(super) struct Text {
    /// The beginning of the text, in whole lines.
    pub sample: Vec<u8>,
    /// Whether the sample is the whole text.
    pub is_whole: bool,
    /// The whole text, including the sample.
    pub reader: Metered,
    pub meter: Arc<Meter>,
}

impl Text {
    pub(super) fn open(mut from: Box<dyn Read + Send>) -> io::Result<Text> {
        let mut start = Vec::new();
        (&mut from).take(SAMPLE_BYTES as u64 + 1).read_to_end(&mut start)?;
        let is_whole = start.len() <= SAMPLE_BYTES;
        let mut sample = start.clone();
        if !is_whole {
            let lines = sample.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            sample.truncate(lines);
        }
        let meter = Arc::new(Meter::default());
        let reader = Metered { from: Cursor::new(start).chain(from), meter: Arc::clone(&meter) };
        Ok(Text { sample, is_whole, reader, meter })
    }

    /// Number of rows in a batch of about [`BATCH_BYTES`].
    pub(super) fn batch_rows(&self) -> usize {
        let lines = self.sample.iter().filter(|byte| **byte == b'\n').count().max(1);
        let row_bytes = (self.sample.len() / lines).max(1);
        (BATCH_BYTES / row_bytes).clamp(1, BATCH_ROWS)
    }
}

#[derive(Default)]
pub(super) struct Meter {
    bytes: AtomicU64,
}

impl Meter {
    /// The bytes since the previous call.
    pub(super) fn take(&self) -> u64 {
        self.bytes.swap(0, Ordering::Relaxed)
    }
}

/// A reader that counts bytes and limits the bytes of one batch.
pub(super) struct Metered {
    from: Chain<Cursor<Vec<u8>>, Box<dyn Read + Send>>,
    meter: Arc<Meter>,
}

impl Read for Metered {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.meter.bytes.load(Ordering::Relaxed) > READ_BYTES_MAX {
            let message = "a few rows are too large; check for a quote that is not closed";
            let error = Error::limit_exceeded(message).with("len_bytes_max", READ_BYTES_MAX);
            return Err(io::Error::other(error));
        }
        let read = self.from.read(to)?;
        self.meter.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
