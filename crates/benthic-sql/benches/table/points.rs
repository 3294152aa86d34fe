//! Queries of single rows in a table of 1,000 objects and in one of 100,000.

use crate::Args;
use crate::rows::ours;
use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use bench_harness::cluster::Cluster;
use bench_harness::process::memory_mib;
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, median, pool, seconds, start};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Environment, Pool, Store};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_sql::session::{Settings, SqlSession};
use benthic_table::{Definition, Partitioning, SnapshotSelector, Table, WriterOptions};
use std::fs;
use std::ops::Range;
use std::sync::Arc;

const OBJECTS: u32 = 1_000;
const ROWS: i64 = 1_000_000;
const QUERIES: i64 = 100;
/// Appends to the table of many objects. Each has enough rows to reach nearly always all
/// partitions.
const APPENDS: i64 = 100;
const ROWS_OF_AN_APPEND: i64 = 10_000;
const POOL: &str = "points";

pub async fn run(args: &Args, near: &Cluster) -> Outcome<Section> {
    let rows = if args.quick { ROWS / 20 } else { ROWS };
    let work = tempfile::Builder::new().prefix("benthic-bench-").tempdir()?;
    let here: Arc<dyn Store> = EmbeddedStore::open(&work.path().join("store"), true, Options::default())?;
    let mut measured = Vec::new();
    for (what, store, pushdown, aim_ms) in [
        ("embedded", here, Pushdown::Never, 5.0),
        ("Ceph on this machine", near.connect().await?, Pushdown::Auto, 10.0),
    ] {
        append(&table(&pool(&*store, POOL).await?, "points").await?, 0..rows).await?;
        let session = SqlSession::new(store, Settings { pushdown, ..Settings::default() });
        let mut rounds_ms = Vec::new();
        for round in 0..=args.rounds {
            let mut times_ms = Vec::new();
            for query in 0..QUERIES {
                let id = (query * 7_919 + i64::try_from(round)? * 104_729) % rows;
                let sql = format!("SELECT * FROM {POOL}.points WHERE id = {id}");
                let (seconds, found) = ours(&session, &sql).await?;
                if found != 1 {
                    return Err(format!("{found} rows of one").into());
                }
                times_ms.push(seconds * 1_000.0);
            }
            if round > 0 {
                rounds_ms.push(median(times_ms));
            }
        }
        measured.push(Row::alone(format!("{what}, p50"), "ms", rounds_ms, Aim::AtMost(aim_ms)));
    }
    Ok(Section {
        title: "One row of a table of a thousand objects",
        note: format!(
            "`SELECT * … WHERE id = N` over {rows} rows in {OBJECTS} hash partitions, an object each: the partition tells the \
             object. In one session, {QUERIES} rows one after the other; each query reads the table's head and its list anew, \
             since it answers of the table as it is now."
        ),
        rows: measured,
    })
}

/// Opens a table of 100,000 objects, and prunes it to the objects of a few rows.
pub async fn many(args: &Args) -> Outcome<Section> {
    let work = tempfile::Builder::new().prefix("benthic-bench-").tempdir()?;
    let store: Arc<dyn Store> = EmbeddedStore::open(&work.path().join("store"), true, Options::default())?;
    let pool = pool(&*store, POOL).await?;
    let table = table(&pool, "many").await?;
    let appends = if args.quick { 3 } else { APPENDS };
    for start in (0..appends).map(|append| append * ROWS_OF_AN_APPEND) {
        append(&table, start..start + ROWS_OF_AN_APPEND).await?;
    }
    let objects = table.snapshot(SnapshotSelector::Current).await?.objects();
    let (rows, pid) = (appends * ROWS_OF_AN_APPEND, std::process::id());
    let (mut by_bounds_s, mut by_both_s, mut peaks_mib) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..i64::try_from(args.rounds)? {
        let id = (round * 104_729 + 17) % rows;
        let before_mib = memory_mib(pid, "VmRSS:")?;
        fs::write("/proc/self/clear_refs", "5")?;
        for (times_s, condition) in [
            (&mut by_bounds_s, format!("id BETWEEN {id} AND {}", id + 10)),
            (&mut by_both_s, format!("id = {id}")),
        ] {
            let session = SqlSession::new(Arc::clone(&store), Settings::default());
            let stopwatch = start();
            session.query(&format!("EXPLAIN SELECT * FROM {POOL}.many WHERE {condition}")).await?;
            times_s.push(seconds(stopwatch));
        }
        peaks_mib.push((memory_mib(pid, "VmHWM:")? - before_mib).max(0.0));
    }
    Ok(Section {
        title: "A table of very many objects",
        note: format!(
            "{objects} objects in {appends} appends, embedded. A query is planned up to the objects that it has to read; each \
             time the table is opened anew. By bounds: `id BETWEEN N AND N + 10`, which the bounds of one append leave, all its \
             partitions. By bounds and partition: `id = N`."
        ),
        rows: vec![
            Row::alone("opened and pruned by bounds", "s", by_bounds_s, Aim::AtMost(1.0)),
            Row::alone("opened and pruned by bounds and partition", "s", by_both_s, Aim::AtMost(1.0)),
            Row::alone("memory that it takes at most, above what is there", "MiB", peaks_mib, Aim::None),
        ],
    })
}

/// Creates an empty table with 1,000 partitions.
async fn table(pool: &Arc<dyn Pool>, name: &str) -> Outcome<Table> {
    let mut definition = Definition::new(&schema())?;
    let field = definition.schema.by_name("id")?.id;
    definition.partitioning = Partitioning::Hash { field, buckets: OBJECTS };
    Ok(Table::create(Arc::clone(pool), name, &definition, Environment::default()).await?)
}

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("value", DataType::Int64, false),
        Field::new("name", DataType::Utf8, false),
    ])
}

/// Appends rows with these ids in one commit.
async fn append(table: &Table, ids: Range<i64>) -> Outcome {
    let mut writer = table.writer(WriterOptions::default()).await?;
    for start in ids.clone().step_by(50_000) {
        let ids = start..ids.end.min(start + 50_000);
        let batch = RecordBatch::try_new(
            Arc::new(schema()),
            vec![
                Arc::new(Int64Array::from_iter_values(ids.clone())),
                Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id * 31 % 1_009))),
                Arc::new(StringArray::from_iter_values(ids.map(|id| format!("name {id}")))),
            ],
        )?;
        writer.write(&batch).await?;
    }
    writer.finish().await?;
    Ok(())
}
