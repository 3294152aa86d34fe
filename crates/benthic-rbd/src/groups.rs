//! Groups of RBD's images. librbd takes the snapshots of all images while it has their locks.

use crate::errors::{What, c_string, of};
use crate::ffi::RbdPool;
use crate::images::RbdImages;
use async_trait::async_trait;
use benthic_block::{ImageGroups, check_group_name, check_image_name, check_snapshot_name};
use benthic_core::error::errno;
use benthic_core::{Error, ErrorKind, Result};
use std::ffi::CString;
use std::sync::Arc;

impl RbdImages {
    /// Fails without such a group. To librbd, a missing group has no images and no snapshots.
    async fn check_group(&self, group: &str) -> Result<()> {
        check_group_name(group)?;
        if ImageGroups::list(self).await?.iter().any(|listed| listed == group) {
            return Ok(());
        }
        Err(of(errno::ENOENT, What::Group).with("group", group))
    }
}

#[async_trait]
impl ImageGroups for RbdImages {
    async fn create(&self, group: &str) -> Result<()> {
        let name = group_name(group)?;
        self.run_for("group", group, What::CreateGroup, move |pool| pool.create_group(&name)).await
    }

    async fn list(&self) -> Result<Vec<String>> {
        let mut groups = self.run_for("group", "", What::Read, |pool| pool.list_groups()).await?;
        groups.sort();
        Ok(groups)
    }

    async fn remove(&self, group: &str) -> Result<()> {
        // librbd would remove the snapshots too.
        if !self.snapshots(group).await?.is_empty() {
            let message = "the group has snapshots; remove them first";
            return Err(Error::new(ErrorKind::Conflict, message).with("group", group));
        }
        let name = group_name(group)?;
        self.run_for("group", group, What::Group, move |pool| pool.remove_group(&name)).await
    }

    async fn images(&self, group: &str) -> Result<Vec<String>> {
        self.check_group(group).await?;
        let name = group_name(group)?;
        let mut images =
            self.run_for("group", group, What::Group, move |pool| pool.list_group_images(&name)).await?;
        images.sort();
        Ok(images)
    }

    async fn add_image(&self, group: &str, image: &str) -> Result<()> {
        check_image_name(image)?;
        let (name, c_image) = (group_name(group)?, c_string(image)?);
        let added = self
            .run_for("image", image, What::GroupMember, move |pool| pool.add_to_group(&name, &c_image))
            .await;
        added.map_err(|error| error.with("group", group))
    }

    async fn remove_image(&self, group: &str, image: &str) -> Result<()> {
        check_image_name(image)?;
        if !self.images(group).await?.iter().any(|member| member == image) {
            return Err(of(errno::ENOENT, What::GroupMember).with("group", group).with("image", image));
        }
        let (name, c_image) = (group_name(group)?, c_string(image)?);
        let remove = move |pool: &Arc<RbdPool>| pool.remove_from_group(&name, &c_image);
        let removed = self.run_for("image", image, What::GroupMember, remove).await;
        removed.map_err(|error| error.with("group", group))
    }

    async fn snapshots(&self, group: &str) -> Result<Vec<String>> {
        self.check_group(group).await?;
        let name = group_name(group)?;
        let mut names =
            self.run_for("group", group, What::Group, move |pool| pool.list_group_snapshots(&name)).await?;
        names.sort();
        Ok(names)
    }

    async fn create_snapshot(&self, group: &str, snapshot: &str) -> Result<()> {
        check_snapshot_name(snapshot)?;
        if self.images(group).await?.is_empty() {
            let message = "the group has no images; `benthic image group add` adds one";
            return Err(Error::new(ErrorKind::InvalidArgument, message).with("group", group));
        }
        let (name, c_snapshot) = (group_name(group)?, c_string(snapshot)?);
        let create = move |pool: &Arc<RbdPool>| pool.create_group_snapshot(&name, &c_snapshot);
        let created = self.run_for("group", group, What::CreateGroupSnapshot, create).await;
        created.map_err(|error| error.with("snapshot", snapshot))
    }

    async fn remove_snapshot(&self, group: &str, snapshot: &str) -> Result<()> {
        let (name, c_snapshot) = (group_name(group)?, c_string(snapshot)?);
        let remove = move |pool: &Arc<RbdPool>| pool.remove_group_snapshot(&name, &c_snapshot);
        let removed = self.run_for("group", group, What::GroupSnapshot, remove).await;
        removed.map_err(|error| error.with("snapshot", snapshot))
    }

    async fn roll_back(&self, group: &str, snapshot: &str) -> Result<()> {
        let (name, c_snapshot) = (group_name(group)?, c_string(snapshot)?);
        let roll_back = move |pool: &Arc<RbdPool>| pool.roll_group_back(&name, &c_snapshot);
        let rolled = self.run_for("group", group, What::GroupSnapshot, roll_back).await;
        rolled.map_err(|error| error.with("snapshot", snapshot))
    }
}

fn group_name(group: &str) -> Result<CString> {
    check_group_name(group)?;
    c_string(group)
}
