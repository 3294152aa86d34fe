//! Runs a task on the objects of an array: beside each object by the class, or in the client.

use crate::class::{Input, Reply, Task, UNPACKED_BYTES_MAX, compute, compute_missing};
use crate::codec::corrupt;
use crate::format::{ByteRange, ObjectFormat, ReadObject};
use crate::pack::unpack;
use crate::selection::{Bounded, Part, Slice};
use benthic_core::codec::Wire;
use benthic_core::pushdown::{Choice, Pushdown, Step};
use benthic_core::{
    ClassCall, Error, ErrorKind, Fetch, ObjectId, Pool, Result, Stopwatch, SystemClock, limits,
};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::iter::once;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Approximate limit on the memory of the objects in flight: decoded elements and results.
const IN_FLIGHT_BYTES_MAX: u64 = 512 << 20;
/// Limit on the objects in flight.
const IN_FLIGHT_MAX: u64 = 32;
/// Maximum size of one read of several ranges.
const BATCH_BYTES_MAX: u64 = limits::OPERATION_BYTES_MAX / 2;
/// Maximum number of reads of an object that changes during the read.
const READ_ATTEMPTS_MAX: usize = 5;
/// Time between two checks of whether a trial pull takes too long.
const TRY_FOR: Duration = Duration::from_millis(5);
/// `Auto` pushes only if the result, with the weights of a regridding, has at most this part of the
/// bytes of the decoded object. The stored size is unknown before a read.
const RESULT_DIVISOR: u64 = 2;

/// Progress of a read or a reduction. Counters never decrease. "Chunks" are objects: a shard counts
/// as one.
#[derive(Debug, Default)]
pub struct ReadStats {
    chunks: AtomicU64,
    done_chunks: AtomicU64,
    pushed_chunks: AtomicU64,
    missing_chunks: AtomicU64,
    pruned_chunks: AtomicU64,
    moved_bytes: AtomicU64,
}

impl ReadStats {
    /// Number of objects that the selection touches.
    pub fn chunks(&self) -> u64 {
        self.chunks.load(Ordering::Relaxed)
    }

    /// Number of objects whose result has arrived.
    pub fn done_chunks(&self) -> u64 {
        self.done_chunks.load(Ordering::Relaxed)
    }

    /// Number of objects on which the class ran.
    pub fn pushed_chunks(&self) -> u64 {
        self.pushed_chunks.load(Ordering::Relaxed)
    }

    /// Number of objects that are not stored, so that their elements have the fill value.
    pub fn missing_chunks(&self) -> u64 {
        self.missing_chunks.load(Ordering::Relaxed)
    }

    /// Number of objects that were not decoded, because their statistics exclude the range of
    /// values.
    pub fn pruned_chunks(&self) -> u64 {
        self.pruned_chunks.load(Ordering::Relaxed)
    }

    /// Bytes transferred: data of objects, inputs and outputs of methods.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn add_chunks(&self, chunks: u64) {
        self.chunks.fetch_add(chunks, Ordering::Relaxed);
    }

    pub(crate) fn add_pruned(&self) {
        self.pruned_chunks.fetch_add(1, Ordering::Relaxed);
        self.done_chunks.fetch_add(1, Ordering::Relaxed);
    }

    fn add_moved(&self, len_bytes: usize) {
        self.moved_bytes.fetch_add(len_bytes as u64, Ordering::Relaxed);
    }
}

/// The place of a chunk or shard: an object, or a range of an object that has more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChunk {
    pub object: ObjectId,
    pub range: Option<ByteRange>,
    /// The shape, if it is not that of the other chunks.
    pub shape: Option<Vec<u64>>,
}

impl From<ObjectId> for StoredChunk {
    fn from(object: ObjectId) -> StoredChunk {
        StoredChunk { object, range: None, shape: None }
    }
}

/// Runs a task on the objects of an array.
pub struct ObjectRunner {
    pool: Arc<dyn Pool>,
    format: ObjectFormat,
    task: Task,
    choice: Arc<Choice>,
    stats: Arc<ReadStats>,
    /// The decoded size of an object; the choice compares the time per byte.
    object_bytes: u64,
    is_auto: bool,
    is_far: bool,
}

enum Pushed {
    Done(Bytes),
    Missing,
    Busy,
    Refused,
}

impl ObjectRunner {
    pub fn new(
        pool: Arc<dyn Pool>,
        format: ObjectFormat,
        task: Task,
        pushdown: Pushdown,
        is_far: bool,
        stats: Arc<ReadStats>,
    ) -> ObjectRunner {
        let choice = Arc::new(Choice::new(pushdown, is_far));
        let is_auto = pushdown == Pushdown::Auto;
        let object_bytes = format.decoded_bytes();
        ObjectRunner { pool, format, task, choice, stats, object_bytes, is_auto, is_far }
    }

    /// The number of objects to work on at once.
    pub fn at_once(&self) -> usize {
        let result_bytes = match &self.task {
            Task::Select {} => self.object_bytes,
            Task::Reduce { reduction } | Task::ReduceMasked { reduction, .. } => {
                reduction.part_state_bytes_max(&self.format.shape.0)
            }
            Task::Tally { tally } => tally.state_bytes(&self.format.shape.0),
            Task::Regrid { regrid } => regrid.part_bytes_max(&self.format.shape.0),
        };
        // A result exists twice while it is encoded.
        let each_bytes = result_bytes.saturating_mul(2).saturating_add(self.object_bytes).max(1);
        (IN_FLIGHT_BYTES_MAX / each_bytes).clamp(1, IN_FLIGHT_MAX) as usize
    }

    /// Whether the elements of a part of the selection cannot change the result.
    pub fn leaves_out(&self, part: &Part) -> bool {
        self.task.leaves_out(part)
    }

    fn input(&self, chunk: Option<&StoredChunk>, part: &Part) -> Input {
        let (mut format, slices) = (self.format.clone(), Bounded(part.slices.clone()));
        if let Some(shape) = chunk.and_then(|chunk| chunk.shape.as_ref()) {
            format.shape.0.clone_from(shape);
        }
        let range = chunk.and_then(|chunk| chunk.range);
        Input { format, range, slices, task: self.task.of_part(part), may_pack: self.is_far }
    }

    /// Returns the result for a part of a chunk. `None` if the part is in no group of a reduction,
    /// or has no weight of a regridding. A chunk that is `None` is not stored.
    ///
    /// # Errors
    /// Those of the pool; `Corrupt` for damaged data, and if the object of a range is missing;
    /// `LimitExceeded`.
    pub async fn run(&self, chunk: Option<&StoredChunk>, part: &Part) -> Result<Option<Bytes>> {
        let input = self.input(chunk, part);
        if input.result_bytes() == 0 {
            self.stats.done_chunks.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        let done = match chunk {
            Some(StoredChunk { object, range, .. }) => {
                let done = self.run_stored(object, &input).await;
                let done = done.map_err(|error| error.with("object", object))?;
                if done.is_none() && range.is_some() {
                    return Err(corrupt("the file that has the chunks is missing").with("object", object));
                }
                done
            }
            None => None,
        };
        let data = match done {
            Some(data) => data,
            None => {
                self.stats.missing_chunks.fetch_add(1, Ordering::Relaxed);
                blocking(move || compute_missing(&input)).await?
            }
        };
        self.stats.done_chunks.fetch_add(1, Ordering::Relaxed);
        Ok(Some(data))
    }

    /// `None` if the object is not stored.
    async fn run_stored(&self, object: &ObjectId, input: &Input) -> Result<Option<Bytes>> {
        let moved_bytes = input.result_bytes().saturating_add(input.task.weight_bytes());
        let is_small = moved_bytes.saturating_mul(RESULT_DIVISOR) <= self.object_bytes;
        if self.is_auto && !is_small || !input.task.fits_call() {
            return self.pull(object, input).await;
        }
        let waiting = Stopwatch::start(&SystemClock);
        let mut step = self.choice.next(self.object_bytes);
        loop {
            let timer = Stopwatch::start(&SystemClock);
            step = match step {
                Step::Push => match self.push(object, input).await? {
                    Pushed::Done(data) => {
                        self.choice.add_pushed(self.object_bytes, timer.elapsed());
                        return Ok(Some(data));
                    }
                    Pushed::Missing => return Ok(None),
                    Pushed::Busy => self.choice.next_when_busy(self.object_bytes, waiting.elapsed()),
                    Pushed::Refused => Step::Pull,
                },
                Step::Wait(time) => {
                    tokio::time::sleep(time).await;
                    Step::Push
                }
                Step::Pull | Step::TryPull => {
                    let pulled = match step {
                        Step::TryPull => self.try_pull(object, input, &timer).await,
                        _ => Some(self.pull(object, input).await),
                    };
                    let Some(pulled) = pulled else {
                        step = Step::Push;
                        continue;
                    };
                    self.choice.end_trial_pull();
                    // A missing or damaged object says nothing about the speed.
                    if let Ok(Some(_)) = pulled {
                        self.choice.add_pulled(self.object_bytes, timer.elapsed());
                    }
                    return pulled;
                }
            };
        }
    }

    async fn push(&self, object: &ObjectId, input: &Input) -> Result<Pushed> {
        let call = ClassCall::new("array", "compute", input.encode());
        self.stats.add_moved(call.input.len());
        let output = match self.pool.exec(object, call).await {
            Ok(output) => output,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Pushed::Missing),
            // The OSD has no such class, or the user may not call it.
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => {
                self.choice.stop_pushing();
                return Ok(Pushed::Refused);
            }
            // The call took longer than a method may.
            Err(error) if error.kind() == ErrorKind::LimitExceeded => {
                self.choice.note_too_large();
                return Ok(Pushed::Refused);
            }
            Err(error) => return Err(error),
        };
        self.stats.add_moved(output.len());
        let reply = Reply::decode(&output)
            .map_err(|_| Error::internal("the output of the class array cannot be decoded"))?;
        match reply {
            Reply::Done { data } => {
                self.stats.pushed_chunks.fetch_add(1, Ordering::Relaxed);
                Ok(Pushed::Done(data))
            }
            Reply::Packed { packed } => {
                self.stats.pushed_chunks.fetch_add(1, Ordering::Relaxed);
                let record_bytes = input.record_bytes();
                blocking(move || unpack(&packed, record_bytes, UNPACKED_BYTES_MAX)).await.map(Pushed::Done)
            }
            Reply::Busy {} => Ok(Pushed::Busy),
            Reply::TooLarge {} => {
                self.choice.note_too_large();
                Ok(Pushed::Refused)
            }
        }
    }

    /// Pulls the object, but returns `None` if that takes much longer than the class takes.
    async fn try_pull(
        &self,
        object: &ObjectId,
        input: &Input,
        timer: &Stopwatch<'_>,
    ) -> Option<Result<Option<Bytes>>> {
        let mut pull = pin!(self.pull(object, input));
        loop {
            match tokio::time::timeout(TRY_FOR, &mut pull).await {
                Ok(pulled) => return Some(pulled),
                Err(_) if self.choice.give_up_if_slow(self.object_bytes, timer.elapsed()) => return None,
                Err(_) => {}
            }
        }
    }

    /// `None` if the object is not stored.
    async fn pull(&self, object: &ObjectId, input: &Input) -> Result<Option<Bytes>> {
        let mut attempt = 1;
        let mut fetched = loop {
            match self.fetch(object, input.range, &input.slices.0).await {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Conflict && attempt < READ_ATTEMPTS_MAX => {
                    attempt += 1
                }
                fetched => break fetched?,
            }
        };
        let input = input.clone();
        blocking(move || compute(&input, &mut fetched)).await.map(Some)
    }

    /// Reads the parts of an object that a selection needs, at one version.
    async fn fetch(&self, object: &ObjectId, range: Option<ByteRange>, slices: &[Slice]) -> Result<Fetched> {
        let pool = &self.pool;
        let (offset_bytes, max_bytes) =
            range.map_or((0, u64::MAX), |range| (range.offset_bytes, range.len_bytes));
        let first_bytes = match self.format.index_bytes() {
            None => limits::OPERATION_BYTES_MAX.min(max_bytes),
            Some((index_bytes, true)) => index_bytes.min(max_bytes),
            Some((_, false)) => 0,
        };
        let ((stat, first), version) = match first_bytes {
            0 => pool.stat(object).await.map(|(stat, version)| ((stat, Bytes::new()), version))?,
            _ => pool.fetch(object, Fetch::stat().and(Fetch::read(offset_bytes, first_bytes))).await?,
        };
        self.stats.add_moved(first.len());
        let size_bytes = match range {
            None => stat.size_bytes,
            Some(range) => {
                range.check_within(stat.size_bytes)?;
                range.len_bytes
            }
        };
        let mut fetched = Fetched { offset_bytes, size_bytes, pieces: BTreeMap::new() };
        let Some(index) = self.format.index_range(size_bytes)? else {
            let read_bytes = first.len() as u64;
            fetched.pieces.insert(0, first);
            if read_bytes < size_bytes {
                self.fetch_ranges(object, version, once(read_bytes..size_bytes), &mut fetched).await?;
            }
            return Ok(fetched);
        };
        if first_bytes > 0 {
            fetched.pieces.insert(0, first);
        } else {
            self.fetch_ranges(object, version, once(index.clone()), &mut fetched).await?;
        }
        let ranges = self.format.inner_ranges(slices, &fetched.read(index)?, size_bytes)?;
        let mut ranges: Vec<Range<u64>> =
            ranges.into_iter().flatten().filter(|range| !range.is_empty()).collect();
        ranges.sort_by_key(|range| (range.start, range.end));
        // Chunks that overlap are read once.
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        self.fetch_ranges(object, version, joined, &mut fetched).await?;
        Ok(fetched)
    }

    async fn fetch_ranges(
        &self,
        object: &ObjectId,
        version: u64,
        ranges: impl IntoIterator<Item = Range<u64>>,
        fetched: &mut Fetched,
    ) -> Result<()> {
        let pieces = ranges.into_iter().flat_map(|range| {
            let starts = range.clone().step_by(BATCH_BYTES_MAX as usize);
            starts.map(move |start| start..range.end.min(start + BATCH_BYTES_MAX))
        });
        let mut batch: Vec<Range<u64>> = Vec::new();
        let mut batch_bytes = 0;
        let mut pieces = pieces.peekable();
        while let Some(piece) = pieces.next() {
            batch_bytes += piece.end - piece.start;
            batch.push(piece);
            let is_full =
                pieces.peek().is_none_or(|next| batch_bytes + (next.end - next.start) > BATCH_BYTES_MAX);
            if is_full || batch.len() == limits::OPERATION_STEPS_MAX / 2 {
                let reads = batch
                    .iter()
                    .map(|range| (fetched.offset_bytes + range.start, range.end - range.start))
                    .map(|(offset_bytes, len_bytes)| Fetch::read_exact(version, offset_bytes, len_bytes));
                let (data, _) = self.pool.fetch(object, Fetch::all(reads)).await?;
                for (range, data) in batch.drain(..).zip(data) {
                    self.stats.add_moved(data.len());
                    fetched.pieces.insert(range.start, data);
                }
                batch_bytes = 0;
            }
        }
        Ok(())
    }
}

/// Runs tasks on chunks of different formats in one pool.
pub struct ChunkRunner {
    pool: Arc<dyn Pool>,
    choice: Arc<Choice>,
    is_auto: bool,
    stats: Arc<ReadStats>,
}

impl ChunkRunner {
    /// A runner without measurements.
    pub fn new(pool: Arc<dyn Pool>, pushdown: Pushdown, stats: Arc<ReadStats>) -> ChunkRunner {
        let choice = Arc::new(Choice::new(pushdown, false));
        ChunkRunner { pool, choice, is_auto: pushdown == Pushdown::Auto, stats }
    }

    pub fn pool(&self) -> &Arc<dyn Pool> {
        &self.pool
    }

    /// The selected elements, or the states of the task.
    ///
    /// # Errors
    /// `InvalidArgument` and `LimitExceeded` for an invalid format, selection or task; `NotFound`
    /// if the object is not stored; `Corrupt` if it is not in this format; those of the pool.
    pub async fn run(
        &self,
        chunk: &StoredChunk,
        format: ObjectFormat,
        slices: Vec<Slice>,
        task: Task,
    ) -> Result<Bytes> {
        let input = Input {
            format: format.clone(),
            range: chunk.range,
            slices: Bounded(slices),
            task: task.clone(),
            may_pack: false,
        };
        input.check()?;
        self.stats.add_chunks(1);
        let done = if input.result_bytes() == 0 {
            // Nothing is selected, so nothing is read.
            self.pool.stat(&chunk.object).await?;
            compute_missing(&input)?
        } else {
            let runner = ObjectRunner {
                pool: Arc::clone(&self.pool),
                object_bytes: format.decoded_bytes(),
                format,
                task,
                choice: Arc::clone(&self.choice),
                stats: Arc::clone(&self.stats),
                is_auto: self.is_auto,
                is_far: false,
            };
            let done = runner.run_stored(&chunk.object, &input).await;
            let done = done.map_err(|error| error.with("object", &chunk.object))?;
            done.ok_or_else(|| Error::not_found("no such object").with("object", &chunk.object))?
        };
        self.stats.done_chunks.fetch_add(1, Ordering::Relaxed);
        Ok(done)
    }
}

/// The parts of an object that were read.
struct Fetched {
    /// The position in the object at which the chunk or shard begins.
    offset_bytes: u64,
    /// The size of the chunk or shard.
    size_bytes: u64,
    /// By offset in the chunk or shard. The index of a damaged shard may overlap its chunks.
    pieces: BTreeMap<u64, Bytes>,
}

impl ReadObject for Fetched {
    fn size_bytes(&mut self) -> Result<u64> {
        Ok(self.size_bytes)
    }

    fn read(&mut self, range: Range<u64>) -> Result<Bytes> {
        let len = (range.end - range.start) as usize;
        let missing = || Error::internal("a range of an object was not read");
        if len == 0 {
            return Ok(Bytes::new());
        }
        let mut joined = Vec::new();
        let mut at = range.start;
        for (start, piece) in self.pieces.range(..range.end) {
            let (piece_end, start) = (start + piece.len() as u64, *start);
            if piece_end <= at || start > at {
                continue;
            }
            let end = piece_end.min(range.end);
            let part = piece.slice((at - start) as usize..(end - start) as usize);
            if part.len() == len {
                return Ok(part);
            }
            joined.extend_from_slice(&part);
            at = end;
        }
        if joined.len() == len { Ok(joined.into()) } else { Err(missing()) }
    }

    fn reserve(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn before_decoding(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn check_deadline(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Runs a computation on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|panic| Err(Error::internal("a task panicked").with_source(panic)))
}
