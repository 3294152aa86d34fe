//! Objects: lookups and reads through the cache, changes at the upstream.

use super::blocks::Located;
use super::client::{Answer, COPY_TIME, Call, error_of};
use super::head::{version_of, with_attributes, write_of};
use super::spool::{SpoolWriter, WriteBackQueue};
use super::write_back::file::Record;
use super::write_back::{Added, Data, Drain, PendingData};
use super::xml::{Element, escape};
use super::{UpstreamSal, objects_error, unsupported};
use crate::gateway::{names, tags};
use crate::sal::limits::{ETAG_BYTES_MAX, KEY_BYTES_MAX};
use crate::sal::{
    Bucket, Condition, DataKey, Delete, DeleteResult, Finish, List, ListPage, Lock, Object, Objects, PartId,
    Prefetch, Reader, Seen, VersionId, WriteResult, Writer,
};
use async_trait::async_trait;
use benthic_core::{ErrorKind, Result};
use bytes::Bytes;
use futures::FutureExt;
use hyper::Method;
use std::ops::Range;
use std::sync::Arc;

pub(super) fn check_key(key: &str) -> Result<()> {
    let error = |kind, message| Err(objects_error(kind, message).with("len_bytes", key.len()));
    match key.len() {
        0 => error(ErrorKind::InvalidArgument, "a key must have at least one byte"),
        len if len > KEY_BYTES_MAX => error(ErrorKind::LimitExceeded, "the key is too long"),
        _ => Ok(()),
    }
}

/// Refuses features that S3 lacks in the call that creates an object.
pub(super) fn check_finish(finish: &Finish) -> Result<()> {
    if finish.etag.len() > ETAG_BYTES_MAX {
        return Err(objects_error(ErrorKind::LimitExceeded, "the entity tag is too long"));
    }
    if !finish.events.is_empty() {
        return Err(unsupported("a gateway to an upstream has no events"));
    }
    check_lock(&finish.lock)?;
    match finish.default_retention {
        None => Ok(()),
        Some(_) => Err(unsupported("a gateway to an upstream has no object lock")),
    }
}

pub(super) fn check_lock(lock: &Lock) -> Result<()> {
    if *lock == Lock::default() {
        return Ok(());
    }
    Err(unsupported("a gateway to an upstream has no object lock"))
}

/// Adds the condition of a change to its request.
pub(super) fn with_condition(call: Call, condition: &Condition) -> Result<Call> {
    Ok(match condition {
        Condition::Always => call,
        Condition::Exists => call.header("if-match", "*"),
        Condition::Absent => call.header("if-none-match", "*"),
        Condition::Matches(etag) => call.header("if-match", format!("\"{etag}\"")),
        Condition::Differs(etag) => call.header("if-none-match", format!("\"{etag}\"")),
        Condition::Current(_) | Condition::Replaced(_) => {
            return Err(unsupported("S3 has no condition on the version that a lifecycle rule has seen"));
        }
    })
}

/// The tags in a document, as the attribute; `None` without tags.
pub(super) fn tags_of(document: &[u8]) -> Result<Option<String>> {
    let document = Element::parse(document)?;
    let set = document.child("TagSet").map(|set| set.all("Tag"));
    let mut pairs: Vec<(String, String)> = set
        .into_iter()
        .flatten()
        .map(|tag| (tag.text_of("Key").to_owned(), tag.text_of("Value").to_owned()))
        .collect();
    pairs.sort();
    Ok(serde_json::to_string(&pairs).ok().filter(|_| !pairs.is_empty()))
}

fn object_of(located: Located) -> Object {
    let head = Arc::clone(&located.head);
    Object {
        key: located.key.clone(),
        version: head.version(),
        marker: head.marker,
        size_bytes: head.size_bytes,
        modified_ms: head.modified_ms,
        etag: head.etag.clone(),
        attributes: head.attributes(),
        lock: Lock::default(),
        revision: 0,
        class: None,
        write: head.write(),
        part_bytes: if head.size_bytes == 0 { Vec::new() } else { vec![head.size_bytes] },
        location: Arc::new(located),
    }
}

fn location_of(object: &Object) -> Result<&Located> {
    let found = object.location.downcast_ref();
    found.ok_or_else(|| objects_error(ErrorKind::InvalidArgument, "the object comes from another driver"))
}

pub(super) fn version_of_answer(answer: &Answer) -> VersionId {
    version_of(answer.header("x-amz-version-id"))
}

/// A document with the status 200 may be an error: S3 sends the status of a long operation before
/// its end.
pub(super) fn check_document(answer: &Answer) -> Result<Element> {
    let document = Element::parse(&answer.body)?;
    if document.name == "Error" { Err(error_of(answer)) } else { Ok(document) }
}

impl UpstreamSal {
    /// The name of a version at the upstream; `NotFound` if the key has no such version.
    async fn version_name(&self, bucket: &str, key: &str, version: VersionId) -> Result<(String, bool)> {
        let mut marker = String::new();
        loop {
            let mut call = Call::new(Method::GET, bucket, "")
                .query("versions", "")
                .query("prefix", key)
                .query("encoding-type", "url")
                .query("max-keys", "1000");
            if !marker.is_empty() {
                call = call.query("key-marker", key).query("version-id-marker", marker.clone());
            }
            let answer = self.client().call(call).await?;
            let page = Element::parse(&answer.body)?;
            for entry in &page.children {
                let is_marker = entry.name == "DeleteMarker";
                if (entry.name != "Version" && !is_marker)
                    || super::listing::decode(entry.text_of("Key")).as_deref() != Some(key)
                {
                    continue;
                }
                let name = entry.text_of("VersionId");
                if version_of(Some(name)) == version {
                    return Ok((name.to_owned(), is_marker));
                }
                marker = name.to_owned();
            }
            let next_key = super::listing::decode(page.text_of("NextKeyMarker"));
            if page.text_of("IsTruncated") != "true" || next_key.as_deref() != Some(key) {
                return Err(objects_error(ErrorKind::NotFound, "the key has no such version"));
            }
        }
    }

    /// The name of a version at the upstream, which has to be looked up if this process has not
    /// seen it.
    pub(super) async fn name_to_read(
        &self,
        bucket: &str,
        key: &str,
        version: Option<VersionId>,
    ) -> Result<Option<String>> {
        match version {
            None => Ok(None),
            Some(VersionId::Null) => Ok(Some("null".to_owned())),
            Some(version) => {
                let known = self.version_names.lock().get(&version).cloned();
                match known {
                    Some(name) => Ok(Some(name)),
                    None => {
                        let (name, _) = self.version_name(bucket, key, version).await?;
                        self.remember_version(&name);
                        Ok(Some(name))
                    }
                }
            }
        }
    }

    async fn find(
        &self,
        bucket: &Bucket,
        key: &str,
        version: Option<VersionId>,
        from_start: bool,
    ) -> Result<(Object, Option<Bytes>)> {
        check_key(key)?;
        let name = self.upstream_name(&bucket.name);
        if matches!(version, None | Some(VersionId::Null))
            && let Some(object) = self.write_back.object(&name, key)?
        {
            return Ok((object, None));
        }
        let version = self.name_to_read(&name, key, version).await?;
        let (located, first) = self.blocks.find(&name, key, version.as_deref(), from_start).await?;
        if let Some(version) = &located.head.version {
            self.remember_version(version);
        }
        Ok((object_of(located), first))
    }

    /// Checks the condition of a deletion, because some services, such as radosgw 16, ignore it.
    /// There, the check and the deletion are not one operation. Returns the condition for the
    /// request.
    async fn check_deletion(&self, bucket: &Bucket, delete: &Delete) -> Result<Condition> {
        let found = self.find(bucket, &delete.key, delete.version, false).await?.0;
        let is_there = !found.marker;
        let mut condition = delete.condition.clone();
        let holds = match &delete.condition {
            Condition::Always => true,
            Condition::Exists => is_there,
            Condition::Absent => !is_there,
            Condition::Matches(etag) => is_there && found.etag == *etag,
            Condition::Differs(etag) => !is_there || found.etag != *etag,
            // The current object has not changed if it has the same entity tag.
            Condition::Current(seen) if delete.version.is_none() && is_there => {
                condition = Condition::Matches(found.etag.clone());
                *seen == Seen { write: found.write, revision: found.revision }
            }
            // The request is refused later.
            Condition::Current(_) | Condition::Replaced(_) => true,
        };
        if holds {
            return Ok(condition);
        }
        Err(objects_error(ErrorKind::Conflict, "the condition of the deletion does not hold"))
    }

    async fn put_tags(&self, object: &Located, new: &Object) -> Result<()> {
        let pairs = tags::get(&new.attributes)
            .map_err(|_| objects_error(ErrorKind::InvalidArgument, "the tags are not valid"))?;
        let method = if pairs.is_empty() { Method::DELETE } else { Method::PUT };
        let mut call = Call::new(method, &object.bucket, &object.key).query("tagging", "");
        if let Some(version) = &object.head.version {
            call = call.query("versionId", version.clone());
        }
        if !pairs.is_empty() {
            let tag = |(key, value): &(String, String)| {
                format!("<Tag><Key>{}</Key><Value>{}</Value></Tag>", escape(key), escape(value))
            };
            let tags: String = pairs.iter().map(tag).collect();
            call = call.document(format!("<Tagging><TagSet>{tags}</TagSet></Tagging>")).with_md5();
        }
        let changed = self.client().call(call).await;
        let version = object.head.version.as_deref();
        self.blocks.forget_after(changed, &object.bucket, &object.key, version).await.map(drop)
    }
}

#[async_trait]
impl Objects for UpstreamSal {
    async fn object(&self, bucket: &Bucket, key: &str, version: Option<VersionId>) -> Result<Object> {
        Ok(self.find(bucket, key, version, false).await?.0)
    }

    async fn object_with_prefetch(&self, bucket: &Bucket, key: &str) -> Result<(Object, Option<Prefetch>)> {
        let (object, first) = self.find(bucket, key, None, true).await?;
        let first = match first {
            _ if object.location.is::<PendingData>() => None,
            Some(first) => Some((first.len() as u64, std::future::ready(Ok(first)).boxed())),
            None => self.blocks.first(location_of(&object)?),
        };
        let prefetch = first.map(|(len_bytes, data)| Prefetch { write: object.write, len_bytes, data });
        Ok((object, prefetch))
    }

    async fn read(
        &self,
        _bucket: &Bucket,
        object: &Object,
        range: Range<u64>,
        prefetch: Option<Prefetch>,
        data_key: Option<&DataKey>,
    ) -> Result<Box<dyn Reader>> {
        object.check_range(&range)?;
        if data_key.is_some() {
            return Err(objects_error(
                ErrorKind::InvalidArgument,
                "the gateway has not encrypted the object",
            ));
        }
        if let Some(data) = object.location.downcast_ref::<PendingData>() {
            return Ok(Box::new(self.write_back.read(data, range)));
        }
        let fits = |prefetch: &Prefetch| prefetch.write == object.write && range.start < prefetch.len_bytes;
        let first = match prefetch.filter(fits) {
            Some(prefetch) => Some(prefetch.data.await?),
            None => None,
        };
        Ok(Box::new(self.blocks.read(location_of(object)?, range, first).await?))
    }

    async fn write(
        &self,
        bucket: &Bucket,
        key: &str,
        part: Option<PartId>,
        _size_bytes: Option<u64>,
        class: Option<&str>,
        data_key: Option<&DataKey>,
    ) -> Result<Box<dyn Writer>> {
        check_key(key)?;
        if data_key.is_some() {
            return Err(unsupported("a gateway to an upstream does not encrypt; let the upstream encrypt"));
        }
        if class.is_some() {
            return Err(unsupported("a gateway to an upstream has only the standard storage class"));
        }
        self.require(bucket).await?;
        let part = match part {
            None => None,
            Some(part) => Some(self.part_target(bucket, key, part).await?),
        };
        let name = self.upstream_name(&bucket.name);
        let write_back = WriteBackQueue {
            queue: Arc::clone(&self.write_back),
            is_used: self.write_back(bucket).is_some(),
            sal: Arc::clone(&self.sal),
            bucket: bucket.clone(),
            bucket_valid_until_ms: self
                .environment
                .clock
                .monotonic_ms()
                .saturating_add(self.options.bucket_ms),
        };
        Ok(Box::new(SpoolWriter::new(Arc::clone(&self.blocks), write_back, name, key.to_owned(), part)))
    }

    async fn copy(
        &self,
        source: (&Bucket, &Object),
        bucket: &Bucket,
        key: &str,
        finish: Finish,
    ) -> Result<WriteResult> {
        check_key(key)?;
        check_finish(&finish)?;
        self.require(bucket).await?;
        let name = self.upstream_name(&bucket.name);
        self.write_back.drain(Drain::Key(&self.upstream_name(&source.0.name), &source.1.key)).await?;
        self.write_back.drain(Drain::Key(&name, key)).await?;
        let pending;
        let from = match location_of(source.1) {
            Ok(from) => from,
            // It was pending, and is at the upstream now.
            Err(_) => {
                pending = self.find(source.0, &source.1.key, None, false).await?.0;
                if pending.etag != source.1.etag {
                    return Err(objects_error(ErrorKind::NotFound, "the source has changed or is gone"));
                }
                location_of(&pending)?
            }
        };
        if from.head.marker {
            return Err(objects_error(ErrorKind::NotFound, "the source is a delete marker"));
        }
        let mut path =
            format!("/{}/{}", super::sign::encode(&from.bucket, false), super::sign::encode(&from.key, true));
        if let Some(version) = &from.head.version {
            path += &format!("?versionId={}", super::sign::encode(version, false));
        }
        let etag = format!("\"{}\"", from.head.etag);
        let call = Call::new(Method::PUT, &name, key)
            .header("x-amz-copy-source", path)
            .header("x-amz-copy-source-if-match", etag.clone())
            // The name of the same condition in radosgw.
            .header("x-amz-copy-if-match", etag)
            .header("x-amz-metadata-directive", "REPLACE")
            .header("x-amz-tagging-directive", "REPLACE");
        let mut call = with_attributes(call, &finish.attributes, false)?;
        call.work_time = COPY_TIME;
        let answer = self.client().call(with_condition(call, &finish.condition)?).await;
        let answer = match self.blocks.forget_after(answer, &name, key, None).await {
            Err(error) if error.kind() == ErrorKind::Conflict && finish.condition == Condition::Always => {
                return Err(objects_error(ErrorKind::NotFound, "the source has changed or is gone"));
            }
            answer => answer?,
        };
        let document = check_document(&answer)?;
        let etag = document.text_of("ETag").trim_matches('"').to_owned();
        Ok(WriteResult {
            version: version_of_answer(&answer),
            size_bytes: source.1.size_bytes,
            write: write_of(&etag, answer.header("x-amz-version-id")),
        })
    }

    /// S3 can replace only the tags of an object, and has no condition for that.
    async fn update_object(
        &self,
        bucket: &Bucket,
        old: &Object,
        new: &Object,
        _bypass_governance: bool,
    ) -> Result<()> {
        check_lock(&new.lock)?;
        let mut with_tags = old.attributes.clone();
        with_tags.remove(names::TAGS);
        with_tags.extend(
            new.attributes.get_key_value(names::TAGS).map(|(name, value)| (name.clone(), value.clone())),
        );
        if with_tags != new.attributes {
            return Err(unsupported(
                "a gateway to an upstream can change only the tags of an object; copy it",
            ));
        }
        self.write_back.drain(Drain::Key(&self.upstream_name(&bucket.name), &old.key)).await?;
        let version = (old.version != VersionId::Null).then_some(old.version);
        let found = self.object(bucket, &old.key, version).await?;
        if found.write != old.write || found.attributes.get(names::TAGS) != old.attributes.get(names::TAGS) {
            return Err(objects_error(ErrorKind::Conflict, "the object has changed"));
        }
        self.put_tags(location_of(&found)?, new).await
    }

    async fn delete(&self, bucket: &Bucket, delete: &Delete) -> Result<DeleteResult> {
        check_key(&delete.key)?;
        if !delete.events.is_empty() || delete.due_ms.is_some() {
            return Err(unsupported("a gateway to an upstream has no events and no lifecycle rules"));
        }
        let name = self.upstream_name(&bucket.name);
        if let Some(queue) = self.write_back(bucket)
            && delete.version.is_none()
            && queue.takes(&name, &delete.key, &delete.condition)
        {
            let adding = queue.begin(&name).await?;
            self.require(bucket).await?;
            let record =
                Record { bucket: name.clone(), key: delete.key.clone(), deletes: true, ..Record::default() };
            self.client().check(&Call::new(Method::DELETE, &name, &delete.key))?;
            let data = Data::Memory(Bytes::new());
            if let Added::Stored(_) = queue.add(record, data, delete.condition.clone(), adding).await? {
                return Ok(DeleteResult::default());
            }
        }
        self.write_back.drain(Drain::Key(&name, &delete.key)).await?;
        let condition = match delete.condition {
            Condition::Always => Condition::Always,
            _ => self.check_deletion(bucket, delete).await?,
        };
        let call = Call::new(Method::DELETE, &name, &delete.key);
        let mut call = with_condition(call, &condition)?;
        let mut found = None;
        if let Some(version) = delete.version {
            match self.version_name(&name, &delete.key, version).await {
                Ok((version, marker)) => {
                    call = call.query("versionId", version.clone());
                    found = Some((version, marker));
                }
                Err(error)
                    if error.kind() == ErrorKind::NotFound && delete.condition == Condition::Always =>
                {
                    return Ok(DeleteResult::default());
                }
                Err(error) => return Err(error),
            }
        }
        let deleted = self.client().call(call).await;
        let of_version = found.as_ref().map(|(version, _)| version.as_str());
        let answer = self.blocks.forget_after(deleted, &name, &delete.key, of_version).await?;
        if let Some((version, marker)) = found {
            return Ok(DeleteResult { version: Some(version_of(Some(&version))), marker });
        }
        let marker = answer.header("x-amz-delete-marker") == Some("true");
        let version = answer.header("x-amz-version-id").map(|version| version_of(Some(version)));
        Ok(DeleteResult { version: version.filter(|_| marker), marker })
    }

    async fn list(&self, bucket: &Bucket, list: &List) -> Result<ListPage> {
        self.list_page(bucket, list).await
    }
}
