//! Waits for the store, and runs operations that nobody waits for yet.

use benthic_core::{Action, Error, Result};
use std::process;
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

/// The threads of this process, and the process that started them.
static RUNTIME: OnceLock<(u32, Runtime)> = OnceLock::new();

/// The threads on which operations run.
///
/// # Errors
/// `InvalidArgument` in a process that was forked after its parent used a store: it has none of the
/// parent's threads. `Unavailable` or another kind if the system gives no threads.
pub fn runtime() -> Result<&'static Runtime> {
    let (pid, runtime) = match RUNTIME.get() {
        Some(started) => started,
        None => {
            let runtime = Builder::new_multi_thread().thread_name("benthic-c").enable_all().build();
            let runtime = runtime.map_err(|error| Error::io(Action::Admin, "cannot start threads", error))?;
            RUNTIME.get_or_init(|| (process::id(), runtime))
        }
    };
    if *pid != process::id() {
        let message = "this process was forked after its parent used a store; open stores after the fork, or run \
                       another program";
        return Err(Error::invalid_argument(message));
    }
    Ok(runtime)
}

/// Runs `work` to its end on this thread.
///
/// # Errors
/// Those of `work` and of [`runtime`].
pub fn wait<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    runtime()?.block_on(work)
}
