//! Maps errors of the SAL to S3 errors.

use crate::upstream::UPSTREAM;
use benthic_core::{Error, ErrorKind, Reason};
use hyper::StatusCode;
use s3s::{S3Error, S3ErrorCode, StdError};
use std::fmt;

/// S3 error codes that `s3s` does not define.
const QUOTA_EXCEEDED: &str = "QuotaExceeded";
const STORE_FULL: &str = "InsufficientStorage";
const PAYLOAD_HASH_MISMATCH: &str = "XAmzContentSHA256Mismatch";

/// The kind of thing that is missing if the SAL reports `NotFound`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Bucket,
    Object,
    Version,
    Upload,
}

/// The error that the client gets. It contains the message of `error` only if the client can
/// correct the request. Only server errors are worth a warning in the log.
pub(super) fn s3_error(error: Error, subject: Subject) -> S3Error {
    let code = code(&error, subject);
    let shows_message = shows_message(&code);
    let mut answer = with_code(code);
    if shows_message {
        answer.set_message(error.to_string());
    }
    if answer.status_code().is_none_or(|status| status.is_server_error()) {
        tracing::warn!(%error, "a request failed");
    } else {
        tracing::debug!(%error, "a request was refused");
    }
    if error.reason() == Some(Reason::StoreFull) {
        answer.set_message("the store is full");
    }
    if error.op() == UPSTREAM && matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Busy) {
        answer.set_message(error.message().to_owned());
    }
    answer.set_source(Box::new(error));
    answer
}

pub(super) fn bucket(error: Error) -> S3Error {
    s3_error(error, Subject::Bucket)
}

pub(super) fn object(error: Error) -> S3Error {
    s3_error(error, Subject::Object)
}

pub(super) fn upload(error: Error) -> S3Error {
    s3_error(error, Subject::Upload)
}

/// An error with this code and its HTTP status.
fn with_code(code: S3ErrorCode) -> S3Error {
    let status = match &code {
        S3ErrorCode::Custom(name) if *name == QUOTA_EXCEEDED => Some(StatusCode::FORBIDDEN),
        S3ErrorCode::Custom(name) if *name == STORE_FULL => Some(StatusCode::INSUFFICIENT_STORAGE),
        S3ErrorCode::Custom(_) => Some(StatusCode::BAD_REQUEST),
        _ => None,
    };
    let mut error = S3Error::new(code);
    if let Some(status) = status {
        error.set_status_code(status);
    }
    error
}

/// An error whose code `s3s` does not define.
pub(super) fn with_status(code: &'static str, status: StatusCode, message: &'static str) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into()), message);
    error.set_status_code(status);
    error
}

/// The S3 code of an error: the one from the error table of benthic-core, unless the reason or the
/// subject has a more precise one.
fn code(error: &Error, subject: Subject) -> S3ErrorCode {
    match (error.reason(), error.kind(), subject) {
        (Some(Reason::QuotaExceeded), ..) => S3ErrorCode::Custom(QUOTA_EXCEEDED.into()),
        (Some(Reason::StoreFull), ..) => S3ErrorCode::Custom(STORE_FULL.into()),
        (_, ErrorKind::NotFound, Subject::Bucket) => S3ErrorCode::NoSuchBucket,
        (_, ErrorKind::NotFound, Subject::Version) => S3ErrorCode::NoSuchVersion,
        (_, ErrorKind::NotFound, Subject::Upload) => S3ErrorCode::NoSuchUpload,
        (_, ErrorKind::Conflict, Subject::Bucket) => S3ErrorCode::OperationAborted,
        (_, kind, _) => {
            S3ErrorCode::from_bytes(kind.row().s3_code.as_bytes()).unwrap_or(S3ErrorCode::InternalError)
        }
    }
}

/// Whether the client can correct the request, and may therefore see the message.
fn shows_message(code: &S3ErrorCode) -> bool {
    matches!(code, S3ErrorCode::InvalidArgument | S3ErrorCode::EntityTooLarge | S3ErrorCode::NotImplemented)
}

#[derive(Debug)]
pub(super) struct ClientTimeout;

impl fmt::Display for ClientTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client sent no data for too long")
    }
}

impl std::error::Error for ClientTimeout {}

/// The error for a body whose signed checksum does not match.
pub(super) fn payload_mismatch() -> S3Error {
    with_code(S3ErrorCode::Custom(PAYLOAD_HASH_MISMATCH.into()))
}

/// Maps an error from reading the body of a request.
pub(super) fn body(error: StdError) -> S3Error {
    use s3s::stream::aws_chunked_stream::AwsChunkedStreamError as Chunked;
    use s3s::stream::upload_stream::UploadStreamError as Upload;
    let code = if let Some(error) = error.downcast_ref::<Chunked>() {
        if let Chunked::Underlying(inner) = error { underlying(inner) } else { error.to_s3_error_code() }
    } else if let Some(error) = error.downcast_ref::<Upload>() {
        match error {
            Upload::Underlying(inner) => underlying(inner),
            Upload::Sha256Mismatch => S3ErrorCode::Custom(PAYLOAD_HASH_MISMATCH.into()),
            _ => S3ErrorCode::IncompleteBody,
        }
    } else {
        underlying(&error)
    };
    let mut answer = with_code(code);
    answer.set_source(error);
    answer
}

fn underlying(error: &StdError) -> S3ErrorCode {
    if error.is::<s3s::BodySizeLimitExceeded>() {
        S3ErrorCode::EntityTooLarge
    } else if error.is::<ClientTimeout>() {
        S3ErrorCode::RequestTimeout
    } else {
        S3ErrorCode::IncompleteBody
    }
}
