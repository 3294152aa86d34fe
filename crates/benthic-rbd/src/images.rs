//! The images of a pool on a Ceph cluster, through librbd.

use crate::errors::{What, busy, c_string, of};
use crate::ffi::{ErrnoResult, Features, RbdImage, RbdPool, Trashed, Watcher};
use crate::image::{OpenImage, SnapshotRecord, blocking, remove_snapshot};
use crate::limits;
use async_trait::async_trait;
use benthic_block::{
    Change, CreateOptions, Image, ImageGroups, Images, Limits, OpenMode, TrashedImage, check_image_name,
    check_snapshot_name,
};
use benthic_core::error::errno;
use benthic_core::{Error, ErrorKind, ObjectId, OptionalExtension, Result, Store};
use benthic_rados::RadosStore;
use std::sync::Arc;
use std::time::Duration;

/// How often, and how many times, [`Images::open`] looks whether another program still has the
/// image open: one that only takes a snapshot has it open for a moment.
const BUSY_POLL: Duration = Duration::from_millis(100);
const BUSY_POLLS: u32 = 10;

/// The images of a pool of a Ceph cluster, in RBD's format.
pub struct RbdImages {
    store: Arc<RadosStore>,
    pool: String,
    /// On the store's connection, for everything except images that are open for writing. Each of
    /// those has a connection of its own: a program that takes one over makes the cluster block the
    /// connection, and the other images must not be affected.
    shared: Arc<RbdPool>,
}

impl RbdImages {
    /// Opens a pool.
    ///
    /// # Errors
    /// `NotFound` for the pool; `Unsupported` without librbd; `Unavailable` if no monitor answers.
    pub async fn open(store: Arc<RadosStore>, pool: &str) -> Result<Arc<RbdImages>> {
        let context = store.pool_context(pool).await?;
        let shared = blocking(move || RbdPool::new(context)).await?;
        Ok(Arc::new(RbdImages { store, pool: pool.to_owned(), shared }))
    }

    /// Runs a blocking job for an image on the store's connection.
    async fn run<T: Send + 'static>(
        &self,
        what: What,
        name: &str,
        job: impl FnOnce(&Arc<RbdPool>) -> ErrnoResult<T> + Send + 'static,
    ) -> Result<T> {
        self.run_for("image", name, what, job).await
    }

    /// Runs a blocking job on the store's connection. Errors say for which image or group.
    pub(crate) async fn run_for<T: Send + 'static>(
        &self,
        noun: &'static str,
        name: &str,
        what: What,
        job: impl FnOnce(&Arc<RbdPool>) -> ErrnoResult<T> + Send + 'static,
    ) -> Result<T> {
        let pool = Arc::clone(&self.shared);
        blocking(move || job(&pool).map_err(|number| of(number, what)))
            .await
            .map_err(|error| error.with(noun, format_args!("{}/{name}", self.pool)))
    }

    /// Opens an image or a snapshot read-only, on the store's connection.
    async fn open_read_only(&self, name: &str, snapshot: Option<&str>) -> Result<RbdImage> {
        let (c_name, c_snapshot) = (c_string(name)?, snapshot.map(c_string).transpose()?);
        let what = if snapshot.is_some() { What::Snapshot } else { What::Open };
        self.run(what, name, move |pool| RbdImage::open(pool, &c_name, c_snapshot.as_deref(), true)).await
    }

    /// Opens an image read-only for a blocking job.
    async fn look<T: Send + 'static>(
        &self,
        name: &str,
        snapshot: Option<&str>,
        job: impl FnOnce(&RbdImage) -> ErrnoResult<T> + Send + 'static,
    ) -> Result<T> {
        let image = self.open_read_only(name, snapshot).await?;
        self.run(What::Read, name, move |_| job(&image)).await
    }

    /// Fails for an image that belongs to a group. librbd would take it out.
    async fn check_ungrouped(&self, name: &str) -> Result<()> {
        check_image_name(name)?;
        // The remains of an interrupted removal cannot be opened.
        let group = self.look(name, None, RbdImage::group).await.optional()?.flatten();
        let Some(group) = group else { return Ok(()) };
        let message = "the image belongs to a group; `benthic image group remove` takes it out";
        Err(Error::conflict(message).with("image", format_args!("{}/{name}", self.pool)).with("group", group))
    }

    /// Stores limits without the image's lock. librbd would take the lock for this, from the
    /// program that has the image open for writing, if that does not answer.
    async fn store_limits(&self, name: &str, new: Limits) -> Result<()> {
        let id = self.look(name, None, RbdImage::id).await?;
        let header = ObjectId::new(format!("rbd_header.{}", id.to_string_lossy()))?;
        let pool = self.store.open_pool(&self.pool).await?;
        match pool.exec(&header, limits::store(&new)).await {
            Err(error) if error.kind() == ErrorKind::NotFound && new == Limits::default() => Ok(()),
            stored => stored.map(|_| ()),
        }
    }

    /// Finds the record of the snapshot at which an image is open.
    async fn snapshot_record(
        &self,
        image: RbdImage,
        name: &str,
        snapshot: &str,
    ) -> Result<(RbdImage, Option<SnapshotRecord>)> {
        let look = move |_: &Arc<RbdPool>| Ok((image.id()?, image.snapshots()?, image));
        let (id, snapshots, image) = self.run(What::Read, name, look).await?;
        let found = snapshots.iter().find(|found| found.name == snapshot);
        let found = found.ok_or_else(|| of(errno::ENOENT, What::Snapshot).with("snapshot", snapshot))?;
        let header = ObjectId::new(format!("rbd_header.{}", id.to_string_lossy()))?;
        let pool = self.store.open_pool(&self.pool).await?;
        Ok((image, Some(SnapshotRecord { pool, header, id: found.id })))
    }

    /// Opens an image that no other program has open for writing, and takes its exclusive lock.
    async fn open_for_writing(&self, name: &str, take_over: bool) -> Result<RbdImage> {
        let mut polls = 0;
        // QEMU and `rbd` hand the lock to any client that asks for it, and go on writing. So
        // watchers show that the image is in use, not the lock.
        while !take_over && !self.look(name, None, RbdImage::watchers).await?.is_empty() {
            polls += 1;
            if polls > BUSY_POLLS {
                return Err(busy());
            }
            tokio::time::sleep(BUSY_POLL).await;
        }
        let context = self.store.separate_pool_context(&self.pool).await?;
        let c_name = c_string(name)?;
        blocking(move || {
            let pool = RbdPool::new(context)?;
            let open = || RbdImage::open(&pool, &c_name, None, false);
            let image = open().map_err(|number| of(number, What::Open))?;
            if image.features().map_err(|number| of(number, What::Open))? & Features::EXCLUSIVE_LOCK == 0 {
                return Err(of(errno::EINVAL, What::Lock));
            }
            let lock = || {
                if let Some(owner) = if take_over { image.lock_owner()? } else { None } {
                    image.break_lock(&owner)?;
                }
                image.acquire_lock()
            };
            lock().map_err(|number| of(number, What::Lock))?;
            Ok(image)
        })
        .await
    }
}

#[async_trait]
impl Images for RbdImages {
    async fn create(&self, name: &str, options: CreateOptions) -> Result<()> {
        check_image_name(name)?;
        let CreateOptions { size_bytes, geometry, data_pool } = options;
        geometry.check(size_bytes)?;
        if let Some(data_pool) = &data_pool {
            // librbd's error would not name the pool.
            self.store.open_pool(data_pool).await?;
        }
        let (c_name, data_pool) = (c_string(name)?, data_pool.as_deref().map(c_string).transpose()?);
        let create =
            move |pool: &Arc<RbdPool>| pool.create(&c_name, size_bytes, geometry, data_pool.as_deref());
        self.run(What::Create, name, create).await
    }

    async fn list(&self) -> Result<Vec<String>> {
        let mut names = self.run(What::Read, "", |pool| pool.list()).await?;
        names.sort();
        Ok(names)
    }

    async fn namespaces(&self) -> Result<Vec<String>> {
        self.run(What::Read, "", |pool| pool.list_namespaces()).await
    }

    async fn open(&self, name: &str, snapshot: Option<&str>, mode: OpenMode) -> Result<Arc<dyn Image>> {
        check_image_name(name)?;
        snapshot.map_or(Ok(()), check_snapshot_name)?;
        let suffix = snapshot.map_or(String::new(), |snapshot| format!("@{snapshot}"));
        let address = format!("{}/{name}{suffix}", self.pool);
        let image = match mode {
            OpenMode::ReadOnly => self.open_read_only(name, snapshot).await?,
            OpenMode::Write | OpenMode::TakeOver if snapshot.is_some() => {
                let message = "a snapshot is read-only; clone it to write";
                return Err(Error::invalid_argument(message).with("snapshot", address));
            }
            OpenMode::Write | OpenMode::TakeOver => self
                .open_for_writing(name, mode == OpenMode::TakeOver)
                .await
                .map_err(|error| error.with("image", &address))?,
        };
        let is_read_only = mode == OpenMode::ReadOnly;
        let (image, record) = match snapshot {
            Some(snapshot) => self.snapshot_record(image, name, snapshot).await?,
            None => (image, None),
        };
        let image = OpenImage::new(image, address, is_read_only, record).await?;
        if !is_read_only {
            // librbd lets each write wait for the OSDs until the first flush, for guests that never
            // flush. The contract demands a flush anyway.
            image.flush().await?;
        }
        Ok(image)
    }

    async fn writers(&self, name: &str) -> Result<Vec<String>> {
        let watchers = self.look(name, None, RbdImage::watchers).await?;
        let describe = |watcher: &Watcher| format!("client.{} at {}", watcher.client_id, watcher.address);
        Ok(watchers.iter().map(describe).collect())
    }

    /// librbd sends the change to the client that has the exclusive lock, if there is one.
    async fn change(&self, name: &str, change: Change) -> Result<()> {
        check_image_name(name)?;
        match &change {
            Change::CreateSnapshot { name: snapshot } => check_snapshot_name(snapshot)?,
            Change::Resize { size_bytes } => {
                let stat = self.look(name, None, RbdImage::stat).await?;
                stat.geometry.check(*size_bytes)?;
            }
            Change::RemoveSnapshot { .. } | Change::ProtectSnapshot { .. } | Change::Flatten {} => {}
        }
        let c_name = c_string(name)?;
        let open = move |pool: &Arc<RbdPool>| RbdImage::open(pool, &c_name, None, false);
        let image = self.run(What::Open, name, open).await?;
        match change {
            Change::CreateSnapshot { name: snapshot } => {
                let snapshot = c_string(&snapshot)?;
                self.run(What::CreateSnapshot, name, move |_| image.create_snapshot(&snapshot)).await
            }
            Change::RemoveSnapshot { name: snapshot } => {
                let snapshot = c_string(&snapshot)?;
                blocking(move || remove_snapshot(&image, &snapshot)).await
            }
            Change::ProtectSnapshot { name: snapshot, protect } => {
                let snapshot = c_string(&snapshot)?;
                self.run(What::Protect, name, move |_| image.protect_snapshot(&snapshot, protect)).await
            }
            Change::Resize { size_bytes } => {
                self.run(What::Resize, name, move |_| image.resize(size_bytes)).await
            }
            Change::Flatten {} => self.run(What::Flatten, name, move |_| image.flatten()).await,
        }
    }

    async fn clone_snapshot(&self, name: &str, snapshot: &str, clone: &str) -> Result<()> {
        self.clone_to_pool(name, snapshot, &self.pool, clone).await
    }

    async fn clone_to_pool(&self, name: &str, snapshot: &str, pool: &str, clone: &str) -> Result<()> {
        check_image_name(clone)?;
        let target = RbdImages::open(Arc::clone(&self.store), pool).await?;
        let into = Arc::clone(&target.shared);
        let look = |image: &RbdImage| Ok((image.stat()?.geometry, image.metadata(limits::KEY)?));
        let (geometry, limits) = self.look(name, Some(snapshot), look).await?;
        let (c_name, c_snapshot, c_clone) = (c_string(name)?, c_string(snapshot)?, c_string(clone)?);
        self.run(What::Clone, name, move |pool| {
            pool.clone_snapshot(&c_name, &c_snapshot, &into, &c_clone, geometry)
        })
        .await?;
        // librbd copies the metadata.
        match limits {
            Some(_) => target.store_limits(clone, Limits::default()).await,
            None => Ok(()),
        }
    }

    async fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_image_name(to)?;
        let (c_from, c_to) = (c_string(from)?, c_string(to)?);
        self.run(What::Rename, from, move |pool| pool.rename(&c_from, &c_to)).await
    }

    async fn remove(&self, name: &str) -> Result<()> {
        self.check_ungrouped(name).await?;
        let c_name = c_string(name)?;
        self.run(What::Remove, name, move |pool| pool.remove(&c_name)).await
    }

    async fn move_to_trash(&self, name: &str, keep: Duration) -> Result<()> {
        self.check_ungrouped(name).await?;
        let c_name = c_string(name)?;
        self.run(What::Trash, name, move |pool| pool.move_to_trash(&c_name, keep.as_secs())).await
    }

    async fn trash(&self) -> Result<Vec<TrashedImage>> {
        let mut images = self.run(What::Read, "", |pool| pool.list_trash()).await?;
        images.sort_by_key(|image| image.trashed_s);
        let unix_ms = |s: i64| s.max(0) as u64 * 1_000;
        let describe = |image: Trashed| TrashedImage {
            id: image.id,
            name: image.name,
            trashed_unix_ms: unix_ms(image.trashed_s),
            keep_until_unix_ms: unix_ms(image.keep_until_s),
        };
        Ok(images.into_iter().map(describe).collect())
    }

    async fn restore(&self, id: &str, name: &str) -> Result<()> {
        check_image_name(name)?;
        let (c_id, c_name) = (c_string(id)?, c_string(name)?);
        let restored = self.run(What::Trash, name, move |pool| pool.restore(&c_id, &c_name)).await;
        restored.map_err(|error| error.with("image_id", id))
    }

    async fn purge(&self, id: &str) -> Result<()> {
        let c_id = c_string(id)?;
        self.run_for("image_id", id, What::Trash, move |pool| pool.purge(&c_id)).await
    }

    fn groups(&self) -> &dyn ImageGroups {
        self
    }

    async fn set_limits(&self, name: &str, new: Limits) -> Result<()> {
        new.check()?;
        self.store_limits(name, new).await
    }
}
