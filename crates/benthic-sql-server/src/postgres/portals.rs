//! Prepared statements and portals: statements with values, and the queries that they run.

use super::control::{Control, SessionSettings};
use super::copy::RowForm;
use super::cursors::Declare;
use super::encode::Columns;
use super::messages::{SEND_BYTES, Writer};
use crate::queries::{Admission, Planned, Rows};
use arrow::datatypes::SchemaRef;
use benthic_core::{Error, Result};
use benthic_sql::work::Work;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Limit on the prepared statements and the portals of a connection, each.
const COUNT_MAX: usize = 1_000;
/// Limit on the size of all prepared statements, and of the values of all portals of a connection.
const BYTES_MAX: usize = 32 << 20;
/// Time between two reports of the progress of a query.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// The reason why a statement did not succeed.
pub enum Fault {
    Failed(Error),
    /// An earlier statement of the transaction failed.
    InFailedTransaction,
    /// The client canceled it.
    Canceled,
    /// The client is gone.
    Gone,
    /// An error of Postgres that clients know by its code.
    Known(&'static str, String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Failed(error)
    }
}

impl From<std::io::Error> for Fault {
    fn from(_: std::io::Error) -> Fault {
        Fault::Gone
    }
}

/// A prepared statement.
#[derive(Clone)]
pub struct Statement {
    pub sql: Arc<str>,
    /// The types of parameters that the client declares; 0 leaves one to the server.
    pub declared: Vec<u32>,
}

/// A statement with values.
pub struct Portal {
    pub state: PortalState,
    /// The formats of the columns.
    pub formats: Vec<i16>,
    /// The verb of the statement, which is the tag of its answer.
    pub verb: &'static str,
}

/// The progress of a portal.
pub enum PortalState {
    Control(Control),
    /// A cursor that the statement declares.
    Declare {
        cursor: Declare,
        len_bytes: usize,
        planned: Box<Planned>,
        work: Arc<Work>,
    },
    Ready {
        planned: Box<Planned>,
        work: Arc<Work>,
    },
    Running(Box<Running>),
    Done,
    /// An earlier run failed. After ROLLBACK TO, no rows would look like the end of the rows.
    Failed,
}

/// Named values with a limit on their number and size.
pub struct Named<T> {
    what: &'static str,
    items: HashMap<String, (T, usize)>,
    len_bytes: usize,
}

impl<T> Named<T> {
    pub fn new(what: &'static str) -> Named<T> {
        Named { what, items: HashMap::new(), len_bytes: 0 }
    }

    /// Adds a value. Only the value without a name is replaced.
    ///
    /// # Errors
    /// `AlreadyExists`, `LimitExceeded`.
    pub fn insert(&mut self, name: String, item: T, len_bytes: usize) -> Result<()> {
        if name.is_empty() {
            drop(self.remove(""));
        } else if self.items.contains_key(&name) {
            let message = format!("this {} exists already", self.what);
            return Err(Error::already_exists(message).with("name", name));
        }
        if self.items.len() >= COUNT_MAX || self.len_bytes + len_bytes > BYTES_MAX {
            let message = format!("the connection has too many or too large {}s; close some", self.what);
            return Err(Error::limit_exceeded(message));
        }
        self.len_bytes += len_bytes;
        self.items.insert(name, (item, len_bytes));
        Ok(())
    }

    pub fn find(&self, name: &str) -> Option<&T> {
        self.items.get(name).map(|(item, _)| item)
    }

    pub fn get(&mut self, name: &str) -> Result<&mut T> {
        match self.items.get_mut(name) {
            Some((item, _)) => Ok(item),
            None => Err(Error::invalid_argument(format!("no such {}", self.what)).with("name", name)),
        }
    }

    /// Removes a value, and returns it if it was there.
    pub fn remove(&mut self, name: &str) -> Option<T> {
        let (item, len_bytes) = self.items.remove(name)?;
        self.len_bytes -= len_bytes;
        Some(item)
    }

    pub fn clear(&mut self) {
        self.items.clear();
        self.len_bytes = 0;
    }
}

/// A running query.
pub struct Running {
    rows: Rows,
    work: Arc<Work>,
    /// The batch that is being sent, and the next row of it.
    batch: Option<(Columns, usize)>,
    /// Rows that were sent.
    pub sent: u64,
    pub form: RowForm,
}

impl Running {
    /// Starts a query, whose rows are sent in this form.
    pub async fn start(
        planned: Planned,
        work: Arc<Work>,
        admission: Admission,
        form: RowForm,
    ) -> Result<Running> {
        let rows = admission.start(planned).await?;
        Ok(Running { rows, work, batch: None, sent: 0, form })
    }

    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.rows.schema)
    }

    /// Sends rows until there are no more, and then returns true, or until `rows_max` are sent.
    pub async fn send(
        &mut self,
        rows_max: Option<u64>,
        formats: &[i16],
        settings: &SessionSettings,
        writer: &mut Writer,
    ) -> std::result::Result<bool, Fault> {
        let last = rows_max.map_or(u64::MAX, |max| self.sent.saturating_add(max));
        if let Some((columns, _)) = &mut self.batch {
            columns.set_formats(formats);
        }
        loop {
            let (columns, next) = match &mut self.batch {
                Some(batch) => batch,
                None => match self.next(formats, settings, writer).await? {
                    Some(columns) => self.batch.insert((columns, 0)),
                    None => return Ok(true),
                },
            };
            while *next < columns.rows {
                if self.sent == last {
                    return Ok(false);
                }
                if self.form != RowForm::Skipped {
                    columns.write_row(writer, *next, self.form, self.sent == 0)?;
                }
                *next += 1;
                self.sent += 1;
                if writer.out.len() >= SEND_BYTES {
                    let flush = async { writer.flush().await.map_err(Fault::from) };
                    self.rows.limit(flush).await?;
                }
            }
            self.batch = None;
        }
    }

    /// Waits for the next rows, and reports the progress meanwhile if the client has asked for it.
    async fn next(
        &mut self,
        formats: &[i16],
        settings: &SessionSettings,
        writer: &mut Writer,
    ) -> std::result::Result<Option<Columns>, Fault> {
        let Running { rows, work, .. } = self;
        let report = async {
            let mut ticks = interval(PROGRESS_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks.tick().await;
            loop {
                ticks.tick().await;
                let (done, of) = (work.done_objects(), work.objects());
                let moved = work.moved_bytes();
                writer.notice(&format!("read {done} of {of} objects, moved_bytes={moved}"));
                if let Err(error) = writer.flush().await {
                    return Fault::from(error);
                }
            }
        };
        let batch = tokio::select! {
            batch = rows.next() => batch?,
            fault = report, if settings.has_progress() => return Err(fault),
        };
        match batch {
            None => Ok(None),
            Some(batch) => Ok(Some(Columns::new(&batch, &rows.schema, formats)?)),
        }
    }
}
