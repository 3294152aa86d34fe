//! Position delete files that clients upload.
//!
//! Each row of such a file names a data file of the table, and the number of a row in it (Iceberg
//! specification, "Position Delete Files"). The files are untrusted: a name must be that of a data
//! file in the table's folder, and a number that of one of its rows.

use super::{invalid, own_file, rows_of};
use crate::iceberg::keys::{File, Folder};
use crate::staging::StagedFile;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use benthic_core::{Error, Result};
use benthic_table::{Column, FileEntry, Rows, TableSchema};
use futures::stream::StreamExt;
use std::collections::HashMap;
use std::ops::Range;

/// Limit of the ranges of adjacent rows that the delete files of a commit name.
const RANGES_MAX: usize = 4_000_000;
/// Limit of the data files that the delete files of a commit name.
const DATA_FILES_MAX: usize = 1_000_000;
const PATH: &str = "file_path";
const POSITION: &str = "pos";

/// The rows that delete files name, by data file.
#[derive(Default)]
pub(super) struct Deletes {
    ranges: HashMap<File, Vec<Range<u32>>>,
    count: usize,
}

impl Deletes {
    /// Reads the delete file at `path`, of the table with this folder. Returns its number of rows.
    ///
    /// # Errors
    /// `InvalidArgument` if the file is damaged or names a file outside the folder;
    /// `LimitExceeded` for too many rows.
    pub(super) async fn read(&mut self, file: StagedFile, path: &str, folder: &Folder) -> Result<u64> {
        let mut batches = rows_of(file, path, &schema()?).await?;
        let mut rows = 0;
        while let Some(batch) = batches.next().await.transpose()? {
            rows += batch.num_rows() as u64;
            self.add(&batch, folder).map_err(|error| error.with("file", path))?;
        }
        Ok(rows)
    }

    fn add(&mut self, batch: &RecordBatch, folder: &Folder) -> Result<()> {
        let damaged = || invalid("a delete file lacks a column, or has a null in it");
        let column = |name: &str| {
            batch.column_by_name(name).filter(|column| column.null_count() == 0).ok_or_else(damaged)
        };
        let paths = column(PATH)?.as_string_opt::<i32>().ok_or_else(damaged)?;
        let positions = column(POSITION)?.as_primitive_opt::<Int64Type>().ok_or_else(damaged)?;
        let mut last_file: Option<(&str, File)> = None;
        for (path, position) in paths.iter().flatten().zip(positions.values().iter()) {
            let data = match last_file {
                Some((last, data)) if last == path => data,
                _ => own_file(folder, path).ok_or_else(|| {
                    let message = "a delete file names a file that is not one of the table; delete new rows \
                        in a later transaction";
                    invalid(message).with("data_file", path)
                })?,
            };
            last_file = Some((path, data));
            let row = u32::try_from(*position).ok().filter(|row| *row < u32::MAX);
            let row = row.ok_or_else(|| {
                invalid("a delete file names a row that the data file does not have").with("row", position)
            })?;
            let ranges = self.ranges.entry(data).or_default();
            match ranges.last_mut() {
                Some(last) if last.end == row => last.end += 1,
                _ => {
                    ranges.push(row..row + 1);
                    self.count += 1;
                }
            }
        }
        if self.count > RANGES_MAX || self.ranges.len() > DATA_FILES_MAX {
            let message = "the commit deletes too many rows; delete them in several steps";
            return Err(Error::limit_exceeded(message)
                .with("ranges_max", RANGES_MAX)
                .with("data_files_max", DATA_FILES_MAX));
        }
        Ok(())
    }

    /// Removes and returns the rows of a data file. `None` if no delete file names it.
    ///
    /// # Errors
    /// `InvalidArgument` if the file has fewer rows.
    pub(super) fn take(&mut self, data: File, entry: &FileEntry) -> Result<Option<Rows>> {
        let Some(ranges) = self.ranges.remove(&data) else { return Ok(None) };
        let of = entry.stored_rows()?.of();
        if ranges.iter().any(|range| range.end > of) {
            return Err(invalid("a delete file names a row that the data file does not have")
                .with("data_file", data)
                .with("rows", of));
        }
        Ok(Some(Rows::new(ranges, of)))
    }

    /// A data file whose rows were not taken.
    pub(super) fn left(&self) -> Option<File> {
        self.ranges.keys().next().copied()
    }
}

/// The columns of a delete file, with the ids that Iceberg reserves for them.
fn schema() -> Result<TableSchema> {
    let column = |id: u32, name: &str, data_type: DataType| Column {
        id,
        name: name.to_owned(),
        data_type,
        nullable: false,
    };
    let columns =
        vec![column(2_147_483_546, PATH, DataType::Utf8), column(2_147_483_545, POSITION, DataType::Int64)];
    TableSchema::new(0, columns)
}

#[cfg(test)]
#[path = "deletes_tests.rs"]
mod tests;
