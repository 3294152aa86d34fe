//! Every exit status of `benthic`, and the result type of commands. A test compares the statuses
//! with docs/reference/exit-statuses.md.

use crate::interrupt;
use benthic_core::Error;
use benthic_core::error::ERROR_TABLE;
use std::fmt;

/// Success.
pub const OK: u8 = 0;
/// Some items of many failed, or a check found something. The command has listed each.
pub const SOME_FAILED: u8 = 1;
/// The command-line arguments are invalid.
pub const USAGE: u8 = 2;
/// `benthic health --exit-status`: the cluster works with reduced redundancy or capacity.
pub const DEGRADED: u8 = 20;
/// `benthic health --exit-status`: the next failure may stop the cluster or lose data.
pub const AT_RISK: u8 = 21;
/// `benthic health --exit-status`: reads or writes hang.
pub const DOWN: u8 = 22;
/// Ctrl-C (SIGINT): 128 plus the signal number, as in shells.
pub const INTERRUPTED: u8 = 130;
/// SIGTERM: 128 plus the signal number.
pub const TERMINATED: u8 = 143;

/// The reason why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// An error with a kind. Its row in [`benthic_core::error::ERROR_TABLE`] gives the exit status
    /// (3 to 15).
    Error(Error),
    /// Invalid arguments that clap cannot detect, or a deletion that was not confirmed.
    Usage(String),
    /// Some items of many failed. The command has listed each failure.
    Some { failed: u64, of: u64 },
    /// A check found something. The command has listed each finding; the text counts them.
    Found(String),
    /// A cluster is not healthy, and the command has printed the reason. The exit status is
    /// [`DEGRADED`], [`AT_RISK`] or [`DOWN`].
    Verdict(u8),
    /// SIGINT (Ctrl-C) or SIGTERM.
    Interrupted,
    /// The reader of stdout closed the pipe, and the command only reads and prints. The program
    /// exits with [`OK`] and prints no error.
    ClosedPipe,
}

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// The exit status of the process.
    pub fn status(&self) -> u8 {
        match self {
            Failure::Error(error) => error.kind().row().exit_status,
            Failure::Usage(_) => USAGE,
            Failure::Some { .. } | Failure::Found(_) => SOME_FAILED,
            Failure::Verdict(status) => *status,
            Failure::Interrupted => interrupt::exit_status(),
            Failure::ClosedPipe => OK,
        }
    }

    /// The stable name of the failure kind in `--json` output.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Failure::Error(error) => error.kind().row().name,
            Failure::Usage(_) => "usage",
            Failure::Some { .. } | Failure::Found(_) => "some_failed",
            Failure::Verdict(status) => verdict_name(*status),
            Failure::Interrupted => "interrupted",
            Failure::ClosedPipe => "closed_pipe",
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error(error) => error.fmt(f),
            Failure::Usage(message) | Failure::Found(message) => f.write_str(message),
            Failure::Some { failed, of } => write!(f, "{failed} of {of} failed"),
            Failure::Verdict(status) => write!(f, "the cluster is {}", verdict_name(*status)),
            Failure::Interrupted => f.write_str("interrupted"),
            Failure::ClosedPipe => f.write_str("the output was closed"),
        }
    }
}

/// The name of a verdict's exit status in the table of `--help` and `--json`.
fn verdict_name(status: u8) -> &'static str {
    match status {
        DEGRADED => "degraded",
        AT_RISK => "at_risk",
        _ => "down",
    }
}

/// Every exit status with its kind in `--json` output.
fn statuses() -> Vec<(u8, &'static str)> {
    let own = [(OK, "ok"), (SOME_FAILED, "some_failed"), (USAGE, "usage")];
    let signals = [(INTERRUPTED, "interrupted"), (TERMINATED, "interrupted")];
    let kinds = ERROR_TABLE.iter().map(|row| (row.exit_status, row.name));
    let verdicts = [DEGRADED, AT_RISK, DOWN].map(|status| (status, verdict_name(status)));
    own.into_iter().chain(kinds).chain(verdicts).chain(signals).collect()
}

/// The table of exit statuses for `--help`.
pub fn statuses_help() -> String {
    let lines: Vec<String> =
        statuses().iter().map(|(status, kind)| format!("  {status:>3}  {kind}")).collect();
    format!("Exit statuses, and the kinds of errors in --json:\n{}", lines.join("\n"))
}

#[cfg(test)]
#[path = "exit_tests.rs"]
mod tests;
