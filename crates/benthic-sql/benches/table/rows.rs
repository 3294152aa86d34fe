//! Queries to their last rows.

use bench_report::Outcome;
use bench_report::stats::seconds;
use benthic_sql::session::SqlSession;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use std::time::Instant;

/// Seconds and rows of a query of ours.
pub async fn ours(session: &SqlSession, sql: &str) -> Outcome<(f64, usize)> {
    let started_at = Instant::now();
    let rows = count(session.query(sql).await?).await?;
    Ok((seconds(started_at), rows))
}

/// Seconds and rows of a query of plain DataFusion.
pub async fn plain(context: &SessionContext, sql: &str) -> Outcome<(f64, usize)> {
    let started_at = Instant::now();
    let rows = count(context.sql(sql).await?.execute_stream().await?).await?;
    Ok((seconds(started_at), rows))
}

async fn count(rows: SendableRecordBatchStream) -> Outcome<usize> {
    Ok(rows.try_fold(0, async |count, batch| Ok(count + batch.num_rows())).await?)
}
