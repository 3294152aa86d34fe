//! A shard during one call: stored entries, overlaid with the call's staged changes. The changes
//! are written at the end, because a method must read before it writes.

use super::codec::{Id, corrupt};
use super::keys;
use super::locks::{DefaultRetention, LOCK_ATTRIBUTE, Lock, Retention};
use super::state::{
    Attributes, Body, Current, Data, Garbage, Head, Header, Manifest, Outcome, Release, Write,
};
use super::wire::{Times, VersionRef};
use benthic_core::codec::Wire;
use benthic_core::{Error, MethodContext, OmapPage, Result, limits};
use bytes::Bytes;
use std::collections::BTreeMap;

pub(super) struct Shard<'c, 'a> {
    context: &'c mut MethodContext<'a>,
    pub header: Header,
    staged: BTreeMap<Bytes, Option<Bytes>>,
}

/// The removal of a version.
#[derive(Clone, Copy)]
pub(super) struct Removal {
    /// The caller's time.
    pub now_ms: u64,
    /// Time from which the data may be collected.
    pub free_at_ms: u64,
    pub bypass_governance: bool,
}

impl Removal {
    pub fn new(times: &Times, bypass_governance: bool) -> Removal {
        let free_at_ms = times.now_ms.saturating_add(times.grace_ms);
        Removal { now_ms: times.now_ms, free_at_ms, bypass_governance }
    }
}

impl<'c, 'a> Shard<'c, 'a> {
    pub fn open(context: &'c mut MethodContext<'a>) -> Result<Shard<'c, 'a>> {
        let header =
            load_header(context)?.ok_or_else(|| not_found("the object is not a shard of a bucket"))?;
        Ok(Shard { context, header, staged: BTreeMap::new() })
    }

    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.set(keys::HEADER, &self.header.clone());
        let (set, removed): (Vec<_>, Vec<_>) =
            self.staged.into_iter().partition(|(_, value)| value.is_some());
        self.context.omap_set(set.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())?;
        let removed: Vec<Bytes> = removed.into_iter().map(|(key, _)| key).collect();
        if !removed.is_empty() {
            self.context.omap_remove(&removed)?;
        }
        Ok(Vec::new())
    }

    pub fn get<T: Wire>(&mut self, key: &Bytes) -> Result<Option<T>> {
        let value = match self.staged.get(key) {
            Some(staged) => staged.clone(),
            None => self.context.omap_get(std::slice::from_ref(key))?.pop().map(|(_, value)| value),
        };
        value.map(|value| T::from_stored(&value)).transpose()
    }

    /// A page of the entries as they were before the call.
    pub fn range(&mut self, after: Option<&[u8]>, prefix: &[u8], entries_max: usize) -> Result<OmapPage> {
        self.context.omap_range(after, prefix, entries_max)
    }

    /// All entries with a prefix, as they were before the call. The methods that write these
    /// entries limit their number.
    pub fn all(&mut self, prefix: &[u8]) -> Result<Vec<(Bytes, Bytes)>> {
        let mut entries: Vec<(Bytes, Bytes)> = Vec::new();
        loop {
            let after = entries.last().map(|(key, _)| key.clone());
            let page = self.range(after.as_deref(), prefix, limits::OMAP_PAGE_ENTRIES_MAX)?;
            entries.extend(page.entries);
            if !page.more {
                return Ok(entries);
            }
        }
    }

    pub fn set(&mut self, key: impl AsRef<[u8]>, value: &impl Wire) {
        self.staged.insert(Bytes::copy_from_slice(key.as_ref()), Some(value.encode()));
    }

    pub fn remove(&mut self, key: Bytes) {
        self.staged.insert(key, None);
    }

    /// The time that decides whether a retention period has ended: that of the caller or of the
    /// store, whichever is earlier.
    pub fn lock_time_ms(&self, caller_ms: u64) -> u64 {
        caller_ms.min(self.context.unix_ms())
    }

    /// The later of the caller's and the store's time.
    pub fn later_time_ms(&self, caller_ms: u64) -> u64 {
        caller_ms.max(self.context.unix_ms())
    }

    /// Adds a retention period to a lock that has none. It begins at the time of the caller or of
    /// the store, whichever is later.
    pub fn add_default_retention(
        &self,
        attributes: &mut Attributes,
        default: Option<DefaultRetention>,
        caller_ms: u64,
    ) -> Result<()> {
        let Some(DefaultRetention { mode, duration_ms }) = default else { return Ok(()) };
        let mut lock = Lock::of(attributes)?;
        if lock.retention.is_none() {
            let until_ms = self.later_time_ms(caller_ms).saturating_add(duration_ms);
            lock.retention = Some(Retention { mode, until_ms });
            attributes.insert(LOCK_ATTRIBUTE.to_owned(), lock.encode());
        }
        Ok(())
    }

    pub fn check_open(&self) -> Result<()> {
        if self.header.closed {
            return Err(Error::busy("the bucket is being deleted"));
        }
        Ok(())
    }

    /// Whether the write is already done. If it is not and `needs_intent` is set, fails unless its
    /// intent exists.
    pub fn is_done(&mut self, write: Id, needs_intent: bool) -> Result<bool> {
        match self.get(&keys::write(write))? {
            Some(Write::Outcome(_)) => Ok(true),
            None if needs_intent => Err(conflict("the write's intent was removed because its lease ended")),
            Some(Write::Intent(_)) | None => Ok(false),
        }
    }

    pub fn note_outcome(&mut self, write: Id, times: &Times, head: &Head) {
        let outcome = Outcome {
            expires_ms: times.now_ms.saturating_add(times.outcome_ms),
            seq: head.seq,
            null: head.null,
            marker: head.marker,
        };
        self.set(keys::write(write), &Write::Outcome(outcome));
    }

    pub fn next_seq(&mut self) -> Result<u64> {
        let seq = self.header.next_seq;
        self.header.next_seq = seq
            .checked_add(1)
            .ok_or_else(|| Error::limit_exceeded("the shard has no version number left"))?;
        Ok(seq)
    }

    pub fn current(&mut self, key: &str) -> Result<Option<Current>> {
        self.get(&keys::current(key))
    }

    /// The newest version after the current one, as it was before the call.
    pub fn newest_older(&mut self, key: &str) -> Result<Option<Head>> {
        let page = self.range(None, &keys::older_prefix(key), 1)?;
        page.entries.first().map(|(_, value)| Head::from_stored(value)).transpose()
    }

    pub fn version(&mut self, key: &str, version: VersionRef) -> Result<Option<Head>> {
        let Some(current) = self.current(key)? else { return Ok(None) };
        if current.head.version_ref() == version {
            return Ok(Some(current.head));
        }
        let seq = match version {
            VersionRef::Null if current.null_seq == 0 => return Ok(None),
            VersionRef::Null => current.null_seq,
            VersionRef::Seq(seq) => seq,
        };
        let head: Option<Head> = self.get(&keys::older(key, seq))?;
        Ok(head.filter(|head| head.version_ref() == version))
    }

    pub fn body(&mut self, head: &Head) -> Result<Body> {
        if head.marker {
            return Ok(Body::default());
        }
        let body = match &head.body {
            Some(body) => Some(body.clone()),
            None => self.get(&keys::body(head.seq))?,
        };
        body.ok_or_else(|| corrupt("the body of a version is missing"))
    }

    /// Removes a version from the totals, and makes data that nothing else refers to garbage.
    ///
    /// # Errors
    /// `PermissionDenied` if a lock protects the version.
    pub fn retire(&mut self, head: &Head, removal: Removal) -> Result<()> {
        let body = self.body(head)?;
        let Removal { now_ms, free_at_ms, bypass_governance } = removal;
        Lock::of(&body.attributes)?.check_removal(self.lock_time_ms(now_ms), bypass_governance)?;
        let usage = &mut self.header.usage;
        if head.marker {
            subtract(&mut usage.markers, 1)?;
            return Ok(());
        }
        subtract(&mut usage.versions, 1)?;
        subtract(&mut usage.bytes, head.size_bytes)?;
        if head.body.is_none() {
            self.remove(keys::body(head.seq));
        }
        self.drop_data(head, &body.manifest, free_at_ms)
    }

    /// Removes a version's reference to its data. Data that nothing else refers to become garbage.
    pub fn drop_data(&mut self, head: &Head, manifest: &Manifest, free_at_ms: u64) -> Result<()> {
        match manifest.shared {
            Some(group) => {
                let release = Release { group, tag: head.write };
                self.add_garbage(head.write, &Garbage::Release(release), free_at_ms);
                Ok(())
            }
            None if manifest.segments.is_empty() => Ok(()),
            None => {
                let id = manifest.data_id(head.write);
                let own = Data { class: head.class.clone(), chunks: manifest.chunks() };
                self.unshare(id, id, Some(own), free_at_ms)
            }
        }
    }

    /// Removes a tag from a group; without tags left, the group's data become garbage. If the group
    /// does not exist, the data are `own`, which this tag alone refers to.
    pub fn unshare(&mut self, group: Id, tag: Id, own: Option<Data>, free_at_ms: u64) -> Result<()> {
        let key = keys::group(group);
        let data = match self.get::<Data>(&key)? {
            None => own,
            Some(data) => {
                let tags = self.range(None, &keys::tags_prefix(group), 2)?;
                let own_tag = keys::tag(group, tag);
                let had = self.get::<bool>(&own_tag)?.is_some();
                self.remove(own_tag.clone());
                if !had || tags.entries.iter().any(|(other, _)| *other != own_tag) {
                    return Ok(());
                }
                self.remove(key);
                Some(data)
            }
        };
        if let Some(data) = data {
            self.add_garbage(group, &Garbage::Data(data), free_at_ms);
        }
        Ok(())
    }

    pub fn add_garbage(&mut self, id: Id, garbage: &Garbage, free_at_ms: u64) {
        self.set(keys::garbage(free_at_ms, id), garbage);
    }
}

pub(super) fn load_header(context: &mut MethodContext<'_>) -> Result<Option<Header>> {
    let entry = context.omap_get(&[Bytes::from_static(keys::HEADER)])?.pop();
    entry.map(|(_, value)| Header::from_stored(&value)).transpose()
}

pub(super) fn subtract(sum: &mut u64, by: u64) -> Result<()> {
    *sum = sum.checked_sub(by).ok_or_else(|| corrupt("the totals of a shard do not match its content"))?;
    Ok(())
}

pub(super) fn add(sum: &mut u64, by: u64) -> Result<()> {
    *sum = sum
        .checked_add(by)
        .ok_or_else(|| Error::limit_exceeded("a total of the shard would be too large to count"))?;
    Ok(())
}

pub(super) fn not_found(message: &str) -> Error {
    Error::not_found(message)
}

pub(super) fn conflict(message: &str) -> Error {
    Error::conflict(message)
}
