//! A block device of the kernel whose bytes are those of an NBD export.

use super::fuse_loop::{self, FuseLoop};
use super::kernel_nbd::{self, KernelNbd};
use super::private_dir::PrivateDir;
use benthic_core::{Error, Result};
use benthic_program::{external, mounts};
use rustix::fs::OFlags;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::sleep;

/// Pause between two looks at the state of a device.
pub const POLL: Duration = Duration::from_millis(50);

/// Time for programs that only look at a device, such as udev's, to close it.
pub const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// How this machine gets a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    KernelNbd,
    FuseLoop,
}

impl Way {
    /// The better way of those that this machine has.
    pub fn find() -> Result<Way> {
        if !rustix::process::geteuid().is_root() {
            let message = "only root can attach a device; `benthic image serve` works for every user";
            return Err(Error::permission_denied(message));
        }
        let of_nbd = kernel_nbd::lacks();
        let of_loop = fuse_loop::lacks();
        match (&of_nbd[..], &of_loop[..]) {
            ([], _) => Ok(Way::KernelNbd),
            (_, []) => Ok(Way::FuseLoop),
            _ => {
                let message = format!(
                    "this machine cannot attach images: the kernel's NBD client lacks {}, and FUSE with loop devices lacks {}; \
                     install what one of them lacks, or use `benthic image serve`",
                    of_nbd.join(" and "),
                    of_loop.join(" and ")
                );
                Err(Error::unsupported(message))
            }
        }
    }
}

/// Names a missing program and the package to install; `None` if the program is installed.
pub fn lacks_program(program: external::Program) -> Option<String> {
    (!external::is_installed(program))
        .then(|| format!("the program {} (`apt-get install {}`)", program.0, program.1))
}

/// An attached device.
pub enum Device {
    KernelNbd(KernelNbd),
    FuseLoop(FuseLoop),
}

impl Device {
    /// Attaches a device, which clients find at once.
    pub async fn attach(
        way: Way,
        name: &str,
        uri: &str,
        read_only: bool,
        directory: &PrivateDir,
    ) -> Result<Device> {
        let attached = match way {
            Way::KernelNbd => KernelNbd::attach(name, read_only, directory).await.map(Device::KernelNbd),
            Way::FuseLoop => FuseLoop::attach(uri, read_only, directory).await.map(Device::FuseLoop),
        };
        attached.map_err(|error| error.with("image", name))
    }

    pub fn path(&self) -> &Path {
        match self {
            Device::KernelNbd(device) => device.path(),
            Device::FuseLoop(device) => device.path(),
        }
    }

    /// Detaches the device, unless it is in use.
    ///
    /// # Errors
    /// `Busy` if it is in use.
    pub async fn detach(&mut self) -> Result<()> {
        check_unused(self.path()).await?;
        match self {
            Device::KernelNbd(device) => device.detach().await,
            Device::FuseLoop(device) => device.detach().await,
        }
    }

    /// Waits until the device has ended without a call of [`Device::detach`]: somebody has detached
    /// it, or it has failed.
    pub async fn wait_for_end(&mut self) -> Result<()> {
        match self {
            Device::KernelNbd(device) => device.wait_for_end().await,
            Device::FuseLoop(device) => device.wait_for_end().await,
        }
    }
}

/// Fails if the device is mounted, also in another mount namespace, or part of another device, or
/// if a program has it open. Waits a moment for programs such as udev's, which look at every
/// device.
async fn check_unused(device: &Path) -> Result<()> {
    let message = "the device is in use, so it stays attached; unmount it, then stop this program again";
    let error = Error::busy(message).with("device", device.display());
    if is_claimed(device) {
        let mounts = mounts::mounts()?;
        return Err(match mounts.into_iter().find(|mount| mount.source == device) {
            Some(mount) => error.with("mounted_at", mount.point.display()),
            None => error,
        });
    }
    if wait_until(CLOSE_LIMIT, || opened_by(device).is_none()).await {
        return Ok(());
    }
    Err(error.with("process", opened_by(device).unwrap_or_default()))
}

/// Returns whether the kernel itself uses a device: it is mounted, or part of another device.
pub fn is_claimed(device: &Path) -> bool {
    let exclusive = i32::try_from(OFlags::EXCL.bits()).unwrap_or_default();
    let opened = OpenOptions::new().read(true).custom_flags(exclusive).open(device);
    opened.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
}

/// The number of a process that has the device open. It looks only at files in `/dev`, because a
/// file elsewhere may be on a file system that does not answer.
fn opened_by(device: &Path) -> Option<String> {
    let number = fs::metadata(device).ok()?.rdev();
    let is_device = |file: &Path| {
        fs::read_link(file).is_ok_and(|target| target.starts_with("/dev"))
            && fs::metadata(file)
                .is_ok_and(|file| file.file_type().is_block_device() && file.rdev() == number)
    };
    let list = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    list(Path::new("/proc"))
        .find(|process| list(&process.path().join("fd")).any(|file| is_device(&file.path())))
        .map(|process| process.file_name().to_string_lossy().into_owned())
}

/// Waits until a condition holds, at most `limit`. Returns whether it holds.
pub async fn wait_until(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let mut waited = Duration::ZERO;
    while !holds() {
        if waited >= limit {
            return false;
        }
        sleep(POLL).await;
        waited += POLL;
    }
    true
}

/// The kernel's directory of a block device.
pub fn sys_block(device: &Path) -> PathBuf {
    Path::new("/sys/block").join(device.file_name().unwrap_or_default())
}
