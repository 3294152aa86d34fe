//! Groups of images. A snapshot of a group is a snapshot of the same name of each image.
//!
//! To take one, a program opens each image for writing, or asks the program that has it open to
//! [pause](super::pause) its writes. Once no image can be written to, it takes the snapshots, and
//! each image's pause ends with its snapshot. A write that begins after a snapshot cannot be in
//! another image's snapshot, because that image is still at rest.

use super::PoolImages;
use super::header::Header;
use super::image::{PoolImage, run_all};
use super::objects::{ImageId, names_object};
use super::requests::{self, Request};
use crate::contract::Change;
use crate::groups::ImageGroups;
use crate::names::{check_group_name, check_snapshot_name};
use async_trait::async_trait;
use benthic_core::codec::Wire;
use benthic_core::{Error, ErrorKind, OptionalExtension, Result, WriteOp, wire_struct};
use bytes::Bytes;
use futures::future::join_all;
use std::collections::HashMap;
use std::sync::Arc;

/// Prefix of the keys of groups. The rest is the group's name.
const GROUP_PREFIX: &str = "/group/";
/// Prefix of the keys of groups' snapshots: the rest is the names of the group and of the snapshot.
const SNAPSHOT_PREFIX: &str = "/group-snapshot/";
/// Limit of the images in a group.
const IMAGES_MAX: usize = 64;

/// The value under a group's key.
struct Group {
    images: Vec<u64>,
}

/// The value under the key of a group's snapshot.
struct GroupSnapshot {
    members: Vec<Member>,
}

/// An image's part in a group's snapshot.
struct Member {
    image: u64,
    snapshot: u32,
}

wire_struct! {
    Group { images }
    GroupSnapshot { members }
    Member { image, snapshot }
}

/// An image that cannot be written to.
enum Resting {
    /// This program has it open.
    Open(Arc<PoolImage>),
    /// Another program has paused its writes.
    Paused(ImageId),
}

impl PoolImages {
    async fn load_group(&self, group: &str) -> Result<(Group, Bytes)> {
        check_group_name(group)?;
        let value = self
            .entry(&group_key(group))
            .await?
            .ok_or_else(|| Error::not_found("no such group").with("group", self.address(group)))?;
        Ok((Group::from_stored(&value)?, value))
    }

    /// Replaces the value of a group that has not changed meanwhile.
    async fn store_group(&self, group: &str, old: Bytes, new: &Group) -> Result<()> {
        let key = group_key(group);
        let op = WriteOp::new().cmp_omap(key.clone(), old).omap_set([(key, new.encode())]);
        self.pool.write(&names_object()?, op).await.map(|_| ()).map_err(group_changed)
    }

    async fn load_group_snapshot(&self, group: &str, snapshot: &str) -> Result<(GroupSnapshot, Bytes)> {
        self.load_group(group).await?;
        check_snapshot_name(snapshot)?;
        let value = self
            .entry(&snapshot_key(group, snapshot))
            .await?
            .ok_or_else(|| Error::not_found("the group has no such snapshot").with("snapshot", snapshot))?;
        Ok((GroupSnapshot::from_stored(&value)?, value))
    }

    /// Fails for an image that belongs to a group.
    pub(super) async fn check_ungrouped(&self, id: ImageId) -> Result<()> {
        match self.group_of(id).await? {
            None => Ok(()),
            Some(group) => {
                let message = "the image belongs to a group; `benthic image group remove` takes it out";
                Err(Error::conflict(message).with("group", self.address(&group)))
            }
        }
    }

    async fn group_of(&self, id: ImageId) -> Result<Option<String>> {
        for (key, value) in self.entries(GROUP_PREFIX).await? {
            if Group::from_stored(&value)?.images.contains(&id.0) {
                return Ok(Some(key[GROUP_PREFIX.len()..].to_owned()));
            }
        }
        Ok(None)
    }

    /// The name of an image of a group, or another description.
    async fn address_of(&self, id: ImageId) -> Result<String> {
        let name = self.name_of(id).await?;
        Ok(self.address(&name.unwrap_or_else(|| format!("image {id}"))))
    }

    async fn bring_to_rest(&self, id: ImageId, pause: u64) -> Result<Resting> {
        let address = self.address_of(id).await?;
        let rested = async {
            match self.open_writable(id, address.clone(), false).await {
                Err(error) if error.kind() == ErrorKind::Busy => {
                    self.ask(id, Request::Pause { pause }).await?;
                    Ok(Resting::Paused(id))
                }
                opened => opened.map(Resting::Open),
            }
        };
        rested.await.map_err(|error: Error| error.with("image", address))
    }

    async fn ask(&self, id: ImageId, request: Request) -> Result<()> {
        requests::ask(&*self.pool, id, &request, &self.environment).await
    }

    /// Takes the snapshot of an image at rest. Returns the snapshot's number.
    async fn snapshot_resting(&self, image: &Resting, pause: u64, name: &str) -> Result<Member> {
        let (id, taken) = match image {
            Resting::Open(image) => (image.id, image.take_snapshot(name).await),
            Resting::Paused(id) => {
                (*id, self.ask(*id, Request::SnapshotPaused { pause, name: name.to_owned() }).await)
            }
        };
        let taken = async {
            taken?;
            Ok(Member { image: id.0, snapshot: Header::load(&*self.pool, id).await?.snapshot(name)?.number })
        };
        let taken: Result<Member> = taken.await;
        match taken {
            Ok(member) => Ok(member),
            Err(error) => Err(error.with("image", self.address_of(id).await?)),
        }
    }

    /// Takes the snapshots of images at rest, of all or of none, and stores the group's snapshot.
    async fn snapshot_all(&self, images: &[Resting], pause: u64, key: String, name: &str) -> Result<()> {
        let taken = images.iter().map(|image| self.snapshot_resting(image, pause, name));
        let taken = join_all(taken).await;
        let is_taken: Vec<bool> = taken.iter().map(Result::is_ok).collect();
        let stored = match taken.into_iter().collect() {
            Ok(members) => {
                let snapshot = GroupSnapshot { members };
                let op = WriteOp::new().cmp_omap(key.clone(), "").omap_set([(key, snapshot.encode())]);
                self.pool.write(&names_object()?, op).await.map(|_| ()).map_err(group_changed)
            }
            Err(error) => Err(error),
        };
        // With an unknown outcome, the group may have the snapshot.
        if stored.as_ref().is_err_and(|error| error.kind() != ErrorKind::OutcomeUnknown) {
            for (image, _) in images.iter().zip(is_taken).filter(|(_, is_taken)| *is_taken) {
                let undone = match image {
                    Resting::Open(image) => image.drop_snapshot(name).await,
                    Resting::Paused(id) => {
                        let change = Change::RemoveSnapshot { name: name.to_owned() };
                        self.ask(*id, Request::Change { change }).await
                    }
                };
                if let Err(error) = undone {
                    tracing::warn!("a snapshot of a failed group snapshot was not removed: {error}");
                }
            }
        }
        stored
    }

    /// Lets the images be written to again.
    async fn end_rest(&self, images: &[Resting], pause: u64) {
        let ended = images.iter().map(|image| async move {
            match image {
                Resting::Open(image) => image.finish().await,
                // Unless the image's snapshot has already ended the pause.
                Resting::Paused(id) => self.ask(*id, Request::EndPause { pause }).await,
            }
        });
        for error in join_all(ended).await.into_iter().filter_map(Result::err) {
            tracing::warn!("an image of a group was not released at once: {error}");
        }
    }

    async fn take_group_snapshot(&self, group: &str, name: &str) -> Result<()> {
        check_snapshot_name(name)?;
        let (Group { images }, _) = self.load_group(group).await?;
        let key = snapshot_key(group, name);
        if self.entry(&key).await?.is_some() {
            return Err(Error::already_exists("the group already has this snapshot"));
        }
        if images.is_empty() {
            let message = "the group has no images; `benthic image group add` adds one";
            return Err(Error::invalid_argument(message));
        }
        let pause = self.environment.random.random_u64()?;
        let brought = images.iter().map(|id| self.bring_to_rest(ImageId(*id), pause));
        let (mut resting, mut failure) = (Vec::new(), None);
        for image in join_all(brought).await {
            match image {
                Ok(image) => resting.push(image),
                Err(error) => failure = Some(error),
            }
        }
        let taken = match failure {
            Some(error) => Err(error),
            None => self.snapshot_all(&resting, pause, key, name).await,
        };
        if taken.is_ok() {
            // Their pauses have ended with their snapshots.
            resting.retain(|image| matches!(image, Resting::Open(_)));
        }
        self.end_rest(&resting, pause).await;
        taken
    }

    async fn remove_group_snapshot(&self, group: &str, name: &str) -> Result<()> {
        let (snapshot, value) = self.load_group_snapshot(group, name).await?;
        for member in snapshot.members {
            let id = ImageId(member.image);
            let Some(header) = Header::load(&*self.pool, id).await.optional()? else { continue };
            if header.snapshot(name).is_ok_and(|found| found.number == member.snapshot) {
                let address = self.address_of(id).await?;
                let change = Change::RemoveSnapshot { name: name.to_owned() };
                let removed = self.change_image(id, address.clone(), change).await;
                removed.map_err(|error| error.with("image", address))?;
            }
        }
        let key = snapshot_key(group, name);
        let op = WriteOp::new().cmp_omap(key.clone(), value).omap_remove([key]);
        self.pool.write(&names_object()?, op).await.map(|_| ()).map_err(group_changed)
    }

    async fn roll_group_back(&self, group: &str, name: &str) -> Result<()> {
        let (snapshot, _) = self.load_group_snapshot(group, name).await?;
        let opened = snapshot.members.iter().map(|member| async move {
            let (id, number) = (ImageId(member.image), member.snapshot);
            let address = self.address_of(id).await?;
            let opened = async {
                let header = Header::load(&*self.pool, id).await.optional()?;
                let has = header
                    .is_some_and(|header| header.snapshot(name).is_ok_and(|found| found.number == number));
                if !has {
                    return Err(Error::conflict("an image of the group no longer has the snapshot"));
                }
                self.open_writable(id, address.clone(), false).await
            };
            opened.await.map_err(|error| error.with("image", address))
        });
        let (opened, mut failed) = (join_all(opened).await, Ok(()));
        if opened.iter().all(Result::is_ok) {
            let rollbacks: Vec<_> = opened.iter().flatten().map(|image| image.return_to(name)).collect();
            failed = run_all(rollbacks.into_iter(), IMAGES_MAX).await;
        }
        for image in opened {
            match image {
                Ok(image) => failed = failed.and(image.finish().await),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed
    }

    /// Adds the address of a group, or of a group's snapshot, to an error.
    fn of_group(&self, group: &str, snapshot: Option<&str>) -> impl FnOnce(Error) -> Error {
        let (address, snapshot) = (self.address(group), snapshot.map(str::to_owned));
        move |error| {
            let error = error.with("group", address);
            if let Some(snapshot) = snapshot { error.with("snapshot", snapshot) } else { error }
        }
    }
}

#[async_trait]
impl ImageGroups for PoolImages {
    async fn create(&self, group: &str) -> Result<()> {
        check_group_name(group)?;
        let (object, key) = (names_object()?, group_key(group));
        self.pool.write(&object, WriteOp::new().create(false)).await?;
        let op =
            WriteOp::new().cmp_omap(key.clone(), "").omap_set([(key, Group { images: Vec::new() }.encode())]);
        self.pool.write(&object, op).await.map(|_| ()).map_err(|error| match error.kind() {
            ErrorKind::Conflict => {
                Error::already_exists("the group already exists").with("group", self.address(group))
            }
            _ => error,
        })
    }

    async fn list(&self) -> Result<Vec<String>> {
        let groups = self.entries(GROUP_PREFIX).await?;
        Ok(groups.into_iter().map(|(key, _)| key[GROUP_PREFIX.len()..].to_owned()).collect())
    }

    async fn remove(&self, group: &str) -> Result<()> {
        let (_, value) = self.load_group(group).await?;
        if !self.snapshots(group).await?.is_empty() {
            let message = "the group has snapshots; remove them first";
            return Err(Error::conflict(message).with("group", self.address(group)));
        }
        let key = group_key(group);
        let op = WriteOp::new().cmp_omap(key.clone(), value).omap_remove([key]);
        let removed = self.pool.write(&names_object()?, op).await;
        removed.map(|_| ()).map_err(group_changed).map_err(self.of_group(group, None))
    }

    async fn images(&self, group: &str) -> Result<Vec<String>> {
        let (Group { images }, _) = self.load_group(group).await?;
        let names = self.names().await?;
        let ids: HashMap<&[u8], &str> = names.iter().map(|(name, id)| (&id[..], &name[..])).collect();
        let mut found: Vec<String> =
            images.iter().filter_map(|id| ids.get(&id.encode()[..]).map(|name| (*name).to_owned())).collect();
        found.sort();
        Ok(found)
    }

    async fn add_image(&self, group: &str, image: &str) -> Result<()> {
        let (mut new, old) = self.load_group(group).await?;
        let id = self.find(image).await?;
        let added = async {
            match self.group_of(id).await? {
                Some(other) if other == group => return Ok(()),
                Some(other) => {
                    let message = "the image already belongs to another group";
                    return Err(Error::already_exists(message)
                        .with("image", self.address(image))
                        .with("other_group", self.address(&other)));
                }
                None => {}
            }
            if new.images.len() >= IMAGES_MAX {
                let message = "the group has too many images";
                return Err(Error::limit_exceeded(message).with("images_max", IMAGES_MAX));
            }
            new.images.push(id.0);
            self.store_group(group, old, &new).await
        };
        added.await.map_err(self.of_group(group, None))
    }

    async fn remove_image(&self, group: &str, image: &str) -> Result<()> {
        let (mut new, old) = self.load_group(group).await?;
        let id = self.find(image).await?;
        let before = new.images.len();
        new.images.retain(|member| *member != id.0);
        let removed =
            match new.images.len() < before {
                true => self.store_group(group, old, &new).await,
                false => Err(Error::not_found("the image does not belong to the group")
                    .with("image", self.address(image))),
            };
        removed.map_err(self.of_group(group, None))
    }

    async fn snapshots(&self, group: &str) -> Result<Vec<String>> {
        self.load_group(group).await?;
        let prefix = snapshot_key(group, "");
        let snapshots = self.entries(&prefix).await?;
        Ok(snapshots.into_iter().map(|(key, _)| key[prefix.len()..].to_owned()).collect())
    }

    async fn create_snapshot(&self, group: &str, snapshot: &str) -> Result<()> {
        self.take_group_snapshot(group, snapshot).await.map_err(self.of_group(group, Some(snapshot)))
    }

    async fn remove_snapshot(&self, group: &str, snapshot: &str) -> Result<()> {
        self.remove_group_snapshot(group, snapshot).await.map_err(self.of_group(group, Some(snapshot)))
    }

    async fn roll_back(&self, group: &str, snapshot: &str) -> Result<()> {
        self.roll_group_back(group, snapshot).await.map_err(self.of_group(group, Some(snapshot)))
    }
}

fn group_key(group: &str) -> String {
    format!("{GROUP_PREFIX}{group}")
}

fn snapshot_key(group: &str, snapshot: &str) -> String {
    format!("{SNAPSHOT_PREFIX}{group}/{snapshot}")
}

/// The error of a change of a group whose guard failed.
fn group_changed(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Conflict => Error::conflict("another program has changed the group; try again"),
        _ => error,
    }
}
