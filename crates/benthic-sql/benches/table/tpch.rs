//! The queries of TPC-H on the embedded engine, against plain DataFusion on the same Parquet bytes.

use crate::Args;
use crate::cluster::pool;
use crate::others::Others;
use crate::rows::{ours, plain};
use bench_report::Outcome;
use bench_report::sections::{Aim, Row, Section};
use benthic_core::Store;
use benthic_embedded::{EmbeddedStore, Options};
use benthic_sql::choice::Pushdown;
use benthic_sql::experiment::tpch;
use benthic_sql::session::{Settings, SqlSession};
use benthic_table::Snapshot;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use futures::TryStreamExt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const POOL: &str = "tpch";
const OBJECT_BYTES: u64 = 32 * 1024 * 1024;
const QUERIES: usize = 22;

pub async fn run(args: &Args) -> Outcome<Section> {
    let work = tempfile::Builder::new().prefix("benthic-bench-").tempdir()?;
    let store: Arc<dyn Store> = EmbeddedStore::open(&work.path().join("store"), true, Options::default())?;
    let context = SessionContext::new();
    context.sql("CREATE SCHEMA tpch").await?;
    let files = work.path().join("files");
    for (name, rows) in tpch::tables(args.scale) {
        eprintln!("    generating {name}");
        let snapshot = tpch::load(&pool(&store, POOL).await?, name, rows, OBJECT_BYTES, |_| Ok(())).await?;
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
    let mut others = args.python.as_deref().map(|python| Others::start(python, &files)).transpose()?;

    let queries: Vec<String> = (1..=QUERIES)
        .map(|number| {
            fs::read_to_string(format!("{}/tests/tpch/q{number:02}.sql", env!("CARGO_MANIFEST_DIR")))
        })
        .collect::<Result<_, _>>()?;
    let mut times = Times::default();
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
            let duckdb_s = others.as_mut().map(|others| others.run("duckdb", number)).transpose()?;
            sums = [sums[0] + ours_s, sums[1] + plain_s, sums[2] + duckdb_s.unwrap_or_default()];
            if round == 0 {
                continue;
            }
            if let Some(single) = times.singles.iter_mut().find(|single| single.number == number) {
                single.ours.push(ours_s);
                single.plain.push(plain_s);
                single.duckdb.extend(duckdb_s);
                single.polars.extend(others.as_mut().map(|others| others.run("polars", number)).transpose()?);
            }
        }
        if round > 0 {
            times.ours.push(sums[0]);
            times.plain.push(sums[1]);
            times.duckdb.extend(others.is_some().then_some(sums[2]));
        }
    }
    Ok(Section {
        title: "TPC-H, embedded, against plain DataFusion",
        note: format!(
            "Ours: tables in a store of this machine, objects of {} MiB, read through the engine, which checks every byte. \
             Plain: DataFusion of the same version with its defaults, over files with the same bytes as the objects. Both keep \
             their sessions over all rounds, and have as many partitions as there are cores. DuckDB and Polars read the same \
             files with their defaults.",
            OBJECT_BYTES >> 20,
        ),
        rows: times.rows(),
    })
}

/// Writes the objects of a snapshot as files.
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

/// One query, round by round.
struct Single {
    number: usize,
    ours: Vec<f64>,
    plain: Vec<f64>,
    duckdb: Vec<f64>,
    polars: Vec<f64>,
}

struct Times {
    singles: [Single; 2],
    ours: Vec<f64>,
    plain: Vec<f64>,
    duckdb: Vec<f64>,
}

impl Default for Times {
    fn default() -> Times {
        let single = |number| Single {
            number,
            ours: Vec::new(),
            plain: Vec::new(),
            duckdb: Vec::new(),
            polars: Vec::new(),
        };
        Times { singles: [single(1), single(6)], ours: Vec::new(), plain: Vec::new(), duckdb: Vec::new() }
    }
}

impl Times {
    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let aim = Aim::AtMostOfReference(1.15);
        for single in &self.singles {
            let name = format!("Q{}", single.number);
            rows.push(Row::compared(
                format!("{name}, against DataFusion"),
                "s",
                &single.ours,
                &single.plain,
                aim,
            ));
            for (other, times) in [("DuckDB", &single.duckdb), ("Polars", &single.polars)] {
                if !times.is_empty() {
                    rows.push(Row::compared(
                        format!("{name}, against {other}"),
                        "s",
                        &single.ours,
                        times,
                        Aim::None,
                    ));
                }
            }
        }
        rows.push(Row::compared("all 22, against DataFusion", "s", &self.ours, &self.plain, aim));
        if !self.duckdb.is_empty() {
            rows.push(Row::compared("all 22, against DuckDB", "s", &self.ours, &self.duckdb, Aim::None));
        }
        rows
    }
}
