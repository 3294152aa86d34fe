//! Runs the files of `tests/slt`.
//!
//! The types of a query's columns are `I` (integers), `R` (decimals and floating-point numbers),
//! `B` (booleans), `D` (dates and times) and `T` (all others). A null is written as `NULL`, an
//! empty text as `(empty)`.

pub mod tables;

use crate::fixtures::{answer, session};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use benthic_core::{Error, Store};
use benthic_sql::session::{Settings, SqlSession};
use sqllogictest::{AsyncDB, ColumnType, DBOutput, Runner, strict_column_validator};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The type of a column, as the files write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Real,
    Boolean,
    Time,
    Other,
}

const KINDS: [(char, Kind); 5] =
    [('I', Kind::Integer), ('R', Kind::Real), ('B', Kind::Boolean), ('D', Kind::Time), ('T', Kind::Other)];

impl ColumnType for Kind {
    fn from_char(value: char) -> Option<Kind> {
        KINDS.iter().find(|(char, _)| *char == value).map(|(_, kind)| kind.clone())
    }

    fn to_char(&self) -> char {
        KINDS.iter().find(|(_, kind)| kind == self).unwrap().0
    }
}

impl Kind {
    fn of(data_type: &DataType) -> Kind {
        match data_type {
            integer if integer.is_integer() => Kind::Integer,
            real if real.is_numeric() => Kind::Real,
            DataType::Boolean => Kind::Boolean,
            time if time.is_temporal() => Kind::Time,
            _ => Kind::Other,
        }
    }
}

struct Database(SqlSession);

#[async_trait::async_trait]
impl AsyncDB for Database {
    type Error = Error;
    type ColumnType = Kind;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<Kind>, Error> {
        let (schema, batches) = answer(&self.0, sql).await?;
        Ok(DBOutput::Rows { types: kinds(&schema), rows: batches.iter().flat_map(texts).collect() })
    }

    async fn shutdown(&mut self) {}
}

fn kinds(schema: &Schema) -> Vec<Kind> {
    schema.fields().iter().map(|field| Kind::of(field.data_type())).collect()
}

fn texts(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<ArrayFormatter<'_>> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let text = |column: &ArrayFormatter<'_>, row: usize| match column.value(row).to_string() {
        text if text.is_empty() => "(empty)".to_owned(),
        text => text,
    };
    (0..batch.num_rows()).map(|row| columns.iter().map(|column| text(column, row)).collect()).collect()
}

fn files(dir: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(dir);
    let mut files: Vec<PathBuf> = dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Creates the tables in a store, and runs all files of a directory in each of these ways.
pub async fn files_hold(store: &Arc<dyn Store>, dir: &str, ways: &[(&str, Settings)]) {
    tables::load(store).await;
    let mut failed = Vec::new();
    for (way, settings) in ways {
        for file in files(dir) {
            let mut runner = Runner::new(|| async { Ok(Database(session(store, settings.clone()))) });
            runner.with_column_validator(strict_column_validator);
            if let Err(error) = runner.run_file_async(&file).await {
                failed.push(format!("{way}: {}", error.display(false)));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
