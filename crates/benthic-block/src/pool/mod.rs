//! Images in Benthic's own format, on any pool. docs/formats.md draws the format.
//!
//! An image is a header, maps and data objects. The header ([`header`]) is small and replaced as a
//! whole. A map ([`map`]) says for each object of the image which data object has its bytes. Data
//! objects are named by their number and a version, so that snapshots and the head can share them;
//! one that lacks blocks lists those that it has ([`blocks`]).
//!
//! A write goes through [`write`], a read through [`image`]. [`writer`] is the right to write, and
//! [`snapshots`] has the operations that need the image at rest. [`request_limits`] are beside the
//! header. [`check`] compares the maps with the stored objects. [`names`], the [`trash`] and the
//! [`groups`] are in one object for all images.

mod blocks;
mod check;
mod flatten;
mod groups;
mod header;
mod image;
mod map;
mod names;
mod objects;
mod owner;
mod pause;
mod request_limits;
mod requests;
mod snapshots;
mod trash;
mod write;
mod writer;
mod zero;

pub use writer::LEASE_MS;

use crate::contract::{Change, CreateOptions, Image, Images, OpenMode, TrashedImage};
use crate::groups::ImageGroups;
use crate::limits::Limits;
use crate::names::{check_image_name, check_snapshot_name};
use async_trait::async_trait;
use benthic_core::codec::Wire;
use benthic_core::{Environment, Error, ErrorKind, OptionalExtension, Pool, Result, Store, WriteOp};
use futures::future::BoxFuture;
use header::{GENERATION_XATTR, Header, Parent, Snapshot};
use image::{Parts, PoolImage};
use objects::ImageId;
use requests::Request;
use std::sync::Arc;
use std::time::Duration;
use writer::{Writer, generation_bytes};

/// Longest chain of clones.
const PARENTS_MAX: usize = 16;

/// The images of a pool.
pub struct PoolImages {
    store: Arc<dyn Store>,
    pool: Arc<dyn Pool>,
    environment: Environment,
}

impl PoolImages {
    pub fn new(store: Arc<dyn Store>, pool: Arc<dyn Pool>, environment: Environment) -> PoolImages {
        PoolImages { store, pool, environment }
    }

    fn address(&self, name: &str) -> String {
        format!("{}/{name}", self.pool.name())
    }

    async fn create_header(&self, id: ImageId, header: &Header) -> Result<()> {
        let objects = header.geometry.objects(header.size_bytes) as usize;
        for page in 0..map::pages(objects) {
            self.pool.write(&id.map_page(header.map, page)?, WriteOp::new().create(false).buffered()).await?;
        }
        let op = WriteOp::new()
            .create(true)
            .write_full(header.encode())
            .set_xattr(GENERATION_XATTR, generation_bytes(header.generation));
        self.pool.write(&id.header()?, op).await.map(|_| ())
    }

    fn open_parent<'a>(
        &'a self,
        parent: &'a Option<Parent>,
        depth: usize,
    ) -> BoxFuture<'a, Result<Option<Arc<PoolImage>>>> {
        Box::pin(async move {
            let Some(parent) = parent else { return Ok(None) };
            if depth >= PARENTS_MAX {
                return Err(Error::limit_exceeded("the chain of clones is too long"));
            }
            let id = ImageId(parent.image);
            let header = Header::load(&*self.pool, id).await?;
            let snapshot = header
                .snapshot_by_number(parent.snapshot)
                .cloned()
                .ok_or_else(|| Error::corrupt("the snapshot that the image was cloned from is missing"))?;
            let name = self.name_of(id).await?.unwrap_or_else(|| format!("image {id}"));
            let address = format!("{}@{}", self.address(&name), snapshot.name);
            let parent = self.open_parent(&header.parent, depth + 1).await?;
            let image = self.open_view(id, address, header, Some(snapshot), parent).await?;
            Ok(Some(Arc::new(image)))
        })
    }

    async fn open_view(
        &self,
        id: ImageId,
        address: String,
        header: Header,
        snapshot: Option<Snapshot>,
        parent: Option<Arc<PoolImage>>,
    ) -> Result<PoolImage> {
        let (number, size_bytes) = match &snapshot {
            None => (header.map, header.size_bytes),
            Some(snapshot) => (snapshot.number, snapshot.size_bytes),
        };
        let map = map::load(&*self.pool, id, number, header.geometry.objects(size_bytes) as usize).await?;
        Ok(PoolImage::new(Parts {
            store: Arc::clone(&self.store),
            pool: Arc::clone(&self.pool),
            environment: self.environment.clone(),
            id,
            address,
            snapshot,
            header,
            map,
            parent,
            writer: None,
        }))
    }

    async fn open_writable(&self, id: ImageId, address: String, take_over: bool) -> Result<Arc<PoolImage>> {
        let (writer, header, was_open) = Writer::start(&self.pool, id, take_over, &self.environment).await?;
        let opened = async {
            let map = if was_open {
                writer.fence(&*self.pool, id, &header).await?
            } else {
                map::load(&*self.pool, id, header.map, header.geometry.objects(header.size_bytes) as usize)
                    .await?
            };
            Ok((map, self.open_parent(&header.parent, 0).await?))
        };
        match opened.await {
            Ok((map, parent)) => {
                let parts = Parts {
                    store: Arc::clone(&self.store),
                    pool: Arc::clone(&self.pool),
                    environment: self.environment.clone(),
                    id,
                    address,
                    snapshot: None,
                    header,
                    map,
                    parent,
                    writer: Some(writer),
                };
                let image = Arc::new(PoolImage::new(parts));
                tokio::spawn(requests::serve(Arc::downgrade(&image)));
                Ok(image)
            }
            Err(error) => {
                // The image stays marked as open, so that the next writer fences it.
                writer.give_up().await;
                Err(error)
            }
        }
    }

    /// Changes an image, or asks the program that has it open.
    async fn change_image(&self, id: ImageId, address: String, change: Change) -> Result<()> {
        let open = || self.open_writable(id, address.clone(), false);
        let image = match open().await {
            Err(error) if error.kind() == ErrorKind::Busy => {
                let request = Request::Change { change: change.clone() };
                match requests::ask(&*self.pool, id, &request, &self.environment).await {
                    // The other program may have ended meanwhile.
                    Err(error) if error.kind() == ErrorKind::Busy => open().await?,
                    changed => return changed,
                }
            }
            opened => opened?,
        };
        let changed = image.apply(&change).await;
        changed.and(image.finish().await)
    }
}

#[async_trait]
impl Images for PoolImages {
    async fn create(&self, name: &str, options: CreateOptions) -> Result<()> {
        check_image_name(name)?;
        options.geometry.check(options.size_bytes)?;
        if let Some(data_pool) = &options.data_pool {
            let message =
                "images outside a Ceph cluster have all data in their own pool; leave the data pool out";
            return Err(Error::unsupported(message).with("data_pool", data_pool));
        }
        if self.find(name).await.optional()?.is_some() {
            return Err(self.already_exists(name));
        }
        let id = ImageId::draw(&self.environment)?;
        self.create_header(id, &new_header(&options, None)).await?;
        let entered = self.enter(name, id).await;
        // With an unknown outcome, the image may have its name.
        if entered.as_ref().is_err_and(|error| error.kind() != ErrorKind::OutcomeUnknown) {
            self.discard(id).await?;
        }
        entered
    }

    async fn list(&self) -> Result<Vec<String>> {
        Ok(self.names().await?.into_iter().map(|(name, _)| name).collect())
    }

    async fn open(&self, name: &str, snapshot: Option<&str>, mode: OpenMode) -> Result<Arc<dyn Image>> {
        let id = self.find(name).await?;
        let address = self.address(name);
        let opened = async {
            if mode != OpenMode::ReadOnly {
                if snapshot.is_some() {
                    let message = "a snapshot cannot be written to; open it read-only, or clone it";
                    return Err(Error::invalid_argument(message));
                }
                return self.open_writable(id, address.clone(), mode == OpenMode::TakeOver).await;
            }
            let header = Header::load(&*self.pool, id).await?;
            header.check_live()?;
            let (address, snapshot) = match snapshot {
                None => (address.clone(), None),
                Some(name) => {
                    check_snapshot_name(name)?;
                    let found = header.snapshot(name)?;
                    (format!("{address}@{name}"), Some(found.clone()))
                }
            };
            let parent = self.open_parent(&header.parent, 0).await?;
            self.open_view(id, address, header, snapshot, parent).await.map(Arc::new)
        };
        let opened: Result<Arc<PoolImage>> = opened.await;
        Ok(opened.map_err(|error| error.with("image", &address))?)
    }

    async fn writers(&self, name: &str) -> Result<Vec<String>> {
        let header = self.find(name).await?.header()?;
        let holders = writer::holders(&*self.pool, &header).await?;
        Ok(holders.into_iter().map(|holder| holder.owner).collect())
    }

    async fn change(&self, name: &str, change: Change) -> Result<()> {
        let id = self.find(name).await?;
        let changed = self.change_image(id, self.address(name), change).await;
        changed.map_err(|error| error.with("image", self.address(name)))
    }

    /// A snapshot has the ids of its clones, and a clone that of its parent. Ids are those of one
    /// pool.
    async fn clone_to_pool(&self, name: &str, snapshot: &str, pool: &str, clone: &str) -> Result<()> {
        if pool == self.pool.name() {
            return self.clone_snapshot(name, snapshot, clone).await;
        }
        let message =
            "a clone must be in the pool of its snapshot; export and import copy an image to another pool";
        Err(Error::unsupported(message).with("image", self.address(name)).with("pool", pool))
    }

    async fn clone_snapshot(&self, name: &str, snapshot: &str, clone: &str) -> Result<()> {
        check_image_name(clone)?;
        let id = self.find(name).await?;
        let header = Header::load(&*self.pool, id).await?;
        header.check_live()?;
        let found = header.snapshot(snapshot)?;
        let parent = Some(Parent { image: id.0, snapshot: found.number });
        // Also checks the length of the chain.
        self.open_parent(&parent, 0).await?;
        let new = ImageId::draw(&self.environment)?;
        let options = CreateOptions::new(found.size_bytes, header.geometry);
        let created = async {
            self.create_header(new, &new_header(&options, parent)).await?;
            let op = WriteOp::new()
                .assert_exists()
                .omap_set([(snapshots::clone_key(found.number, new), clone.to_owned())]);
            self.pool.write(&id.header()?, op).await?;
            // The program that removes the snapshot marks it and then looks for the key.
            let header = Header::load(&*self.pool, id).await?;
            if header.snapshot_by_number(found.number).is_none_or(Snapshot::is_removing) {
                return Err(Error::not_found("the snapshot is being removed").with("snapshot", snapshot));
            }
            self.enter(clone, new).await
        };
        let created: Result<()> = created.await;
        // With an unknown outcome, the clone may have its name.
        if created.as_ref().is_err_and(|error| error.kind() != ErrorKind::OutcomeUnknown) {
            self.discard(new).await?;
        }
        created
    }

    async fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.change_name(from, to).await
    }

    async fn remove(&self, name: &str) -> Result<()> {
        let id = self.find(name).await?;
        let removed = async {
            self.check_ungrouped(id).await?;
            self.remove_image(id, name, id.0.encode()).await
        };
        removed.await.map_err(|error: Error| error.with("image", self.address(name)))
    }

    async fn move_to_trash(&self, name: &str, keep: Duration) -> Result<()> {
        self.trash_image(name, keep).await.map_err(|error| error.with("image", self.address(name)))
    }

    async fn trash(&self) -> Result<Vec<TrashedImage>> {
        self.list_trash().await
    }

    async fn restore(&self, id: &str, name: &str) -> Result<()> {
        self.restore_image(id, name).await.map_err(|error| error.with("image_id", id))
    }

    async fn purge(&self, id: &str) -> Result<()> {
        self.purge_image(id).await.map_err(|error| error.with("image_id", id))
    }

    fn groups(&self) -> &dyn ImageGroups {
        self
    }

    async fn set_limits(&self, name: &str, limits: Limits) -> Result<()> {
        let id = self.find(name).await?;
        let stored = request_limits::store(&*self.pool, id, limits).await;
        stored.map_err(|error| error.with("image", self.address(name)))
    }
}

fn new_header(options: &CreateOptions, parent: Option<Parent>) -> Header {
    Header {
        size_bytes: options.size_bytes,
        geometry: options.geometry,
        generation: 0,
        is_open: false,
        is_removing: false,
        map: 1,
        version: 1,
        base: 0,
        snapshots: Vec::new(),
        parent,
    }
}
