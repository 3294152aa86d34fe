//! The only place that maps errors to the status codes of gRPC.

use benthic_core::{Error, ErrorKind};
use tonic::{Code, Status};

/// A failed call.
#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    pub message: String,
}

/// The result of a call.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// A failure with a message of the form of [`benthic_core::Error`].
    pub fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }

    /// The failure for a request that lacks a field, or has an invalid one.
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(Code::InvalidArgument, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::new(code(error.kind()), error.text())
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Status {
        Status::new(failure.code, failure.message)
    }
}

/// The status code of a kind. The orchestrator retries every call; the code tells it how soon, and
/// tells people why.
pub fn code(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::AlreadyExists => Code::AlreadyExists,
        ErrorKind::InvalidArgument => Code::InvalidArgument,
        // The state of the volume or of the machine must change first.
        ErrorKind::Conflict | ErrorKind::Busy | ErrorKind::Unsupported => Code::FailedPrecondition,
        ErrorKind::PermissionDenied => Code::PermissionDenied,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::LimitExceeded => Code::ResourceExhausted,
        ErrorKind::Corrupt => Code::DataLoss,
        // Every call can be repeated.
        ErrorKind::OutcomeUnknown => Code::Aborted,
        ErrorKind::ClassFailed | ErrorKind::Internal => Code::Internal,
    }
}
