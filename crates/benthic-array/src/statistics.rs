//! Statistics of chunks: the smallest and the largest value of each, so that a reduction of the
//! values in a range skips the chunks that have none.
//!
//! Other programs write chunks without a word, so statistics must not outlive the data that they
//! describe. They name the version and the time of change of the chunk's object, and a reader that
//! would skip a chunk compares both with those of the object: one round trip without data. An
//! attribute of the chunk itself could not name its version, because setting it makes another one,
//! and on a Ceph cluster nobody knows which. So statistics are in objects of their own, a page for
//! 4,096 chunks. A page that is lost, damaged or outdated costs only time, so nothing orders its
//! writes.
//!
//! The statistics are those of the stored numbers, without the missing values that the attributes
//! name. Decoding never changes the order of numbers or reverses it, so the decoded values lie
//! between the decoded ends.

use crate::array::Array;
use crate::cf;
use crate::class::Task;
use crate::dtype::Dtype;
use crate::reduce::{AxisRole, Decoding, MISSING_MAX, Reduction, ReductionKind, Summary};
use crate::runner::{ObjectRunner, ReadStats};
use crate::selection::{Bounded, Part, PerAxis, Slice, TouchedChunks, elements, strides};
use crate::values::Values;
use benthic_core::codec::{Decoded, Decoder, Malformed, Wire};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Error, ErrorKind, ObjectId, OptionalExtension, Result, wire_struct};
use bytes::Bytes;
use futures::lock::Mutex;
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The keys of pages begin with this; their number follows.
const PAGE_PREFIX: &str = ".benthic-statistics/";
/// The number of chunks in a page.
const PAGE_CHUNKS: u64 = 4096;
/// A page is written after this number of new statistics, so that an interrupted command loses
/// little.
const WRITE_CHUNKS: usize = 256;
/// Limit on the pages in memory.
const PAGES_MAX: usize = 64;
/// Limit on the size of a page. Missing values and the format take a few kilobytes.
const PAGE_BYTES_MAX: u64 = 1 << 20;
/// Limit on the stored chunks of an array with statistics: 128 MiB of numbers.
const CHUNKS_MAX: usize = 1 << 24;
const MAGIC: &[u8; 4] = b"BNAS";
const FORMAT_VERSION: u32 = 1;
const CHECKSUM_BYTES: usize = 4;

/// Whether the key is that of a page of statistics.
pub fn is_statistics(key: &str) -> bool {
    key.strip_prefix(PAGE_PREFIX)
        .is_some_and(|number| number.parse::<u64>().is_ok_and(|page| page.to_string() == number))
}

/// The statistics of a chunk.
#[derive(Clone, Debug, PartialEq)]
struct Record {
    /// The chunk's number in the page.
    chunk: u32,
    /// Of the object that has the chunk.
    version: u64,
    modified_unix_ns: u64,
    summary: Summary,
}

/// The statistics of neighbouring chunks, in C order.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The encoding of the objects' format, which readers compare. The statistics are void for
    /// another format, and if another axis than the first has another length.
    format: Bytes,
    shape: PerAxis<u64>,
    /// The missing values that the statistics do not have.
    missing: Bounded<Bytes, MISSING_MAX>,
    /// By chunk.
    records: Bounded<Record, { PAGE_CHUNKS as usize }>,
}

wire_struct! {
    Record { chunk, version, modified_unix_ns, summary }
    Page { format, shape, missing, records }
}

impl Page {
    /// The bytes of a page's object.
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = MAGIC.to_vec();
        FORMAT_VERSION.put(&mut bytes);
        self.put(&mut bytes);
        Page::seal(bytes)
    }

    /// Appends the checksum.
    pub fn seal(mut bytes: Vec<u8>) -> Bytes {
        crc32c::crc32c(&bytes).put(&mut bytes);
        bytes.into()
    }

    /// Reverses [`Page::to_bytes`].
    ///
    /// # Errors
    /// For damaged bytes, and for a page of a newer format.
    pub fn from_bytes(bytes: &[u8]) -> Decoded<Page> {
        let (bytes, checksum) =
            bytes.split_at_checked(bytes.len().wrapping_sub(CHECKSUM_BYTES)).ok_or(Malformed)?;
        let is_intact = crc32c::crc32c(bytes).to_le_bytes() == checksum;
        let page = bytes.strip_prefix(MAGIC).filter(|_| is_intact).ok_or(Malformed)?;
        let mut decoder = Decoder::copying(page);
        if u32::get(&mut decoder)? != FORMAT_VERSION {
            return Err(Malformed);
        }
        let page = Page::get(&mut decoder)?;
        decoder.end()?;
        let is_sorted = page.records.0.windows(2).all(|pair| pair[0].chunk < pair[1].chunk);
        if is_sorted { Ok(page) } else { Err(Malformed) }
    }

    fn record(&self, chunk: u32) -> Option<&Record> {
        let index = self.records.0.binary_search_by_key(&chunk, |record| record.chunk).ok()?;
        self.records.0.get(index)
    }

    /// Whether the page describes chunks of an array with these metadata.
    fn describes(&self, array: &Array) -> bool {
        let (metadata, shape) = (array.metadata(), &self.shape.0);
        self.format == metadata.format.encode()
            && shape.len() == metadata.shape.len()
            && shape.iter().zip(&metadata.shape).skip(1).all(|(ours, theirs)| ours == theirs)
    }

    /// Whether a chunk had the same elements in the array when the page was written: appending
    /// changes the last chunks.
    fn covers(&self, array: &Array, position: &[u64]) -> bool {
        let covered = |shape: &[u64]| Some((*position.first()?, *shape.first()?));
        let chunk_len = array.metadata().format.shape.0.first().copied().unwrap_or(1);
        let end = |(position, len): (u64, u64)| len.saturating_sub(position * chunk_len).min(chunk_len);
        covered(&self.shape.0).map(end) == covered(&array.metadata().shape).map(end)
    }
}

/// The number of each chunk of an array, in C order. Appending along the first axis changes none.
struct Numbering {
    strides: Vec<u64>,
}

impl Numbering {
    /// # Errors
    /// `LimitExceeded` for an array with too many chunks.
    fn new(array: &Array) -> Result<Numbering> {
        let metadata = array.metadata();
        let lens = metadata.shape.iter().zip(&metadata.format.shape.0);
        let grid: Vec<u64> = lens.map(|(len, chunk)| len.div_ceil(*chunk)).collect();
        elements(&grid)?;
        Ok(Numbering { strides: strides(&grid) })
    }

    /// The page of a chunk, and its number there.
    fn place(&self, position: &[u64]) -> (u64, u32) {
        let number: u64 = position.iter().zip(&self.strides).map(|(index, stride)| index * stride).sum();
        (number / PAGE_CHUNKS, (number % PAGE_CHUNKS) as u32)
    }

    fn position(&self, number: u64) -> Vec<u64> {
        let mut rest = number;
        self.strides
            .iter()
            .map(|stride| {
                let index = rest / stride;
                rest %= stride;
                index
            })
            .collect()
    }
}

/// Reads a page. `None` if there is none, or if it is damaged or describes another array.
async fn read_page(array: &Array, page: u64) -> Result<Option<Page>> {
    let object = array.place().object(&format!("{PAGE_PREFIX}{page}"))?;
    let bytes = match array.place().pool.read_range(&object, 0, PAGE_BYTES_MAX).await {
        Ok(bytes) => bytes,
        // Without statistics, everything still works.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Page::from_bytes(&bytes).ok().filter(|page| page.describes(array)))
}

/// Finds the chunks that a reduction need not decode.
pub struct Pruner<'a> {
    array: &'a Array,
    decoding: Decoding,
    numbering: Numbering,
    pages: Mutex<BTreeMap<u64, Option<Arc<Page>>>>,
}

impl<'a> Pruner<'a> {
    /// `None` if the task has no range of values, or if missing values change its result.
    pub fn new(array: &'a Array, task: &Task) -> Option<Pruner<'a>> {
        let decoding = task.skipping_reduction()?.decoding.as_ref()?;
        let has_range = decoding.wanted_min.is_some() || decoding.wanted_max.is_some();
        // These integers are not exact in the statistics, and would be rounded twice.
        let is_exact =
            !(decoding.is_single && matches!(array.metadata().format.dtype, Dtype::Int64 | Dtype::Uint64));
        let numbering = Numbering::new(array).ok()?;
        (has_range && is_exact).then(|| Pruner {
            array,
            decoding: decoding.clone(),
            numbering,
            pages: Mutex::default(),
        })
    }

    async fn page(&self, page: u64) -> Result<Option<Arc<Page>>> {
        let mut pages = self.pages.lock().await;
        if let Some(known) = pages.get(&page) {
            return Ok(known.clone());
        }
        let read = read_page(self.array, page).await?;
        // Other missing values may be outside of the statistics.
        let is_usable = |page: &Page| page.missing.0.iter().all(|one| self.decoding.missing.0.contains(one));
        let read = read.filter(is_usable).map(Arc::new);
        if pages.len() == PAGES_MAX {
            pages.pop_first();
        }
        pages.insert(page, read.clone());
        Ok(read)
    }

    /// Whether a chunk has no value in the range. Its object was not changed since the statistics
    /// were made.
    ///
    /// # Errors
    /// Those of the pool.
    pub async fn excludes(&self, position: &[u64], object: &ObjectId) -> Result<bool> {
        let (page, chunk) = self.numbering.place(position);
        let Some(page) = self.page(page).await? else { return Ok(false) };
        let Some(record) = page.record(chunk).filter(|_| page.covers(self.array, position)) else {
            return Ok(false);
        };
        if !self.decoding.excludes(record.summary.min, record.summary.max) {
            return Ok(false);
        }
        let found = self.array.place().pool.stat(object).await.optional();
        Ok(found.map_err(|error| error.with("object", object))?.is_some_and(|(stat, version)| {
            (version, stat.modified_unix_ns) == (record.version, record.modified_unix_ns)
        }))
    }
}

impl Decoding {
    /// Whether all decoded values of stored numbers between these ends, which are exact in the
    /// array's type or rounded to float64, are out of the wanted range.
    fn excludes(&self, min: f64, max: f64) -> bool {
        if min > max {
            // There are no numbers.
            return true;
        }
        let ends = Values {
            dtype: Dtype::Float64,
            shape: vec![2],
            data: [min, max].iter().flat_map(|end| end.to_le_bytes()).collect(),
        };
        let plain = Decoding {
            scale: self.scale,
            offset: self.offset,
            is_single: self.is_single,
            ..Decoding::default()
        };
        let decoded = ends.into_floats(Some(&plain));
        let (low, high) = (decoded[0].min(decoded[1]), decoded[0].max(decoded[1]));
        let is_known = !decoded.iter().any(|end| end.is_nan());
        is_known && !self.wants(low, high)
    }
}

/// Progress of [`Array::index`].
#[derive(Debug, Default)]
pub struct IndexProgress {
    chunks: AtomicU64,
    done: AtomicU64,
    computed: AtomicU64,
}

impl IndexProgress {
    /// The number of stored chunks or shards.
    pub fn chunks(&self) -> u64 {
        self.chunks.load(Ordering::Relaxed)
    }

    /// The number of them that have statistics.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// The number of them whose statistics were not there, or outdated.
    pub fn computed(&self) -> u64 {
        self.computed.load(Ordering::Relaxed)
    }
}

impl Array {
    /// Computes and stores the statistics of all stored chunks. Keeps those of chunks that were not
    /// changed since, so an interrupted call continues. A concurrent writer of a chunk makes its
    /// statistics void.
    ///
    /// # Errors
    /// `Corrupt` for a damaged chunk; `LimitExceeded` for more than 2²⁴ stored chunks; those of the
    /// pool.
    pub async fn index(
        &self,
        pushdown: Pushdown,
        stats: &Arc<ReadStats>,
        progress: &IndexProgress,
    ) -> Result<()> {
        let numbering = Numbering::new(self)?;
        let mut stored: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        let mut count = 0;
        let prefix_bytes = self.place().prefix().len();
        let mut add = |position: Vec<u64>| {
            let (page, chunk) = numbering.place(&position);
            stored.entry(page).or_default().insert(chunk);
        };
        if self.is_in_file() {
            for position in TouchedChunks::new(&self.whole(), &self.metadata().format.shape.0) {
                if self.chunk(&position)?.is_some() {
                    add(position);
                    count += 1;
                }
            }
        } else {
            let mut names = std::pin::pin!(self.place().names());
            while !self.is_in_file()
                && let Some(objects) = names.try_next().await?
            {
                for object in objects {
                    if let Some(position) = self.metadata().chunk_position(&object.name()[prefix_bytes..]) {
                        add(position);
                        count += 1;
                    }
                }
                if count > CHUNKS_MAX {
                    return Err(Error::limit_exceeded("the array has too many chunks for statistics")
                        .with("chunks_max", CHUNKS_MAX));
                }
            }
        }
        progress.chunks.store(count as u64, Ordering::Relaxed);
        stats.add_chunks(count as u64);
        let decoding = cf::decoding(self.metadata()).ok().flatten().unwrap_or_default();
        let decoding = Decoding { missing: decoding.missing, ..Decoding::default() };
        let axes = self.metadata().shape.len();
        let reduction = Reduction {
            kind: ReductionKind::Summary {},
            axes: Bounded(vec![AxisRole::Reduce {}; axes]),
            skip_nan: true,
            decoding: Some(decoding.clone()),
        };
        let (pool, format) = (Arc::clone(&self.place().pool), self.metadata().format.clone());
        let task = Task::Reduce { reduction };
        let runner = ObjectRunner::new(pool, format, task, pushdown, self.is_far(), Arc::clone(stats));
        for (number, chunks) in stored {
            let known = read_page(self, number).await?.filter(|page| page.missing == decoding.missing);
            let position = |chunk: u32| numbering.position(number * PAGE_CHUNKS + u64::from(chunk));
            let known: BTreeMap<u32, Record> = known.map_or_else(BTreeMap::new, |page| {
                let covered = |record: &&Record| page.covers(self, &position(record.chunk));
                page.records.0.iter().filter(covered).map(|record| (record.chunk, record.clone())).collect()
            });
            let mut records = known.clone();
            let mut unwritten = 0;
            let record =
                async |chunk: u32| self.record(&runner, &position(chunk), chunk, known.get(&chunk)).await;
            let mut found = stream::iter(chunks).map(record).buffered(runner.at_once());
            while let Some(found) = found.next().await {
                progress.done.fetch_add(1, Ordering::Relaxed);
                let Some((record, is_new)) = found? else { continue };
                if is_new {
                    progress.computed.fetch_add(1, Ordering::Relaxed);
                    unwritten += 1;
                }
                records.insert(record.chunk, record);
                if unwritten == WRITE_CHUNKS {
                    self.write_page(number, &decoding, &records).await?;
                    unwritten = 0;
                }
            }
            if unwritten > 0 {
                self.write_page(number, &decoding, &records).await?;
            }
        }
        Ok(())
    }

    /// Checks a page of statistics, which may be outdated.
    ///
    /// # Errors
    /// `Corrupt`, and those of the pool.
    pub(crate) async fn check_statistics(&self, object: &ObjectId) -> Result<()> {
        let bytes = self.place().pool.read_range(object, 0, PAGE_BYTES_MAX).await?;
        Page::from_bytes(&bytes).map(|_| ()).map_err(|_| {
            let message =
                "a page of statistics is damaged, so it is ignored; `benthic array index` writes it again";
            Error::corrupt(message).with("object", object)
        })
    }

    /// The statistics of a chunk, and whether they are new. `None` for a chunk that was removed or
    /// is being written.
    async fn record(
        &self,
        runner: &ObjectRunner,
        position: &[u64],
        chunk: u32,
        known: Option<&Record>,
    ) -> Result<Option<(Record, bool)>> {
        let pool = &self.place().pool;
        let Some(stored) = self.chunk(position)? else { return Ok(None) };
        let object = &stored.object;
        let state = async || match pool.stat(object).await {
            Ok((stat, version)) => Ok(Some((version, stat.modified_unix_ns))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.with("object", object)),
        };
        let before = state().await?;
        let Some((version, modified_unix_ns)) = before else { return Ok(None) };
        if let Some(known) = known
            && (known.version, known.modified_unix_ns) == (version, modified_unix_ns)
        {
            return Ok(Some((known.clone(), false)));
        }
        let (shape, chunk_shape) = (&self.metadata().shape, &self.metadata().format.shape.0);
        let lens = position.iter().zip(shape).zip(chunk_shape);
        let slices = lens.map(|((index, len), chunk)| Slice::all((len - index * chunk).min(*chunk)));
        let part = Part { slices: slices.collect(), first: vec![0; shape.len()] };
        let Some(states) = runner.run(Some(&stored), &part).await? else { return Ok(None) };
        if state().await? != before {
            return Ok(None);
        }
        let summary = Vec::<Summary>::decode(&states).ok().and_then(|mut states| states.pop());
        let summary = summary.ok_or_else(|| {
            Error::internal("the output of the class array is not the statistics of a chunk")
        })?;
        Ok(Some((Record { chunk, version, modified_unix_ns, summary }, true)))
    }

    async fn write_page(
        &self,
        number: u64,
        decoding: &Decoding,
        records: &BTreeMap<u32, Record>,
    ) -> Result<()> {
        let page = Page {
            format: self.metadata().format.encode(),
            shape: Bounded(self.metadata().shape.clone()),
            missing: decoding.missing.clone(),
            records: Bounded(records.values().cloned().collect()),
        };
        let object = self.place().object(&format!("{PAGE_PREFIX}{number}"))?;
        self.place().pool.write_full(&object, page.to_bytes()).await.map(|_| ())
    }
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
