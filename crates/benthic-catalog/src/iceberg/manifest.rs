//! Manifests and manifest lists (Iceberg specification, "Manifests" and "Manifest Lists").
//!
//! A file list of a snapshot becomes two manifests: one of its data objects, and one of the delete
//! files for its deletion vectors, which are position delete files in format version 2, and Puffin
//! files in version 3. The manifest of the data objects is the same in both versions. Manifests
//! depend on the file list and a schema only, so snapshots share them.
//!
//! Clients find out from the entries whether a snapshot since theirs conflicts with their change.
//! So the data objects that the writer of the file list has added, and all delete files, have the
//! status "added". They inherit the snapshot and the sequence number of their manifest, which are
//! in the manifest list: those of the first snapshot with this file list. The other data objects
//! are "existing", since the first snapshot. If a file list is written again, its older delete
//! files count as added once more, which can only refuse a change that would be possible.

use super::avro::{AvroFile, Value};
use super::keys::{Content, FormatVersion, Key};
use super::metadata::{self, PartitionField};
use super::types::single_value;
use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use benthic_core::Result;
use benthic_table::ids::Id;
use benthic_table::{FileEntry, TableSchema};
use bytes::Bytes;

/// Number of a table's first columns whose statistics a manifest has. Iceberg's own default is 100.
pub const STATISTICS_COLUMNS_MAX: usize = 100;
/// The sequence number and the snapshot of existing entries.
const FIRST: i64 = 1;
const STATUS_EXISTING: i64 = 0;
const STATUS_ADDED: i64 = 1;
const CONTENT_DATA: i64 = 0;
const CONTENT_POSITION_DELETES: i64 = 1;

/// Writes a manifest.
pub struct Manifest {
    file: AvroFile,
    content: Content,
    /// The writer of the file list.
    writer: Id,
    has_partitions: bool,
    summary: Summary,
}

/// The file with the deleted rows of a data object.
pub struct DeleteFile {
    pub bytes: Bytes,
    /// The place and the size of the deletion vector, if the file is a Puffin file.
    pub blob: Option<(i64, i64)>,
}

/// The entry of a manifest in a manifest list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub added: Counts,
    pub existing: Counts,
    /// The least and greatest partition.
    pub partitions: Option<(i32, i32)>,
    pub has_null_partition: bool,
}

/// Numbers of files, and of the rows in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub files: i64,
    pub rows: i64,
}

impl Manifest {
    /// A manifest without entries, of a file list of this writer, and of a table with this schema
    /// and partitioning.
    ///
    /// # Errors
    /// `Unsupported` if Iceberg lacks a type of a column.
    pub fn new(
        table: &TableSchema,
        partition: Option<&PartitionField>,
        content: Content,
        writer: Id,
    ) -> Result<Manifest> {
        let name = if content == Content::Data { "data" } else { "deletes" };
        let metadata = [
            ("schema", metadata::schema_json(table)?.to_string()),
            ("schema-id", table.id.to_string()),
            ("partition-spec", metadata::partition_fields_json(partition).to_string()),
            ("partition-spec-id", "0".to_owned()),
            ("format-version", if content == Content::Vectors { "3" } else { "2" }.to_owned()),
            ("content", name.to_owned()),
        ];
        let file = AvroFile::new(&entry_schema(partition, content), &metadata);
        let has_partitions = partition.is_some();
        Ok(Manifest { file, content, writer, has_partitions, summary: Summary::default() })
    }

    /// Adds a data object, which is shown with this size, with the statistics of its row in a batch
    /// of a file list.
    pub fn push_data(
        &mut self,
        path: &Key,
        entry: &FileEntry,
        size_bytes: u64,
        statistics: &Statistics<'_>,
        row: usize,
    ) -> Result<()> {
        let rows = long(entry.rows);
        self.push(path, entry, (rows, long(size_bytes)), statistics.of(row, rows), None)
    }

    /// Adds the delete file of a data object.
    pub fn push_deletes(
        &mut self,
        path: &Key,
        entry: &FileEntry,
        file: &DeleteFile,
        data: &Key,
    ) -> Result<()> {
        let rows = entry.deleted.as_ref().map_or(0, |deleted| deleted.count());
        let none = std::array::from_fn(|_| Value::Optional(None));
        let size_bytes = file.bytes.len() as u64;
        self.push(path, entry, (long(rows), long(size_bytes)), none, Some((data, file.blob)))
    }

    fn push(
        &mut self,
        path: &Key,
        entry: &FileEntry,
        (rows, size_bytes): (i64, i64),
        statistics: [Value; 5],
        deletes: Option<(&Key, Option<(i64, i64)>)>,
    ) -> Result<()> {
        let mut partition = Vec::new();
        if self.has_partitions {
            let value = entry.partition.and_then(|partition| i32::try_from(partition).ok());
            self.summary.add_partition(value);
            partition.push(Value::optional(value.map(|value| Value::Number(value.into()))));
        }
        let is_added = deletes.is_some() || entry.object.writer == self.writer;
        let counts = if is_added { &mut self.summary.added } else { &mut self.summary.existing };
        counts.files += 1;
        counts.rows = counts.rows.saturating_add(rows);
        let mut file = vec![
            Value::Number(if deletes.is_some() { CONTENT_POSITION_DELETES } else { CONTENT_DATA }),
            Value::Text(path.uri()),
            Value::Text(if self.content == Content::Vectors { "PUFFIN" } else { "PARQUET" }.to_owned()),
            Value::Record(partition),
            Value::Number(rows),
            Value::Number(size_bytes),
        ];
        file.extend(statistics);
        file.push(Value::optional(deletes.map(|(data, _)| Value::Text(data.uri()))));
        if let Some((_, Some((offset, len)))) = deletes {
            file.extend([offset, len].map(|number| Value::optional(Some(Value::Number(number)))));
        }
        let status = if is_added { STATUS_ADDED } else { STATUS_EXISTING };
        let since = || Value::optional((!is_added).then_some(Value::Number(FIRST)));
        let entry = vec![Value::Number(status), since(), since(), since(), Value::Record(file)];
        self.file.push(&Value::Record(entry))
    }

    pub fn finish(self) -> (Bytes, Summary) {
        (self.file.finish(), self.summary)
    }
}

impl Summary {
    pub fn is_empty(&self) -> bool {
        self.added.files + self.existing.files == 0
    }

    fn add_partition(&mut self, value: Option<i32>) {
        match (value, &mut self.partitions) {
            (None, _) => self.has_null_partition = true,
            (Some(value), None) => self.partitions = Some((value, value)),
            (Some(value), Some((min, max))) => (*min, *max) = ((*min).min(value), (*max).max(value)),
        }
    }
}

/// The columns of a file list's batch that hold statistics.
pub struct Statistics<'b>(Vec<ColumnStatistics<'b>>);

struct ColumnStatistics<'b> {
    id: i32,
    nulls: Option<&'b ArrayRef>,
    nans: Option<&'b ArrayRef>,
    min: Option<&'b ArrayRef>,
    max: Option<&'b ArrayRef>,
}

impl<'b> Statistics<'b> {
    pub fn new(batch: &'b RecordBatch, schema: &TableSchema) -> Statistics<'b> {
        // Iceberg has statistics of the fields within a column only.
        let columns = schema.columns().iter().filter(|column| !column.data_type.is_nested());
        let columns = columns.take(STATISTICS_COLUMNS_MAX);
        let column = |id: u32| {
            let found = |kind: &str| batch.column_by_name(&format!("{kind}_{id}"));
            let id = i32::try_from(id).ok()?;
            Some(ColumnStatistics {
                id,
                nulls: found("nulls"),
                nans: found("nans"),
                min: found("min"),
                max: found("max"),
            })
        };
        Statistics(columns.filter_map(|found| column(found.id)).collect())
    }

    /// Numbers of values, of nulls and of NaN, and the bounds, in the order of the schema.
    fn of(&self, row: usize, rows: i64) -> [Value; 5] {
        let count = |array: Option<&ArrayRef>| {
            let counts = array?.as_primitive_opt::<UInt64Type>()?;
            Some(Value::Number(long(counts.value(row))))
        };
        let bound = |array: Option<&ArrayRef>| single_value(array?, row).map(Value::Bytes);
        [
            map(self.0.iter().map(|column| (column.id, Some(Value::Number(rows))))),
            map(self.0.iter().map(|column| (column.id, count(column.nulls)))),
            map(self.0.iter().map(|column| (column.id, count(column.nans)))),
            map(self.0.iter().map(|column| (column.id, bound(column.min)))),
            map(self.0.iter().map(|column| (column.id, bound(column.max)))),
        ]
    }
}

/// A manifest of a manifest list.
pub struct ListedManifest {
    pub path: Key,
    pub content: Content,
    pub len_bytes: u64,
    /// The first snapshot that has the manifest.
    pub since: u64,
    pub summary: Summary,
}

/// Writes the manifest list of a snapshot.
pub fn manifest_list(
    format: FormatVersion,
    snapshot: u64,
    parent: Option<u64>,
    has_partitions: bool,
    manifests: &[ListedManifest],
) -> Result<Bytes> {
    let metadata = [
        ("snapshot-id", snapshot.to_string()),
        ("parent-snapshot-id", parent.map_or("null".to_owned(), |parent| parent.to_string())),
        ("sequence-number", snapshot.to_string()),
        ("format-version", format.number().to_string()),
    ];
    let mut file = AvroFile::new(MANIFEST_LIST, &metadata);
    for listed in manifests {
        let Summary { added, existing, partitions, has_null_partition } = &listed.summary;
        let bound = |bound: Option<i32>| {
            Value::optional(bound.map(|bound| Value::Bytes(bound.to_le_bytes().to_vec())))
        };
        let partition = Value::Record(vec![
            Value::Boolean(*has_null_partition),
            Value::optional(Some(Value::Boolean(false))),
            bound(partitions.map(|(min, _)| min)),
            bound(partitions.map(|(_, max)| max)),
        ]);
        file.push(&Value::Record(vec![
            Value::Text(listed.path.uri()),
            Value::Number(long(listed.len_bytes)),
            Value::Number(0),
            Value::Number(if listed.content == Content::Data { 0 } else { 1 }),
            Value::Number(long(listed.since)),
            Value::Number(FIRST),
            Value::Number(long(listed.since)),
            Value::Number(added.files),
            Value::Number(existing.files),
            Value::Number(0),
            Value::Number(added.rows),
            Value::Number(existing.rows),
            Value::Number(0),
            Value::optional(has_partitions.then(|| Value::Array(vec![partition]))),
        ]))?;
    }
    Ok(file.finish())
}

/// A map with numbers as keys. Iceberg writes it as an array of pairs.
fn map(entries: impl Iterator<Item = (i32, Option<Value>)>) -> Value {
    let pairs =
        entries.filter_map(|(key, value)| Some(Value::Record(vec![Value::Number(key.into()), value?])));
    Value::optional(Some(Value::Array(pairs.collect())))
}

fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The Avro schema of manifest entries. The numbers are the field ids of the specification.
fn entry_schema(partition: Option<&PartitionField>, content: Content) -> String {
    let partition = partition.map_or(String::new(), |field| {
        let data_type = if field.is_date() { r#"{"type":"int","logicalType":"date"}"# } else { r#""int""# };
        let (name, id) = (&field.name, PartitionField::ID);
        format!(r#"{{"name":"{name}","type":["null",{data_type}],"default":null,"field-id":{id}}}"#)
    });
    let blob = if content == Content::Vectors { BLOB_FIELDS } else { "" };
    let counts = |name: &str, id: u32, key: u32, value: u32| pairs(name, id, (key, value), "long");
    let bounds = |name: &str, id: u32, key: u32, value: u32| pairs(name, id, (key, value), "bytes");
    format!(
        r#"{{"type":"record","name":"manifest_entry","fields":[
{{"name":"status","type":"int","field-id":0}},
{{"name":"snapshot_id","type":["null","long"],"default":null,"field-id":1}},
{{"name":"sequence_number","type":["null","long"],"default":null,"field-id":3}},
{{"name":"file_sequence_number","type":["null","long"],"default":null,"field-id":4}},
{{"name":"data_file","field-id":2,"type":{{"type":"record","name":"r2","fields":[
{{"name":"content","type":"int","field-id":134}},
{{"name":"file_path","type":"string","field-id":100}},
{{"name":"file_format","type":"string","field-id":101}},
{{"name":"partition","field-id":102,"type":{{"type":"record","name":"r102","fields":[{partition}]}}}},
{{"name":"record_count","type":"long","field-id":103}},
{{"name":"file_size_in_bytes","type":"long","field-id":104}},
{},
{},
{},
{},
{},
{{"name":"referenced_data_file","type":["null","string"],"default":null,"field-id":143}}{blob}
]}}}}]}}"#,
        counts("value_counts", 109, 119, 120),
        counts("null_value_counts", 110, 121, 122),
        counts("nan_value_counts", 137, 138, 139),
        bounds("lower_bounds", 125, 126, 127),
        bounds("upper_bounds", 128, 129, 130),
    )
}

fn pairs(name: &str, id: u32, (key, value): (u32, u32), data_type: &str) -> String {
    format!(
        r#"{{"name":"{name}","default":null,"field-id":{id},"type":["null",{{"type":"array","logicalType":"map","items":
{{"type":"record","name":"k{key}_v{value}","fields":[{{"name":"key","type":"int","field-id":{key}}},{{"name":"value","type":"{data_type}","field-id":{value}}}]}}}}]}}"#
    )
}

const BLOB_FIELDS: &str = r#",
{"name":"content_offset","type":["null","long"],"default":null,"field-id":144},
{"name":"content_size_in_bytes","type":["null","long"],"default":null,"field-id":145}"#;

const MANIFEST_LIST: &str = r#"{"type":"record","name":"manifest_file","fields":[
{"name":"manifest_path","type":"string","field-id":500},
{"name":"manifest_length","type":"long","field-id":501},
{"name":"partition_spec_id","type":"int","field-id":502},
{"name":"content","type":"int","field-id":517},
{"name":"sequence_number","type":"long","field-id":515},
{"name":"min_sequence_number","type":"long","field-id":516},
{"name":"added_snapshot_id","type":"long","field-id":503},
{"name":"added_files_count","type":"int","field-id":504},
{"name":"existing_files_count","type":"int","field-id":505},
{"name":"deleted_files_count","type":"int","field-id":506},
{"name":"added_rows_count","type":"long","field-id":512},
{"name":"existing_rows_count","type":"long","field-id":513},
{"name":"deleted_rows_count","type":"long","field-id":514},
{"name":"partitions","default":null,"field-id":507,"type":["null",{"type":"array","element-id":508,"items":{"type":"record","name":"r508","fields":[
{"name":"contains_null","type":"boolean","field-id":509},
{"name":"contains_nan","type":["null","boolean"],"default":null,"field-id":518},
{"name":"lower_bound","type":["null","bytes"],"default":null,"field-id":510},
{"name":"upper_bound","type":["null","bytes"],"default":null,"field-id":511}]}}]}]}"#;
