//! Failed method calls, as a class library in an OSD reports them.
//!
//! An OSD answers a failed call with one errno. It also delivers the output of the failed method,
//! so the library sends a [`FailureReport`] there. A second request for the text would cost a round
//! trip, and could return the text of another call. For operators the library also keeps its
//! recent failures ([`FAILURES`]).

use crate::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

/// The method that returns a class library's recent failures and log messages. It takes no input
/// and returns [`LibraryFailures`] as JSON. A client calls it as it calls
/// [`DESCRIBE`](crate::DESCRIBE): with any object name and the capability `x`.
///
/// The failures belong to one OSD process. A library built before this method existed lacks it:
/// `Unsupported`.
///
/// ```json
/// {"library":"benthic_1","build":"0.1.0","osd":1,"failures":[{"unix_ms":1790000000000,"class":"hello",
///  "method":"say","client":"client.4123","kind":"limit_exceeded","message":"the name is too long","times":1}],
///  "messages":[{"unix_ms":1790000000000,"class":"hello","method":"record","client":"client.4123","level":"debug",
///  "text":"recorded a greeting"}]}
/// ```
pub const FAILURES: &str = "benthic.failures";

/// The explanation if an OSD does not support a step of a method.
pub const ERASURE_CODED: &str = "methods in an erasure-coded pool cannot read data and have no omap; use a replicated pool, \
    or read the object and compute in the client";

/// Limit of the text in a [`FailureReport`].
pub const REPORT_TEXT_BYTES_MAX: usize = 4 * 1024;

/// The output of a failed call: the method's own error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureReport {
    /// The version of this format, [`FailureReport::FORMAT`]. Its name tells a report from the
    /// output of a library that sends none.
    #[serde(rename = "benthic_failure")]
    pub format: u32,
    /// N of the `osd.N` that ran the method, if the library knows it.
    pub osd: Option<u32>,
    /// The name of the error kind.
    pub kind: String,
    /// The [text](Error::text) of the error, cut at 4 KiB.
    pub text: String,
}

impl FailureReport {
    pub const FORMAT: u32 = 1;

    pub fn new(error: &Error, osd: Option<u32>) -> FailureReport {
        FailureReport {
            format: FailureReport::FORMAT,
            osd,
            kind: error.kind().to_string(),
            text: cut(error.text(), REPORT_TEXT_BYTES_MAX),
        }
    }

    /// The kind; `None` for a kind that this build does not know.
    pub fn kind(&self) -> Option<ErrorKind> {
        ErrorKind::from_name(&self.kind)
    }
}

/// The recent failures of a class library in one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryFailures {
    /// NAME of `libcls_NAME.so`.
    pub library: String,
    pub build: String,
    /// N of `osd.N`, if the library knows it.
    pub osd: Option<u32>,
    /// The latest failure last.
    pub failures: Vec<CallFailure>,
    /// The log messages of methods, the latest one last.
    #[serde(default)]
    pub messages: Vec<LogMessage>,
}

/// A failure of a method. Equal failures are one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFailure {
    /// Time of the latest failure, by the clock of the OSD's host.
    pub unix_ms: u64,
    pub class: String,
    /// The version of a guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub method: String,
    /// The caller of the latest failure, such as `client.4123`.
    pub client: String,
    /// The name of the error kind.
    pub kind: String,
    /// The [message](Error::message) without values, because they may quote data.
    pub message: String,
    /// The number of failures with this method, kind and message.
    pub times: u64,
}

/// A message that a method wrote to the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogMessage {
    /// By the clock of the OSD's host.
    pub unix_ms: u64,
    pub class: String,
    /// The version of a guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub method: String,
    /// The caller, such as `client.4123`.
    pub client: String,
    /// The name of the [`LogLevel`](crate::LogLevel).
    pub level: String,
    pub text: String,
}

/// Cuts text at a character boundary, so that it has at most `bytes_max` bytes.
pub fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    // The caller keeps the text, so the rest of a long one is given back.
    text.shrink_to_fit();
    text
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
