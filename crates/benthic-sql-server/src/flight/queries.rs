//! The queries of Flight SQL: prepared statements, tickets, and the streams of rows.
//!
//! A ticket contains its statement, so the server stores nothing between the request for a ticket
//! and the request for its rows. A prepared statement is stored, because values are bound to it.
//!
//! A client that polls a query (`PollFlightInfo`) starts it before it asks for its rows. Between
//! two calls, the query is stored with its first rows, and keeps its slot among the queries of its
//! user. A call owns the query, so that the query ends if its client goes away during the call.

use super::{known_types, status};
use crate::queries::{Planned, Rows};
use crate::statement;
use crate::users::User;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{ProstMessageExt, TicketStatementQuery};
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo, PollInfo, Ticket};
use benthic_core::{Environment, Error, Result};
use benthic_sql::work::Work;
use bytes::Bytes;
use datafusion::common::ScalarValue;
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use prost::Message;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;

/// Limit on the prepared statements of a user.
const PREPARED_MAX: usize = 10_000;
/// Limit on the size of the prepared statements of a user and their values.
const PREPARED_BYTES_MAX: usize = 64 << 20;
/// Lifetime of a prepared statement that is not used.
const PREPARED_TIME: Duration = Duration::from_secs(3_600);
/// Length of the number that begins a ticket.
const ID_BYTES: usize = 16;
/// How long a poll waits for the first rows of a query.
const POLL_WAIT: Duration = Duration::from_secs(1);
/// How long a query waits for the next poll, or for the request for its rows. The ADBC driver polls
/// at least every five seconds.
const POLLED_TIME: Duration = Duration::from_secs(60);
/// Time between two searches for queries that nobody polls.
const FORGET_INTERVAL: Duration = Duration::from_secs(5);

/// A stream of rows as messages.
pub type Messages =
    Pin<Box<dyn stream::Stream<Item = std::result::Result<arrow_flight::FlightData, Status>> + Send>>;

/// The user of each running query, and how to cancel it.
type RunningQueries = Arc<Mutex<HashMap<Bytes, (String, Arc<Notify>)>>>;

/// The queries that clients poll, between two calls, and the time of the last call.
type PolledQueries = Arc<Mutex<HashMap<Bytes, (Query, Instant)>>>;

/// The queries of all users.
pub struct Queries {
    environment: Environment,
    prepared: Mutex<HashMap<Bytes, Prepared>>,
    running: RunningQueries,
    pub polled: PolledQueries,
}

#[derive(Clone)]
struct Prepared {
    user: String,
    sql: Arc<str>,
    values: Vec<ScalarValue>,
    len_bytes: usize,
    used: Instant,
}

impl Queries {
    pub fn new(environment: Environment) -> Queries {
        Queries { environment, prepared: Mutex::default(), running: Arc::default(), polled: Arc::default() }
    }

    /// Plans a statement.
    ///
    /// # Errors
    /// Errors of [`SqlSession::prepare`](benthic_sql::session::SqlSession::prepare).
    pub async fn plan(&self, user: &Arc<User>, sql: &str) -> Result<Planned> {
        let admission = user.admit(None).await?;
        let (user, sql) = (Arc::clone(user), sql.to_owned());
        let plan = async move {
            statement::check(&sql)?;
            Planned::new(user.session.prepare(&sql, &Arc::default()).await?)
        };
        admission.run(plan).await
    }

    /// A ticket for the rows of a statement.
    pub fn ticket(&self, sql: &str) -> Result<Bytes> {
        let mut ticket = self.id()?.to_vec();
        ticket.extend_from_slice(sql.as_bytes());
        Ok(ticket.into())
    }

    /// Starts the query of a ticket, or continues it if the client has polled it.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, errors of the query.
    pub async fn start_ticket(
        &self,
        user: &Arc<User>,
        ticket: &Bytes,
    ) -> std::result::Result<Messages, Status> {
        if ticket.len() == ID_BYTES {
            return self.take(user, ticket).map(encode);
        }
        let sql = ticket.get(ID_BYTES..).and_then(|sql| std::str::from_utf8(sql).ok());
        let sql = sql.ok_or_else(|| Status::invalid_argument("the ticket is invalid"))?;
        self.start(user, ticket.clone(), sql, Vec::new()).await.map(encode)
    }

    fn id(&self) -> Result<[u8; ID_BYTES]> {
        let mut id = [0; ID_BYTES];
        self.environment.random.fill(&mut id)?;
        Ok(id)
    }

    /// Stores a prepared statement, and returns its handle.
    ///
    /// # Errors
    /// `LimitExceeded` if too many are stored.
    pub fn prepare(&self, user: &User, sql: &str) -> Result<Bytes> {
        let handle = Bytes::copy_from_slice(&self.id()?);
        let now = Instant::now();
        let prepared = Prepared {
            user: user.name.clone(),
            sql: sql.into(),
            values: Vec::new(),
            len_bytes: sql.len(),
            used: now,
        };
        let mut all = self.prepared.lock();
        check_room(&mut all, user, 1, sql.len())?;
        all.insert(handle.clone(), prepared);
        Ok(handle)
    }

    /// Binds values to a prepared statement.
    ///
    /// # Errors
    /// `NotFound`, `LimitExceeded`.
    pub fn bind(&self, user: &User, handle: &Bytes, values: Vec<ScalarValue>) -> Result<()> {
        let len_bytes = values.iter().map(ScalarValue::size).sum();
        let mut all = self.prepared.lock();
        check_room(&mut all, user, 0, len_bytes)?;
        let prepared = all.get_mut(handle).filter(|prepared| prepared.user == user.name);
        let prepared = prepared.ok_or_else(unknown)?;
        prepared.len_bytes = prepared.sql.len() + len_bytes;
        prepared.values = values;
        Ok(())
    }

    /// The text of a prepared statement.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn sql(&self, user: &User, handle: &Bytes) -> Result<Arc<str>> {
        self.get(user, handle).map(|prepared| prepared.sql)
    }

    fn get(&self, user: &User, handle: &Bytes) -> Result<Prepared> {
        let mut all = self.prepared.lock();
        let prepared = all.get_mut(handle).filter(|prepared| prepared.user == user.name);
        let prepared = prepared.ok_or_else(unknown)?;
        prepared.used = Instant::now();
        Ok(prepared.clone())
    }

    /// Starts a prepared statement with the values that are bound to it.
    ///
    /// # Errors
    /// `NotFound`, errors of the query.
    pub async fn start_prepared(
        &self,
        user: &Arc<User>,
        handle: &Bytes,
    ) -> std::result::Result<Messages, Status> {
        let prepared = self.get(user, handle).map_err(|error| status(&error))?;
        self.start(user, handle.clone(), &prepared.sql, prepared.values).await.map(encode)
    }

    /// Starts a query that its client polls.
    ///
    /// # Errors
    /// Errors of the query.
    pub async fn poll_statement(
        &self,
        user: &Arc<User>,
        sql: &str,
        values: Vec<ScalarValue>,
    ) -> std::result::Result<PollInfo, Status> {
        let id = self.id().map_err(|error| status(&error))?;
        let query = self.start(user, Bytes::copy_from_slice(&id), sql, values).await?;
        self.wait(query).await
    }

    /// Starts a prepared statement that its client polls, with the values that are bound to it.
    ///
    /// # Errors
    /// `NotFound`, errors of the query.
    pub async fn poll_prepared(
        &self,
        user: &Arc<User>,
        handle: &Bytes,
    ) -> std::result::Result<PollInfo, Status> {
        let prepared = self.get(user, handle).map_err(|error| status(&error))?;
        self.poll_statement(user, &prepared.sql, prepared.values).await
    }

    /// Polls a query again.
    ///
    /// # Errors
    /// `NotFound`, errors of the query.
    pub async fn poll(&self, user: &User, id: &Bytes) -> std::result::Result<PollInfo, Status> {
        self.wait(self.take(user, id)?).await
    }

    /// Waits a moment for the first rows of a query, and describes its progress.
    async fn wait(&self, mut query: Query) -> std::result::Result<PollInfo, Status> {
        let ready = tokio::select! {
            ready = timeout(POLL_WAIT, query.rows.ready()) => ready,
            () = query.cancel.notified() => return Err(canceled()),
        };
        let is_ready = ready.is_ok();
        ready.unwrap_or(Ok(())).map_err(|error| status(&error))?;
        let id = query.running.id.clone();
        let ticket: Bytes =
            TicketStatementQuery { statement_handle: id.clone() }.as_any().encode_to_vec().into();
        let descriptor = FlightDescriptor::new_cmd(ticket.clone());
        let info = FlightInfo::new().try_with_schema(&known_types::schema(&query.rows.schema));
        let info = info.map_err(|error| Status::internal(error.to_string()))?;
        let info = info.with_descriptor(descriptor.clone()).with_ordered(true);
        let expires_s = self.environment.clock.unix_ns() / 1_000_000_000 + POLLED_TIME.as_secs();
        let (objects, done) = (query.work.objects(), query.work.done_objects());
        self.polled.lock().insert(id, (query, Instant::now()));
        let mut poll = PollInfo::new();
        poll.expiration_time.get_or_insert_default().seconds = expires_s.cast_signed();
        if is_ready {
            let endpoint = FlightEndpoint::new().with_ticket(Ticket { ticket });
            poll.info = Some(info.with_endpoint(endpoint));
            poll.progress = Some(1.0);
        } else {
            poll.info = Some(info);
            poll.flight_descriptor = Some(descriptor);
            poll.progress = (objects > 0).then(|| (done as f64 / objects as f64).min(1.0));
        }
        Ok(poll)
    }

    /// Takes a query that the client polls.
    ///
    /// # Errors
    /// `NotFound`.
    fn take(&self, user: &User, id: &Bytes) -> std::result::Result<Query, Status> {
        let mut polled = self.polled.lock();
        let is_of_user = polled.get(id).is_some_and(|(query, _)| query.user == user.name);
        let query = is_of_user.then(|| polled.remove(id)).flatten();
        query.map(|(query, _)| query).ok_or_else(|| status(&unknown_query()))
    }

    pub fn close(&self, user: &User, handle: &Bytes) {
        let mut all = self.prepared.lock();
        if all.get(handle).is_some_and(|prepared| prepared.user == user.name) {
            all.remove(handle);
        }
    }

    /// Cancels the query of a ticket or handle. Returns false if none runs.
    pub fn cancel(&self, user: &User, id: &Bytes) -> bool {
        let is_running = match self.running.lock().get(id) {
            Some((owner, cancel)) if *owner == user.name => {
                cancel.notify_one();
                true
            }
            _ => false,
        };
        // Between two polls, nothing waits for the notice.
        drop(self.take(user, id));
        is_running
    }

    async fn start(
        &self,
        user: &Arc<User>,
        id: Bytes,
        sql: &str,
        values: Vec<ScalarValue>,
    ) -> std::result::Result<Query, Status> {
        let cancel = Arc::new(Notify::new());
        self.running.lock().insert(id.clone(), (user.name.clone(), Arc::clone(&cancel)));
        let running = Running { all: Arc::clone(&self.running), id };
        let work = Arc::new(Work::default());
        let (session, sql, progress) = (Arc::clone(user), sql.to_owned(), Arc::clone(&work));
        let start = async {
            let admission = user.admit(None).await?;
            let plan = async move {
                statement::check(&sql)?;
                let planned = Planned::new(session.session.prepare(&sql, &progress).await?)?;
                let needed = planned.parameters.len();
                if needed != values.len() {
                    let message = "the statement needs values for its parameters; bind them first";
                    let error = Error::invalid_argument(message).with("parameters", needed);
                    return Err(error.with("got", values.len()));
                }
                planned.bind(values)
            };
            let planned = admission.run(plan).await?;
            let slot = admission.slot();
            admission.start(planned).await.map(|rows| (rows, slot))
        };
        let (rows, slot) = tokio::select! {
            started = start => started.map_err(|error| status(&error))?,
            () = cancel.notified() => return Err(canceled()),
        };
        Ok(Query { user: user.name.clone(), rows, work, cancel, running, _slot: slot })
    }
}

/// Ends the queries that clients have ceased to poll. Never returns.
pub async fn forget_polled(polled: PolledQueries) {
    loop {
        sleep(FORGET_INTERVAL).await;
        polled.lock().retain(|_, (_, used)| used.elapsed() < POLLED_TIME);
    }
}

/// Makes room for `statements` more prepared statements of a user, and for `len_bytes` more bytes:
/// removes those that were not used for long.
fn check_room(
    all: &mut HashMap<Bytes, Prepared>,
    user: &User,
    statements: usize,
    len_bytes: usize,
) -> Result<()> {
    let is_full = |all: &HashMap<Bytes, Prepared>| {
        let own = || all.values().filter(|prepared| prepared.user == user.name);
        own().count() + statements > PREPARED_MAX
            || own().map(|prepared| prepared.len_bytes).sum::<usize>() + len_bytes > PREPARED_BYTES_MAX
    };
    if is_full(all) {
        all.retain(|_, prepared| prepared.used.elapsed() < PREPARED_TIME);
    }
    if is_full(all) {
        return Err(Error::limit_exceeded(
            "the user has too many or too large prepared statements; close some",
        ));
    }
    Ok(())
}

fn unknown() -> Error {
    Error::not_found("no such prepared statement; the server forgets one that is not used for an hour")
}

fn unknown_query() -> Error {
    Error::not_found(
        "no such query; the server ends one that its client neither polls nor reads for a minute",
    )
}

fn canceled() -> Status {
    Status::cancelled("the client canceled the query")
}

/// A query among those that can be canceled.
struct Running {
    all: RunningQueries,
    id: Bytes,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}

/// A query that has started. Dropping this value ends it.
pub struct Query {
    user: String,
    rows: Rows,
    work: Arc<Work>,
    cancel: Arc<Notify>,
    running: Running,
    _slot: Arc<OwnedSemaphorePermit>,
}

/// Encodes the rows of a query, until the client cancels it.
fn encode(query: Query) -> Messages {
    let Query { rows, cancel, running, .. } = query;
    let schema = known_types::schema(&rows.schema);
    let known = Arc::clone(&schema);
    let batches = stream::try_unfold((rows, cancel, running), |(mut rows, cancel, running)| async move {
        let batch = tokio::select! {
            batch = rows.next() => batch.map_err(|error| status(&error)),
            () = cancel.notified() => Err(canceled()),
        };
        let batch = batch.map_err(|status| FlightError::Tonic(Box::new(status)))?;
        Ok(batch.map(|batch| (batch, (rows, cancel, running))))
    });
    let batches = batches
        .map(move |batch: std::result::Result<_, FlightError>| Ok(known_types::batch(&batch?, &known)?));
    let encoder = FlightDataEncoderBuilder::new().with_schema(schema).build(batches);
    encoder.map_err(Status::from).boxed()
}
