//! File systems of devices, with the system's programs.

use crate::errors::{Failure, Outcome};
use benthic_program::external::{self, Program};
use std::ffi::OsStr;
use std::path::Path;
use tonic::Code;

const BLKID: Program = ("blkid", "util-linux");
const MOUNT: Program = ("mount", "mount");
const UMOUNT: Program = ("umount", "mount");
const DEFAULT: &str = "ext4";
/// The exit status of `blkid` for a device without anything that it knows.
const NOTHING_FOUND: i32 = 2;

/// The programs of a file system, which make it and let it grow.
struct Programs {
    make: Program,
    make_args: &'static [&'static str],
    grow: Program,
    /// Whether the program that lets it grow takes the mount instead of the device.
    grows_by_mount: bool,
    /// Mount options of every mount, and of one on a read-only device.
    options: &'static [&'static str],
    read_only: &'static str,
}

fn programs(fs_type: &str) -> Outcome<Programs> {
    match fs_type {
        "ext4" => Ok(Programs {
            make: ("mkfs.ext4", "e2fsprogs"),
            // Without questions, and without blocks that only root may use.
            make_args: &["-q", "-F", "-m", "0"],
            grow: ("resize2fs", "e2fsprogs"),
            grows_by_mount: false,
            options: &[],
            read_only: "noload",
        }),
        "xfs" => Ok(Programs {
            make: ("mkfs.xfs", "xfsprogs"),
            make_args: &["-q"],
            grow: ("xfs_growfs", "xfsprogs"),
            grows_by_mount: true,
            // A clone has the identifier of its source, which may be mounted too.
            options: &["nouuid"],
            read_only: "norecovery",
        }),
        _ => Err(Failure::new(
            Code::FailedPrecondition,
            format!(
                "the volume has something else than ext4 or xfs; use it as a block device found={fs_type}"
            ),
        )),
    }
}

/// Mounts the file system of a device, after it has made one on a blank device. A file system that
/// is smaller than its device grows.
pub(super) async fn mount(
    device: &Path,
    point: &Path,
    fs_type: &str,
    flags: &[String],
    read_only: bool,
) -> Outcome<()> {
    let found = probe(device).await?;
    let fs_type = match &found {
        Some(found) if fs_type.is_empty() || fs_type == found => found,
        Some(found) => {
            let message = format!("the volume has another file system fs_type={fs_type} found={found}");
            return Err(Failure::new(Code::FailedPrecondition, message));
        }
        None if read_only => {
            let message = "the volume has no file system yet; use it once with an access mode that writes";
            return Err(Failure::new(Code::FailedPrecondition, message));
        }
        None if fs_type.is_empty() => DEFAULT,
        None => fs_type,
    };
    let programs = programs(fs_type)?;
    if found.is_none() {
        let mut args: Vec<&OsStr> = programs.make_args.iter().map(OsStr::new).collect();
        args.push(device.as_ref());
        external::run(programs.make, &args).await?;
    }
    let mut options: Vec<&str> = flags.iter().map(String::as_str).collect();
    options.extend(programs.options);
    options.extend(if read_only { vec!["ro", programs.read_only] } else { Vec::new() });
    let options = if options.is_empty() { "defaults".to_owned() } else { options.join(",") };
    let args =
        ["-t".as_ref(), fs_type.as_ref(), "-o".as_ref(), options.as_ref(), device.as_ref(), point.as_ref()];
    external::run(MOUNT, &args).await?;
    if !read_only {
        let grown: &Path = if programs.grows_by_mount { point } else { device };
        if let Err(error) = external::run(programs.grow, &[grown.as_ref()]).await {
            unmount(point).await?;
            return Err(error.into());
        }
    }
    Ok(())
}

/// The content of a device: the type of a file system or of something else. `None` if the device is
/// blank.
async fn probe(device: &Path) -> Outcome<Option<String>> {
    let output =
        external::output(BLKID, &["-p".as_ref(), "-o".as_ref(), "export".as_ref(), device.as_ref()]).await?;
    if output.status.code() == Some(NOTHING_FOUND) {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
    let found = value("TYPE=").or_else(|| value("PTTYPE=").map(|kind| format!("partitions-{kind}")));
    match found {
        Some(found) if output.status.success() => Ok(Some(found)),
        // Never make a file system over something that is not understood.
        _ => {
            let message = format!(
                "cannot tell what is on the volume; look at it with blkid device={}",
                device.display()
            );
            Err(Failure::new(Code::FailedPrecondition, message))
        }
    }
}

/// Mounts a directory or a file at another path.
pub(super) async fn bind(source: &Path, target: &Path, read_only: bool) -> Outcome<()> {
    external::run(MOUNT, &["--bind".as_ref(), source.as_ref(), target.as_ref()]).await?;
    if read_only {
        let options = "remount,bind,ro";
        let remounted = external::run(MOUNT, &["-o".as_ref(), options.as_ref(), target.as_ref()]).await;
        if let Err(error) = remounted {
            unmount(target).await?;
            return Err(error.into());
        }
    }
    Ok(())
}

/// Unmounts everything at a path.
pub(super) async fn unmount(point: &Path) -> Outcome<()> {
    while super::mount_at(point)?.is_some() {
        external::run(UMOUNT, &[point.as_ref()]).await?;
    }
    Ok(())
}
