//! The errors that end a query early, with S3's codes.

use benthic_core::Error;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A fault of the query, of its parameters or of the data, with S3's code for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// A code of S3 Select, such as `ParseSelectMissingFrom`.
    pub code: Cow<'static, str>,
    /// For people.
    pub message: String,
}

impl Failure {
    /// A failure with one of S3's codes.
    pub fn new(code: &'static str, message: impl Into<String>) -> Failure {
        Failure { code: Cow::Borrowed(code), message: message.into() }
    }
}

/// Why a running query ended early.
#[derive(Debug)]
pub enum Fault {
    /// The query or the data are at fault.
    Query(Failure),
    /// The host could not read, could not write, or ran out of time.
    Host(Error),
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        Fault::Query(failure)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Host(error)
    }
}

/// A fault of the query.
pub(super) fn fault(code: &'static str, message: impl Into<String>) -> Fault {
    Fault::Query(Failure::new(code, message))
}
