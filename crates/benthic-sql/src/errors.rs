//! Converts errors between the query engine and Benthic.

use arrow::error::ArrowError;
use benthic_core::{Error, ErrorKind};
/// [`from_datafusion`] is its inverse.
pub use benthic_fragment::wasm::external;
use datafusion::common::DataFusionError;
use parquet::errors::ParquetError;

/// Converts an error of the query engine. If it carries one of our errors, returns that one, else
/// its root cause.
pub fn from_datafusion(error: &DataFusionError) -> Error {
    if let Some(ours) = benthic_error(error) {
        return plain(ours);
    }
    let root = error.find_root();
    let (kind, message) = match root {
        DataFusionError::SQL(error, _) => (ErrorKind::InvalidArgument, error.to_string()),
        DataFusionError::Internal(message) => (ErrorKind::Internal, message.clone()),
        DataFusionError::ResourcesExhausted(message) => (ErrorKind::LimitExceeded, message.clone()),
        DataFusionError::NotImplemented(message) => (ErrorKind::Unsupported, message.clone()),
        DataFusionError::ParquetError(error) => match error.as_ref() {
            ParquetError::NYI(message) => (ErrorKind::Unsupported, message.clone()),
            _ => (ErrorKind::Corrupt, error.to_string()),
        },
        DataFusionError::ArrowError(error, _) => (kind_of(error), error.to_string()),
        DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::Configuration(_)
        | DataFusionError::Execution(_) => (ErrorKind::InvalidArgument, root.message().into_owned()),
        other => (ErrorKind::Internal, other.message().into_owned()),
    };
    // An error message is one line.
    Error::new(kind, message.replace('\n', "; "))
}

/// The error without its operation, because the user wrote SQL and no operation.
pub fn plain(error: &Error) -> Error {
    let plain = Error::new(error.kind(), error.message());
    let plain = error.context().fold(plain, |plain, (key, value)| plain.with(key, value));
    match std::error::Error::source(error) {
        Some(source) => plain.with_source(source.to_string()),
        None => plain,
    }
}

/// Arrow errors are caused either by the query, such as a division by zero, or by the file.
fn kind_of(error: &ArrowError) -> ErrorKind {
    match error {
        ArrowError::ParquetError(_) | ArrowError::IpcError(_) | ArrowError::SchemaError(_) => {
            ErrorKind::Corrupt
        }
        ArrowError::NotYetImplemented(_) => ErrorKind::Unsupported,
        ArrowError::MemoryError(_) => ErrorKind::LimitExceeded,
        _ => ErrorKind::InvalidArgument,
    }
}

fn benthic_error(error: &DataFusionError) -> Option<&Error> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(ours) = error.downcast_ref::<Error>() {
            return Some(ours);
        }
        cause = error.source();
    }
    None
}
