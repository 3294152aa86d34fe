//! Local files in sessions.

use crate::files::{csv, parquet, trips};
use crate::fixtures::answer;
use crate::support::{metric, rows};
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use benthic_core::pushdown::Pushdown;
use benthic_core::{ErrorKind, Store};
use benthic_embedded::{MemStore, Options};
use benthic_sql::session::{Settings, SqlSession, reads_store};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn session(local_files: bool) -> SqlSession {
    let store: Arc<dyn Store> = MemStore::new(Options::default());
    // With this pushdown, everything that may run beside objects does.
    SqlSession::new(store, Settings { local_files, pushdown: Pushdown::Always, ..Settings::default() })
}

async fn rows_of(sql: &str) -> Vec<String> {
    rows(&answer(&session(true), sql).await.unwrap().1)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_session_that_allows_it_reads_local_files() {
    let dir = TempDir::new().unwrap();
    for (name, data) in [("a.csv", csv(&trips(0..3))), ("a.parquet", parquet(&trips(0..3)))] {
        let path = dir.path().join(name);
        std::fs::write(&path, data).unwrap();
        let sql = format!("SELECT count(*) FROM '{}'", path.display());
        let error = answer(&session(false), &sql).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().starts_with("this session reads no local files"), "{error}");
        assert_eq!(rows_of(&sql).await, ["3"]);
    }
}

#[test]
fn a_query_of_files_only_needs_no_store() {
    for (sql, expected) in [
        ("SELECT * FROM 'a.csv'", false),
        ("SELECT * FROM \"a.csv\"", false),
        ("DESCRIBE 'a.csv'", false),
        ("EXPLAIN ANALYZE SELECT 1 FROM 'a.csv' JOIN 'b.csv' USING (id)", false),
        ("WITH t AS (SELECT * FROM 'a.csv') SELECT * FROM t", false),
        ("SELECT 1", false),
        ("SELEC 1", false),
        ("SELECT * FROM trips", true),
        ("SELECT * FROM \"Trips\"", true),
        ("SELECT * FROM lake.trips", true),
        ("SELECT * FROM 'a.csv' WHERE id IN (SELECT id FROM lake.trips)", true),
        ("SHOW TABLES", true),
        ("SELECT * FROM information_schema.tables", true),
    ] {
        assert_eq!(reads_store(sql), expected, "{sql}");
    }
}

/// A file with 20 row groups of 1,000 rows. `id` grows, and `padding` is most of the file.
fn wide_file(path: &Path) -> u64 {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1_000)).build();
    let ids = Int64Array::from_iter_values(0..20_000);
    let padding = StringArray::from_iter_values(
        (0..20_000).map(|row: u64| format!("{:016x}", row.wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(8)),
    );
    let columns: [(&str, ArrayRef); 2] = [("id", Arc::new(ids)), ("padding", Arc::new(padding))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    std::fs::write(path, writer.into_inner().unwrap()).unwrap();
    path.metadata().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_files_are_read_in_parts() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("wide.parquet");
    let size_bytes = wide_file(&path);
    let table = format!("'{}'", path.display());
    let scanned = async |sql: &str| {
        let plan = rows_of(&format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
        assert!(!plan.contains("FragmentExec"), "a local file is pushed: {plan}");
        metric(&plan, "bytes_scanned")
    };
    let whole = scanned(&format!("SELECT max(padding), max(id + 1) FROM {table}")).await;
    assert!(whole > size_bytes * 9 / 10, "{whole} of {size_bytes}");
    let columns = scanned(&format!("SELECT sum(id) FROM {table}")).await;
    assert!(columns < size_bytes / 10, "{columns} of {size_bytes}");
    let rows = format!("SELECT padding FROM {table} WHERE id = 4711");
    let groups = scanned(&rows).await;
    assert!(groups < size_bytes / 10, "{groups} of {size_bytes}");
    assert_eq!(rows_of(&rows).await.len(), 1);
    assert_eq!(rows_of(&format!("SELECT count(*), min(id), max(id) FROM {table}")).await, ["20000|0|19999"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_with_nan_are_kept() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.parquet");
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values([1.0, f64::NAN]));
    std::fs::write(&path, parquet(&RecordBatch::try_from_iter([("x", floats)]).unwrap())).unwrap();
    assert_eq!(rows_of(&format!("SELECT count(*) FROM '{}' WHERE x > 5", path.display())).await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_replaced_while_a_query_runs_is_no_mix() {
    use futures::TryStreamExt;
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.parquet");
    std::fs::write(&path, parquet(&trips(0..1_000))).unwrap();
    let sql = format!("SELECT * FROM '{}'", path.display());
    let session = session(true);
    let running = session.query(&sql).await.unwrap();
    std::fs::write(&path, parquet(&trips(0..1_001))).unwrap();
    let ended = running.try_collect::<Vec<_>>().await;
    let error = benthic_sql::errors::from_datafusion(&ended.unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("path="), "{error}");
}
