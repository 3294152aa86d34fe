//! The attached volumes of this node: a process `benthic image attach` for each.
//!
//! The process must outlive the driver, because workloads use the device while the driver restarts.
//! It writes its device and its number to a file of the driver's, on which it has a lock as long as
//! it lives: the driver takes the lock, and the process inherits it with its standard output. So
//! the next driver finds the process again, and never mistakes another one for it.

use crate::driver::Config;
use crate::errors::{Failure, Outcome, code};
use benthic_core::{Action, Error, ErrorKind};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::time::sleep;
use tonic::Code;

const POLL: Duration = Duration::from_millis(50);
/// Time for a process to open its image and attach the device, or to end.
const LIMIT: Duration = Duration::from_secs(60);

/// The attachment of one volume, which may exist.
pub struct Attachment {
    volume_id: String,
    output: PathBuf,
    log: PathBuf,
}

/// The record that a running process has written.
struct Running {
    device: PathBuf,
    process: Pid,
}

impl Attachment {
    /// The attachment of a volume. `volume_id` is the address of an image.
    pub fn of(config: &Config, volume_id: &str) -> Attachment {
        // Neither a pool nor an image has a slash in its name, so no two volumes have the same
        // file.
        let name = volume_id.replace('/', "%%");
        Attachment {
            volume_id: volume_id.to_owned(),
            output: config.state.join(format!("{name}.json")),
            log: config.state.join(format!("{name}.log")),
        }
    }

    /// The device, if the volume is attached.
    ///
    /// # Errors
    /// `Aborted` if it is just being attached.
    pub fn device(&self) -> Outcome<Option<PathBuf>> {
        Ok(self.running()?.map(|running| running.device))
    }

    /// Attaches the volume, unless it is attached, and returns the device.
    ///
    /// # Errors
    /// `FailedPrecondition` if this machine cannot attach images, or if another program has the
    /// image open; the codes of the errors of `benthic image attach`.
    pub async fn start(&self, config: &Config, read_only: bool) -> Outcome<PathBuf> {
        if let Some(device) = self.device()? {
            return Ok(device);
        }
        let cannot = |error| Error::io(Action::Admin, "cannot write the driver's state", error);
        DirBuilder::new().recursive(true).mode(0o700).create(&config.state).map_err(cannot)?;
        let output = OpenOptions::new().write(true).create(true).truncate(false).open(&self.output);
        let output = output.map_err(cannot)?;
        if output.try_lock().is_err() {
            return Err(self.starting());
        }
        output.set_len(0).map_err(cannot)?;
        let log = File::create(&self.log).map_err(cannot)?;
        let mut command = Command::new(&config.program);
        command.args(["--json", "--store", &config.store, "image", "attach", &self.volume_id]);
        command.args(read_only.then_some("--read-only"));
        // In a process group of its own, so that Ctrl-C on a terminal ends only the driver.
        command.process_group(0).stdin(Stdio::null()).stdout(output).stderr(log);
        let mut process = command.spawn().map_err(|error| {
            let message = "cannot start the program benthic, which must be beside benthic-csi";
            Error::io(Action::Admin, message, error).with("program", config.program.display())
        })?;
        // The command has a copy of the output.
        drop(command);
        let device = self.wait(&mut process).await;
        if device.is_err() {
            let _ = process.kill();
        }
        // Nobody else asks for the exit status, and without that the process would stay a zombie.
        let waits = std::thread::Builder::new().name("benthic-attached".to_owned());
        let _ = waits.spawn(move || process.wait());
        device
    }

    /// Waits until the process has attached the device.
    async fn wait(&self, process: &mut Child) -> Outcome<PathBuf> {
        let mut waited = Duration::ZERO;
        while waited < LIMIT {
            if let Some(running) = self.read_running() {
                return Ok(running.device);
            }
            if !matches!(process.try_wait(), Ok(None)) {
                return Err(self.read_error());
            }
            sleep(POLL).await;
            waited += POLL;
        }
        let message = format!("the device is not attached in time; see the log={}", self.log.display());
        Err(Failure::new(Code::DeadlineExceeded, message))
    }

    /// Detaches the volume, unless it is detached. Nothing may use the device.
    ///
    /// # Errors
    /// `FailedPrecondition` if something uses it.
    pub async fn stop(&self) -> Outcome<()> {
        let mut waited = Duration::ZERO;
        if let Some(running) = self.running()? {
            // It may have ended since.
            let _ = kill_process(running.process, Signal::TERM);
        }
        while self.running()?.is_some() {
            if waited >= LIMIT {
                let message = format!("the device is still in use; see the log={}", self.log.display());
                return Err(Failure::new(Code::FailedPrecondition, message));
            }
            sleep(POLL).await;
            waited += POLL;
        }
        for file in [&self.output, &self.log] {
            // Nothing reads them any more, and the next attachment replaces them.
            let _ = fs::remove_file(file);
        }
        Ok(())
    }

    /// The process, if one runs.
    fn running(&self) -> Outcome<Option<Running>> {
        let Ok(output) = File::open(&self.output) else { return Ok(None) };
        match output.try_lock() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => self.read_running().map(Some).ok_or_else(|| self.starting()),
            Err(TryLockError::Error(error)) => {
                Err(Error::io(Action::Admin, "cannot read the driver's state", error).into())
            }
        }
    }

    fn read_running(&self) -> Option<Running> {
        let written: Value = serde_json::from_slice(&fs::read(&self.output).ok()?).ok()?;
        let process = i32::try_from(written["pid"].as_i64()?).ok()?;
        Some(Running { device: written["device"].as_str()?.into(), process: Pid::from_raw(process)? })
    }

    fn starting(&self) -> Failure {
        let message = format!("the volume is just being attached; try again volume_id={:?}", self.volume_id);
        Failure::new(Code::Aborted, message)
    }

    /// The error in the log of a process that has ended.
    fn read_error(&self) -> Failure {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let errors = log.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let Some(error) = errors.map(|line| line["error"].clone()).find(|error| !error.is_null()) else {
            let message =
                format!("`benthic image attach` ended without a message; see the log={}", self.log.display());
            return Failure::new(Code::Internal, message);
        };
        let kind = error["kind"].as_str().and_then(ErrorKind::from_name).unwrap_or(ErrorKind::Internal);
        let mut message = error["message"].as_str().unwrap_or_default().to_owned();
        for (key, value) in error["context"].as_object().into_iter().flatten() {
            message += &format!(" {key}={value}");
        }
        if let Some(cause) = error["cause"].as_str() {
            message += &format!(": {cause}");
        }
        Failure::new(code(kind), message)
    }
}
