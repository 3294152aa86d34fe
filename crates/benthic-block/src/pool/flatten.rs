//! Flattening a clone: copying the blocks that it still takes from its parent.

use super::blocks::BLOCKS_XATTR;
use super::header::Header;
use super::image::{OBJECT_LOCKS, PoolImage, run_all};
use super::map::Entry;
use super::snapshots::forget_clone;
use super::writer::{Writer, note};
use benthic_core::{Error, Result, WriteOp};
use std::ops::Range;

/// Groups of objects that are copied at a time, each with one object in memory.
const GROUPS_IN_FLIGHT: usize = 4;

impl PoolImage {
    pub(super) async fn copy_parent(&self) -> Result<()> {
        let _admin = self.admin.lock().await;
        let writer = self.writer().await?;
        let header = self.state.read().header.clone();
        let Some(parent) = &header.parent else {
            return Err(Error::invalid_argument("the image is not a clone"));
        };
        if !header.snapshots.is_empty() {
            return Err(Error::conflict("snapshots of the clone show its parent, too; remove them first"));
        }
        let objects = self.state.read().map.len() as u32;
        let groups = (0..objects.div_ceil(OBJECT_LOCKS)).map(|number| {
            let first = number * OBJECT_LOCKS;
            first..(first + OBJECT_LOCKS).min(objects)
        });
        run_all(groups.map(|group| self.copy_group(writer, group)), GROUPS_IN_FLIGHT).await?;
        let flat = Header { parent: None, ..header.clone() };
        self.replace_header(writer, flat).await?;
        forget_clone(&*self.pool, self.id, parent).await
    }

    /// Copies the parent's blocks in objects with different locks.
    async fn copy_group(&self, writer: &Writer, objects: Range<u32>) -> Result<()> {
        writer.check().await?;
        let _shared = self.gate.read().await;
        let shows_parent = |object: u32| !self.entry(object).is_whole();
        let Some(first) = objects.clone().find(|object| shows_parent(*object)) else { return Ok(()) };
        let mut locked = Vec::new();
        for object in first..objects.end {
            locked.push(self.object_lock(object).lock().await);
        }
        let mut entries = Vec::new();
        for object in first..objects.end {
            entries.push(self.copy_object(writer, object).await?);
        }
        self.set_entries(writer, first, &entries).await
    }

    /// Returns the entry of the object when nothing of the parent shows any more.
    async fn copy_object(&self, writer: &Writer, object: u32) -> Result<Entry> {
        let entry = self.entry(object);
        if entry.is_whole() {
            return Ok(entry);
        }
        if let Some(version) = entry.version() {
            self.copy_missing(writer, object, version, 0).await?;
            return Ok(Entry::whole(version));
        }
        let range = 0..self.object_bytes();
        let data = self.read_entry(object, entry, range).await?;
        let Some(data) = data.filter(|data| data.iter().any(|byte| *byte != 0)) else {
            return Ok(Entry::ZEROS);
        };
        let version = self.state.read().header.version;
        let op = WriteOp::new().write_full(data).remove_xattr(BLOCKS_XATTR).buffered();
        self.pool.write(&self.id.data(object, version)?, op).await.map_err(note)?;
        self.remember(object, version, None);
        Ok(Entry::whole(version))
    }
}
