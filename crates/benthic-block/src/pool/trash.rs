//! Removing images, at once or by way of the trash.

use super::objects::{self, ImageId, names_object};
use super::snapshots;
use super::writer::Writer;
use super::{Header, PoolImages};
use crate::contract::TrashedImage;
use crate::names::check_image_name;
use benthic_core::codec::Wire;
use benthic_core::{Error, ErrorKind, OptionalExtension, Result, WriteOp, wire_struct};
use bytes::Bytes;
use futures::stream::TryStreamExt;
use std::time::Duration;

/// Prefix of the keys of images in the trash. The rest is the image's id.
const PREFIX: &str = "/trash/";

/// The value under such a key.
struct Entry {
    name: String,
    trashed_unix_ms: u64,
    keep_until_unix_ms: u64,
}

wire_struct! {
    Entry { name, trashed_unix_ms, keep_until_unix_ms }
}

impl PoolImages {
    pub(super) async fn trash_image(&self, name: &str, keep: Duration) -> Result<()> {
        let id = self.find(name).await?;
        self.check_ungrouped(id).await?;
        let (writer, mut header, was_open) = Writer::start(&self.pool, id, false, &self.environment).await?;
        let trashed_unix_ms = self.environment.unix_ms();
        let keep_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let entry = Entry {
            name: name.to_owned(),
            trashed_unix_ms,
            keep_until_unix_ms: trashed_unix_ms.saturating_add(keep_ms),
        };
        let op = WriteOp::new()
            .cmp_omap(name.to_owned(), id.0.encode())
            .omap_remove([name.to_owned()])
            .omap_set([(key(id), entry.encode())]);
        let moved = self.pool.write(&names_object()?, op).await;
        // The next writer fences the old one, which this one did not do.
        header.is_open = was_open;
        let ended = writer.end(&header).await;
        moved.and(ended)
    }

    pub(super) async fn list_trash(&self) -> Result<Vec<TrashedImage>> {
        let mut images = Vec::new();
        for (key, value) in self.entries(PREFIX).await? {
            let Entry { name, trashed_unix_ms, keep_until_unix_ms } = Entry::from_stored(&value)?;
            let id = key[PREFIX.len()..].to_owned();
            images.push(TrashedImage { id, name, trashed_unix_ms, keep_until_unix_ms });
        }
        images.sort_by_key(|image| image.trashed_unix_ms);
        Ok(images)
    }

    pub(super) async fn restore_image(&self, id: &str, name: &str) -> Result<()> {
        check_image_name(name)?;
        let (id, value) = self.find_trashed(id).await?;
        let op = WriteOp::new()
            .cmp_omap(key(id), value)
            .cmp_omap(name.to_owned(), "")
            .omap_set([(name.to_owned(), id.0.encode())])
            .omap_remove([key(id)]);
        self.pool.write(&names_object()?, op).await.map(|_| ()).map_err(|error| match error.kind() {
            ErrorKind::Conflict => self.already_exists(name),
            _ => error,
        })
    }

    pub(super) async fn purge_image(&self, id: &str) -> Result<()> {
        let (id, value) = self.find_trashed(id).await?;
        self.remove_image(id, &key(id), value).await
    }

    async fn find_trashed(&self, id: &str) -> Result<(ImageId, Bytes)> {
        let missing = || Error::not_found("the trash has no image with this id");
        let id = ImageId(u64::from_str_radix(id, 16).map_err(|_| missing())?);
        Ok((id, self.entry(&key(id)).await?.ok_or_else(missing)?))
    }

    /// Removes an image, and then its entry among the names.
    pub(super) async fn remove_image(&self, id: ImageId, key: &str, value: Bytes) -> Result<()> {
        // An earlier removal was interrupted at the very end.
        let header = Header::load(&*self.pool, id).await.optional()?;
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
        let op = WriteOp::new().cmp_omap(key.to_owned(), value).omap_remove([key.to_owned()]);
        self.pool.write(&names_object()?, op).await.map(|_| ())
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
    pub(super) async fn discard(&self, id: ImageId) -> Result<()> {
        self.remove_objects(id).await?;
        match self.pool.remove(&id.header()?).await {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn key(id: ImageId) -> String {
    format!("{PREFIX}{id}")
}
