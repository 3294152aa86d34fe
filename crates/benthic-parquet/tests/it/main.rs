//! Queries of S3 Select on Parquet: all types, random queries against an oracle, and hostile files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod class;
mod hostile;
mod random;
mod types;

use arrow_array::{ArrayRef, RecordBatch};
use benthic_classes::select::wire::{Compression, Input, Output, Request, Totals};
use benthic_classes::select::{Failure, Fault, Host, Select};
use benthic_core::{Error, ErrorKind, Result};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterPropertiesBuilder;
use std::ops::Range;

/// An object in memory, and the answer.
struct Memory {
    data: Bytes,
    answer: Vec<u8>,
    /// How often a query may check its time.
    checks_left: u64,
}

impl Host for Memory {
    fn read(&mut self) -> Result<Bytes> {
        panic!("Parquet is not read front to back")
    }

    fn read_range(&mut self, range: Range<u64>) -> Result<Bytes> {
        Ok(self.data.slice(range.start as usize..range.end as usize))
    }

    fn write(&mut self, records: Vec<u8>) -> Result<()> {
        self.answer.extend_from_slice(&records);
        Ok(())
    }

    fn unix_ms(&self) -> u64 {
        1_750_000_000_123
    }

    fn check(&mut self, _: Totals) -> Result<()> {
        let over = || Error::new(ErrorKind::LimitExceeded, "the time is over");
        self.checks_left = self.checks_left.checked_sub(1).ok_or_else(over)?;
        Ok(())
    }
}

fn request(expression: &str) -> Request {
    Request {
        expression: expression.to_owned(),
        input: Input::Parquet,
        compression: Compression::None,
        output: Output::Json("\n".to_owned()),
        range: None,
    }
}

/// Runs a query that has time for some checks.
fn run_for(query: &str, data: &Bytes, checks: u64) -> std::result::Result<(String, Totals), Fault> {
    let select = Select::new(&request(query))?;
    let mut host = Memory { data: data.clone(), answer: Vec::new(), checks_left: checks };
    let totals = benthic_parquet::rows::run(&select, &mut host, data.len() as u64)?;
    assert_eq!(totals.returned_bytes, host.answer.len() as u64);
    Ok((String::from_utf8(host.answer).unwrap(), totals))
}

/// The answer in lines of JSON.
fn run(query: &str, data: &Bytes) -> std::result::Result<String, Failure> {
    match run_for(query, data, u64::MAX) {
        Ok((answer, _)) => Ok(answer),
        Err(Fault::Query(failure)) => Err(failure),
        Err(Fault::Host(error)) => panic!("{error}"),
    }
}

fn code(query: &str, data: &Bytes) -> String {
    run(query, data).unwrap_err().code.into_owned()
}

fn file(batch: &RecordBatch, properties: WriterPropertiesBuilder) -> Bytes {
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap().into()
}

fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, values)| (name, values, true))).unwrap()
}
