//! Groups of RBD's images. librbd takes the snapshots of all images while it has their locks.

use crate::errors::{What, c_string, of};
use crate::ffi::{ErrnoResult, GroupSnapshot, RbdPool};
use crate::images::RbdImages;
use async_trait::async_trait;
use benthic_block::{ImageGroups, check_group_name, check_image_name, check_snapshot_name};
use benthic_core::error::errno;
use benthic_core::{Error, Result};
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// A change of a group's image or snapshot, which are named last.
type Change = fn(&RbdPool, &CStr, &CStr) -> ErrnoResult<()>;

impl RbdImages {
    /// Fails without such a group. To librbd, a missing group has no images and no snapshots.
    async fn check_group(&self, group: &str) -> Result<()> {
        check_group_name(group)?;
        if ImageGroups::list(self).await?.iter().any(|listed| listed == group) {
            return Ok(());
        }
        Err(of(errno::ENOENT, What::Group).with("group", group))
    }

    async fn stored_snapshots(&self, group: &str) -> Result<Vec<GroupSnapshot>> {
        self.check_group(group).await?;
        let name = group_name(group)?;
        self.run_for("group", group, What::Group, move |pool| pool.list_group_snapshots(&name)).await
    }

    async fn change_member(&self, group: &str, image: &str, change: Change) -> Result<()> {
        check_image_name(image)?;
        let (name, c_image) = (group_name(group)?, c_string(image)?);
        let job = move |pool: &Arc<RbdPool>| change(pool, &name, &c_image);
        let changed = self.run_for("image", image, What::GroupMember, job).await;
        changed.map_err(|error| error.with("group", group))
    }

    async fn change_snapshot(&self, group: &str, snapshot: &str, what: What, change: Change) -> Result<()> {
        check_snapshot_name(snapshot)?;
        let (name, c_snapshot) = (group_name(group)?, c_string(snapshot)?);
        let job = move |pool: &Arc<RbdPool>| change(pool, &name, &c_snapshot);
        let changed = self.run_for("group", group, what, job).await;
        changed.map_err(|error| error.with("snapshot", snapshot))
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
            return Err(Error::conflict("the group has snapshots; remove them first").with("group", group));
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
        self.change_member(group, image, RbdPool::add_to_group).await
    }

    async fn remove_image(&self, group: &str, image: &str) -> Result<()> {
        check_image_name(image)?;
        // librbd succeeds for an image that is not there.
        if !self.images(group).await?.iter().any(|member| member == image) {
            return Err(of(errno::ENOENT, What::GroupMember).with("group", group).with("image", image));
        }
        self.change_member(group, image, RbdPool::remove_from_group).await
    }

    async fn snapshots(&self, group: &str) -> Result<Vec<String>> {
        let snapshots = self.stored_snapshots(group).await?;
        let mut names: Vec<_> = snapshots.into_iter().map(|snapshot| snapshot.name).collect();
        names.sort();
        Ok(names)
    }

    async fn create_snapshot(&self, group: &str, snapshot: &str) -> Result<()> {
        if self.images(group).await?.is_empty() {
            let message = "the group has no images; `benthic image group add` adds one";
            return Err(Error::invalid_argument(message).with("group", group));
        }
        self.change_snapshot(group, snapshot, What::CreateGroupSnapshot, RbdPool::create_group_snapshot).await
    }

    async fn remove_snapshot(&self, group: &str, snapshot: &str) -> Result<()> {
        self.change_snapshot(group, snapshot, What::GroupSnapshot, RbdPool::remove_group_snapshot).await
    }

    async fn roll_back(&self, group: &str, snapshot: &str) -> Result<()> {
        let stored = self.stored_snapshots(group).await?;
        // librbd would roll back only the images that have their snapshot.
        if stored.iter().any(|stored| stored.name == snapshot && !stored.is_complete) {
            let message = "the snapshot is not complete: it is still being taken, or the program that took it was \
                           killed; `benthic image group snap-rm` removes it";
            return Err(Error::conflict(message).with("group", group).with("snapshot", snapshot));
        }
        self.change_snapshot(group, snapshot, What::GroupSnapshot, RbdPool::roll_group_back).await
    }
}

fn group_name(group: &str) -> Result<CString> {
    check_group_name(group)?;
    c_string(group)
}
