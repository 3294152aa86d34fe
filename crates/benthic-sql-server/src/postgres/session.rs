//! The session of a connection: its settings, prepared statements and portals, and the messages
//! that use them.

use super::control::{self, Control, SessionSettings};
use super::copy::{self, RowForm};
use super::cursors::{Declare, Fetch};
use super::encode;
use super::messages::{Fields, SEND_BYTES, Writer, garbage};
use super::parameters::{decode, parameter_types};
use super::portals::{Fault, Named, Portal, PortalState, Running, Statement};
use crate::catalog;
use crate::queries::{Admission, Planned};
use crate::statement;
use crate::users::User;
use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use benthic_core::{Error, Result};
use benthic_sql::prepared::PARAMETERS_MAX;
use benthic_sql::work::Work;
use bytes::{BufMut, Bytes};
use std::sync::Arc;

/// The status of the transaction, as the protocol has it.
const IDLE: u8 = b'I';
const IN_TRANSACTION: u8 = b'T';
const FAILED: u8 = b'E';

/// Postgres' codes of errors of cursors and savepoints.
const NO_TRANSACTION: &str = "25P01";
const NO_CURSOR: &str = "34000";
const DUPLICATE_CURSOR: &str = "42P03";
const NOT_RUNNABLE: &str = "55000";

/// Values for the parameters of a statement, as Bind has them.
struct Values {
    /// The types that Parse declares.
    declared: Vec<u32>,
    formats: Vec<i16>,
    values: Vec<Option<Bytes>>,
}

/// A session.
pub struct Session {
    pub writer: Writer,
    user: Arc<User>,
    access_key: String,
    settings: SessionSettings,
    status: u8,
    /// Whether a message with several statements is running. It is a transaction of its own, in
    /// which cursors can be declared.
    is_implicit: bool,
    statements: Named<Statement>,
    portals: Named<Portal>,
}

impl Session {
    pub fn new(writer: Writer, user: Arc<User>, access_key: String, settings: SessionSettings) -> Session {
        let (statements, portals) = (Named::new("prepared statement"), Named::new("portal"));
        Session { writer, user, access_key, settings, status: IDLE, is_implicit: false, statements, portals }
    }

    /// Tells the client that the next statement may come.
    pub fn ready(&mut self) {
        self.is_implicit = false;
        if self.status == IDLE {
            self.portals.clear();
        }
        self.writer.ready(self.status);
    }

    /// Reports that a statement failed.
    pub fn fail(&mut self, code: &str, message: &str) {
        if self.status == IN_TRANSACTION {
            self.status = FAILED;
        }
        self.writer.error("ERROR", code, message);
    }

    /// Answers one message.
    pub async fn answer(&mut self, kind: u8, mut fields: Fields) -> std::result::Result<(), Fault> {
        match kind {
            b'Q' => {
                let text = fields.text()?;
                self.run_all(&text).await
            }
            b'P' => Ok(self.parse(fields)?),
            b'B' => self.bind(fields).await,
            b'D' => match (fields.u8()?, fields.text()?) {
                (b'S', name) => self.describe_statement(&name).await,
                (_, name) => Ok(self.describe_portal(&name)?),
            },
            b'E' => {
                let name = fields.text()?;
                let rows_max = u64::try_from(fields.i32()?).ok().filter(|max| *max > 0);
                self.execute(&name, rows_max).await
            }
            _ => {
                match (fields.u8()?, fields.text()?) {
                    (b'S', name) => drop(self.statements.remove(&name)),
                    (_, name) => drop(self.portals.remove(&name)),
                }
                self.writer.message(b'3', |_| {});
                Ok(())
            }
        }
    }

    /// Runs the statements of a text.
    async fn run_all(&mut self, text: &str) -> std::result::Result<(), Fault> {
        if control::statements(text).next().is_none() {
            self.writer.message(b'I', |_| {});
        }
        self.is_implicit = control::statements(text).nth(1).is_some();
        for sql in control::statements(text) {
            if self.writer.out.len() >= SEND_BYTES {
                self.writer.flush().await?;
            }
            if copy::is_copy(sql) {
                self.copy(sql).await?;
                continue;
            }
            let state = match control::parse(sql)? {
                Some(Control::Declare(cursor)) => {
                    let (planned, work) = self.plan_without_parameters(&cursor.query).await?;
                    PortalState::Declare { cursor, len_bytes: sql.len(), planned: Box::new(planned), work }
                }
                Some(control) => PortalState::Control(control),
                None => {
                    let (planned, work) = self.plan_without_parameters(sql).await?;
                    PortalState::Ready { planned: Box::new(planned), work }
                }
            };
            let mut portal = Portal { state, formats: Vec::new(), verb: verb(sql) };
            self.describe(&portal, true);
            self.run(&mut portal, None).await?;
        }
        Ok(())
    }

    /// Plans a statement that has no message with values.
    async fn plan_without_parameters(
        &mut self,
        sql: &str,
    ) -> std::result::Result<(Planned, Arc<Work>), Fault> {
        let (planned, work) = self.plan(sql).await?;
        if !planned.parameters.is_empty() {
            return Err(Error::invalid_argument("a statement with parameters must be prepared").into());
        }
        Ok((planned, work))
    }

    /// Sends the rows of `COPY … TO STDOUT`.
    async fn copy(&mut self, sql: &str) -> std::result::Result<(), Fault> {
        let (admission, sql) = (self.admit().await?, sql.to_owned());
        let copy = admission.run(async move { copy::parse(&sql) }).await?;
        drop(admission);
        let (planned, work) = self.plan_without_parameters(&copy.query).await?;
        let admission = self.admit().await?;
        let mut running = Running::start(planned, work, admission, copy.form).await?;
        copy.begin(&mut self.writer, &running.schema());
        running.send(None, &[copy.format()], &self.settings, &mut self.writer).await?;
        copy.end(&mut self.writer, running.sent);
        self.writer.complete(&format!("COPY {}", running.sent));
        Ok(())
    }

    fn parse(&mut self, mut fields: Fields) -> Result<()> {
        let (name, sql) = (fields.text()?, fields.text()?);
        let mut declared = Vec::new();
        for _ in 0..check_count(fields.count()?)? {
            declared.push(fields.u32()?);
        }
        if control::statements(&sql).nth(1).is_some() {
            return Err(Error::invalid_argument("a prepared statement must be a single statement"));
        }
        let sql = control::statements(&sql).next().unwrap_or_default().to_owned();
        let len_bytes = sql.len() + 4 * declared.len();
        self.statements.insert(name, Statement { sql: sql.into(), declared }, len_bytes)?;
        self.writer.message(b'1', |_| {});
        Ok(())
    }

    async fn bind(&mut self, mut fields: Fields) -> std::result::Result<(), Fault> {
        let (name, statement) = (fields.text()?, fields.text()?);
        let Statement { sql, declared } = self.statements.get(&statement)?.clone();
        let mut value_formats = Vec::new();
        for _ in 0..check_count(fields.count()?)? {
            value_formats.push(fields.i16()?);
        }
        let mut values = Vec::new();
        for _ in 0..check_count(fields.count()?)? {
            values.push(fields.value()?);
        }
        let mut formats = Vec::new();
        for _ in 0..fields.count()? {
            formats.push(fields.i16()?);
        }
        if value_formats.iter().chain(&formats).any(|format| !matches!(format, 0 | 1)) {
            return Err(garbage("a format must be 0 for text or 1 for binary").into());
        }
        let len_bytes = values.iter().flatten().map(|value| value.len()).sum::<usize>() + sql.len();
        let values = Values { declared, formats: value_formats, values };
        let state = match control::parse(&sql)? {
            Some(Control::Declare(cursor)) => {
                let (planned, work) = self.plan_with(&cursor.query, values).await?;
                PortalState::Declare { cursor, len_bytes, planned: Box::new(planned), work }
            }
            Some(control) => PortalState::Control(control),
            None => {
                let (planned, work) = self.plan_with(&sql, values).await?;
                PortalState::Ready { planned: Box::new(planned), work }
            }
        };
        self.portals.insert(name, Portal { state, formats, verb: verb(&sql) }, len_bytes)?;
        self.writer.message(b'2', |_| {});
        Ok(())
    }

    /// Plans a statement with values for its parameters.
    async fn plan_with(
        &mut self,
        sql: &str,
        values: Values,
    ) -> std::result::Result<(Planned, Arc<Work>), Fault> {
        let Values { declared, formats, values } = values;
        let (planned, work) = self.plan(sql).await?;
        let types = parameter_types(&declared, &planned.parameters);
        if types.len() != values.len() {
            let message = "the values of parameters are too few or too many";
            let error = Error::invalid_argument(message).with("got", values.len());
            return Err(error.with("parameters", types.len()).into());
        }
        let decoded = values.into_iter().enumerate().map(|(number, value)| {
            let is_binary = encode::format_of(&formats, number) == 1;
            let declared = declared.get(number).is_some_and(|oid| *oid != 0);
            let implied = planned.parameters.get(number).and_then(Option::as_ref);
            decode(value, is_binary, types[number], declared, implied)
                .map_err(|error| error.with("parameter", number + 1))
        });
        let decoded = decoded.collect::<Result<Vec<_>>>()?;
        let planned = match decoded.is_empty() {
            true => planned,
            false => self.admit().await?.run(async move { planned.bind(decoded) }).await?,
        };
        Ok((planned, work))
    }

    async fn describe_statement(&mut self, name: &str) -> std::result::Result<(), Fault> {
        let Statement { sql, declared } = self.statements.get(name)?.clone();
        let (state, types) = match control::parse(&sql)? {
            Some(Control::Declare(cursor)) => {
                let (planned, _) = self.plan(&cursor.query).await?;
                (PortalState::Done, parameter_types(&declared, &planned.parameters))
            }
            Some(control) => (PortalState::Control(control), declared),
            None => {
                let (planned, work) = self.plan(&sql).await?;
                let types = parameter_types(&declared, &planned.parameters);
                (PortalState::Ready { planned: Box::new(planned), work }, types)
            }
        };
        self.writer.message(b't', |body| {
            body.put_u16(u16::try_from(types.len()).unwrap_or(u16::MAX));
            types.iter().for_each(|oid| body.put_u32(*oid));
        });
        self.describe(&Portal { state, formats: Vec::new(), verb: "" }, false);
        Ok(())
    }

    fn describe_portal(&mut self, name: &str) -> Result<()> {
        self.portals.get(name)?;
        let shape = self.portals.find(name).map(|portal| self.shape(portal));
        let (schema, formats) = shape.unwrap_or_default();
        describe(&mut self.writer, schema, &formats, false);
        Ok(())
    }

    /// Describes the columns of a portal. A simple query has no message for a lack of columns.
    fn describe(&mut self, portal: &Portal, is_simple: bool) {
        let (schema, formats) = self.shape(portal);
        describe(&mut self.writer, schema, &formats, is_simple);
    }

    /// The columns of a portal, and their formats; no columns if it has no rows.
    fn shape(&self, portal: &Portal) -> (Option<SchemaRef>, Vec<i16>) {
        let rows_of = match &portal.state {
            PortalState::Control(Control::Fetch(fetch)) if !fetch.is_move => self.portals.find(&fetch.name),
            _ => Some(portal),
        };
        let schema = rows_of.and_then(|rows_of| columns(&rows_of.state));
        (schema, rows_of.map_or_else(Vec::new, |rows_of| formats_of(portal, rows_of).to_vec()))
    }

    async fn execute(&mut self, name: &str, rows_max: Option<u64>) -> std::result::Result<(), Fault> {
        let portal = self.portals.get(name)?;
        let (formats, verb) = (portal.formats.clone(), portal.verb);
        let state = std::mem::replace(&mut portal.state, PortalState::Failed);
        let mut portal = Portal { state, formats, verb };
        self.run(&mut portal, rows_max).await?;
        // A statement such as ROLLBACK may have removed the portal.
        if let Ok(kept) = self.portals.get(name) {
            kept.state = portal.state;
        }
        Ok(())
    }

    /// Runs a portal, to its end or for some rows.
    async fn run(&mut self, portal: &mut Portal, rows_max: Option<u64>) -> std::result::Result<(), Fault> {
        let mut running = match std::mem::replace(&mut portal.state, PortalState::Done) {
            PortalState::Control(Control::Fetch(fetch)) => return self.fetch(portal, fetch, rows_max).await,
            PortalState::Control(control) => return self.control(control),
            _ if self.status == FAILED => return Err(Fault::InFailedTransaction),
            PortalState::Declare { cursor, len_bytes, planned, work } => {
                return self.declare(cursor, len_bytes, PortalState::Ready { planned, work });
            }
            PortalState::Ready { planned, work } => {
                let admission = self.admit().await?;
                Box::new(Running::start(*planned, work, admission, RowForm::Message).await?)
            }
            PortalState::Running(running) => running,
            PortalState::Done => {
                self.writer.complete(&format!("{} 0", portal.verb));
                return Ok(());
            }
            PortalState::Failed => return Err(not_runnable("the portal")),
        };
        let before = running.sent;
        if running.send(rows_max, &portal.formats, &self.settings, &mut self.writer).await? {
            let tag = match portal.verb {
                "SELECT" => format!("SELECT {}", running.sent - before),
                verb => verb.to_owned(),
            };
            self.writer.complete(&tag);
        } else {
            self.writer.message(b's', |_| {});
            portal.state = PortalState::Running(running);
        }
        Ok(())
    }

    /// Opens a cursor.
    fn declare(
        &mut self,
        cursor: Declare,
        len_bytes: usize,
        state: PortalState,
    ) -> std::result::Result<(), Fault> {
        if self.status != IN_TRANSACTION && !self.is_implicit {
            return Err(no_transaction("DECLARE CURSOR"));
        }
        if self.portals.find(&cursor.name).is_some() {
            let message =
                format!("cursor \"{}\" already exists; close it or choose another name", cursor.name);
            return Err(Fault::Known(DUPLICATE_CURSOR, message));
        }
        let formats = if cursor.is_binary { vec![1] } else { Vec::new() };
        self.portals.insert(cursor.name, Portal { state, formats, verb: "SELECT" }, len_bytes)?;
        self.writer.complete("DECLARE CURSOR");
        Ok(())
    }

    /// Runs FETCH or MOVE, to its end or for some rows.
    async fn fetch(
        &mut self,
        portal: &mut Portal,
        mut fetch: Fetch,
        rows_max: Option<u64>,
    ) -> std::result::Result<(), Fault> {
        if self.status == FAILED {
            return Err(Fault::InFailedTransaction);
        }
        let Ok(cursor) = self.portals.get(&fetch.name) else { return Err(no_cursor(&fetch.name)) };
        let formats = formats_of(portal, cursor).to_vec();
        let mut running = match std::mem::replace(&mut cursor.state, PortalState::Failed) {
            PortalState::Ready { planned, work } => {
                let admission = self.admit().await?;
                Box::new(Running::start(*planned, work, admission, RowForm::Message).await?)
            }
            PortalState::Running(running) => running,
            // A cursor at its end still runs.
            PortalState::Done | PortalState::Failed => {
                return Err(not_runnable(&format!("cursor \"{}\"", fetch.name)));
            }
            PortalState::Control(_) | PortalState::Declare { .. } => return Err(no_cursor(&fetch.name)),
        };
        running.form = if fetch.is_move { RowForm::Skipped } else { RowForm::Message };
        let (before, rows) = (running.sent, fetch.rows.into_iter().chain(rows_max).min());
        let is_end = running.send(rows, &formats, &self.settings, &mut self.writer).await?;
        let sent = running.sent - before;
        running.form = RowForm::Message;
        // The cursor stays at its end, so that it still has columns.
        if let Ok(cursor) = self.portals.get(&fetch.name) {
            cursor.state = PortalState::Running(running);
        }
        fetch.rows = fetch.rows.map(|rows| rows.saturating_sub(sent));
        if is_end || fetch.rows == Some(0) {
            self.writer.complete(&format!("{} {sent}", fetch.verb()));
        } else {
            self.writer.message(b's', |_| {});
            portal.state = PortalState::Control(Control::Fetch(fetch));
        }
        Ok(())
    }

    fn control(&mut self, control: Control) -> std::result::Result<(), Fault> {
        let ends = matches!(control, Control::Commit | Control::Rollback | Control::Empty);
        // ROLLBACK TO a savepoint would make the transaction usable again, but no driver needs it.
        if self.status == FAILED && !ends && control != Control::Savepoint("ROLLBACK") {
            return Err(Fault::InFailedTransaction);
        }
        match control {
            Control::Empty => self.writer.message(b'I', |_| {}),
            Control::Begin => {
                self.status = IN_TRANSACTION;
                self.writer.complete("BEGIN");
            }
            Control::Commit if self.status != FAILED => self.end_transaction("COMMIT"),
            Control::Commit | Control::Rollback => self.end_transaction("ROLLBACK"),
            Control::Set(name, value) => {
                if let Some(reported) = self.settings.set(&name, &value)? {
                    self.writer.parameter(reported, &value);
                }
                self.writer.complete("SET");
            }
            Control::Show(name) => {
                let value = self.settings.get(&name)?.to_owned();
                let column = Arc::new(StringArray::from(vec![value]));
                let row = RecordBatch::try_new(schema_of_show(&name), vec![column]);
                let row = row.map_err(|error| Error::internal("cannot show a setting").with_source(error))?;
                let columns = encode::Columns::new(&row, &row.schema(), &[])?;
                columns.write_row(&mut self.writer, 0, RowForm::Message, true)?;
                self.writer.complete("SHOW");
            }
            Control::Deallocate(name) => {
                match name {
                    Some(name) => drop(self.statements.remove(&name)),
                    None => self.statements.clear(),
                }
                self.writer.complete("DEALLOCATE");
            }
            Control::Close(None) => {
                self.portals.clear();
                self.writer.complete("CLOSE CURSOR ALL");
            }
            Control::Close(Some(name)) => {
                self.portals.remove(&name).ok_or_else(|| no_cursor(&name))?;
                self.writer.complete("CLOSE CURSOR");
            }
            // These are portals of their own.
            Control::Declare(_) | Control::Fetch(_) => {}
            // A message with several statements is no transaction block.
            Control::Savepoint(tag) if self.status == IDLE => {
                return Err(no_transaction(match tag {
                    "ROLLBACK" => "ROLLBACK TO SAVEPOINT",
                    "RELEASE" => "RELEASE SAVEPOINT",
                    tag => tag,
                }));
            }
            Control::Savepoint(tag) => {
                self.status = IN_TRANSACTION;
                self.writer.complete(tag);
            }
            Control::Nothing(tag) => {
                if tag == "DISCARD ALL" {
                    self.statements.clear();
                }
                self.writer.complete(tag);
            }
        }
        Ok(())
    }

    /// Ends the transaction and its cursors. The same message may begin another transaction.
    fn end_transaction(&mut self, tag: &str) {
        self.status = IDLE;
        self.portals.clear();
        self.writer.complete(tag);
    }

    async fn admit(&mut self) -> Result<Admission> {
        self.user.admit(self.settings.statement_timeout()).await
    }

    async fn plan(&mut self, sql: &str) -> std::result::Result<(Planned, Arc<Work>), Fault> {
        if self.status == FAILED {
            return Err(Fault::InFailedTransaction);
        }
        let work: Arc<Work> = Arc::default();
        let admission = self.admit().await?;
        let (user, progress) = (Arc::clone(&self.user), Arc::clone(&work));
        let (sql, access_key, settings) = (sql.to_owned(), self.access_key.clone(), self.settings.clone());
        let planned = admission.run(async move {
            statement::check(&sql)?;
            match catalog::plan(&sql, &user, &access_key, &settings).await? {
                Some(query) => Planned::new(query),
                None => Planned::new(user.session.prepare(&sql, &progress).await?),
            }
        });
        Ok((planned.await?, work))
    }
}

/// The columns of a portal; `None` if it has no rows.
fn columns(state: &PortalState) -> Option<SchemaRef> {
    match state {
        PortalState::Ready { planned, .. } => Some(Arc::clone(&planned.schema)),
        PortalState::Running(running) => Some(running.schema()),
        PortalState::Control(Control::Show(name)) => Some(schema_of_show(name)),
        PortalState::Control(_) | PortalState::Declare { .. } | PortalState::Done | PortalState::Failed => {
            None
        }
    }
}

/// The formats of the rows of a cursor that a portal fetches: those of the portal, if it has any.
fn formats_of<'p>(portal: &'p Portal, cursor: &'p Portal) -> &'p [i16] {
    if portal.formats.is_empty() { &cursor.formats } else { &portal.formats }
}

/// The error of a cursor or portal whose earlier run failed.
fn not_runnable(name: &str) -> Fault {
    let message = format!("{name} cannot be run, because an earlier run failed; close it and make it again");
    Fault::Known(NOT_RUNNABLE, message)
}

fn no_transaction(statement: &str) -> Fault {
    let message = format!("{statement} can only be used in transaction blocks; send BEGIN before it");
    Fault::Known(NO_TRANSACTION, message)
}

fn no_cursor(name: &str) -> Fault {
    Fault::Known(
        NO_CURSOR,
        format!("cursor \"{name}\" does not exist; it may have ended with its transaction"),
    )
}

fn schema_of_show(name: &str) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(name, DataType::Utf8, false)]))
}

fn describe(writer: &mut Writer, schema: Option<SchemaRef>, formats: &[i16], is_simple: bool) {
    match schema {
        Some(schema) => encode::describe(writer, &schema, formats),
        None if is_simple => {}
        None => writer.message(b'n', |_| {}),
    }
}

fn check_count(count: usize) -> Result<usize> {
    if count <= PARAMETERS_MAX {
        return Ok(count);
    }
    Err(Error::limit_exceeded("the statement has too many parameters").with("max", PARAMETERS_MAX))
}

/// The verb in the tag of a query's answer.
fn verb(sql: &str) -> &'static str {
    let first = sql.split_whitespace().next().unwrap_or_default();
    match first {
        first if first.eq_ignore_ascii_case("EXPLAIN") => "EXPLAIN",
        first if first.eq_ignore_ascii_case("SHOW") => "SHOW",
        _ => "SELECT",
    }
}
