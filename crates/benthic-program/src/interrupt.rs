//! Ctrl-C: a command finishes the object that it is at and stops. Signals belong to the process, so their
//! state is all that is global in this program.

use crate::exit::{self, Failure, Outcome};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How long a command may take to stop by itself; a second signal ends the wait.
const GRACE: Duration = Duration::from_secs(10);

/// The exit status that the signal asks for; `OK` while there was none.
static STATUS: LazyLock<watch::Sender<u8>> = LazyLock::new(|| watch::Sender::new(exit::OK));

/// The exit status after the signal that came.
pub fn exit_status() -> u8 {
    *STATUS.borrow()
}

/// Whether Ctrl-C is for what runs at a prompt, and not for the program.
static IS_HELD: AtomicBool = AtomicBool::new(false);

/// While it lives, Ctrl-C does not end the program.
pub struct Hold(());

impl Hold {
    /// From now on.
    #[expect(clippy::new_without_default, reason = "it is not a value but an act")]
    pub fn new() -> Hold {
        IS_HELD.store(true, Ordering::Relaxed);
        Hold(())
    }

    /// Returns after Ctrl-C.
    pub async fn interrupted(&self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        IS_HELD.store(false, Ordering::Relaxed);
    }
}

/// Whether a signal came.
pub fn is_set() -> bool {
    exit_status() != exit::OK
}

/// Fails after a signal. Loops call this between objects.
pub fn check() -> Outcome {
    if is_set() { Err(Failure::Interrupted) } else { Ok(()) }
}

/// Returns after a signal.
pub async fn wait() {
    // The sender is a static: it is never dropped, so waiting cannot fail.
    let _ = STATUS.subscribe().wait_for(|status| *status != exit::OK).await;
}

/// Watches for signals; returns when the command must be given up.
pub async fn watch_signals() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without handlers the signals keep their default: the process ends at once.
        return std::future::pending().await;
    };
    let mut status = either(&mut interrupt, &mut terminate).await;
    while status == exit::INTERRUPTED && IS_HELD.load(Ordering::Relaxed) {
        status = either(&mut interrupt, &mut terminate).await;
    }
    STATUS.send_replace(status);
    let _ = tokio::time::timeout(GRACE, either(&mut interrupt, &mut terminate)).await;
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) -> u8 {
    tokio::select! {
        _ = interrupt.recv() => exit::INTERRUPTED,
        _ = terminate.recv() => exit::TERMINATED,
    }
}
