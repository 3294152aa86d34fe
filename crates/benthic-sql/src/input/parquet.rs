//! Parquet files.

use super::reader::{BATCH_ROWS, Batch, Reader, format_error, unreadable};
use ::parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use arrow::datatypes::SchemaRef;
use benthic_core::Result;
use benthic_table::TableSchema;
use std::fs::File;

pub(super) struct Parquet {
    schema: SchemaRef,
    batches: ParquetRecordBatchReader,
    /// Reports progress by rows: each row counts for its share of the file size.
    size_bytes: u64,
    rows: u64,
}

impl Parquet {
    pub(super) fn open(file: File) -> Result<Parquet> {
        let size_bytes = file.metadata().map_err(unreadable)?.len();
        let failed = |error: ::parquet::errors::ParquetError| {
            format_error("this is not a Parquet file, or it is damaged", error.into())
        };
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(failed)?;
        let schema = SchemaRef::clone(builder.schema());
        let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        let batches = builder.with_batch_size(BATCH_ROWS).build().map_err(failed)?;
        Ok(Parquet { schema, batches, size_bytes, rows })
    }
}

impl Reader for Parquet {
    fn schema(&self) -> Result<SchemaRef> {
        Ok(SchemaRef::clone(&self.schema))
    }

    fn batches(self: Box<Self>, _: &TableSchema) -> Result<Box<dyn Iterator<Item = Result<Batch>> + Send>> {
        let Parquet { batches, size_bytes, rows: all, .. } = *self;
        let mut read_rows = 0;
        Ok(Box::new(batches.map(move |batch| {
            let rows = batch.map_err(|error| format_error("the Parquet file is damaged", error))?;
            let share = |rows: u64| u128::from(size_bytes) * u128::from(rows) / u128::from(all.max(1));
            let before = share(read_rows);
            read_rows += rows.num_rows() as u64;
            Ok(Batch { rows, read_bytes: u64::try_from(share(read_rows) - before).unwrap_or(u64::MAX) })
        })))
    }
}
