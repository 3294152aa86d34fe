//! The layer that Benthic's programs share, so that all of them behave alike.
//!
//! [`store`] opens a store from its URI. [`session`] holds the store and the output of a command. A
//! program with a command line enables the feature `cli`: its `main` passes its verbs to
//! `run_verbs`. The Python package does not enable that feature, so it does not link clap.

#[cfg(feature = "tls")]
pub mod client_timeout;
pub mod collect;
#[cfg(feature = "cli")]
mod command_line;
#[cfg(feature = "cli")]
pub mod confirm;
pub mod copy;
#[cfg(feature = "cli")]
pub mod definition;
pub mod deploy;
pub mod exec;
pub mod exit;
pub mod external;
pub mod html;
pub mod interrupt;
pub mod local;
#[cfg(feature = "cli")]
mod logging;
#[cfg(feature = "cli")]
pub mod man;
pub mod measure;
pub mod mounts;
pub mod noise;
pub mod output;
#[cfg(feature = "cli")]
pub mod progress;
pub mod reduce;
#[cfg(all(feature = "cli", feature = "tls"))]
pub mod serving;
pub mod session;
pub mod store;
#[cfg(feature = "tls")]
pub mod tls;
pub mod transfer;
pub mod units;
pub mod uri;
#[cfg(feature = "cli")]
mod waiting;

use benthic_core::WORKER_THREAD;
#[cfg(feature = "cli")]
pub use command_line::{Global, refuse, run_to_end, run_verbs, verbs, with_usage};

/// Installs a panic hook that keeps panics of worker threads off stderr. The operation fails with
/// an error, and the hook logs the panic at debug level. With `into_log`, other panics go to the
/// log, because stderr takes only lines of JSON.
pub fn log_panics(into_log: bool) {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() == Some(WORKER_THREAD) {
            tracing::debug!("{panic}");
        } else if into_log {
            tracing::error!("{panic}");
        } else {
            default(panic);
        }
    }));
}
