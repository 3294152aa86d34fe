//! `benthic table demo`: the table experiment.

mod report;

use super::{count, line};
use benthic_core::{ClassHost, Environment, Error, ErrorKind, ObjectId, Pool, Result, WriteOp, names};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::local::NewFile;
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::units;
use benthic_sql::experiment::{self, QueryRuns, tpch};
use benthic_table::{Snapshot, SnapshotSelector, Table, drop_table};
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;

/// Target size of the tables' objects, equal to the default.
const OBJECT_BYTES: u64 = 32 * 1024 * 1024;

/// Arguments of `benthic table demo`.
#[derive(Args)]
#[command(after_help = "\
Queries that select from 0.001% to all rows of the table lineitem, and two aggregations, run in three modes: beside the \
objects that accept them, in the client (\"here\"), and in the faster place, measured during the query (\"auto\"). All \
modes must return the same rows. Without a cluster, all queries run in the client.

The command generates the tables of TPC-H into a pool of their own and keeps them: list them with `benthic table ls`, \
remove the pool with `benthic pool rm`. The next run with the same scale uses them again.

Examples:
  benthic table demo
  benthic --store ceph: table demo --scale 1 --rounds 7 --report tables.html")]
pub struct DemoArgs {
    /// Amount of data: 1 is about a gigabyte of text, with 6 million rows in lineitem
    #[arg(long, value_name = "NUMBER", default_value = "0.1", value_parser = parse_scale)]
    scale: f64,
    /// Number of runs of each query in each mode
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// The pool; by default benthic-tpch-SCALE
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// File to write the report to
    #[arg(long, value_name = "FILE", default_value = "benthic-tables.html")]
    report: PathBuf,
}

fn parse_scale(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(scale) if (0.001..=tpch::SCALE_MAX).contains(&scale) => Ok(scale),
        _ => Err(format!("a scale is a number from 0.001 to {}", tpch::SCALE_MAX)),
    }
}

struct Findings {
    store: String,
    is_ceph: bool,
    pool: String,
    scale: f64,
    lineitem: Snapshot,
    measured: Vec<QueryRuns>,
}

pub async fn run(args: DemoArgs, session: &Session) -> Outcome {
    let pool_name = args.pool.unwrap_or_else(|| format!("benthic-tpch-{}", args.scale));
    names::check_pool_name(&pool_name)?;
    let report_path = args.report;
    // Check this first, so that a bad path fails before minutes of work.
    let report_path = blocking(move || NewFile::create(&report_path).map(|_| report_path)).await?;
    let pool = session.pool_or_create(&pool_name, true).await?;
    claim_pool(&pool, args.scale).await?;
    let lineitem = tables(session, &pool, args.scale).await?;

    let store = session.store().await?;
    let queries = experiment::queries(&pool_name, args.scale);
    let rounds = usize::from(args.rounds);
    let runs = (queries.len() * rounds * experiment::WAYS.len()) as u64;
    let progress = Progress::steps("running queries", runs);
    let measured = experiment::measure(&store, &queries, rounds, |query, _| {
        progress.advance(1);
        progress.set_message(&query.name);
        check_interrupt()
    });
    let measured = measured.await.map_err(interrupted_or)?;
    drop(progress);

    let findings = Findings {
        store: session.uri().to_owned(),
        is_ceph: store.class_host() == ClassHost::Cluster,
        pool: pool_name,
        scale: args.scale,
        lineitem,
        measured,
    };
    let page = report::page(&findings);
    let place = units::one_line_path(&report_path);
    blocking(move || NewFile::write_whole(&report_path, page.as_bytes())).await?;
    session.out.result(report::text(&findings), || report::json(&findings))?;
    session.out.note(format_args!("the report: {place}"))
}

/// Name of the object that marks a pool as the demo's. Its data are the scale.
const MARK: &str = "benthic-tpch";

/// Claims the pool for the demo at this scale, or checks the earlier claim. Incomplete tables in a
/// claimed pool will be dropped.
async fn claim_pool(pool: &Arc<dyn Pool>, scale: f64) -> Result<()> {
    let mark = ObjectId::new(MARK)?;
    let message = match pool.read_range(&mark, 0, 32).await {
        Ok(found) if found == scale.to_string().as_bytes() => return Ok(()),
        Ok(_) => "the pool has the demo's tables at another scale; give that scale, or another --pool",
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if Table::list(Arc::clone(pool)).await?.is_empty() {
                let op = WriteOp::new().create(true).write_full(scale.to_string());
                return pool.write(&mark, op).await.map(drop);
            }
            "the pool has tables that are not the demo's; name another with --pool"
        }
        Err(error) => return Err(error),
    };
    Err(Error::invalid_argument(message).with("pool", pool.name()).with("scale", scale))
}

/// Generates the missing TPC-H tables, and returns the largest table.
async fn tables(session: &Session, pool: &Arc<dyn Pool>, scale: f64) -> Outcome<Snapshot> {
    let mut last = None;
    for (name, rows) in tpch::tables(scale) {
        let snapshot = match find_loaded(pool, name).await? {
            Some(snapshot) => snapshot,
            None => {
                let progress = Progress::rows(&format!("generating {name}"));
                let loaded = tpch::load(pool, name, rows, OBJECT_BYTES, |rows| {
                    progress.advance(rows);
                    check_interrupt()
                });
                let snapshot = loaded.await.map_err(interrupted_or)?;
                drop(progress);
                let size = units::size(snapshot.data_bytes());
                let rows = count(snapshot.rows(), "row");
                session.out.note(format_args!("{}: {rows}, {size}", line(name)))?;
                snapshot
            }
        };
        last = Some(snapshot);
    }
    last.ok_or_else(|| Error::internal("TPC-H has no tables").into())
}

/// A table that an earlier run loaded completely. Drops the remains of an interrupted load.
async fn find_loaded(pool: &Arc<dyn Pool>, name: &str) -> Result<Option<Snapshot>> {
    let opened =
        Table::open_snapshot(Arc::clone(pool), name, SnapshotSelector::Current, Environment::default()).await;
    match opened {
        Ok(snapshot) if snapshot.rows() > 0 => Ok(Some(snapshot)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(_) => {
            drop_table(Arc::clone(pool), name, true, &Environment::default()).await?;
            Ok(None)
        }
    }
}

fn check_interrupt() -> Result<()> {
    if interrupt::is_set() { Err(Error::unavailable("interrupted")) } else { Ok(()) }
}

fn interrupted_or(error: Error) -> Failure {
    if interrupt::is_set() { Failure::Interrupted } else { error.into() }
}
