//! An open image, and the straight path of its reads.

use super::blocks::{self, BLOCKS_XATTR, Blocks};
use super::header::{Header, Snapshot, SnapshotState};
use super::map::{self, Entry};
use super::objects::ImageId;
use super::pause::Pause;
use super::request_limits;
use super::writer::{Writer, note};
use crate::contract::{Check, Extent, ExtentKind, Image, ImageInfo, SnapshotInfo, Zeroes};
use crate::geometry::Piece;
use crate::limits::Limits;
use async_trait::async_trait;
use benthic_core::{Durability, Environment, Error, ErrorKind, Fetch, Pool, Result, Store};
use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Operations that one request has in flight.
pub(super) const PIECES_IN_FLIGHT: usize = 16;
/// Objects share this many locks.
pub(super) const OBJECT_LOCKS: u32 = 256;
/// Limit of the data objects whose blocks are remembered.
const KNOWN_BLOCKS_MAX: usize = 100_000;
/// Attempts at a read that finds a data object missing.
const ATTEMPTS_MAX: u32 = 5;

pub(crate) struct PoolImage {
    pub store: Arc<dyn Store>,
    pub pool: Arc<dyn Pool>,
    pub environment: Environment,
    pub id: ImageId,
    pub address: String,
    /// The snapshot that is open; `None` for the head.
    pub snapshot: Option<Snapshot>,
    pub state: RwLock<ImageState>,
    pub parent: Option<Arc<PoolImage>>,
    /// `None` if the image is open read-only.
    pub writer: Option<Arc<Writer>>,
    /// Changes hold this shared. Operations that need the image at rest hold it exclusively.
    pub gate: Arc<tokio::sync::RwLock<()>>,
    /// A change of an object's entry or of its blocks holds the object's lock.
    objects: Vec<tokio::sync::Mutex<()>>,
    blocks: Mutex<KnownBlocks>,
    /// Held by operations on snapshots, on the size and on the parent.
    pub admin: Arc<tokio::sync::Mutex<()>>,
    /// While another program has paused the writes.
    pub pause: Mutex<Option<Pause>>,
}

/// The blocks of data objects that lack some, by object and version, as far as they are known.
#[derive(Default)]
struct KnownBlocks {
    blocks: HashMap<(u32, u32), Arc<Blocks>>,
    /// Grows with every change.
    changes: u64,
}

impl KnownBlocks {
    fn insert(&mut self, object: u32, version: u32, blocks: Arc<Blocks>) {
        if self.blocks.len() >= KNOWN_BLOCKS_MAX {
            self.blocks.clear();
        }
        self.blocks.insert((object, version), blocks);
    }
}

pub(crate) struct ImageState {
    pub header: Header,
    /// The object map of the open image or snapshot.
    pub map: Vec<Entry>,
    pub size_bytes: u64,
}

/// Everything that [`PoolImage::new`] needs.
pub(crate) struct Parts {
    pub store: Arc<dyn Store>,
    pub pool: Arc<dyn Pool>,
    pub environment: Environment,
    pub id: ImageId,
    pub address: String,
    pub snapshot: Option<Snapshot>,
    pub header: Header,
    pub map: Vec<Entry>,
    pub parent: Option<Arc<PoolImage>>,
    pub writer: Option<Arc<Writer>>,
}

impl PoolImage {
    pub fn new(parts: Parts) -> PoolImage {
        let Parts { store, pool, environment, id, address, snapshot, header, map, parent, writer } = parts;
        let size_bytes = snapshot.as_ref().map_or(header.size_bytes, |snapshot| snapshot.size_bytes);
        PoolImage {
            store,
            pool,
            environment,
            id,
            address,
            snapshot,
            state: RwLock::new(ImageState { header, map, size_bytes }),
            parent,
            writer,
            gate: Arc::default(),
            objects: std::iter::repeat_with(Default::default).take(OBJECT_LOCKS as usize).collect(),
            blocks: Mutex::default(),
            admin: Arc::default(),
            pause: Mutex::default(),
        }
    }

    pub(super) fn object_lock(&self, object: u32) -> &tokio::sync::Mutex<()> {
        &self.objects[(object % OBJECT_LOCKS) as usize]
    }

    pub(super) fn object_bytes(&self) -> u64 {
        self.state.read().header.geometry.object_bytes
    }

    /// The entry of an object. Behind the image's end nothing of the parent shows.
    pub(super) fn entry(&self, object: u32) -> Entry {
        self.state.read().map.get(object as usize).copied().unwrap_or(Entry::ZEROS)
    }

    /// The right to write, checked.
    pub(super) async fn writer(&self) -> Result<&Writer> {
        let Some(writer) = &self.writer else {
            return Err(Error::permission_denied("the image is open read-only"));
        };
        writer.check().await?;
        Ok(writer)
    }

    fn check_range(&self, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let size_bytes = self.state.read().size_bytes;
        if offset_bytes.checked_add(len_bytes).is_some_and(|end| end <= size_bytes) {
            return Ok(());
        }
        Err(Error::invalid_argument("the request is beyond the image's end")
            .with("offset_bytes", offset_bytes)
            .with("len_bytes", len_bytes)
            .with("size_bytes", size_bytes))
    }

    pub(super) fn pieces(&self, offset_bytes: u64, len_bytes: u64) -> Result<Vec<Piece>> {
        self.check_range(offset_bytes, len_bytes)?;
        Ok(self.state.read().header.geometry.pieces(offset_bytes, len_bytes).collect())
    }

    pub(super) fn add_context(&self, error: Error) -> Error {
        error.with("image", &self.address)
    }

    /// Reads a part of one object. `None` stands for zeros.
    pub(super) async fn read_piece(&self, object: u32, range: Range<u64>) -> Result<Option<Bytes>> {
        let mut attempts = 0;
        loop {
            let entry = self.entry(object);
            let read = self.read_entry(object, entry, range.clone()).await;
            match read {
                // The object was discarded or rewritten meanwhile.
                _ if self.entry(object) != entry => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    // The removal of a snapshot moves blocks between data objects.
                    attempts += 1;
                    if attempts >= ATTEMPTS_MAX {
                        return Err(missing(error));
                    }
                    if self.writer.is_none() {
                        self.refresh().await?;
                    }
                }
                read => return read,
            }
        }
    }

    /// Reads the changes that a writer has made since a read-only image was opened.
    async fn refresh(&self) -> Result<()> {
        let header = Header::load(&*self.pool, self.id).await?;
        let (map, size_bytes) = match &self.snapshot {
            None => (header.map, header.size_bytes),
            Some(opened) => (opened.number, opened.size_bytes),
        };
        let entries =
            map::load(&*self.pool, self.id, map, header.geometry.objects(size_bytes) as usize).await?;
        self.blocks.lock().blocks.clear();
        *self.state.write() = ImageState { header, map: entries, size_bytes };
        Ok(())
    }

    /// Reads through an entry. `NotFound` if a data object is missing.
    pub(super) fn read_entry(
        &self,
        object: u32,
        entry: Entry,
        range: Range<u64>,
    ) -> BoxFuture<'_, Result<Option<Bytes>>> {
        Box::pin(async move {
            match entry.version() {
                None if entry.is_whole() => Ok(None),
                None => match &self.parent {
                    Some(parent) => parent.read_piece(object, range).await,
                    None => Ok(None),
                },
                Some(version) if entry.is_whole() => self.read_data(object, version, range).await,
                Some(version) => match self.blocks(object, version).await? {
                    Some(blocks) => self.read_blocks(object, version, &blocks, range).await,
                    None => self.read_data(object, version, range).await,
                },
            }
        })
    }

    /// Reads a range of a data object, which reads as zeros beyond its end. `None` if the whole
    /// range is there.
    async fn read_data(&self, object: u32, version: u32, range: Range<u64>) -> Result<Option<Bytes>> {
        let len_bytes = range.end - range.start;
        match self.pool.read_range(&self.id.data(object, version)?, range.start, len_bytes).await {
            Ok(data) if data.is_empty() => Ok(None),
            Ok(data) if data.len() as u64 == len_bytes => Ok(Some(data)),
            Ok(data) => {
                let mut padded = BytesMut::zeroed(len_bytes as usize);
                padded[..data.len()].copy_from_slice(&data);
                Ok(Some(padded.freeze()))
            }
            Err(error) => Err(error),
        }
    }

    async fn read_blocks(
        &self,
        object: u32,
        version: u32,
        blocks: &Blocks,
        range: Range<u64>,
    ) -> Result<Option<Bytes>> {
        let below = version_entry(blocks.below);
        let parts = blocks.split(range.clone(), self.object_bytes());
        if let [(_, has)] = parts[..] {
            return if has {
                self.read_data(object, version, range).await
            } else {
                self.read_entry(object, below, range).await
            };
        }
        let mut joined = BytesMut::zeroed((range.end - range.start) as usize);
        for (part, has) in parts {
            let data = if has {
                self.read_data(object, version, part.clone()).await?
            } else {
                self.read_entry(object, below, part.clone()).await?
            };
            if let Some(data) = data {
                let at = (part.start - range.start) as usize;
                joined[at..at + data.len()].copy_from_slice(&data);
            }
        }
        Ok(Some(joined.freeze()))
    }

    /// The blocks that a data object has; `None` stands for all.
    pub(super) async fn blocks(&self, object: u32, version: u32) -> Result<Option<Arc<Blocks>>> {
        let changes = {
            let known = self.blocks.lock();
            if let Some(blocks) = known.blocks.get(&(object, version)) {
                return Ok(Some(Arc::clone(blocks)));
            }
            known.changes
        };
        let (xattrs, _) = self.pool.fetch(&self.id.data(object, version)?, Fetch::list_xattrs()).await?;
        let Some(value) = xattrs.get(BLOCKS_XATTR) else { return Ok(None) };
        let blocks = Arc::new(Blocks::decode(value, self.object_bytes())?);
        if blocks.below >= version {
            // Otherwise a read would not end.
            return Err(Error::corrupt("a data object continues a newer version"));
        }
        let mut known = self.blocks.lock();
        // After a change meanwhile, this may be old.
        if known.changes == changes {
            known.insert(object, version, Arc::clone(&blocks));
        }
        Ok(Some(blocks))
    }

    /// True if a data object is known to have all blocks of a range.
    pub(super) fn knows(&self, object: u32, entry: Entry, range: Range<u64>) -> bool {
        let known =
            entry.version().and_then(|version| self.blocks.lock().blocks.get(&(object, version)).cloned());
        known.is_some_and(|blocks| blocks.has_range(range, self.object_bytes()))
    }

    /// Remembers the blocks of a data object; `None` if it has all bytes or no longer exists.
    pub(super) fn remember(&self, object: u32, version: u32, blocks: Option<Blocks>) {
        let mut known = self.blocks.lock();
        known.changes += 1;
        match blocks {
            Some(blocks) => known.insert(object, version, Arc::new(blocks)),
            None => _ = known.blocks.remove(&(object, version)),
        }
    }

    /// Makes all completed changes durable.
    pub(super) async fn make_durable(&self) -> Result<()> {
        self.store.flush().await.map_err(note)?;
        // Another operation may have been told of a loss.
        self.writer.as_ref().map_or(Ok(()), |writer| writer.check_losses())
    }

    async fn read_all(&self, offset_bytes: u64, len_bytes: u64) -> Result<Bytes> {
        if let Some(writer) = &self.writer {
            writer.check().await?;
        }
        let pieces = self.pieces(offset_bytes, len_bytes)?;
        if let [piece] = pieces[..] {
            let data = self.read_piece(piece.object, piece.range()).await?;
            return Ok(data.unwrap_or_else(|| BytesMut::zeroed(len_bytes as usize).freeze()));
        }
        let mut joined = BytesMut::zeroed(len_bytes as usize);
        let mut read = stream::iter(pieces)
            .map(|piece| async move {
                Ok::<_, Error>((piece, self.read_piece(piece.object, piece.range()).await?))
            })
            .buffer_unordered(PIECES_IN_FLIGHT);
        while let Some((piece, data)) = read.try_next().await? {
            if let Some(data) = data {
                let at = (piece.image_offset_bytes - offset_bytes) as usize;
                joined[at..at + data.len()].copy_from_slice(&data);
            }
        }
        Ok(joined.freeze())
    }

    /// Fails if the snapshot that is open was removed. After its removal, writes to the image
    /// change the data objects that it showed. So this follows each read.
    async fn check_snapshot(&self) -> Result<()> {
        let Some(opened) = &self.snapshot else { return Ok(()) };
        let header = Header::load(&*self.pool, self.id).await?;
        if header.live_snapshots().any(|snapshot| snapshot.number == opened.number) {
            return Ok(());
        }
        Err(Error::not_found("the snapshot was removed after it was opened; open another one"))
    }

    async fn extents_of(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        since: Option<&str>,
    ) -> Result<Vec<Extent>> {
        if let Some(writer) = &self.writer {
            writer.check().await?;
        }
        self.check_range(offset_bytes, len_bytes)?;
        let geometry = self.state.read().header.geometry;
        let old = if let Some(name) = since { Some(self.load_snapshot_map(name).await?) } else { None };
        let mut extents: Vec<Extent> = Vec::new();
        for piece in geometry.pieces(offset_bytes, len_bytes) {
            let entry = self.entry(piece.object);
            let parts =
                match old.as_ref().map(|old| old.get(piece.object as usize).copied().unwrap_or(Entry::ZEROS))
                {
                    Some(old) => self.changes(piece.object, entry, old, piece.range()).await?,
                    None => vec![(piece.range(), true)],
                };
            let kind = if self.is_hole(piece.object, entry) { ExtentKind::Hole } else { ExtentKind::Data };
            for (part, has_changed) in parts {
                let (kind, len_bytes) =
                    (if has_changed { kind } else { ExtentKind::Unchanged }, part.end - part.start);
                match extents.last_mut() {
                    Some(last) if last.kind == kind => last.len_bytes += len_bytes,
                    _ => extents.push(Extent { len_bytes, kind }),
                }
            }
        }
        Ok(extents)
    }

    /// Divides a range of an object into parts that have changed between two entries and others.
    /// The blocks that the data objects between them have are those that were written.
    async fn changes(
        &self,
        object: u32,
        new: Entry,
        old: Entry,
        range: Range<u64>,
    ) -> Result<Vec<(Range<u64>, bool)>> {
        if new == old
            || new.version().is_some() && new.version() == old.version()
            || (self.shows_zeros(old) && self.shows_zeros(new))
        {
            return Ok(vec![(range, false)]);
        }
        let object_bytes = self.object_bytes();
        let mut written = Blocks::none(0, object_bytes);
        let mut entry = new;
        while let Some(version) = entry.version().filter(|version| Some(*version) != old.version()) {
            let blocks = if entry.is_whole() { None } else { self.blocks(object, version).await? };
            let Some(blocks) = blocks else { return Ok(vec![(range, true)]) };
            written.add(&blocks);
            entry = version_entry(blocks.below);
        }
        // The data objects do not lead to the old entry, for example after a discard.
        if entry.version() != old.version() || entry.version().is_none() && entry != old {
            return Ok(vec![(range, true)]);
        }
        Ok(written.split(range, object_bytes))
    }

    fn is_hole(&self, object: u32, entry: Entry) -> bool {
        match (entry.version(), &self.parent) {
            (Some(_), _) => false,
            (None, Some(parent)) if !entry.is_whole() => parent.is_hole(object, parent.entry(object)),
            (None, _) => true,
        }
    }

    async fn load_snapshot_map(&self, name: &str) -> Result<Vec<Entry>> {
        let (number, objects) = {
            let state = self.state.read();
            let snapshot = state.header.snapshot(name)?;
            (snapshot.number, state.header.geometry.objects(snapshot.size_bytes))
        };
        map::load(&*self.pool, self.id, number, objects as usize).await
    }
}

/// Runs all operations to their end, a number of them at a time, and returns the first error. An
/// operation that is dropped could still take effect later.
pub(super) async fn run_all<F: Future<Output = Result<()>>>(
    operations: impl Iterator<Item = F>,
    in_flight_max: usize,
) -> Result<()> {
    let mut running = stream::iter(operations).buffer_unordered(in_flight_max);
    let mut result = Ok(());
    while let Some(ended) = running.next().await {
        result = result.and(ended);
    }
    result
}

/// The error of a data object that a map names but that does not exist.
pub(super) fn missing(error: Error) -> Error {
    let message = "a data object is missing: the image is damaged, or its snapshot was removed meanwhile";
    Error::corrupt(message).with_source(error)
}

/// The entry of a version below a data object. Whether it has all bytes is in its attributes.
pub(super) fn version_entry(version: u32) -> Entry {
    if version == 0 { Entry::NONE } else { Entry::partial(version) }
}

#[async_trait]
impl Image for PoolImage {
    fn info(&self) -> ImageInfo {
        let state = self.state.read();
        ImageInfo {
            address: self.address.clone(),
            size_bytes: state.size_bytes,
            geometry: state.header.geometry,
            read_only: self.writer.is_none(),
            parent: self
                .parent
                .as_ref()
                .filter(|_| state.header.parent.is_some())
                .map(|parent| parent.address.clone()),
            copy_block_bytes: blocks::block_bytes(state.header.geometry.object_bytes),
            features: Vec::new(),
        }
    }

    async fn read(&self, offset_bytes: u64, len_bytes: u64) -> Result<Bytes> {
        let read = self.read_all(offset_bytes, len_bytes).await;
        self.check_snapshot().await.and(read).map_err(|error| self.add_context(error))
    }

    async fn write(&self, offset_bytes: u64, data: Bytes, durability: Durability) -> Result<()> {
        self.write_all(offset_bytes, data, durability).await.map_err(|error| self.add_context(error))
    }

    async fn write_zeroes(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        zeroes: Zeroes,
        durability: Durability,
    ) -> Result<()> {
        let written = match zeroes {
            Zeroes::Punch => self.punch(offset_bytes, len_bytes, durability).await,
            Zeroes::Allocate => self.allocate_zeros(offset_bytes, len_bytes, durability).await,
        };
        written.map_err(|error| self.add_context(error))
    }

    async fn flush(&self) -> Result<()> {
        self.make_durable().await.map_err(|error| self.add_context(error))
    }

    async fn extents(&self, offset_bytes: u64, len_bytes: u64, since: Option<&str>) -> Result<Vec<Extent>> {
        let extents = self.extents_of(offset_bytes, len_bytes, since).await;
        self.check_snapshot().await.and(extents).map_err(|error| self.add_context(error))
    }

    async fn limits(&self) -> Result<Limits> {
        request_limits::load(&*self.pool, self.id).await.map_err(|error| self.add_context(error))
    }

    async fn check(&self, repair: bool) -> Result<Check> {
        self.check_objects(repair).await.map_err(|error| self.add_context(error))
    }

    async fn resize(&self, size_bytes: u64) -> Result<()> {
        self.change_size(size_bytes).await.map_err(|error| self.add_context(error))
    }

    async fn snapshots(&self) -> Result<Vec<SnapshotInfo>> {
        let state = self.state.read();
        let listed = state.header.live_snapshots();
        Ok(listed
            .map(|snapshot| SnapshotInfo {
                name: snapshot.name.clone(),
                size_bytes: snapshot.size_bytes,
                created_unix_ms: snapshot.created_unix_ms,
                is_protected: snapshot.state == SnapshotState::Protected,
            })
            .collect())
    }

    async fn create_snapshot(&self, name: &str) -> Result<()> {
        self.take_snapshot(name).await.map_err(|error| self.add_context(error).with("snapshot", name))
    }

    async fn remove_snapshot(&self, name: &str) -> Result<()> {
        self.drop_snapshot(name).await.map_err(|error| self.add_context(error).with("snapshot", name))
    }

    async fn protect_snapshot(&self, name: &str, protect: bool) -> Result<()> {
        self.protect(name, protect).await.map_err(|error| self.add_context(error).with("snapshot", name))
    }

    async fn roll_back(&self, snapshot: &str) -> Result<()> {
        self.return_to(snapshot).await.map_err(|error| self.add_context(error).with("snapshot", snapshot))
    }

    async fn flatten(&self) -> Result<()> {
        self.copy_parent().await.map_err(|error| self.add_context(error))
    }

    async fn close(&self) -> Result<()> {
        self.finish().await.map_err(|error| self.add_context(error))
    }
}
