//! Snapshots: taking, removing and returning to them; resizing and closing, which also need the
//! image at rest.
//!
//! A snapshot is a copy of the head's map. Data objects are shared between maps and are never
//! changed while a snapshot shows them, so taking a snapshot copies no data.

use super::blocks::BLOCKS_XATTR;
use super::header::{Header, Parent, SNAPSHOTS_MAX, Snapshot, SnapshotState};
use super::image::{ImageState, PIECES_IN_FLIGHT, PoolImage, run_all, version_entry};
use super::map::{self, Entry};
use super::objects::{self, ImageId};
use super::writer::{Writer, explain};
use crate::names::check_snapshot_name;
use benthic_core::{Compare, Error, ErrorKind, Fetch, Pool, Result, WriteOp, limits};

/// Prefix of the omap keys of a header that name the clones of a snapshot.
const CLONE_PREFIX: &str = "clone/";

/// Gaps that one operation fills. An operation has a limit of steps.
const GAPS_PER_OPERATION: usize = 500;

/// A view of the image that may share data objects with a snapshot.
enum View {
    Head,
    Snapshot(Vec<Entry>),
}

impl PoolImage {
    pub(super) async fn take_snapshot(&self, name: &str) -> Result<()> {
        let _admin = self.admin.lock().await;
        let _at_rest = self.gate.write().await;
        self.take_snapshot_at_rest(name).await
    }

    /// Takes a snapshot. The caller holds the lock of administration and the gate.
    pub(super) async fn take_snapshot_at_rest(&self, name: &str) -> Result<()> {
        check_snapshot_name(name)?;
        let writer = self.writer().await?;
        let (mut header, entries) = {
            let state = self.state.read();
            (state.header.clone(), state.map.clone())
        };
        if header.snapshot(name).is_ok() {
            return Err(Error::already_exists("the image already has this snapshot"));
        }
        if header.snapshots.len() >= SNAPSHOTS_MAX {
            return Err(Error::limit_exceeded("the image has too many snapshots; remove some")
                .with("snapshots_max", SNAPSHOTS_MAX));
        }
        let number = header.next_number()?;
        header.next_number()?;
        header.snapshots.push(Snapshot {
            number,
            name: name.to_owned(),
            size_bytes: header.size_bytes,
            created_unix_ms: self.environment.unix_ms(),
            base: header.base,
            state: SnapshotState::Unprotected,
        });
        header.base = number;
        map::store(&*self.pool, self.id, number, &entries).await?;
        writer.store_header(&header).await?;
        self.state.write().header = header;
        Ok(())
    }

    pub(super) async fn drop_snapshot(&self, name: &str) -> Result<()> {
        let _admin = self.admin.lock().await;
        let writer = self.writer().await?;
        let found = self.state.read().header.snapshot(name).map(|found| (found.number, found.state));
        let number = match found {
            Ok((_, SnapshotState::Protected)) => {
                let message = "the snapshot is protected; `benthic image snap unprotect` ends that";
                return Err(Error::conflict(message));
            }
            Ok((number, _)) => number,
            // An earlier removal may have been interrupted.
            Err(error) => return self.sweep(writer).await.and(Err(error)),
        };
        let names = clones(&*self.pool, self.id, number).await?;
        if names.is_empty() {
            self.set_state(writer, number, SnapshotState::Removing).await?;
            self.sweep(writer).await?;
            if self.state.read().header.snapshot(name).is_err() {
                return Ok(());
            }
        }
        let names = clones(&*self.pool, self.id, number).await?;
        let message = "the snapshot has clones; remove or flatten them first";
        Err(Error::conflict(message).with("clones", names.join(", ")))
    }

    pub(super) async fn protect(&self, name: &str, protect: bool) -> Result<()> {
        let _admin = self.admin.lock().await;
        let writer = self.writer().await?;
        let number = self.state.read().header.snapshot(name)?.number;
        let state = if protect { SnapshotState::Protected } else { SnapshotState::Unprotected };
        self.set_state(writer, number, state).await
    }

    async fn set_state(&self, writer: &Writer, number: u32, state: SnapshotState) -> Result<()> {
        let mut header = self.state.read().header.clone();
        for listed in header.snapshots.iter_mut().filter(|listed| listed.number == number) {
            listed.state = state;
        }
        self.replace_header(writer, header).await
    }

    /// Removes the remains of removed snapshots. One from which several views continue stays in the
    /// header until a single view continues from it. Otherwise two views could share a data object
    /// although neither continues from the other.
    async fn sweep(&self, writer: &Writer) -> Result<()> {
        loop {
            let mut header = self.state.read().header.clone();
            let found = header
                .snapshots
                .iter()
                .find(|found| found.is_removing() && header.successors(found.number) < 2);
            let Some(snapshot) = found.cloned() else { return Ok(()) };
            // A program that clones the snapshot first adds its key and then looks at the header.
            if !clones(&*self.pool, self.id, snapshot.number).await?.is_empty() {
                self.set_state(writer, snapshot.number, SnapshotState::Unprotected).await?;
                continue;
            }
            self.remove_unshared(writer, &snapshot).await?;
            header.snapshots.retain(|listed| listed.number != snapshot.number);
            for listed in header.snapshots.iter_mut().filter(|listed| listed.base == snapshot.number) {
                listed.base = snapshot.base;
            }
            if header.base == snapshot.number {
                header.base = snapshot.base;
            }
            let objects = header.geometry.objects(snapshot.size_bytes) as usize;
            self.replace_header(writer, header).await?;
            map::remove(&*self.pool, self.id, snapshot.number, objects).await?;
        }
    }

    /// Stores a header that this program has derived from the current one. The caller holds the
    /// lock of administration or the gate.
    pub(super) async fn replace_header(&self, writer: &Writer, header: Header) -> Result<()> {
        writer.store_header(&header).await?;
        self.state.write().header = header;
        Ok(())
    }

    /// Removes the data objects that only this snapshot shows. Only the snapshot before it and the
    /// view after it can share them.
    async fn remove_unshared(&self, writer: &Writer, snapshot: &Snapshot) -> Result<()> {
        let header = self.state.read().header.clone();
        let load = |number: u32, size_bytes: u64| {
            map::load(&*self.pool, self.id, number, header.geometry.objects(size_bytes) as usize)
        };
        let entries = load(snapshot.number, snapshot.size_bytes).await?;
        let mut related = Vec::new();
        for other in &header.snapshots {
            if other.base == snapshot.number || other.number == snapshot.base {
                related.push(View::Snapshot(load(other.number, other.size_bytes).await?));
            }
        }
        if header.base == snapshot.number {
            related.push(View::Head);
        }
        let shown = entries.iter().enumerate();
        let shown: Vec<_> =
            shown.filter_map(|(object, entry)| Some((object as u32, entry.version()?))).collect();
        let removals = shown
            .into_iter()
            .map(|(object, version)| self.remove_if_unshared(writer, &related, object, version));
        run_all(removals, PIECES_IN_FLIGHT).await
    }

    async fn remove_if_unshared(
        &self,
        writer: &Writer,
        related: &[View],
        object: u32,
        version: u32,
    ) -> Result<()> {
        let _shared = self.gate.read().await;
        let _locked = self.object_lock(object).lock().await;
        let entry_in = |view: &View| match view {
            View::Head => self.entry(object),
            View::Snapshot(map) => map.get(object as usize).copied().unwrap_or(Entry::NONE),
        };
        if related.iter().any(|view| entry_in(view).version() == Some(version)) {
            return Ok(());
        }
        for view in related {
            let entry = entry_in(view);
            if let Some(copy) = entry.version().filter(|_| !entry.is_whole()) {
                let is_whole = self.copy_missing(writer, object, copy, version).await?;
                if is_whole && matches!(view, View::Head) {
                    self.set_entry(writer, object, Entry::whole(copy)).await?;
                }
            }
        }
        self.remember(object, version, None);
        objects::remove(&*self.pool, &self.id.data(object, version)?).await
    }

    /// Copies the blocks that a data object lacks, if they are in version `below`. The caller holds
    /// the object's lock.
    pub(super) async fn copy_missing(
        &self,
        writer: &Writer,
        object: u32,
        version: u32,
        below: u32,
    ) -> Result<bool> {
        let Some(blocks) = self.blocks(object, version).await?.filter(|blocks| blocks.below == below) else {
            return Ok(false);
        };
        let mut blocks = (*blocks).clone();
        let object_bytes = self.object_bytes();
        while !blocks.has_all(object_bytes) {
            // The guard keeps a writer that wakes up late from undoing newer writes.
            let mut op = writer.guarded_op().cmp_xattr(BLOCKS_XATTR, Compare::Eq, blocks.encode());
            let missing = blocks.split(0..object_bytes, object_bytes).into_iter().filter(|(_, has)| !has);
            for (missing, _) in missing.take(GAPS_PER_OPERATION) {
                if let Some(data) = self.read_entry(object, version_entry(below), missing.clone()).await? {
                    op = op.write(missing.start, data);
                }
                blocks.insert(missing, object_bytes);
            }
            let has_all = blocks.has_all(object_bytes);
            op = match has_all {
                true => op.remove_xattr(BLOCKS_XATTR),
                false => op.set_xattr(BLOCKS_XATTR, blocks.encode()),
            };
            self.pool.write(&self.id.data(object, version)?, op.buffered()).await.map_err(explain)?;
            self.remember(object, version, Some(blocks.clone()).filter(|_| !has_all));
        }
        Ok(true)
    }

    pub(super) async fn return_to(&self, name: &str) -> Result<()> {
        let _admin = self.admin.lock().await;
        let at_rest = self.gate.write().await;
        let writer = self.writer().await?;
        let (old, old_map) = {
            let state = self.state.read();
            (state.header.clone(), state.map.clone())
        };
        let snapshot = old.snapshot(name)?.clone();
        let objects = old.geometry.objects(snapshot.size_bytes) as usize;
        let entries = map::load(&*self.pool, self.id, snapshot.number, objects).await?;
        let mut header = old.clone();
        header.map = header.next_number()?;
        header.next_number()?;
        header.base = snapshot.number;
        header.size_bytes = snapshot.size_bytes;
        map::store(&*self.pool, self.id, header.map, &entries).await?;
        writer.store_header(&header).await?;
        *self.state.write() = ImageState { size_bytes: header.size_bytes, header, map: entries };
        // Data objects that only the head had are garbage now. An interruption here leaves them
        // until the image is removed.
        let own = old_map.iter().enumerate().filter_map(|(object, entry)| {
            entry.version().filter(|version| *version > old.base).map(|version| (object as u32, version))
        });
        for (object, version) in own {
            self.remember(object, version, None);
            objects::remove(&*self.pool, &self.id.data(object, version)?).await?;
        }
        map::remove(&*self.pool, self.id, old.map, old_map.len()).await?;
        drop(at_rest);
        self.sweep(writer).await
    }

    pub(super) async fn change_size(&self, size_bytes: u64) -> Result<()> {
        let _admin = self.admin.lock().await;
        let _at_rest = self.gate.write().await;
        let writer = self.writer().await?;
        let (mut header, old_objects) = {
            let state = self.state.read();
            (state.header.clone(), state.map.len())
        };
        header.geometry.check(size_bytes)?;
        if size_bytes < header.size_bytes {
            // An interruption here leaves zeros at the end of an image that has kept its size.
            self.punch_range(writer, size_bytes, header.size_bytes - size_bytes).await?;
        }
        let objects = header.geometry.objects(size_bytes) as usize;
        for page in map::pages(old_objects)..map::pages(objects) {
            writer.create_page(header.map, page).await?;
        }
        let new = if self.parent.is_some() { Entry::ZEROS } else { Entry::NONE };
        if self.parent.is_some() && objects > old_objects {
            // Nothing of the parent shows behind the old end.
            let mut at = old_objects;
            while at < objects {
                let end = ((at / map::PAGE_ENTRIES + 1) * map::PAGE_ENTRIES).min(objects);
                writer
                    .store_entries(&*self.pool, self.id, header.map, at as u32, &vec![new; end - at])
                    .await?;
                at = end;
            }
        }
        header.size_bytes = size_bytes;
        writer.store_header(&header).await?;
        let mut state = self.state.write();
        state.map.resize(objects, new);
        state.size_bytes = size_bytes;
        state.header = header;
        Ok(())
    }

    pub(super) async fn finish(&self) -> Result<()> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let _admin = self.admin.lock().await;
        let _at_rest = self.gate.write().await;
        let mut header = self.state.read().header.clone();
        header.is_open = false;
        writer.end(&header).await
    }
}

/// The names that the clones of a snapshot had when they were created. Removes the keys of clones
/// that no longer exist, because their creation or removal was interrupted.
async fn clones(pool: &dyn Pool, id: ImageId, snapshot: u32) -> Result<Vec<String>> {
    let prefix = format!("{CLONE_PREFIX}{snapshot:08x}/");
    let header = id.header()?;
    let (page, _) =
        pool.fetch(&header, Fetch::omap_range(None, prefix.clone(), limits::OMAP_PAGE_ENTRIES_MAX)).await?;
    let mut names = Vec::new();
    for (key, name) in page.entries {
        let id = std::str::from_utf8(&key)
            .ok()
            .and_then(|key| u64::from_str_radix(key.strip_prefix(&prefix)?, 16).ok());
        let clone = match id {
            Some(id) => pool.stat(&ImageId(id).header()?).await.map(|_| ()),
            None => Ok(()),
        };
        match clone {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                pool.write(&header, WriteOp::new().assert_exists().omap_remove([key])).await?;
            }
            clone => {
                clone?;
                names.push(String::from_utf8_lossy(&name).into_owned());
            }
        }
    }
    Ok(names)
}

/// True if any snapshot has a clone, also one that is being removed.
pub(super) async fn has_clones(pool: &dyn Pool, id: ImageId, header: &Header) -> Result<bool> {
    for snapshot in &header.snapshots {
        if !clones(pool, id, snapshot.number).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes the key that keeps a clone's parent from being removed.
pub(super) async fn forget_clone(pool: &dyn Pool, clone: ImageId, parent: &Parent) -> Result<()> {
    let op = WriteOp::new().assert_exists().omap_remove([clone_key(parent.snapshot, clone)]);
    match pool.write(&ImageId(parent.image).header()?, op).await {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The omap key of a clone in its parent's header.
pub(super) fn clone_key(snapshot: u32, clone: ImageId) -> String {
    format!("{CLONE_PREFIX}{snapshot:08x}/{clone}")
}
