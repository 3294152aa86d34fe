//! Errors in the form that Iceberg's clients expect.

use benthic_core::{Error, ErrorKind};
use hyper::StatusCode;
use serde_json::{Value, json};

/// After this exception, clients repeat a commit by themselves.
const COMMIT_FAILED: &str = "CommitFailedException";

/// An answer that is an error.
#[derive(Debug)]
pub struct Failure {
    pub status: StatusCode,
    /// The name of the exception in Iceberg's Java library.
    kind: &'static str,
    message: String,
    /// Whether the answer has the form of RFC 6749, "Error Response".
    is_oauth: bool,
}

impl Failure {
    pub fn bad_request(message: &str) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, "BadRequestException", message)
    }

    pub fn unauthorized(message: &str) -> Failure {
        Failure::new(StatusCode::UNAUTHORIZED, "NotAuthorizedException", message)
    }

    pub fn unsupported(message: &str) -> Failure {
        Failure::new(StatusCode::NOT_ACCEPTABLE, "UnsupportedOperationException", message)
    }

    /// A failure of a request about a namespace.
    pub fn of_namespace(error: Error) -> Failure {
        Failure::of(error, "NoSuchNamespaceException")
    }

    /// A failure of a request about a table.
    pub fn of_table(error: Error) -> Failure {
        Failure::of(error, "NoSuchTableException")
    }

    pub fn conflict(message: &str) -> Failure {
        Failure::new(StatusCode::CONFLICT, COMMIT_FAILED, message)
    }

    /// A failure of a commit.
    pub fn of_commit(error: Error) -> Failure {
        match error.kind() {
            ErrorKind::Conflict => Failure::conflict(&error.to_string()),
            // The client must not take it for a failure, and repeat or clean up.
            ErrorKind::OutcomeUnknown => {
                Failure::new(StatusCode::GATEWAY_TIMEOUT, "CommitStateUnknownException", &error.to_string())
            }
            _ => Failure::of_table(error),
        }
    }

    /// The same failure, after which clients do not repeat the commit by themselves. PyIceberg
    /// repeats one that replaces rows with the rows that it has read first. It looks for changes in
    /// between in the manifests, which do not name the objects that a compaction replaced.
    pub fn without_retry(self) -> Failure {
        if self.kind == COMMIT_FAILED { Failure::bad_request(&self.message) } else { self }
    }

    /// A failure after the commit, which is made.
    pub fn after_commit(failure: Failure) -> Failure {
        let message = format!("the change is made, but the table cannot be read: {}", failure.message);
        Failure::new(StatusCode::GATEWAY_TIMEOUT, "CommitStateUnknownException", &message)
    }

    /// The same failure, of a request for a token.
    pub fn of_login(failure: Failure) -> Failure {
        let (status, kind) = match failure.status {
            StatusCode::FORBIDDEN => (StatusCode::BAD_REQUEST, "unauthorized_client"),
            StatusCode::UNAUTHORIZED => (failure.status, "invalid_client"),
            status if status.is_server_error() => (status, "server_error"),
            status => (status, "invalid_request"),
        };
        Failure { status, kind, is_oauth: true, ..failure }
    }

    fn new(status: StatusCode, kind: &'static str, message: &str) -> Failure {
        Failure { status, kind, message: message.to_owned(), is_oauth: false }
    }

    fn of(error: Error, missing: &'static str) -> Failure {
        let (status, kind) = match error.kind() {
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, missing),
            ErrorKind::PermissionDenied => (StatusCode::FORBIDDEN, "ForbiddenException"),
            ErrorKind::Unsupported => (StatusCode::NOT_ACCEPTABLE, "UnsupportedOperationException"),
            ErrorKind::InvalidArgument | ErrorKind::LimitExceeded => {
                (StatusCode::BAD_REQUEST, "BadRequestException")
            }
            ErrorKind::AlreadyExists => (StatusCode::CONFLICT, "AlreadyExistsException"),
            ErrorKind::Unavailable | ErrorKind::Busy => {
                (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableException")
            }
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError"),
        };
        if status.is_server_error() {
            tracing::warn!(%error, "a request to the catalog failed");
        }
        Failure::new(status, kind, &error.to_string())
    }

    pub fn json(&self) -> Value {
        if self.is_oauth {
            return json!({ "error": self.kind, "error_description": self.message });
        }
        json!({ "error": { "message": self.message, "type": self.kind, "code": self.status.as_u16() } })
    }
}

/// A failure that is about neither a namespace nor a table.
impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::of(error, "NoSuchNamespaceException")
    }
}
