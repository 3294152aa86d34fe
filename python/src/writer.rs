//! Adding rows to a table.

use crate::ipc::read_stream;
use crate::ops;
use crate::runtime::wait;
use crate::slot::Slot;
use crate::table::{SnapshotFacts, facts};
use futures::lock::Mutex;
use pyo3::prelude::{Bound, PyAny, PyResult, Python};
use pyo3::{pyclass, pymethods};
use std::sync::Arc;

/// Rows on their way into a table. After an error, and after Ctrl-C at any time, it is to be aborted.
#[pyclass(frozen)]
pub struct Writer {
    writer: Arc<Slot<Arc<Mutex<benthic_table::Writer>>>>,
}

impl Writer {
    /// A writer that began.
    pub fn new(writer: Arc<Slot<Arc<Mutex<benthic_table::Writer>>>>) -> Writer {
        Writer { writer }
    }
}

#[pymethods]
impl Writer {
    /// Adds the rows of a stream of Arrow IPC.
    fn write(&self, py: Python<'_>, stream: &Bound<'_, PyAny>) -> PyResult<()> {
        let stream = ops::bytes(stream)?;
        wait(py, async || {
            let (_, batches) = read_stream(stream)?;
            let writer = self.writer.get()?;
            let mut writer = writer.lock().await;
            for batch in batches {
                writer.write(&batch).await?;
                // Encoding does not wait for anything; Ctrl-C gets a turn here.
                tokio::task::yield_now().await;
            }
            Ok(())
        })
    }

    /// Commits; says which snapshot has the rows.
    fn finish(&self, py: Python<'_>) -> PyResult<SnapshotFacts> {
        wait(py, async || Ok(facts(&self.writer.get()?.lock().await.finish().await?)))
    }

    /// Removes what was written, unless it was committed.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, async || self.writer.get()?.lock().await.abort().await)
    }
}
