//! Leases: one gateway at a time works on a task of a bucket, and saves its progress.
//!
//! The lease and the progress are one record of the store, which changes by compare-and-swap. If
//! the holder dies, another gateway takes over when the lease has expired. The name of the record
//! is that of the bucket, or that of the bucket, a slash and the subject of the task.

use crate::sal::{Bucket, Id, RecordChange, RecordKind, Sal};
use benthic_core::{Environment, Error, ErrorKind, OptionalExtension, Result};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const FORM: u32 = 1;
/// How far the clock of a holder may be ahead. The lease of one that is further ahead counts as
/// expired.
const SKEW_MS_MAX: u64 = 10 * 60 * 1_000;
/// Records per page of a listing.
const PAGE: usize = 1_000;

/// A lease as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored<T> {
    /// Version of the record's format.
    form: u32,
    /// The id of the bucket, which a new bucket of the same name does not share.
    bucket: String,
    holder: Option<String>,
    /// When another gateway may take over, in milliseconds since 1970 (UTC).
    lease_until_ms: u64,
    #[serde(flatten)]
    progress: T,
}

/// A lease that this gateway holds.
pub struct Lease<'a, T> {
    sal: &'a dyn Sal,
    environment: &'a Environment,
    kind: RecordKind,
    duration_ms: u64,
    name: String,
    bucket_id: String,
    holder: String,
    stored: Bytes,
    pub progress: T,
}

/// The name of the record of a task.
fn record_name(bucket: &Bucket, about: Option<&str>) -> String {
    if let Some(about) = about { format!("{}/{about}", bucket.name) } else { bucket.name.clone() }
}

/// The progress of a task of a bucket; `None` if it never began.
///
/// # Errors
/// `Corrupt`, `Unsupported`; those of the store.
pub async fn progress<T: DeserializeOwned>(
    sal: &dyn Sal,
    kind: RecordKind,
    bucket: &Bucket,
    about: Option<&str>,
) -> Result<Option<T>> {
    let found = read(sal, kind, &record_name(bucket, about)).await?.map(|(found, _)| found);
    // A deleted bucket of the same name has left its record.
    Ok(found.filter(|found: &Stored<T>| found.bucket == bucket.id.to_string()).map(|found| found.progress))
}

async fn read<T: DeserializeOwned>(
    sal: &dyn Sal,
    kind: RecordKind,
    name: &str,
) -> Result<Option<(Stored<T>, Bytes)>> {
    let Some(stored) = sal.record(kind, name).await? else { return Ok(None) };
    let found: Stored<T> = serde_json::from_slice(&stored)
        .map_err(|error| Error::corrupt(format!("a lease record is damaged: {error}")).with("name", name))?;
    if found.form != FORM {
        let message = "a newer version of Benthic has written a lease record";
        return Err(Error::unsupported(message).with("name", name).with("form", found.form));
    }
    Ok(Some((found, stored)))
}

impl<'a, T: Clone + Default + Serialize + DeserializeOwned> Lease<'a, T> {
    /// Takes the lease of a task for this long, and lets `begin` change the progress; `None` if
    /// another gateway holds it.
    ///
    /// # Errors
    /// As [`progress`].
    pub async fn take(
        (sal, environment): (&'a dyn Sal, &'a Environment),
        kind: RecordKind,
        duration_ms: u64,
        (bucket, about): (&Bucket, Option<&str>),
        begin: impl FnOnce(&mut T),
    ) -> Result<Option<Lease<'a, T>>> {
        let now_ms = environment.unix_ms();
        let name = record_name(bucket, about);
        let found = read::<T>(sal, kind, &name).await?;
        let expected = found.as_ref().map(|(_, stored)| stored.clone());
        let mut progress = T::default();
        if let Some((found, _)) = found
            && found.bucket == bucket.id.to_string()
        {
            // A lease that expires later than any can was written with a wrong clock.
            let last_ms = now_ms.saturating_add(duration_ms).saturating_add(SKEW_MS_MAX);
            let is_valid = (now_ms.saturating_add(1)..=last_ms).contains(&found.lease_until_ms);
            if found.holder.is_some() && is_valid {
                return Ok(None);
            }
            progress = found.progress;
        }
        begin(&mut progress);
        let mut lease = Lease {
            sal,
            environment,
            kind,
            duration_ms,
            name,
            bucket_id: bucket.id.to_string(),
            holder: Id::draw(environment)?.to_string(),
            stored: Bytes::new(),
            progress,
        };
        let until_ms = now_ms.saturating_add(duration_ms);
        Ok(lease.swap(expected, Some(lease.holder.clone()), until_ms).await?.then_some(lease))
    }

    /// Saves the progress, and renews the lease. False if another gateway has taken it.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn save(&mut self) -> Result<bool> {
        let until_ms = self.environment.unix_ms().saturating_add(self.duration_ms);
        self.swap(Some(self.stored.clone()), Some(self.holder.clone()), until_ms).await
    }

    /// Saves the progress, and ends the lease. False if another gateway has taken it.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn release(mut self) -> Result<bool> {
        self.swap(Some(self.stored.clone()), None, 0).await
    }

    async fn swap(
        &mut self,
        expected: Option<Bytes>,
        holder: Option<String>,
        lease_until_ms: u64,
    ) -> Result<bool> {
        let progress = self.progress.clone();
        let stored = Stored { form: FORM, bucket: self.bucket_id.clone(), holder, lease_until_ms, progress };
        let stored = serde_json::to_vec(&stored)
            .map_err(|error| Error::internal(format!("cannot encode a lease record: {error}")))?;
        let stored = Bytes::from(stored);
        let new = Some(stored.clone());
        let change = RecordChange { kind: self.kind, name: self.name.clone(), expected, new };
        match self.sal.swap_records(&[change]).await {
            Ok(()) => {
                self.stored = stored;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Removes the records of buckets that are gone.
///
/// # Errors
/// Those of the store.
pub async fn forget_removed(sal: &dyn Sal, kind: RecordKind) -> Result<()> {
    let mut after: Option<String> = None;
    loop {
        let (page, more) = sal.list_records(kind, "", after.as_deref(), PAGE).await?;
        for (name, stored) in &page {
            let bucket = name.split_once('/').map_or(name.as_str(), |(bucket, _)| bucket);
            if sal.bucket(bucket).await.optional()?.is_some() {
                continue;
            }
            let (name, expected) = (name.clone(), Some(stored.clone()));
            match sal.swap_records(&[RecordChange { kind, name, expected, new: None }]).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                result => result?,
            }
        }
        after = page.last().map(|(name, _)| name.clone());
        if !more || after.is_none() {
            return Ok(());
        }
    }
}
