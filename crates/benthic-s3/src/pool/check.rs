//! The check of a bucket: compares all index entries with each other and with the data objects.

use super::PoolSal;
use super::shard_call::run_all;
use crate::sal::encryption::is_encrypted;
use crate::sal::{Bucket, BucketCheck, Id, VersionId};
use benthic_classes::bucket::keys;
use benthic_classes::bucket::state::{
    Body, Chunks, Current, Data, Event, Garbage, Head, Manifest, Part, Queue, Upload, Usage, Write,
};
use benthic_core::codec::Wire;
use benthic_core::{ListRequest, Namespaces, ObjectId, OptionalExtension, Pool, Result};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// All entries of a shard; of the bodies only the sequence numbers.
#[derive(Default)]
struct Contents {
    current: BTreeMap<String, Current>,
    older: BTreeMap<String, Vec<Head>>,
    bodies: BTreeSet<u64>,
    /// Uploads and their storage classes.
    uploads: BTreeMap<Id, Option<String>>,
    parts: Vec<(Id, Part)>,
    groups: BTreeMap<Id, Data>,
    tags: BTreeSet<(Id, Id)>,
    unconfirmed: Vec<Chunks>,
    queues: BTreeMap<Bytes, Queue>,
    /// Number of waiting and dead events of each queue.
    events: BTreeMap<Bytes, (u64, u64)>,
}

/// Findings and sums so far.
#[derive(Default)]
struct CheckState {
    findings: Vec<String>,
    usage: Usage,
    /// Data objects of this bucket that the index names: their number per write.
    known: BTreeMap<Id, u32>,
}

impl CheckState {
    fn report(&mut self, finding: String) {
        self.findings.push(finding);
    }

    fn add_known(&mut self, chunks: Chunks) {
        let count = self.known.entry(chunks.write.into()).or_default();
        *count = chunks.count.max(*count);
    }
}

impl PoolSal {
    pub(super) async fn check(&self, bucket: &Bucket) -> Result<BucketCheck> {
        let mut state = CheckState::default();
        // List the data objects before reading the index, so that objects of concurrent writers do
        // not look like orphans.
        let names = self.data_objects(bucket).await?;
        let data_objects = names.len() as u64;
        for shard in self.shards(bucket.id, bucket.shards)? {
            self.check_shard(bucket, &shard, &mut state).await?;
        }
        let is_known = |name: &String| {
            let chunk = name
                .split_once('.')
                .and_then(|(write, number)| Some((write.parse::<Id>().ok()?, number.parse::<u32>().ok()?)));
            chunk.is_some_and(|(write, number)| state.known.get(&write).is_some_and(|count| number < *count))
        };
        let mut unknown: Vec<String> = names.into_iter().filter(|name| !is_known(name)).collect();
        if !unknown.is_empty() {
            // List again: garbage collection may have removed data objects and their index entries
            // since the first listing.
            let listed = self.data_objects(bucket).await?;
            unknown.retain(|name| listed.contains(name));
        }
        for name in unknown {
            state.report(format!("the index does not refer to a data object object={name}"));
        }
        Ok(BucketCheck { usage: (&state.usage).into(), data_objects, findings: state.findings })
    }

    /// The names of all data objects in all pools. Ids are unique, so no two pools have the same
    /// name.
    async fn data_objects(&self, bucket: &Bucket) -> Result<BTreeSet<String>> {
        let namespaces = Namespaces::One(self.names.data_namespace(bucket.id));
        let mut names = BTreeSet::new();
        for pool in self.data_pools().await? {
            let mut request = ListRequest { namespaces: namespaces.clone(), ..ListRequest::default() };
            loop {
                let page = pool.list(request.clone()).await?;
                names.extend(page.objects.iter().map(|object| object.name().to_owned()));
                request.after = page.next;
                if request.after.is_none() {
                    break;
                }
            }
        }
        Ok(names)
    }

    async fn check_shard(&self, bucket: &Bucket, shard: &ObjectId, state: &mut CheckState) -> Result<()> {
        let header = self.header(shard).await?;
        let mut contents = self.contents(shard, state).await?;
        let mut usage = Usage {
            uploads: contents.uploads.len() as u64,
            parts: contents.parts.len() as u64,
            part_bytes: contents.parts.iter().map(|(_, part)| part.size_bytes()).sum(),
            ..Usage::default()
        };
        let current = std::mem::take(&mut contents.current);
        let mut older = std::mem::take(&mut contents.older);
        for (key, Current { null_seq, head }) in current {
            let older = older.remove(&key).unwrap_or_default();
            let nulls: Vec<u64> = older.iter().filter(|head| head.null).map(|head| head.seq).collect();
            let fits = match nulls.as_slice() {
                [] => null_seq == 0,
                [seq] => *seq == null_seq && !head.null,
                _ => false,
            };
            if !fits || older.iter().any(|older| older.seq >= head.seq) {
                state.report(format!("the versions of a key contradict each other key={key:?}"));
            }
            usage.objects += u64::from(!head.marker);
            for head in [head].into_iter().chain(older) {
                usage.versions += u64::from(!head.marker);
                usage.markers += u64::from(head.marker);
                usage.bytes += head.size_bytes;
                self.check_version(bucket, shard, &key, &head, &mut contents, state).await?;
            }
        }
        for key in older.keys() {
            state.report(format!("a key has versions but no current version key={key:?}"));
        }
        for (upload, part) in &contents.parts {
            let class = contents.uploads.get(upload);
            if class.is_none() {
                state.report(format!("a part belongs to no upload upload={upload}"));
            }
            if let Some(segment) = part.segment {
                state.add_known(segment.chunks());
                let (encrypted, context) = (is_encrypted(&part.attributes), format!("upload={upload}"));
                let manifest = Manifest { segments: vec![segment], ..Manifest::default() };
                let place = (class.and_then(Option::as_deref), bucket.id);
                self.check_data(place, &manifest, encrypted, &context, state).await?;
            }
        }
        for body in &contents.bodies {
            state.report(format!("a body has no version seq={body}"));
        }
        for (group, tag) in &contents.tags {
            if !contents.groups.contains_key(group) {
                state.report(format!("a reference points to missing shared data group={group} tag={tag}"));
            }
        }
        for (group, data) in &contents.groups {
            if !contents.tags.iter().any(|(tagged, _)| tagged == group) {
                state.report(format!("shared data have no reference group={group}"));
            }
            data.chunks.iter().for_each(|chunks| state.add_known(*chunks));
        }
        for (name, queue) in &contents.queues {
            let found = contents.events.remove(name).unwrap_or_default();
            if (queue.waiting, queue.dead) != found {
                state.report(format!(
                    "the numbers of a queue of events are wrong shard={} queue={name:?} found={found:?}",
                    shard.name()
                ));
            }
        }
        for name in contents.events.keys() {
            state.report(format!("events have no queue shard={} queue={name:?}", shard.name()));
        }
        contents.unconfirmed.iter().for_each(|chunks| state.add_known(*chunks));
        if usage != header.usage {
            let counted = header.usage;
            state.report(format!(
                "the usage sums are wrong shard={} stored={counted:?} found={usage:?}",
                shard.name()
            ));
        }
        state.usage.add(&usage);
        Ok(())
    }

    async fn check_version(
        &self,
        bucket: &Bucket,
        shard: &ObjectId,
        key: &str,
        head: &Head,
        contents: &mut Contents,
        state: &mut CheckState,
    ) -> Result<()> {
        let context = format!("key={key:?} version={}", VersionId::from(head.version_ref()));
        let body: Option<Body> = match &head.body {
            _ if head.marker => return Ok(()),
            Some(body) => Some(body.clone()),
            None => {
                contents.bodies.remove(&head.seq);
                self.shard_value(shard, keys::body(head.seq)).await?
            }
        };
        let Some(Body { manifest, attributes }) = body else {
            state.report(format!("the body of a version is missing {context}"));
            return Ok(());
        };
        if manifest.size_bytes() != head.size_bytes {
            state.report(format!("the data length differs from the size of the version {context}"));
        }
        let home = match manifest.shared {
            None => {
                manifest.chunks().into_iter().for_each(|chunks| state.add_known(chunks));
                bucket.id
            }
            Some(group) => {
                let tag = keys::tag(group.write, head.write);
                let home = self.names.shard(group.bucket, group.shard)?;
                if self.shard_value::<bool>(&home, tag).await?.is_none() {
                    state.report(format!("shared data lack the reference of a version {context}"));
                }
                group.bucket.into()
            }
        };
        let place = (head.class.as_deref(), home);
        self.check_data(place, &manifest, is_encrypted(&attributes), &context, state).await
    }

    /// Checks that data objects exist and have the right length.
    async fn check_data(
        &self,
        (class, home): (Option<&str>, Id),
        manifest: &Manifest,
        is_encrypted: bool,
        context: &str,
        state: &mut CheckState,
    ) -> Result<()> {
        if manifest.segments.is_empty() {
            return Ok(());
        }
        let pool = self.pool_of(class).await?;
        let mut checks = Vec::new();
        for chunk in self.stored_chunks(home, manifest, is_encrypted) {
            let (object, len_bytes) = chunk?;
            checks.push(check_chunk(pool.as_ref(), object, len_bytes));
        }
        let wrong = run_all(checks).await?;
        wrong.into_iter().flatten().for_each(|finding| state.report(format!("{finding} {context}")));
        Ok(())
    }

    async fn contents(&self, shard: &ObjectId, state: &mut CheckState) -> Result<Contents> {
        let mut contents = Contents::default();
        let visit = |key: &Bytes, value: &Bytes| {
            if contents.add(key, value)?.is_none() {
                state.report(format!("an index key is malformed shard={} key={key:?}", shard.name()));
            }
            Ok(())
        };
        self.for_each_entry(shard, &[], visit).await?;
        Ok(contents)
    }
}

async fn check_chunk(pool: &dyn Pool, object: ObjectId, len_bytes: u64) -> Result<Option<String>> {
    Ok(match pool.stat(&object).await.optional()? {
        Some((stat, _)) if stat.size_bytes == len_bytes => None,
        Some(_) => Some(format!("a data object has the wrong length object={}", object.name())),
        None => Some(format!("a data object is missing object={}", object.name())),
    })
}

impl Contents {
    /// Adds an index entry. Returns `None` if its key is malformed.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<Option<()>> {
        let Some((space, rest)) = key.split_first() else { return Ok(None) };
        let id = |at: usize| rest.get(at..at + 16).and_then(|id| id.try_into().ok()).map(Id);
        match *space {
            keys::CURRENT => {
                self.current.insert(keys::unescape(rest)?.0, Current::from_stored(value)?);
            }
            keys::OLDER => {
                let (name, suffix) = keys::unescape(rest)?;
                let head = Head::from_stored(value)?;
                if keys::seq_of(suffix) != Some(head.seq) {
                    return Ok(None);
                }
                self.older.entry(name).or_default().push(head);
            }
            keys::UPLOAD => {
                let Some(upload) = keys::id_at_end(key) else { return Ok(None) };
                self.uploads.insert(upload.into(), Upload::from_stored(value)?.class);
            }
            keys::PART => {
                let Some(upload) = id(0) else { return Ok(None) };
                self.parts.push((upload, Part::from_stored(value)?));
            }
            keys::BODY => {
                let Ok(seq) = rest.try_into().map(u64::from_be_bytes) else { return Ok(None) };
                self.bodies.insert(seq);
            }
            keys::GROUP => {
                let Some(group) = id(0) else { return Ok(None) };
                self.groups.insert(group, Data::from_stored(value)?);
            }
            keys::TAG => {
                let (Some(group), Some(tag)) = (id(0), id(16)) else { return Ok(None) };
                self.tags.insert((group, tag));
            }
            keys::WRITE => {
                let Some(write) = id(0) else { return Ok(None) };
                if let Write::Intent(intent) = Write::from_stored(value)? {
                    self.unconfirmed.push(Chunks { write: write.into(), count: intent.chunks });
                }
            }
            keys::GARBAGE => {
                if let Garbage::Data(data) = Garbage::from_stored(value)? {
                    self.unconfirmed.extend(data.chunks);
                }
            }
            keys::QUEUE => {
                self.queues.insert(Bytes::copy_from_slice(rest), Queue::from_stored(value)?);
            }
            keys::EVENT | keys::DEAD_EVENT => {
                // The queue, a zero, and the number in eight bytes.
                let Some((queue, [0])) =
                    rest.len().checked_sub(8).and_then(|at| rest.get(..at)?.split_last_chunk())
                else {
                    return Ok(None);
                };
                Event::from_stored(value)?;
                let (waiting, dead) = self.events.entry(Bytes::copy_from_slice(queue)).or_default();
                *if *space == keys::EVENT { waiting } else { dead } += 1;
            }
            _ if key == keys::HEADER => {}
            _ => return Ok(None),
        }
        Ok(Some(()))
    }
}
