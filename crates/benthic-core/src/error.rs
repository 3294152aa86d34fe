//! One error for every engine, and the one table that maps it to errno, S3, Python and exit status.

use std::fmt;

/// What the caller should do about an error. Kinds are few on purpose: two failures that call for the same
/// reaction have the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The pool, object, attribute or key is not there.
    NotFound,
    /// What should be created exclusively is there already.
    AlreadyExists,
    /// A guard failed: somebody else changed the object. Read again, decide again.
    Conflict,
    /// The request makes no sense; repeating it will not help.
    InvalidArgument,
    /// This engine, class or version does not have it.
    Unsupported,
    /// The caller may not do this.
    PermissionDenied,
    /// The store cannot be reached now, or takes no writes; nothing was done.
    Unavailable,
    /// Somebody else is using it; try again later.
    Busy,
    /// Over a limit: size, count, time, memory or space. Nothing was stored.
    LimitExceeded,
    /// Stored bytes are damaged. The damaged bytes are never returned.
    Corrupt,
    /// A class method failed, panicked or did what it had not declared. The object is unchanged.
    ClassFailed,
    /// A write may or may not have happened. Read to find out; do not repeat it blindly.
    OutcomeUnknown,
    /// A defect in Benthic.
    Internal,
}

/// The cause of an error, where one [kind](ErrorKind) has several causes that a program must tell apart. A cause belongs to one
/// kind. It crosses the embedded engine's socket, so the order of the variants is part of that format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// `LimitExceeded`: the disk, the pool or the cluster has no space left.
    StoreFull,
    /// `LimitExceeded`: the quota of a bucket or an account is used up.
    QuotaExceeded,
}

impl Reason {
    /// All reasons, in the order of the variants.
    pub const ALL: [Reason; 2] = [Reason::StoreFull, Reason::QuotaExceeded];

    /// The kind that errors with this reason have.
    pub fn kind(self) -> ErrorKind {
        match self {
            Reason::StoreFull | Reason::QuotaExceeded => K::LimitExceeded,
        }
    }
}

/// One row of the error table.
#[derive(Debug)]
pub struct ErrorRow {
    /// The kind.
    pub kind: ErrorKind,
    /// Its stable name in messages and `--json`.
    pub name: &'static str,
    /// The errno that a class method returns for it.
    pub errno: i32,
    /// The code that the S3 gateway answers, where the operation has no better one.
    pub s3_code: &'static str,
    /// The exception of the Python package.
    pub python_exception: &'static str,
    /// The exit status of `benthic`.
    pub exit_status: u8,
}

/// The errno values that the table uses, as Linux numbers them.
pub mod errno {
    #![allow(missing_docs, reason = "the names are POSIX'")]
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const EIO: i32 = 5;
    pub const E2BIG: i32 = 7;
    pub const EAGAIN: i32 = 11;
    pub const ENOMEM: i32 = 12;
    pub const EACCES: i32 = 13;
    pub const EBUSY: i32 = 16;
    pub const EEXIST: i32 = 17;
    pub const EINVAL: i32 = 22;
    pub const ETXTBSY: i32 = 26;
    pub const EFBIG: i32 = 27;
    pub const ENOSPC: i32 = 28;
    pub const EROFS: i32 = 30;
    pub const ERANGE: i32 = 34;
    pub const ENAMETOOLONG: i32 = 36;
    pub const ENOSYS: i32 = 38;
    pub const ENODATA: i32 = 61;
    pub const EBADMSG: i32 = 74;
    pub const EOVERFLOW: i32 = 75;
    pub const EILSEQ: i32 = 84;
    pub const EMSGSIZE: i32 = 90;
    pub const EOPNOTSUPP: i32 = 95;
    pub const ENOTCONN: i32 = 107;
    pub const ESHUTDOWN: i32 = 108;
    pub const ETIMEDOUT: i32 = 110;
    pub const ECONNREFUSED: i32 = 111;
    pub const EHOSTUNREACH: i32 = 113;
    pub const EINPROGRESS: i32 = 115;
    pub const EREMOTEIO: i32 = 121;
    pub const EDQUOT: i32 = 122;
    pub const ECANCELED: i32 = 125;
}

use ErrorKind as K;

/// The error table: every kind exactly once, in the order of [`ErrorKind`].
pub const ERROR_TABLE: [ErrorRow; 13] = [
    row(K::NotFound, "not_found", errno::ENOENT, "NoSuchKey", "NotFoundError", 3),
    row(K::AlreadyExists, "already_exists", errno::EEXIST, "BucketAlreadyExists", "AlreadyExistsError", 4),
    row(K::Conflict, "conflict", errno::ECANCELED, "PreconditionFailed", "ConflictError", 5),
    row(K::InvalidArgument, "invalid_argument", errno::EINVAL, "InvalidArgument", "InvalidArgumentError", 6),
    row(K::Unsupported, "unsupported", errno::EOPNOTSUPP, "NotImplemented", "UnsupportedError", 7),
    row(K::PermissionDenied, "permission_denied", errno::EACCES, "AccessDenied", "PermissionDeniedError", 8),
    row(K::Unavailable, "unavailable", errno::ENOTCONN, "ServiceUnavailable", "UnavailableError", 9),
    row(K::Busy, "busy", errno::EBUSY, "SlowDown", "BusyError", 10),
    row(K::LimitExceeded, "limit_exceeded", errno::EFBIG, "EntityTooLarge", "LimitExceededError", 11),
    row(K::Corrupt, "corrupt", errno::EBADMSG, "InternalError", "CorruptError", 12),
    row(K::ClassFailed, "class_failed", errno::EIO, "InternalError", "ClassFailedError", 13),
    row(K::OutcomeUnknown, "outcome_unknown", errno::ETIMEDOUT, "InternalError", "OutcomeUnknownError", 14),
    row(K::Internal, "internal", errno::EREMOTEIO, "InternalError", "InternalError", 15),
];

const fn row(
    kind: ErrorKind,
    name: &'static str,
    errno: i32,
    s3_code: &'static str,
    python_exception: &'static str,
    exit_status: u8,
) -> ErrorRow {
    ErrorRow { kind, name, errno, s3_code, python_exception, exit_status }
}

/// What was being done when an errno came back; the same number means different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A read operation, a listing.
    Read,
    /// A write operation.
    Write,
    /// A class method.
    Exec,
    /// Opening a store, creating or removing a pool.
    Admin,
}

impl ErrorKind {
    /// The kind's row in the [table](ERROR_TABLE).
    pub fn row(self) -> &'static ErrorRow {
        &ERROR_TABLE[self as usize]
    }

    /// The kind of an errno (positive, as Linux numbers it) that `action` was answered with.
    ///
    /// Every errno has a kind; for the errno of each row the answer is that row's kind, except that EIO is
    /// `ClassFailed` from [`Action::Exec`], `Corrupt` from [`Action::Read`] and `Internal` elsewhere, and
    /// that a read that timed out is `Unavailable`: it changed nothing.
    pub fn from_errno(errno: i32, action: Action) -> ErrorKind {
        match errno {
            errno::ENOENT | errno::ENODATA => K::NotFound,
            errno::EEXIST => K::AlreadyExists,
            errno::ECANCELED => K::Conflict,
            errno::ERANGE | errno::EOVERFLOW if action != Action::Exec => K::Conflict,
            errno::EINVAL => K::InvalidArgument,
            errno::EOPNOTSUPP | errno::ENOSYS => K::Unsupported,
            errno::EPERM | errno::EACCES | errno::EROFS => K::PermissionDenied,
            errno::ENOTCONN | errno::ESHUTDOWN | errno::ECONNREFUSED | errno::EHOSTUNREACH => K::Unavailable,
            errno::EBUSY | errno::ETXTBSY | errno::EAGAIN => K::Busy,
            errno::EFBIG
            | errno::E2BIG
            | errno::ENAMETOOLONG
            | errno::EMSGSIZE
            | errno::ENOSPC
            | errno::EDQUOT
            | errno::ENOMEM => K::LimitExceeded,
            errno::EBADMSG | errno::EILSEQ => K::Corrupt,
            errno::ETIMEDOUT if action == Action::Read => K::Unavailable,
            errno::ETIMEDOUT => K::OutcomeUnknown,
            errno::EREMOTEIO => K::Internal,
            errno::EIO if action == Action::Read => K::Corrupt,
            _ if action == Action::Exec => K::ClassFailed,
            _ => K::Internal,
        }
    }

    /// The kind with this [name](ErrorRow::name).
    pub fn from_name(name: &str) -> Option<ErrorKind> {
        ERROR_TABLE.iter().find(|row| row.name == name).map(|row| row.kind)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}

/// `Result` with Benthic's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Benthic's only public error: a [kind](ErrorKind) for programs, a message with context for people.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    reason: Option<Reason>,
    op: &'static str,
    message: String,
    context: Vec<(&'static str, String)>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error with a message: lower case, no full stop, the next step where there is one.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let message = message.into();
        Error(Box::new(Inner { kind, reason: None, op: "", message, context: Vec::new(), source: None }))
    }

    /// An error whose cause programs tell apart; its kind is that of the reason.
    pub fn because(reason: Reason, message: impl Into<String>) -> Error {
        let mut error = Error::new(reason.kind(), message);
        error.0.reason = Some(reason);
        error
    }

    /// The error of a failed system call.
    pub fn io(action: Action, message: impl Into<String>, source: std::io::Error) -> Error {
        use std::io::ErrorKind as Io;
        let kind = match (source.raw_os_error(), source.kind()) {
            (Some(number), _) => ErrorKind::from_errno(number, action),
            (None, Io::UnexpectedEof) if action == Action::Read => K::Corrupt,
            (None, Io::NotFound) => K::NotFound,
            // Some libraries wrap the system's error, and keep only its kind.
            (None, Io::StorageFull | Io::QuotaExceeded) => K::LimitExceeded,
            _ => K::Internal,
        };
        Error::new(kind, message).with_source(source)
    }

    /// Names the operation that failed, unless a deeper layer did.
    #[must_use]
    pub fn with_op(mut self, op: &'static str) -> Error {
        if self.0.op.is_empty() {
            self.0.op = op;
        }
        self
    }

    /// Adds `key=value` to the message, unless the key is there already.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Error {
        if self.0.context.iter().all(|(k, _)| *k != key) {
            self.0.context.push((key, value.to_string()));
        }
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// The same error with another kind, and without a reason that belongs to the old one.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Error {
        self.0.kind = kind;
        self.0.reason = self.0.reason.filter(|reason| reason.kind() == kind);
        self
    }

    /// The cause, where one kind has several that programs tell apart.
    pub fn reason(&self) -> Option<Reason> {
        self.0.reason
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operation that failed; empty if nobody said.
    pub fn op(&self) -> &'static str {
        self.0.op
    }

    /// The message without operation and context.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The `key=value` pairs, as they were added.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(key, value)| (*key, value.as_str()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.op.is_empty() {
            write!(f, "{}: ", self.0.op)?;
        }
        f.write_str(&self.0.message)?;
        for (key, value) in &self.0.context {
            // Quoted where it would not be clear what belongs to it.
            if value.is_empty() || value.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"') {
                write!(f, " {key}={value:?}")?;
            } else {
                write!(f, " {key}={value}")?;
            }
        }
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
