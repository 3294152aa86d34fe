//! What Benthic's programs share, so that all of them behave alike.
//!
//! [`store`] opens a store from its URI. [`session`] is what a command works with. A program with a
//! command line takes the feature `cli`: its `main` parses arguments with `Global` among them and
//! hands its command to `run_to_end`. The Python package takes neither.

#[cfg(feature = "cli")]
mod command_line;
pub mod exit;
pub mod html;
pub mod interrupt;
pub mod local;
pub mod measure;
pub mod noise;
pub mod output;
#[cfg(feature = "cli")]
pub mod progress;
pub mod session;
pub mod store;
pub mod transfer;
pub mod units;
pub mod uri;

use benthic_core::WORKER_THREAD;
#[cfg(feature = "cli")]
pub use command_line::{Global, refuse, run_to_end};

/// Keeps panics of worker threads off stderr: the operation fails with an error, and the panic
/// itself goes to the log.
pub fn log_panics_of_workers() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() == Some(WORKER_THREAD) {
            tracing::debug!("{panic}");
        } else {
            default(panic);
        }
    }));
}
