//! Copies an object to another object, with data, attributes and omap, in the same pool or to any
//! other.
//!
//! There is no transaction over two objects, and a large object takes several operations. The first
//! operation empties the target. Further operations write data and omap entries, and the last one
//! sets the attributes with [`COPIED_XATTR`]. Each has a version guard against other writers, and a
//! copy that fits into one operation is atomic. A killed copy leaves a target without
//! [`COPIED_XATTR`]. The repair is to copy again, because only a target with that attribute, or
//! with equal contents, counts as copied.

use crate::transfer::{COPIED_XATTR, Download, OmapDownload, remove_incomplete, stored_xxh3, write_next};
use benthic_classes::digest::{Algorithm, Hasher};
use benthic_core::{Fetch, ObjectId, OptionalExtension, Pool, Result, Stat, WriteOp, limits};
use bytes::Bytes;
use serde_json::json;
use std::collections::BTreeMap;

/// An object in a pool.
#[derive(Clone, Copy)]
pub struct Location<'a> {
    pub pool: &'a dyn Pool,
    pub object: &'a ObjectId,
}

/// One version of an object, without its data and the entries of its omap.
#[derive(PartialEq, Eq)]
pub struct Snapshot {
    pub stat: Stat,
    pub version: u64,
    xattrs: BTreeMap<String, Bytes>,
    has_omap: bool,
}

impl Snapshot {
    /// Reads the current version of an object; `None` if the object does not exist.
    pub async fn read(at: Location<'_>) -> Result<Option<Snapshot>> {
        let whole = Fetch::stat().and(Fetch::list_xattrs()).and(Fetch::omap_range(None, "", 1));
        let found = at.pool.fetch(at.object, whole).await.optional()?;
        Ok(found.map(|(((stat, xattrs), page), version)| Snapshot {
            stat,
            version,
            xattrs,
            has_omap: !page.entries.is_empty(),
        }))
    }

    /// Upper bound of the memory in bytes that a copy of this object takes.
    pub fn memory_bytes(&self) -> u64 {
        if self.has_omap {
            limits::OPERATION_BYTES_MAX
        } else {
            self.stat.size_bytes.min(limits::OPERATION_BYTES_MAX)
        }
    }

    /// The attributes without the record of a copy.
    fn own_xattrs(&self) -> impl Iterator<Item = (&String, &Bytes)> {
        self.xattrs.iter().filter(|(name, _)| *name != COPIED_XATTR)
    }

    /// The value of [`COPIED_XATTR`] on a copy of this version.
    pub fn record(&self) -> Bytes {
        let modified_unix_ns = self.stat.modified_unix_ns;
        let record = json!({ "version": self.version, "modified_unix_ns": modified_unix_ns });
        Bytes::from(record.to_string())
    }
}

/// Returns whether the target equals the source. It always compares sizes, attributes and omaps.
/// Data count as equal if the target is a copy of this version of the source. With `checksum`,
/// their digests must be equal instead.
///
/// # Errors
/// `Conflict` if one of the objects has changed since its snapshot; as [`Pool::read`].
pub async fn is_equal(
    from: Location<'_>,
    source: &Snapshot,
    to: Location<'_>,
    target: &Snapshot,
    checksum: bool,
) -> Result<bool> {
    if (source.stat.size_bytes, source.has_omap) != (target.stat.size_bytes, target.has_omap)
        || !source.own_xattrs().eq(target.own_xattrs())
    {
        return Ok(false);
    }
    let equal_data = if checksum {
        let here = stored_xxh3(from.pool, from.object, source.version).await?;
        here == stored_xxh3(to.pool, to.object, target.version).await?
    } else {
        target.xattrs.get(COPIED_XATTR) == Some(&source.record())
    };
    if !equal_data || !source.has_omap {
        return Ok(equal_data);
    }
    let mut here = OmapDownload::of_version(from.pool, from.object, source.version);
    let mut there = OmapDownload::of_version(to.pool, to.object, target.version);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    loop {
        // Two stores may end their pages at different keys.
        if ours.is_empty() {
            ours = here.next().await?;
        }
        if theirs.is_empty() {
            theirs = there.next().await?;
        }
        let common = ours.len().min(theirs.len());
        if common == 0 || ours[..common] != theirs[..common] {
            return Ok(ours.is_empty() && theirs.is_empty());
        }
        ours.drain(..common);
        theirs.drain(..common);
    }
}

/// Replaces the target by a copy of one version of the source. `replaced` is the target's current
/// version, if it exists. Returns the target's new version and the XXH3 digest of the data read.
///
/// If an operation on the target fails after the first one, the function removes the target.
///
/// # Errors
/// `Conflict` or `AlreadyExists` if another client has changed the source or the target; as
/// [`Pool::read`] and [`Pool::write`].
pub async fn copy(
    from: Location<'_>,
    source: &Snapshot,
    to: Location<'_>,
    replaced: Option<&Snapshot>,
) -> Result<(u64, String)> {
    let op = match replaced {
        Some(replaced) => WriteOp::new().assert_version(replaced.version),
        None => WriteOp::new().create(true),
    };
    let mut writer = Writer { to, op, len_bytes: 0, version: None, replaces: replaced.is_some() };
    match write_all(from, source, &mut writer, replaced).await {
        Err(error) => Err(match writer.version {
            Some(version) => remove_incomplete(to.pool, to.object, version, error).await,
            None => error,
        }),
        written => written,
    }
}

async fn write_all(
    from: Location<'_>,
    source: &Snapshot,
    writer: &mut Writer<'_>,
    replaced: Option<&Snapshot>,
) -> Result<(u64, String)> {
    if let Some(replaced) = replaced {
        for name in replaced.xattrs.keys() {
            writer.add(WriteOp::new().remove_xattr(name)).await?;
        }
        if replaced.has_omap {
            writer.add(WriteOp::new().omap_clear()).await?;
        }
    }
    let mut hasher = Hasher::new(Algorithm::Xxh3);
    let mut data = Download::of_version(from.pool, from.object, source.version, source.stat.size_bytes);
    let first = data.next().await?.unwrap_or_default();
    hasher.update(&first);
    writer.add(WriteOp::new().write_full(first)).await?;
    while let Some(range) = data.next().await? {
        hasher.update(&range);
        writer.add(WriteOp::new().append(range)).await?;
    }
    if source.has_omap {
        let mut omap = OmapDownload::of_version(from.pool, from.object, source.version);
        let mut page = omap.next().await?;
        while !page.is_empty() {
            writer.add(WriteOp::new().omap_set(page)).await?;
            page = omap.next().await?;
            // An OSD takes long for an operation with very many keys.
            if !page.is_empty() {
                writer.flush().await?;
            }
        }
    }
    for (name, value) in source.own_xattrs() {
        writer.add(WriteOp::new().set_xattr(name, value.clone())).await?;
    }
    writer.add(WriteOp::new().set_xattr(COPIED_XATTR, source.record())).await?;
    Ok((writer.flush().await?, hasher.finish()))
}

/// Collects steps into operations that are as large as the limits allow.
struct Writer<'a> {
    to: Location<'a>,
    /// The next operation, and its size.
    op: WriteOp,
    len_bytes: u64,
    /// The version after the last operation.
    version: Option<u64>,
    /// Whether there was an object before.
    replaces: bool,
}

impl Writer<'_> {
    /// Adds the steps of an operation. First runs the collected operation if they do not fit into
    /// it.
    async fn add(&mut self, steps: WriteOp) -> Result<()> {
        let len_bytes = steps.check()?;
        let count = self.op.guards.len() + self.op.steps.len() + steps.steps.len();
        if self.len_bytes + len_bytes > limits::OPERATION_BYTES_MAX || count > limits::OPERATION_STEPS_MAX {
            self.flush().await?;
        }
        self.len_bytes += len_bytes;
        self.op.steps.extend(steps.steps);
        Ok(())
    }

    /// Runs the collected operation.
    async fn flush(&mut self) -> Result<u64> {
        let version =
            write_next(self.to.pool, self.to.object, std::mem::take(&mut self.op), self.replaces).await?;
        self.op = WriteOp::new().assert_version(version);
        (self.len_bytes, self.version) = (0, Some(version));
        Ok(version)
    }
}

#[cfg(test)]
#[path = "copy_tests.rs"]
mod tests;
