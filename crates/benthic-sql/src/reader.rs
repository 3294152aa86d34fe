//! Connects the Parquet reader to the bytes of objects.

use crate::object::DataObject;
use bytes::Bytes;
use datafusion::common::internal_datafusion_err;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{ParquetFileMetrics, ParquetFileReaderFactory};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet};
use futures::FutureExt;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use std::ops::Range;
use std::sync::Arc;

/// Creates readers for scan files that are [`DataObject`]s.
#[derive(Debug, Default)]
pub struct Readers {
    pub wanted_bytes: Count,
}

impl ParquetFileReaderFactory for Readers {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        _: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> datafusion::common::Result<Box<dyn AsyncFileReader + Send>> {
        let object = file.extensions.get_arc::<DataObject>();
        let object = object.ok_or_else(|| internal_datafusion_err!("a file of the scan is not an object"))?;
        let metrics = ParquetFileMetrics::new(partition, file.object_meta.location.as_ref(), metrics);
        object.add_reader();
        Ok(Box::new(Reader { object, metrics, wanted_bytes: self.wanted_bytes.clone() }))
    }
}

struct Reader {
    object: Arc<DataObject>,
    metrics: ParquetFileMetrics,
    wanted_bytes: Count,
}

impl Reader {
    fn count(&self, ranges: &[Range<u64>]) {
        let len_bytes = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum::<u64>();
        self.metrics.bytes_scanned.add(len_bytes as usize);
        self.wanted_bytes.add(len_bytes as usize);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let scanned_bytes = self.metrics.bytes_scanned.value();
        self.metrics.scan_efficiency_ratio.add_part(scanned_bytes);
        self.metrics.scan_efficiency_ratio.set_total(self.object.size_bytes() as usize);
        self.object.remove_reader();
    }
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move { Ok(self.get_byte_ranges(vec![range]).await?.pop().unwrap_or_default()) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        self.count(&ranges);
        async move { self.object.read(&ranges).await.map_err(external) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        // DataFusion requests the page index later, if it can prune pages.
        async move { self.object.footer().await.map_err(external) }.boxed()
    }
}

fn external(error: benthic_core::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}
