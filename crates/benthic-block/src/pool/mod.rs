//! Images in Benthic's own format, on any pool. docs/formats.md draws the format.
//!
//! An image is a header, maps and data objects. The header ([`header`]) is small and replaced as a
//! whole. A map ([`map`]) says for each object of the image which data object has its bytes. Data
//! objects are named by their number and a version, so that snapshots and the head can share them;
//! one that lacks blocks lists those that it has ([`blocks`]).
//!
//! A write goes through [`write`], a read through [`image`]. [`writer`] is the right to write, and
//! [`snapshots`] does what needs the image at rest. [`request_limits`] are beside the header. [`check`]
//! compares the maps with what is stored.

mod blocks;
mod check;
mod flatten;
mod header;
mod image;
mod map;
mod objects;
mod owner;
mod request_limits;
mod requests;
mod snapshots;
mod write;
mod writer;
mod zero;

pub use writer::LEASE_MS;

use crate::contract::{Change, CreateOptions, Image, Images, OpenMode};
use crate::limits::Limits;
use crate::names::{check_image_name, check_snapshot_name};
use async_trait::async_trait;
use benthic_core::codec::Wire;
use benthic_core::{Environment, Error, ErrorKind, Fetch, Pool, Result, Store, WriteOp, limits};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::TryStreamExt;
use header::{GENERATION_XATTR, Header, Parent, Snapshot};
use image::{Parts, PoolImage};
use objects::{ImageId, names_object};
use std::sync::Arc;
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

    async fn find(&self, name: &str) -> Result<ImageId> {
        check_image_name(name)?;
        let missing = || Error::new(ErrorKind::NotFound, "no such image").with("image", self.address(name));
        let found = self.pool.fetch(&names_object()?, Fetch::omap_get([name.to_owned()])).await;
        let (page, _) = match found {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(missing()),
            found => found?,
        };
        let value = page.entries.first().map(|(_, value)| value).ok_or_else(missing)?;
        u64::from_stored(value).map(ImageId)
    }

    /// Gives a new image its name.
    async fn enter(&self, name: &str, id: ImageId) -> Result<()> {
        let object = names_object()?;
        self.pool.write(&object, WriteOp::new().create(false)).await?;
        let op = WriteOp::new().cmp_omap(name.to_owned(), "").omap_set([(name.to_owned(), id.0.encode())]);
        self.pool.write(&object, op).await.map(|_| ()).map_err(|error| match error.kind() {
            ErrorKind::Conflict => Error::new(ErrorKind::AlreadyExists, "the image already exists")
                .with("image", self.address(name)),
            _ => error,
        })
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

    /// Removes all objects of an image except its header.
    async fn remove_objects(&self, id: ImageId) -> Result<()> {
        for prefix in [id.data_prefix(), id.maps_prefix()] {
            let mut pages = objects::list(&*self.pool, &prefix);
            while let Some(page) = pages.try_next().await? {
                for object in page {
                    objects::remove(&*self.pool, &object).await?;
                }
            }
        }
        Ok(())
    }

    /// Removes an image that has no name.
    async fn discard(&self, id: ImageId) -> Result<()> {
        self.remove_objects(id).await?;
        match self.pool.remove(&id.header()?).await {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn open_parent<'a>(
        &'a self,
        parent: &'a Option<Parent>,
        depth: usize,
    ) -> BoxFuture<'a, Result<Option<Arc<PoolImage>>>> {
        Box::pin(async move {
            let Some(parent) = parent else { return Ok(None) };
            if depth >= PARENTS_MAX {
                return Err(Error::new(ErrorKind::LimitExceeded, "the chain of clones is too long"));
            }
            let id = ImageId(parent.image);
            let header = Header::load(&*self.pool, id).await?;
            let snapshot = header.numbered(parent.snapshot).cloned().ok_or_else(|| {
                Error::new(ErrorKind::Corrupt, "the snapshot that the image was cloned from is missing")
            })?;
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

    async fn name_of(&self, id: ImageId) -> Result<Option<String>> {
        let encoded = id.0.encode();
        let names = self.names().await?;
        Ok(names.into_iter().find(|(_, value)| *value == encoded).map(|(name, _)| name))
    }

    async fn names(&self) -> Result<Vec<(String, Bytes)>> {
        let object = names_object()?;
        let mut names = Vec::new();
        let mut after = None;
        loop {
            let request = Fetch::omap_range(after, "", limits::OMAP_PAGE_ENTRIES_MAX);
            let page = match self.pool.fetch(&object, request).await {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(names),
                found => found?.0,
            };
            after = page.entries.last().map(|(key, _)| key.clone());
            for (key, value) in page.entries {
                let name = String::from_utf8(key.to_vec())
                    .map_err(|_| Error::new(ErrorKind::Corrupt, "an image's name is not UTF-8"))?;
                names.push((name, value));
            }
            if !page.more {
                return Ok(names);
            }
        }
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
}

#[async_trait]
impl Images for PoolImages {
    async fn create(&self, name: &str, options: CreateOptions) -> Result<()> {
        check_image_name(name)?;
        options.geometry.check(options.size_bytes)?;
        match self.find(name).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(_) => {
                let message = "the image already exists";
                return Err(Error::new(ErrorKind::AlreadyExists, message).with("image", self.address(name)));
            }
        }
        let id = ImageId::draw(&self.environment)?;
        self.create_header(id, &new_header(options, None)).await?;
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
                    return Err(Error::new(ErrorKind::InvalidArgument, message));
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

    async fn writer(&self, name: &str) -> Result<Option<String>> {
        let header = self.find(name).await?.header()?;
        Ok(writer::holders(&*self.pool, &header).await?.pop().map(|holder| holder.owner))
    }

    async fn change(&self, name: &str, change: Change) -> Result<()> {
        let id = self.find(name).await?;
        let open = || self.open_writable(id, self.address(name), false);
        let changed = async {
            let image = match open().await {
                Err(error) if error.kind() == ErrorKind::Busy => {
                    match requests::ask(&*self.pool, id, &change, &self.environment).await {
                        // The other program may have ended meanwhile.
                        Err(error) if error.kind() == ErrorKind::Busy => open().await?,
                        changed => return changed,
                    }
                }
                opened => opened?,
            };
            let changed = image.apply(&change).await;
            changed.and(image.finish().await)
        };
        changed.await.map_err(|error| error.with("image", self.address(name)))
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
        let options = CreateOptions { size_bytes: found.size_bytes, geometry: header.geometry };
        let created = async {
            self.create_header(new, &new_header(options, parent)).await?;
            let op = WriteOp::new()
                .assert_exists()
                .omap_set([(snapshots::clone_key(found.number, new), clone.to_owned())]);
            self.pool.write(&id.header()?, op).await?;
            // The program that removes the snapshot marks it and then looks for the key.
            let header = Header::load(&*self.pool, id).await?;
            if header.numbered(found.number).is_none_or(|found| found.is_removing) {
                let message = "the snapshot is being removed";
                return Err(Error::new(ErrorKind::NotFound, message).with("snapshot", snapshot));
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
        check_image_name(to)?;
        let id = self.find(from).await?;
        let op = WriteOp::new()
            .cmp_omap(from.to_owned(), id.0.encode())
            .cmp_omap(to.to_owned(), "")
            .omap_set([(to.to_owned(), id.0.encode())])
            .omap_remove([from.to_owned()]);
        match self.pool.write(&names_object()?, op).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.find(from).await?;
                Err(Error::new(ErrorKind::AlreadyExists, "the image already exists")
                    .with("image", self.address(to)))
            }
            renamed => renamed.map(|_| ()),
        }
    }

    async fn remove(&self, name: &str) -> Result<()> {
        let id = self.find(name).await?;
        let removed = async {
            let header = match Header::load(&*self.pool, id).await {
                // An earlier removal was interrupted at the very end.
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                header => Some(header?),
            };
            if let Some(header) = header {
                let header = match header.is_removing {
                    true => header,
                    false => Writer::start_removal(&self.pool, id, &self.environment).await?,
                };
                self.remove_objects(id).await?;
                if let Some(parent) = &header.parent {
                    snapshots::forget_clone(&*self.pool, id, parent).await?;
                }
                self.pool.remove(&id.header()?).await?;
            }
            let op = WriteOp::new().cmp_omap(name.to_owned(), id.0.encode()).omap_remove([name.to_owned()]);
            self.pool.write(&names_object()?, op).await.map(|_| ())
        };
        removed.await.map_err(|error: Error| error.with("image", self.address(name)))
    }

    async fn set_limits(&self, name: &str, limits: Limits) -> Result<()> {
        let id = self.find(name).await?;
        let stored = request_limits::store(&*self.pool, id, limits).await;
        stored.map_err(|error| error.with("image", self.address(name)))
    }
}

fn new_header(options: CreateOptions, parent: Option<Parent>) -> Header {
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
