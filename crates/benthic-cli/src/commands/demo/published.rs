//! The experiment in its published form: stat, read, MD5 and set attribute on one object, a
//! thousand times. It is that of the book Mastering Ceph (Nick Fisk, Packt 2017, chapter 6).

use super::{Mismatch, NAMESPACE};
use benthic_classes::digest::{Algorithm, Hasher, client};
use benthic_core::{Error, Meter, ObjectAddress, ObjectId, Pool, Result, Stopwatch, Store, WriteOp, limits};
use benthic_program::exit::Outcome;
use benthic_program::interrupt;
use benthic_program::measure::{seconds, start};
use benthic_program::noise::Noise;
use bytes::Bytes;
use serde::Serialize;
use std::sync::Arc;

/// Bytes that one call may hash, so that it ends well before a method's deadline on slow machines,
/// too.
const CALL_BYTES_MAX: u64 = 256 * 1024 * 1024;
const CALL_REPEAT_MAX: u64 = 10_000;

/// The three measurements for one object size.
#[derive(Serialize)]
pub struct Published {
    pub size_bytes: u64,
    /// All repetitions beside the object.
    pub in_storage: Run,
    /// Number of calls that this took. Each call commits its attribute once.
    #[serde(rename = "calls_in_storage")]
    pub calls: u64,
    /// All repetitions at the client. Every attribute is durable before the next repetition.
    #[serde(rename = "client_durable")]
    pub durable: Run,
    /// All repetitions at the client, with buffered attributes and one flush at the end. `None` on
    /// Ceph, where every write is durable.
    #[serde(rename = "client_buffered")]
    pub buffered: Option<Run>,
}

#[derive(Serialize)]
pub struct Run {
    pub seconds: f64,
    pub round_trips: u64,
    /// Payload that crossed the engine's boundary in both directions.
    pub crossed_bytes: u64,
}

impl Run {
    fn new(stopwatch: Stopwatch, meter: &Meter) -> Run {
        Run {
            seconds: seconds(stopwatch),
            round_trips: meter.operations(),
            crossed_bytes: meter.sent_bytes() + meter.received_bytes(),
        }
    }
}

impl Published {
    /// The runs at the client, with their labels.
    pub fn at_client(&self) -> impl Iterator<Item = (&'static str, &Run)> {
        let durable = if self.buffered.is_some() { "client, durable" } else { "client" };
        let buffered = self.buffered.as_ref().map(|run| ("client, buffered", run));
        [(durable, &self.durable)].into_iter().chain(buffered)
    }
}

/// Checks that one operation can read an object of each size.
pub fn check_sizes(sizes: &[u64]) -> Result<()> {
    match sizes.iter().find(|size_bytes| **size_bytes > limits::OPERATION_BYTES_MAX) {
        None => Ok(()),
        Some(size_bytes) => Err(Error::limit_exceeded("--object-size is at most 64MiB: one read fetches it")
            .with("size_bytes", size_bytes)),
    }
}

/// Runs the experiment for one object size; with `buffered`, also with buffered attributes. Adds
/// wrong digests to `mismatches`.
pub async fn run(
    store: &dyn Store,
    pool: &Arc<dyn Pool>,
    size_bytes: u64,
    repeat: u32,
    buffered: bool,
    mismatches: &mut Vec<Mismatch>,
) -> Outcome<Published> {
    let object = ObjectId::in_namespace(NAMESPACE, format!("published-{size_bytes}"))?;
    let data = Bytes::from(Noise::new(size_bytes).bytes(usize::try_from(size_bytes).unwrap_or(usize::MAX)));
    let expected = md5(&data);
    pool.write_full(&object, data).await?;

    let call_repeat = (CALL_BYTES_MAX / size_bytes.max(1)).clamp(1, CALL_REPEAT_MAX);
    let (mut left, mut calls, mut in_storage) = (u64::from(repeat), 0, String::new());
    let meter = Arc::new(Meter::default());
    let metered = meter.pool(Arc::clone(pool));
    let stopwatch = start();
    while left > 0 {
        interrupt::check()?;
        let now = left.min(call_repeat);
        let now_repeat = u32::try_from(now).unwrap_or(u32::MAX);
        in_storage = client::store(&*metered, &object, Algorithm::Md5, now_repeat).await?;
        left -= now;
        calls += 1;
    }
    let storage_run = Run::new(stopwatch, &meter);

    let (durable, by_durable) = at_client(store, pool, &object, repeat, false).await?;
    let (buffered, by_buffered) = match buffered {
        true => at_client(store, pool, &object, repeat, true)
            .await
            .map(|(run, digest)| (Some(run), Some(digest)))?,
        false => (None, None),
    };
    for at_client in [Some(by_durable), by_buffered].into_iter().flatten() {
        if in_storage != expected || at_client != expected {
            let object = ObjectAddress { pool: pool.name().to_owned(), object: object.clone() }.to_string();
            let (in_storage, expected) = (in_storage.clone(), expected.clone());
            mismatches.push(Mismatch { object, in_storage, at_client, expected });
        }
    }
    Ok(Published { size_bytes, in_storage: storage_run, calls, durable, buffered })
}

/// Runs all repetitions at the client. Returns the cost and the digest of the repetitions.
async fn at_client(
    store: &dyn Store,
    pool: &Arc<dyn Pool>,
    object: &ObjectId,
    repeat: u32,
    buffered: bool,
) -> Outcome<(Run, String)> {
    let meter = Arc::new(Meter::default());
    let metered = meter.pool(Arc::clone(pool));
    let stopwatch = start();
    let mut digest = once(&*metered, object, buffered).await?;
    for _ in 1..repeat {
        interrupt::check()?;
        let next = once(&*metered, object, buffered).await?;
        if next != digest {
            digest = format!("{digest}, then {next}");
            break;
        }
    }
    if buffered {
        store.flush().await?;
    }
    Ok((Run::new(stopwatch, &meter), digest))
}

async fn once(pool: &dyn Pool, object: &ObjectId, buffered: bool) -> Result<String> {
    let (stat, _) = pool.stat(object).await?;
    let digest = md5(&pool.read_range(object, 0, stat.size_bytes).await?);
    let op = WriteOp::new().set_xattr(Algorithm::Md5.xattr(), digest.clone());
    pool.write(object, if buffered { op.buffered() } else { op }).await?;
    Ok(digest)
}

fn md5(data: &[u8]) -> String {
    let mut hasher = Hasher::new(Algorithm::Md5);
    hasher.update(data);
    hasher.finish()
}
