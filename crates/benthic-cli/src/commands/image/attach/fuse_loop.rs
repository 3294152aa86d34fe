//! A file of FUSE that shows the export, and a loop device on it.
//!
//! The program `nbdfuse` makes the file. A flush of the device syncs the file, which flushes the
//! export; a discard punches a hole into the file, which trims the export. Direct I/O keeps the
//! bytes out of the file's page cache, where they would be a second time.

use super::device::{CLOSE_LIMIT, POLL, lacks_program, sys_block, wait_until};
use super::private_dir::PrivateDir;
use benthic_core::{Action, Error, Result};
use benthic_program::external::{self, Program};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::time::sleep;

const NBDFUSE: Program = ("nbdfuse", "libnbd-bin");
const LOSETUP: Program = ("losetup", "mount");
const UMOUNT: Program = ("umount", "mount");
/// Time for `nbdfuse` to connect or to end.
const LIMIT: Duration = Duration::from_secs(10);

/// The requirements of this way that the machine lacks.
pub fn lacks() -> Vec<String> {
    let file = |path: &str, what: &str| (!Path::new(path).exists()).then(|| what.to_owned());
    let kernel = [
        file("/dev/fuse", "/dev/fuse (`modprobe fuse`)"),
        file("/dev/loop-control", "/dev/loop-control (`modprobe loop`)"),
    ];
    kernel.into_iter().flatten().chain([NBDFUSE, LOSETUP].into_iter().filter_map(lacks_program)).collect()
}

/// A device such as /dev/loop0, and the `nbdfuse` below it.
pub struct FuseLoop {
    device: PathBuf,
    file: FuseFile,
}

struct FuseFile {
    mount: PathBuf,
    nbdfuse: Child,
}

impl FuseLoop {
    pub async fn attach(uri: &str, read_only: bool, directory: &PrivateDir) -> Result<FuseLoop> {
        let mut file = FuseFile::mount(uri, read_only, directory).await?;
        match set_up(&file.path(), read_only).await {
            Ok(device) => Ok(FuseLoop { device, file }),
            Err(error) => {
                file.unmount().await?;
                Err(error)
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.device
    }

    pub async fn detach(&mut self) -> Result<()> {
        let file = self.file.path();
        if is_on(&self.device, &file) {
            tear_down(&self.device).await?;
        }
        // If a program has the device open, the kernel detaches it when the program closes it.
        if !wait_until(CLOSE_LIMIT, || !is_on(&self.device, &file)).await {
            let message = "a program has the device open; the device is detached when the program closes it";
            return Err(Error::busy(message).with("device", self.device.display()));
        }
        self.file.unmount().await
    }

    /// Waits until the loop device is detached, or `nbdfuse` has ended.
    pub async fn wait_for_end(&mut self) -> Result<()> {
        let file = self.file.path();
        while is_on(&self.device, &file) {
            if self.file.has_ended() {
                tear_down(&self.device).await?;
                self.file.unmount().await?;
                let message = "nbdfuse has ended, so all requests of the device fail; attach the image again";
                return Err(Error::unavailable(message).with("device", self.device.display()));
            }
            sleep(POLL * 10).await;
        }
        self.file.unmount().await
    }
}

impl FuseFile {
    async fn mount(uri: &str, read_only: bool, directory: &PrivateDir) -> Result<FuseFile> {
        let mount = directory.mount_point();
        let (ready, log) = (directory.path().join("nbdfuse.pid"), directory.path().join("nbdfuse.log"));
        let cannot = |error| Error::io(Action::Admin, "cannot start nbdfuse", error);
        fs::create_dir(&mount).map_err(cannot)?;
        let mut command = Command::new(NBDFUSE.0);
        command.args(read_only.then_some("--readonly")).arg("--pidfile").arg(&ready);
        command.arg(mount.join(FILE)).arg(uri);
        // In a process group of its own, so that Ctrl-C on a terminal does not end it.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&log).map_err(cannot)?);
        let nbdfuse = command.spawn().map_err(cannot)?;
        let mut file = FuseFile { mount, nbdfuse };
        let is_ready = wait_until(LIMIT, || ready.exists() || file.has_ended()).await;
        if is_ready && !file.has_ended() {
            return Ok(file);
        }
        file.unmount().await?;
        let said = fs::read_to_string(&log).unwrap_or_default();
        let said = said.lines().last().unwrap_or("it does not answer").to_owned();
        Err(Error::unavailable(format!("nbdfuse failed: {said}")))
    }

    fn path(&self) -> PathBuf {
        self.mount.join(FILE)
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.nbdfuse.try_wait(), Ok(None))
    }

    /// Unmounts the file, which ends `nbdfuse`.
    async fn unmount(&mut self) -> Result<()> {
        unmount(&self.mount).await;
        if !wait_until(LIMIT, || self.has_ended()).await {
            let _ = self.nbdfuse.kill();
            let _ = self.nbdfuse.wait();
        }
        Ok(())
    }
}

/// The name of the file in its mount.
const FILE: &str = "image";

async fn set_up(file: &Path, read_only: bool) -> Result<PathBuf> {
    let mut args = vec!["--find", "--show", "--direct-io=on"];
    args.extend(read_only.then_some("--read-only"));
    let mut args: Vec<&OsStr> = args.into_iter().map(OsStr::new).collect();
    args.push(file.as_ref());
    external::run(LOSETUP, &args).await.map(|device| PathBuf::from(device.trim()))
}

/// Detaches a loop device, at the latest when no program has it open any more.
pub async fn tear_down(device: &Path) -> Result<()> {
    external::run(LOSETUP, &["--detach".as_ref(), device.as_ref()]).await.map(drop)
}

/// Unmounts a FUSE file, at the latest when no program uses it any more. It may be unmounted
/// already.
pub async fn unmount(mount: &Path) {
    let _ = external::run(UMOUNT, &["--lazy".as_ref(), mount.as_ref()]).await;
}

/// Returns whether the loop device shows a file.
fn is_on(device: &Path, file: &Path) -> bool {
    backing_file(device).is_some_and(|backing| backing == file)
}

/// The loop devices that show files below a directory.
pub fn devices_below(directory: &Path) -> Vec<PathBuf> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let devices = devices.map(|entry| Path::new("/dev").join(entry.file_name()));
    devices.filter(|device| backing_file(device).is_some_and(|file| file.starts_with(directory))).collect()
}

fn backing_file(device: &Path) -> Option<PathBuf> {
    let path = fs::read_to_string(sys_block(device).join("loop/backing_file")).ok()?;
    Some(PathBuf::from(path.trim_end_matches('\n')))
}
