//! Digests every object of a pool in storage, as `benthic exec --all` does, compared with a client
//! that reads all data and hashes it with the same code on all cores. The client stores no digests.
//! Storage is measured both with and without storing them in an attribute.

use bench_harness::{Outcome, median, noise, pool, seconds, start};
use benthic_classes::digest::{Algorithm, client};
use benthic_core::{ObjectId, Pool, Store};
use futures::future;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use std::sync::Arc;

const OBJECTS: usize = 512;
const OBJECT_BYTES: usize = 1 << 20;
const IN_FLIGHT: [usize; 4] = [1, 4, 16, 64];

#[derive(Serialize)]
pub struct PoolDigest {
    pub objects: usize,
    pub object_bytes: usize,
    pub rows: Vec<Row>,
}

#[derive(Serialize)]
pub struct Row {
    pub in_flight: usize,
    /// `digest.md5`, then a read of the attribute.
    pub kept_s: f64,
    /// `digest.compute`.
    pub computed_s: f64,
    pub client_s: f64,
}

#[derive(Clone, Copy)]
enum Method {
    Kept,
    Computed,
    Client,
}

impl PoolDigest {
    pub fn mib_per_s(&self, seconds: f64) -> f64 {
        (self.objects * (OBJECT_BYTES >> 20)) as f64 / seconds
    }
}

pub async fn run(store: &dyn Store, rounds: usize, quick: bool) -> Outcome<PoolDigest> {
    let pool = pool(store, "pool-digest").await?;
    let count = if quick { OBJECTS / 16 } else { OBJECTS };
    eprintln!("whole-pool digest: {count} objects of {OBJECT_BYTES} bytes, {rounds} rounds");
    let objects: Vec<ObjectId> =
        (0..count).map(|index| ObjectId::new(format!("object-{index:05}"))).collect::<Result<_, _>>()?;
    let data = noise(OBJECT_BYTES);
    stream::iter(&objects)
        .map(|object| pool.write_full(object, data.clone()))
        .buffer_unordered(16)
        .try_for_each(|_| future::ready(Ok(())))
        .await?;
    let mut rows = Vec::new();
    for in_flight in IN_FLIGHT {
        let (mut kept_s, mut computed_s, mut client_s) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            kept_s.push(digest_all(&pool, &objects, in_flight, Method::Kept).await?);
            computed_s.push(digest_all(&pool, &objects, in_flight, Method::Computed).await?);
            client_s.push(digest_all(&pool, &objects, in_flight, Method::Client).await?);
        }
        rows.push(Row {
            in_flight,
            kept_s: median(kept_s),
            computed_s: median(computed_s),
            client_s: median(client_s),
        });
    }
    Ok(PoolDigest { objects: count, object_bytes: OBJECT_BYTES, rows })
}

async fn digest_all(
    pool: &Arc<dyn Pool>,
    objects: &[ObjectId],
    in_flight: usize,
    method: Method,
) -> Outcome<f64> {
    let stopwatch = start();
    let digests: Vec<String> = stream::iter(objects.iter().cloned())
        .map(|object| {
            let pool = Arc::clone(pool);
            // One task per object, so that the client hashes on all cores.
            tokio::spawn(async move {
                match method {
                    Method::Kept => client::store(&*pool, &object, Algorithm::Md5, 1).await,
                    Method::Computed => client::compute(&*pool, &object, Algorithm::Md5, 1).await,
                    Method::Client => client::hash_in_client(&*pool, &object, Algorithm::Md5).await,
                }
            })
        })
        .buffer_unordered(in_flight)
        .map(|digest| Ok::<_, Box<dyn std::error::Error>>(digest??))
        .try_collect()
        .await?;
    let seconds = seconds(stopwatch);
    // All objects have the same data.
    if digests.iter().any(|digest| *digest != digests[0]) {
        return Err("digests differ".into());
    }
    Ok(seconds)
}
