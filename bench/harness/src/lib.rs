//! The harness of the benchmarks: a description of the machine, clusters, child processes, and
//! reports as Markdown, JSON and a page. Parts that the programs also need are in
//! `benthic_program::measure`.

pub mod cluster;
pub mod machine;
pub mod process;
pub mod report;
pub mod tables;

pub use benthic_program::html;
pub use benthic_program::measure::{Latencies, in_flight, median, round_trip_ms, seconds, start};
pub use benthic_program::noise::Noise;

use benthic_core::{ErrorKind, Pool, Store};
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The result of a benchmark. Errors are text for people.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Prints the error of a benchmark, and returns the exit code.
pub fn exit(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether a section runs: all sections run if the user names none.
pub fn is_wanted<T: PartialEq<U>, U: ?Sized>(named: &[T], section: &U) -> bool {
    named.is_empty() || named.iter().any(|name| name == section)
}

/// Bytes that do not compress, the same in every run.
pub fn noise(len_bytes: usize) -> Vec<u8> {
    Noise::new(0).bytes(len_bytes)
}

/// Sleeps, to let other programs proceed.
#[expect(clippy::disallowed_methods, reason = "no other program says when it is done")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Opens a pool; creates it if it does not exist.
pub async fn pool(store: &dyn Store, name: &str) -> benthic_core::Result<Arc<dyn Pool>> {
    match store.create_pool(name).await {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => store.open_pool(name).await,
    }
}
