//! The table experiment: runs the same queries over TPC-H data pushed, pulled, and with the
//! automatic choice.

pub mod tpch;

use crate::errors::from_datafusion;
use crate::relations::quoted;
use crate::session::{Settings, SqlSession};
use crate::work::Work;
use benthic_core::pushdown::Pushdown;
use benthic_core::{Error, Result, Stopwatch, Store};
use datafusion::common::hash_utils::{RandomState, create_hashes};
use futures::TryStreamExt;
use std::sync::Arc;
use std::time::Duration;

/// The compared pushdown modes, in the order of all reports.
pub const WAYS: [Pushdown; 3] = [Pushdown::Always, Pushdown::Never, Pushdown::Auto];

/// Percentages of the rows that the queries select.
pub const PERCENTS: [f64; 5] = [0.001, 1.0, 10.0, 50.0, 100.0];

/// Number of parts at scale 1. The line items of a part are spread over the whole table.
const PARTS: f64 = 200_000.0;

/// A query of the experiment.
#[derive(Clone, Debug)]
pub struct Query {
    pub name: String,
    pub sql: String,
}

/// The queries: whole rows for increasing percentages of the table, then two aggregations.
pub fn queries(pool: &str, scale: f64) -> Vec<Query> {
    let table = format!("{}.lineitem", quoted(pool));
    let some = PERCENTS.iter().map(|percent| {
        let parts = (PARTS * scale * percent / 100.0).round().max(1.0);
        Query {
            name: format!("{percent}% of the rows"),
            sql: format!("SELECT * FROM {table} WHERE l_partkey <= {parts}"),
        }
    });
    let sums = [("Q1, sums of nearly all", Q1), ("Q6, a sum of 2%", Q6)];
    let sums = sums
        .iter()
        .map(|(name, sql)| Query { name: (*name).to_owned(), sql: sql.replace("lineitem", &table) });
    some.chain(sums).collect()
}

const Q1: &str = "SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price, \
    sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price, avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price, \
    avg(l_discount) AS avg_disc, count(*) AS count_order FROM lineitem WHERE l_shipdate <= date '1998-09-02' \
    GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus";
const Q6: &str = "SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem WHERE l_shipdate >= date '1994-01-01' \
    AND l_shipdate < date '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24";

/// One run of a query.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// From the SQL text to the last row, in a new session.
    pub time: Duration,
    /// Bytes transferred: data of objects, replies, and sent fragments.
    pub moved_bytes: u64,
    pub rows: u64,
}

/// A query and its runs, grouped in the order of [`WAYS`].
#[derive(Debug)]
pub struct QueryRuns {
    pub query: Query,
    pub runs: [Vec<Run>; WAYS.len()],
}

/// Runs every query in every mode, for several rounds. Calls `watch` before each run.
///
/// # Errors
/// `Internal` if two modes return different rows; errors of the queries.
pub async fn measure(
    store: &Arc<dyn Store>,
    queries: &[Query],
    rounds: usize,
    mut watch: impl FnMut(&Query, Pushdown) -> Result<()>,
) -> Result<Vec<QueryRuns>> {
    let mut measured: Vec<QueryRuns> =
        queries.iter().map(|query| QueryRuns { query: query.clone(), runs: Default::default() }).collect();
    for _ in 0..rounds {
        for QueryRuns { query, runs } in &mut measured {
            let mut before = None;
            for (way, runs) in WAYS.into_iter().zip(runs) {
                watch(query, way)?;
                let (run, seen) = run(store, &query.sql, way.in_store(&**store)).await?;
                if before.is_some_and(|before| before != seen) {
                    let message = "two pushdown modes returned different rows";
                    return Err(Error::internal(message).with("sql", &query.sql));
                }
                before = Some(seen);
                runs.push(run);
            }
        }
    }
    Ok(measured)
}

/// The compared properties of a result: the number of rows and the sum of their hashes.
type Fingerprint = (u64, u64);

async fn run(store: &Arc<dyn Store>, sql: &str, pushdown: Pushdown) -> Result<(Run, Fingerprint)> {
    let settings = Settings { pushdown, ..Settings::default() };
    let clock = Arc::clone(&settings.environment.clock);
    let watch = Stopwatch::start(clock.as_ref());
    let session = SqlSession::new(Arc::clone(store), settings);
    let work = Arc::new(Work::default());
    let mut batches = session.query_with_work(sql, &work).await?;
    let (mut seen, mut hashes): (Fingerprint, _) = ((0, 0), Vec::new());
    while let Some(batch) = batches.try_next().await.map_err(|error| from_datafusion(&error))? {
        seen.0 += batch.num_rows() as u64;
        hashes.clear();
        hashes.resize(batch.num_rows(), 0);
        let hashed = create_hashes(batch.columns(), &RandomState::with_seed(0), &mut hashes);
        let hashed = hashed.map_err(|error| from_datafusion(&error))?;
        seen.1 = hashed.iter().fold(seen.1, |sum, hash| sum.wrapping_add(*hash));
    }
    Ok((Run { time: watch.elapsed(), moved_bytes: work.moved_bytes(), rows: seen.0 }, seen))
}
