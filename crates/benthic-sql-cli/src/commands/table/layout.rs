//! The layout of data objects on the command line, for `create`, `rewrite` and `show`.

use super::column_name;
use benthic_program::units::{self, parse_size};
use benthic_table::{Codec, Layout, LayoutChange, TableSchema};
use clap::Args;
use serde_json::{Map, Value, json};

/// Codec, sizes, sort order, Bloom filters and column groups of data objects.
#[derive(Args)]
pub struct LayoutArgs {
    /// Compression of objects: none, snappy, lz4, zstd or zstd:LEVEL, 1 to 19; a new table has
    /// snappy
    #[arg(long, value_name = "CODEC")]
    codec: Option<Codec>,
    /// Target size of the row groups in an object, 1 MiB to 64 MiB; a new table has 8 MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    row_group_size: Option<u64>,
    /// Columns by which the rows of an object are sorted, ascending, nulls first
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',', value_parser = column_name)]
    sort_by: Option<Vec<String>>,
    /// Columns with Bloom filters, so that a search for a value skips the parts of objects that
    /// lack it
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',', value_parser = column_name)]
    bloom: Option<Vec<String>>,
    /// Columns that objects of their own store, because they are large and few queries read them;
    /// repeat it for several groups
    #[arg(long, value_name = "COLUMN,...")]
    group: Option<Vec<String>>,
    /// Target size of an object, 1 MiB to 64 MiB; a new table has 32 MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    object_size: Option<u64>,
}

impl LayoutArgs {
    pub fn change(&self) -> LayoutChange {
        let split = |names: &str| names.split(',').map(|name| name.trim().to_owned()).collect();
        LayoutChange {
            codec: self.codec,
            row_group_bytes: self.row_group_size,
            sort: self.sort_by.clone(),
            bloom: self.bloom.clone(),
            groups: self.group.as_ref().map(|groups| groups.iter().map(|names| split(names)).collect()),
            object_bytes: self.object_size,
        }
    }
}

/// The names of the sort columns.
pub fn sorted_by(layout: &Layout, schema: &TableSchema) -> Vec<String> {
    names(&layout.sort, schema)
}

/// The names of the columns with Bloom filters.
pub fn bloom_columns(layout: &Layout, schema: &TableSchema) -> Vec<String> {
    names(&layout.bloom, schema)
}

/// The names of the columns of each column group.
pub fn column_groups(layout: &Layout, schema: &TableSchema) -> Vec<Vec<String>> {
    layout.groups.iter().map(|group| names(group, schema)).collect()
}

/// Column groups as text: `image, thumbnail; embedding`.
pub fn describe_groups(layout: &Layout, schema: &TableSchema) -> String {
    let groups = column_groups(layout, schema);
    groups.iter().map(|names| names.join(", ")).collect::<Vec<_>>().join("; ")
}

fn names(ids: &[u32], schema: &TableSchema) -> Vec<String> {
    ids.iter().filter_map(|id| schema.by_id(*id)).map(|column| column.name.clone()).collect()
}

/// A layout as text: `zstd:3, row groups of 8.0 MiB, objects of 32.0 MiB, sorted by day`.
pub fn describe_layout(layout: &Layout, schema: &TableSchema) -> String {
    let sort = match sorted_by(layout, schema) {
        names if names.is_empty() => "not sorted".to_owned(),
        names => format!("sorted by {}", names.join(", ")),
    };
    let bloom = match bloom_columns(layout, schema) {
        names if names.is_empty() => String::new(),
        names => format!(", Bloom filters of {}", names.join(", ")),
    };
    let groups = match describe_groups(layout, schema) {
        names if names.is_empty() => String::new(),
        names => format!(", column groups {names}"),
    };
    let (row_group, object) = (units::size(layout.row_group_bytes), units::size(layout.object_bytes));
    format!("codec {}, row groups of {row_group}, objects of {object}, {sort}{bloom}{groups}", layout.codec)
}

pub fn layout_fields(layout: &Layout, schema: &TableSchema) -> Map<String, Value> {
    let fields = [
        ("codec", json!(layout.codec.to_string())),
        ("row_group_size_bytes", json!(layout.row_group_bytes)),
        ("object_size_bytes", json!(layout.object_bytes)),
        ("sort_by", json!(sorted_by(layout, schema))),
        ("bloom_filters", json!(bloom_columns(layout, schema))),
        ("column_groups", json!(column_groups(layout, schema))),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
