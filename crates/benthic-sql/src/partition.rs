//! Partitions of a scan whose rows come from a function.

use crate::work::Work;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;

struct Partition<F> {
    schema: SchemaRef,
    start: F,
}

impl<F> fmt::Debug for Partition<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("rows")
    }
}

impl<F, S> PartitionStream for Partition<F>
where
    F: Fn() -> S + Send + Sync,
    S: Stream<Item = Result<RecordBatch>> + Send + 'static,
{
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), (self.start)()))
    }
}

/// A partition with the rows of the stream that `start` returns.
pub fn partition<S>(
    schema: &SchemaRef,
    start: impl Fn() -> S + Send + Sync + 'static,
) -> Arc<dyn PartitionStream>
where
    S: Stream<Item = Result<RecordBatch>> + Send + 'static,
{
    Arc::new(Partition { schema: Arc::clone(schema), start })
}

/// A partition with the rows of some data objects, read one after the other. Counts each object in
/// `work` after its last row.
pub fn partition_of_objects<T, F, S>(
    schema: &SchemaRef,
    objects: Vec<T>,
    work: &Arc<Work>,
    read: impl Fn(T) -> F + Send + Sync + 'static,
) -> Arc<dyn PartitionStream>
where
    T: Clone + Send + Sync + 'static,
    F: Future<Output = Result<S>> + Send + 'static,
    S: Stream<Item = Result<RecordBatch>> + Send + 'static,
{
    let (read, work) = (Arc::new(read), Arc::clone(work));
    partition(schema, move || {
        let (read, work) = (Arc::clone(&read), Arc::clone(&work));
        let rows = move |object: T| {
            let (rows, work) = (read(object), Arc::clone(&work));
            async move {
                let done = stream::once(async move { work.object_is_done() });
                Ok::<_, DataFusionError>(rows.await?.chain(done.filter_map(|()| async { None })))
            }
        };
        stream::iter(objects.clone()).then(rows).try_flatten()
    })
}
