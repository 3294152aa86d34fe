//! The requirements of an orchestrator for a volume: its use and its size.

use crate::errors::{Failure, Outcome};
use crate::messages::{CapacityRange, VolumeCapability, access_mode};
use tonic::Code;

const MIB: u64 = 1 << 20;
/// The size of a volume without a requirement.
const DEFAULT_BYTES: u64 = 1 << 30;

/// How a node uses a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub access: Access,
    /// The image is attached read-only. Only such a volume may be on several nodes.
    pub read_only: bool,
    /// Only one path of a node may have the volume.
    pub single_path: bool,
}

/// The form in which a workload uses a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// A block device.
    Block,
    /// A file system. An empty type stands for the present one, or the default.
    Mount { fs_type: String, flags: Vec<String> },
}

impl Usage {
    /// The use that a capability describes.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none, or none that the driver supports.
    pub fn of(capability: Option<&VolumeCapability>) -> Outcome<Usage> {
        let capability = capability.ok_or_else(|| Failure::invalid("the volume_capability is missing"))?;
        let access = match (&capability.block, &capability.mount) {
            (Some(_), None) => Access::Block,
            (None, Some(mount)) => {
                if !["", "ext4", "xfs"].contains(&mount.fs_type.as_str()) {
                    let message = format!("the file systems are ext4 and xfs fs_type={:?}", mount.fs_type);
                    return Err(Failure::invalid(message));
                }
                Access::Mount { fs_type: mount.fs_type.clone(), flags: mount.mount_flags.clone() }
            }
            _ => return Err(Failure::invalid("the volume_capability has no access type")),
        };
        let mode = capability.access_mode.as_ref().map_or(0, |mode| mode.mode);
        let read_only = match mode {
            access_mode::SINGLE_NODE_WRITER
            | access_mode::SINGLE_NODE_SINGLE_WRITER
            | access_mode::SINGLE_NODE_MULTI_WRITER => false,
            access_mode::SINGLE_NODE_READER_ONLY | access_mode::MULTI_NODE_READER_ONLY => true,
            _ => {
                let message = format!(
                    "only one node can write to a volume; several nodes can read it access_mode={mode}"
                );
                return Err(Failure::invalid(message));
            }
        };
        let single_path = mode == access_mode::SINGLE_NODE_SINGLE_WRITER;
        Ok(Usage { access, read_only, single_path })
    }

    /// Checks the capabilities that a volume must have.
    ///
    /// # Errors
    /// `InvalidArgument` if there are none, or one that the driver does not support.
    pub fn check_all(capabilities: &[VolumeCapability]) -> Outcome<()> {
        if capabilities.is_empty() {
            return Err(Failure::invalid("the volume_capabilities are missing"));
        }
        capabilities.iter().try_for_each(|capability| Usage::of(Some(capability)).map(drop))
    }
}

/// The limits of a volume's size.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    required_bytes: u64,
    /// `u64::MAX` if there is none.
    limit_bytes: u64,
}

impl Sizes {
    /// The limits of a request.
    ///
    /// # Errors
    /// `InvalidArgument` if no size is between them.
    pub fn of(range: Option<&CapacityRange>) -> Outcome<Sizes> {
        let range = range.cloned().unwrap_or_default();
        let (required, limit) = (u64::try_from(range.required_bytes), u64::try_from(range.limit_bytes));
        match (required, limit) {
            (Ok(required_bytes), Ok(0)) => Ok(Sizes { required_bytes, limit_bytes: u64::MAX }),
            (Ok(required_bytes), Ok(limit_bytes)) if required_bytes <= limit_bytes => {
                Ok(Sizes { required_bytes, limit_bytes })
            }
            _ => Err(Failure::invalid(format!(
                "no size is in the capacity_range required_bytes={} limit_bytes={}",
                range.required_bytes, range.limit_bytes
            ))),
        }
    }

    /// The size of a new volume, in whole MiB, which has at least `least_bytes`.
    ///
    /// # Errors
    /// `OutOfRange` if it is above the limit.
    pub fn choose(self, least_bytes: u64) -> Outcome<u64> {
        let wanted_bytes = match self.required_bytes.max(least_bytes) {
            0 => DEFAULT_BYTES.min(self.limit_bytes),
            wanted_bytes => wanted_bytes,
        };
        let size_bytes = wanted_bytes.checked_next_multiple_of(MIB).unwrap_or(u64::MAX);
        if size_bytes <= self.limit_bytes && size_bytes <= i64::MAX as u64 {
            return Ok(size_bytes);
        }
        let message =
            format!("the volume needs {size_bytes} bytes, in whole MiB limit_bytes={}", self.limit_bytes);
        Err(Failure::new(Code::OutOfRange, message))
    }

    /// Returns whether a volume of this size meets the request.
    pub fn contain(self, size_bytes: u64) -> bool {
        (self.required_bytes..=self.limit_bytes).contains(&size_bytes)
    }
}

#[cfg(test)]
#[path = "volume_tests.rs"]
mod tests;
