//! Programs of the system, such as `mount`, that a command runs for a moment.

use crate::store::blocking;
use benthic_core::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Command, Output, Stdio};

/// A program and the Debian package that has it.
pub type Program = (&'static str, &'static str);

/// Returns true if a program is in `PATH`.
pub fn is_installed((program, _): Program) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// The error for a program that is missing.
pub fn missing((program, package): Program) -> Error {
    Error::unsupported(format!("the program {program} is missing; `apt-get install {package}` installs it"))
}

/// Runs a program to its end and returns its output.
///
/// # Errors
/// `Unsupported` if it is missing; `Unavailable` if it failed, with its last line on stderr.
pub async fn run(program: Program, args: &[&OsStr]) -> Result<String> {
    let shown: Vec<_> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let output = output(program, args).await?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it printed no error");
    Err(Error::unavailable(format!("a program failed: {}", last.trim()))
        .with("command", format_args!("{} {}", program.0, shown.join(" "))))
}

/// Runs a program to its end, also if it fails.
///
/// # Errors
/// `Unsupported` if it is missing; `Unavailable` if it cannot be started.
pub async fn output(program: Program, args: &[&OsStr]) -> Result<Output> {
    let args: Vec<OsString> = args.iter().map(|arg| (*arg).to_owned()).collect();
    blocking(move || {
        Command::new(program.0).args(args).stdin(Stdio::null()).output().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => missing(program),
            _ => Error::unavailable(format!("cannot run {}", program.0)).with_source(error),
        })
    })
    .await
}
