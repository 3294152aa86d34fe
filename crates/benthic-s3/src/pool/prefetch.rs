//! Prefetch: fetches the first piece of an object's data while the index lookup runs, which saves a
//! round trip.
//!
//! The driver remembers where it last saw the data of an object. A data object never changes, so
//! the prefetched data are right if the index still refers to that data object. If another gateway
//! has replaced the object, the prefetch was a wasted read (docs/design/0006).

use super::PoolSal;
use super::reader::{Piece, home, manifest, pieces, read_piece};
use crate::sal::{Bucket, Id, Object, Objects, Prefetch};
use benthic_core::Result;
use futures::FutureExt;
use futures::future::{Either, ready, select};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::pin::pin;

/// Maximum number of remembered objects. Beyond it, a new one replaces an arbitrary one.
const LOCATIONS_MAX: usize = 10_000;

/// The last known data location of objects, by bucket and key.
#[derive(Default)]
pub(super) struct LocationCache {
    by_key: Mutex<HashMap<(Id, String), Location>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Location {
    /// The bucket under which the data were written.
    home: Id,
    class: Option<String>,
    piece: Piece,
}

impl LocationCache {
    fn get(&self, bucket: Id, key: &str) -> Option<Location> {
        self.by_key.lock().get(&(bucket, key.to_owned())).cloned()
    }

    /// Forgets an object that is about to change.
    pub fn forget(&self, bucket: Id, key: &str) {
        self.remember(bucket, key, None);
    }

    fn remember(&self, bucket: Id, key: &str, location: Option<Location>) {
        let key = (bucket, key.to_owned());
        let mut by_key = self.by_key.lock();
        let Some(location) = location else {
            by_key.remove(&key);
            return;
        };
        if by_key.len() >= LOCATIONS_MAX
            && !by_key.contains_key(&key)
            && let Some(any) = by_key.keys().next().cloned()
        {
            by_key.remove(&any);
        }
        by_key.insert(key, location);
    }
}

impl PoolSal {
    pub(super) async fn look_up_and_prefetch(
        &self,
        bucket: &Bucket,
        key: &str,
    ) -> Result<(Object, Option<Prefetch>)> {
        let Some(cached) = self.locations.get(bucket.id, key) else {
            let found = self.object(bucket, key, None).await;
            self.locations.remember(bucket.id, key, location_of(bucket, found.as_ref().ok()));
            return Ok((found?, None));
        };
        let (write, number) = cached.piece.stored;
        let data_object = self.names.chunk(cached.home, write, number)?;
        let pool = self.pool_of(cached.class.as_deref()).await?;
        let piece = cached.piece;
        let look_up = pin!(async {
            let found = self.object(bucket, key, None).await;
            let now = location_of(bucket, found.as_ref().ok());
            let is_right = now.as_ref() == Some(&cached);
            if !is_right {
                self.locations.remember(bucket.id, key, now);
            }
            (found, is_right)
        });
        let fetch = read_piece(pool, data_object, piece).boxed();
        let ((found, is_right), data) = match select(look_up, fetch).await {
            Either::Left((found, fetch)) => (found, fetch),
            Either::Right((data, look_up)) => (look_up.await, ready(data).boxed()),
        };
        let Piece { write, len_bytes, .. } = piece;
        Ok((found?, is_right.then_some(Prefetch { write, len_bytes, data })))
    }
}

fn location_of(bucket: &Bucket, object: Option<&Object>) -> Option<Location> {
    let object = object?;
    let manifest = manifest(object).ok()?;
    Some(Location {
        home: home(bucket, manifest),
        class: object.class.clone(),
        piece: pieces(manifest, object.all(), object.is_encrypted()).next()?,
    })
}
