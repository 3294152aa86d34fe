//! Giving a staged volume to a workload, at a path of its own.

use super::filesystem::{bind, unmount};
use super::mount_at;
use crate::attachment::Attachment;
use crate::driver::{Call, require};
use crate::errors::{Failure, Outcome};
use crate::messages::{Empty, NodePublishVolumeRequest, NodeUnpublishVolumeRequest};
use crate::volume::{Access, Usage};
use benthic_core::{Action, Error};
use benthic_program::mounts::{Mount, mounts};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use tonic::Code;

impl Call {
    /// Mounts the staged file system, or the device itself, at the target path.
    pub async fn node_publish_volume(&self, request: NodePublishVolumeRequest) -> Outcome<Empty> {
        require(&request.volume_id, "volume_id")?;
        require(&request.target_path, "target_path")?;
        let usage = Usage::of(request.volume_capability.as_ref())?;
        require(&request.staging_target_path, "staging_target_path")?;
        self.volume(&request.volume_id)?;
        let _lock = self.lock(&request.volume_id)?;
        let refuse = |message: &str| {
            let message = format!("{message} volume_id={:?}", request.volume_id);
            Err(Failure::new(Code::FailedPrecondition, message))
        };
        let not_staged = "the volume is not staged on this node";
        let Some(device) = Attachment::of(&self.driver.config, &request.volume_id).device()? else {
            return refuse(not_staged);
        };
        let (target, staged) = (Path::new(&request.target_path), Path::new(&request.staging_target_path));
        let source = match usage.access {
            Access::Block if request.readonly && !usage.read_only => {
                return refuse("a block device is read-only only with the access mode ReadOnlyMany");
            }
            Access::Block => device.as_path(),
            Access::Mount { .. } if mount_at(staged)?.is_some_and(|mount| mount.source == device) => staged,
            Access::Mount { .. } => return refuse(not_staged),
        };
        if mount_at(target)?.is_some_and(|mount| shows(&mount, &device)) {
            return Ok(Empty {});
        }
        let is_elsewhere = |mount: &Mount| mount.point != staged && shows(mount, &device);
        if usage.single_path && mounts()?.iter().any(is_elsewhere) {
            return refuse("the volume is at another path, and its access mode allows only one");
        }
        let created = match usage.access {
            Access::Block => File::options().create(true).append(true).open(target).map(drop),
            Access::Mount { .. } => fs::create_dir_all(target),
        };
        created.map_err(|error| Error::io(Action::Admin, "cannot create the target path", error))?;
        bind(source, target, request.readonly).await?;
        Ok(Empty {})
    }

    /// Unmounts a volume from a target path, and removes the path.
    pub async fn node_unpublish_volume(&self, request: NodeUnpublishVolumeRequest) -> Outcome<Empty> {
        require(&request.volume_id, "volume_id")?;
        require(&request.target_path, "target_path")?;
        self.volume(&request.volume_id)?;
        let _lock = self.lock(&request.volume_id)?;
        let target = Path::new(&request.target_path);
        unmount(target).await?;
        // Remove only an empty directory: its files would not be the volume's.
        let removed = match fs::symlink_metadata(target) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir(target),
            Ok(_) => fs::remove_file(target),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(Action::Admin, "cannot remove the target path", error).into())
            }
            _ => Ok(Empty {}),
        }
    }
}

/// Whether a mount shows a device or its file system.
fn shows(mount: &Mount, device: &Path) -> bool {
    let is_node = mount.fs_type == "devtmpfs" && mount.root.file_name() == device.file_name();
    is_node || mount.source == device
}
