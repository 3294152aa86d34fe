//! The private directory of an attached image: its socket, its FUSE mount, and a lock.
//!
//! The program holds the lock as long as it runs. A directory without a lock holder belongs to a
//! killed program, and the next one detaches the devices that it has left.

use super::device::is_claimed;
use super::fuse_loop::{devices_below, tear_down, unmount};
use super::kernel_nbd::{connected_by, disconnect};
use benthic_core::{Action, Error, Result};
use benthic_program::output::Output;
use benthic_program::store::blocking;
use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The parent of all private directories. Only root can write here, so no other user can put
/// anything into the way.
const PARENT: &str = "/run/benthic/attach";
const LOCK: &str = "lock";
const MOUNT: &str = "mount";
/// The file that names the NBD device, and the process that connected it.
const NBD: &str = "nbd";

/// A private directory, which only root can enter.
pub struct PrivateDir {
    directory: TempDir,
    _lock: File,
}

impl PrivateDir {
    /// Detaches the devices of killed programs, and creates a directory.
    pub async fn create(out: &Output) -> Result<PrivateDir> {
        let cannot = |error| {
            Error::io(Action::Admin, "cannot create a private directory", error).with("parent", PARENT)
        };
        DirBuilder::new().recursive(true).mode(0o700).create(PARENT).map_err(cannot)?;
        // So that no other program takes a directory without a lock for a leftover.
        let all = File::create(Path::new(PARENT).join(LOCK)).map_err(cannot)?;
        let all = blocking(move || all.lock().map(|()| all).map_err(cannot)).await?;
        for entry in fs::read_dir(PARENT).map_err(cannot)?.flatten() {
            remove_leftover(&entry.path(), out).await;
        }
        let directory = tempfile::Builder::new().tempdir_in(PARENT).map_err(cannot)?;
        fs::set_permissions(&directory, Permissions::from_mode(0o700)).map_err(cannot)?;
        let lock = File::create(directory.path().join(LOCK)).map_err(cannot)?;
        lock.lock().map_err(cannot)?;
        drop(all);
        Ok(PrivateDir { directory, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Where FUSE is mounted. The directory does not exist yet.
    pub fn mount_point(&self) -> PathBuf {
        self.path().join(MOUNT)
    }

    /// Notes an NBD device, so that it can be disconnected after this program was killed.
    pub fn note_nbd(&self, device: &Path) -> Result<()> {
        let note = format!("{}\n{}", device.display(), connected_by(device).unwrap_or_default());
        fs::write(self.path().join(NBD), note)
            .map_err(|error| Error::io(Action::Admin, "cannot write to the private directory", error))
    }
}

/// Detaches the devices of a killed program and removes its directory.
async fn remove_leftover(directory: &Path, out: &Output) {
    let Ok(lock) = File::open(directory.join(LOCK)) else { return };
    if lock.try_lock().is_err() {
        return;
    }
    let mut devices = devices_below(directory);
    for device in &devices {
        // It may be detached by now.
        let _ = tear_down(device).await;
    }
    let note = fs::read_to_string(directory.join(NBD)).unwrap_or_default();
    if let Some((device, pid)) = note.split_once('\n')
        && connected_by(Path::new(device)).is_some_and(|connected| connected == pid)
    {
        let _ = disconnect(Path::new(device)).await;
        devices.push(device.into());
    }
    for device in devices.iter().filter(|device| is_claimed(device)) {
        out.warning(format_args!(
            "a killed `benthic image attach` has left {}, which is in use and fails; unmount it",
            device.display()
        ));
    }
    unmount(&directory.join(MOUNT)).await;
    // Never into a mount: its file is the image.
    if fs::remove_dir(directory.join(MOUNT)).is_ok() || !directory.join(MOUNT).exists() {
        let _ = fs::remove_dir_all(directory);
    }
}
