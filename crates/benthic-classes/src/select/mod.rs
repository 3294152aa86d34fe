//! S3 Select: a query on one object of CSV or JSON, or on rows of another form ([`Rows`]), in S3's
//! subset of SQL.
//!
//! The class and the S3 gateway use the same code ([`Select`]): the class beside an object, the
//! gateway for objects in several pieces, for encrypted objects, and where no code runs. It reads
//! the data once, front to back, and holds one record.
//!
//! Queries and data may be hostile. So everything has a limit: the expression (256 KiB, 64 levels),
//! a record (1 MiB), a value, the aggregates; and work is counted ([`Work`]), so that the deadline
//! is checked within a record, too. The class returns at most [`ANSWER_BYTES_MAX`]: a larger answer
//! saves no transfer, so the gateway runs that query.

mod csv;
mod decimal;
mod eval;
mod failure;
#[cfg(test)]
mod hostile_tests;
mod json;
mod lexer;
mod like;
#[cfg(test)]
mod oracle_tests;
mod parse;
mod query;
mod rows;
mod run;
#[cfg(test)]
mod tests;
mod timestamp;
mod value;
pub mod wire;
mod write;

pub use failure::{Failure, Fault};
pub use parse::EXPRESSION_BYTES_MAX;
pub use rows::{Cell, CellTime, IntegerRange, Rows, check_cell};
pub use run::{HEADER_BYTES_MAX, Host, Part, Select};

use crate::input::{check_len, json as parse_json};
use benthic_core::{Class, Error, Method, MethodContext, MethodFlags, MethodResult, Permits, Result};
use bytes::Bytes;
use std::cell;
use std::ops::Range;
use wire::{REQUEST_BYTES_MAX, Request, Totals, encode_answer};

/// Limit of a record of the data or of the answer, as on AWS.
pub const RECORD_BYTES_MAX: usize = 1024 * 1024;
/// Limit of the records that the class returns.
pub const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of one read of the class.
const READ_BYTES: u64 = 1024 * 1024;
/// Memory limit of a query itself: a record as text, as values, and the results of expressions on
/// it.
const MEMORY_BYTES: u64 = 128 * 1024 * 1024;
/// Units of work between two checks of the deadline: about a millisecond.
const WORK_UNITS: u64 = 256 * 1024;

/// Counts work, and checks after a limited amount of it whether there is time for more. Knows the
/// time.
struct Work<'a> {
    units: cell::Cell<u64>,
    /// The time at which the query began, in milliseconds since 1970 (UTC).
    unix_ms: u64,
    check: &'a dyn Fn() -> std::result::Result<(), Fault>,
}

impl Work<'_> {
    fn tick(&self, units: usize) -> std::result::Result<(), Fault> {
        let units = self.units.get() + units as u64;
        self.units.set(units % WORK_UNITS);
        if units < WORK_UNITS { Ok(()) } else { (self.check)() }
    }
}

/// The class `select`.
pub struct SelectClass;

impl Class for SelectClass {
    fn name(&self) -> &'static str {
        "select"
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "S3 Select: SQL on one object of CSV or JSON"
    }

    fn methods(&self) -> &'static [Method] {
        &METHODS
    }
}

static METHODS: [Method; 1] = [Method {
    name: "run",
    flags: MethodFlags::READ,
    run,
    result: MethodResult::Output,
    summary: "returns the records that a query selects",
    input: "JSON with expression, input (csv, json_lines or json_document), compression and output (csv or json)",
    output: "JSON in one line, with what was read and why the query ended early; then the records, at most 4 MiB",
    examples: &[
        r#"{"expression":"SELECT s._1 FROM S3Object s WHERE s._2 > 3","input":{"csv":{}},"output":{"csv":{}}}"#,
        r#"{"expression":"SELECT COUNT(*) FROM S3Object s","input":"json_lines","output":{"json":"\n"}}"#,
    ],
}];

static PERMITS: Permits = Permits::new();

fn run(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    run_beside(context, input, MEMORY_BYTES, |select, host| {
        let part = select.part(host.size_bytes);
        host.at = part.read_from;
        let header = if part.needs_header { Some(host.context.read(0, HEADER_BYTES_MAX)?) } else { None };
        select.run(part, header.as_deref(), host)
    })
}

/// Runs a query as a method of a class: `query` reads the object, which takes so much memory. The
/// input and the output are those of the class `select`.
///
/// # Errors
/// `InvalidArgument` for an input of another form; `LimitExceeded` for a query that the gateway
/// runs itself: a larger answer, more time, more queries than run here at once.
pub fn run_beside(
    context: &mut MethodContext<'_>,
    input: &[u8],
    memory_bytes: u64,
    query: impl FnOnce(&Select, &mut Beside<'_, '_>) -> std::result::Result<Totals, Fault>,
) -> Result<Vec<u8>> {
    check_len("the input", input.len(), REQUEST_BYTES_MAX)?;
    let expected = "the input must be JSON with expression, input and output; see `benthic class ls`";
    let request: Request = parse_json(input, expected)?;
    // The gateway runs a query itself that exceeds a limit here.
    let busy = || Error::limit_exceeded("the process already runs its maximum of queries");
    let _permit = PERMITS.try_acquire().ok_or_else(busy)?;
    context.charge_memory(memory_bytes)?;
    let size_bytes = context.stat()?.size_bytes;
    let mut host = Beside { context, at: 0, size_bytes, records: Vec::new(), totals: Totals::default() };
    let ran = Select::new(&request).map_err(Fault::Query).and_then(|select| query(&select, &mut host));
    let failure = match ran {
        Ok(all) => {
            host.totals = all;
            None
        }
        Err(Fault::Query(failure)) => Some(failure),
        Err(Fault::Host(error)) => return Err(error),
    };
    host.totals.returned_bytes = host.records.len() as u64;
    encode_answer(host.totals, failure, &host.records)
}

/// The host of a query in a method of a class.
pub struct Beside<'a, 'b> {
    context: &'a mut MethodContext<'b>,
    at: u64,
    size_bytes: u64,
    records: Vec<u8>,
    totals: Totals,
}

impl Beside<'_, '_> {
    /// The size of the object.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
}

impl Host for Beside<'_, '_> {
    fn read(&mut self) -> Result<Bytes> {
        if self.at >= self.size_bytes {
            return Ok(Bytes::new());
        }
        let piece = self.context.read(self.at, READ_BYTES)?;
        self.at += piece.len() as u64;
        Ok(piece)
    }

    fn read_range(&mut self, range: Range<u64>) -> Result<Bytes> {
        let len_bytes = range.end - range.start;
        let data = self.context.read(range.start, len_bytes)?;
        if data.len() as u64 == len_bytes {
            return Ok(data);
        }
        Err(Error::corrupt("the object is shorter than it was"))
    }

    fn write(&mut self, records: Vec<u8>) -> Result<()> {
        check_len("the answer", self.records.len() + records.len(), ANSWER_BYTES_MAX)?;
        self.records.extend_from_slice(&records);
        Ok(())
    }

    fn unix_ms(&self) -> u64 {
        self.context.unix_ms()
    }

    fn check(&mut self, totals: Totals) -> Result<()> {
        self.totals = totals;
        self.context.check_deadline()
    }
}
