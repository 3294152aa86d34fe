//! Reads of byte ranges: the plan queues them, and the thread that polls the plan serves them.
//!
//! The Parquet reader is asynchronous, but an OSD has no async runtime. A queued read is a one-shot
//! channel that the polling thread completes.

use super::ranges::{Ranges, elapsed_us};
use arrow::datatypes::SchemaRef;
use benthic_parquet::bounds::{self, Chunks};
use bytes::Bytes;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource_parquet::ParquetFileReaderFactory;
use datafusion_physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result};
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::{FooterTail, ParquetMetaData, ParquetMetaDataReader};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Size of the first read, at the end of the object. It contains the whole footer of most objects.
const FOOTER_GUESS_BYTES: u64 = 32 * 1024;

/// The pending reads of one fragment.
#[derive(Debug)]
pub struct Queue {
    size_bytes: u64,
    pending: Mutex<Vec<PendingRead>>,
    totals: Mutex<ReadTotals>,
}

/// Totals of the served reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadTotals {
    pub reads: u64,
    pub read_bytes: u64,
    pub read_us: u64,
}

#[derive(Debug)]
struct PendingRead {
    ranges: Vec<Range<u64>>,
    answer: oneshot::Sender<Vec<Bytes>>,
}

impl Queue {
    pub fn new(size_bytes: u64) -> Queue {
        Queue { size_bytes, pending: Mutex::default(), totals: Mutex::default() }
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Serves all pending reads. Returns whether there were any.
    pub fn serve(&self, ranges: &mut dyn Ranges) -> benthic_core::Result<bool> {
        let pending = std::mem::take(&mut *self.pending.lock());
        let served = !pending.is_empty();
        let start = ranges.monotonic();
        for read in pending {
            let merged = merge_ranges(&read.ranges, ranges.gap_bytes_max());
            let data = ranges.read(&merged)?;
            let mut totals = self.totals.lock();
            totals.reads += data.len() as u64;
            totals.read_bytes += data.iter().map(|data| data.len() as u64).sum::<u64>();
            drop(totals);
            // The receiver may be gone, for example after a limit was reached.
            let _ = read.answer.send(split_ranges(&read.ranges, &merged, &data));
        }
        self.totals.lock().read_us += elapsed_us(ranges, start);
        Ok(served)
    }

    pub fn totals(&self) -> ReadTotals {
        *self.totals.lock()
    }
}

/// Merges ranges whose gap is at most `gap_bytes_max`.
pub fn merge_ranges(ranges: &[Range<u64>], gap_bytes_max: u64) -> Vec<Range<u64>> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap_bytes_max) => {
                last.end = last.end.max(range.end);
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Cuts the given ranges out of `data`, the data of the `merged` ranges from [`merge_ranges`].
pub fn split_ranges(ranges: &[Range<u64>], merged: &[Range<u64>], data: &[Bytes]) -> Vec<Bytes> {
    let part = |range: &Range<u64>| {
        let at = merged.partition_point(|merged| merged.start <= range.start) - 1;
        let start = (range.start - merged[at].start) as usize;
        data[at].slice(start..start + (range.end - range.start) as usize)
    };
    ranges.iter().map(part).collect()
}

/// Creates readers whose reads go to the queue. The scan reads Bloom filters with the reader that
/// has read the footer, and then data with a new one.
#[derive(Debug)]
pub struct Readers {
    queue: Arc<Queue>,
    schema: SchemaRef,
    /// Maximum number of Bloom filters to read.
    filters_max: usize,
    known: Arc<Mutex<FooterParts>>,
}

impl Readers {
    /// `lookups` is the number of values that the scan looks up in each Bloom filter.
    pub fn new(queue: Arc<Queue>, schema: SchemaRef, lookups: usize) -> Readers {
        let filters_max = bounds::BLOOM_FILTER_LOOKUPS_MAX / lookups.max(1);
        Readers { queue, schema, filters_max, known: Arc::default() }
    }
}

/// Where the footer says that the other parts of the object are.
#[derive(Debug, Default)]
struct FooterParts {
    chunks: Chunks,
    /// The Bloom filters: where they start, and their length if the footer has it.
    filters: HashMap<u64, Option<u64>>,
    /// The place of a filter whose header was just read.
    filter_after_header: Option<Range<u64>>,
    filter_bytes: u64,
    /// Number of filters whose start was requested.
    filters_read: usize,
}

impl ParquetFileReaderFactory for Readers {
    fn create_reader(
        &self,
        _: usize,
        _: PartitionedFile,
        _: Option<usize>,
        _: &ExecutionPlanMetricsSet,
    ) -> datafusion_common::Result<Box<dyn AsyncFileReader + Send>> {
        Ok(Box::new(Reader {
            queue: Arc::clone(&self.queue),
            schema: Arc::clone(&self.schema),
            filters_max: self.filters_max,
            known: Arc::clone(&self.known),
        }))
    }
}

/// Reads the footer, Bloom filters and whole column chunks of row groups, and checks them before
/// they are decoded.
struct Reader {
    queue: Arc<Queue>,
    schema: SchemaRef,
    filters_max: usize,
    known: Arc<Mutex<FooterParts>>,
}

impl Reader {
    async fn fetch(&self, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        // A hostile footer may point anywhere, and at the same bytes many times.
        let mut sorted = ranges.clone();
        sorted.sort_unstable_by_key(|range| range.start);
        if ranges.iter().any(|range| range.start > range.end || range.end > self.queue.size_bytes)
            || sorted.windows(2).any(|pair| pair[1].start < pair[0].end)
        {
            return Err(failure(
                "the footer points beyond the end of the object, or twice at the same bytes",
            ));
        }
        if ranges.iter().map(|range| range.end - range.start).sum::<u64>() > bounds::FETCH_BYTES_MAX {
            return Err(bounds::refusal("a row group whose columns are too large"));
        }
        let (answer, answered) = oneshot::channel();
        self.queue.pending.lock().push(PendingRead { ranges, answer });
        answered.await.map_err(|_| failure("the read was abandoned"))
    }

    async fn fetch_one(&self, range: Range<u64>) -> Result<Bytes> {
        self.fetch(vec![range]).await?.pop().ok_or_else(|| failure("nothing was read"))
    }

    async fn footer(&mut self) -> Result<ParquetMetaData> {
        let size_bytes = self.queue.size_bytes;
        let guess = self.fetch_one(size_bytes.saturating_sub(FOOTER_GUESS_BYTES)..size_bytes).await?;
        let tail = guess.last_chunk().ok_or_else(|| failure("not a Parquet file: too short"))?;
        let tail = FooterTail::try_new(tail)?;
        let footer_bytes = tail.metadata_length();
        if tail.is_encrypted_footer() || footer_bytes as u64 > bounds::FOOTER_BYTES_MAX {
            return Err(bounds::refusal("a footer that is encrypted or too large"));
        }
        let end = guess.len() - FOOTER_SIZE;
        let footer = match end.checked_sub(footer_bytes) {
            Some(start) => guess.slice(start..end),
            None => {
                let end = size_bytes - FOOTER_SIZE as u64;
                let start = end.checked_sub(footer_bytes as u64);
                self.fetch_one(start.ok_or_else(|| failure("not a Parquet file: too short"))?..end).await?
            }
        };
        bounds::footer(&footer)?;
        let metadata = ParquetMetaDataReader::decode_metadata(&footer)?;
        let (metadata, chunks) = bounds::metadata(metadata, &self.schema)?;
        let places = metadata.row_groups().iter().flat_map(|group| group.columns()).filter_map(|chunk| {
            let len_bytes =
                chunk.bloom_filter_length().map(|len_bytes| u64::try_from(len_bytes).unwrap_or(0));
            Some((u64::try_from(chunk.bloom_filter_offset()?).ok()?, len_bytes))
        });
        let mut filters = HashMap::new();
        for (start, len_bytes) in places {
            // The check of one length would not hold for the other one.
            if filters.insert(start, len_bytes).is_some_and(|other| other != len_bytes) {
                return Err(bounds::refusal("a Bloom filter of several lengths"));
            }
        }
        *self.known.lock() = FooterParts { chunks, filters, ..FooterParts::default() };
        Ok(metadata)
    }

    /// Reads a part of a Bloom filter. The scan ignores errors: then it reads the row group.
    async fn filter(&self, range: Range<u64>) -> Result<Bytes> {
        let len_bytes = range.end.saturating_sub(range.start);
        let (follows_header, known_bytes) = {
            let mut known = self.known.lock();
            known.filter_bytes = known.filter_bytes.saturating_add(len_bytes);
            if known.filter_bytes > bounds::BLOOM_FILTERS_BYTES_MAX {
                return Err(bounds::refusal("Bloom filters that are too large"));
            }
            let follows_header = known.filter_after_header.take().is_some_and(|filter| filter == range);
            known.filters_read += usize::from(!follows_header);
            if known.filters_read > self.filters_max {
                return Err(bounds::refusal("too many Bloom filters for the values of the query"));
            }
            (follows_header, known.filters.get(&range.start).copied())
        };
        if follows_header {
            return self.fetch_one(range).await;
        }
        let known_bytes =
            known_bytes.ok_or_else(|| failure("only the footer, Bloom filters and data are read"))?;
        let data = self.fetch_one(range.clone()).await?;
        let (header_bytes, filter_bytes) = bounds::bloom_filter(&data)?;
        match known_bytes {
            Some(_) if header_bytes + filter_bytes != len_bytes => {
                Err(failure("a Bloom filter has another length than its header says"))
            }
            Some(_) => Ok(data),
            None => {
                let start = range.start + header_bytes;
                self.known.lock().filter_after_header = Some(start..start + filter_bytes);
                Ok(data)
            }
        }
    }
}

fn failure(why: &str) -> ParquetError {
    ParquetError::General(why.to_owned())
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        // Page indexes are read this way, too, but they are disabled.
        self.filter(range).boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        async move {
            let chunks = {
                let known = self.known.lock();
                ranges.iter().map(|range| known.chunks.get(&range.start).copied()).collect::<Option<Vec<_>>>()
            };
            let chunks = chunks.ok_or_else(|| failure("a read starts at no known column chunk"))?;
            let data = self.fetch(ranges).await?;
            bounds::chunks(data.iter().map(Bytes::as_ref).zip(chunks))?;
            Ok(data)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        async move { Ok(Arc::new(self.footer().await?)) }.boxed()
    }
}
