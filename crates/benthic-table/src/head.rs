//! The head: the only mutable object of a table. It is small, and every change replaces it as a
//! whole.

use crate::groups;
use crate::ids::{Id, Role, TableObject};
use crate::layout::Layout;
use crate::partition::Partitioning;
use crate::schema::{NODES_MAX, TableSchema};
use crate::table::Definition;
use crate::wire;
use arrow::datatypes::DataType;
use benthic_core::{Error, ErrorKind, Result};
use benthic_index::{COLUMNS_MAX, Definition as Index, IndexKind, Kind};
use bytes::Bytes;
use prost::Message;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;

/// Size limit of a head.
pub const HEAD_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Limit of snapshots per table; one more drops the oldest.
pub const SNAPSHOTS_MAX: usize = 1_000;
/// Limit of concurrent writers.
pub const INTENTS_MAX: usize = 1_000;
/// Limit of lists per snapshot.
pub const LISTS_MAX: usize = 1_024;
/// Limit of indexes per table.
pub const INDEXES_MAX: usize = 8;
/// Limit of tags per table.
pub const TAGS_MAX: usize = 100;
/// Permitted target sizes of data objects.
pub const OBJECT_BYTES_TARGET: RangeInclusive<u64> = 1024 * 1024..=64 * 1024 * 1024;

const MAGIC: &[u8; 8] = b"BNTABLE\n";
/// The format of a table whose rows were never changed and that has no tags.
const FORMAT: u32 = 1;
/// The format of other tables. Builds that do not know it refuse the table: they would return
/// deleted rows.
const FORMAT_OF_CHANGES: u32 = 2;
/// The format of a table that had an index of words. Builds that do not know it refuse the table:
/// they would forget the contents of the index. The numbers of the formats differ in two bits, so
/// that no wrong bit turns one into another.
const FORMAT_OF_WORDS: u32 = 4;
/// The format of a table whose data objects had another codec or row-group size than the default.
/// Builds that do not know it refuse the table: they would forget these settings.
const FORMAT_OF_ENCODINGS: u32 = 8;
/// The format of a table that had column groups. Builds that do not know it refuse the table: they
/// would not find the columns of the groups, and a vacuum would remove them.
const FORMAT_OF_GROUPS: u32 = 16;
/// The format of a table that had an index of elements. Builds that do not know it refuse the
/// table: they could not write the index.
const FORMAT_OF_ELEMENTS: u32 = 32;
const FRAME_BYTES: usize = 16;
/// Limit of fields in the head's message, which has one field per list, snapshot, intent and
/// schema.
const FIELDS_MAX: usize = 50_000;
/// Limit of fields in all schemas of the history, nested ones included.
const HISTORY_NODES_MAX: usize = 5 * NODES_MAX;

/// The state of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableState {
    Live,
    Dropping,
}

/// The operation that created a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Append,
    Alter,
    Delete,
    Update,
    Merge,
    Compact,
    Rollback,
}

impl Operation {
    /// All operations, in the order of their numbers in the head.
    const ALL: [Operation; 8] = [
        Operation::Create,
        Operation::Append,
        Operation::Alter,
        Operation::Delete,
        Operation::Update,
        Operation::Merge,
        Operation::Compact,
        Operation::Rollback,
    ];

    /// The name in messages and `--json` output.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Append => "append",
            Operation::Alter => "alter",
            Operation::Delete => "delete",
            Operation::Update => "update",
            Operation::Merge => "merge",
            Operation::Compact => "compact",
            Operation::Rollback => "rollback",
        }
    }
}

/// A file list and its totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRef {
    pub object: TableObject,
    pub objects: u64,
    pub rows: u64,
    pub data_bytes: u64,
    pub list_bytes: u64,
    /// Number of data objects that have column groups.
    pub grouped: u64,
}

/// A snapshot, as the head records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRef {
    /// Counts up from 1.
    pub id: u64,
    /// Commit time, in milliseconds since 1970 (UTC); never before that of an earlier snapshot.
    pub time_ms: u64,
    pub operation: Operation,
    /// The id of the commit that created it; each commit draws its own.
    pub writer: Id,
    pub schema: u32,
    pub lists: Vec<TableObject>,
}

/// A registered writer: a vacuum keeps the objects it has written so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    pub writer: Id,
    /// Start time, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
}

/// The content of a head.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    pub id: Id,
    pub state: TableState,
    /// The history of schemas; a schema's id is its position.
    pub schemas: Vec<TableSchema>,
    pub next_field_id: u32,
    pub partitioning: Partitioning,
    /// The layout of new data objects.
    pub layout: Layout,
    /// The lists of the snapshots. `encode` omits lists that no snapshot refers to.
    pub lists: BTreeMap<TableObject, ListRef>,
    /// The existing snapshots, oldest first; never empty.
    pub snapshots: Vec<SnapshotRef>,
    pub intents: Vec<Intent>,
    /// The indexes that data objects have or will get.
    pub indexes: Vec<Index>,
    pub next_index: u32,
    /// Names of snapshots. A vacuum keeps these snapshots.
    pub tags: BTreeMap<String, u64>,
    /// Whether queries record their access. Older builds forget the setting when they change the
    /// table.
    pub records_access: bool,
    /// The version of the format. It never decreases.
    format: u32,
}

impl Head {
    /// The head of a new table, with its first snapshot.
    ///
    /// # Errors
    /// As [`TableSchema::new`].
    pub fn new(id: Id, definition: &Definition, writer: Id, now_ms: u64) -> Result<Head> {
        let next_field_id = definition.schema.columns().iter().map(|column| column.id).max().unwrap_or(0);
        let mut head = Head {
            id,
            state: TableState::Live,
            schemas: vec![TableSchema::new(0, definition.schema.columns().to_vec())?],
            next_field_id: next_field_id.saturating_add(1),
            partitioning: definition.partitioning.clone(),
            layout: Layout::default(),
            lists: BTreeMap::new(),
            snapshots: Vec::new(),
            intents: Vec::new(),
            indexes: Vec::new(),
            next_index: 0,
            tags: BTreeMap::new(),
            records_access: false,
            format: FORMAT,
        };
        head.set_layout(definition.layout.clone());
        head.push_snapshot(Operation::Create, writer, now_ms, 0, Vec::new());
        Ok(head)
    }

    /// The id of the snapshot with this tag.
    pub(crate) fn snapshot_with_tag(&self, name: &str) -> Result<u64> {
        self.tags.get(name).copied().ok_or_else(|| {
            let message = "the table has no such tag; `benthic table tag` lists its tags";
            Error::not_found(message).with("tag", name)
        })
    }

    /// Marks the table as one that older builds must not read.
    pub(crate) fn need_format_of_changes(&mut self) {
        self.format = self.format.max(FORMAT_OF_CHANGES);
    }

    /// Sets the layout of new data objects.
    pub(crate) fn set_layout(&mut self, layout: Layout) {
        if !layout.is_known_to_old_builds() {
            self.format = self.format.max(FORMAT_OF_ENCODINGS);
        }
        if !layout.groups.is_empty() {
            self.format = self.format.max(FORMAT_OF_GROUPS);
        }
        self.layout = layout;
    }

    /// Adds a new index.
    pub(crate) fn push_index(&mut self, index: Index) {
        self.format = self.format.max(match index.kind {
            IndexKind::Values => FORMAT,
            IndexKind::Words => FORMAT_OF_WORDS,
            IndexKind::Elements => FORMAT_OF_ELEMENTS,
        });
        self.next_index += 1;
        self.indexes.push(index);
    }

    /// The newest snapshot and its schema.
    pub fn current(&self) -> Result<(&SnapshotRef, &TableSchema)> {
        let snapshot = self.snapshots.last();
        let pair = snapshot.and_then(|snapshot| Some((snapshot, self.schema(snapshot.schema)?)));
        pair.ok_or_else(|| Error::internal("a head has no snapshot"))
    }

    pub fn schema(&self, id: u32) -> Option<&TableSchema> {
        self.schemas.get(id as usize)
    }

    pub fn lists_of(&self, snapshot: &SnapshotRef) -> Vec<ListRef> {
        snapshot.lists.iter().filter_map(|list| self.lists.get(list).copied()).collect()
    }

    /// Whether the table has column groups: new data objects get them, or those of the newest
    /// snapshot have them.
    pub fn has_groups(&self) -> bool {
        !self.layout.groups.is_empty() || self.snapshots.last().is_some_and(|newest| self.is_grouped(newest))
    }

    /// Whether data objects of a snapshot have column groups.
    pub fn is_grouped(&self, snapshot: &SnapshotRef) -> bool {
        self.lists_of(snapshot).iter().any(|list| list.grouped > 0)
    }

    pub fn has_intent(&self, writer: Id) -> bool {
        self.intents.iter().any(|intent| intent.writer == writer)
    }

    /// Adds a snapshot. Above the limit, drops the oldest ones that have no tag.
    pub(crate) fn push_snapshot(
        &mut self,
        operation: Operation,
        writer: Id,
        now_ms: u64,
        schema: u32,
        lists: Vec<TableObject>,
    ) {
        let (last_id, last_ms) = self.snapshots.last().map_or((0, 0), |last| (last.id, last.time_ms));
        let (id, time_ms) = (last_id + 1, now_ms.max(last_ms));
        self.snapshots.push(SnapshotRef { id, time_ms, operation, writer, schema, lists });
        let mut excess = self.snapshots.len().saturating_sub(SNAPSHOTS_MAX);
        let tagged: HashSet<u64> = self.tags.values().copied().collect();
        self.snapshots.retain(|snapshot| {
            let is_dropped = excess > 0 && !tagged.contains(&snapshot.id);
            excess -= usize::from(is_dropped);
            !is_dropped
        });
    }

    pub fn encode(&self) -> Result<Bytes> {
        let mut message = wire::Head {
            id: self.id.0,
            state: u32::from(self.state == TableState::Dropping),
            schemas: self.schemas.iter().map(TableSchema::encode).collect::<Result<_>>()?,
            next_field_id: self.next_field_id,
            partitioning: Some(self.partitioning.encode()),
            sort: self.layout.sort.clone(),
            object_bytes_target: self.layout.object_bytes,
            encoding: self.layout.encode(),
            bloom: self.layout.bloom.clone(),
            groups: self.layout.encode_groups(),
            intents: self
                .intents
                .iter()
                .map(|i| wire::Intent { writer: i.writer.0, time_ms: i.time_ms })
                .collect(),
            indexes: self
                .indexes
                .iter()
                .map(|index| wire::Index {
                    number: index.number,
                    columns: index.columns.clone(),
                    kind: match index.kind {
                        IndexKind::Values => 0,
                        IndexKind::Words => 1,
                        IndexKind::Elements => 2,
                    },
                })
                .collect(),
            next_index: self.next_index,
            tags: self
                .tags
                .iter()
                .map(|(name, snapshot)| wire::Tag { name: name.clone(), snapshot: *snapshot })
                .collect(),
            records_access: self.records_access,
            ..wire::Head::default()
        };
        let mut places = HashMap::new();
        for snapshot in &self.snapshots {
            let mut lists = Vec::with_capacity(snapshot.lists.len());
            for list in &snapshot.lists {
                let place = *places.entry(*list).or_insert_with(|| {
                    message.lists.extend(self.lists.get(list).map(encode_list));
                    message.lists.len().saturating_sub(1) as u32
                });
                lists.push(place);
            }
            message.snapshots.push(wire::Snapshot {
                id: snapshot.id,
                time_ms: snapshot.time_ms,
                operation: snapshot.operation as u32,
                writer: snapshot.writer.0,
                schema: snapshot.schema,
                lists,
            });
        }
        let message = message.encode_to_vec();
        if message.len() + FRAME_BYTES > HEAD_BYTES_MAX {
            let text = "the table's head would be too large; vacuum the table, or use fewer columns";
            return Err(Error::limit_exceeded(text)
                .with("len_bytes", message.len() + FRAME_BYTES)
                .with("len_bytes_max", HEAD_BYTES_MAX));
        }
        // Never write a head that cannot be decoded again.
        Head::decode_message(&message).map_err(|error| error.with_kind(ErrorKind::LimitExceeded))?;
        let crc = crc32c::crc32c(&message).to_le_bytes();
        Ok([MAGIC.as_slice(), &self.format.to_le_bytes(), &crc, &message].concat().into())
    }

    /// Decodes the object's bytes. For any input this takes memory in proportion to its length and
    /// does not panic.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for a format newer than this build's.
    pub fn decode(bytes: &[u8]) -> Result<Head> {
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(corrupt("it is too large"));
        }
        let (frame, message) =
            bytes.split_at_checked(FRAME_BYTES).ok_or_else(|| corrupt("it is too short"))?;
        let word = |at: usize| u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        if !frame.starts_with(MAGIC) {
            return Err(corrupt("its magic number is wrong"));
        }
        let known = [
            FORMAT,
            FORMAT_OF_CHANGES,
            FORMAT_OF_WORDS,
            FORMAT_OF_ENCODINGS,
            FORMAT_OF_GROUPS,
            FORMAT_OF_ELEMENTS,
        ];
        if !known.contains(&word(8)) {
            let message = "the table's format is newer than this build; use a newer build";
            return Err(Error::unsupported(message)
                .with("format", word(8))
                .with("format_max", FORMAT_OF_ELEMENTS));
        }
        if crc32c::crc32c(message) != word(12) {
            return Err(corrupt("its checksum is wrong"));
        }
        Ok(Head { format: word(8), ..Head::decode_message(message)? })
    }

    /// Decodes the message after the checksum. Public for fuzzers, which would never pass the
    /// checksum.
    pub fn decode_message(message: &[u8]) -> Result<Head> {
        wire::check_fields(message, FIELDS_MAX)?;
        let message = wire::Head::decode(message).map_err(wire::corrupt)?;
        let state = match message.state {
            0 => TableState::Live,
            1 => TableState::Dropping,
            _ => return Err(corrupt("its state is unknown")),
        };
        let mut schemas = Vec::with_capacity(message.schemas.len());
        let mut history_nodes = 0;
        for (id, bytes) in (0..).zip(&message.schemas) {
            history_nodes += wire::check_fields(bytes, HISTORY_NODES_MAX - history_nodes)?;
            schemas.push(TableSchema::decode(id, bytes)?);
        }
        let lists: Vec<ListRef> = message.lists.iter().map(decode_list).collect();
        let mut snapshots = Vec::with_capacity(message.snapshots.len());
        for snapshot in &message.snapshots {
            if snapshot.lists.len() > LISTS_MAX {
                return Err(corrupt("it has too many lists"));
            }
            let list = |place: &u32| lists.get(*place as usize).map(|list| list.object);
            let lists: Option<Vec<_>> = snapshot.lists.iter().map(list).collect();
            snapshots.push(SnapshotRef {
                id: snapshot.id,
                time_ms: snapshot.time_ms,
                operation: *Operation::ALL
                    .get(snapshot.operation as usize)
                    .ok_or_else(|| corrupt("the operation of a snapshot is unknown"))?,
                writer: Id(snapshot.writer),
                schema: snapshot.schema,
                lists: lists.ok_or_else(|| corrupt("a list is missing"))?,
            });
        }
        let partitioning = message.partitioning.ok_or_else(|| corrupt("it has no partitioning"))?;
        let intent = |intent: &wire::Intent| Intent { writer: Id(intent.writer), time_ms: intent.time_ms };
        let index = |index: wire::Index| {
            let kind = match index.kind {
                0 => IndexKind::Values,
                1 => IndexKind::Words,
                2 => IndexKind::Elements,
                _ => return Err(corrupt("the kind of an index is unknown")),
            };
            Ok(Index { number: index.number, columns: index.columns, kind })
        };
        let head = Head {
            id: Id(message.id),
            state,
            schemas,
            next_field_id: message.next_field_id,
            partitioning: Partitioning::decode(partitioning)?,
            layout: Layout::decode(
                message.encoding,
                (message.sort, message.bloom, message.groups),
                message.object_bytes_target,
            )
            .ok_or_else(|| corrupt("its codec or row-group size is invalid"))?,
            lists: lists.into_iter().map(|list| (list.object, list)).collect(),
            snapshots,
            intents: message.intents.iter().map(intent).collect(),
            indexes: message.indexes.into_iter().map(index).collect::<Result<_>>()?,
            next_index: message.next_index,
            tags: message.tags.into_iter().map(|tag| (tag.name, tag.snapshot)).collect(),
            records_access: message.records_access,
            format: FORMAT,
        };
        head.check()?;
        Ok(head)
    }

    fn check(&self) -> Result<()> {
        let (_, schema) = self.current().map_err(|_| corrupt("it has no snapshot"))?;
        let snapshots = &self.snapshots;
        let has = |column: &u32| schema.by_id(*column).is_some();
        let rules = [
            (snapshots.len() <= SNAPSHOTS_MAX, "it has too many snapshots"),
            (snapshots.windows(2).all(|pair| pair[0].id < pair[1].id), "its snapshots are not in order"),
            (snapshots.iter().all(|snapshot| snapshot.id < u64::MAX), "the id of a snapshot is invalid"),
            (snapshots.iter().all(|snapshot| self.schema(snapshot.schema).is_some()), "a schema is missing"),
            (self.intents.len() <= INTENTS_MAX, "it has too many writers"),
            (schema.columns().iter().all(|column| column.id < self.next_field_id), "a column id is invalid"),
            (self.layout.sort.iter().all(has), "a sort column is missing"),
            (self.layout.bloom.iter().all(has), "a column with a Bloom filter is missing"),
            (groups::check(&self.layout.groups, schema).is_ok(), "its column groups are invalid"),
            (self.partitioning.field().as_ref().is_none_or(has), "the partitioning column is missing"),
            (self.tags.len() <= TAGS_MAX, "it has too many tags"),
            (
                self.tags.values().all(|tagged| snapshots.iter().any(|snapshot| snapshot.id == *tagged)),
                "the snapshot of a tag is missing",
            ),
            (self.indexes.len() <= INDEXES_MAX, "it has too many indexes"),
            (self.indexes.iter().all(|index| index.number < self.next_index), "an index number is invalid"),
            (
                self.indexes.iter().all(|index| check_index(index, schema).is_ok()),
                "the columns of an index are invalid",
            ),
            (
                OBJECT_BYTES_TARGET.contains(&self.layout.object_bytes),
                "the target size of data objects is invalid",
            ),
        ];
        rules.iter().try_for_each(|(holds, fault)| if *holds { Ok(()) } else { Err(corrupt(fault)) })
    }
}

pub(crate) fn check_index(index: &Index, schema: &TableSchema) -> Result<()> {
    let invalid = |message: &str| Error::invalid_argument(message);
    if !(1..=COLUMNS_MAX).contains(&index.columns.len()) {
        return Err(invalid("an index has 1 to 4 columns").with("columns", index.columns.len()));
    }
    if index.kind != IndexKind::Values && index.columns.len() > 1 {
        return Err(
            invalid("an index of words or elements has one column").with("columns", index.columns.len())
        );
    }
    for (place, id) in index.columns.iter().enumerate() {
        let column =
            schema.by_id(*id).ok_or_else(|| invalid("the table has no such column").with("id", id))?;
        if index.columns[..place].contains(id) {
            return Err(invalid("an index cannot have a column twice").with("column", &column.name));
        }
        if index.kind == IndexKind::Words && Kind::of(&column.data_type) != Some(Kind::Text) {
            let message = "a text index needs a column of type utf8; choose another column";
            return Err(Error::unsupported(message)
                .with("column", &column.name)
                .with("type", &column.data_type));
        }
        let key_type = match (index.kind, &column.data_type) {
            (IndexKind::Elements, DataType::List(element)) => Some(element.data_type()),
            (IndexKind::Elements, _) => None,
            (_, data_type) => Some(data_type),
        };
        if key_type.and_then(Kind::of).is_none() {
            let message =
                "this type cannot be indexed, and a list only in an index of its own; choose other columns";
            return Err(Error::unsupported(message)
                .with("column", &column.name)
                .with("type", &column.data_type));
        }
    }
    Ok(())
}

/// The command that drops an index.
pub(crate) fn drop_command(index: &Index) -> &'static str {
    match index.kind {
        IndexKind::Values | IndexKind::Elements => "benthic table index POOL/TABLE --drop COLUMN,...",
        IndexKind::Words => "benthic table index POOL/TABLE --drop-text COLUMN",
    }
}

fn encode_list(list: &ListRef) -> wire::List {
    wire::List {
        writer: list.object.writer.0,
        number: list.object.number,
        objects: list.objects,
        rows: list.rows,
        data_bytes: list.data_bytes,
        list_bytes: list.list_bytes,
        grouped: list.grouped,
    }
}

fn decode_list(list: &wire::List) -> ListRef {
    ListRef {
        object: TableObject { role: Role::List, writer: Id(list.writer), number: list.number },
        objects: list.objects,
        rows: list.rows,
        data_bytes: list.data_bytes,
        list_bytes: list.list_bytes,
        grouped: list.grouped,
    }
}

fn corrupt(fault: &str) -> Error {
    Error::corrupt(format!("the table's head is damaged: {fault}"))
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
