//! Signals: after Ctrl-C a command finishes its current object and stops. A second Ctrl-C abandons
//! the command. Signals belong to the process, so their state is the only global state of the
//! program.

use crate::exit::{self, Failure, Outcome};
use benthic_core::{Action, Error, Result};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

static STATUS: LazyLock<watch::Sender<u8>> = LazyLock::new(|| watch::Sender::new(exit::OK));
static IS_ABANDONED: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

/// The exit status for the signal that arrived; [`exit::OK`] before the first signal.
pub fn exit_status() -> u8 {
    *STATUS.borrow()
}

/// True while Ctrl-C goes to the statement that runs at a prompt instead of the program.
static IS_HELD: AtomicBool = AtomicBool::new(false);

/// While this value exists, Ctrl-C does not end the program. An interactive prompt uses it to let
/// Ctrl-C cancel one statement.
pub struct Hold(());

impl Hold {
    /// Takes effect immediately.
    #[expect(clippy::new_without_default, reason = "creating it has a side effect")]
    pub fn new() -> Hold {
        IS_HELD.store(true, Ordering::Relaxed);
        Hold(())
    }

    /// Waits for the next Ctrl-C.
    pub async fn wait(&self) {
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

/// True while the command handles signals itself.
static IS_DEFERRED: AtomicBool = AtomicBool::new(false);

/// While this value exists, signals do not end the program: the command handles them itself.
pub struct Deferral {
    interrupt: Signal,
    terminate: Signal,
}

impl Deferral {
    /// Takes effect immediately.
    ///
    /// # Errors
    /// The kind of the system's error.
    pub fn start() -> Result<Deferral> {
        let listen =
            |kind| signal(kind).map_err(|error| Error::io(Action::Admin, "cannot wait for signals", error));
        let (interrupt, terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        IS_DEFERRED.store(true, Ordering::Relaxed);
        Ok(Deferral { interrupt, terminate })
    }

    /// Waits for the next signal, and returns the exit status for it. Returns at once if a signal
    /// arrived before this value existed.
    pub async fn signal(&mut self) -> u8 {
        if is_set() { exit_status() } else { either(&mut self.interrupt, &mut self.terminate).await }
    }

    /// Lets the signal with this exit status end the program after all.
    pub fn end(self, status: u8) {
        STATUS.send_replace(status);
    }
}

impl Drop for Deferral {
    fn drop(&mut self) {
        IS_DEFERRED.store(false, Ordering::Relaxed);
    }
}

/// Returns true after a signal.
pub fn is_set() -> bool {
    exit_status() != exit::OK
}

/// Fails with [`Failure::Interrupted`] after a signal. Loops call this between objects.
pub fn check() -> Outcome {
    if is_set() { Err(Failure::Interrupted) } else { Ok(()) }
}

/// Waits for a signal. Returns at once if one has arrived.
pub async fn wait() {
    // The sender is a static and is never dropped, so this wait cannot fail.
    let _ = STATUS.subscribe().wait_for(|status| *status != exit::OK).await;
}

/// Returns true after a second signal, or when a signal has not stopped the command in time.
pub fn is_abandoned() -> bool {
    *IS_ABANDONED.borrow()
}

/// Waits until the command is abandoned. Operations in flight then get no more time; the command
/// may only report its progress.
pub async fn wait_until_abandoned() {
    let _ = IS_ABANDONED.subscribe().wait_for(|is_abandoned| *is_abandoned).await;
}

/// Waits for a signal, then for `grace`, the time that the command has to stop. Returns when the
/// caller must abandon the command: after `grace` or on a second signal.
pub async fn watch_signals(grace: impl Future<Output = ()>) {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without handlers the signals keep their default action: they end the process at once.
        return std::future::pending().await;
    };
    let mut status = either(&mut interrupt, &mut terminate).await;
    while IS_DEFERRED.load(Ordering::Relaxed)
        || (status == exit::INTERRUPTED && IS_HELD.load(Ordering::Relaxed))
    {
        status = either(&mut interrupt, &mut terminate).await;
    }
    STATUS.send_replace(status);
    tokio::select! {
        _ = either(&mut interrupt, &mut terminate) => {}
        () = grace => {}
    }
    IS_ABANDONED.send_replace(true);
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) -> u8 {
    tokio::select! {
        _ = interrupt.recv() => exit::INTERRUPTED,
        _ = terminate.recv() => exit::TERMINATED,
    }
}
