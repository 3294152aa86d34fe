//! The reasons why a fragment stops without rows.

use super::envelope::Status;
use benthic_core::{Error, ErrorKind};
use datafusion_common::DataFusionError;
use parquet::errors::ParquetError;

pub(super) enum Stop {
    /// The reply gives the reason, and the client can run the fragment itself.
    Answer(Status, String),
    Fail(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Fail(error)
    }
}

impl From<DataFusionError> for Stop {
    fn from(error: DataFusionError) -> Stop {
        let root = error.find_root();
        let status = match root {
            DataFusionError::ResourcesExhausted(_) => Status::TooLarge,
            DataFusionError::NotImplemented(_) | DataFusionError::Plan(_) | DataFusionError::Internal(_) => {
                Status::Unsupported
            }
            DataFusionError::ParquetError(error) if matches!(**error, ParquetError::NYI(_)) => {
                Status::Unsupported
            }
            // A call of a WebAssembly method. The client has more time and memory.
            DataFusionError::External(error)
                if error
                    .downcast_ref::<Error>()
                    .is_some_and(|error| error.kind() == ErrorKind::LimitExceeded) =>
            {
                Status::TooLarge
            }
            _ => Status::Failed,
        };
        Stop::Answer(status, root.message().into_owned())
    }
}

pub(super) fn unsupported(message: impl Into<String>) -> Stop {
    Stop::Answer(Status::Unsupported, message.into())
}
