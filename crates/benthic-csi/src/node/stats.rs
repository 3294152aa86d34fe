//! The call for the size and the used space of a volume on this node.

use crate::driver::{Call, require};
use crate::errors::{Failure, Outcome};
use crate::messages::{NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, VolumeUsage};
use benthic_core::{Action, Error};
use benthic_program::store::blocking;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use tonic::Code;

const BYTES: i32 = 1;
const INODES: i32 = 2;

impl Call {
    /// The used and the free space of a file system, or the size of a device.
    pub async fn node_get_volume_stats(
        &self,
        request: NodeGetVolumeStatsRequest,
    ) -> Outcome<NodeGetVolumeStatsResponse> {
        require(&request.volume_id, "volume_id")?;
        require(&request.volume_path, "volume_path")?;
        self.volume(&request.volume_id)?;
        let path = PathBuf::from(&request.volume_path);
        let Ok(metadata) = fs::metadata(&path) else {
            let message = format!("the volume is not at this path volume_path={:?}", request.volume_path);
            return Err(Failure::new(Code::NotFound, message));
        };
        let cannot = |error| Error::io(Action::Read, "cannot read the space of the volume", error);
        if metadata.file_type().is_block_device() {
            let size =
                move || File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0))).map_err(cannot);
            let total = count(blocking(size).await?);
            let usage = vec![VolumeUsage { total, unit: BYTES, ..VolumeUsage::default() }];
            return Ok(NodeGetVolumeStatsResponse { usage });
        }
        let space =
            blocking(move || rustix::fs::statvfs(&path).map_err(|error| cannot(error.into()))).await?;
        let bytes = |blocks: u64| count(blocks.saturating_mul(space.f_frsize));
        let usage = vec![
            VolumeUsage {
                available: bytes(space.f_bavail),
                total: bytes(space.f_blocks),
                used: bytes(space.f_blocks.saturating_sub(space.f_bfree)),
                unit: BYTES,
            },
            VolumeUsage {
                available: count(space.f_favail),
                total: count(space.f_files),
                used: count(space.f_files.saturating_sub(space.f_ffree)),
                unit: INODES,
            },
        ];
        Ok(NodeGetVolumeStatsResponse { usage })
    }
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
