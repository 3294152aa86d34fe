//! The bucket `tables`: a driver of the S3 gateway that shows the files of tables. Other keys in a
//! table's folder are uploads, which are staged in the store's own driver until a commit. Accounts,
//! users and keys are those of that driver.

use crate::auth::OWNER;
use crate::iceberg::keys::{BUCKET, File, Folder, Key};
use crate::iceberg::view::{Located, TableView, Views};
use crate::staging::{Staging, is_staged};
use async_trait::async_trait;
use benthic_core::{Error, ErrorKind, OptionalExtension, Result};
use benthic_s3::sal::{
    Attributes, Bucket, BucketCheck, Buckets, CollectionStats, DataKey, Delete, DeleteResult, Entry, Events,
    Finish, Garbage, Id, List, ListKind, ListPage, ListPosition, ListedVersion, Lock, NewBucket, Object,
    Objects, Part, PartId, PartRef, PendingGarbage, Prefetch, Quota, Reader, RecordChange, RecordKind,
    Records, Sal, Upload, Uploads, Usage, VersionId, Versioning, WriteResult, Writer,
};
use benthic_s3::view::ObjectReader;
use benthic_table::Table;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// The driver.
pub struct TablesSal {
    pub views: Arc<Views>,
    pub staging: Arc<Staging>,
}

fn refusal() -> Error {
    Error::permission_denied("the bucket only shows tables, and takes uploads for them")
}

fn not_found() -> Error {
    Error::not_found("no table has such a file")
}

fn bucket() -> Bucket {
    Bucket {
        name: BUCKET.to_owned(),
        id: Id::default(),
        owner: OWNER.to_owned(),
        created_ms: 0,
        shards: 1,
        revision: 0,
        deleting_ms: None,
        versioning: Versioning::Off,
        quota: Quota::default(),
        attributes: Attributes::new(),
    }
}

fn object(key: String, located: Located) -> Object {
    let (size_bytes, modified_ms, etag) = match &located {
        // A data object never changes, and its key names no other.
        Located::Stored { stored_bytes, tail, modified_ms, .. } => {
            (stored_bytes + tail.len() as u64, *modified_ms, blake3::hash(key.as_bytes()))
        }
        Located::Computed(bytes) => (bytes.len() as u64, 0, blake3::hash(bytes)),
    };
    Object {
        key,
        version: VersionId::Null,
        marker: false,
        size_bytes,
        modified_ms,
        etag: etag.to_hex()[..32].to_owned(),
        attributes: Attributes::new(),
        lock: Lock::default(),
        revision: 0,
        class: None,
        write: Id::default(),
        part_bytes: vec![size_bytes],
        location: Arc::new(located),
    }
}

impl TablesSal {
    fn sal(&self) -> &Arc<dyn Sal> {
        self.staging.sal()
    }

    /// The bucket in which uploads with a key are. The table may not exist yet: then a commit
    /// creates it. Only temporary keys of the folder get here.
    async fn staging_of(&self, key: &str) -> Result<&Bucket> {
        let mut slashes = key.match_indices('/').map(|(place, _)| place);
        let folder = slashes.nth(1).and_then(|end| Folder::parse(&key[..end])).ok_or_else(refusal)?;
        if !is_staged(&folder, key) {
            return Err(refusal());
        }
        match TableView::open(&**self.views.store(), &folder.pool, &folder.table).await {
            Ok(view) if view.folder != folder => return Err(not_found()),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.staging.bucket().await
    }

    /// The keys that a listing can show, in byte order. Below a delimiter, one key stands for all.
    async fn keys(&self, list: &List) -> Result<Vec<Key>> {
        let mut keys = Vec::new();
        for name in self.views.store().list_pools().await? {
            let of_pool = Folder { pool: name.clone(), table: String::new(), id: benthic_table::ids::Id(0) };
            let start = of_pool.to_string();
            let start = start.split_once('/').map_or(start.as_str(), |(pool, _)| &start[..pool.len() + 1]);
            if !overlaps(start, &list.prefix) {
                continue;
            }
            let pool = self.views.store().open_pool(&name).await?;
            for entry in Table::list(Arc::clone(&pool)).await? {
                let Ok(head) = entry.head else { continue };
                let folder = Folder { pool: name.clone(), table: entry.name.clone(), id: head.id };
                let start = format!("{folder}/");
                if !overlaps(&start, &list.prefix) {
                    continue;
                }
                if list.delimiter == "/" && !list.prefix.starts_with(&start) {
                    keys.push(Key { folder, file: File::VersionHint });
                    continue;
                }
                // It was removed meanwhile.
                let Some(view) =
                    TableView::open(&**self.views.store(), &name, &entry.name).await.optional()?
                else {
                    continue;
                };
                keys.extend(view.files().await?.into_iter().map(|file| view.key(file)));
            }
        }
        keys.sort_by_cached_key(Key::to_string);
        Ok(keys)
    }

    async fn find_version(&self, key: &Key) -> Result<Option<ListedVersion>> {
        let located = match self.views.locate(key).await {
            // It was vacuumed meanwhile, or Iceberg cannot read the table.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unsupported) => {
                return Ok(None);
            }
            located => located?,
        };
        let Object { key, size_bytes, modified_ms, etag, .. } = object(key.to_string(), located);
        let version = VersionId::Null;
        Ok(Some(ListedVersion {
            key,
            current: true,
            version,
            seq: 0,
            marker: false,
            size_bytes,
            modified_ms,
            etag,
            write: Id::default(),
            revision: 0,
            class: None,
        }))
    }
}

/// Whether keys that start with `start` can have the prefix.
fn overlaps(start: &str, prefix: &str) -> bool {
    start.starts_with(prefix) || prefix.starts_with(start)
}

#[async_trait]
impl Objects for TablesSal {
    async fn object(&self, _bucket: &Bucket, key: &str, version: Option<VersionId>) -> Result<Object> {
        if version.is_some_and(|version| version != VersionId::Null) {
            return Err(not_found());
        }
        match Key::parse(key) {
            Some(file) => Ok(object(key.to_owned(), self.views.locate(&file).await?)),
            None => self.sal().object(self.staging.bucket().await?, key, None).await,
        }
    }

    async fn read(
        &self,
        _bucket: &Bucket,
        object: &Object,
        range: Range<u64>,
        _prefetch: Option<Prefetch>,
        data_key: Option<&DataKey>,
    ) -> Result<Box<dyn Reader>> {
        if range.start > range.end || range.end > object.size_bytes {
            return Err(Error::invalid_argument("the range is not within the file"));
        }
        let Some(located) = object.location.downcast_ref::<Located>() else {
            return self.sal().read(self.staging.bucket().await?, object, range, None, data_key).await;
        };
        let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        Ok(match located {
            Located::Computed(bytes) => {
                Box::new(Computed(Some(bytes.slice(place(range.start)..place(range.end)))))
            }
            Located::Stored { pool, object, stored_bytes, tail, .. } => {
                let within = range.start.min(*stored_bytes)..range.end.min(*stored_bytes);
                let after =
                    range.start.saturating_sub(*stored_bytes)..range.end.saturating_sub(*stored_bytes);
                // A data object never changes.
                let stored = ObjectReader::new(Arc::clone(pool), object.clone(), None, within);
                let tail = Computed(Some(tail.slice(place(after.start)..place(after.end))));
                Box::new(Stored { stored, tail })
            }
        })
    }

    async fn write(
        &self,
        _bucket: &Bucket,
        key: &str,
        part: Option<PartId>,
        size_bytes: Option<u64>,
        class: Option<&str>,
        data_key: Option<&DataKey>,
    ) -> Result<Box<dyn Writer>> {
        self.sal().write(self.staging_of(key).await?, key, part, size_bytes, class, data_key).await
    }

    async fn copy(
        &self,
        _source: (&Bucket, &Object),
        _bucket: &Bucket,
        _key: &str,
        _finish: Finish,
    ) -> Result<WriteResult> {
        Err(refusal())
    }

    async fn update_object(
        &self,
        _bucket: &Bucket,
        _old: &Object,
        _new: &Object,
        _bypass_governance: bool,
    ) -> Result<()> {
        Err(refusal())
    }

    async fn delete(&self, _bucket: &Bucket, delete: &Delete) -> Result<DeleteResult> {
        self.sal().delete(self.staging_of(&delete.key).await?, delete).await
    }

    async fn list(&self, _bucket: &Bucket, list: &List) -> Result<ListPage> {
        let mut page = ListPage { entries: Vec::new(), next: None };
        if list.kind == ListKind::Uploads {
            return Ok(page);
        }
        for key in self.keys(list).await? {
            let text = key.to_string();
            if !text.starts_with(&list.prefix) || list.is_passed(&text) {
                continue;
            }
            let entry = match list.common_prefix(&text) {
                Some(prefix) if page.entries.last().is_some_and(|last| last.key() == prefix) => continue,
                Some(prefix) => Entry::Prefix(prefix.to_owned()),
                None => match self.find_version(&key).await? {
                    Some(listed) => Entry::Version(listed),
                    None => continue,
                },
            };
            if page.entries.len() >= list.entries_max as usize {
                let last =
                    page.entries.last().map(|last| ListPosition { key: last.key().to_owned(), within: None });
                page.next = last;
                break;
            }
            page.entries.push(entry);
        }
        Ok(page)
    }
}

/// Reads a computed file.
struct Computed(Option<Bytes>);

#[async_trait]
impl Reader for Computed {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        Ok(self.0.take().filter(|bytes| !bytes.is_empty()))
    }
}

/// Reads a part of an object, and then the bytes that are shown after it.
struct Stored {
    stored: ObjectReader,
    tail: Computed,
}

#[async_trait]
impl Reader for Stored {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if let Some(piece) = self.stored.next().await? { Ok(Some(piece)) } else { self.tail.next().await }
    }
}

#[async_trait]
impl Buckets for TablesSal {
    async fn create_bucket(&self, _new: NewBucket) -> Result<Bucket> {
        Err(refusal())
    }

    async fn bucket(&self, name: &str) -> Result<Bucket> {
        if name == BUCKET {
            return Ok(bucket());
        }
        Err(Error::not_found("this server has the bucket `tables` only").with("bucket", name))
    }

    async fn update_bucket(&self, _old: &Bucket, _new: &Bucket) -> Result<Bucket> {
        Err(refusal())
    }

    async fn delete_bucket(&self, _name: &str) -> Result<()> {
        Err(refusal())
    }

    async fn list_buckets(
        &self,
        owner: &str,
        after: Option<&str>,
        _buckets_max: usize,
    ) -> Result<(Vec<Bucket>, bool)> {
        let is_listed = owner == OWNER && after.is_none_or(|after| after < BUCKET);
        Ok((is_listed.then(bucket).into_iter().collect(), false))
    }

    async fn usage(&self, _bucket: &Bucket) -> Result<Usage> {
        Err(refusal())
    }

    async fn check_bucket(&self, _bucket: &Bucket) -> Result<BucketCheck> {
        Err(refusal())
    }
}

#[async_trait]
impl Uploads for TablesSal {
    async fn create_upload(
        &self,
        _bucket: &Bucket,
        key: &str,
        attributes: Attributes,
        lock: Lock,
        class: Option<&str>,
    ) -> Result<Id> {
        self.sal().create_upload(self.staging_of(key).await?, key, attributes, lock, class).await
    }

    async fn upload(&self, _bucket: &Bucket, key: &str, upload: Id) -> Result<Upload> {
        self.sal().upload(self.staging_of(key).await?, key, upload).await
    }

    async fn list_parts(
        &self,
        _bucket: &Bucket,
        key: &str,
        upload: Id,
        after: u16,
        parts_max: usize,
    ) -> Result<(Vec<(u16, Part)>, bool)> {
        self.sal().list_parts(self.staging_of(key).await?, key, upload, after, parts_max).await
    }

    async fn preview_upload(
        &self,
        _bucket: &Bucket,
        key: &str,
        upload: Id,
        parts: &[PartRef],
        attributes: &Attributes,
    ) -> Result<Object> {
        self.sal().preview_upload(self.staging_of(key).await?, key, upload, parts, attributes).await
    }

    async fn complete_upload(
        &self,
        _bucket: &Bucket,
        key: &str,
        upload: Id,
        parts: &[PartRef],
        finish: Finish,
    ) -> Result<VersionId> {
        self.sal().complete_upload(self.staging_of(key).await?, key, upload, parts, finish).await
    }

    async fn abort_upload(&self, _bucket: &Bucket, key: &str, upload: Id) -> Result<()> {
        self.sal().abort_upload(self.staging_of(key).await?, key, upload).await
    }
}

/// No change has events.
impl Events for TablesSal {}

#[async_trait]
impl Garbage for TablesSal {
    async fn collect(&self) -> Result<CollectionStats> {
        Ok(CollectionStats::default())
    }

    async fn pending(&self) -> Result<PendingGarbage> {
        Ok(PendingGarbage::default())
    }
}

#[async_trait]
impl Records for TablesSal {
    async fn record(&self, kind: RecordKind, name: &str) -> Result<Option<Bytes>> {
        self.sal().record(kind, name).await
    }

    async fn swap_records(&self, _changes: &[RecordChange]) -> Result<()> {
        Err(refusal())
    }

    async fn list_records(
        &self,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        records_max: usize,
    ) -> Result<(Vec<(String, Bytes)>, bool)> {
        self.sal().list_records(kind, prefix, after, records_max).await
    }
}
