//! The names of a pool's images, in the omap of one object: each image's id under its name. The
//! same object has the [`trash`](super::trash) and the [`groups`](super::groups), so that an image
//! moves between them in one operation. Their keys begin with `/`, which no name contains.

use super::PoolImages;
use super::objects::{ImageId, names_object};
use crate::names::check_image_name;
use benthic_core::codec::Wire;
use benthic_core::{Error, ErrorKind, Fetch, OptionalExtension, Result, WriteOp, limits};
use bytes::Bytes;

impl PoolImages {
    pub(super) async fn find(&self, name: &str) -> Result<ImageId> {
        check_image_name(name)?;
        let missing = || Error::not_found("no such image").with("image", self.address(name));
        let value = self.entry(name).await?.ok_or_else(missing)?;
        u64::from_stored(&value).map(ImageId)
    }

    /// The value under one key.
    pub(super) async fn entry(&self, key: &str) -> Result<Option<Bytes>> {
        let found = self.pool.fetch(&names_object()?, Fetch::omap_get([key.to_owned()])).await.optional()?;
        Ok(found.and_then(|(page, _)| page.entries.into_iter().next()).map(|(_, value)| value))
    }

    /// Gives a new image its name.
    pub(super) async fn enter(&self, name: &str, id: ImageId) -> Result<()> {
        let object = names_object()?;
        self.pool.write(&object, WriteOp::new().create(false)).await?;
        let op = WriteOp::new().cmp_omap(name.to_owned(), "").omap_set([(name.to_owned(), id.0.encode())]);
        self.pool.write(&object, op).await.map(|_| ()).map_err(|error| match error.kind() {
            ErrorKind::Conflict => self.already_exists(name),
            _ => error,
        })
    }

    /// The error for a new name that an image has.
    pub(super) fn already_exists(&self, name: &str) -> Error {
        Error::already_exists("the image already exists").with("image", self.address(name))
    }

    /// Renames an image.
    pub(super) async fn change_name(&self, from: &str, to: &str) -> Result<()> {
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
                Err(self.already_exists(to))
            }
            renamed => renamed.map(|_| ()),
        }
    }

    pub(super) async fn name_of(&self, id: ImageId) -> Result<Option<String>> {
        let encoded = id.0.encode();
        let names = self.names().await?;
        Ok(names.into_iter().find(|(_, value)| *value == encoded).map(|(name, _)| name))
    }

    /// All images, in the order of their names.
    pub(super) async fn names(&self) -> Result<Vec<(String, Bytes)>> {
        let mut names = self.entries("").await?;
        names.retain(|(key, _)| !key.starts_with('/'));
        Ok(names)
    }

    /// The entries of the object whose keys begin with a prefix.
    pub(super) async fn entries(&self, prefix: &str) -> Result<Vec<(String, Bytes)>> {
        let object = names_object()?;
        let mut entries = Vec::new();
        let mut after = None;
        loop {
            let request = Fetch::omap_range(after, prefix.to_owned(), limits::OMAP_PAGE_ENTRIES_MAX);
            let Some((page, _)) = self.pool.fetch(&object, request).await.optional()? else {
                return Ok(entries);
            };
            after = page.entries.last().map(|(key, _)| key.clone());
            for (key, value) in page.entries {
                let key = String::from_utf8(key.to_vec())
                    .map_err(|_| Error::corrupt("an image's name is not UTF-8"))?;
                entries.push((key, value));
            }
            if !page.more {
                return Ok(entries);
            }
        }
    }
}
