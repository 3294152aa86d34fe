//! Table metadata of format versions 2 and 3 (Iceberg specification, "Table Metadata").

use super::keys::{File, Folder, FormatVersion, Key};
use super::nested::last_nested_id;
use super::types::iceberg_type;
use benthic_core::{Error, Result};
use benthic_table::head::{Head, SnapshotRef};
use benthic_table::ids::Id;
use benthic_table::{Operation, Partitioning, Ranges, TableSchema};
use serde_json::{Map, Value, json};

/// The field of Iceberg's partition specification that equals a table's partitioning.
pub struct PartitionField {
    pub name: String,
    pub source: u32,
    pub transform: &'static str,
}

impl PartitionField {
    /// The field's id; Iceberg counts from 1000.
    pub const ID: u32 = 1000;

    /// Days, months and years are those of Iceberg. It has no transform that equals other
    /// partitionings; then the table looks unpartitioned.
    pub fn of(head: &Head) -> Option<PartitionField> {
        let Partitioning::Range { field, ranges } = &head.partitioning else { return None };
        let transform = match ranges {
            Ranges::Day => "day",
            Ranges::Month => "month",
            Ranges::Year => "year",
            Ranges::Bounds(_) => return None,
        };
        if !head.schemas.iter().all(|schema| schema.by_id(*field).is_some()) {
            return None;
        }
        // A partition field must not have the name of a column. Manifests need a plain name.
        let mut name = format!("partition_{transform}");
        while head.schemas.iter().any(|schema| schema.has_name(&name)) {
            name.push('_');
        }
        Some(PartitionField { name, source: *field, transform })
    }

    /// The largest id of a partition field.
    pub fn last_id(partition: Option<&PartitionField>) -> u32 {
        if partition.is_some() { PartitionField::ID } else { PartitionField::ID - 1 }
    }

    /// Whether Iceberg's type of the partitions is `date`; else it is `int`.
    pub fn is_date(&self) -> bool {
        self.transform == "day"
    }
}

/// The metadata of a table with its snapshots up to `current`. In version 3, no row has an id: the
/// table is as one that was upgraded from version 2.
///
/// # Errors
/// `NotFound` if there is no such snapshot; `Unsupported` if Iceberg lacks a type of a column, and
/// if the snapshot has column groups.
pub fn table_metadata(folder: &Folder, head: &Head, current: u64, format: FormatVersion) -> Result<Value> {
    let known = head.snapshots.iter().take_while(|snapshot| snapshot.id <= current);
    if head.snapshots.iter().any(|snapshot| snapshot.id == current && head.is_grouped(snapshot)) {
        return Err(has_groups());
    }
    let snapshots: Vec<&SnapshotRef> = known.filter(|snapshot| !head.is_grouped(snapshot)).collect();
    let newest = snapshots.last().filter(|newest| newest.id == current).ok_or_else(|| {
        Error::not_found("the table has no such snapshot; it may have been vacuumed")
            .with("snapshot", current)
    })?;
    let partition = PartitionField::of(head);
    let schemas = head.schemas.iter().map(schema_json).collect::<Result<Vec<_>>>()?;
    let mut refs = Map::new();
    refs.insert("main".to_owned(), json!({ "snapshot-id": current, "type": "branch" }));
    for (tag, snapshot) in &head.tags {
        if tag != "main" && snapshots.iter().any(|known| known.id == *snapshot) {
            refs.insert(tag.clone(), json!({ "snapshot-id": snapshot, "type": "tag" }));
        }
    }
    let previous = |place: usize| place.checked_sub(1).map(|place| snapshots[place].id);
    let described = snapshots.iter().enumerate();
    let described = described.map(|(place, snapshot)| {
        let file = File::ManifestList { snapshot: snapshot.id, format };
        let manifest_list = Key { folder: folder.clone(), file };
        snapshot_json(head, snapshot, previous(place), &manifest_list)
    });
    let described: Vec<Value> = described.collect();
    let log = snapshots
        .iter()
        .map(|snapshot| json!({ "snapshot-id": snapshot.id, "timestamp-ms": snapshot.time_ms }));
    let mut metadata = json!({
        "format-version": format.number(),
        "table-uuid": uuid(head.id),
        "location": folder.location(),
        "last-sequence-number": current,
        "last-updated-ms": newest.time_ms,
        "last-column-id": last_field_id(head),
        "schemas": schemas,
        "current-schema-id": newest.schema,
        "partition-specs": [{ "spec-id": 0, "fields": partition_fields_json(partition.as_ref()) }],
        "default-spec-id": 0,
        "last-partition-id": PartitionField::last_id(partition.as_ref()),
        "properties": {},
        "current-snapshot-id": current,
        "snapshots": described,
        "snapshot-log": log.collect::<Vec<_>>(),
        "metadata-log": [],
        "sort-orders": [{ "order-id": 0, "fields": [] }],
        "default-sort-order-id": 0,
        "refs": refs,
    });
    if format == FormatVersion::V3 {
        metadata["next-row-id"] = 0.into();
    }
    Ok(metadata)
}

/// The error for a table with column groups, which Iceberg does not have.
pub fn has_groups() -> Error {
    let message = "the table has column groups, which Iceberg does not have; join them first: \
        benthic table rewrite POOL/TABLE --one-group";
    Error::unsupported(message)
}

fn snapshot_json(head: &Head, snapshot: &SnapshotRef, parent: Option<u64>, manifest_list: &Key) -> Value {
    let lists = head.lists_of(snapshot);
    let sum = |of: fn(&benthic_table::head::ListRef) -> u64| {
        lists.iter().fold(0_u64, |sum, list| sum.saturating_add(of(list))).to_string()
    };
    let mut described = json!({
        "snapshot-id": snapshot.id,
        "sequence-number": snapshot.id,
        "timestamp-ms": snapshot.time_ms,
        "manifest-list": manifest_list.uri(),
        "schema-id": snapshot.schema,
        "summary": {
            "operation": operation(snapshot.operation),
            "benthic.operation": snapshot.operation.name(),
            "total-data-files": sum(|list| list.objects),
            "total-records": sum(|list| list.rows),
            "total-files-size": sum(|list| list.data_bytes),
        },
    });
    if let Some(parent) = parent {
        described["parent-snapshot-id"] = parent.into();
    }
    described
}

/// Iceberg's name of an operation.
fn operation(operation: Operation) -> &'static str {
    match operation {
        Operation::Create | Operation::Append | Operation::Alter => "append",
        Operation::Delete => "delete",
        Operation::Update | Operation::Merge | Operation::Rollback => "overwrite",
        Operation::Compact => "replace",
    }
}

/// A schema in Iceberg's JSON form.
///
/// # Errors
/// `Unsupported` if Iceberg lacks a type of a column.
pub fn schema_json(schema: &TableSchema) -> Result<Value> {
    let field = |column: &benthic_table::Column| {
        Ok(json!({
            "id": column.id,
            "name": column.name,
            "required": !column.nullable,
            "type": iceberg_type(column)?,
        }))
    };
    let fields = schema.columns().iter().map(field).collect::<Result<Vec<_>>>()?;
    Ok(json!({ "type": "struct", "schema-id": schema.id, "fields": fields }))
}

/// The greatest id of a field of the table, also within columns.
pub fn last_field_id(head: &Head) -> u32 {
    let nested = head.schemas.iter().map(last_nested_id).max().unwrap_or(0);
    nested.max(head.next_field_id.saturating_sub(1))
}

/// The fields of the partition specification.
pub fn partition_fields_json(partition: Option<&PartitionField>) -> Value {
    let field = |field: &PartitionField| {
        json!({
            "source-id": field.source,
            "field-id": PartitionField::ID,
            "name": field.name,
            "transform": field.transform,
        })
    };
    partition.map(field).into_iter().collect()
}

/// A version 8 UUID (RFC 9562) with the bits of a table's id.
pub fn uuid(id: Id) -> String {
    let (high, low) = (id.0 >> 32, id.0 & 0xffff_ffff);
    format!("{high:08x}-{:04x}-8{:03x}-8{:03x}-62656e746869", low >> 16, (low >> 4) & 0xfff, low & 0xf)
}
