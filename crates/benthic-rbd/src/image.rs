//! An image that librbd has open. librbd's functions block, so each runs on a thread for blocking
//! work.

use crate::errors::{What, c_string, of};
use crate::ffi::{DiffExtent, ErrnoResult, Features, RbdImage, Request, send};
use crate::limits;
use crate::lock_sharing;
use async_trait::async_trait;
use benthic_block::{
    Check, Extent, ExtentKind, Image, ImageInfo, Limits, SnapshotInfo, Zeroes, check_snapshot_name,
};
use benthic_core::{ClassCall, Durability, Error, ErrorKind, Fetch, ObjectId, Pool, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use std::ffi::CStr;
use std::sync::Arc;
use tokio::sync::{OwnedRwLockReadGuard, RwLock, watch};

/// OSDs divide objects into blocks of this size, and copy a block that a snapshot has too.
const BLOCK_BYTES: u64 = 4096;
/// Flags of an image: RBD_FLAG_OBJECT_MAP_INVALID and RBD_FLAG_FAST_DIFF_INVALID.
const MAP_INVALID: u64 = 1 | 2;
/// Above this size, zeros are punched only where there is data. librbd looks at each object of the
/// range, which takes half a minute for 2 TiB.
const PUNCH_DIRECTLY_BYTES: u64 = 256 << 20;
/// Limit on a range that librbd punches at a time.
const PUNCH_STEP_BYTES: u64 = 4 << 30;

/// Runs blocking work on a thread of its own.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(panic) => Err(Error::internal("a task panicked").with_source(panic)),
    }
}

/// Keeps an image open for a request.
type InUse = OwnedRwLockReadGuard<Option<RbdImage>, RbdImage>;

/// The record of a snapshot in the image's header.
pub struct SnapshotRecord {
    pub pool: Arc<dyn Pool>,
    pub header: ObjectId,
    pub id: u64,
}

impl SnapshotRecord {
    /// Fails if the snapshot was removed. After its removal, OSDs answer reads with later bytes,
    /// and librbd does not notice. So this follows each read.
    async fn check(&self) -> Result<()> {
        let get = ClassCall::new("rbd", "snapshot_get", self.id.to_le_bytes().to_vec());
        match self.pool.fetch(&self.header, Fetch::exec(get)).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Error::not_found("the snapshot was removed after it was opened; open another one"))
            }
            found => found.map(|_| ()),
        }
    }
}

/// An image that librbd has open.
pub struct OpenImage {
    /// `None` once the image is closed. A request holds the lock shared; closing waits for it.
    image: Arc<RwLock<Option<RbdImage>>>,
    info: Arc<Mutex<ImageInfo>>,
    /// The snapshot that is open; `None` for the head.
    snapshot: Option<SnapshotRecord>,
}

impl OpenImage {
    pub async fn new(
        mut image: RbdImage,
        address: String,
        is_read_only: bool,
        snapshot: Option<SnapshotRecord>,
    ) -> Result<Arc<OpenImage>> {
        let (updated, updates) = watch::channel(());
        let (told, phases) = lock_sharing::channel();
        let described = move || {
            // Another program may resize the image, or take a snapshot of its group. Snapshots do
            // not change.
            if !is_read_only {
                image.watch(Box::new(move || updated.send_replace(())))?;
                image.watch_quiesce(Box::new(move |phase| {
                    let _ = told.try_send(phase);
                }))?;
            }
            Ok((image.stat()?, image.features()?, image))
        };
        let (stat, features, image) =
            blocking(move || described().map_err(|number| of(number, What::Open))).await?;
        let names = Features::NAMES.iter().enumerate();
        let features = names.filter(|(bit, _)| features >> bit & 1 == 1).map(|(_, name)| (*name).to_owned());
        let info = ImageInfo {
            address,
            size_bytes: stat.size_bytes,
            geometry: stat.geometry,
            read_only: is_read_only,
            parent: stat.parent,
            copy_block_bytes: BLOCK_BYTES,
            features: features.collect(),
        };
        let (image, info) = (Arc::new(RwLock::new(Some(image))), Arc::new(Mutex::new(info)));
        let image = OpenImage { image, info, snapshot };
        tokio::spawn(refresh_after(updates, Arc::downgrade(&image.image), Arc::clone(&image.info)));
        tokio::spawn(lock_sharing::run(phases, Arc::downgrade(&image.image), image.address()));
        Ok(Arc::new(image))
    }

    async fn in_use(&self) -> Result<InUse> {
        in_use(&self.image).await
    }

    /// Runs a blocking job on the open image.
    async fn run<T: Send + 'static>(
        &self,
        what: What,
        job: impl FnOnce(&RbdImage) -> ErrnoResult<T> + Send + 'static,
    ) -> Result<T> {
        let image = self.in_use().await?;
        blocking(move || job(&image).map_err(|number| of(number, what)))
            .await
            .map_err(|error| error.with("image", self.address()))
    }

    async fn send(&self, what: What, request: Request) -> Result<Bytes> {
        let image = self.in_use().await?;
        let answer = send(image, request).await;
        answer.map(Bytes::from).map_err(|number| of(number, what).with("image", self.address()))
    }

    async fn change<T: Send + 'static>(
        &self,
        what: What,
        job: impl FnOnce(&RbdImage) -> ErrnoResult<T> + Send + 'static,
    ) -> Result<T> {
        self.check_writable()?;
        self.run(what, job).await
    }

    /// Updates the result of [`Image::info`] after a change of the size or of the parent.
    async fn refresh(&self) -> Result<()> {
        refresh(&self.image, &self.info).await
    }

    fn address(&self) -> String {
        self.info.lock().address.clone()
    }

    async fn check_snapshot(&self) -> Result<()> {
        let Some(snapshot) = &self.snapshot else { return Ok(()) };
        snapshot.check().await.map_err(|error| error.with("image", self.address()))
    }

    fn check_writable(&self) -> Result<()> {
        let info = self.info.lock();
        if !info.read_only {
            return Ok(());
        }
        Err(Error::permission_denied("the image is open read-only").with("image", &info.address))
    }

    fn check_range(&self, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let info = self.info.lock();
        if offset_bytes.checked_add(len_bytes).is_some_and(|end| end <= info.size_bytes) {
            return Ok(());
        }
        Err(Error::invalid_argument("the range is beyond the end of the image")
            .with("offset_bytes", offset_bytes)
            .with("len_bytes", len_bytes)
            .with("size_bytes", info.size_bytes)
            .with("image", &info.address))
    }

    async fn zero(&self, offset_bytes: u64, len_bytes: u64, zeroes: Zeroes) -> Result<()> {
        if len_bytes == 0 {
            return Ok(());
        }
        let request = Request::WriteZeroes { offset_bytes, len: len_bytes as usize, zeroes };
        self.send(What::Write, request).await.map(|_| ())
    }

    /// Punches the parts of a large range that have data.
    async fn punch(&self, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        // The object map lacks data that are only in librbd's cache.
        self.flush().await?;
        let mut at = offset_bytes;
        for extent in self.extents(offset_bytes, len_bytes, None).await? {
            let end = at + extent.len_bytes;
            while at < end {
                let len_bytes = PUNCH_STEP_BYTES.min(end - at);
                if extent.kind == ExtentKind::Data {
                    self.zero(at, len_bytes, Zeroes::Punch).await?;
                }
                at += len_bytes;
            }
        }
        Ok(())
    }

    async fn settle(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Durable => self.flush().await,
            Durability::Buffered => Ok(()),
        }
    }
}

pub(crate) async fn in_use(image: &Arc<RwLock<Option<RbdImage>>>) -> Result<InUse> {
    let guard = Arc::clone(image).read_owned().await;
    OwnedRwLockReadGuard::try_map(guard, Option::as_ref).map_err(|_| Error::conflict("the image is closed"))
}

async fn refresh(image: &Arc<RwLock<Option<RbdImage>>>, info: &Mutex<ImageInfo>) -> Result<()> {
    let image = in_use(image).await?;
    let stat = blocking(move || image.stat().map_err(|number| of(number, What::Read))).await?;
    let mut info = info.lock();
    info.size_bytes = stat.size_bytes;
    info.parent = stat.parent;
    Ok(())
}

/// Refreshes the info after each update, until the image is closed or dropped.
async fn refresh_after(
    mut updates: watch::Receiver<()>,
    image: std::sync::Weak<RwLock<Option<RbdImage>>>,
    info: Arc<Mutex<ImageInfo>>,
) {
    while updates.changed().await.is_ok() {
        let Some(image) = image.upgrade() else { return };
        // Without an answer, the image keeps its last known size; requests get their own errors.
        let _ = refresh(&image, &info).await;
    }
}

#[async_trait]
impl Image for OpenImage {
    fn info(&self) -> ImageInfo {
        self.info.lock().clone()
    }

    async fn read(&self, offset_bytes: u64, len_bytes: u64) -> Result<Bytes> {
        self.check_range(offset_bytes, len_bytes)?;
        let len = len_bytes as usize;
        if len == 0 {
            return self.in_use().await.map(|_| Bytes::new());
        }
        let read = self.send(What::Read, Request::Read { offset_bytes, len }).await;
        self.check_snapshot().await.and(read)
    }

    async fn write(&self, offset_bytes: u64, data: Bytes, durability: Durability) -> Result<()> {
        self.check_writable()?;
        self.check_range(offset_bytes, data.len() as u64)?;
        if !data.is_empty() {
            self.send(What::Write, Request::Write { offset_bytes, data }).await?;
        }
        self.settle(durability).await
    }

    async fn write_zeroes(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        zeroes: Zeroes,
        durability: Durability,
    ) -> Result<()> {
        self.check_writable()?;
        self.check_range(offset_bytes, len_bytes)?;
        match zeroes {
            Zeroes::Punch if len_bytes > PUNCH_DIRECTLY_BYTES => self.punch(offset_bytes, len_bytes).await?,
            _ => self.zero(offset_bytes, len_bytes, zeroes).await?,
        }
        self.settle(durability).await
    }

    async fn flush(&self) -> Result<()> {
        self.send(What::Write, Request::Flush).await.map(|_| ())
    }

    async fn extents(&self, offset_bytes: u64, len_bytes: u64, since: Option<&str>) -> Result<Vec<Extent>> {
        self.check_range(offset_bytes, len_bytes)?;
        let since = since.map(c_string).transpose()?;
        let list = move |image: &RbdImage| extents(image, offset_bytes, len_bytes, since.as_deref());
        let extents = self.run(What::Read, list).await;
        self.check_snapshot().await.and(extents)
    }

    async fn limits(&self) -> Result<Limits> {
        let stored = self.run(What::Read, |image| image.metadata(limits::KEY)).await?;
        limits::decode(&stored.unwrap_or_default()).map_err(|error| error.with("image", self.address()))
    }

    async fn check(&self, repair: bool) -> Result<Check> {
        self.check_writable()?;
        let ImageInfo { geometry, size_bytes, .. } = self.info();
        let mut check = Check { objects: geometry.objects(size_bytes), ..Check::default() };
        if self.run(What::Read, RbdImage::flags).await? & MAP_INVALID != 0 {
            check.repairable(
                None,
                "the object map is not valid, so that extents and changes are found slowly",
            );
            if repair {
                self.change(What::Write, RbdImage::rebuild_object_map).await?;
            }
        }
        Ok(check)
    }

    async fn resize(&self, size_bytes: u64) -> Result<()> {
        self.check_writable()?;
        self.info().geometry.check(size_bytes)?;
        self.change(What::Resize, move |image| image.resize(size_bytes)).await?;
        self.refresh().await
    }

    async fn snapshots(&self) -> Result<Vec<SnapshotInfo>> {
        let snapshots = self.run(What::Read, RbdImage::snapshots).await?;
        let describe = |snapshot: crate::ffi::Snapshot| SnapshotInfo {
            name: snapshot.name,
            size_bytes: snapshot.size_bytes,
            created_unix_ms: snapshot.created_unix_ms,
            is_protected: snapshot.is_protected,
        };
        Ok(snapshots.into_iter().map(describe).collect())
    }

    async fn create_snapshot(&self, name: &str) -> Result<()> {
        check_snapshot_name(name)?;
        let name = c_string(name)?;
        self.change(What::CreateSnapshot, move |image| image.create_snapshot_as_owner(&name)).await
    }

    async fn remove_snapshot(&self, name: &str) -> Result<()> {
        self.check_writable()?;
        let (image, name) = (self.in_use().await?, c_string(name)?);
        blocking(move || remove_snapshot(&image, &name))
            .await
            .map_err(|error| error.with("image", self.address()))
    }

    async fn protect_snapshot(&self, name: &str, protect: bool) -> Result<()> {
        let name = c_string(name)?;
        self.change(What::Protect, move |image| image.protect_snapshot(&name, protect)).await
    }

    async fn roll_back(&self, snapshot: &str) -> Result<()> {
        let name = c_string(snapshot)?;
        self.change(What::Snapshot, move |image| image.roll_back(&name)).await?;
        self.refresh().await
    }

    async fn flatten(&self) -> Result<()> {
        self.change(What::Flatten, RbdImage::flatten).await?;
        self.refresh().await
    }

    async fn close(&self) -> Result<()> {
        let mut image = self.image.write().await;
        match image.take() {
            None => Ok(()),
            Some(image) => blocking(move || image.close().map_err(|number| of(number, What::Write))).await,
        }
    }
}

/// Removes a snapshot that has no clones. librbd would hide one that has.
pub fn remove_snapshot(image: &RbdImage, name: &CStr) -> Result<()> {
    let failed = |number| of(number, What::Snapshot).with("snapshot", name.to_string_lossy());
    let clones = image.count_clones(name).map_err(failed)?;
    if clones > 0 {
        let message = "the snapshot has clones, which show it; flatten or remove them first";
        return Err(Error::conflict(message).with("clones", clones));
    }
    image.remove_snapshot(name).map_err(failed)
}

/// The extents of a range. The changes since a snapshot are found in two steps: the object map
/// tells which objects changed, and the OSDs are asked only about those.
fn extents(
    image: &RbdImage,
    offset_bytes: u64,
    len_bytes: u64,
    since: Option<&CStr>,
) -> ErrnoResult<Vec<Extent>> {
    let end = offset_bytes + len_bytes;
    if len_bytes == 0 {
        return Ok(Vec::new());
    }
    let mut found = clip(image.diff(since, offset_bytes, len_bytes, true)?, offset_bytes, end);
    if since.is_some() {
        let mut precise = Vec::new();
        for range in merge(found) {
            let changed = image.diff(since, range.offset_bytes, range.len_bytes, false)?;
            precise.extend(clip(changed, range.offset_bytes, range.offset_bytes + range.len_bytes));
        }
        found = precise;
    }
    let rest = if since.is_some() { ExtentKind::Unchanged } else { ExtentKind::Hole };
    let mut extents: Vec<Extent> = Vec::new();
    let mut push = |len_bytes, kind| match extents.last_mut() {
        _ if len_bytes == 0 => {}
        Some(last) if last.kind == kind => last.len_bytes += len_bytes,
        _ => extents.push(Extent { len_bytes, kind }),
    };
    let mut at = offset_bytes;
    for extent in found {
        push(extent.offset_bytes - at, rest);
        push(extent.len_bytes, if extent.is_data { ExtentKind::Data } else { ExtentKind::Hole });
        at = extent.offset_bytes + extent.len_bytes;
    }
    push(end - at, rest);
    Ok(extents)
}

/// The parts within a range, in order. A part that an earlier one covers is left out.
fn clip(mut found: Vec<DiffExtent>, start: u64, end: u64) -> Vec<DiffExtent> {
    found.sort_by_key(|extent| extent.offset_bytes);
    let mut at = start;
    found.retain_mut(|extent| {
        let extent_end = (extent.offset_bytes + extent.len_bytes).min(end);
        extent.offset_bytes = extent.offset_bytes.max(at);
        extent.len_bytes = extent_end.saturating_sub(extent.offset_bytes);
        at = at.max(extent_end);
        extent.len_bytes > 0
    });
    found
}

/// Joins adjacent ranges.
fn merge(found: Vec<DiffExtent>) -> Vec<DiffExtent> {
    let mut merged: Vec<DiffExtent> = Vec::new();
    for extent in found {
        match merged.last_mut() {
            Some(last) if last.offset_bytes + last.len_bytes == extent.offset_bytes => {
                last.len_bytes += extent.len_bytes;
            }
            _ => merged.push(extent),
        }
    }
    merged
}
