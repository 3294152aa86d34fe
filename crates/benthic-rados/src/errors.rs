//! Maps errnos of a cluster to error kinds and messages.

use crate::key_types::FoundKey;
use benthic_core::error::errno;
use benthic_core::{Action, ClassCall, Error, ErrorKind, FailureReport, Reason};
use futures::channel::oneshot;
use std::ffi::{CStr, CString};

/// A name as a C string for librados.
///
/// # Errors
/// `InvalidArgument` for a NUL.
pub(crate) fn c_string(text: impl Into<Vec<u8>>) -> Result<CString, Error> {
    CString::new(text).map_err(|error| Error::invalid_argument("a name contains a NUL").with_source(error))
}

/// The part of `bytes` that a C string can hold.
pub(crate) fn up_to_nul(bytes: &[u8]) -> CString {
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let mut text = bytes[..len].to_vec();
    text.push(0);
    CStr::from_bytes_until_nul(&text).unwrap_or_default().to_owned()
}

/// The error of an operation on an object. `number` is a positive errno.
pub(crate) fn of_operation(number: i32, action: Action) -> Error {
    let kind = ErrorKind::from_errno(number, action);
    let message = match (kind, number) {
        (ErrorKind::NotFound, errno::ENODATA) => "no such attribute",
        (ErrorKind::NotFound, _) => "no such object, or the pool is gone",
        (ErrorKind::AlreadyExists, _) => "the object already exists",
        (ErrorKind::Conflict, errno::ERANGE | errno::EOVERFLOW) => "the object has another version",
        (ErrorKind::Conflict, _) => "a guard on an attribute or omap value does not hold",
        (ErrorKind::Unsupported, _) => {
            "the pool does not support this: an erasure-coded pool has no omap, and without allow_ec_overwrites it accepts \
             only whole objects and appends of whole stripes; use a replicated pool, or `ceph osd pool set POOL \
             allow_ec_overwrites true`"
        }
        (ErrorKind::PermissionDenied, _) => {
            "the client may not do this; its OSD caps need r to read and w to write, as in `allow rwx pool=POOL`"
        }
        (ErrorKind::LimitExceeded, errno::ENOSPC) => "the cluster is full; remove objects or add OSDs",
        (ErrorKind::LimitExceeded, errno::EDQUOT) => "the pool is full; remove objects or raise its quota",
        (ErrorKind::LimitExceeded, _) => "the object or the operation would be too large",
        (ErrorKind::Corrupt, _) => "the OSD cannot read the object; `ceph health detail` shows the damage",
        (ErrorKind::Unavailable, errno::ESHUTDOWN) => "the cluster has blocked this client; connect again",
        (ErrorKind::Unavailable, _) => {
            "no OSD answered in time; `benthic health` shows which are down, or whether they refuse this client"
        }
        (ErrorKind::OutcomeUnknown, _) => {
            "no OSD answered in time, and the change may have happened; read the object before you repeat the change"
        }
        _ => "the cluster refused the operation",
    };
    let error = match (kind, number) {
        (ErrorKind::LimitExceeded, errno::ENOSPC | errno::EDQUOT) => {
            Error::because(Reason::StoreFull, message)
        }
        _ => Error::new(kind, message),
    };
    error.with("errno", number)
}

/// The error of an operation that librados dropped without an answer.
pub(crate) fn lost(_: oneshot::Canceled) -> Error {
    Error::internal("librados dropped an operation")
}

/// A failed operation.
pub(crate) struct Failure {
    pub error: Error,
    /// Whether the method itself explained the error.
    pub is_explained: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error, is_explained: false }
    }
}

/// The error that a method returned, or that the OSD returned in its place. `output` is the output
/// of the failed method, in which Benthic's libraries send a [`FailureReport`].
pub(crate) fn of_method(number: i32, call: &ClassCall, output: &[u8]) -> Failure {
    let kind = ErrorKind::from_errno(number, Action::Exec);
    let report: Option<FailureReport> = serde_json::from_slice(output).ok();
    let report =
        report.filter(|report| report.format == FailureReport::FORMAT && report.kind() == Some(kind));
    let osd = report.as_ref().and_then(|report| report.osd);
    let is_explained = report.is_some();
    let message = match (report, kind) {
        (Some(report), _) => report.text,
        (None, ErrorKind::Unsupported) => {
            "the OSDs have no such class or method, or the method does not support this".to_owned()
        }
        (None, ErrorKind::ClassFailed) => {
            "the method failed or violated its flags; the OSD's log shows the reason".to_owned()
        }
        (None, _) => "the method returned an error".to_owned(),
    };
    let error = Error::new(kind, message).with("class", &call.class).with("method", &call.method);
    let error = if let Some(osd) = osd { error.with("osd", osd) } else { error };
    Failure { error: error.with("errno", number), is_explained }
}

/// The error of an operation with a method call that an OSD refused before it ran any step.
pub(crate) fn of_refused_method(call: &ClassCall) -> Error {
    let message = "the client may not call methods; its OSD caps need x, as in `allow rwx pool=POOL` (or the OSDs may not load the \
         class: see osd_class_load_list)";
    Error::permission_denied(message).with("class", &call.class).with("method", &call.method)
}

/// The error of a monitor command. It includes the monitors' status line, if there is one.
pub(crate) fn of_command(number: i32, status: &str) -> Error {
    let (kind, message) = match number {
        errno::ETIMEDOUT => (ErrorKind::Unavailable, "no monitor answered in time"),
        // For an old `prior_version` of a CRUSH map the monitors return EPERM, as for missing caps;
        // only the text differs.
        errno::EPERM if status.contains("prior_version") => {
            (ErrorKind::Conflict, "the CRUSH map has changed; read it again")
        }
        errno::EPERM | errno::EACCES => {
            (ErrorKind::PermissionDenied, "the monitors refused; the client's mon caps need `allow rw`")
        }
        errno::ERANGE => (
            ErrorKind::LimitExceeded,
            "the pool has too many placement groups for the OSDs; remove pools or add OSDs",
        ),
        _ => (ErrorKind::from_errno(number, Action::Admin), "the monitors refused the command"),
    };
    let error = Error::new(kind, message).with("errno", number);
    if status.is_empty() { error } else { error.with("status", status) }
}

/// The error of a connection. `keys` are those of the keyring, if it was read.
pub(crate) fn of_connect(number: i32, id: &str, keys: &[FoundKey]) -> Error {
    // An older librados refuses the whole keyring for one key of a newer type.
    if number == errno::EIO
        && let Some(newer) = keys.iter().find(|key| !key.is_aes())
    {
        let message = "this machine's librados cannot read a key in the keyring, because a newer release of Ceph made it; install \
                       the librados of that release, or give this client a key of the type aes in a keyring of its own \
                       (docs/guide/ceph.md, \"Releases of Ceph\")";
        return Error::unsupported(message)
            .with("id", id)
            .with("key_of", &newer.owner)
            .with("key_type", newer.key_type)
            .with("errno", number);
    }
    let is_aes = keys.iter().any(|key| key.owner == id && key.is_aes());
    let (kind, message) = match number {
        errno::ETIMEDOUT => (
            ErrorKind::Unavailable,
            "no monitor answered in time; is the cluster up, and mon_host in the configuration right?",
        ),
        errno::ENOENT => (
            ErrorKind::NotFound,
            "the configuration has no monitors or no key for this client; it needs mon_host and a keyring with the key",
        ),
        errno::EPERM | errno::EACCES if is_aes => (
            ErrorKind::PermissionDenied,
            "the cluster does not accept this client; check its id, and its key in the keyring (Ceph 20.2.4 and newer accept its \
             key's type, aes, only if `ceph mon dump` shows aes in auth_allowed_ciphers)",
        ),
        errno::EPERM | errno::EACCES => (
            ErrorKind::PermissionDenied,
            "the cluster does not accept this client; check its id, and its key in the keyring",
        ),
        errno::EINVAL => (ErrorKind::InvalidArgument, "the configuration or the keyring is invalid"),
        _ => (ErrorKind::Unavailable, "the cluster is unreachable"),
    };
    Error::new(kind, message).with("id", id).with("errno", number)
}

pub(crate) fn no_such_pool(name: &str) -> Error {
    Error::not_found("no such pool").with("pool", name)
}

#[cfg(test)]
#[path = "errors_tests.rs"]
mod tests;
