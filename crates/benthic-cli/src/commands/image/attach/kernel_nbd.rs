//! The kernel's NBD client, which the program `nbd-client` configures.

use super::device::{POLL, lacks_program, sys_block, wait_until};
use super::private_dir::PrivateDir;
use benthic_core::{Action, Error, Result};
use benthic_program::external::{self, Program};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::sleep;

const NBD_CLIENT: Program = ("nbd-client", "nbd-client");
/// Time for the kernel to connect or disconnect.
const LIMIT: Duration = Duration::from_secs(10);

/// The requirements of this way that the machine lacks.
pub fn lacks() -> Vec<String> {
    let module = !Path::new("/sys/block/nbd0").exists();
    let module = module.then(|| "the kernel's module nbd (`modprobe nbd`)".to_owned());
    module.into_iter().chain(lacks_program(NBD_CLIENT)).collect()
}

/// A device such as /dev/nbd0.
pub struct KernelNbd(PathBuf);

impl KernelNbd {
    pub async fn attach(name: &str, read_only: bool, directory: &PrivateDir) -> Result<KernelNbd> {
        let socket = directory.path().join("nbd.sock");
        let mut failed = None;
        for device in free_devices()? {
            let mut args: Vec<&OsStr> = vec!["-unix".as_ref(), socket.as_ref(), device.as_ref()];
            args.extend(["-name", name, "-block-size", "512"].map(OsStr::new));
            if read_only {
                args.push("-readonly".as_ref());
            }
            // Another program may take the device first.
            match external::run(NBD_CLIENT, &args).await {
                Err(error) => failed = Some(error),
                Ok(_) => {
                    if !wait_until(LIMIT, || is_connected(&device)).await {
                        let message = "the kernel does not connect the device; dmesg may say why";
                        return Err(Error::unavailable(message).with("device", device.display()));
                    }
                    directory.note_nbd(&device)?;
                    return Ok(KernelNbd(device));
                }
            }
        }
        Err(failed.unwrap_or_else(|| {
            let message =
                "all NBD devices are in use; `modprobe nbd nbds_max=64` makes more after `rmmod nbd`";
            Error::limit_exceeded(message)
        }))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub async fn detach(&mut self) -> Result<()> {
        disconnect(&self.0).await?;
        if wait_until(LIMIT, || !is_connected(&self.0)).await {
            return Ok(());
        }
        let message = "the kernel does not disconnect the device; stop this program again";
        Err(Error::busy(message).with("device", self.0.display()))
    }

    /// Waits until another program has disconnected the device.
    pub async fn wait_for_end(&self) -> Result<()> {
        while is_connected(&self.0) {
            sleep(POLL * 10).await;
        }
        Ok(())
    }
}

/// Disconnects a device.
pub async fn disconnect(device: &Path) -> Result<()> {
    external::run(NBD_CLIENT, &["-d".as_ref(), device.as_ref()]).await.map(drop)
}

/// The process that has connected the device, as long as it is connected.
pub fn connected_by(device: &Path) -> Option<String> {
    fs::read_to_string(sys_block(device).join("pid")).ok().map(|pid| pid.trim().to_owned())
}

fn is_connected(device: &Path) -> bool {
    connected_by(device).is_some()
}

/// The devices that nobody has connected, by number. A device of a killed program stays connected
/// as long as it is mounted or open, so that its user cannot write into the next image.
fn free_devices() -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir("/sys/block")
        .map_err(|error| Error::io(Action::Admin, "cannot list the block devices", error))?;
    let number = |name: &str| name.strip_prefix("nbd").and_then(|number| number.parse::<u32>().ok());
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut numbers: Vec<u32> = names.filter_map(|name| number(&name)).collect();
    numbers.sort_unstable();
    let devices = numbers.into_iter().map(|number| PathBuf::from(format!("/dev/nbd{number}")));
    Ok(devices.filter(|device| !is_connected(device)).collect())
}
