//! Runs queries to their last row.

use bench_harness::{Outcome, seconds, start};
use benthic_sql::session::SqlSession;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;

/// Runs a query with Benthic; returns seconds and rows.
pub async fn ours(session: &SqlSession, sql: &str) -> Outcome<(f64, usize)> {
    let stopwatch = start();
    let rows = count(session.query(sql).await?).await?;
    Ok((seconds(stopwatch), rows))
}

/// Runs a query with plain DataFusion; returns seconds and rows.
pub async fn plain(context: &SessionContext, sql: &str) -> Outcome<(f64, usize)> {
    let stopwatch = start();
    let rows = count(context.sql(sql).await?.execute_stream().await?).await?;
    Ok((seconds(stopwatch), rows))
}

async fn count(rows: SendableRecordBatchStream) -> Outcome<usize> {
    Ok(rows.try_fold(0, async |count, batch| Ok(count + batch.num_rows())).await?)
}
