//! SelectObjectContent: a query on one object.
//!
//! The class `select` runs beside the data if they are in one piece and not encrypted, and returns
//! at most 4 MiB; for Parquet it is the class `table`. Otherwise the gateway runs the same code: a
//! thread reads the data, front to back, or those ranges of Parquet that the query needs, and the
//! answer streams while it does, so a query holds a few pieces of the data and of the answer.

use super::encryption::{Encryption, customer_headers, refuse_algorithm};
use super::exec::{self, ObjectData, RanAt};
use super::get::pieces;
use super::versions::refuse_delete_marker;
use super::{Gateway, error};
use crate::sal::{Bucket, DataKey, Object, Sal};
use benthic_classes::select::wire::{
    Compression, CsvInput, CsvOutput, Header, Input, Output, Request, ScanRange, Totals, decode_answer,
};
use benthic_classes::select::{Failure, Fault, HEADER_BYTES_MAX, Host, Part, Select};
use benthic_core::{ClassCall, Clock, Error, ErrorKind, Result};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use hyper::header::HeaderValue;
use parking_lot::Mutex;
use s3s::dto::{
    CSVInput, CSVOutput, CompressionType, ContinuationEvent, EndEvent, ExpressionType, FileHeaderInfo,
    InputSerialization, JSONType, OutputSerialization, Progress, ProgressEvent, QuoteFields, RecordsEvent,
    SelectObjectContentEvent, SelectObjectContentEventStream, SelectObjectContentInput,
    SelectObjectContentOutput, SelectObjectContentRequest, Stats, StatsEvent,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Queries that run in a gateway at once. Each holds a thread.
const QUERIES_MAX: usize = 32;
/// Queries of one account, or of anonymous callers, that run in a gateway at once.
const QUERIES_OF_ACCOUNT_MAX: usize = QUERIES_MAX / 4;
/// How long a request waits for others' queries.
const WAIT_LIMIT: Duration = Duration::from_secs(5);
/// How long a query may compute in the gateway. Waiting for data and for the client does not count.
const COMPUTE_LIMIT: Duration = Duration::from_secs(300);
/// How long a query may run in the gateway, with all waiting. A client that reads slowly holds a
/// thread.
const TIME_LIMIT: Duration = Duration::from_secs(3600);
/// After this time without records, the client gets a message, so that it waits on.
const SILENCE_LIMIT: Duration = Duration::from_secs(5);
/// Data between two messages of progress.
const PROGRESS_BYTES: u64 = 16 << 20;
/// Records in one message.
const MESSAGE_BYTES: usize = 1 << 20;
/// Pieces of data, and messages, that wait for the other side.
const QUEUE_LEN: usize = 2;

type Event = S3Result<SelectObjectContentEvent>;

impl Gateway {
    pub(super) async fn select(
        &self,
        request: S3Request<SelectObjectContentInput>,
    ) -> S3Result<S3Response<SelectObjectContentOutput>> {
        let input = &request.input;
        refuse_algorithm(&request)?;
        let bucket = (input.bucket.as_str(), &input.expected_bucket_owner);
        let (access, object, _) = self.authorize_read(&request, bucket, (&input.key, None), false).await?;
        refuse_delete_marker(&object, false)?;
        let query = query(&input.request)?;
        let select = Select::new(&query).map_err(|failure| s3_failure(&failure))?;
        let with_progress =
            input.request.request_progress.as_ref().is_some_and(|progress| progress.enabled == Some(true));
        let encryption =
            self.open_object_key(&request, &access.bucket, &object, customer_headers!(input)).await?;
        let data_key = encryption.as_ref().map(Encryption::data_key);
        let data = ObjectData { sal: self.sal.as_ref(), bucket: &access.bucket, object: &object, data_key };
        let (stream, ran_at) = match self.select_in_store(&query, &data).await? {
            Some(answer) => (event_stream(&answer, with_progress)?, RanAt::Store),
            None => {
                let account = access.sender.caller.account().unwrap_or_default();
                (self.select_here(select, account, &data, with_progress).await?, RanAt::Gateway)
            }
        };
        self.metrics.method(ran_at);
        let metrics = Arc::clone(&self.metrics);
        let counted = stream.inspect_ok(move |event| {
            if let SelectObjectContentEvent::Records(records) = event {
                let sent_bytes = records.payload.as_ref().map_or(0, Bytes::len);
                metrics.sent_bytes.fetch_add(sent_bytes as u64, Relaxed);
            }
        });
        let payload = Some(SelectObjectContentEventStream::new(counted));
        let mut response = S3Response::new(SelectObjectContentOutput { payload });
        response.headers.insert(exec::RAN_AT, HeaderValue::from_static(ran_at.label()));
        Ok(response)
    }

    /// The answer of the class; `None` if the gateway has to run the query.
    async fn select_in_store(&self, query: &Request, data: &ObjectData<'_>) -> S3Result<Option<Bytes>> {
        let Some(code) = &self.code else { return Ok(None) };
        let encoded = serde_json::to_vec(query).map_err(|error| {
            error::object(Error::internal("the query cannot be encoded").with_source(error))
        })?;
        let (class, method) = match query.input {
            Input::Parquet => ("table", "select"),
            _ => ("select", "run"),
        };
        match code.run_in_store(ClassCall::new(class, method, encoded), data).await {
            // The answer is larger than the class returns, or the query takes longer.
            Err(error) if error.kind() == ErrorKind::LimitExceeded => Ok(None),
            ran => ran.map_err(exec::failure),
        }
    }

    /// Starts a query in the gateway.
    async fn select_here(
        &self,
        select: Select,
        account: &str,
        data: &ObjectData<'_>,
        with_progress: bool,
    ) -> S3Result<EventStream> {
        let place = tokio::time::timeout(WAIT_LIMIT, self.queries.take(account)).await;
        let place = place
            .ok()
            .flatten()
            .ok_or_else(|| s3_error!(SlowDown, "too many queries run; repeat the request"))?;
        let part = select.part(data.object.size_bytes);
        let size_bytes = data.object.size_bytes;
        let header = match part.needs_header {
            true => Some(data.read_range(0..size_bytes.min(HEADER_BYTES_MAX)).await.map_err(error::object)?),
            false => None,
        };
        let range = part.read_from.min(size_bytes)..size_bytes;
        let (to_query, pieces_of_data) = channel(QUEUE_LEN);
        let mut ranges = None;
        if select.needs_rows() {
            let (to_reader, wanted) = channel(QUEUE_LEN);
            ranges = Some(to_reader);
            let sal = Arc::clone(&self.sal);
            tokio::spawn(read_ranges(
                sal,
                data.bucket.clone(),
                data.object.clone(),
                data.data_key.cloned(),
                wanted,
                to_query,
            ));
        } else if !range.is_empty() {
            let reader = data.sal.read(data.bucket, data.object, range, None, data.data_key).await;
            let mut pieces = Box::pin(pieces(reader.map_err(error::object)?));
            tokio::spawn(async move {
                while let Some(piece) = pieces.next().await {
                    let is_last = piece.is_err();
                    if to_query.send(piece).await.is_err() || is_last {
                        return;
                    }
                }
            });
        }
        let (to_client, events) = channel(QUEUE_LEN);
        let clock = Arc::clone(&self.environment.clock);
        tokio::task::spawn_blocking(move || {
            let _place = place;
            let since_ms = clock.monotonic_ms();
            let runtime = Handle::current();
            let mut host = InGateway {
                data: pieces_of_data,
                ranges,
                to_client,
                clock,
                since_ms,
                computed_ms: 0,
                ends_ms: since_ms + TIME_LIMIT.as_millis() as u64,
                runtime: runtime.clone(),
                progress_at: with_progress.then_some(PROGRESS_BYTES),
            };
            let last = host.run(&select, part, header.as_deref(), size_bytes);
            // A client that does not read its last messages holds no thread and no place.
            let to_client = host.to_client;
            runtime.spawn(async move {
                for event in last {
                    if to_client.send(event).await.is_err() {
                        return;
                    }
                }
            });
        });
        Ok(events_of(events))
    }
}

/// Reads the ranges that a query wants, until it ends.
async fn read_ranges(
    sal: Arc<dyn Sal>,
    bucket: Bucket,
    object: Object,
    data_key: Option<DataKey>,
    mut wanted: Receiver<Range<u64>>,
    to_query: Sender<Result<Bytes>>,
) {
    let data = ObjectData { sal: &*sal, bucket: &bucket, object: &object, data_key: data_key.as_ref() };
    while let Some(range) = wanted.recv().await {
        let len_bytes = range.end - range.start;
        let piece = match data.read_range(range).await {
            Ok(piece) if piece.len() as u64 != len_bytes => {
                Err(Error::corrupt("the object is shorter than its record says"))
            }
            read => read,
        };
        if to_query.send(piece).await.is_err() {
            return;
        }
    }
}

/// Places for queries in the gateway. Those of one account leave room for others.
pub(super) struct Places {
    all: Arc<Semaphore>,
    /// Only accounts that have a query, or wait for a place.
    of_accounts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Default for Places {
    fn default() -> Places {
        Places { all: Arc::new(Semaphore::new(QUERIES_MAX)), of_accounts: Mutex::default() }
    }
}

impl Places {
    /// Waits for a place of the account.
    async fn take(&self, account: &str) -> Option<[OwnedSemaphorePermit; 2]> {
        let of_account = {
            let mut accounts = self.of_accounts.lock();
            accounts.retain(|_, places| Arc::strong_count(places) > 1);
            let new = || Arc::new(Semaphore::new(QUERIES_OF_ACCOUNT_MAX));
            Arc::clone(accounts.entry(account.to_owned()).or_insert_with(new))
        };
        let of_account = of_account.acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some([of_account, of_all])
    }
}

type EventStream = std::pin::Pin<Box<dyn futures::Stream<Item = Event> + Send + Sync>>;

/// The messages of a running query. While it finds nothing, messages without records keep the
/// client waiting.
fn events_of(events: Receiver<Event>) -> EventStream {
    Box::pin(futures::stream::unfold(events, |mut events| async move {
        match tokio::time::timeout(SILENCE_LIMIT, events.recv()).await {
            Ok(event) => event.map(|event| (event, events)),
            Err(_) => Some((Ok(SelectObjectContentEvent::Cont(ContinuationEvent {})), events)),
        }
    }))
}

/// The messages for an answer of the class.
fn event_stream(answer: &Bytes, with_progress: bool) -> S3Result<EventStream> {
    let damaged = || error::object(Error::internal("an answer of the class select is damaged"));
    let (head, start) = decode_answer(answer).ok_or_else(damaged)?;
    let mut events: Vec<Event> = messages(answer.slice(start..)).map(Ok).collect();
    match head.failure {
        Some(failure) => events.push(Err(s3_failure(&failure))),
        None => events.extend(last_events(head.totals, with_progress).map(Ok)),
    }
    Ok(Box::pin(futures::stream::iter(events)))
}

/// Records in messages of a limited size.
fn messages(mut records: Bytes) -> impl Iterator<Item = SelectObjectContentEvent> {
    std::iter::from_fn(move || {
        let payload = records.split_to(records.len().min(MESSAGE_BYTES));
        (!payload.is_empty())
            .then(|| SelectObjectContentEvent::Records(RecordsEvent { payload: Some(payload) }))
    })
}

fn last_events(totals: Totals, with_progress: bool) -> impl Iterator<Item = SelectObjectContentEvent> {
    let details = Some(Stats {
        bytes_processed: count(totals.processed_bytes),
        bytes_returned: count(totals.returned_bytes),
        bytes_scanned: count(totals.scanned_bytes),
    });
    with_progress.then(|| progress(totals)).into_iter().chain([
        SelectObjectContentEvent::Stats(StatsEvent { details }),
        SelectObjectContentEvent::End(EndEvent {}),
    ])
}

fn progress(totals: Totals) -> SelectObjectContentEvent {
    let details = Some(Progress {
        bytes_processed: count(totals.processed_bytes),
        bytes_returned: count(totals.returned_bytes),
        bytes_scanned: count(totals.scanned_bytes),
    });
    SelectObjectContentEvent::Progress(ProgressEvent { details })
}

fn count(bytes: u64) -> Option<i64> {
    Some(i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// A query that runs in a thread of the gateway.
struct InGateway {
    data: Receiver<Result<Bytes>>,
    /// The ranges whose data come, for a query that does not read front to back.
    ranges: Option<Sender<Range<u64>>>,
    to_client: Sender<Event>,
    clock: Arc<dyn Clock>,
    /// When the query last began to compute.
    since_ms: u64,
    computed_ms: u64,
    /// When the query must end.
    ends_ms: u64,
    runtime: Handle,
    /// The amount of data after which the client gets the next message of progress.
    progress_at: Option<u64>,
}

impl InGateway {
    /// Runs the query. Returns the last messages.
    fn run(&mut self, select: &Select, part: Part, header: Option<&[u8]>, size_bytes: u64) -> Vec<Event> {
        let ran = match select.needs_rows() {
            true => benthic_parquet::rows::run(select, self, size_bytes),
            false => select.run(part, header, self),
        };
        let with_progress = self.progress_at.is_some();
        match ran {
            Ok(totals) => last_events(totals, with_progress).map(Ok).collect(),
            Err(Fault::Query(failure)) => vec![Err(s3_failure(&failure))],
            // The client has disconnected.
            Err(Fault::Host(_)) if self.to_client.is_closed() => Vec::new(),
            Err(Fault::Host(error)) if error.kind() == ErrorKind::LimitExceeded => {
                vec![Err(exec::failure(error))]
            }
            Err(Fault::Host(error)) => vec![Err(error::object(error))],
        }
    }

    /// Counts the time since the last wait as computing.
    fn count_computing(&mut self) {
        let now_ms = self.clock.monotonic_ms();
        self.computed_ms += now_ms.saturating_sub(self.since_ms);
        self.since_ms = now_ms;
    }

    /// Waits for the data or the client, until the query must end. This time does not count as
    /// computing.
    fn wait<T>(&mut self, wait: impl AsyncFnOnce(&mut InGateway) -> T) -> Result<T> {
        self.count_computing();
        let left = Duration::from_millis(self.ends_ms.saturating_sub(self.since_ms));
        let runtime = self.runtime.clone();
        let waited = runtime.block_on(async { tokio::time::timeout(left, wait(self)).await });
        self.since_ms = self.clock.monotonic_ms();
        waited.map_err(|_| over_time())
    }

    fn send(&mut self, event: SelectObjectContentEvent) -> Result<()> {
        let sent = self.wait(async |host| host.to_client.send(Ok(event)).await)?;
        sent.map_err(|_| Error::unavailable("the client has disconnected"))
    }
}

impl Host for InGateway {
    fn read(&mut self) -> Result<Bytes> {
        self.wait(async |host| host.data.recv().await)?.unwrap_or(Ok(Bytes::new()))
    }

    fn read_range(&mut self, range: Range<u64>) -> Result<Bytes> {
        let read = self.wait(async |host| {
            if let Some(ranges) = &host.ranges {
                ranges.send(range).await.ok()?;
            }
            host.data.recv().await
        });
        let ended = || Error::unavailable("the reader of the object has ended");
        read?.unwrap_or_else(|| Err(ended()))
    }

    fn write(&mut self, records: Vec<u8>) -> Result<()> {
        messages(records.into()).try_for_each(|event| self.send(event))
    }

    fn unix_ms(&self) -> u64 {
        self.clock.unix_ns() / 1_000_000
    }

    fn check(&mut self, totals: Totals) -> Result<()> {
        self.count_computing();
        if self.since_ms >= self.ends_ms {
            return Err(over_time());
        }
        if self.computed_ms > COMPUTE_LIMIT.as_millis() as u64 {
            let message = "the query computes for more than five minutes; split it with ScanRange";
            return Err(Error::limit_exceeded(message));
        }
        if self.to_client.is_closed() {
            return Err(Error::unavailable("the client has disconnected"));
        }
        if let Some(at) = self.progress_at
            && totals.scanned_bytes >= at
        {
            self.progress_at = Some(totals.scanned_bytes + PROGRESS_BYTES);
            self.send(progress(totals))?;
        }
        Ok(())
    }
}

fn over_time() -> Error {
    let message = "the query runs for more than an hour; read the answer faster, or split it with ScanRange";
    Error::limit_exceeded(message)
}

fn s3_failure(failure: &Failure) -> S3Error {
    s3_code(&failure.code, failure.message.clone())
}

/// An error with a code of S3 Select. All of them are the request's fault.
fn s3_code(code: &str, message: String) -> S3Error {
    let known = S3ErrorCode::from_bytes(code.as_bytes()).unwrap_or(S3ErrorCode::InvalidRequest);
    let mut error = S3Error::with_message(known, message);
    error.set_status_code(hyper::StatusCode::BAD_REQUEST);
    error
}

fn refuse<T>(code: &str, message: &str) -> S3Result<T> {
    Err(s3_code(code, message.to_owned()))
}

/// The request in the form of the class.
pub(super) fn query(request: &SelectObjectContentRequest) -> S3Result<Request> {
    if request.expression_type.as_str() != ExpressionType::SQL {
        return refuse("InvalidExpressionType", "the only ExpressionType is SQL");
    }
    let (input, compression) = input_of(&request.input_serialization)?;
    let range = match &request.scan_range {
        None => None,
        Some(range) => {
            let place = |place: Option<i64>| place.map(u64::try_from).transpose();
            match (place(range.start), place(range.end)) {
                (Ok(start), Ok(end)) => Some(ScanRange { start, end }),
                _ => return refuse("InvalidScanRange", "a scan range cannot be negative"),
            }
        }
    };
    Ok(Request {
        expression: request.expression.clone(),
        input,
        compression,
        output: output_of(&request.output_serialization)?,
        range,
    })
}

fn input_of(form: &InputSerialization) -> S3Result<(Input, Compression)> {
    let compression = match form.compression_type.as_ref().map(CompressionType::as_str) {
        None | Some(CompressionType::NONE) => Compression::None,
        Some(CompressionType::GZIP) => Compression::Gzip,
        Some(CompressionType::BZIP2) => Compression::Bzip2,
        Some(_) => {
            return refuse("InvalidCompressionFormat", "the CompressionType must be NONE, GZIP or BZIP2");
        }
    };
    let input = match (&form.csv, &form.json, &form.parquet) {
        (Some(csv), None, None) => Input::Csv(csv_input(csv)?),
        (None, Some(json), None) => match json.type_.as_ref().map(JSONType::as_str) {
            Some(JSONType::LINES) => Input::JsonLines,
            Some(JSONType::DOCUMENT) => Input::JsonDocument,
            _ => return refuse("InvalidJsonType", "the Type of JSON must be DOCUMENT or LINES"),
        },
        (None, None, Some(_)) => Input::Parquet,
        _ => {
            return refuse("InvalidDataSource", "InputSerialization must name one of CSV, JSON and Parquet");
        }
    };
    Ok((input, compression))
}

/// A parameter that was given, or its default.
fn set(to: &mut String, given: Option<&String>) {
    if let Some(given) = given {
        to.clone_from(given);
    }
}

fn csv_input(form: &CSVInput) -> S3Result<CsvInput> {
    let mut input = CsvInput {
        header: match form.file_header_info.as_ref().map(FileHeaderInfo::as_str) {
            None | Some(FileHeaderInfo::NONE) => Header::None,
            Some(FileHeaderInfo::USE) => Header::Use,
            Some(FileHeaderInfo::IGNORE) => Header::Ignore,
            Some(_) => return refuse("InvalidFileHeaderInfo", "FileHeaderInfo must be NONE, USE or IGNORE"),
        },
        quoted_record_delimiter: form.allow_quoted_record_delimiter == Some(true),
        ..CsvInput::default()
    };
    set(&mut input.record_delimiter, form.record_delimiter.as_ref());
    set(&mut input.field_delimiter, form.field_delimiter.as_ref());
    set(&mut input.quote, form.quote_character.as_ref());
    set(&mut input.escape, form.quote_escape_character.as_ref());
    set(&mut input.comment, form.comments.as_ref());
    Ok(input)
}

fn csv_output(form: &CSVOutput) -> S3Result<CsvOutput> {
    let mut output = CsvOutput {
        always_quotes: match form.quote_fields.as_ref().map(QuoteFields::as_str) {
            None | Some(QuoteFields::ASNEEDED) => false,
            Some(QuoteFields::ALWAYS) => true,
            Some(_) => return refuse("InvalidQuoteFields", "QuoteFields must be ALWAYS or ASNEEDED"),
        },
        ..CsvOutput::default()
    };
    set(&mut output.record_delimiter, form.record_delimiter.as_ref());
    set(&mut output.field_delimiter, form.field_delimiter.as_ref());
    set(&mut output.quote, form.quote_character.as_ref());
    set(&mut output.escape, form.quote_escape_character.as_ref());
    Ok(output)
}

fn output_of(form: &OutputSerialization) -> S3Result<Output> {
    match (&form.csv, &form.json) {
        (Some(csv), None) => Ok(Output::Csv(csv_output(csv)?)),
        (None, Some(json)) => {
            let mut delimiter = "\n".to_owned();
            set(&mut delimiter, json.record_delimiter.as_ref());
            Ok(Output::Json(delimiter))
        }
        _ => refuse("InvalidRequestParameter", "OutputSerialization must name one of CSV and JSON"),
    }
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
