//! Write intents, outcomes, and data that several versions share.

use super::codec::{Id, Version};
use super::keys;
use super::shard::{Shard, conflict, load_header, not_found};
use super::state::{Chunks, Data, Garbage, Header, Intent, Release, Usage, Write};
use super::wire::{
    Begin, CHUNKS_MAX, Gate, Init, SWEEP_MAX, Share, Sweep, Unshare, check_class, check_key, check_limit,
};
use benthic_core::codec::Wire;
use benthic_core::{Error, MethodContext, OptionalExtension, Result};
use std::collections::BTreeMap;

pub(super) fn init(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let Init { bucket, shard } = Init::from_input(input)?;
    if let Some(header) = load_header(context).optional()?.flatten() {
        if (header.bucket, header.shard) == (bucket, shard) {
            return Ok(Vec::new());
        }
        return Err(conflict("the object is already another shard"));
    }
    let header = Header {
        version: Version,
        bucket,
        shard,
        gate: 0,
        closed: false,
        // Sequence number 0 means no version.
        next_seq: 1,
        usage: Usage::default(),
    };
    context.omap_set(BTreeMap::from([(bytes::Bytes::from_static(keys::HEADER), header.encode())]))?;
    Ok(Vec::new())
}

pub(super) fn gate(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let Gate { revision, close } = Gate::from_input(input)?;
    let mut shard = Shard::open(context)?;
    let header = &shard.header;
    if revision == header.gate && close == header.closed {
        return Ok(Vec::new());
    }
    // A delayed call must not undo a later decision.
    if revision <= header.gate {
        return Err(conflict("a later revision of the bucket opened or closed the shard"));
    }
    if close {
        for space in [keys::CURRENT, keys::OLDER] {
            if !shard.range(None, &[space], 1)?.entries.is_empty() {
                return Err(conflict("the bucket is not empty"));
            }
        }
    }
    shard.header.gate = revision;
    shard.header.closed = close;
    shard.finish()
}

pub(super) fn begin(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let Begin { write, expires_ms, chunks, class, shared } = Begin::from_input(input)?;
    check_class(class.as_deref())?;
    check_limit("the write has too many data objects", chunks as usize, CHUNKS_MAX as usize)?;
    if chunks > 0 && shared.is_some() {
        return Err(Error::invalid_argument("a write cannot both write data and share another write's data"));
    }
    let mut shard = Shard::open(context)?;
    shard.check_open()?;
    let mut intent = Intent { expires_ms, chunks, class, shared };
    match shard.get(&keys::write(write))? {
        Some(Write::Outcome(_)) => return Err(conflict("the write is already done")),
        Some(Write::Intent(before)) if before.class != intent.class => {
            return Err(conflict("the write has another storage class"));
        }
        Some(Write::Intent(before)) => {
            // A call that arrives late must not lower the values of a later one.
            intent.expires_ms = intent.expires_ms.max(before.expires_ms);
            intent.chunks = intent.chunks.max(before.chunks);
            intent.shared = intent.shared.or(before.shared);
        }
        None => {}
    }
    shard.set(keys::write(write), &Write::Intent(intent));
    shard.finish()
}

/// Renews an intent. The intent must still exist: a writer that has lost its intent must not
/// continue.
pub(super) fn renew(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let Begin { write, .. } = Begin::from_input(input)?;
    let mut shard = Shard::open(context)?;
    match shard.get(&keys::write(write))? {
        Some(Write::Intent(_)) => drop(shard),
        _ => return Err(conflict("the write's intent was removed because its lease ended")),
    }
    begin(context, input)
}

pub(super) fn sweep(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let Sweep { now_ms, writes, given_up } = Sweep::from_input(input)?;
    check_limit("too many writes for one call", writes.len(), SWEEP_MAX)?;
    let mut shard = Shard::open(context)?;
    for write in writes {
        match shard.get(&keys::write(write))? {
            Some(Write::Intent(intent)) if given_up || intent.expires_ms <= now_ms => {
                shard.remove(keys::write(write));
                if let Some(group) = intent.shared {
                    let release = Release { group, tag: write };
                    shard.add_garbage(write, &Garbage::Release(release), now_ms);
                } else if intent.chunks > 0 {
                    let chunks = vec![Chunks { write, count: intent.chunks }];
                    let data = Data { class: intent.class, chunks };
                    shard.add_garbage(write, &Garbage::Data(data), now_ms);
                }
            }
            Some(Write::Outcome(outcome)) if outcome.expires_ms <= now_ms => {
                shard.remove(keys::write(write));
            }
            _ => {}
        }
    }
    shard.finish()
}

pub(super) fn share(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let Share { group, tag, key, version } = Share::from_input(input)?;
    check_key(&key)?;
    let mut shard = Shard::open(context)?;
    if shard.get::<Data>(&keys::group(group))?.is_none() {
        let data = own_data(&mut shard, group, &key, version)?;
        shard.set(keys::group(group), &data);
        shard.set(keys::tag(group, group), &true);
    }
    shard.set(keys::tag(group, tag), &true);
    shard.finish()
}

fn own_data(
    shard: &mut Shard<'_, '_>,
    group: Id,
    key: &str,
    version: super::wire::VersionRef,
) -> Result<Data> {
    let gone = || not_found("the version that wrote the data no longer exists");
    let head = shard.version(key, version)?.ok_or_else(gone)?;
    let manifest = shard.body(&head)?.manifest;
    let is_own = manifest.shared.is_none() && manifest.data_id(head.write) == group;
    if !is_own || manifest.segments.is_empty() {
        return Err(gone());
    }
    Ok(Data { class: head.class, chunks: manifest.chunks() })
}

pub(super) fn release(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let Unshare { group, tag, free_at_ms } = Unshare::from_input(input)?;
    let mut shard = Shard::open(context)?;
    shard.unshare(group, tag, None, free_at_ms)?;
    shard.finish()
}
