//! Single calls of a fragment, and the memory of the OSDs that run them.

use crate::Args;
use bench_harness::cluster::Cluster;
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, median, pool, seconds, start};
use benthic_core::{ClassCall, ObjectId, Pool, ReadOp};
use benthic_fragment::fragment::{Envelope, OBJECT_URL, Reply, Status, encode};
use benthic_sql::experiment::tpch;
use benthic_sql::objects::source;
use benthic_sql::reader::Readers;
use bytes::Bytes;
use datafusion::common::ScalarValue;
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use std::sync::Arc;

const POOL: &str = "calls";
const CALLS: usize = 300;
const AT_ONCE: usize = 8;

pub async fn run(args: &Args, near: &Cluster) -> Outcome<Section> {
    let store = near.connect().await?;
    let pool = pool(&*store, POOL).await?;
    let (_, rows) = tpch::tables(args.scale.min(0.1)).into_iter().last().ok_or("no lineitem")?;
    let schema = rows.schema();
    let snapshot = tpch::load(&pool, "lineitem", rows, 8 << 20, |_| Ok(())).await?;
    let entries: Vec<_> = snapshot.entries().try_collect().await?;
    let objects: Vec<ObjectId> = entries
        .iter()
        .map(|entry| entry.object.object_id(snapshot.table().id()))
        .collect::<Result<_, _>>()?;
    let object = objects.first().ok_or("no object")?;
    // No row matches a key below all others, so the footer alone answers.
    let nothing = envelope(&schema, "l_orderkey", Operator::Lt, ScalarValue::Int64(Some(0)))?;
    let some = envelope(&schema, "l_partkey", Operator::LtEq, ScalarValue::Int64(Some(200)))?;

    let before_mib = near.osd_mib()?;
    let stopwatch = start();
    call(&pool, object, &nothing).await?;
    let first_s = seconds(stopwatch);
    let (mut calls_ms, mut reads_ms) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        let (mut call_ms, mut read_ms) = (Vec::new(), Vec::new());
        for _ in 0..CALLS {
            let stopwatch = start();
            call(&pool, object, &nothing).await?;
            call_ms.push(seconds(stopwatch) * 1_000.0);
            let stopwatch = start();
            pool.read(object, ReadOp::new().read(0, 1)).await?;
            read_ms.push(seconds(stopwatch) * 1_000.0);
        }
        calls_ms.push(median(call_ms));
        reads_ms.push(median(read_ms));
    }
    let over_ms = calls_ms.iter().zip(&reads_ms).map(|(call, read)| call - read).collect();
    stream::iter(objects.iter().cycle().take(CALLS))
        .map(|object| call(&pool, object, &some))
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    let after_mib = near.osd_mib()?;
    Ok(Section {
        title: "Single calls of a fragment",
        note: format!(
            "On the cluster of this machine. A call that the footer answers, {CALLS} a round in turns with reads of 1 byte of \
             the same object, p50. The first call loads the library into the OSD and decodes the plan. Memory: resident, of \
             the OSDs on average, before the first call, and after these and {CALLS} scans of {} objects, {AT_ONCE} at once.",
            objects.len(),
        ),
        rows: vec![
            Row::compared("a call, against a read of 1 byte", "ms", &calls_ms, &reads_ms, Aim::None),
            Row::alone("a call, over the read", "ms", over_ms, Aim::AtMost(0.5)),
            Row::alone("the first call", "s", vec![first_s], Aim::AtMost(1.0)),
            Row::alone(
                "memory that an OSD takes more",
                "MiB",
                vec![after_mib - before_mib],
                Aim::AtMost(80.0),
            ),
        ],
    })
}

fn envelope(
    schema: &arrow::datatypes::SchemaRef,
    column: &str,
    is: Operator,
    value: ScalarValue,
) -> Outcome<Bytes> {
    let column = col(column, schema)?;
    let filter: Arc<dyn PhysicalExpr> = binary(column, is, lit(value), schema)?;
    let source =
        source(TableSchema::from(Arc::clone(schema)), Readers::default()).with_predicate(Arc::clone(&filter));
    let scan = FileScanConfigBuilder::new(ObjectStoreUrl::parse(OBJECT_URL)?, Arc::new(source)).build();
    let scan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(scan);
    let plan: Arc<dyn ExecutionPlan> = Arc::new(FilterExec::try_new(filter, scan)?);
    Ok(Envelope::new(encode(&plan)?).to_bytes())
}

/// Makes one call; the reply may be `busy`.
async fn call(pool: &Arc<dyn Pool>, object: &ObjectId, envelope: &Bytes) -> Outcome {
    let call = ClassCall { class: "table".to_owned(), method: "scan".to_owned(), input: envelope.clone() };
    let reply = Reply::decode(pool.exec(object, call).await?)?;
    match Status::try_from(reply.status) {
        Ok(Status::Ok | Status::Busy) => Ok(()),
        _ => Err(format!("the fragment did not run: {}", reply.message).into()),
    }
}
