//! The bytes of one column chunk, a few pages at a time.
//!
//! Parquet's decoder pulls pages, but only the caller of the decoder can read the object, and the
//! decoder cannot wait. So the caller reads ahead: before the decoder reads rows, a [`Feed`] has
//! all pages with these rows in its window, checked, within a budget of memory. A chunk with lists
//! is read whole, because only its levels say where its rows are.

use crate::bounds::{self, Chunk};
use benthic_classes::select::{Failure, Fault};
use bytes::buf::Reader;
use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// The first read of a header, which has no known length.
const HEADER_BYTES: u64 = 1024;
/// Limit of the pages of a batch, as they are stored and without compression.
const PAGES_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Statistics may make a header long.
const HEADER_BYTES_MAX: u64 = 1024 * 1024;

/// The part of the object that is in memory.
#[derive(Debug)]
pub struct Window(Mutex<Held>);

#[derive(Debug)]
struct Held {
    start: u64,
    data: Bytes,
    /// The decoder has read everything before.
    read_to: u64,
}

impl Window {
    fn new(start: u64) -> Window {
        Window(Mutex::new(Held { start, data: Bytes::new(), read_to: start }))
    }
}

impl Held {
    fn from(&self, place: u64) -> Option<Bytes> {
        let at = usize::try_from(place.checked_sub(self.start)?).ok()?;
        (at <= self.data.len()).then(|| self.data.slice(at..))
    }
}

fn absent() -> ParquetError {
    ParquetError::General("the decoder reads beyond the checked pages".to_owned())
}

impl Length for Window {
    fn len(&self) -> u64 {
        let held = self.0.lock();
        held.start + held.data.len() as u64
    }
}

impl ChunkReader for Window {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Reader<Bytes>> {
        Ok(self.0.lock().from(start).ok_or_else(absent)?.reader())
    }

    fn get_bytes(&self, start: u64, len_bytes: usize) -> Result<Bytes> {
        let mut held = self.0.lock();
        let data = held.from(start).filter(|data| data.len() >= len_bytes).ok_or_else(absent)?;
        held.read_to = held.read_to.max(start + len_bytes as u64);
        Ok(data.slice(..len_bytes))
    }
}

/// Memory that the feeds of a row group may use together.
#[derive(Debug)]
pub struct Budget {
    pub pages_bytes: u64,
    pub lists_bytes: u64,
}

impl Budget {
    pub fn full() -> Budget {
        Budget { pages_bytes: PAGES_BYTES_MAX, lists_bytes: bounds::LISTS_BYTES_MAX }
    }
}

/// Reads a range of the object.
pub type ReadRange<'r> = dyn FnMut(Range<u64>) -> std::result::Result<Bytes, Fault> + 'r;

/// A column chunk.
pub struct Feed {
    window: Arc<Window>,
    chunk: Chunk,
    has_lists: bool,
    /// The place of the first page that is not checked.
    at: u64,
    end: u64,
    /// Values of the checked pages.
    values: u64,
    /// Pages that the decoder may hold: the values up to their ends, and their memory.
    pages: VecDeque<(u64, u64)>,
    /// Bytes of one read, if there are as many.
    read_bytes: u64,
}

impl Feed {
    pub fn new(place: Range<u64>, chunk: Chunk, has_lists: bool, read_bytes: u64) -> Feed {
        Feed {
            window: Arc::new(Window::new(place.start)),
            chunk,
            has_lists,
            at: place.start,
            end: place.end,
            values: 0,
            pages: VecDeque::new(),
            read_bytes,
        }
    }

    pub fn window(&self) -> Arc<Window> {
        Arc::clone(&self.window)
    }

    /// Frees the pages that only the rows before `row` need.
    pub fn free(&mut self, row: u64, budget: &mut Budget) {
        if !self.has_lists {
            while let Some((_, memory_bytes)) = self.pages.pop_front_if(|(end, _)| *end <= row) {
                budget.pages_bytes += memory_bytes;
            }
        }
        let mut held = self.window.0.lock();
        let passed = (held.read_to - held.start) as usize;
        // A new allocation, because a part of the old one would keep all of it.
        if passed > held.data.len() / 2 {
            held.data = Bytes::copy_from_slice(&held.data[passed..]);
            held.start += passed as u64;
        }
    }

    /// Reads and checks all pages with rows before `row`. Returns the number of bytes that these
    /// pages have without compression.
    pub fn advance(
        &mut self,
        row: u64,
        budget: &mut Budget,
        read: &mut ReadRange<'_>,
    ) -> std::result::Result<u64, Fault> {
        let mut processed_bytes = 0;
        while self.at < self.end && (self.has_lists || self.values < row) {
            let header = self.header(read)?;
            // The stored page, and its decoded form.
            let memory_bytes = header.memory_bytes() + header.stored_bytes;
            let list_bytes = header.values.saturating_mul(self.chunk.list_value_bytes);
            let over = || too_large("the pages of some rows need too much memory");
            budget.pages_bytes = budget.pages_bytes.checked_sub(memory_bytes).ok_or_else(over)?;
            budget.lists_bytes = budget.lists_bytes.checked_sub(list_bytes).ok_or_else(over)?;
            let len_bytes = header.len_bytes as u64 + header.stored_bytes;
            let data = self.hold(len_bytes, read)?;
            let page = bounds::page(&data[..len_bytes as usize]).map_err(|error| fault_of(&error))?;
            if self.chunk.is_gzip {
                bounds::check_gzip(&page).map_err(|error| fault_of(&error))?;
            }
            self.values = self.values.saturating_add(page.values);
            self.at += len_bytes;
            processed_bytes += header.memory_bytes();
            // A dictionary stays until the end of the chunk, and so does its part of the budget.
            if header.has_data {
                self.pages.push_back((self.values, memory_bytes));
            }
        }
        if !self.has_lists && self.values < row {
            return Err(corrupt("a column has fewer values than there are rows"));
        }
        Ok(processed_bytes)
    }

    fn header(&self, read: &mut ReadRange<'_>) -> std::result::Result<bounds::PageHeader, Fault> {
        let left = self.end - self.at;
        let mut len_bytes = HEADER_BYTES.min(left);
        loop {
            let data = self.hold(len_bytes, read)?;
            if let Some(header) = bounds::page_header(&data).map_err(|error| fault_of(&error))? {
                return Ok(header);
            }
            if data.len() as u64 >= left.min(HEADER_BYTES_MAX) {
                return Err(corrupt("the header of a page is truncated, or too long"));
            }
            len_bytes = (data.len() as u64 * 4).min(left);
        }
    }

    /// The bytes from the first unchecked page on: at least this many.
    fn hold(&self, len_bytes: u64, read: &mut ReadRange<'_>) -> std::result::Result<Bytes, Fault> {
        if len_bytes > self.end - self.at {
            return Err(corrupt("a page is truncated"));
        }
        let mut held = self.window.0.lock();
        let held_to = held.start + held.data.len() as u64;
        if held_to < self.at + len_bytes {
            let to = (self.at + len_bytes).max(held_to + self.read_bytes).min(self.end);
            let more = read(held_to..to)?;
            held.data = if held.data.is_empty() {
                more
            } else {
                let mut joined = BytesMut::with_capacity(held.data.len() + more.len());
                joined.extend_from_slice(&held.data);
                joined.extend_from_slice(&more);
                joined.freeze()
            };
        }
        held.from(self.at).ok_or_else(|| fault_of(&absent()))
    }
}

/// An error of the checks or of the decoder, as a fault of the data.
pub fn fault_of(error: &ParquetError) -> Fault {
    let code = match error {
        ParquetError::NYI(_) => "UnsupportedParquetType",
        _ => "ParquetParsingError",
    };
    let message = error.to_string().chars().take(500).collect::<String>();
    Failure::new(code, message).into()
}

/// The fault of data that need too much memory.
pub fn too_large(what: &str) -> Fault {
    let message = format!("{what}; write the file with smaller pages or row groups, or select fewer columns");
    Failure::new("OverMaxParquetBlockSize", message).into()
}

fn corrupt(why: &str) -> Fault {
    fault_of(&bounds::corrupt(why))
}
