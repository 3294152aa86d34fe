//! Query results that the query produces batch by batch as Python reads them.

use crate::errors::to_exception;
use crate::ipc::{Encoder, Message, plain_schema};
use crate::runtime::wait;
use crate::slot::{Slot, Slots};
use arrow::datatypes::SchemaRef;
use benthic_core::{Error, Result};
use benthic_sql::errors::from_datafusion;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use pyo3::prelude::{Bound, PyResult, Python};
use pyo3::types::PyBytes;
use pyo3::{pyclass, pymethods};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::JoinSet;

/// A query that produces a batch when Python reads one.
#[pyclass(frozen)]
pub struct Rows {
    schema: SchemaRef,
    running: Arc<Slot<Running>>,
    has_ended: AtomicBool,
}

struct Running {
    rows: SendableRecordBatchStream,
    encoder: Encoder,
}

impl Rows {
    /// Wraps the stream of a query; closing the store closes it.
    ///
    /// # Errors
    /// `Internal`.
    pub fn new(rows: SendableRecordBatchStream, slots: &Slots) -> Result<Rows> {
        let schema = plain_schema(&rows.schema());
        let encoder = Encoder::new(Arc::clone(&schema))?;
        let running = slots.add(Running { rows, encoder });
        Ok(Rows { schema, running, has_ended: AtomicBool::new(false) })
    }

    async fn next_message(&self) -> Result<Option<Message>> {
        if self.has_ended.load(Ordering::Relaxed) {
            return Ok(None);
        }
        // Take the query out of its slot so that closing the store need not wait for it. After an
        // error or Ctrl-C it is not put back.
        let (mut running, place) = self.running.take()?;
        // Compute on a runtime thread: this thread could not notice Ctrl-C while it computes.
        // Dropping the set ends the task.
        let mut work = JoinSet::new();
        work.spawn(async move {
            let message = match running.rows.next().await {
                Some(Ok(batch)) => running.encoder.encode(&batch).map(Some),
                Some(Err(error)) => Err(from_datafusion(&error)),
                None => Ok(None),
            };
            (running, message)
        });
        let gave_up = || Error::internal("the query panicked");
        let done = tokio::select! {
            done = work.join_next() => done.ok_or_else(gave_up)?,
            closed = place.closed() => return Err(closed),
        };
        let (running, message) = done.map_err(|panic| gave_up().with_source(panic))?;
        match message? {
            Some(message) => {
                place.put_back(running);
                Ok(Some(message))
            }
            None => {
                self.has_ended.store(true, Ordering::Relaxed);
                Ok(None)
            }
        }
    }
}

#[pymethods]
impl Rows {
    /// The schema, as an Arrow IPC stream without rows.
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Message::of_schema(&self.schema).map_err(|error| to_exception(&error))?.into_bytes(py)
    }

    /// The next batch as an Arrow IPC message, or None at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let message = wait(py, async || self.next_message().await)?;
        message.map(|message| message.into_bytes(py)).transpose()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.running.close().map(drop)).map_err(|error| to_exception(&error))
    }
}
