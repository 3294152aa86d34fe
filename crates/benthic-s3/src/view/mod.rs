//! Views: read-only buckets that show the objects of a pool, such as the chunks of an array, under
//! their own names.
//!
//! A view is a bucket of the store with the attribute [`VIEW`], and so it has an owner, a policy
//! and everything else of a bucket that decides about access. This driver answers for its objects,
//! and passes all other calls on to the driver of the store. Rejected: to copy the names into the
//! index of the bucket. Every program that writes to the pool would have to write the index, too,
//! and Zarr's writers know nothing of it.
//!
//! A pool promises less than a bucket. Each operation sees one state of an object, but an object
//! may change between two. So the entity tag is the version of the object, every read requires that
//! version, and a reader whose object changes fails and never mixes two versions.

mod address;
mod names;
mod reader;

pub use address::View;
pub use reader::ObjectReader;

use crate::sal::{
    Attributes, Bucket, BucketCheck, Buckets, CollectionStats, DataKey, Delete, DeleteResult, Entry, Event,
    EventState, Events, Finish, Garbage, Id, List, ListKind, ListPage, ListPosition, ListedVersion, Lock,
    NewBucket, Object, Objects, Part, PartId, PartRef, PendingGarbage, Prefetch, QueuePlace, QueueState,
    Reader, RecordChange, RecordKind, Records, Sal, Settle, Transition, Upload, Uploads, Usage, VersionId,
    WriteResult, Writer,
};
use async_trait::async_trait;
use benthic_core::{
    Environment, Error, ErrorKind, Fetch, ObjectId, OptionalExtension, Pool, Result, Stat, Store,
};
use bytes::Bytes;
use futures::StreamExt;
use names::{Found, NameLists};
use reader::PIECE_BYTES;
use std::ops::Range;
use std::sync::Arc;

/// The attribute of a bucket that makes it a view. Its value is the text of a [`View`].
pub const VIEW: &str = "view";
/// Objects of a page that are looked up concurrently.
const LOOKUPS_IN_FLIGHT: usize = 32;

/// Whether a bucket is a view.
pub fn is_view(bucket: &Bucket) -> bool {
    bucket.attributes.contains_key(VIEW)
}

/// The driver of views over the driver of all other buckets.
pub struct ViewSal {
    sal: Arc<dyn Sal>,
    store: Arc<dyn Store>,
    names: NameLists,
}

/// An object of a pool in the version that a lookup found.
struct Located {
    pool: Arc<dyn Pool>,
    object: ObjectId,
    version: u64,
}

fn refusal(bucket: &Bucket) -> Error {
    Error::permission_denied("the bucket is a read-only view of a pool").with("bucket", &bucket.name)
}

fn require_no_view(bucket: &Bucket) -> Result<()> {
    if is_view(bucket) { Err(refusal(bucket)) } else { Ok(()) }
}

fn not_found(key: &str) -> Error {
    Error::not_found("the pool has no such object").with("key", key)
}

/// An id that differs for any two states of one object.
fn state_of(version: u64, stat: &Stat) -> Id {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&version.to_be_bytes());
    id[8..].copy_from_slice(&stat.modified_unix_ns.to_be_bytes());
    Id(id)
}

/// The entity tag: the version and the time of the last change. Some clients take an entity tag of
/// 32 digits for the MD5 of the data, but none with a dash.
fn etag_of(version: u64, stat: &Stat) -> String {
    format!("{}-1", state_of(version, stat))
}

fn modified_ms(stat: &Stat) -> u64 {
    stat.modified_unix_ns / 1_000_000
}

impl ViewSal {
    /// Views of the pools of `store`. `sal` is the driver of all other buckets.
    pub fn new(sal: Arc<dyn Sal>, store: Arc<dyn Store>, environment: Environment) -> ViewSal {
        ViewSal { sal, store, names: NameLists::new(environment) }
    }

    async fn pool(&self, view: &View) -> Result<Arc<dyn Pool>> {
        match self.store.open_pool(&view.pool).await {
            // `NotFound` would mean that the object is missing, which readers of Zarr take for a
            // chunk that nobody has written.
            Err(error) if error.kind() == ErrorKind::NotFound => Err(error.with_kind(ErrorKind::Unavailable)),
            opened => opened,
        }
    }

    async fn locate(&self, view: &View, key: &str) -> Result<(Arc<dyn Pool>, ObjectId)> {
        let object = view.object(key).ok_or_else(|| not_found(key))?;
        Ok((self.pool(view).await?, object))
    }

    /// The error of an operation on an object. An operation may be the first that notices that the
    /// pool is gone, and then fails as if the object were missing.
    async fn error(&self, view: &View, error: Error) -> Error {
        match error.kind() {
            ErrorKind::NotFound => self.pool(view).await.err().unwrap_or(error),
            _ => error,
        }
    }

    /// The entries of a page. Objects that were removed since their names were listed are missing.
    async fn entries(&self, pool: &Arc<dyn Pool>, view: &View, found: Vec<Found>) -> Result<Vec<Entry>> {
        let lookups = found.into_iter().map(|Found { text, is_prefix }| async move {
            if is_prefix {
                return Ok(Some(Entry::Prefix(text)));
            }
            let Some(object) = view.object(&text) else { return Ok(None) };
            let entry = |(stat, version): (Stat, u64)| Entry::Version(listed_version(text, version, &stat));
            pool.stat(&object).await.optional().map(|found| found.map(entry))
        });
        let entries: Vec<Result<Option<Entry>>> =
            futures::stream::iter(lookups).buffered(LOOKUPS_IN_FLIGHT).collect().await;
        entries.into_iter().filter_map(Result::transpose).collect()
    }
}

fn listed_version(key: String, version: u64, stat: &Stat) -> ListedVersion {
    ListedVersion {
        key,
        current: true,
        version: VersionId::Null,
        seq: 0,
        marker: false,
        size_bytes: stat.size_bytes,
        modified_ms: modified_ms(stat),
        etag: etag_of(version, stat),
        write: state_of(version, stat),
        revision: 0,
        class: None,
    }
}

fn object_of(key: &str, stat: &Stat, located: Located) -> Object {
    Object {
        key: key.to_owned(),
        version: VersionId::Null,
        marker: false,
        size_bytes: stat.size_bytes,
        modified_ms: modified_ms(stat),
        etag: etag_of(located.version, stat),
        attributes: Attributes::new(),
        lock: Lock::default(),
        revision: 0,
        class: None,
        write: state_of(located.version, stat),
        part_bytes: vec![stat.size_bytes],
        location: Arc::new(located),
    }
}

#[async_trait]
impl Objects for ViewSal {
    async fn object(&self, bucket: &Bucket, key: &str, version: Option<VersionId>) -> Result<Object> {
        let Some(view) = View::of(bucket)? else { return self.sal.object(bucket, key, version).await };
        if version.is_some_and(|version| version != VersionId::Null) {
            return Err(not_found(key));
        }
        let (pool, object) = self.locate(&view, key).await?;
        let (stat, version) = match pool.stat(&object).await {
            Err(error) => return Err(self.error(&view, error).await),
            Ok(found) => found,
        };
        Ok(object_of(key, &stat, Located { pool, object, version }))
    }

    async fn object_with_prefetch(&self, bucket: &Bucket, key: &str) -> Result<(Object, Option<Prefetch>)> {
        let Some(view) = View::of(bucket)? else { return self.sal.object_with_prefetch(bucket, key).await };
        let (pool, object) = self.locate(&view, key).await?;
        let fetch = Fetch::stat().and(Fetch::read(0, PIECE_BYTES));
        let ((stat, data), version) = match pool.fetch(&object, fetch).await {
            Err(error) => return Err(self.error(&view, error).await),
            Ok(found) => found,
        };
        let object = object_of(key, &stat, Located { pool, object, version });
        let len_bytes = data.len() as u64;
        let data = Box::pin(std::future::ready(Ok(data)));
        let prefetch = Prefetch { write: object.write, len_bytes, data };
        Ok((object, Some(prefetch)))
    }

    async fn read(
        &self,
        bucket: &Bucket,
        object: &Object,
        range: Range<u64>,
        prefetch: Option<Prefetch>,
        data_key: Option<&DataKey>,
    ) -> Result<Box<dyn Reader>> {
        let Some(Located { pool, object: id, version }) = object.location.downcast_ref() else {
            return self.sal.read(bucket, object, range, prefetch, data_key).await;
        };
        object.check_range(&range)?;
        if data_key.is_some() {
            return Err(Error::invalid_argument("the objects of a view are not encrypted"));
        }
        let start_bytes = range.start;
        let mut reader = ObjectReader::new(Arc::clone(pool), id.clone(), Some(*version), range);
        match prefetch.filter(|prefetch| start_bytes == 0 && prefetch.write == object.write) {
            Some(prefetch) => reader.begin_with(prefetch.data.await?),
            // An object that has changed since the lookup is an error before the answer has begun.
            None => reader.begin().await?,
        }
        Ok(Box::new(reader))
    }

    async fn whole_data(
        &self,
        bucket: &Bucket,
        object: &Object,
    ) -> Result<Option<(Arc<dyn Pool>, ObjectId)>> {
        // A method would see the version that is current when it runs, not that of the lookup.
        if is_view(bucket) { Ok(None) } else { self.sal.whole_data(bucket, object).await }
    }

    async fn write(
        &self,
        bucket: &Bucket,
        key: &str,
        part: Option<PartId>,
        size_bytes: Option<u64>,
        class: Option<&str>,
        data_key: Option<&DataKey>,
    ) -> Result<Box<dyn Writer>> {
        require_no_view(bucket)?;
        self.sal.write(bucket, key, part, size_bytes, class, data_key).await
    }

    async fn has_storage_class(&self, class: &str) -> Result<bool> {
        self.sal.has_storage_class(class).await
    }

    async fn transition(&self, bucket: &Bucket, transition: &Transition) -> Result<()> {
        require_no_view(bucket)?;
        self.sal.transition(bucket, transition).await
    }

    async fn append(
        &self,
        bucket: &Bucket,
        object: &Object,
        size_bytes: Option<u64>,
        data_key: Option<&DataKey>,
    ) -> Result<Box<dyn Writer>> {
        require_no_view(bucket)?;
        self.sal.append(bucket, object, size_bytes, data_key).await
    }

    async fn copy(
        &self,
        source: (&Bucket, &Object),
        bucket: &Bucket,
        key: &str,
        finish: Finish,
    ) -> Result<WriteResult> {
        require_no_view(bucket)?;
        if is_view(source.0) {
            return Err(Error::invalid_argument("a bucket cannot share the data of a pool's object"));
        }
        self.sal.copy(source, bucket, key, finish).await
    }

    async fn update_object(
        &self,
        bucket: &Bucket,
        old: &Object,
        new: &Object,
        bypass_governance: bool,
    ) -> Result<()> {
        require_no_view(bucket)?;
        self.sal.update_object(bucket, old, new, bypass_governance).await
    }

    async fn delete(&self, bucket: &Bucket, delete: &Delete) -> Result<DeleteResult> {
        require_no_view(bucket)?;
        self.sal.delete(bucket, delete).await
    }

    async fn list(&self, bucket: &Bucket, list: &List) -> Result<ListPage> {
        let Some(view) = View::of(bucket)? else { return self.sal.list(bucket, list).await };
        if list.kind == ListKind::Uploads {
            return Ok(ListPage { entries: Vec::new(), next: None });
        }
        let pool = self.pool(&view).await?;
        let (found, is_last) = match self.names.page(bucket.id, pool.as_ref(), &view, list).await {
            Err(error) => return Err(self.error(&view, error).await),
            Ok(page) => page,
        };
        let last = found.last().filter(|_| !is_last);
        let next = last.map(|last| ListPosition { key: last.text.clone(), within: None });
        Ok(ListPage { entries: self.entries(&pool, &view, found).await?, next })
    }
}

#[async_trait]
impl Buckets for ViewSal {
    async fn create_bucket(&self, new: NewBucket) -> Result<Bucket> {
        self.sal.create_bucket(new).await
    }

    async fn bucket(&self, name: &str) -> Result<Bucket> {
        self.sal.bucket(name).await
    }

    async fn update_bucket(&self, old: &Bucket, new: &Bucket) -> Result<Bucket> {
        self.sal.update_bucket(old, new).await
    }

    async fn delete_bucket(&self, name: &str) -> Result<()> {
        self.sal.delete_bucket(name).await
    }

    async fn list_buckets(
        &self,
        owner: &str,
        after: Option<&str>,
        buckets_max: usize,
    ) -> Result<(Vec<Bucket>, bool)> {
        self.sal.list_buckets(owner, after, buckets_max).await
    }

    async fn usage(&self, bucket: &Bucket) -> Result<Usage> {
        self.sal.usage(bucket).await
    }

    async fn check_bucket(&self, bucket: &Bucket) -> Result<BucketCheck> {
        self.sal.check_bucket(bucket).await
    }
}

/// A view has no uploads, because none can begin.
#[async_trait]
impl Uploads for ViewSal {
    async fn create_upload(
        &self,
        bucket: &Bucket,
        key: &str,
        attributes: Attributes,
        lock: Lock,
        class: Option<&str>,
    ) -> Result<Id> {
        require_no_view(bucket)?;
        self.sal.create_upload(bucket, key, attributes, lock, class).await
    }

    async fn upload(&self, bucket: &Bucket, key: &str, upload: Id) -> Result<Upload> {
        self.sal.upload(bucket, key, upload).await
    }

    async fn list_parts(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Id,
        after: u16,
        parts_max: usize,
    ) -> Result<(Vec<(u16, Part)>, bool)> {
        self.sal.list_parts(bucket, key, upload, after, parts_max).await
    }

    async fn preview_upload(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Id,
        parts: &[PartRef],
        attributes: &Attributes,
    ) -> Result<Object> {
        self.sal.preview_upload(bucket, key, upload, parts, attributes).await
    }

    async fn complete_upload(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Id,
        parts: &[PartRef],
        finish: Finish,
    ) -> Result<VersionId> {
        self.sal.complete_upload(bucket, key, upload, parts, finish).await
    }

    async fn abort_upload(&self, bucket: &Bucket, key: &str, upload: Id) -> Result<()> {
        self.sal.abort_upload(bucket, key, upload).await
    }
}

#[async_trait]
impl Events for ViewSal {
    async fn queues(&self, bucket: &Bucket) -> Result<Vec<(QueuePlace, QueueState)>> {
        self.sal.queues(bucket).await
    }

    async fn events(
        &self,
        bucket: &Bucket,
        place: &QueuePlace,
        kind: EventState,
        after: Option<u64>,
        events_max: usize,
    ) -> Result<(Vec<Event>, bool)> {
        self.sal.events(bucket, place, kind, after, events_max).await
    }

    async fn settle(&self, bucket: &Bucket, place: &QueuePlace, settle: &Settle) -> Result<()> {
        self.sal.settle(bucket, place, settle).await
    }
}

#[async_trait]
impl Garbage for ViewSal {
    async fn collect(&self) -> Result<CollectionStats> {
        self.sal.collect().await
    }

    async fn pending(&self) -> Result<PendingGarbage> {
        self.sal.pending().await
    }
}

#[async_trait]
impl Records for ViewSal {
    async fn record(&self, kind: RecordKind, name: &str) -> Result<Option<Bytes>> {
        self.sal.record(kind, name).await
    }

    async fn swap_records(&self, changes: &[RecordChange]) -> Result<()> {
        self.sal.swap_records(changes).await
    }

    async fn list_records(
        &self,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        records_max: usize,
    ) -> Result<(Vec<(String, Bytes)>, bool)> {
        self.sal.list_records(kind, prefix, after, records_max).await
    }
}
