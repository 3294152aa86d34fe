//! One Parquet object, or a local file, as a query reads it: its footer, byte ranges and index
//! entries, and class calls on it.

use crate::files::{LocalFile, blocking};
use crate::manifest::Facts;
use crate::record::Recorder;
use crate::work::Work;
use benthic_core::{ClassCall, Error, ErrorKind, Fetch, ObjectAddress, Pool, Result};
use benthic_fragment::fragment;
use benthic_index::{LookupResult, LookupStep, Probes, ReadEntries, Rows, entry_keys};
use benthic_table::ids::{Id, TableObject};
use benthic_table::{FileEntry, ObjectPart, Snapshot, join_footers};
use bytes::{Bytes, BytesMut};
use datafusion::physical_optimizer::pruning::PruningPredicate;
use futures::{FutureExt, StreamExt, TryStreamExt, future, stream};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use tokio::sync::{Mutex, OnceCell};

/// Size of the first read, at the end of the object. It contains the whole footer of most objects.
const FOOTER_GUESS_BYTES: u64 = 64 * 1024;
/// Maximum gap between two ranges for which one merged step is cheaper than two. Over a network,
/// round trips cost more than bytes.
const GAP_BYTES_MAX: u64 = 64 * 1024;
const STEP_BYTES_MAX: u64 = 4 * 1024 * 1024;
const STEPS_MAX: usize = 4;
/// Maximum concurrent read operations per request.
const OPERATIONS_AT_ONCE: usize = 4;

/// Caches of a session: the footers of table objects, which are immutable, and the directories of
/// their indexes, which can become stale. A lookup detects a stale directory.
#[derive(Clone)]
pub struct MetadataCache {
    footers: Arc<Cache<(Id, TableObject), Arc<ParquetMetaData>, DecodedBytes>>,
    directories: Arc<Cache<DirectoryKey, Bytes, EntryBytes>>,
}

/// The table, the object, and the number of the index.
type DirectoryKey = (Id, TableObject, u32);

#[derive(Clone)]
struct EntryBytes;

impl Weighter<DirectoryKey, Bytes> for EntryBytes {
    fn weight(&self, _: &DirectoryKey, entry: &Bytes) -> u64 {
        (size_of::<DirectoryKey>() + size_of::<Bytes>() + entry.len()) as u64
    }
}

#[derive(Clone)]
struct DecodedBytes;

impl Weighter<(Id, TableObject), Arc<ParquetMetaData>> for DecodedBytes {
    fn weight(&self, _: &(Id, TableObject), footer: &Arc<ParquetMetaData>) -> u64 {
        footer.memory_size() as u64
    }
}

const FOOTERS_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Typical size of a footer, to size the cache's hash table.
const FOOTER_BYTES_USUAL: u64 = 16 * 1024;
const DIRECTORIES_BYTES_MAX: u64 = 16 * 1024 * 1024;
const DIRECTORY_BYTES_USUAL: u64 = 1024;

impl Default for MetadataCache {
    fn default() -> MetadataCache {
        let footers = (FOOTERS_BYTES_MAX / FOOTER_BYTES_USUAL) as usize;
        let directories = (DIRECTORIES_BYTES_MAX / DIRECTORY_BYTES_USUAL) as usize;
        MetadataCache {
            footers: Arc::new(Cache::with_weighter(footers, FOOTERS_BYTES_MAX, DecodedBytes)),
            directories: Arc::new(Cache::with_weighter(directories, DIRECTORIES_BYTES_MAX, EntryBytes)),
        }
    }
}

impl fmt::Debug for MetadataCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "MetadataCache({}, {})", self.footers.len(), self.directories.len())
    }
}

/// State that all objects of a query share.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Cached footers, which outlive the query.
    pub footers: MetadataCache,
    pub recorder: Recorder,
    pub work: Arc<Work>,
}

/// One version of a Parquet object. All reads return data of that version, or fail if it no longer
/// exists.
pub struct DataObject {
    size_bytes: u64,
    origin: Origin,
    work: Arc<Work>,
    is_done: AtomicBool,
    /// Number of readers in use.
    readers: AtomicUsize,
}

enum Origin {
    /// An object that the user named, in the version that it had when it was opened.
    Object {
        pool: Arc<dyn Pool>,
        address: ObjectAddress,
        version: u64,
        footer: OnceCell<Arc<ParquetMetaData>>,
    },
    Table {
        snapshot: Snapshot,
        entry: FileEntry,
        /// The objects that hold the columns of the query, which are read as one file.
        parts: Vec<ObjectPart>,
        is_read_by_name: bool,
        facts: (Arc<Facts>, usize),
        footers: MetadataCache,
        /// The footer of this file, if it consists of several objects. Only readers keep it: a plan
        /// can have many such files.
        joined: Mutex<Weak<ParquetMetaData>>,
    },
    File(Arc<LocalFile>),
}

impl fmt::Debug for DataObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Object { address, .. } => write!(formatter, "{address}"),
            Origin::Table { snapshot, entry, .. } => {
                write!(formatter, "{} {}", snapshot.table().address(), entry.object)
            }
            Origin::File(file) => write!(formatter, "{}", file.path().display()),
        }
    }
}

impl DataObject {
    /// Opens an object in its current version.
    ///
    /// # Errors
    /// Errors of the pool.
    pub async fn open(pool: Arc<dyn Pool>, address: ObjectAddress) -> Result<DataObject> {
        let (stat, version) =
            pool.stat(&address.object).await.map_err(|error| error.with("object", &address))?;
        let origin = Origin::Object { pool, address, version, footer: OnceCell::new() };
        Ok(DataObject {
            size_bytes: stat.size_bytes,
            origin,
            work: Arc::default(),
            is_done: AtomicBool::new(false),
            readers: AtomicUsize::new(0),
        })
    }

    /// An object of a table, without any read. `facts` is the object's row in its file list.
    /// `parts` hold the columns of the query. `is_read_by_name` means that all its columns still
    /// have their current names.
    pub fn of_table(
        snapshot: Snapshot,
        (entry, parts): (FileEntry, Vec<ObjectPart>),
        is_read_by_name: bool,
        facts: (Arc<Facts>, usize),
        reading: &Reading,
    ) -> DataObject {
        let size_bytes = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
        let footers = reading.footers.clone();
        let joined = Mutex::new(Weak::new());
        let origin = Origin::Table { snapshot, entry, parts, is_read_by_name, facts, footers, joined };
        let work = Arc::clone(&reading.work);
        DataObject { size_bytes, origin, work, is_done: AtomicBool::new(false), readers: AtomicUsize::new(0) }
    }

    /// A local file, without any read.
    pub fn of_file(file: LocalFile, work: &Arc<Work>) -> DataObject {
        let (size_bytes, work) = (file.size_bytes(), Arc::clone(work));
        DataObject {
            size_bytes,
            origin: Origin::File(Arc::new(file)),
            work,
            is_done: AtomicBool::new(false),
            readers: AtomicUsize::new(0),
        }
    }

    /// The pool of the object; `None` for a local file.
    pub fn pool(&self) -> Option<&Arc<dyn Pool>> {
        match &self.origin {
            Origin::Object { pool, .. } => Some(pool),
            Origin::Table { snapshot, .. } => Some(snapshot.table().pool()),
            Origin::File(_) => None,
        }
    }

    pub fn is_local_file(&self) -> bool {
        matches!(self.origin, Origin::File(_))
    }

    /// Marks the object as done for the query's progress. If several readers share the object, the
    /// first one to finish marks it.
    pub fn mark_done(&self) {
        if !self.is_done.swap(true, Ordering::Relaxed) {
            self.work.object_is_done();
        }
    }

    /// Notes that a reader of the object starts.
    pub fn add_reader(&self) {
        self.readers.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a reader is dropped. The last one marks the object as done: a scan drops the
    /// reader of the Bloom filters before it reads data with the next one.
    pub fn remove_reader(&self) {
        if self.readers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.mark_done();
        }
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Whether a fragment can run beside the object: one object has all columns of the query, and
    /// under their current names. If not, the client reads it, and maps columns by number.
    pub fn can_run_fragments(&self) -> bool {
        match &self.origin {
            Origin::Object { .. } | Origin::File(_) => true,
            Origin::Table { is_read_by_name, .. } => *is_read_by_name && !self.has_parts(),
        }
    }

    /// Whether the columns of the query are in several objects.
    pub fn has_parts(&self) -> bool {
        matches!(&self.origin, Origin::Table { parts, .. } if parts.len() > 1)
    }

    /// The deleted rows, if there are any.
    pub fn deleted_rows(&self) -> Option<&Rows> {
        match &self.origin {
            Origin::Table { entry, .. } => entry.deleted.as_deref(),
            Origin::Object { .. } | Origin::File(_) => None,
        }
    }

    /// The object's entry in its table's file list; `None` for an object that no table owns.
    pub fn entry(&self) -> Option<FileEntry> {
        match &self.origin {
            Origin::Table { entry, .. } => Some(entry.clone()),
            Origin::Object { .. } | Origin::File(_) => None,
        }
    }

    /// Whether the file list's statistics prove that no row of the object matches the filter.
    pub fn is_pruned_by(&self, filter: &PruningPredicate) -> bool {
        let Origin::Table { facts: (facts, row), .. } = &self.origin else { return false };
        filter.prune(&facts.row(*row)).is_ok_and(|keep| keep == [false])
    }

    pub fn add_context(&self, error: Error) -> Error {
        match &self.origin {
            Origin::Object { address, .. } => error.with("object", address),
            Origin::Table { snapshot, entry, .. } => {
                error.with("table", snapshot.table().address()).with("object", entry.object)
            }
            Origin::File(file) => error.with("path", file.path().display()),
        }
    }

    /// The Parquet footer, without the page index. It is cached, and read again only after
    /// eviction. The footer of a local file is not cached.
    ///
    /// # Errors
    /// `Corrupt` if this is not a Parquet file; errors of [`read`](DataObject::read).
    pub async fn footer(&self) -> Result<Arc<ParquetMetaData>> {
        match &self.origin {
            Origin::Object { footer, .. } => footer.get_or_try_init(|| self.read_footer()).await.cloned(),
            Origin::Table { snapshot, parts, footers, joined, .. } => {
                if let [part] = &parts[..] {
                    let key = (snapshot.table().id(), part.object);
                    return footers.footers.get_or_insert_async(&key, self.read_footer()).await;
                }
                let mut joined = joined.lock().await;
                if let Some(footer) = joined.upgrade() {
                    return Ok(footer);
                }
                let footer = Arc::new(self.join_footers(snapshot.table().id(), parts, footers).await?);
                *joined = Arc::downgrade(&footer);
                Ok(footer)
            }
            Origin::File(_) => self.read_footer().await,
        }
    }

    /// The footer of the file that consists of several objects, with the page index, which readers
    /// could not read themselves.
    async fn join_footers(
        &self,
        table: Id,
        parts: &[ObjectPart],
        cache: &MetadataCache,
    ) -> Result<ParquetMetaData> {
        let footer = |part: ObjectPart| async move {
            let key = (table, part.object);
            let known = cache.footers.get(&key).filter(|footer| footer.offset_index().is_some());
            let footer = match known {
                Some(footer) => footer,
                None => {
                    let footer =
                        self.read_footer_of(part.start, part.bytes, PageIndexPolicy::Optional).await?;
                    cache.footers.insert(key, Arc::clone(&footer));
                    footer
                }
            };
            Ok::<_, Error>((part, footer))
        };
        let footers = future::try_join_all(parts.iter().map(|part| footer(*part))).await?;
        // The readers panic on some damaged footers.
        let joined = catch_unwind(AssertUnwindSafe(|| join_footers(&footers)));
        let joined = joined.unwrap_or_else(|_| Err(self.corrupt("not a valid Parquet file")));
        joined.map_err(|error| self.add_context(error))
    }

    /// Looks up the rows that indexes select. Also returns the number of bytes read.
    ///
    /// # Errors
    /// `Corrupt` if the pages are damaged; `NotFound` if the snapshot was removed; errors of the
    /// pool.
    pub async fn look_up(&self, probes: &Probes) -> Result<(LookupResult, u64)> {
        let Origin::Table { snapshot, entry, footers, .. } = &self.origin else {
            return Ok(Default::default());
        };
        let indexes: BTreeMap<u32, Bytes> =
            probes.probes().iter().map(|probe| (probe.index, probe.directory_key())).collect();
        let remembered = |index: u32| (snapshot.table().id(), entry.object, index);
        let mut known = ReadEntries::default();
        for (index, key) in &indexes {
            if let Some(directory) = footers.directories.get(&remembered(*index)) {
                known.add(Vec::new(), vec![(key.clone(), directory)]);
            }
        }
        let found = match self.look_up_from(probes, known, Vec::new()).await {
            // An index was dropped or rebuilt since its directory was cached. Read all entries at
            // once, so that they belong together.
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                indexes.keys().for_each(|index| drop(footers.directories.remove(&remembered(*index))));
                let keys = indexes.keys().flat_map(|index| entry_keys(*index)).collect();
                self.look_up_from(probes, ReadEntries::default(), keys).await?
            }
            found => found?,
        };
        let (found, read, moved_bytes) = found;
        for (index, key) in &indexes {
            if let Some((_, directory)) = read.iter().find(|(read, _)| read == key) {
                footers.directories.insert(remembered(*index), directory.clone());
            }
        }
        if found.rows.as_ref().is_some_and(|rows| u64::from(rows.of()) != entry.rows) {
            let message =
                "an index does not match its rows; `benthic table index POOL/TABLE --rebuild` rebuilds it";
            return Err(self.corrupt(message));
        }
        Ok((found, moved_bytes))
    }

    /// Reads the entries `keys` and all entries that the lookup then needs. Also returns the
    /// entries of the first read, among them all directories that were not known, and the number of
    /// bytes read.
    async fn look_up_from(
        &self,
        probes: &Probes,
        mut known: ReadEntries,
        mut keys: Vec<Bytes>,
    ) -> Result<(LookupResult, Vec<(Bytes, Bytes)>, u64)> {
        let (mut read, mut moved_bytes) = (Vec::new(), 0);
        loop {
            if !keys.is_empty() {
                // The index pages are those of the data object, also if the query reads companions.
                let page = self.fetch(None, Fetch::omap_get(keys.clone())).await?;
                let bytes: usize = page.entries.iter().map(|(key, value)| key.len() + value.len()).sum();
                self.work.add_moved(bytes as u64);
                moved_bytes += bytes as u64;
                if read.is_empty() {
                    read.clone_from(&page.entries);
                }
                known.add(keys, page.entries);
            }
            match probes.look_up(&known).map_err(|error| self.add_context(error))? {
                LookupStep::Done(found) => return Ok((found, read, moved_bytes)),
                LookupStep::Read(wanted) => keys = wanted,
            }
        }
    }

    /// Runs a read-only class method.
    ///
    /// # Errors
    /// `Conflict` if the object was replaced; `NotFound` if the snapshot was removed; errors of the
    /// pool.
    pub async fn exec(&self, class: &str, method: &str, input: Bytes) -> Result<Bytes> {
        self.work.add_moved(input.len() as u64);
        let output = self.fetch(self.first_part(), Fetch::exec(ClassCall::new(class, method, input))).await?;
        self.work.add_moved(output.len() as u64);
        Ok(output)
    }

    /// Reads byte ranges, each completely. Merges near ranges into one step.
    ///
    /// # Errors
    /// `Corrupt` if a range is outside the object; `Conflict` if the object was replaced;
    /// `NotFound` if the snapshot was removed; errors of the pool.
    pub async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        // A damaged footer may point anywhere.
        if ranges.iter().any(|range| range.start > range.end || range.end > self.size_bytes) {
            return Err(self.corrupt("the footer points beyond the end of the object"));
        }
        if let Origin::File(file) = &self.origin {
            let (file, ranges) = (Arc::clone(file), ranges.to_vec());
            let data = blocking(move || file.read(&ranges)).await?;
            self.work.add_moved(data.iter().map(|data| data.len() as u64).sum());
            return Ok(data);
        }
        let Origin::Table { parts, .. } = &self.origin else { return self.read_object(None, ranges).await };
        if let [part] = &parts[..] {
            return self.read_object(Some(part.object), ranges).await;
        }
        let part_of = |range: &Range<u64>| parts.iter().position(|part| part.contains(range));
        let places: Option<Vec<usize>> = ranges.iter().map(part_of).collect();
        let places = places.ok_or_else(|| self.corrupt("the footer points beyond the end of the object"))?;
        let in_part = |(place, part): (usize, &ObjectPart)| {
            let of_part = places.iter().zip(ranges).filter(|(of, _)| **of == place);
            let local: Vec<_> =
                of_part.map(|(_, range)| range.start - part.start..range.end - part.start).collect();
            let object = part.object;
            async move { self.read_object(Some(object), &local).await }.boxed()
        };
        let reads: Vec<_> = parts.iter().enumerate().map(in_part).collect();
        let mut read: Vec<_> = future::try_join_all(reads).await?.into_iter().map(Vec::into_iter).collect();
        Ok(places.iter().map(|place| read[*place].next().unwrap_or_default()).collect())
    }

    /// Reads byte ranges of one object, which is the first part if a table owns it.
    async fn read_object(&self, object: Option<TableObject>, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let merged = fragment::merge_ranges(ranges, GAP_BYTES_MAX);
        let steps: Vec<Range<u64>> = merged.iter().flat_map(steps).collect();
        // Boxed and collected because the compiler cannot prove that a lazy iterator is `Send`.
        let operations: Vec<_> =
            steps.chunks(STEPS_MAX).map(|steps| self.read_steps(object, steps).boxed()).collect();
        let data: Vec<Vec<Bytes>> =
            stream::iter(operations).buffered(OPERATIONS_AT_ONCE).try_collect().await?;
        let mut data = data.into_iter().flatten();
        let whole: Vec<Bytes> = merged.iter().map(|range| join(range, &mut data)).collect();
        Ok(fragment::split_ranges(ranges, &merged, &whole))
    }

    async fn read_steps(&self, object: Option<TableObject>, steps: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let len_bytes = |step: &Range<u64>| step.end - step.start;
        let reads = steps.iter().map(|step| Fetch::read(step.start, len_bytes(step)));
        let data = self.fetch(object, Fetch::all(reads)).await?;
        for (part, step) in data.iter().zip(steps) {
            if part.len() as u64 != len_bytes(step) {
                return Err(self.corrupt("the object is shorter than it was"));
            }
            self.work.add_moved(part.len() as u64);
        }
        Ok(data)
    }

    /// The object of a table that has the first columns of the query.
    fn first_part(&self) -> Option<TableObject> {
        match &self.origin {
            Origin::Table { parts, .. } => parts.first().map(|part| part.object),
            Origin::Object { .. } | Origin::File(_) => None,
        }
    }

    /// Reads from an object: the given one of a table, or this one.
    async fn fetch<T: 'static>(&self, object: Option<TableObject>, fetch: Fetch<T>) -> Result<T> {
        match &self.origin {
            Origin::Object { pool, address, version, .. } => {
                match pool.fetch(&address.object, fetch.assert_version(*version)).await {
                    Ok((output, _)) => Ok(output),
                    Err(error) if error.kind() == ErrorKind::Conflict => {
                        let message = "the object was replaced while the query ran; run it again";
                        Err(self.add_context(Error::conflict(message)))
                    }
                    Err(error) => Err(self.add_context(error)),
                }
            }
            Origin::Table { snapshot, entry, .. } => {
                let (table, object) = (snapshot.table(), object.unwrap_or(entry.object));
                match table.pool().fetch(&object.object_id(table.id())?, fetch).await {
                    Ok((output, _)) => Ok(output),
                    Err(error) => Err(snapshot.explain(error, object).await),
                }
            }
            Origin::File(_) => Err(self.add_context(Error::internal("a local file is not in a store"))),
        }
    }

    async fn read_footer(&self) -> Result<Arc<ParquetMetaData>> {
        self.read_footer_of(0, self.size_bytes, PageIndexPolicy::Skip).await
    }

    /// The footer of a Parquet file that is a part of this one.
    async fn read_footer_of(
        &self,
        start: u64,
        size_bytes: u64,
        pages: PageIndexPolicy,
    ) -> Result<Arc<ParquetMetaData>> {
        let mut reader = ParquetMetaDataReader::new().with_page_index_policy(pages);
        let mut tail_bytes = FOOTER_GUESS_BYTES.min(size_bytes);
        let end = start.saturating_add(size_bytes);
        loop {
            let range = end - tail_bytes..end;
            let tail = self.read(std::slice::from_ref(&range)).await?.pop().unwrap_or_default();
            match reader.try_parse_sized(&tail, size_bytes) {
                Ok(()) => {
                    return reader
                        .finish()
                        .map(Arc::new)
                        .map_err(|error| self.no_parquet().with_source(error));
                }
                Err(ParquetError::NeedMoreData(wanted)) => {
                    let wanted_bytes = wanted as u64;
                    if wanted_bytes <= tail_bytes || wanted_bytes > size_bytes {
                        return Err(self.no_parquet());
                    }
                    tail_bytes = wanted_bytes;
                }
                Err(error) => return Err(self.no_parquet().with_source(error)),
            }
        }
    }

    fn no_parquet(&self) -> Error {
        if self.is_local_file() {
            let message = "this is not a Parquet file, or it is damaged; the end of a file's name must tell its \
                 format, such as .csv";
            return self.add_context(Error::invalid_argument(message));
        }
        self.corrupt("not a valid Parquet file")
    }

    fn corrupt(&self, message: &str) -> Error {
        self.add_context(Error::corrupt(message))
    }
}

fn steps(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    let starts = (range.start..end).step_by(STEP_BYTES_MAX as usize);
    starts.map(move |start| start..end.min(start + STEP_BYTES_MAX))
}

/// Joins the data of a range's [`steps`].
fn join(range: &Range<u64>, data: &mut impl Iterator<Item = Bytes>) -> Bytes {
    let count = steps(range).count();
    if count == 1 {
        return data.next().unwrap_or_default();
    }
    let mut joined = BytesMut::with_capacity((range.end - range.start) as usize);
    data.take(count).for_each(|part| joined.extend_from_slice(&part));
    joined.freeze()
}
