//! TPC-H queries on the embedded engine, compared with plain DataFusion on the same Parquet bytes.

use crate::Args;
use crate::rows::{ours, plain};
use bench_harness::process::Child;
use bench_harness::report::{Aim, Section};
use bench_harness::{Outcome, pool};
use benthic_core::Store;
use benthic_core::pushdown::Pushdown;
use benthic_embedded::{EmbeddedStore, Options};
use benthic_sql::experiment::tpch;
use benthic_sql::session::{Settings, SqlSession};
use benthic_table::Snapshot;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use futures::TryStreamExt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const POOL: &str = "tpch";
const OBJECT_BYTES: u64 = 32 * 1024 * 1024;
const QUERIES: usize = 22;
/// Queries with a table row of their own.
const SINGLES: [usize; 2] = [1, 6];

pub async fn run(args: &Args) -> Outcome<Section> {
    let work = tempfile::Builder::new().prefix("benthic-bench-").tempdir()?;
    let store: Arc<dyn Store> = EmbeddedStore::open(&work.path().join("store"), true, Options::default())?;
    let context = SessionContext::new();
    context.sql("CREATE SCHEMA tpch").await?;
    let files = work.path().join("files");
    for (name, rows) in tpch::tables(args.scale) {
        eprintln!("    generating {name}");
        let snapshot = tpch::load(&pool(&*store, POOL).await?, name, rows, OBJECT_BYTES, |_| Ok(())).await?;
        let dir = files.join(name);
        export(&snapshot, &dir).await?;
        let path = dir.to_str().ok_or("a path that is no text")?;
        context
            .register_parquet(format!("{POOL}.{name}").as_str(), path, ParquetReadOptions::default())
            .await?;
    }
    store.flush().await?;
    let settings = Settings { pushdown: Pushdown::Never, ..Settings::default() };
    let session = SqlSession::new(store, settings);
    let mut others = args.python.as_deref().map(|python| start_duckdb_polars(python, &files)).transpose()?;

    let queries: Vec<String> = (1..=QUERIES)
        .map(|number| {
            fs::read_to_string(format!("{}/tests/tpch/q{number:02}.sql", env!("CARGO_MANIFEST_DIR")))
        })
        .collect::<Result<_, _>>()?;
    let mut section = Section {
        title: "TPC-H, embedded, against plain DataFusion",
        note: format!(
            "Ours: tables in a store of this machine, objects of {} MiB, read through the engine, which checks every byte. \
             Plain: DataFusion of the same version with its defaults, over files with the same bytes as the objects. Both keep \
             their sessions over all rounds, and have as many partitions as there are cores. DuckDB and Polars read the same \
             files with their defaults.",
            OBJECT_BYTES >> 20,
        ),
        rows: Vec::new(),
    };
    let aim = Aim::AtMostOfReference(1.15);
    for round in 0..=args.rounds {
        eprintln!("    round {round} of {}, the first warms up", args.rounds);
        let mut sums = [0.0; 3];
        for (number, sql) in (1..).zip(&queries) {
            let (ours_s, our_rows) = ours(&session, sql).await?;
            let (plain_s, plain_rows) = plain(&context, sql).await?;
            if our_rows != plain_rows {
                return Err(
                    format!("q{number}: {our_rows} rows, and {plain_rows} of plain DataFusion").into()
                );
            }
            let duckdb_s = others.as_mut().map(|others| run_query(others, "duckdb", number)).transpose()?;
            sums = [sums[0] + ours_s, sums[1] + plain_s, sums[2] + duckdb_s.unwrap_or_default()];
            if round == 0 || !SINGLES.contains(&number) {
                continue;
            }
            let polars_s = others.as_mut().map(|others| run_query(others, "polars", number)).transpose()?;
            section.push(format!("Q{number}, against DataFusion"), "s", aim, [ours_s], [plain_s]);
            for (other, other_s) in [("DuckDB", duckdb_s), ("Polars", polars_s)] {
                if let Some(other_s) = other_s {
                    section.push(format!("Q{number}, against {other}"), "s", Aim::None, [ours_s], [other_s]);
                }
            }
        }
        if round > 0 {
            section.push("all 22, against DataFusion", "s", aim, [sums[0]], [sums[1]]);
            if others.is_some() {
                section.push("all 22, against DuckDB", "s", Aim::None, [sums[0]], [sums[2]]);
            }
        }
    }
    Ok(section)
}

/// Starts a Python process with DuckDB and Polars. `files` holds a directory of Parquet files for
/// each table.
fn start_duckdb_polars(python: &Path, files: &Path) -> Outcome<Child> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut command = Command::new(python);
    command.arg(format!("{root}/bench/table/duckdb_polars.py")).arg(files);
    Child::start(command.arg(format!("{root}/crates/benthic-sql/tests/tpch")))
}

/// Runs a query in the engine `name` of that process. Returns the seconds that it took.
fn run_query(others: &mut Child, name: &str, number: usize) -> Outcome<f64> {
    others.send(&format!("{name} {number}"))?;
    let answer = others.next_line()?;
    answer.trim().parse().map_err(|_| format!("{name} failed in q{number}: {answer:?}").into())
}

/// Writes the objects of a snapshot to files.
async fn export(snapshot: &Snapshot, dir: &Path) -> Outcome {
    fs::create_dir_all(dir)?;
    let mut entries = snapshot.entries();
    while let Some(entry) = entries.try_next().await? {
        let object = entry.object.object_id(snapshot.table().id())?;
        let data = snapshot.table().pool().read_range(&object, 0, entry.bytes).await?;
        fs::write(dir.join(object.name().replace('/', "-")), data)?;
    }
    Ok(())
}
