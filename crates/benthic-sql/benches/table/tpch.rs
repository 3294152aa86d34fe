//! TPC-H queries on the embedded engine, compared with plain DataFusion on the same Parquet bytes.

use crate::Args;
use crate::rows::{ours, plain};
use bench_harness::process::{Child, memory_mib};
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
use std::io::{self, BufRead};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const POOL: &str = "tpch";
const OBJECT_BYTES: u64 = 32 * 1024 * 1024;
const QUERIES: usize = 22;
/// Queries that are also compared with plain DataFusion and Polars one by one.
const SINGLES: [usize; 2] = [1, 6];
/// A query takes at most this share of DuckDB's time, and all queries together the second share.
const OF_DUCKDB: (f64, f64) = (2.0, 1.3);

pub async fn run(args: &Args) -> Outcome<Section> {
    let work = tempfile::Builder::new().prefix("benthic-bench-").tempdir()?;
    let place = work.path().join("store");
    let store: Arc<dyn Store> = EmbeddedStore::open(&place, true, Options::default())?;
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
    let session = session(store);
    let mut others = args.python.as_deref().map(|python| start_duckdb_polars(python, &files)).transpose()?;

    let queries: Vec<String> = (1..=QUERIES).map(query).collect::<Result<_, _>>()?;
    let mut section = Section {
        title: "TPC-H, embedded, against plain DataFusion",
        note: format!(
            "Ours: tables in a store of this machine, objects of {} MiB, read through the engine, which checks every byte. \
             Plain: DataFusion of the same version with its defaults, over files with the same bytes as the objects. Both keep \
             their sessions over all rounds, and have as many partitions as there are cores. DuckDB and Polars read the same \
             files with their defaults. Memory: the most that a new process has resident while it runs all 22 queries once.",
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
            if round == 0 {
                continue;
            }
            if let Some(duckdb_s) = duckdb_s {
                let aim = Aim::AtMostOfReference(OF_DUCKDB.0);
                section.push(format!("Q{number}, against DuckDB"), "s", aim, [ours_s], [duckdb_s]);
            }
            if !SINGLES.contains(&number) {
                continue;
            }
            let polars_s = others.as_mut().map(|others| run_query(others, "polars", number)).transpose()?;
            section.push(format!("Q{number}, against DataFusion"), "s", aim, [ours_s], [plain_s]);
            if let Some(polars_s) = polars_s {
                section.push(format!("Q{number}, against Polars"), "s", Aim::None, [ours_s], [polars_s]);
            }
        }
        if round > 0 {
            section.push("all 22, against DataFusion", "s", aim, [sums[0]], [sums[1]]);
            if others.is_some() {
                let aim = Aim::AtMostOfReference(OF_DUCKDB.1);
                section.push("all 22, against DuckDB", "s", aim, [sums[0]], [sums[2]]);
            }
        }
    }
    // The store has one owner at a time.
    drop((session, context, others));
    if let Some(python) = &args.python {
        let mut command = Command::new(std::env::current_exe()?);
        let ours_mib = peak_mib(Child::start(command.arg("--queries-of").arg(&place))?)?;
        let duckdb_mib = peak_mib(start_duckdb_polars(python, &files)?)?;
        let aim = Aim::AtMostOfReference(1.0);
        section.push("memory of all 22, against DuckDB", "MiB", aim, [ours_mib], [duckdb_mib]);
    }
    Ok(section)
}

fn session(store: Arc<dyn Store>) -> SqlSession {
    SqlSession::new(store, Settings { pushdown: Pushdown::Never, ..Settings::default() })
}

fn query(number: usize) -> io::Result<String> {
    fs::read_to_string(format!("{}/tests/tpch/q{number:02}.sql", env!("CARGO_MANIFEST_DIR")))
}

/// Answers lines as `duckdb_polars.py` does, with the tables of a store.
pub async fn answer(store: &Path) -> Outcome {
    let session = session(EmbeddedStore::open(store, false, Options::default())?);
    for line in io::stdin().lock().lines() {
        let line = line?;
        let number = line.split_whitespace().last().ok_or("a line without a query")?;
        println!("{}", ours(&session, &query(number.parse()?)?).await?.0);
    }
    Ok(())
}

/// The most memory that a process takes for all queries.
fn peak_mib(mut process: Child) -> Outcome<f64> {
    for number in 1..=QUERIES {
        run_query(&mut process, "duckdb", number)?;
    }
    memory_mib(process.id(), "VmHWM:")
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
