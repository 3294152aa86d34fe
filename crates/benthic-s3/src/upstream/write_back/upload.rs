//! Sends pending changes to the upstream: the changes of a key in their order, several keys at the
//! same time, with back-off after failures.
//!
//! Every failure is retried, also a refusal: the change is acknowledged, and the operator can
//! repair the permission, the quota or the bucket at the upstream. A change whose answer was lost
//! is sent again with the same data.

use super::file::{BLOCK_BYTES, read_block};
use super::status::{LastError, write_last_error};
use super::{Pending, Signals, WriteBack, file, set_aside};
use crate::upstream::client::{Call, Payload};
use crate::upstream::head::with_attributes;
use benthic_core::{Error, ErrorKind, OptionalExtension, Result};
use bytes::Bytes;
use hyper::Method;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::task::JoinSet;

/// Uploads at the same time.
const UPLOADS_MAX: usize = 8;
/// Minimum time between two notes of an error for operators.
const NOTE_EVERY_MS: u64 = 1_000;
/// How often the uploads look for changes whose time has come.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Sends changes until the gateway ends.
pub(super) async fn run(write_back: Weak<WriteBack>, signals: Arc<Signals>, look_every: Duration) {
    let mut running = JoinSet::new();
    loop {
        {
            let Some(write_back) = write_back.upgrade() else { return };
            while running.len() < UPLOADS_MAX
                && let Some(pending) = write_back.start_next()
            {
                let write_back = Arc::clone(&write_back);
                running.spawn(async move { write_back.send_and_settle(pending).await });
            }
        }
        tokio::select! {
            Some(_) = running.join_next(), if !running.is_empty() => {}
            () = signals.added.notified(), if running.len() < UPLOADS_MAX => {}
            () = tokio::time::sleep(look_every) => {}
            () = signals.stopping.notified() => {
                running.shutdown().await;
                return;
            }
        }
    }
}

impl WriteBack {
    /// The next change that may be sent now: no other change of its key is before it.
    fn start_next(&self) -> Option<Arc<Pending>> {
        let now_ms = self.environment.clock.monotonic_ms();
        let mut state = self.state.lock();
        if now_ms < state.paused_until_ms {
            return None;
        }
        state.start_next(now_ms)
    }

    async fn send_and_settle(self: &Arc<Self>, pending: Arc<Pending>) {
        let sent = if pending.is_sent.load(Relaxed) { Ok(()) } else { self.send(&pending).await };
        let settled = match sent {
            Ok(()) => {
                // If its file cannot be removed now, only the removal is repeated.
                pending.is_sent.store(true, Relaxed);
                self.remove(&pending).await
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let (directory, name, metrics) =
                    (self.directory.clone(), pending.name(), Arc::clone(&self.metrics));
                let aside = self.blocking(move || set_aside(&directory, &name, &metrics, &error)).await;
                if aside.is_ok() {
                    self.forget(&pending);
                }
                aside
            }
            Err(error) => Err(error),
        };
        match &settled {
            Ok(()) => self.note_success(),
            Err(error) => self.note_failure(&pending, error),
        }
        self.state.lock().end(&pending.key());
        self.note_state();
        self.settled.notify_waiters();
    }

    async fn remove(&self, pending: &Pending) -> Result<()> {
        let (directory, name) = (self.directory.clone(), pending.name());
        let Pending { record, .. } = pending;
        self.blocks.forget(&record.bucket, &record.key, None).await;
        self.blocking(move || file::remove(&directory, &name)).await?;
        self.forget(pending);
        self.metrics.written_back.fetch_add(1, Relaxed);
        Ok(())
    }

    fn forget(&self, pending: &Pending) {
        let now_ms = self.environment.clock.monotonic_ms();
        self.state.lock().remove(pending, now_ms);
    }

    /// Notes that a change is settled. The last failure is over when no other change has failed.
    fn note_success(&self) {
        let _noting = self.noting.lock();
        let mut state = self.state.lock();
        if state.by_seq.is_empty() || !self.blocks.client.is_down() {
            state.paused_until_ms = 0;
        }
        let is_over = state.failing == 0 && state.paused_until_ms == 0;
        if is_over && self.metrics.pending_failing.swap(0, Relaxed) == 1 {
            state.noted_ms = 0;
            drop(state);
            write_last_error(&self.directory, None);
        }
    }

    fn note_failure(&self, pending: &Pending, error: &Error) {
        self.metrics.failed_write_backs.fetch_add(1, Relaxed);
        let Pending { record, .. } = pending;
        let is_sent = pending.is_sent.load(Relaxed);
        let is_down = self.blocks.client.is_down() && !is_sent;
        if is_sent {
            tracing::warn!(%error, bucket = record.bucket, key = record.key, "a change is at the upstream, but its file cannot be removed");
        } else if is_down {
            tracing::debug!(%error, "a change cannot go to the upstream yet");
        } else {
            tracing::warn!(%error, bucket = record.bucket, key = record.key, "the upstream does not take a change; it is sent again");
        }
        let base = u64::try_from(self.blocks.client.retry_after().as_millis()).unwrap_or(1_000);
        let now_ms = self.environment.clock.monotonic_ms();
        let _noting = self.noting.lock();
        let mut state = self.state.lock();
        self.metrics.pending_failing.store(1, Relaxed);
        if is_down {
            // That says nothing about this change.
            state.paused_until_ms = now_ms.saturating_add(base);
        } else {
            state.retry_later(&pending.key(), now_ms, base);
        }
        if state.noted_ms > 0 && now_ms.saturating_sub(state.noted_ms) < NOTE_EVERY_MS {
            return;
        }
        state.noted_ms = now_ms.max(1);
        drop(state);
        let last = LastError {
            at_ms: self.environment.unix_ms(),
            bucket: record.bucket.clone(),
            key: record.key.clone(),
            error: error.to_string(),
        };
        write_last_error(&self.directory, Some(&last));
    }

    /// Makes a change at the upstream, after a check of all its data.
    async fn send(self: &Arc<Self>, pending: &Arc<Pending>) -> Result<()> {
        let Pending { record, .. } = pending.as_ref();
        if record.deletes {
            let call = Call::new(Method::DELETE, &record.bucket, &record.key);
            // Without the object, the deletion is done. Without the bucket, too.
            return self.blocks.client.call(call).await.optional().map(drop);
        }
        // Without the change itself, which keeps the cache open: an upload that ends early does not
        // wait for the check.
        let (checked, path) = (record.clone(), self.directory.join(pending.name()));
        let file = self
            .blocking(move || {
                let file = std::fs::File::open(path).map_err(file::unreadable)?;
                let blocks = checked.size_bytes.div_ceil(BLOCK_BYTES);
                (0..blocks).try_for_each(|index| read_block(&file, &checked, index).map(drop))?;
                Ok(file)
            })
            .await?;
        let call = Call::new(Method::PUT, &record.bucket, &record.key);
        let mut call = with_attributes(call, &record.attributes(), true)?;
        call.payload = match record.size_bytes {
            0 => Payload::Memory(Bytes::new()),
            len_bytes => Payload::File(Arc::new(file), len_bytes),
        };
        // The upstream compares it with the data that it gets.
        call.sha256 = Some(record.sha256.clone());
        self.blocks.client.call(call).await.map(drop)
    }
}
