//! The console's HTTP responses.

use crate::commands::serving::{self, Answer};
use benthic_core::{Error, ErrorKind};
use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::{Response, StatusCode};
use serde_json::{Map, Value, json};

pub type Reply = Response<UnsyncBoxBody<Bytes, Error>>;

/// Turns a response with a complete body into one that may be a stream.
pub fn whole(answer: Answer) -> Reply {
    answer.map(|body| body.map_err(|never| match never {}).boxed_unsync())
}

pub fn json_reply(value: &Value) -> Reply {
    with_status(StatusCode::OK, value)
}

fn with_status(status: StatusCode, value: &Value) -> Reply {
    whole(serving::answer(status, "application/json", value.to_string()))
}

/// The response to a request that failed: the JSON that `--json` prints for the error.
pub fn failed(error: &Error) -> Reply {
    let mut fields = Map::new();
    fields.insert("kind".to_owned(), json!(error.kind().row().name));
    fields.insert("message".to_owned(), json!(error.message()));
    let context: Map<String, Value> =
        error.context().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    if !context.is_empty() {
        fields.insert("context".to_owned(), Value::Object(context));
    }
    with_status(status_of(error.kind()), &json!({ "error": fields }))
}

fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::AlreadyExists | ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::InvalidArgument => StatusCode::BAD_REQUEST,
        ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
        ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        ErrorKind::Unavailable | ErrorKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::LimitExceeded => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::Corrupt | ErrorKind::ClassFailed | ErrorKind::OutcomeUnknown | ErrorKind::Internal => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// At most `bytes_max` bytes of a value. Text ends between two characters.
pub fn beginning(value: &[u8], bytes_max: usize) -> &[u8] {
    if value.len() <= bytes_max {
        return value;
    }
    let cut = &value[..bytes_max];
    match std::str::from_utf8(cut) {
        Err(error) if error.error_len().is_none() => &cut[..error.valid_up_to()],
        _ => cut,
    }
}
