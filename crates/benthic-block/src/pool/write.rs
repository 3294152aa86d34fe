//! Writes, and the copies that they make after a snapshot or in a clone.
//!
//! A write to blocks that a data object of the head alone already has is one operation. The
//! first write to an object, and the first one after a snapshot, creates a data object and then
//! enters it in the map. An interruption in between leaves a data object that no map names: its
//! space is lost until the image is removed, but nothing reads it.

use super::blocks::{BLOCKS_XATTR, Blocks, block_bytes};
use super::image::{PIECES_IN_FLIGHT, PoolImage, run_all, version_entry};
use super::map::Entry;
use super::writer::{Writer, damaged, explain, note};
use benthic_core::{Durability, Error, ErrorKind, Result, WriteOp};
use bytes::{Bytes, BytesMut};

impl PoolImage {
    pub(super) async fn write_all(
        &self,
        offset_bytes: u64,
        data: Bytes,
        durability: Durability,
    ) -> Result<()> {
        let _shared = self.gate.read().await;
        let writer = self.writer().await?;
        let pieces = self.pieces(offset_bytes, data.len() as u64)?;
        let writes = pieces.into_iter().map(|piece| {
            let start = (piece.image_offset_bytes - offset_bytes) as usize;
            let data = data.slice(start..start + piece.len_bytes as usize);
            self.write_piece(writer, piece.object, piece.offset_bytes, data, durability)
        });
        run_all(writes, PIECES_IN_FLIGHT).await?;
        // Another operation may have been told of a loss.
        if durability == Durability::Durable { writer.check_losses() } else { Ok(()) }
    }

    pub(super) async fn write_piece(
        &self,
        writer: &Writer,
        object: u32,
        offset_bytes: u64,
        data: Bytes,
        durability: Durability,
    ) -> Result<()> {
        let entry = self.entry(object);
        let end = offset_bytes + data.len() as u64;
        if let Some(version) = self
            .own_version(entry)
            .filter(|_| entry.is_whole() || self.knows(object, entry, offset_bytes..end))
        {
            let op = with(durability, writer.guarded_op().write(offset_bytes, data.clone()));
            match self.pool.write(&self.id.data(object, version)?, op).await {
                // The object was discarded meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                written => return written.map(|_| ()).map_err(explain),
            }
        }
        let _locked = self.object_lock(object).lock().await;
        self.write_locked(writer, object, offset_bytes, data, durability).await
    }

    /// The version of an object's data object if only the head shows it.
    pub(super) fn own_version(&self, entry: Entry) -> Option<u32> {
        let base = self.state.read().header.base;
        entry.version().filter(|version| *version > base)
    }

    /// The caller holds the object's lock.
    async fn write_locked(
        &self,
        writer: &Writer,
        object: u32,
        offset_bytes: u64,
        data: Bytes,
        durability: Durability,
    ) -> Result<()> {
        let entry = self.entry(object);
        let Some(version) = self.own_version(entry) else {
            return self.write_new(writer, object, offset_bytes, data, durability).await;
        };
        let blocks = match entry.is_whole() {
            true => None,
            false => self.blocks(object, version).await.map_err(damaged)?,
        };
        if let Some(blocks) = blocks {
            let place = DataTarget { object, version, is_new: false };
            return self.fill(writer, place, (*blocks).clone(), offset_bytes, data, durability).await;
        }
        let op = with(durability, writer.guarded_op().write(offset_bytes, data));
        self.pool.write(&self.id.data(object, version)?, op).await.map_err(damaged)?;
        if entry.is_whole() { Ok(()) } else { self.set_entry(writer, object, Entry::whole(version)).await }
    }

    /// Writes to an object whose bytes are shared or zero, by creating a data object for it.
    async fn write_new(
        &self,
        writer: &Writer,
        object: u32,
        offset_bytes: u64,
        data: Bytes,
        durability: Durability,
    ) -> Result<()> {
        let entry = self.entry(object);
        let version = self.state.read().header.version;
        if self.shows_zeros(entry) {
            // It replaces the remains of an interrupted change.
            let op =
                WriteOp::new().write_full("").write(offset_bytes, data).remove_xattr(BLOCKS_XATTR).buffered();
            self.pool.write(&self.id.data(object, version)?, op).await.map_err(note)?;
            self.remember(object, version, None);
            self.set_entry(writer, object, Entry::whole(version)).await?;
        } else {
            let blocks = Blocks::none(entry.version().unwrap_or(0), self.object_bytes());
            let place = DataTarget { object, version, is_new: true };
            self.fill(writer, place, blocks, offset_bytes, data, Durability::Buffered).await?;
        }
        // The data and its entry become durable together.
        match durability {
            Durability::Durable => self.make_durable().await,
            Durability::Buffered => Ok(()),
        }
    }

    /// Writes to a data object that lacks blocks. It copies the rest of the blocks that the write
    /// covers in part.
    async fn fill(
        &self,
        writer: &Writer,
        place: DataTarget,
        mut blocks: Blocks,
        offset_bytes: u64,
        data: Bytes,
        durability: Durability,
    ) -> Result<()> {
        let DataTarget { object, version, is_new } = place;
        let object_bytes = self.object_bytes();
        let block_bytes = block_bytes(object_bytes);
        let end = offset_bytes + data.len() as u64;
        let (first, last) = (offset_bytes / block_bytes, (end - 1) / block_bytes);
        let start = if blocks.has(first) { offset_bytes } else { first * block_bytes };
        let stop = if blocks.has(last) { end } else { (last + 1) * block_bytes };
        let data = if (start, stop) == (offset_bytes, end) {
            data
        } else {
            let mut joined = BytesMut::zeroed((stop - start) as usize);
            let below = version_entry(blocks.below);
            for missing in [start..offset_bytes, end..stop].into_iter().filter(|range| !range.is_empty()) {
                if let Some(old) = self.read_entry(object, below, missing.clone()).await? {
                    let at = (missing.start - start) as usize;
                    joined[at..at + old.len()].copy_from_slice(&old);
                }
            }
            let at = (offset_bytes - start) as usize;
            joined[at..at + data.len()].copy_from_slice(&data);
            joined.freeze()
        };
        blocks.insert(start..stop, object_bytes);
        let has_all = blocks.has_all(object_bytes);
        let op = if is_new { WriteOp::new().write_full("") } else { writer.guarded_op() };
        let op = op.write(start, data);
        let op = match has_all {
            true => op.remove_xattr(BLOCKS_XATTR),
            false => op.set_xattr(BLOCKS_XATTR, blocks.encode()),
        };
        self.pool.write(&self.id.data(object, version)?, with(durability, op)).await.map_err(damaged)?;
        self.remember(object, version, Some(blocks).filter(|_| !has_all));
        match (is_new, has_all) {
            (_, true) => self.set_entry(writer, object, Entry::whole(version)).await,
            (true, false) => self.set_entry(writer, object, Entry::partial(version)).await,
            (false, false) => Ok(()),
        }
    }

    /// Whether neither the object nor the parent below it has data.
    pub(super) fn shows_zeros(&self, entry: Entry) -> bool {
        entry.version().is_none() && (entry.is_whole() || self.parent.is_none())
    }

    /// Changes an object's entry in the head's map. The caller holds the object's lock.
    pub(super) async fn set_entry(&self, writer: &Writer, object: u32, entry: Entry) -> Result<()> {
        self.set_entries(writer, object, &[entry]).await
    }

    /// Changes adjacent entries of one page. The caller holds the objects' locks.
    pub(super) async fn set_entries(&self, writer: &Writer, first: u32, entries: &[Entry]) -> Result<()> {
        let map = self.state.read().header.map;
        writer.store_entries(&*self.pool, self.id, map, first, entries).await?;
        let mut state = self.state.write();
        match state.map.get_mut(first as usize..first as usize + entries.len()) {
            Some(stored) => stored.copy_from_slice(entries),
            None => return Err(Error::internal("an object is behind the image's end")),
        }
        Ok(())
    }
}

/// The data object that a write goes to.
#[derive(Clone, Copy)]
struct DataTarget {
    object: u32,
    version: u32,
    is_new: bool,
}

pub(super) fn with(durability: Durability, op: WriteOp) -> WriteOp {
    WriteOp { durability, ..op }
}
