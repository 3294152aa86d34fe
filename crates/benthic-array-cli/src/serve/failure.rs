//! Errors in the form that clients of Reductionist expect.

use benthic_core::{Error, ErrorKind};
use hyper::StatusCode;
use serde_json::{Value, json};

/// An answer that is an error.
#[derive(Debug)]
pub struct Failure {
    pub status: StatusCode,
    message: String,
    /// Lower-level errors, the root cause last.
    caused_by: Vec<String>,
}

impl Failure {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into(), caused_by: Vec::new() }
    }

    pub fn bad_request(cause: impl Into<String>) -> Failure {
        Failure {
            caused_by: vec![cause.into()],
            ..Failure::new(StatusCode::BAD_REQUEST, "request data is not valid")
        }
    }

    pub fn unauthorized(cause: &str) -> Failure {
        Failure {
            caused_by: vec![cause.to_owned()],
            ..Failure::new(StatusCode::UNAUTHORIZED, "Access Denied")
        }
    }

    pub fn json(&self) -> Value {
        let mut error = json!({ "message": self.message });
        if !self.caused_by.is_empty() {
            error["caused_by"] = json!(self.caused_by);
        }
        json!({ "error": error })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let (status, message) = match error.kind() {
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, "NoSuchKey"),
            ErrorKind::PermissionDenied => (StatusCode::FORBIDDEN, "Access Denied"),
            ErrorKind::InvalidArgument | ErrorKind::LimitExceeded => {
                (StatusCode::BAD_REQUEST, "request data is not valid")
            }
            // Most often the request describes another object, or an older version of it.
            ErrorKind::Corrupt => (StatusCode::BAD_REQUEST, "the object does not have such a chunk"),
            ErrorKind::Unavailable | ErrorKind::Busy => {
                (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer; try again")
            }
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "the store failed"),
        };
        if status.is_server_error() || error.kind() == ErrorKind::Corrupt {
            tracing::warn!(%error, "a request failed");
        }
        Failure { caused_by: vec![error.to_string()], ..Failure::new(status, message) }
    }
}
