//! Runs a query on the data of an object: reads the records of a part, evaluates the query on each,
//! and passes the answer on in pieces.

use super::csv::{Dialect, Record, Records};
use super::eval::{Row, eval, order};
use super::failure::{Failure, Fault, fault};
use super::json::{self, Json, Take, Walk, WalkState, record_too_long};
use super::parse::parse;
use super::query::{AggregateKind, Items, Name, Path, Query, Step};
use super::rows::Rows;
use super::value::Value;
use super::wire::{Compression, CsvInput, Header, Input, Request, Totals, check_delimiter, one_byte};
use super::write::Writer;
use super::{RECORD_BYTES_MAX, Work};
use benthic_core::Result as CoreResult;
use bytes::{Buf, Bytes};
use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use serde::de::DeserializeSeed;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{BufReader, Read};
use std::ops::Range;

/// How much of an object has to contain the header of CSV.
pub const HEADER_BYTES_MAX: u64 = RECORD_BYTES_MAX as u64 + 8;
/// Records are passed on in pieces of about this size.
const PIECE_BYTES: usize = 128 * 1024;

/// The services that a query needs of the program in which it runs.
pub trait Host {
    /// The next bytes of the object, from [`Part::read_from`] on; empty at the end.
    ///
    /// # Errors
    /// Any error ends the query.
    fn read(&mut self) -> CoreResult<Bytes>;

    /// Takes records of the answer: a piece of at most about 1.2 MiB.
    ///
    /// # Errors
    /// Any error ends the query.
    fn write(&mut self, records: Vec<u8>) -> CoreResult<()>;

    /// A range of the object, which is completely in it. Only queries on [`Rows`] use it, and only
    /// they do not read front to back.
    ///
    /// # Errors
    /// Any error ends the query.
    fn read_range(&mut self, range: Range<u64>) -> CoreResult<Bytes>;

    /// The time, in milliseconds since 1970 (UTC).
    fn unix_ms(&self) -> u64;

    /// Called after a limited amount of work, with the totals so far.
    ///
    /// # Errors
    /// Any error ends the query: the time is over, or nobody waits for the answer.
    fn check(&mut self, totals: Totals) -> CoreResult<()>;
}

/// The part of an object that a query reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub read_from: u64,
    /// The part begins in the middle of a record, or right after its delimiter.
    skips_first: bool,
    /// Records that start here or later are not read.
    end: u64,
    /// The query needs the start of the object, too: [`HEADER_BYTES_MAX`].
    pub needs_header: bool,
}

/// A request that was checked.
pub struct Select {
    query: Query,
    form: Form,
    compression: Compression,
    range: Option<(Option<u64>, Option<u64>)>,
    writer: Writer,
}

enum Form {
    Csv(Dialect, Header),
    JsonLines(Dialect),
    JsonDocument,
    Parquet,
}

impl Select {
    /// Checks a request.
    ///
    /// # Errors
    /// What is wrong with the expression or a parameter.
    pub fn new(request: &Request) -> Result<Select, Failure> {
        let query = parse(&request.expression)?;
        let form = match &request.input {
            Input::Csv(input) => {
                if !query.from.is_empty() {
                    return Err(Failure::new("InvalidDataSource", "CSV has no paths: use FROM S3Object"));
                }
                Form::Csv(dialect(input)?, input.header)
            }
            Input::JsonLines => Form::JsonLines(lines()),
            Input::JsonDocument => Form::JsonDocument,
            Input::Parquet if request.compression != Compression::None => {
                let message = "Parquet is compressed inside; the CompressionType must be NONE";
                return Err(Failure::new("InvalidCompressionFormat", message));
            }
            Input::Parquet => Form::Parquet,
        };
        let range = request.range.map(|range| (range.start, range.end));
        if let Some(range) = range {
            let has_records = match &form {
                Form::Csv(dialect, _) => !dialect.quoted_delimiters,
                Form::JsonLines(_) => true,
                Form::JsonDocument | Form::Parquet => false,
            };
            if !has_records || request.compression != Compression::None {
                let message = "a scan range needs CSV without quoted record delimiters or lines of JSON, not compressed";
                return Err(Failure::new("UnsupportedScanRangeInput", message));
            }
            if range == (None, None) || matches!(range, (Some(start), Some(end)) if start > end) {
                return Err(Failure::new("InvalidScanRange", "the start of the scan range is after its end"));
            }
        }
        let writer = Writer::new(&request.output)?;
        Ok(Select { query, form, compression: request.compression, range, writer })
    }

    /// Whether the query needs a reader of rows: [`Select::run_rows`].
    pub fn needs_rows(&self) -> bool {
        matches!(self.form, Form::Parquet)
    }

    /// The part of an object of this size that the query reads.
    pub fn part(&self, size_bytes: u64) -> Part {
        let (start, end) = match self.range {
            None => (0, u64::MAX),
            Some((None, Some(last))) => (size_bytes.saturating_sub(last), u64::MAX),
            Some((start, end)) => (start.unwrap_or(0), end.map_or(u64::MAX, |end| end.saturating_add(1))),
        };
        let delimiter_len = match &self.form {
            Form::Csv(dialect, _) | Form::JsonLines(dialect) => dialect.record_delimiter.len() as u64,
            Form::JsonDocument | Form::Parquet => 0,
        };
        let needs_header = start > 0 && matches!(self.form, Form::Csv(_, Header::Use));
        // A record starts at `start` if a delimiter precedes it.
        Part { read_from: start.saturating_sub(delimiter_len), skips_first: start > 0, end, needs_header }
    }

    /// Runs the query. `header` is the start of the object if the part needs it.
    ///
    /// # Errors
    /// A fault of the data or of the query for them; the host's own errors. Records before it were
    /// written.
    pub fn run(&self, part: Part, header: Option<&[u8]>, host: &mut dyn Host) -> Result<Totals, Fault> {
        self.drive(host, |run| {
            let shared = run.shared;
            let plain = Feed { shared, piece: Bytes::new() };
            let buffered = |feed| BufReader::with_capacity(32 * 1024, feed);
            let mut read: Box<dyn Read + '_> = match self.compression {
                Compression::None => Box::new(plain),
                Compression::Gzip => Box::new(MultiGzDecoder::new(buffered(plain))),
                Compression::Bzip2 => Box::new(MultiBzDecoder::new(buffered(plain))),
            };
            let mut read = Counted { inner: &mut *read, shared, since_value: None };
            match &self.form {
                Form::Csv(dialect, kind) => run.csv(&mut read, part, dialect, *kind, header),
                Form::JsonLines(dialect) => run.json_lines(&mut read, part, dialect),
                Form::JsonDocument => run.json_document(&mut read),
                Form::Parquet => {
                    Err(fault("InvalidDataSource", "the class `select` does not read Parquet; `table` does"))
                }
            }
        })
    }

    /// Runs the query on rows of another form than CSV and JSON.
    ///
    /// # Errors
    /// Those of [`Select::run`].
    pub fn run_rows(&self, rows: &mut dyn Rows, host: &mut dyn Host) -> Result<Totals, Fault> {
        self.drive(host, |run| run.rows(rows))
    }

    fn drive(
        &self,
        host: &mut dyn Host,
        read: impl FnOnce(&mut Run<'_, '_>) -> Result<(), Fault>,
    ) -> Result<Totals, Fault> {
        let unix_ms = host.unix_ms();
        let shared = Shared {
            host: RefCell::new(host),
            fault: RefCell::new(None),
            totals: Cell::new(Totals::default()),
        };
        let check = || shared.check();
        let work = Work { units: Cell::new(0), unix_ms, check: &check };
        let mut run = Run {
            query: &self.query,
            writer: &self.writer,
            shared: &shared,
            work: &work,
            states: self.query.aggregates.iter().map(|_| AggregateState::default()).collect(),
            held_bytes: 0,
            left: self.query.limit.unwrap_or(u64::MAX),
            output: Vec::new(),
        };
        let is_aggregate = !self.query.aggregates.is_empty();
        if (run.left > 0 || is_aggregate)
            && let Err(fault) = read(&mut run)
        {
            run.flush()?;
            return Err(fault);
        }
        if is_aggregate && run.left > 0 {
            run.finish_aggregates()?;
        }
        run.flush()?;
        Ok(shared.totals.get())
    }
}

fn dialect(input: &CsvInput) -> Result<Dialect, Failure> {
    check_delimiter(&input.record_delimiter, 2, "the record delimiter")?;
    check_delimiter(&input.field_delimiter, 1, "the field delimiter")?;
    let dialect = Dialect {
        record_delimiter: input.record_delimiter.clone().into_bytes(),
        field_delimiter: input.field_delimiter.clone(),
        quote: one_byte(&input.quote, "the quote")?,
        escape: one_byte(&input.escape, "the quote escape")?,
        comment: one_byte(&input.comment, "the comment character")?,
        quoted_delimiters: input.quoted_record_delimiter,
    };
    let is_used = |byte: Option<u8>| {
        byte.is_some_and(|byte| {
            input.field_delimiter.as_bytes().contains(&byte) || dialect.record_delimiter.contains(&byte)
        })
    };
    if is_used(dialect.quote)
        || is_used(dialect.escape)
        || input.record_delimiter.contains(&input.field_delimiter)
    {
        let message = "delimiters, quote and quote escape must be different characters";
        return Err(Failure::new("InvalidRequestParameter", message));
    }
    Ok(dialect)
}

/// Lines, which contain JSON.
fn lines() -> Dialect {
    Dialect {
        record_delimiter: b"\n".to_vec(),
        field_delimiter: ",".to_owned(),
        quote: None,
        escape: None,
        comment: None,
        quoted_delimiters: false,
    }
}

/// The state that readers and the run share.
pub(super) struct Shared<'a> {
    host: RefCell<&'a mut dyn Host>,
    /// The fault behind an error of a reader.
    fault: RefCell<Option<Fault>>,
    totals: Cell<Totals>,
}

impl Shared<'_> {
    fn check(&self) -> Result<(), Fault> {
        Ok(self.host.borrow_mut().check(self.totals.get())?)
    }

    pub(super) fn next_rows(&self, rows: &mut dyn Rows) -> Result<usize, Fault> {
        let mut totals = self.totals.get();
        let read = rows.next(&mut **self.host.borrow_mut(), &mut totals);
        self.totals.set(totals);
        read
    }

    fn stop(&self, fault: Fault) -> std::io::Error {
        self.fault.borrow_mut().get_or_insert(fault);
        std::io::Error::other("the query has ended")
    }

    /// The fault behind an error of a reader; without one, the compressed data are at fault.
    fn fault_of(&self, error: &std::io::Error) -> Fault {
        self.fault.borrow_mut().take().unwrap_or_else(|| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => fault("TruncatedInput", "the compressed data end too early"),
            _ => fault(
                "InvalidCompressionFormat",
                "the data are not compressed in the form of the CompressionType, or they are damaged",
            ),
        })
    }
}

/// The bytes of the object.
struct Feed<'a, 'b> {
    shared: &'a Shared<'b>,
    piece: Bytes,
}

impl Read for Feed<'_, '_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        if self.piece.is_empty() {
            let piece = self.shared.host.borrow_mut().read();
            self.piece = piece.map_err(|error| self.shared.stop(error.into()))?;
            let mut totals = self.shared.totals.get();
            totals.scanned_bytes += self.piece.len() as u64;
            self.shared.totals.set(totals);
        }
        let len = to.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut to[..len]);
        Ok(len)
    }
}

/// The data of the object, without compression.
struct Counted<'a, 'b> {
    inner: &'a mut dyn Read,
    shared: &'a Shared<'b>,
    /// Bytes since the last value of a JSON document.
    since_value: Option<&'a Cell<u64>>,
}

impl Read for Counted<'_, '_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let len = self.inner.read(to)?;
        let mut totals = self.shared.totals.get();
        totals.processed_bytes += len as u64;
        self.shared.totals.set(totals);
        if let Some(since_value) = self.since_value {
            // One text, or white space, without an end.
            let since_bytes = since_value.get() + len as u64;
            since_value.set(since_bytes);
            if since_bytes > RECORD_BYTES_MAX as u64 + PIECE_BYTES as u64 {
                return Err(self.shared.stop(record_too_long()));
            }
            self.shared.check().map_err(|fault| self.shared.stop(fault))?;
        }
        Ok(len)
    }
}

/// The state of an aggregate.
#[derive(Default)]
struct AggregateState {
    count: u64,
    value: Option<Value<'static>>,
}

/// A query that runs.
pub(super) struct Run<'a, 'b> {
    pub(super) query: &'a Query,
    writer: &'a Writer,
    pub(super) shared: &'a Shared<'b>,
    pub(super) work: &'a Work<'a>,
    states: Vec<AggregateState>,
    /// Bytes of texts in `states`.
    held_bytes: usize,
    /// Records that LIMIT permits.
    left: u64,
    output: Vec<u8>,
}

impl Run<'_, '_> {
    fn csv(
        &mut self,
        read: &mut dyn Read,
        part: Part,
        dialect: &Dialect,
        kind: Header,
        header: Option<&[u8]>,
    ) -> Result<(), Fault> {
        let (shared, work) = (self.shared, self.work);
        let fault_of = |error: &std::io::Error| shared.fault_of(error);
        let mut names: Option<Vec<String>> = None;
        if part.needs_header {
            let mut start = header.unwrap_or_default();
            let mut records = Records::new(&mut start, 0, dialect, &fault_of);
            let first = records.next(work)?;
            names = first.map(|(_, first)| header_names(first, dialect)).transpose()?;
        }
        let mut records = Records::new(read, part.read_from, dialect, &fault_of);
        if part.skips_first {
            records.skip_part(work)?;
        }
        let mut is_header = kind != Header::None && !part.skips_first;
        let mut fields: Option<(Vec<usize>, usize)> = None;
        loop {
            let record = records.next(work)?;
            let Some((_, record)) = record.filter(|(place, _)| *place < part.end) else { break };
            if std::mem::take(&mut is_header) {
                if kind == Header::Use {
                    names = Some(header_names(record, dialect)?);
                }
                continue;
            }
            if fields.is_none() {
                fields = Some(bind(self.query, names.as_deref(), work)?);
            }
            let Some((columns, fields_max)) = &fields else { break };
            let record = Record::new(record, dialect, *fields_max)?;
            work.tick(record.fields().len())?;
            if !self.row(&Row::Csv { record: &record, columns, names: names.as_deref() })? {
                break;
            }
        }
        // A query with a wrong column fails on no records, too.
        if fields.is_none() && (names.is_some() || kind != Header::Use) {
            bind(self.query, names.as_deref(), work)?;
        }
        Ok(())
    }

    fn json_lines(&mut self, read: &mut dyn Read, part: Part, dialect: &Dialect) -> Result<(), Fault> {
        let (shared, work) = (self.shared, self.work);
        let fault_of = |error: &std::io::Error| shared.fault_of(error);
        let mut records = Records::new(read, part.read_from, dialect, &fault_of);
        if part.skips_first {
            records.skip_part(work)?;
        }
        let query = self.query;
        let since_value = Cell::new(0);
        loop {
            let record = records.next(work)?;
            let Some((place, line)) = record.filter(|(place, _)| *place < part.end) else { return Ok(()) };
            work.tick(line.len())?;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let state = WalkState::new(self, &since_value);
            let mut values = serde_json::Deserializer::from_slice(line);
            let walked = Walk { state: &state, steps: &query.from }.deserialize(&mut values);
            if let Err(error) = walked.and_then(|()| values.end()) {
                if state.ended.get() {
                    return Ok(());
                }
                let fault = json::fault_of(&error, &state);
                return Err(match fault {
                    Fault::Query(mut failure) if failure.code == "JSONParsingError" => {
                        failure.message.push_str(&format!(" of the record at byte {place}"));
                        Fault::Query(failure)
                    }
                    fault => fault,
                });
            }
        }
    }

    fn json_document(&mut self, read: &mut Counted<'_, '_>) -> Result<(), Fault> {
        let shared = self.shared;
        let query = self.query;
        let since_value = Cell::new(0);
        let read = Counted { inner: &mut *read.inner, shared, since_value: Some(&since_value) };
        let state = WalkState::new(self, &since_value);
        let mut values = serde_json::Deserializer::from_reader(BufReader::with_capacity(32 * 1024, read));
        let failed = |error: &serde_json::Error| {
            if let Some(fault) = shared.fault.borrow_mut().take() {
                return Err(fault);
            }
            match error.io_error_kind() {
                _ if state.ended.get() => Ok(()),
                Some(kind) => Err(shared.fault_of(&kind.into())),
                None => Err(json::fault_of(error, &state)),
            }
        };
        loop {
            // The end of the data, or another value after the last one.
            match values.end() {
                Ok(()) => return Ok(()),
                Err(error) if error.is_io() => return failed(&error),
                Err(_) => {}
            }
            if let Err(error) = (Walk { state: &state, steps: &query.from }).deserialize(&mut values) {
                return failed(&error);
            }
        }
    }

    /// Takes a record. Returns whether the query needs more.
    pub(super) fn row(&mut self, row: &Row<'_>) -> Result<bool, Fault> {
        self.work.tick(16)?;
        if let Some(condition) = &self.query.condition
            && eval(condition, row, self.work)?.truth()? != Some(true)
        {
            return Ok(true);
        }
        if !self.states.is_empty() {
            self.aggregate(row)?;
            return Ok(true);
        }
        self.write(row)?;
        self.left -= 1;
        if self.output.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(self.left > 0)
    }

    /// Writes a record of the answer, or nothing of it if it fails.
    fn write(&mut self, row: &Row<'_>) -> Result<(), Fault> {
        let start = self.output.len();
        self.writer.begin(&mut self.output);
        self.write_fields(row, start).inspect_err(|_| self.output.truncate(start))?;
        self.writer.end(&mut self.output);
        Ok(())
    }

    fn write_fields(&mut self, row: &Row<'_>, start: usize) -> Result<(), Fault> {
        let (writer, output) = (self.writer, &mut self.output);
        let mut index = 0;
        let mut add = |name: &str, value: Value<'_>| {
            index += usize::from(writer.field(index, name, &value, output));
            check_record(output.len() - start)
        };
        match &self.query.items {
            Items::All => row.each_field(self.work, &mut add),
            Items::List(items) => {
                items.iter().try_for_each(|item| add(&item.name, eval(&item.expr, row, self.work)?))
            }
        }
    }

    fn aggregate(&mut self, row: &Row<'_>) -> Result<(), Fault> {
        for (aggregate, state) in self.query.aggregates.iter().zip(&mut self.states) {
            let Some(argument) = &aggregate.argument else {
                state.count += 1;
                continue;
            };
            let value = eval(argument, row, self.work)?;
            if value.is_null() {
                continue;
            }
            state.count += 1;
            let new = match aggregate.kind {
                AggregateKind::Count => continue,
                // It has no order. Only data with types contain it.
                AggregateKind::Min | AggregateKind::Max if value.is_nan() => continue,
                AggregateKind::Sum | AggregateKind::Avg => {
                    let number = value.operand()?;
                    let sum = match state.value.as_ref().and_then(Value::number) {
                        Some(sum) => sum.apply(super::query::Operator::Add, number)?,
                        None => number,
                    };
                    sum.value()
                }
                AggregateKind::Min | AggregateKind::Max => {
                    let wanted = match aggregate.kind {
                        AggregateKind::Min => std::cmp::Ordering::Less,
                        _ => std::cmp::Ordering::Greater,
                    };
                    let replaces = match &state.value {
                        None => true,
                        Some(old) => {
                            let order = order(&value, old, self.work)?;
                            let message = "MIN and MAX need values of one type; use CAST";
                            order.ok_or_else(|| fault("InvalidDataType", message))? == wanted
                        }
                    };
                    if !replaces {
                        continue;
                    }
                    value.into_owned()
                }
            };
            let size_bytes = |value: &Value<'_>| if let Value::Text(text) = value { text.len() } else { 0 };
            self.held_bytes -= state.value.as_ref().map_or(0, size_bytes);
            self.held_bytes += size_bytes(&new);
            check_record(self.held_bytes)?;
            state.value = Some(new);
        }
        Ok(())
    }

    fn finish_aggregates(&mut self) -> Result<(), Fault> {
        let mut results = Vec::new();
        for (aggregate, state) in self.query.aggregates.iter().zip(std::mem::take(&mut self.states)) {
            results.push(match (aggregate.kind, state.value) {
                (AggregateKind::Count, _) => Value::Int(state.count.into()),
                (_, None) => Value::Null,
                (AggregateKind::Avg, Some(sum)) => sum.operand()?.average(state.count)?.value(),
                (_, Some(value)) => value,
            });
        }
        self.write(&Row::Aggregates(&results))
    }

    fn flush(&mut self) -> Result<(), Fault> {
        if self.output.is_empty() {
            return Ok(());
        }
        let records = std::mem::take(&mut self.output);
        let mut totals = self.shared.totals.get();
        totals.returned_bytes += records.len() as u64;
        self.shared.totals.set(totals);
        Ok(self.shared.host.borrow_mut().write(records)?)
    }
}

impl Take for Run<'_, '_> {
    fn take(&mut self, record: Option<&Json>) -> Result<bool, Fault> {
        let query = self.query;
        self.row(&Row::Json(record, &query.columns))
    }
}

fn check_record(len_bytes: usize) -> Result<(), Fault> {
    if len_bytes <= RECORD_BYTES_MAX {
        Ok(())
    } else {
        Err(fault("OverMaxRecordSize", "a record of the answer is longer than 1 MiB"))
    }
}

fn header_names(record: &[u8], dialect: &Dialect) -> Result<Vec<String>, Fault> {
    let record = Record::new(record, dialect, usize::MAX)?;
    Ok(record.fields().iter().map(|name| name.clone().into_owned()).collect())
}

/// The index of the field of each column, and how many fields the query needs.
fn bind(query: &Query, names: Option<&[String]>, work: &Work<'_>) -> Result<(Vec<usize>, usize), Fault> {
    let header = names.map(|names| HeaderIndex::new(names, work)).transpose()?;
    let mut columns = Vec::new();
    for path in &query.columns {
        work.tick(1)?;
        columns.push(bind_column(path, header.as_ref())?);
    }
    let fields_max = match query.items {
        Items::All => usize::MAX,
        Items::List(_) => columns.iter().map(|index| index.saturating_add(1)).max().unwrap_or(0),
    };
    Ok((columns, fields_max))
}

/// Where the names of a header are; `None` for a name that several columns have.
pub(super) struct HeaderIndex<'a> {
    exact: HashMap<&'a str, Option<usize>>,
    /// Without regard to case.
    folded: HashMap<String, Option<usize>>,
}

impl HeaderIndex<'_> {
    pub(super) fn new<'a>(names: &'a [String], work: &Work<'_>) -> Result<HeaderIndex<'a>, Fault> {
        let mut header = HeaderIndex { exact: HashMap::new(), folded: HashMap::new() };
        for (index, name) in names.iter().enumerate() {
            work.tick(1 + name.len())?;
            header.exact.entry(name).and_modify(|found| *found = None).or_insert(Some(index));
            let folded = header.folded.entry(name.to_ascii_lowercase());
            folded.and_modify(|found| *found = None).or_insert(Some(index));
        }
        Ok(header)
    }

    /// The index of a name; `Some(None)` if several columns have it.
    pub(super) fn find(&self, name: &Name) -> Option<Option<usize>> {
        let folded = || self.folded.get(&name.text.to_ascii_lowercase()).filter(|_| !name.quoted);
        self.exact.get(name.text.as_str()).or_else(folded).copied()
    }
}

fn bind_column(path: &Path, header: Option<&HeaderIndex<'_>>) -> Result<usize, Fault> {
    let [Step::Key(name)] = path.as_slice() else {
        return Err(fault("InvalidKeyPath", "a column of CSV is a name or _N, without a path"));
    };
    if let Some(header) = header {
        match header.find(name) {
            Some(Some(index)) => return Ok(index),
            Some(None) => {
                let message =
                    format!("several columns have the name '{}'", super::value::excerpt(&name.text));
                return Err(fault("AmbiguousFieldName", message));
            }
            None => {}
        }
    }
    let position = name.text.strip_prefix('_').filter(|_| !name.quoted);
    if let Some(position) = position.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
        let index = position.parse::<usize>().ok().and_then(|position| position.checked_sub(1));
        return index.ok_or_else(|| fault("InvalidColumnIndex", "columns are _1, _2 and so on"));
    }
    let shown = super::value::excerpt(&name.text);
    Err(match header {
        Some(_) => fault("MissingHeaders", format!("the header has no column '{shown}'")),
        None => {
            let message = format!(
                "'{shown}' needs a header (FileHeaderInfo USE); without one, columns are _1, _2 and so on"
            );
            fault("MissingHeaders", message)
        }
    })
}
