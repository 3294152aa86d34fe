//! Buckets: the upstream has their names, versioning and contents, the gateway's own store has
//! their records.
//!
//! A bucket of the upstream that has no record gets one when the gateway first sees it; its owner
//! is the account of `--upstream-account`. The record keeps the versioning that the upstream had
//! last. A record stays when the upstream no longer has the bucket, because a wrong `--upstream`
//! must not remove policies; without the bucket it has no effect.

use super::client::Call;
use super::uploads::size_of;
use super::write_back::Drain;
use super::xml::Element;
use super::{UpstreamSal, objects_error, unsupported};
use crate::gateway::{is_of_writer, names};
use crate::sal::{
    Attributes, Bucket, BucketCheck, Buckets, Entry, List, ListKind, NewBucket, Quota, Sal, Usage, Versioning,
};
use async_trait::async_trait;
use benthic_core::{Error, ErrorKind, OptionalExtension, Result};
use hyper::Method;
use std::collections::BTreeSet;

/// Maximum number of buckets whose state is remembered.
const BUCKETS_MAX: usize = 10_000;
/// A record without a bucket that is older than this belongs to a bucket that is gone.
const CREATION_MS_MAX: u64 = 60_000;
/// Records per page that is read from the store.
const PAGE: usize = 1_000;

/// The last answer of the upstream about a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedBucket {
    versioning: Versioning,
    at_ms: u64,
}

fn check_quota(quota: &Quota) -> Result<()> {
    if *quota == Quota::default() {
        return Ok(());
    }
    Err(unsupported("a gateway to an upstream has no quotas; set them at the upstream"))
}

/// Refuses settings that would have no effect, because the upstream makes the changes of objects.
fn check_settings(attributes: &Attributes) -> Result<()> {
    if is_of_writer(attributes, None) {
        // The upstream has no place for the owner of an object.
        return Err(unsupported(
            "in a gateway to an upstream, all objects belong to the owner of the bucket; use the ownership \
             BucketOwnerEnforced, or none",
        ));
    }
    let refused = [
        (names::LIFECYCLE, "lifecycle rules"),
        (names::NOTIFICATIONS, "notifications"),
        (names::OBJECT_LOCK, "object lock"),
        (names::DEFAULT_ENCRYPTION, "a default encryption"),
        (crate::events::on_put::ATTRIBUTE, "on-put rules"),
        (crate::view::VIEW, "views"),
    ];
    match refused.iter().find(|(name, _)| attributes.contains_key(*name)) {
        None => Ok(()),
        Some((_, what)) => {
            Err(unsupported("a gateway to an upstream cannot apply this setting; set it at the upstream")
                .with("setting", what))
        }
    }
}

/// Checks that a bucket has not been deleted, and created again, since a caller has seen it.
///
/// # Errors
/// `NotFound`.
pub(super) async fn require(sal: &dyn Sal, bucket: &Bucket) -> Result<()> {
    if sal.bucket(&bucket.name).await?.id == bucket.id {
        return Ok(());
    }
    Err(is_deleted(&bucket.name))
}

pub(super) fn is_deleted(bucket: &str) -> Error {
    objects_error(ErrorKind::NotFound, "the bucket has been deleted").with("bucket", bucket)
}

impl UpstreamSal {
    /// The versioning of a bucket of the upstream.
    ///
    /// # Errors
    /// `NotFound`, `Unavailable`.
    async fn versioning(&self, name: &str) -> Result<Versioning> {
        let now_ms = self.environment.clock.monotonic_ms();
        let known = self.buckets.lock().get(name).copied();
        if let Some(known) = known.filter(|known| now_ms.saturating_sub(known.at_ms) < self.options.bucket_ms)
        {
            return Ok(known.versioning);
        }
        let call = Call::new(Method::GET, &self.upstream_name(name), "").query("versioning", "");
        let answer = match self.client().call(call).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.buckets.lock().remove(name);
                return Err(error);
            }
            answer => answer?,
        };
        let versioning = match Element::parse(&answer.body)?.text_of("Status") {
            "Enabled" => Versioning::Enabled,
            "Suspended" => Versioning::Suspended,
            _ => Versioning::Off,
        };
        self.remember_bucket(name, versioning);
        Ok(versioning)
    }

    fn remember_bucket(&self, name: &str, versioning: Versioning) {
        let mut buckets = self.buckets.lock();
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(name) {
            buckets.clear();
        }
        let at_ms = self.environment.clock.monotonic_ms();
        buckets.insert(name.to_owned(), CachedBucket { versioning, at_ms });
    }

    async fn set_versioning(&self, name: &str, versioning: Versioning) -> Result<()> {
        let status = match versioning {
            Versioning::Off => return Ok(()),
            Versioning::Enabled => "Enabled",
            Versioning::Suspended => "Suspended",
        };
        let document =
            format!("<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>");
        let call = Call::new(Method::PUT, &self.upstream_name(name), "").query("versioning", "");
        self.client().call(call.document(document).with_md5()).await?;
        self.remember_bucket(name, versioning);
        Ok(())
    }

    /// The record of a bucket that the upstream has; creates it if there is none.
    async fn record_of(&self, name: &str, versioning: Versioning) -> Result<Bucket> {
        loop {
            let bucket = match self.sal.bucket(name).await {
                Ok(bucket) => bucket,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let owner = self.options.owner.clone();
                    let new = NewBucket {
                        name: name.to_owned(),
                        owner,
                        versioning,
                        shards: Some(1),
                        ..NewBucket::default()
                    };
                    match self.sal.create_bucket(new).await {
                        // Another request has created it.
                        Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                        created => return created,
                    }
                }
                Err(error) => return Err(error),
            };
            if bucket.versioning == versioning || versioning == Versioning::Off {
                return Ok(bucket);
            }
            let new = Bucket { versioning, ..bucket.clone() };
            match self.sal.update_bucket(&bucket, &new).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                updated => return updated,
            }
        }
    }

    /// Checks that a bucket has not been deleted, and created again, since a caller has seen it.
    ///
    /// # Errors
    /// `NotFound`.
    pub(super) async fn require(&self, bucket: &Bucket) -> Result<()> {
        require(self.sal.as_ref(), bucket).await
    }

    /// The names of the upstream's buckets.
    async fn upstream_names(&self) -> Result<BTreeSet<String>> {
        let answer = self.client().call(Call::new(Method::GET, "", "")).await?;
        let document = Element::parse(&answer.body)?;
        let buckets = document.child("Buckets").map(|buckets| buckets.all("Bucket"));
        let names = buckets.into_iter().flatten().map(|bucket| bucket.text_of("Name"));
        let names = names.filter_map(|name| name.strip_prefix(self.options.bucket_prefix.as_str()));
        Ok(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }
}

#[async_trait]
impl Buckets for UpstreamSal {
    async fn create_bucket(&self, new: NewBucket) -> Result<Bucket> {
        check_quota(&new.quota)?;
        check_settings(&new.attributes)?;
        let name = new.name.clone();
        if self.bucket(&name).await.optional()?.is_some() {
            return Err(objects_error(ErrorKind::AlreadyExists, "the bucket exists"));
        }
        let versioning = new.versioning;
        let mut created = self.sal.create_bucket(new.clone()).await;
        if let Err(error) = &created
            && error.kind() == ErrorKind::AlreadyExists
        {
            // Another request is creating the bucket, or the upstream no longer has the bucket of
            // the record.
            let old = self.sal.bucket(&name).await?;
            if self.environment.unix_ms().saturating_sub(old.created_ms) > CREATION_MS_MAX {
                self.sal.delete_bucket(&name).await?;
                created = self.sal.create_bucket(new).await;
            }
        }
        let bucket = created?;
        let call = Call::new(Method::PUT, &self.upstream_name(&name), "");
        let region = self.options.endpoint.region.as_str();
        let call = match region {
            "us-east-1" | "" => call,
            region => call.document(format!(
                "<CreateBucketConfiguration><LocationConstraint>{}</LocationConstraint></CreateBucketConfiguration>",
                super::xml::escape(region)
            )),
        };
        if let Err(error) = self.client().call(call).await {
            // If the upstream may have the bucket, the record keeps its owner.
            if error.kind() != ErrorKind::OutcomeUnknown {
                self.sal.delete_bucket(&name).await?;
            }
            return Err(error);
        }
        self.remember_bucket(&name, Versioning::Off);
        self.set_versioning(&name, versioning).await?;
        Ok(bucket)
    }

    async fn bucket(&self, name: &str) -> Result<Bucket> {
        // Checks the name, and answers while the upstream is unreachable.
        let record = self.sal.bucket(name).await.optional()?;
        match (self.versioning(name).await, record) {
            (Ok(versioning), Some(record)) if record.versioning == versioning => Ok(record),
            (Ok(versioning), _) => self.record_of(name, versioning).await,
            (Err(error), Some(record)) if error.kind() == ErrorKind::Unavailable => Ok(record),
            (Err(error), _) => Err(error),
        }
    }

    async fn update_bucket(&self, old: &Bucket, new: &Bucket) -> Result<Bucket> {
        check_quota(&new.quota)?;
        check_settings(&new.attributes)?;
        if new.versioning == old.versioning || new.versioning == Versioning::Off {
            return self.sal.update_bucket(old, new).await;
        }
        // The upstream first: it has every acknowledged change, and corrects a stale record.
        if self.sal.bucket(&old.name).await? != *old {
            return Err(objects_error(ErrorKind::Conflict, "the bucket has changed"));
        }
        self.write_back.drain(Drain::Bucket(&self.upstream_name(&old.name))).await?;
        self.set_versioning(&old.name, new.versioning).await?;
        self.sal.update_bucket(old, new).await
    }

    async fn delete_bucket(&self, name: &str) -> Result<()> {
        self.sal.bucket(name).await?;
        let upstream_name = self.upstream_name(name);
        let _closed = self.write_back.close(&upstream_name).await?;
        self.write_back.drain(Drain::Bucket(&upstream_name)).await?;
        let deleted = self.client().call(Call::new(Method::DELETE, &upstream_name, "")).await;
        self.buckets.lock().remove(name);
        deleted?;
        self.sal.delete_bucket(name).await
    }

    async fn list_buckets(
        &self,
        owner: &str,
        after: Option<&str>,
        buckets_max: usize,
    ) -> Result<(Vec<Bucket>, bool)> {
        let names = match self.upstream_names().await {
            Ok(names) => Some(names),
            // Without the upstream, the records are the only source.
            Err(error) if error.kind() == ErrorKind::Unavailable => None,
            Err(error) => return Err(error),
        };
        for name in names.iter().flatten() {
            match self.sal.bucket(name).await {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => match self.versioning(name).await {
                    Ok(versioning) => drop(self.record_of(name, versioning).await?),
                    // The gateway's key may not read it, for example. The others are listed.
                    Err(error) => {
                        tracing::warn!(%error, bucket = name, "a bucket of the upstream is not listed");
                    }
                },
                // The name is not one that this gateway can have.
                Err(error) if error.kind() == ErrorKind::InvalidArgument => {}
                Err(error) => return Err(error),
            }
        }
        let mut found: Vec<Bucket> = Vec::new();
        let mut after = after.map(str::to_owned);
        loop {
            let (page, more) = self.sal.list_buckets(owner, after.as_deref(), PAGE).await?;
            after = page.last().map(|bucket| bucket.name.clone());
            let is_there = |bucket: &Bucket| names.as_ref().is_none_or(|names| names.contains(&bucket.name));
            found.extend(page.into_iter().filter(is_there));
            if found.len() > buckets_max || !more || after.is_none() {
                let more = found.len() > buckets_max;
                found.truncate(buckets_max);
                return Ok((found, more));
            }
        }
    }

    /// Lists the whole bucket.
    async fn usage(&self, bucket: &Bucket) -> Result<Usage> {
        let mut usage = Usage::default();
        for kind in [ListKind::Versions, ListKind::Uploads] {
            let mut list = List {
                kind,
                prefix: String::new(),
                delimiter: String::new(),
                after: None,
                entries_max: crate::sal::limits::LIST_ENTRIES_MAX,
            };
            loop {
                let page = self.list_page(bucket, &list).await?;
                for entry in page.entries {
                    match entry {
                        Entry::Version(version) if version.marker => usage.markers += 1,
                        Entry::Version(version) => {
                            usage.versions += 1;
                            usage.objects += u64::from(version.current);
                            usage.bytes = usage.bytes.saturating_add(version.size_bytes);
                        }
                        Entry::Upload(upload) => {
                            usage.uploads += 1;
                            let parts = self.stored_parts(bucket, &upload.key, upload.upload).await?;
                            usage.parts += parts.len() as u64;
                            for part in parts.values() {
                                usage.part_bytes = usage.part_bytes.saturating_add(size_of(part)?);
                            }
                        }
                        Entry::Prefix(_) => {}
                    }
                }
                list.after = page.next;
                if list.after.is_none() {
                    break;
                }
            }
        }
        Ok(usage)
    }

    /// Only the upstream can check its data.
    async fn check_bucket(&self, bucket: &Bucket) -> Result<BucketCheck> {
        Ok(BucketCheck { usage: self.usage(bucket).await?, ..BucketCheck::default() })
    }
}
