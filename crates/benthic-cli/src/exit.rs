//! How a command ends, and every exit status of `benthic`.

use benthic_core::Error;
use std::fmt;

/// All went well.
pub const OK: u8 = 0;
/// Some of many failed; each was listed.
pub const SOME_FAILED: u8 = 1;
/// The arguments make no command.
pub const USAGE: u8 = 2;
/// Ctrl-C or a termination signal.
pub const INTERRUPTED: u8 = 130;

/// Why a command did not end well.
#[derive(Debug)]
pub enum Failure {
    /// An error with a kind; the exit status is its row's in [`benthic_core::error::ERROR_TABLE`] (3 to 15).
    Error(Error),
    /// Arguments that only the command itself could judge.
    Usage(String),
    /// Some of many failed; each was listed.
    Some {
        /// How many.
        failed: u64,
        /// Of how many.
        of: u64,
    },
    /// Ctrl-C or a termination signal.
    Interrupted,
    /// Whoever read the output has seen enough: a quiet end.
    ClosedPipe,
}

/// What a command returns.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// The exit status.
    pub fn status(&self) -> u8 {
        match self {
            Failure::Error(error) => error.kind().row().exit_status,
            Failure::Usage(_) => USAGE,
            Failure::Some { .. } => SOME_FAILED,
            Failure::Interrupted => INTERRUPTED,
            Failure::ClosedPipe => OK,
        }
    }

    /// The stable name of the kind in `--json`.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Failure::Error(error) => error.kind().row().name,
            Failure::Usage(_) => "usage",
            Failure::Some { .. } => "some_failed",
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
            Failure::Usage(message) => f.write_str(message),
            Failure::Some { failed, of } => write!(f, "{failed} of {of} failed"),
            Failure::Interrupted => f.write_str("interrupted"),
            Failure::ClosedPipe => f.write_str("the output was closed"),
        }
    }
}
