//! Attaching a volume, and mounting its file system.

use super::filesystem::{mount, unmount};
use super::mount_at;
use crate::attachment::Attachment;
use crate::driver::{Call, require};
use crate::errors::{Failure, Outcome};
use crate::messages::{Empty, NodeStageVolumeRequest, NodeUnstageVolumeRequest};
use crate::volume::{Access, Usage};
use std::fs;
use std::path::Path;
use tonic::Code;

impl Call {
    /// Attaches a volume and, if it is to be a file system, mounts it at the staging path.
    pub async fn node_stage_volume(&self, request: NodeStageVolumeRequest) -> Outcome<Empty> {
        require(&request.volume_id, "volume_id")?;
        require(&request.staging_target_path, "staging_target_path")?;
        let usage = Usage::of(request.volume_capability.as_ref())?;
        self.volume(&request.volume_id)?;
        let _lock = self.lock(&request.volume_id)?;
        let config = &self.driver.config;
        let device = Attachment::of(config, &request.volume_id).start(config, usage.read_only).await?;
        if is_read_only(&device) != usage.read_only {
            let message = format!(
                "the volume is staged with another access mode; unstage it first volume_id={:?}",
                request.volume_id
            );
            return Err(Failure::new(Code::AlreadyExists, message));
        }
        let Access::Mount { fs_type, flags } = &usage.access else { return Ok(Empty {}) };
        let point = Path::new(&request.staging_target_path);
        match mount_at(point)? {
            Some(mount) if mount.source == device => return Ok(Empty {}),
            // A device of a process that was killed.
            Some(_) => unmount(point).await?,
            None => {}
        }
        mount(&device, point, fs_type, flags, usage.read_only).await?;
        Ok(Empty {})
    }

    /// Unmounts and detaches a volume.
    pub async fn node_unstage_volume(&self, request: NodeUnstageVolumeRequest) -> Outcome<Empty> {
        require(&request.volume_id, "volume_id")?;
        require(&request.staging_target_path, "staging_target_path")?;
        self.volume(&request.volume_id)?;
        let _lock = self.lock(&request.volume_id)?;
        unmount(Path::new(&request.staging_target_path)).await?;
        Attachment::of(&self.driver.config, &request.volume_id).stop().await?;
        Ok(Empty {})
    }
}

fn is_read_only(device: &Path) -> bool {
    let file = Path::new("/sys/block").join(device.file_name().unwrap_or_default()).join("ro");
    fs::read_to_string(file).is_ok_and(|text| text.trim() == "1")
}
