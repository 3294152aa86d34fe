//! Opening arrays, reading selections and reducing them.

use crate::cf::Coordinates;
use crate::class::Task;
use crate::dtype::{Dtype, NumberKind};
use crate::format::check_slices;
use crate::gather;
use crate::metadata::{ArrayMetadata, METADATA_BYTES_MAX, Node, parse_v2, parse_v2_group, parse_v3};
use crate::reduce::{Decoding, GROUPED_MAX, Mask, Reduction, Regrid, WeightParts};
use crate::references::FileChunks;
use crate::runner::{ObjectRunner, ReadStats, StoredChunk};
use crate::selection::{self, Part, Slice, TouchedChunks, counts, within};
use crate::statistics::Pruner;
use crate::values::Values;
use benthic_core::pushdown::{FAR, Pushdown};
use benthic_core::{
    Error, ErrorKind, ListRequest, Namespaces, ObjectId, OptionalExtension, Pool, Result, Stopwatch,
    SystemClock,
};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Maximum size of the result of one read.
const READ_BYTES_MAX: u64 = 1 << 34;

/// The place of an array or a group: the pool, the namespace, and the names of its objects up to
/// the last `/`. An empty path is the root.
#[derive(Clone)]
pub struct Place {
    pub pool: Arc<dyn Pool>,
    pub namespace: String,
    pub path: String,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.pool.name(), self.namespace, self.path)
    }
}

impl Place {
    /// The object with this key.
    ///
    /// # Errors
    /// As [`ObjectId::in_namespace`].
    pub fn object(&self, key: &str) -> Result<ObjectId> {
        ObjectId::in_namespace(self.namespace.clone(), self.prefix() + key)
    }

    /// The beginning of the names of all objects here and below.
    pub fn prefix(&self) -> String {
        if self.path.is_empty() { String::new() } else { format!("{}/", self.path) }
    }

    /// The names of all objects here and below, a page after the other.
    ///
    /// # Errors
    /// Those of the pool's listing.
    pub fn names(&self) -> impl Stream<Item = Result<Vec<ObjectId>>> + Send {
        let start = (self.clone(), Some(None));
        stream::try_unfold(start, async |(place, after)| {
            let Some(after) = after else { return Ok(None) };
            let namespaces = Namespaces::One(place.namespace.clone());
            let request = ListRequest { namespaces, prefix: place.prefix(), after, ..ListRequest::default() };
            let page = place.pool.list(request).await?;
            Ok(Some((page.objects, (place, page.next.map(Some)))))
        })
    }

    /// An array or group below.
    #[must_use]
    pub fn below(&self, path: &str) -> Place {
        Place { path: self.prefix() + path, ..self.clone() }
    }

    /// Another array or group in the same group.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Place {
        let path = match self.path.rsplit_once('/') {
            Some((group, _)) => format!("{group}/{name}"),
            None => name.to_owned(),
        };
        Place { path, ..self.clone() }
    }

    /// Reads a metadata document. `None` if the object does not exist.
    pub(crate) async fn document(&self, key: &str) -> Result<Option<Bytes>> {
        let object = self.object(key)?;
        let Some(document) = self.pool.read_range(&object, 0, METADATA_BYTES_MAX + 1).await.optional()?
        else {
            return Ok(None);
        };
        if document.len() as u64 > METADATA_BYTES_MAX {
            return Err(Error::limit_exceeded("a metadata document is too large")
                .with("object", object)
                .with("bytes_max", METADATA_BYTES_MAX));
        }
        Ok(Some(document))
    }

    /// Opens the array or group here.
    ///
    /// # Errors
    /// `NotFound` if there is none; those of [`parse_v3`] for its metadata.
    pub async fn node(&self) -> Result<Node> {
        self.timed_node().await.map(|(node, _)| node)
    }

    /// Opens the array or group here. Also returns the time of the first read.
    async fn timed_node(&self) -> Result<(Node, Duration)> {
        let timer = Stopwatch::start(&SystemClock);
        let first = self.document("zarr.json").await?;
        let round_trip = timer.elapsed();
        let parsed = async || {
            if let Some(document) = first {
                return parse_v3(&document).map(Some);
            }
            if let Some(document) = self.document(".zarray").await? {
                let attributes = self.document(".zattrs").await?;
                let array = parse_v2(&document, attributes.as_ref())?;
                return Ok(Some(Node::Array(Box::new(array))));
            }
            if let Some(document) = self.document(".zgroup").await? {
                let attributes = self.document(".zattrs").await?;
                return parse_v2_group(&document, attributes.as_ref()).map(|group| Some(Node::Group(group)));
            }
            Ok(None)
        };
        let node = parsed().await.map_err(|error| error.with("array", &self.path))?;
        match node {
            Some(node) => Ok((node, round_trip)),
            None => Err(Error::not_found("no array or group; `benthic array ls` lists them")
                .with("pool", self.pool.name())
                .with("array", &self.path)),
        }
    }
}

fn check_read_bytes(size_bytes: u64) -> Result<()> {
    if size_bytes <= READ_BYTES_MAX {
        return Ok(());
    }
    Err(Error::limit_exceeded("the selection is too large for one read; read parts")
        .with("size_bytes", size_bytes)
        .with("size_bytes_max", READ_BYTES_MAX))
}

/// An open array. It has the metadata of the time at which it was opened.
#[derive(Clone, Debug)]
pub struct Array {
    place: Place,
    metadata: Arc<ArrayMetadata>,
    /// The chunks, if they are in a file.
    file_chunks: Option<Arc<FileChunks>>,
    is_far: bool,
}

impl Array {
    /// Opens an array.
    ///
    /// # Errors
    /// `NotFound` if there is none; `InvalidArgument` if there is a group; those of [`parse_v3`].
    pub async fn open(place: Place) -> Result<Array> {
        let (node, round_trip) = place.timed_node().await?;
        let is_far = round_trip >= FAR;
        match node {
            Node::Array(metadata) => {
                let file_chunks = match &metadata.references {
                    Some(references) => {
                        let (shape, chunk_shape) = (&metadata.shape, &metadata.format.shape.0);
                        let opened = FileChunks::open(&place, references, shape, chunk_shape).await;
                        Some(Arc::new(opened.map_err(|error| error.with("array", &place.path))?))
                    }
                    None => None,
                };
                Ok(Array { place, metadata: Arc::new(*metadata), file_chunks, is_far })
            }
            Node::Group(_) => {
                let message = "this is a group, not an array; `benthic array ls` lists the arrays in it";
                Err(Error::invalid_argument(message).with("group", place.path))
            }
        }
    }

    pub fn metadata(&self) -> &ArrayMetadata {
        &self.metadata
    }

    /// Whether a round trip took long when the array was opened.
    pub(crate) fn is_far(&self) -> bool {
        self.is_far
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns slices that select the whole array.
    pub fn whole(&self) -> Vec<Slice> {
        self.metadata.shape.iter().map(|len| Slice::all(*len)).collect()
    }

    /// Reads a selection. The result has the array's axes. Each object is read at one version, but
    /// different objects at different times, so a concurrent writer may change some chunks in
    /// between. Objects that are not stored have the fill value.
    ///
    /// # Errors
    /// `InvalidArgument` for a selection out of range; `LimitExceeded` for one that is too large;
    /// `Corrupt` for damaged chunks; `NotFound` or `Conflict` if chunks are missing and the array
    /// was removed or replaced; those of the pool.
    pub async fn read(&self, slices: &[Slice], pushdown: Pushdown, stats: &Arc<ReadStats>) -> Result<Values> {
        let dtype = self.metadata.format.dtype;
        check_slices(slices, &self.metadata.shape)?;
        let shape = counts(slices);
        let size_bytes = selection::elements(&shape)?.saturating_mul(dtype.size_bytes() as u64);
        check_read_bytes(size_bytes)?;
        let mut values = Values { dtype, shape, data: vec![0; size_bytes as usize] };
        self.each_chunk(slices, Task::Select {}, pushdown, stats, |data, part| {
            let counts = counts(&part.slices);
            gather::place(&data, &counts, &part.first, &values.shape, dtype.size_bytes(), &mut values.data)
        })
        .await?;
        Ok(values)
    }

    /// Reduces a selection. The result has the axes that are kept or grouped, and for a histogram
    /// or quantiles one more with the bins or quantiles.
    ///
    /// # Errors
    /// As [`Array::read`]; `InvalidArgument` also for an invalid reduction, and for the minimum or
    /// maximum of no values; `LimitExceeded` also for more than 1 GiB of partial results.
    pub async fn reduce(
        &self,
        slices: &[Slice],
        reduction: Reduction,
        pushdown: Pushdown,
        stats: &Arc<ReadStats>,
    ) -> Result<Values> {
        self.reduce_masked(slices, reduction, None, pushdown, stats).await
    }

    /// As [`Array::reduce`], with the elements that a mask leaves out as missing values. With a
    /// mask, integers are reduced as float64, because they have no missing value. If missing values
    /// are skipped, a chunk of which the mask keeps nothing is not read.
    ///
    /// # Errors
    /// As [`Array::reduce`]; `InvalidArgument` also for a mask that does not fit the selection.
    pub async fn reduce_masked(
        &self,
        slices: &[Slice],
        mut reduction: Reduction,
        mask: Option<Mask>,
        pushdown: Pushdown,
        stats: &Arc<ReadStats>,
    ) -> Result<Values> {
        let dtype = self.metadata.format.dtype;
        check_slices(slices, &self.metadata.shape)?;
        if mask.is_some() && dtype.number_kind() != NumberKind::Float {
            reduction.decoding.get_or_insert_default();
        }
        reduction.check(dtype, &counts(slices))?;
        mask.iter().try_for_each(|mask| reduction.check_mask(mask, dtype, &counts(slices)))?;
        let mut states = reduction.accumulator(dtype, &counts(slices))?;
        let is_long = self.metadata.format.shape.0.iter().any(|len| *len > GROUPED_MAX as u64);
        let pushdown = if is_long && reduction.has_groups() { Pushdown::Never } else { pushdown };
        let task = match mask {
            Some(mask) => Task::ReduceMasked { reduction, mask },
            None => Task::Reduce { reduction },
        };
        self.each_chunk(slices, task, pushdown, stats, |data, part| {
            let counts = counts(&part.slices);
            states.merge(&data, &counts, &part.first)
        })
        .await?;
        states.finish()
    }

    /// Regrids the last axes of a selection. The result has the other axes, and one more with the
    /// cells, and is float64. A chunk of which no weight takes an element is not read.
    ///
    /// # Errors
    /// As [`Array::read`]; `InvalidArgument` also for weights that do not fit the selection;
    /// `LimitExceeded` also for more than 1 GiB of partial results.
    pub async fn regrid(
        &self,
        slices: &[Slice],
        mut regrid: Regrid,
        pushdown: Pushdown,
        stats: &Arc<ReadStats>,
    ) -> Result<Values> {
        check_slices(slices, &self.metadata.shape)?;
        // Another array has other chunks.
        regrid.weights.parts = WeightParts::default();
        regrid.check(self.metadata.format.dtype, &counts(slices))?;
        let mut states = regrid.states(&counts(slices))?;
        let task = Task::Regrid { regrid: regrid.clone() };
        self.each_chunk(slices, task, pushdown, stats, |data, part| states.merge(&data, part)).await?;
        Ok(states.finish())
    }

    /// Reads a selection, and decodes the values. With a decoding, the result is float32 or
    /// float64.
    ///
    /// # Errors
    /// As [`Array::read`].
    pub async fn read_decoded(
        &self,
        slices: &[Slice],
        decoding: Option<&Decoding>,
        pushdown: Pushdown,
        stats: &Arc<ReadStats>,
    ) -> Result<Values> {
        let Some(decoding) = decoding else { return self.read(slices, pushdown, stats).await };
        // Floats may be larger than the stored elements.
        check_read_bytes(selection::elements(&counts(slices))?.saturating_mul(size_of::<f64>() as u64))?;
        let values = self.read(slices, pushdown, stats).await?;
        let dtype = if decoding.is_single { Dtype::Float32 } else { Dtype::Float64 };
        let mut decoded = Values { dtype, shape: values.shape.clone(), data: Vec::new() };
        values.into_floats(Some(decoding)).into_iter().for_each(|value| decoded.push_f64(value));
        Ok(decoded)
    }

    /// Reads the coordinates of positions along an axis, from the array in the same group with the
    /// name of the dimension.
    ///
    /// # Errors
    /// `NotFound` if there is no such axis, or it has no name or no coordinates; `InvalidArgument`
    /// if these do not have one value for each position.
    pub async fn coordinates(
        &self,
        axis: usize,
        positions: Slice,
        pushdown: Pushdown,
    ) -> Result<Coordinates> {
        let missing = || Error::not_found("the dimension has no coordinates; select positions instead");
        let Some(Some(name)) = self.metadata.dimensions.get(axis) else {
            return Err(missing().with("axis", axis));
        };
        let opened = Array::open(self.place.sibling(name)).await;
        let array = opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound => missing().with("dimension", name),
            _ => error,
        })?;
        if array.metadata.shape != [self.metadata.shape[axis]] {
            let message = "the coordinates do not have the shape of the dimension; select positions instead";
            return Err(Error::invalid_argument(message).with("dimension", name));
        }
        let values = array.read(&[positions], pushdown, &Arc::default()).await?;
        Coordinates::decode(&array.metadata, values)
    }

    /// Runs a task on every chunk that a selection touches, several at once. Calls the function
    /// with the results in C order of the chunks. Skips a chunk that has no result, because its
    /// positions are in no group, no weight takes its elements, its statistics exclude the range of
    /// values, or a mask keeps none of them.
    async fn each_chunk(
        &self,
        slices: &[Slice],
        task: Task,
        pushdown: Pushdown,
        stats: &Arc<ReadStats>,
        mut merge: impl FnMut(Bytes, &Part) -> Result<()>,
    ) -> Result<()> {
        let pruner = Pruner::new(self, &task);
        let format = self.metadata.format.clone();
        let chunk_shape = &self.metadata.format.shape.0;
        let pool = Arc::clone(&self.place.pool);
        let runner = ObjectRunner::new(pool, format, task, pushdown, self.is_far, Arc::clone(stats));
        stats.add_chunks(TouchedChunks::count(slices, chunk_shape));
        let missing_before = stats.missing_chunks();
        let run = async |chunk: Vec<u64>| {
            let origin: Vec<u64> = chunk.iter().zip(chunk_shape).map(|(index, len)| index * len).collect();
            let part = within(slices, &origin, chunk_shape)
                .ok_or_else(|| Error::internal("a chunk is not in the selection"))?;
            if runner.leaves_out(&part) {
                stats.add_pruned();
                return Ok(None);
            }
            let stored = self.chunk(&chunk)?;
            if let (Some(pruner), Some(stored)) = (&pruner, &stored)
                && pruner.excludes(&chunk, &stored.object).await?
            {
                // All its values would be missing, and change no state.
                stats.add_pruned();
                return Ok(None);
            }
            Ok::<_, Error>(runner.run(stored.as_ref(), &part).await?.map(|data| (data, part)))
        };
        let chunks = TouchedChunks::new(slices, chunk_shape);
        let mut results = stream::iter(chunks).map(run).buffered(runner.at_once());
        while let Some(result) = results.next().await {
            match result {
                Ok(Some((data, part))) => merge(data, &part)?,
                Ok(None) => {}
                Err(error) => {
                    // A file that was removed or replaced meanwhile looks damaged.
                    if self.file_chunks.is_some() && error.kind() == ErrorKind::Corrupt {
                        self.check_layout().await?;
                    }
                    return Err(error);
                }
            }
        }
        if stats.missing_chunks() > missing_before || self.file_chunks.is_some() {
            self.check_layout().await?;
        }
        Ok(())
    }

    /// The place of a chunk. `None` if an index says that it is not stored.
    pub(crate) fn chunk(&self, position: &[u64]) -> Result<Option<StoredChunk>> {
        let Some(file_chunks) = &self.file_chunks else {
            return Ok(Some(self.place.object(&self.metadata.chunk_key(position))?.into()));
        };
        let found = file_chunks.find(&self.place, position)?;
        let is_clipped = self.metadata.references.as_ref().is_some_and(|references| references.is_clipped);
        let chunk_shape = &self.metadata.format.shape.0;
        let rests = position.iter().zip(chunk_shape).zip(&self.metadata.shape);
        let shape: Vec<u64> =
            rests.map(|((index, chunk), len)| (*chunk).min(len.saturating_sub(index * chunk))).collect();
        let shape = (is_clipped && shape != *chunk_shape).then_some(shape);
        Ok(found.map(|(object, range)| StoredChunk { object, range: Some(range), shape }))
    }

    /// The object name of the file with the chunks. `None` if they are objects.
    ///
    /// # Errors
    /// `Corrupt` for a path out of the pool.
    pub fn file_name(&self) -> Result<Option<String>> {
        let references = self.metadata.references.as_ref();
        references.map(|references| references.file_name(&self.place)).transpose()
    }

    /// Whether the chunks are ranges of a file.
    pub(crate) fn is_in_file(&self) -> bool {
        self.file_chunks.is_some()
    }

    /// Fails if the array was removed or replaced since it was opened. Its missing chunks must not
    /// look like fill values.
    async fn check_layout(&self) -> Result<()> {
        match self.place.node().await? {
            Node::Array(metadata) if metadata.has_same_layout(&self.metadata) => Ok(()),
            _ => {
                let message = "the array was replaced or resized during the read; open it again";
                Err(Error::conflict(message).with("array", &self.place.path))
            }
        }
    }
}
