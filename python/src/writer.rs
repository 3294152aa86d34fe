//! Appends rows to a table.

use crate::ipc::read_stream;
use crate::ops;
use crate::runtime::wait;
use crate::slot::Slot;
use crate::table::{SnapshotFacts, facts};
use futures::lock::Mutex;
use pyo3::prelude::{Bound, PyAny, PyResult, Python};
use pyo3::{pyclass, pymethods};
use std::sync::Arc;

/// A write to a table in progress. After an error or Ctrl-C, the caller must abort it.
#[pyclass(frozen)]
pub struct Writer {
    writer: Arc<Slot<Arc<Mutex<benthic_table::Writer>>>>,
}

impl Writer {
    pub fn new(writer: Arc<Slot<Arc<Mutex<benthic_table::Writer>>>>) -> Writer {
        Writer { writer }
    }
}

#[pymethods]
impl Writer {
    /// Writes the rows of an Arrow IPC stream.
    fn write(&self, py: Python<'_>, stream: &Bound<'_, PyAny>) -> PyResult<()> {
        let stream = ops::bytes(stream)?;
        wait(py, async || {
            let (_, batches) = read_stream(stream)?;
            let writer = self.writer.get()?;
            let mut writer = writer.lock().await;
            for batch in batches {
                writer.write(&batch).await?;
                // Encoding never yields. Yield here so that Ctrl-C is noticed.
                tokio::task::yield_now().await;
            }
            Ok(())
        })
    }

    fn finish(&self, py: Python<'_>) -> PyResult<SnapshotFacts> {
        wait(py, async || Ok(facts(&self.writer.get()?.lock().await.finish().await?)))
    }

    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, async || self.writer.get()?.lock().await.abort().await)
    }
}
