//! Multipart uploads.

use super::codec::{Id, Version, corrupt};
use super::events::check_events;
use super::keys;
use super::shard::{Shard, add, not_found, subtract};
use super::state::{Body, Data, Garbage, Manifest, Part, Segment, Upload};
use super::versions::{NewVersion, check_condition, install};
use super::wire::{
    ATTRIBUTES_BYTES_MAX, Abort, Complete, NewUpload, PART_ATTRIBUTES_BYTES_MAX, PutPart, SEGMENTS_MAX,
    check_attributes, check_class, check_etag, check_key, check_limit, check_part_number,
};
use benthic_core::codec::Wire;
use benthic_core::{Error, MethodContext, Result};
use bytes::Bytes;
use std::collections::BTreeMap;

pub(super) fn upload(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = NewUpload::from_input(input)?;
    check_key(&input.key)?;
    check_class(input.class.as_deref())?;
    check_attributes(&input.attributes, ATTRIBUTES_BYTES_MAX)?;
    let mut shard = Shard::open(context)?;
    shard.check_open()?;
    let at = keys::upload(&input.key, input.upload);
    if shard.get::<Upload>(&at)?.is_some() {
        return Ok(Vec::new());
    }
    add(&mut shard.header.usage.uploads, 1)?;
    let NewUpload { now_ms: begun_ms, class, attributes, .. } = input;
    shard.set(at, &Upload { version: Version, begun_ms, class, attributes });
    shard.finish()
}

pub(super) fn part(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = PutPart::from_input(input)?;
    check_key(&input.key)?;
    check_etag(&input.etag)?;
    check_attributes(&input.attributes, PART_ATTRIBUTES_BYTES_MAX)?;
    check_part_number(input.number)?;
    input.segment.as_ref().map_or(Ok(()), Segment::check)?;
    let mut shard = Shard::open(context)?;
    let at = keys::part(input.upload, input.number);
    let old: Option<Part> = shard.get(&at)?;
    if old.as_ref().is_some_and(|old| old.write == input.write) {
        return Ok(Vec::new());
    }
    let upload = find_upload(&mut shard, &input.key, input.upload)?;
    if upload.class != input.class {
        return Err(Error::invalid_argument("a part needs the storage class of its upload"));
    }
    // A repetition finds the part itself, above. If another write has replaced the part, the intent
    // is gone, and this write fails.
    shard.is_done(input.write, true)?;
    let part = Part {
        version: Version,
        segment: input.segment,
        write: input.write,
        modified_ms: input.times.now_ms,
        etag: input.etag,
        attributes: input.attributes,
    };
    if let Some(old) = old {
        drop_parts(&mut shard, &upload, &[(at.clone(), old)], input.times.now_ms)?;
    }
    add(&mut shard.header.usage.parts, 1)?;
    add(&mut shard.header.usage.part_bytes, part.size_bytes())?;
    shard.remove(keys::write(input.write));
    shard.set(at, &part);
    shard.finish()
}

fn find_upload(shard: &mut Shard<'_, '_>, key: &str, upload: Id) -> Result<Upload> {
    let found: Option<Upload> = shard.get(&keys::upload(key, upload))?;
    found.ok_or_else(|| not_found("there is no such upload; it was completed or aborted"))
}

pub(super) fn complete(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = Complete::from_input(input)?;
    check_key(&input.key)?;
    check_etag(&input.etag)?;
    check_attributes(&input.attributes, ATTRIBUTES_BYTES_MAX)?;
    check_events(&input.events)?;
    check_limit("the object has too many parts", input.parts.len(), SEGMENTS_MAX)?;
    if input.parts.is_empty() || !input.parts.is_sorted_by(|a, b| a.number < b.number) {
        return Err(Error::invalid_argument("the list of parts is empty or not in ascending order"));
    }
    let mut shard = Shard::open(context)?;
    if shard.is_done(input.upload, false)? {
        return Ok(Vec::new());
    }
    let current = shard.current(&input.key)?;
    if current.as_ref().is_some_and(|current| current.head.write == input.upload) {
        return Ok(Vec::new());
    }
    let upload = find_upload(&mut shard, &input.key, input.upload)?;
    shard.check_open()?;
    check_condition(&input.condition, current.as_ref().map(|current| &current.head), true)?;
    let mut unused = parts(&mut shard, input.upload)?;
    let mut segments = Vec::new();
    for wanted in &input.parts {
        let at = keys::part(input.upload, wanted.number);
        let part = unused.remove(&at).filter(|part| part.write == wanted.write);
        let part = part.ok_or_else(|| {
            Error::invalid_argument("a part is missing or was replaced").with("number", wanted.number)
        })?;
        drop_part(&mut shard, at, &part)?;
        segments.extend(part.segment);
    }
    let unused: Vec<_> = unused.into_iter().collect();
    drop_parts(&mut shard, &upload, &unused, input.times.now_ms)?;
    end(&mut shard, &input.key, input.upload)?;
    let mut attributes = input.attributes;
    shard.add_default_retention(&mut attributes, input.default_retention, input.times.now_ms)?;
    let body = Body { manifest: Manifest { segments, ..Manifest::default() }, attributes };
    let new = NewVersion {
        write: input.upload,
        etag: input.etag,
        class: upload.class,
        body: Some(body),
        events: &input.events,
    };
    install(&mut shard, &input.key, current, new, input.mode, &input.times)?;
    shard.finish()
}

pub(super) fn abort(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = Abort::from_input(input)?;
    check_key(&input.key)?;
    let mut shard = Shard::open(context)?;
    let upload = find_upload(&mut shard, &input.key, input.upload)?;
    let parts: Vec<_> = parts(&mut shard, input.upload)?.into_iter().collect();
    drop_parts(&mut shard, &upload, &parts, input.times.now_ms)?;
    end(&mut shard, &input.key, input.upload)?;
    shard.finish()
}

fn parts(shard: &mut Shard<'_, '_>, upload: Id) -> Result<BTreeMap<Bytes, Part>> {
    let entries = shard.all(&keys::parts_prefix(upload))?;
    entries.into_iter().map(|(key, value)| Ok((key, Part::from_stored(&value)?))).collect()
}

fn end(shard: &mut Shard<'_, '_>, key: &str, upload: Id) -> Result<()> {
    subtract(&mut shard.header.usage.uploads, 1)?;
    shard.remove(keys::upload(key, upload));
    Ok(())
}

fn drop_part(shard: &mut Shard<'_, '_>, at: Bytes, part: &Part) -> Result<()> {
    if keys::part_number(&at).is_none() {
        return Err(corrupt("an omap key of the index is not valid"));
    }
    subtract(&mut shard.header.usage.parts, 1)?;
    subtract(&mut shard.header.usage.part_bytes, part.size_bytes())?;
    shard.remove(at);
    Ok(())
}

/// Removes parts, and makes their data garbage without a grace period: only the completion of the
/// upload reads parts.
fn drop_parts(
    shard: &mut Shard<'_, '_>,
    upload: &Upload,
    parts: &[(Bytes, Part)],
    now_ms: u64,
) -> Result<()> {
    for (at, part) in parts {
        drop_part(shard, at.clone(), part)?;
    }
    let segments: Vec<Segment> = parts.iter().filter_map(|(_, part)| part.segment).collect();
    if let Some(first) = segments.first() {
        let chunks = segments.iter().map(Segment::chunks).collect();
        let data = Data { class: upload.class.clone(), chunks };
        shard.add_garbage(first.write, &Garbage::Data(data), now_ms);
    }
    Ok(())
}
