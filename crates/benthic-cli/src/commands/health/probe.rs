//! A small object that is written, read and removed: what a client feels.

use benthic_ceph::health::snapshot::{Probe, ProbeError};
use benthic_core::{Error, ErrorKind, ObjectId, Pool, Result};
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Hidden from listings, and no part of anything else.
const NAMESPACE: &str = "benthic.health";
const SIZE_BYTES: usize = 4 * 1024;
/// How long each step may take.
const STEP_LIMIT: Duration = Duration::from_secs(10);

/// Probes one pool.
pub struct Prober {
    pool: Arc<dyn Pool>,
    object: ObjectId,
    probes: u64,
}

impl Prober {
    /// Probes this pool, with an object of this process.
    ///
    /// # Errors
    /// None that can be met: the name is well-formed.
    pub fn new(pool: Arc<dyn Pool>) -> Result<Prober> {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = format!("probe.{}.{}", host.trim(), std::process::id());
        Ok(Prober { pool, object: ObjectId::in_namespace(NAMESPACE, name)?, probes: 0 })
    }

    /// Probes once. What goes wrong is part of the answer. An object that is left because the cluster did not answer is the
    /// next probe's.
    pub async fn probe(&mut self) -> Probe {
        self.probes += 1;
        let mut probe =
            Probe { pool: self.pool.name().to_owned(), write_ms: None, read_ms: None, error: None };
        if let Err((step, error)) = self.steps(&mut probe).await {
            let message = format!("{} object={:?}", error.message(), self.object.name());
            let refused = [ErrorKind::PermissionDenied, ErrorKind::NotFound, ErrorKind::Unsupported];
            let of_cluster = !refused.contains(&error.kind());
            probe.error = Some(ProbeError { step: step.to_owned(), message, of_cluster });
        }
        probe
    }

    async fn steps(&self, probe: &mut Probe) -> Result<(), (&'static str, Error)> {
        let written = self.payload();
        let began = Instant::now();
        limited(self.pool.write_full(&self.object, written.clone()))
            .await
            .map_err(|error| ("write", error))?;
        probe.write_ms = Some(ms(began));
        let began = Instant::now();
        let read = limited(self.pool.read_range(&self.object, 0, SIZE_BYTES as u64)).await;
        let read = read.and_then(|read| {
            probe.read_ms = Some(ms(began));
            let message = "other bytes came back than were written";
            if read == written { Ok(()) } else { Err(Error::new(ErrorKind::Corrupt, message)) }
        });
        let removed = limited(self.pool.remove(&self.object)).await;
        read.map_err(|error| ("read", error))?;
        removed.map_err(|error| ("remove", error))
    }

    /// No two probes write the same, so that an old one is not taken for the new.
    fn payload(&self) -> Bytes {
        let mark = format!("{}.{};", std::process::id(), self.probes);
        mark.bytes().cycle().take(SIZE_BYTES).collect()
    }
}

async fn limited<T>(step: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(STEP_LIMIT, step).await {
        Ok(done) => done,
        Err(late) => Err(Error::new(ErrorKind::Unavailable, "no OSD answered in time")
            .with_source(late)
            .with("limit_s", STEP_LIMIT.as_secs())),
    }
}

fn ms(began: Instant) -> f64 {
    1_000.0 * began.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::Prober;
    use benthic_core::{ListRequest, Namespaces, Store};
    use benthic_embedded::{MemStore, Options};

    #[tokio::test]
    async fn a_probe_leaves_nothing_behind() {
        let store = MemStore::new(Options::default());
        store.create_pool("p").await.unwrap();
        let pool = store.open_pool("p").await.unwrap();
        let mut prober = Prober::new(pool.clone()).unwrap();
        for _ in 0..2 {
            let probe = prober.probe().await;
            assert!(
                probe.error.is_none() && probe.write_ms.is_some() && probe.read_ms.is_some(),
                "{probe:?}"
            );
        }
        let request = ListRequest { namespaces: Namespaces::All, ..ListRequest::default() };
        assert!(pool.list(request).await.unwrap().objects.is_empty());
    }

    #[tokio::test]
    async fn a_pool_that_is_gone_is_no_outage() {
        let store = MemStore::new(Options::default());
        store.create_pool("p").await.unwrap();
        let mut prober = Prober::new(store.open_pool("p").await.unwrap()).unwrap();
        store.remove_pool("p").await.unwrap();
        let error = prober.probe().await.error.unwrap();
        assert_eq!((error.step.as_str(), error.of_cluster), ("write", false));
    }
}
