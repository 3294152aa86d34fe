//! The error type of all engines, and the single table that maps it to errno, S3 code, Python
//! exception and exit status.

use std::fmt;

/// The kind of an error tells the caller how to react. There are few kinds on purpose: failures
/// that need the same reaction share one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The pool, object, attribute or key does not exist.
    NotFound,
    /// An exclusive creation found an existing item.
    AlreadyExists,
    /// A guard failed because another client changed the object. Read the object again, then
    /// decide.
    Conflict,
    /// The request is invalid; a retry will not help.
    InvalidArgument,
    /// This engine, class or version lacks the feature.
    Unsupported,
    /// The caller lacks the permission.
    PermissionDenied,
    /// The store is unreachable or accepts no writes. Nothing was done.
    Unavailable,
    /// Another client is using the item. Retry later.
    Busy,
    /// A limit on size, count, time, memory or space was exceeded. Nothing was stored.
    LimitExceeded,
    /// Stored bytes are damaged. Damaged bytes are never returned.
    Corrupt,
    /// A class method failed, panicked or made an undeclared call. The object is unchanged.
    ClassFailed,
    /// A write may or may not have happened. Read the object to find out; do not retry blindly.
    OutcomeUnknown,
    /// A bug in Benthic.
    Internal,
}

/// The cause of an error, for [kinds](ErrorKind) whose causes a program must tell apart. Each
/// reason belongs to one kind. Reasons cross the embedded engine's socket, so the order of the
/// variants is part of that format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// `LimitExceeded`: the disk, the pool or the cluster has no space left.
    StoreFull,
    /// `LimitExceeded`: a bucket or an account has used up its quota.
    QuotaExceeded,
}

impl Reason {
    /// All reasons, in the order of the variants.
    pub const ALL: [Reason; 2] = [Reason::StoreFull, Reason::QuotaExceeded];

    pub fn kind(self) -> ErrorKind {
        match self {
            Reason::StoreFull | Reason::QuotaExceeded => K::LimitExceeded,
        }
    }
}

/// One row of the error table.
#[derive(Debug)]
pub struct ErrorRow {
    pub kind: ErrorKind,
    /// Stable name, used in messages and in `--json`.
    pub name: &'static str,
    /// The errno that a class method returns for this kind.
    pub errno: i32,
    /// The code that the S3 gateway returns if the operation has no more specific code.
    pub s3_code: &'static str,
    pub python_exception: &'static str,
    pub exit_status: u8,
}

/// The errno values of the table, with Linux numbers.
pub mod errno {
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
    pub const EREMOTEIO: i32 = 121;
    pub const EDQUOT: i32 = 122;
    pub const ECANCELED: i32 = 125;
}

use ErrorKind as K;

/// The error table: each kind exactly once, in the order of [`ErrorKind`].
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

/// The request that an errno answers. The meaning of an errno depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A read operation or a listing.
    Read,
    Write,
    Exec,
    /// Opening a store, or creating or removing a pool.
    Admin,
}

impl ErrorKind {
    pub fn row(self) -> &'static ErrorRow {
        &ERROR_TABLE[self as usize]
    }

    /// Maps an errno (positive, with Linux numbers) that answered `action` to a kind.
    ///
    /// Every errno has a kind. The errno of a row maps to the row's kind, with two exceptions. EIO
    /// is `ClassFailed` for [`Action::Exec`], `Corrupt` for [`Action::Read`] and `Internal`
    /// otherwise. A timed-out read is `Unavailable`, because it changed nothing.
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

/// Makes items that may be missing optional.
pub trait OptionalExtension<T> {
    /// `None` in place of the error `NotFound`.
    ///
    /// # Errors
    /// All other errors.
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExtension<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Err(error) if error.kind() == K::NotFound => Ok(None),
            found => found.map(Some),
        }
    }
}

/// Benthic's only public error: a [kind](ErrorKind) for programs, and a message with context for
/// people.
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
    /// An error with a message. The message is lower case, has no full stop, and gives the next
    /// step where there is one.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let message = message.into();
        Error(Box::new(Inner { kind, reason: None, op: "", message, context: Vec::new(), source: None }))
    }

    /// An error with a reason. The reason determines the kind.
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
            // Some libraries wrap the system's error and keep only its kind.
            (None, Io::StorageFull | Io::QuotaExceeded) => K::LimitExceeded,
            _ => K::Internal,
        };
        Error::new(kind, message).with_source(source)
    }

    /// Sets the failed operation, unless a deeper layer has set it.
    #[must_use]
    pub fn with_op(mut self, op: &'static str) -> Error {
        if self.0.op.is_empty() {
            self.0.op = op;
        }
        self
    }

    /// Adds `key=value` to the message, unless the key is present.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Error {
        if self.0.context.iter().all(|(k, _)| *k != key) {
            self.0.context.push((key, value.to_string()));
        }
        self
    }

    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// Changes the kind. Drops a reason that belongs to another kind.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Error {
        self.0.kind = kind;
        self.0.reason = self.0.reason.filter(|reason| reason.kind() == kind);
        self
    }

    /// The cause, for kinds whose causes programs must tell apart.
    pub fn reason(&self) -> Option<Reason> {
        self.0.reason
    }

    /// The kind, which tells the caller how to react.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The failed operation; empty if no layer set it.
    pub fn op(&self) -> &'static str {
        self.0.op
    }

    /// The message without operation and context.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The message with context and source, without the operation.
    pub fn text(&self) -> String {
        Text(&self.0).to_string()
    }

    /// The `key=value` pairs in insertion order.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(key, value)| (*key, value.as_str()))
    }
}

/// Defines a function for each kind that makes an error of this kind with a message.
macro_rules! constructors {
    ($($name:ident: $kind:ident),* $(,)?) => {
        impl Error {
            $(
                #[doc = concat!("An error of the kind `", stringify!($kind), "`; see [`Error::new`].")]
                pub fn $name(message: impl Into<String>) -> Error {
                    Error::new(ErrorKind::$kind, message)
                }
            )*
        }
    };
}

constructors! {
    not_found: NotFound,
    already_exists: AlreadyExists,
    conflict: Conflict,
    invalid_argument: InvalidArgument,
    unsupported: Unsupported,
    permission_denied: PermissionDenied,
    unavailable: Unavailable,
    busy: Busy,
    limit_exceeded: LimitExceeded,
    corrupt: Corrupt,
    class_failed: ClassFailed,
    outcome_unknown: OutcomeUnknown,
    internal: Internal,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.op.is_empty() {
            write!(f, "{}: ", self.0.op)?;
        }
        Text(&self.0).fmt(f)
    }
}

struct Text<'a>(&'a Inner);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for (key, value) in &self.0.context {
            // Quote values whose extent would otherwise be ambiguous.
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
