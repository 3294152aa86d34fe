//! The embedded engine: a store in one directory on one machine. Also the memory engine for tests.
//!
//! The path of an operation: [`EmbeddedStore`] → (a socket, if another process owns the directory)
//! → `Workers` → `store::Engine` → `execute` runs its steps on a `store::Object` → `store::layout`
//! writes new data to free extents → `store::Commit` adds it to the log and acknowledges it.

#[cfg(test)]
mod corpus_tests;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod decoders;
mod embedded;
mod execute;
mod listing;
mod memory;
mod options;
mod owner_process;
mod salvage;
mod socket;
mod store;
mod workers;

pub use embedded::EmbeddedStore;
pub use memory::MemStore;
pub use options::Options;
pub use owner_process::wait_for_owner;
pub use salvage::{SalvageReport, salvage};

// The fuzz targets also run in the unit tests. They refer to this crate by its external name.
#[cfg(test)]
extern crate self as benthic_embedded;

use benthic_core::LogLevel;

fn log_from_class(level: LogLevel, message: &str) {
    match level {
        LogLevel::Debug => tracing::debug!(target: "benthic::class", "{message}"),
        LogLevel::Info => tracing::info!(target: "benthic::class", "{message}"),
        // The caller of the method gets its error, so the log line is only extra detail.
        LogLevel::Error => tracing::info!(target: "benthic::class", "error: {message}"),
    }
}
