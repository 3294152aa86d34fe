//! Column groups: a data object stores some of its columns in objects of their own.
//!
//! A table may have columns that few queries read and that are much larger than the others, such as
//! images. A data object is limited in size, so such columns leave room for few rows in each
//! object. Then a query of the other columns visits many objects, and reads parts of the large
//! columns with the footers. So a table may store columns in groups. An entry of a file list then
//! stands for several objects with the same rows in the same order: its own object, and one
//! *companion* for each group. Statistics, deletion vectors and indexes belong to the entry.
//!
//! Each object is a whole Parquet file with the columns of its group, so that a fragment of a query
//! can run beside it. All of them have the same row groups. So a reader of several groups joins
//! their footers to the footer of one file, whose bytes are those of the objects one after the
//! other. Readers of Parquet then need to know nothing about groups, and read only the pages that
//! they need. The alternative, separate streams of rows that are combined by position, would need
//! its own selection of rows and pages for each group.

use crate::error;
use crate::ids::TableObject;
use crate::list::FileEntry;
use crate::schema::{Column, TableSchema};
use crate::wire;
use arrow::datatypes::{Field, Schema};
use benthic_core::{Error, Result};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema, parquet_to_arrow_schema};
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, KeyValue, OffsetIndexBuilder, ParquetMetaData, ParquetMetaDataBuilder,
    ParquetOffsetIndex, RowGroupMetaData,
};
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type};
use prost::Message;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Limit of column groups of a table, besides the other columns.
pub const GROUPS_MAX: usize = 8;

/// A column group of a data object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnGroup {
    /// Ids of the columns.
    pub columns: Vec<u32>,
    /// The size of the companion.
    pub bytes: u64,
}

/// An object with some of the columns of a data object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectPart {
    pub object: TableObject,
    pub bytes: u64,
    /// Where the object begins in the file that consists of the selected parts.
    pub start: u64,
}

impl ObjectPart {
    /// Whether a range of the file is in this part.
    pub fn contains(&self, range: &Range<u64>) -> bool {
        self.start <= range.start && range.end <= self.start.saturating_add(self.bytes)
    }
}

/// The groups of columns with these names.
///
/// # Errors
/// `InvalidArgument` for a missing column, with a hint.
pub(crate) fn by_name(groups: &[Vec<String>], schema: &TableSchema) -> Result<Vec<Vec<u32>>> {
    let group = |names: &Vec<String>| names.iter().map(|name| Ok(schema.by_name(name)?.id)).collect();
    groups.iter().map(group).collect()
}

/// Checks column groups.
///
/// # Errors
/// `InvalidArgument`, with the column.
pub(crate) fn check(groups: &[Vec<u32>], schema: &TableSchema) -> Result<()> {
    let invalid = |message: &str| Error::invalid_argument(message);
    if groups.len() > GROUPS_MAX {
        return Err(invalid("the table would have too many column groups").with("groups_max", GROUPS_MAX));
    }
    let mut seen = HashSet::new();
    for id in groups.iter().flatten() {
        let column = schema
            .by_id(*id)
            .ok_or_else(|| invalid("the table has no such column to group").with("id", id))?;
        if !seen.insert(*id) {
            return Err(invalid("a column can be in one group only").with("column", &column.name));
        }
    }
    if groups.iter().any(Vec::is_empty) {
        return Err(invalid("a column group needs a column"));
    }
    if !groups.is_empty() && seen.len() == schema.columns().len() {
        return Err(invalid("all columns are in groups; leave at least one column out of them"));
    }
    Ok(())
}

/// Forgets columns that a schema lacks. If no other column remains outside of the groups, the first
/// group ends.
pub(crate) fn forget_columns(groups: &mut Vec<Vec<u32>>, schema: &TableSchema) {
    groups.iter_mut().for_each(|group| group.retain(|id| schema.by_id(*id).is_some()));
    groups.retain(|group| !group.is_empty());
    if !groups.is_empty() && groups.iter().flatten().count() == schema.columns().len() {
        groups.remove(0);
    }
}

/// The places of the columns of each object: of the columns in no group, and then of each group.
pub(crate) fn places(groups: &[Vec<u32>], schema: &TableSchema) -> Vec<Vec<usize>> {
    let of = |wanted: &dyn Fn(u32) -> bool| -> Vec<usize> {
        let columns = schema.columns().iter().enumerate();
        columns.filter(|(_, column)| wanted(column.id)).map(|(place, _)| place).collect()
    };
    let grouped: HashSet<u32> = groups.iter().flatten().copied().collect();
    let main = of(&|id| !grouped.contains(&id));
    let groups = groups.iter().map(|group| of(&|id| group.contains(&id))).filter(|group| !group.is_empty());
    [main].into_iter().chain(groups).collect()
}

pub(crate) fn encode(groups: &[ColumnGroup]) -> Vec<u8> {
    let group =
        |group: &ColumnGroup| wire::ColumnGroup { columns: group.columns.clone(), bytes: group.bytes };
    wire::ColumnGroups { groups: groups.iter().map(group).collect() }.encode_to_vec()
}

pub(crate) fn decode(encoded: &[u8]) -> Result<Vec<ColumnGroup>> {
    wire::check_fields(encoded, GROUPS_MAX)?;
    let groups = wire::ColumnGroups::decode(encoded).map_err(wire::corrupt)?.groups;
    Ok(groups.into_iter().map(|group| ColumnGroup { columns: group.columns, bytes: group.bytes }).collect())
}

impl FileEntry {
    /// The objects that hold the rows: the data object itself, and its companions.
    pub fn parts(&self) -> impl Iterator<Item = ObjectPart> {
        let bytes = [self.bytes].into_iter().chain(self.groups.iter().map(|group| group.bytes));
        let mut start = 0_u64;
        (0..).zip(bytes).map(move |(place, bytes)| {
            let number = self.object.number.saturating_add(place);
            let part = ObjectPart { object: TableObject { number, ..self.object }, bytes, start };
            start = start.saturating_add(bytes);
            part
        })
    }

    /// The size of all objects together.
    pub fn all_bytes(&self) -> u64 {
        self.parts().fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// The size of the largest object.
    pub fn largest_bytes(&self) -> u64 {
        self.parts().map(|part| part.bytes).max().unwrap_or(self.bytes)
    }

    /// The objects that hold columns, as one file, and the columns of this file in their order.
    /// `file` is the schema with which the object was written. Without any of its columns, this is
    /// the object that has the columns of no group.
    ///
    /// # Errors
    /// `Corrupt` if the entry names other columns than the schema.
    pub fn parts_with(
        &self,
        file: &TableSchema,
        is_wanted: impl Fn(&Column) -> bool,
    ) -> Result<(Vec<ObjectPart>, TableSchema)> {
        if self.groups.is_empty() {
            return Ok((self.parts().collect(), file.clone()));
        }
        let groups: Vec<Vec<u32>> = self.groups.iter().map(|group| group.columns.clone()).collect();
        let places = places(&groups, file);
        if places.len() != self.groups.len() + 1 || places.iter().any(Vec::is_empty) {
            let message = "the column groups of an object do not match its columns";
            return Err(Error::corrupt(message).with("object", self.object));
        }
        let columns = |places: &[usize]| {
            places.iter().map(|place| file.columns()[*place].clone()).collect::<Vec<Column>>()
        };
        let all: Vec<ObjectPart> = self.parts().collect();
        let mut chosen: Vec<usize> =
            (0..places.len()).filter(|part| columns(&places[*part]).iter().any(&is_wanted)).collect();
        if chosen.is_empty() {
            chosen.push(0);
        }
        let mut start = 0_u64;
        let parts = chosen.iter().map(|part| {
            let part = ObjectPart { start, ..all[*part] };
            start = start.saturating_add(part.bytes);
            part
        });
        let parts = parts.collect();
        let columns = chosen.iter().flat_map(|part| columns(&places[*part])).collect();
        Ok((parts, TableSchema::new(file.id, columns)?))
    }
}

/// The footer of the file that consists of these objects, one after the other. Its page index is
/// that of the footers if all of them have one. The result names no place of a page index in the
/// file: the offsets in such an index would be those of its own object.
///
/// # Errors
/// `Corrupt` if the objects have different row groups.
pub fn join_footers(parts: &[(ObjectPart, Arc<ParquetMetaData>)]) -> Result<ParquetMetaData> {
    let [(_, first), rest @ ..] = parts else {
        return Err(Error::internal("a data object has no parts"));
    };
    let rows = |footer: &ParquetMetaData| -> Vec<i64> {
        footer.row_groups().iter().map(RowGroupMetaData::num_rows).collect()
    };
    if rest.iter().any(|(_, footer)| rows(footer) != rows(first)) {
        return Err(Error::corrupt("the objects of column groups have different row groups"));
    }
    join(first, parts).map_err(error::parquet)
}

fn join(
    first: &ParquetMetaData,
    parts: &[(ObjectPart, Arc<ParquetMetaData>)],
) -> ParquetResult<ParquetMetaData> {
    let footers = || parts.iter().map(|(_, footer)| footer);
    let (mut types, mut fields) = (Vec::new(), Vec::new());
    for footer in footers() {
        let file = footer.file_metadata();
        types.extend(file.schema().get_fields().iter().cloned());
        let schema = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata())?;
        fields.extend(schema.fields().iter().map(|field| Field::clone(field)));
    }
    let root = Type::group_type_builder("arrow_schema").with_fields(types).build()?;
    let schema: SchemaDescPtr = Arc::new(SchemaDescriptor::new(Arc::new(root)));
    let arrow = encode_arrow_schema(&Schema::new(fields));
    let arrow = KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), arrow);
    let file = first.file_metadata();
    let orders = footers().map(|footer| footer.file_metadata().column_orders().cloned());
    let orders: Option<Vec<Vec<_>>> = orders.collect();
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        Some(vec![arrow]),
        Arc::clone(&schema),
        orders.map(|orders| orders.concat()),
    );
    let mut builder = ParquetMetaDataBuilder::new(file);
    for (place, group) in first.row_groups().iter().enumerate() {
        let (mut columns, mut bytes) = (Vec::new(), 0_i64);
        for (part, footer) in parts {
            let group = footer.row_group(place);
            bytes = bytes.saturating_add(group.total_byte_size());
            for column in group.columns() {
                columns.push(move_chunk(column, part)?);
            }
        }
        let joined = RowGroupMetaData::builder(Arc::clone(&schema))
            .set_num_rows(group.num_rows())
            .set_total_byte_size(bytes)
            .set_column_metadata(columns)
            .set_ordinal(i16::try_from(place).unwrap_or(i16::MAX));
        builder = builder.add_row_group(joined.build()?);
    }
    let groups = first.num_row_groups();
    let pages = parts.iter().map(|(part, footer)| {
        let (values, offsets) = (footer.column_index()?, footer.offset_index()?);
        (values.len() == groups && offsets.len() == groups).then_some((part, values, offsets))
    });
    if let Some(pages) = pages.collect::<Option<Vec<_>>>() {
        let values = |group: usize| pages.iter().flat_map(|(_, values, _)| values[group].clone()).collect();
        let offsets = |group: usize| {
            let moved =
                |(part, _, offsets): &(&ObjectPart, _, &ParquetOffsetIndex)| -> Vec<OffsetIndexMetaData> {
                    offsets[group]
                        .iter()
                        .map(|index| moved_pages(index, group_rows(first, group), part))
                        .collect()
                };
            pages.iter().flat_map(moved).collect()
        };
        builder = builder
            .set_column_index(Some((0..groups).map(values).collect()))
            .set_offset_index(Some((0..groups).map(offsets).collect()));
    }
    Ok(builder.build())
}

/// A column chunk at its place in the file of all parts.
fn move_chunk(column: &ColumnChunkMetaData, part: &ObjectPart) -> ParquetResult<ColumnChunkMetaData> {
    let start = offset(part);
    let moved = |offset: Option<i64>| offset.map(|offset| offset.saturating_add(start));
    let builder = column
        .clone()
        .into_builder()
        .set_data_page_offset(column.data_page_offset().saturating_add(start))
        .set_dictionary_page_offset(moved(column.dictionary_page_offset()))
        .set_index_page_offset(moved(column.index_page_offset()))
        .set_bloom_filter_offset(moved(column.bloom_filter_offset()))
        .set_column_index_offset(None)
        .set_column_index_length(None)
        .set_offset_index_offset(None)
        .set_offset_index_length(None);
    builder.build()
}

/// The places of pages in the file of all parts.
fn moved_pages(index: &OffsetIndexMetaData, rows: i64, part: &ObjectPart) -> OffsetIndexMetaData {
    let pages = index.page_locations();
    let mut builder = OffsetIndexBuilder::new();
    for (place, page) in pages.iter().enumerate() {
        let next = pages.get(place + 1).map_or(rows, |next| next.first_row_index);
        builder.append_row_count(next.saturating_sub(page.first_row_index));
        builder.append_offset_and_size(page.offset.saturating_add(offset(part)), page.compressed_page_size);
    }
    for bytes in index.unencoded_byte_array_data_bytes().into_iter().flatten() {
        builder.append_unencoded_byte_array_data_bytes(Some(*bytes));
    }
    builder.build()
}

fn group_rows(footer: &ParquetMetaData, group: usize) -> i64 {
    footer.row_group(group).num_rows()
}

fn offset(part: &ObjectPart) -> i64 {
    i64::try_from(part.start).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
