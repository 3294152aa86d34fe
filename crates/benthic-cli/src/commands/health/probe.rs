//! Probes a pool: writes, reads and removes a small object, as a client would, and measures the
//! latencies.

use benthic_ceph::health::snapshot::{Probe, ProbeError};
use benthic_core::{Clock, Error, ErrorKind, ObjectId, Pool, Result, Stopwatch, SystemClock};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// Namespace of probe objects. Listings hide it, and nothing else uses it. Objects that `rados ls
/// --all` shows in it are left over from probes that were killed.
const NAMESPACE: &str = "benthic.health";
const SIZE_BYTES: usize = 4 * 1024;
const STEP_LIMIT: Duration = Duration::from_secs(10);

/// Attempts of a probe that another probe on this host interferes with.
const ATTEMPTS: u32 = 3;

pub struct Prober {
    pool: Arc<dyn Pool>,
    object: ObjectId,
    /// Prefix of all payloads of this prober, and of no other's. A host name and a process ID are
    /// not enough: two hosts may have the same name, and processes in containers the same ID.
    mark: String,
    probes: u64,
}

impl Prober {
    /// Creates a prober for this pool. All probes on this host use the same object, so a probe
    /// removes the remains of an earlier one that was killed.
    pub fn new(pool: Arc<dyn Pool>) -> Result<Prober> {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = format!("benthic-health-probe.{}", host.trim());
        let mark = format!("{}.{}.", SystemClock.unix_ns(), std::process::id());
        Ok(Prober { pool, object: ObjectId::in_namespace(NAMESPACE, name)?, mark, probes: 0 })
    }

    /// Probes once. The result contains the error if a step fails. If the object could not be
    /// removed because the cluster did not answer, the next probe removes it.
    pub async fn probe(&mut self) -> Probe {
        self.probes += 1;
        let mut probe =
            Probe { pool: self.pool.name().to_owned(), write_ms: None, read_ms: None, error: None };
        let mut result = self.steps(&mut probe).await;
        for _ in 1..ATTEMPTS {
            let between = [ErrorKind::Busy, ErrorKind::NotFound];
            if !matches!(&result, Err(("read", error)) if between.contains(&error.kind())) {
                break;
            }
            result = self.steps(&mut probe).await;
        }
        if let Err((step, error)) = result {
            let message = format!("{} object={}", error.message(), self.object.name());
            let of_cluster = is_of_cluster(error.kind());
            probe.error = Some(ProbeError { step: step.to_owned(), message, of_cluster });
        }
        probe
    }

    async fn steps(&self, probe: &mut Probe) -> Result<(), (&'static str, Error)> {
        let written = self.payload();
        let began = Stopwatch::start(&SystemClock);
        with_limit(self.pool.write_full(&self.object, written.clone()))
            .await
            .map_err(|error| ("write", error))?;
        probe.write_ms = Some(ms(began));
        let began = Stopwatch::start(&SystemClock);
        let read = with_limit(self.pool.read_range(&self.object, 0, SIZE_BYTES as u64)).await;
        let read = read.and_then(|read| {
            probe.read_ms = Some(ms(began));
            if read == written {
                Ok(())
            } else if is_of_another(&read, &self.mark) {
                Err(Error::busy("another probe from a host of this name interfered repeatedly"))
            } else {
                Err(Error::corrupt("the bytes read differ from the bytes written"))
            }
        });
        let removed = with_limit(self.pool.remove(&self.object)).await;
        read.map_err(|error| ("read", error))?;
        match removed {
            // Another probe on this host removed it.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|error| ("remove", error)),
        }
    }

    /// The payload of the current probe. Every probe writes another one, so that old data cannot
    /// pass for new data.
    fn payload(&self) -> Bytes {
        pad(format!("{}{};", self.mark, self.probes).as_bytes())
    }
}

/// The result for a pool that could not be opened, or whose OSDs refuse this client.
pub fn not_opened(pool: &str, error: &Error) -> Probe {
    let of_cluster = is_of_cluster(error.kind());
    let error = ProbeError { step: "open".to_owned(), message: error.message().to_owned(), of_cluster };
    Probe { pool: pool.to_owned(), write_ms: None, read_ms: None, error: Some(error) }
}

/// Returns true if an error is a symptom of the cluster's health. Missing permissions, a missing
/// pool and interference by other probes are not.
fn is_of_cluster(error: ErrorKind) -> bool {
    let others = [ErrorKind::PermissionDenied, ErrorKind::NotFound, ErrorKind::Unsupported, ErrorKind::Busy];
    !others.contains(&error)
}

fn pad(mark: &[u8]) -> Bytes {
    mark.iter().copied().cycle().take(SIZE_BYTES).collect()
}

/// Returns true if the data are a complete payload of another prober.
fn is_of_another(read: &[u8], own_mark: &str) -> bool {
    let mark = read.iter().position(|byte| *byte == b';').map(|end| &read[..=end]);
    mark.is_some_and(|mark| !mark.starts_with(own_mark.as_bytes()) && pad(mark) == *read)
}

async fn with_limit<T>(step: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(STEP_LIMIT, step).await {
        Ok(done) => done,
        Err(late) => Err(Error::unavailable("no OSD answered in time")
            .with_source(late)
            .with("limit_s", STEP_LIMIT.as_secs())),
    }
}

fn ms(began: Stopwatch<'_>) -> f64 {
    1_000.0 * began.elapsed().as_secs_f64()
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
