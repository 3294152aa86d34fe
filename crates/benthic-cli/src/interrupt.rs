//! Ctrl-C: a command finishes the object that it is at and stops. Signals belong to the process, so their
//! state is the one global of this program.

use crate::exit::{Failure, Outcome};
use std::sync::LazyLock;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How long a command may take to stop by itself; a second signal ends the wait.
const GRACE: Duration = Duration::from_secs(10);

static INTERRUPTED: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

/// Whether a signal came.
pub fn is_set() -> bool {
    *INTERRUPTED.borrow()
}

/// Fails after a signal. Loops call this between objects.
pub fn check() -> Outcome {
    if is_set() { Err(Failure::Interrupted) } else { Ok(()) }
}

/// Returns after a signal.
pub async fn wait() {
    // The sender is a static: it is never dropped, so waiting cannot fail.
    let _ = INTERRUPTED.subscribe().wait_for(|set| *set).await;
}

/// Watches for signals; returns when the command must be given up.
pub async fn watch_signals() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without handlers the signals keep their default: the process ends at once.
        return std::future::pending().await;
    };
    either(&mut interrupt, &mut terminate).await;
    INTERRUPTED.send_replace(true);
    let _ = tokio::time::timeout(GRACE, either(&mut interrupt, &mut terminate)).await;
}

async fn either(first: &mut Signal, second: &mut Signal) {
    tokio::select! {
        _ = first.recv() => {}
        _ = second.recv() => {}
    }
}
