//! Recorded access: the conditions that queries of a table had, the rows that they read and those
//! that they selected.
//!
//! A table records access only if its head says so. The records are one small object beside the
//! table's other objects. They are sums by *shape*: the columns that a query reads, and the kind of
//! condition on each column, without values. So their size does not grow with the number of
//! queries. A program adds its sums with a compare-and-swap. A lost update only makes the sums
//! smaller, so a query never fails because of it. [`Table::record_access`] creates the object, and
//! nothing else does: an update after the table was dropped cannot bring the object back.

use crate::head::Head;
use crate::ids::{Id, access_object};
use crate::object;
use crate::table::Table;
use crate::wire::{check_fields, corrupt as undecodable};
use benthic_core::{Error, ErrorKind, Fetch, OptionalExtension, Result, WriteOp};
use bytes::Bytes;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

/// Size limit of the records of a table.
pub const ACCESS_BYTES_MAX: usize = 64 * 1024;
/// Limit of shapes; further ones replace those that were used longest ago.
pub const SHAPES_MAX: usize = 200;
/// Limit of columns of a shape, and of conditions.
pub const SHAPE_COLUMNS_MAX: usize = 100;
/// A shape that no query had for so long is removed.
pub const SHAPE_AGE_MS_MAX: u64 = 30 * 24 * 60 * 60 * 1000;

const MAGIC: &[u8; 8] = b"BNACCESS";
const FORMAT: u32 = 1;
const FRAME_BYTES: usize = 16;
const ATTEMPTS_MAX: u32 = 3;

/// The kind of a condition on a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionKind {
    /// `=`, `IN`, `IS NULL`.
    Equal,
    /// `<`, `>`, `BETWEEN`, `LIKE 'start%'`.
    Range,
    /// A search for words.
    Words,
    /// A condition that no index answers.
    Other,
}

impl ConditionKind {
    const ALL: [ConditionKind; 4] =
        [ConditionKind::Equal, ConditionKind::Range, ConditionKind::Words, ConditionKind::Other];

    /// The condition as text, without its value: `= ?`.
    pub fn text(self) -> &'static str {
        match self {
            ConditionKind::Equal => "= ?",
            ConditionKind::Range => "between ?",
            ConditionKind::Words => "has words ?",
            ConditionKind::Other => "other",
        }
    }
}

/// The common part of queries: the numbers of the columns and indexes that they use.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessShape {
    /// Columns with conditions; a row must satisfy all of them.
    pub conditions: BTreeSet<(u32, ConditionKind)>,
    /// All columns that the query reads.
    pub columns: BTreeSet<u32>,
    /// Indexes that the query looked up.
    pub indexes: BTreeSet<u32>,
}

/// Sums over the queries of a shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessSums {
    pub queries: u64,
    /// Data objects that statistics did not exclude.
    pub objects: u64,
    /// Rows of these objects.
    pub rows: u64,
    /// Rows that satisfied the conditions.
    pub rows_selected: u64,
    pub bytes_read: u64,
    /// The time of the last query, in milliseconds since 1970 (UTC).
    pub last_ms: u64,
}

impl AccessSums {
    pub(crate) fn add(&mut self, more: &AccessSums) {
        self.queries = self.queries.saturating_add(more.queries);
        self.objects = self.objects.saturating_add(more.objects);
        self.rows = self.rows.saturating_add(more.rows);
        self.rows_selected = self.rows_selected.saturating_add(more.rows_selected);
        self.bytes_read = self.bytes_read.saturating_add(more.bytes_read);
        self.last_ms = self.last_ms.max(more.last_ms);
    }
}

/// Recorded access of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// When the recording began, in milliseconds since 1970 (UTC).
    pub since_ms: u64,
    pub shapes: BTreeMap<AccessShape, AccessSums>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AccessMessage {
    #[prost(uint64, tag = "1")]
    since_ms: u64,
    #[prost(message, repeated, tag = "2")]
    shapes: Vec<ShapeMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ShapeMessage {
    #[prost(uint32, repeated, tag = "1")]
    columns: Vec<u32>,
    /// Four times the number of the column, and the number of the kind.
    #[prost(uint64, repeated, tag = "2")]
    conditions: Vec<u64>,
    #[prost(uint32, repeated, tag = "3")]
    indexes: Vec<u32>,
    #[prost(uint64, tag = "4")]
    queries: u64,
    #[prost(uint64, tag = "5")]
    objects: u64,
    #[prost(uint64, tag = "6")]
    rows: u64,
    #[prost(uint64, tag = "7")]
    rows_selected: u64,
    #[prost(uint64, tag = "8")]
    bytes_read: u64,
    #[prost(uint64, tag = "9")]
    last_ms: u64,
}

impl Access {
    /// Adds queries of a shape. Columns and conditions above the limit are forgotten.
    pub fn add(&mut self, mut shape: AccessShape, sums: &AccessSums) {
        while shape.columns.len() > SHAPE_COLUMNS_MAX {
            shape.columns.pop_last();
        }
        while shape.conditions.len() > SHAPE_COLUMNS_MAX {
            shape.conditions.pop_last();
        }
        self.shapes.entry(shape).or_default().add(sums);
    }

    /// Adds other records, and removes shapes that are old or too many.
    pub fn merge(&mut self, more: &Access, now_ms: u64) {
        for (shape, sums) in &more.shapes {
            self.add(shape.clone(), sums);
        }
        self.shapes.retain(|_, sums| sums.last_ms.saturating_add(SHAPE_AGE_MS_MAX) >= now_ms);
        while self.shapes.len() > SHAPES_MAX || self.encode().len() > ACCESS_BYTES_MAX {
            let oldest = self.shapes.iter().min_by_key(|(_, sums)| sums.last_ms);
            let Some(oldest) = oldest.map(|(shape, _)| shape.clone()) else { break };
            self.shapes.remove(&oldest);
        }
    }

    /// Queries of all shapes.
    pub fn queries(&self) -> u64 {
        self.shapes.values().fold(0, |sum, sums| sum.saturating_add(sums.queries))
    }

    pub fn encode(&self) -> Bytes {
        let shape = |(shape, sums): (&AccessShape, &AccessSums)| ShapeMessage {
            columns: shape.columns.iter().copied().collect(),
            conditions: shape
                .conditions
                .iter()
                .map(|(id, kind)| u64::from(*id) << 2 | *kind as u64)
                .collect(),
            indexes: shape.indexes.iter().copied().collect(),
            queries: sums.queries,
            objects: sums.objects,
            rows: sums.rows,
            rows_selected: sums.rows_selected,
            bytes_read: sums.bytes_read,
            last_ms: sums.last_ms,
        };
        let message =
            AccessMessage { since_ms: self.since_ms, shapes: self.shapes.iter().map(shape).collect() };
        let message = message.encode_to_vec();
        let crc = crc32c::crc32c(&message).to_le_bytes();
        [MAGIC.as_slice(), &FORMAT.to_le_bytes(), &crc, &message].concat().into()
    }

    /// Decodes the object's bytes. For any input this takes memory in proportion to its length and
    /// does not panic.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for a format newer than this build's.
    pub fn decode(bytes: &[u8]) -> Result<Access> {
        let (frame, message) = bytes
            .split_at_checked(FRAME_BYTES)
            .filter(|_| bytes.len() <= ACCESS_BYTES_MAX)
            .ok_or_else(|| corrupt("their size is invalid"))?;
        let word = |at: usize| u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        if !frame.starts_with(MAGIC) {
            return Err(corrupt("their magic number is wrong"));
        }
        if word(8) != FORMAT {
            let message = "the format of the records of access is newer than this build; use a newer build";
            return Err(Error::unsupported(message).with("format", word(8)));
        }
        if crc32c::crc32c(message) != word(12) {
            return Err(corrupt("their checksum is wrong"));
        }
        Access::decode_message(message)
    }

    /// Decodes the message after the checksum. Public for fuzzers, which would never pass the
    /// checksum.
    ///
    /// # Errors
    /// As [`decode`](Access::decode).
    pub fn decode_message(message: &[u8]) -> Result<Access> {
        check_fields(message, SHAPES_MAX + 1)?;
        let message = AccessMessage::decode(message).map_err(undecodable)?;
        let mut access = Access { since_ms: message.since_ms, shapes: BTreeMap::new() };
        for shape in message.shapes {
            let condition = |packed: &u64| {
                let kind = ConditionKind::ALL[(packed & 3) as usize];
                u32::try_from(packed >> 2).map(|id| (id, kind)).map_err(|_| corrupt("a column is invalid"))
            };
            let sums = AccessSums {
                queries: shape.queries,
                objects: shape.objects,
                rows: shape.rows,
                rows_selected: shape.rows_selected,
                bytes_read: shape.bytes_read,
                last_ms: shape.last_ms,
            };
            let shape = AccessShape {
                conditions: shape.conditions.iter().map(condition).collect::<Result<_>>()?,
                columns: shape.columns.into_iter().collect(),
                indexes: shape.indexes.into_iter().collect(),
            };
            access.add(shape, &sums);
        }
        Ok(access)
    }
}

fn corrupt(fault: &str) -> Error {
    let message = format!(
        "the records of access are damaged: {fault}; `benthic table advise POOL/TABLE --record off` removes them"
    );
    Error::corrupt(message)
}

impl Table {
    /// Starts or stops the recording of access. Stopping removes the records.
    ///
    /// # Errors
    /// `NotFound`, `Busy`; as [`Pool::write`](benthic_core::Pool::write).
    pub async fn record_access(&self, on: bool) -> Result<()> {
        let object = access_object(self.id)?;
        let set = async || {
            let set = |head: &mut Head| {
                head.records_access = on;
                Ok(())
            };
            self.commit(Id::draw(&self.environment)?, set).await.map(|_| ())
        };
        if on {
            set().await?;
            let since_ms = self.environment.unix_ms();
            let empty = Access { since_ms, ..Access::default() }.encode();
            match self.pool().write(&object, WriteOp::new().create(true).write_full(empty)).await {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(self.heads.add_context(error));
                }
                _ => {}
            }
            // A drop meanwhile did not see the object.
            return match self.head().await {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    object::remove_all(self.pool(), [Ok(object)].into_iter()).await?;
                    Err(error)
                }
                head => head.map(|_| ()),
            };
        }
        // Without the setting, nothing reads the records.
        set().await?;
        object::remove_all(self.pool(), [Ok(object)].into_iter()).await
    }

    /// The records of access; `None` if there are none.
    ///
    /// # Errors
    /// `Corrupt`; as [`Pool::read`](benthic_core::Pool::read).
    pub async fn access(&self) -> Result<Option<Access>> {
        let found = self.read_access().await.map_err(|error| self.heads.add_context(error))?;
        Ok(found.map(|(access, _)| access))
    }

    async fn read_access(&self) -> Result<Option<(Access, u64)>> {
        let whole = Fetch::read(0, ACCESS_BYTES_MAX as u64 + 1);
        let found = self.pool().fetch(&access_object(self.id)?, whole).await.optional()?;
        found.map(|(bytes, version)| Ok((Access::decode(&bytes)?, version))).transpose()
    }

    /// Adds records of access, if the table still records it. Sums without a time get the current
    /// one. Returns whether they were added: they are not if other programs write at the same time
    /// all the time.
    ///
    /// # Errors
    /// `Corrupt`; as [`Pool::write`](benthic_core::Pool::write). A query must not fail because of
    /// them.
    pub async fn add_access(&self, more: &Access) -> Result<bool> {
        for _ in 0..ATTEMPTS_MAX {
            let Some((mut access, version)) = self.read_access().await? else { return Ok(false) };
            let now_ms = self.environment.unix_ms();
            let mut more = more.clone();
            more.shapes.values_mut().filter(|sums| sums.last_ms == 0).for_each(|sums| sums.last_ms = now_ms);
            access.merge(&more, now_ms);
            let op = WriteOp::new().assert_version(version).write_full(access.encode());
            match self.pool().write(&access_object(self.id)?, op).await {
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
