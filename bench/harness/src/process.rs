//! Runs other programs to their end, or as child processes that answer line by line.

use crate::Outcome;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

/// Runs a program to its end and returns its standard output.
pub fn output(command: &mut Command) -> Outcome<Vec<u8>> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{command:?} failed: {}\n{stderr}", output.status).into());
    }
    Ok(output.stdout)
}

/// Runs a program to its end; its output goes to this program's standard error.
pub fn run(command: &mut Command) -> Outcome {
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}").into()) }
}

/// Memory of a process in MiB. `field` is `VmRSS:` for the resident memory now, or `VmHWM:` for its
/// maximum so far.
pub fn memory_mib(pid: u32, field: &str) -> Outcome<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = status.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB"));
    Ok(kib.ok_or_else(|| format!("process {pid} has no {field}"))?.parse::<f64>()? / 1_024.0)
}

/// A child process that reads and prints lines. Dropping it kills the process.
pub struct Child {
    process: std::process::Child,
    input: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Child {
    pub fn start(command: &mut Command) -> Outcome<Child> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(process.stdout.take().ok_or("a child has no output")?);
        Ok(Child { input: process.stdin.take(), lines, process })
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn send(&mut self, line: &str) -> Outcome {
        Ok(writeln!(self.input.as_mut().ok_or("a child has no input")?, "{line}")?)
    }

    pub fn next_line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        if line.is_empty() {
            return Err(format!("a child ended early: {}", self.process.wait()?).into());
        }
        Ok(line)
    }

    /// Closes the process' input, which ends the process, and waits for its exit.
    pub fn finish(mut self) -> Outcome {
        drop(self.input.take());
        let status = self.process.wait()?;
        if status.success() { Ok(()) } else { Err(format!("a child failed: {status}").into()) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
