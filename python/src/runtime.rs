//! Waits for the store with the interpreter lock released.

use crate::errors::to_exception;
use benthic_core::{Action, Error, Result};
use parking_lot::Mutex;
use pyo3::prelude::{PyResult, Python};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Interval at which a waiting thread checks for Ctrl-C.
const SIGNALS_MS: u64 = 50;

/// Maximum depth of nested forks that all use a store.
const PROCESSES_MAX: usize = 64;

/// The runtime of one process. A forked process inherits none of its parent's threads, and a mutex
/// that another thread held stays locked forever. So a child reads only the pid of its parent's
/// entry.
struct Process {
    /// 0 if no process uses the entry yet.
    pid: AtomicU32,
    runtime: Mutex<Option<Arc<Runtime>>>,
}

/// One entry for each ancestor process that used a store, then one for this process.
static PROCESSES: [Process; PROCESSES_MAX] =
    [const { Process { pid: AtomicU32::new(0), runtime: Mutex::new(None) } }; PROCESSES_MAX];

fn runtime() -> Result<Arc<Runtime>> {
    let pid = process::id();
    let is_own = |process: &&Process| {
        let claimed = process.pid.compare_exchange(0, pid, Ordering::Relaxed, Ordering::Relaxed);
        claimed.is_ok() || claimed == Err(pid)
    };
    let Some(process) = PROCESSES.iter().find(is_own) else {
        let error = Error::limit_exceeded("too many nested forks; start a new process");
        return Err(error.with("processes_max", PROCESSES_MAX));
    };
    let mut made = process.runtime.lock();
    if let Some(runtime) = &*made {
        return Ok(Arc::clone(runtime));
    }
    let runtime = Builder::new_multi_thread().thread_name("benthic-python").enable_all().build();
    let runtime = runtime.map_err(|error| Error::io(Action::Admin, "cannot start threads", error))?;
    Ok(Arc::clone(made.insert(Arc::new(runtime))))
}

/// Runs `work` to its end with the interpreter lock released. Ctrl-C drops the work and raises its
/// exception within `SIGNALS_MS`.
pub fn wait<T: Send>(py: Python<'_>, work: impl AsyncFnOnce() -> Result<T> + Send) -> PyResult<T> {
    py.detach(|| {
        let runtime = runtime().map_err(|error| to_exception(&error))?;
        runtime.block_on(async {
            let mut outcome = std::pin::pin!(work());
            loop {
                tokio::select! {
                    biased;
                    outcome = &mut outcome => return outcome.map_err(|error| to_exception(&error)),
                    () = tokio::time::sleep(Duration::from_millis(SIGNALS_MS)) => {
                        Python::attach(|py| py.check_signals())?;
                    }
                }
            }
        })
    })
}
