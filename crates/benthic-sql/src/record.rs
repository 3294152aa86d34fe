//! Records what queries read, for tables that record access.
//!
//! A scan knows at planning time which columns it reads and which conditions it has ([`ScanAccess`]).
//! When the query has returned all rows, the metrics of its plan tell how many rows satisfied the
//! conditions and how many bytes were read. The sums go to the table's records
//! ([`Table::add_access`]). Only kinds of conditions are recorded, never values.
//!
//! A query whose rows are not all read, or that has a limit, is not recorded: its numbers say nothing
//! about its conditions. An error of recording is logged, and a recording that takes long is given up.

use crate::expr::Plan;
use crate::fragment_exec::FragmentExec;
use crate::plan::scan_of_objects;
use crate::scan::ObjectSource;
use benthic_fragment::fragment::rows_selected;
use benthic_fragment::text_search::is_search;
use benthic_table::ids::Id;
use benthic_table::{
    Access, AccessShape, AccessSums, ConditionKind, FileEntry, Snapshot, Table, TableSchema,
};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::ready;
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time limit of a write of records.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Writes by one query. Under load, each contains the records of several queries.
const WRITES_MAX: u32 = 3;

/// The records of a session that wait for their write, by table. One query at a time writes those of a
/// table, so that queries of one program do not compete.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<HashMap<Id, Pending>>>);

#[derive(Debug, Default)]
struct Pending {
    access: Access,
    is_written: bool,
}

impl Recorder {
    async fn add(&self, table: &Table, access: &Access) {
        {
            let mut all = self.0.lock();
            let pending = all.entry(table.id()).or_default();
            pending.access.merge(access, 0);
            if std::mem::replace(&mut pending.is_written, true) {
                return;
            }
        }
        // Also if this future is dropped.
        let _done = Writing(self, table.id());
        for _ in 0..WRITES_MAX {
            let access =
                self.0.lock().get_mut(&table.id()).map(|pending| std::mem::take(&mut pending.access));
            let Some(access) = access.filter(|access| !access.shapes.is_empty()) else { break };
            match tokio::time::timeout(WRITE_TIMEOUT, table.add_access(&access)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::debug!(%error, "the access of a query is not recorded"),
                Err(_) => tracing::debug!("the access of a query is not recorded: the store is slow"),
            }
        }
    }
}

struct Writing<'a>(&'a Recorder, Id);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut all = self.0.0.lock();
        if let Some(pending) = all.get_mut(&self.1) {
            pending.is_written = false;
            if pending.access.shapes.is_empty() {
                all.remove(&self.1);
            }
        }
    }
}

/// What a scan of a table reads, as far as planning tells.
pub struct ScanAccess {
    snapshot: Snapshot,
    recorder: Recorder,
    shape: AccessShape,
    objects: u64,
    rows: u64,
}

impl fmt::Debug for ScanAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?}", self.snapshot.table().address(), self.shape)
    }
}

impl ScanAccess {
    /// What a scan of these columns and objects with these filters reads. `None` if the table does not
    /// record access.
    pub fn of(
        snapshot: &Snapshot,
        recorder: &Recorder,
        read: &[usize],
        filters: &[Expr],
        entries: &[FileEntry],
    ) -> Option<Arc<ScanAccess>> {
        if !snapshot.records_access() {
            return None;
        }
        let schema = snapshot.schema();
        let conditions = conditions(filters, schema);
        let read = read.iter().filter_map(|place| schema.columns().get(*place)).map(|column| column.id);
        let columns = read.chain(conditions.iter().map(|(id, _)| *id)).collect();
        Some(Arc::new(ScanAccess {
            snapshot: snapshot.clone(),
            recorder: recorder.clone(),
            shape: AccessShape { conditions, columns, indexes: BTreeSet::new() },
            objects: entries.len() as u64,
            rows: entries.iter().map(|entry| entry.rows).fold(0, u64::saturating_add),
        }))
    }
}

/// The kinds of the conditions, by column.
fn conditions(filters: &[Expr], schema: &TableSchema) -> BTreeSet<(u32, ConditionKind)> {
    let mut found = BTreeSet::new();
    for condition in filters.iter().flat_map(split_conjunction) {
        let kind = kind(condition);
        for column in condition.column_refs() {
            if let Ok(column) = schema.by_name(&column.name) {
                found.insert((column.id, kind));
            }
        }
    }
    found
}

/// The kind of a condition.
fn kind(condition: &Expr) -> ConditionKind {
    let is_value = |expr: &Expr| expr.column_refs().is_empty();
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (one, other) = (kind(left), kind(right));
            // An index answers alternatives of one column.
            match condition.column_refs().len() == 1 && one != ConditionKind::Words {
                true => one.max(other),
                false => ConditionKind::Other,
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if (is_column(left) && is_value(right)) || (is_value(left) && is_column(right)) =>
        {
            match op {
                Operator::Eq => ConditionKind::Equal,
                Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => ConditionKind::Range,
                _ => ConditionKind::Other,
            }
        }
        Expr::Between(between)
            if !between.negated
                && is_column(&between.expr)
                && is_value(&between.low)
                && is_value(&between.high) =>
        {
            ConditionKind::Range
        }
        Expr::InList(list) if !list.negated && is_column(&list.expr) && list.list.iter().all(is_value) => {
            ConditionKind::Equal
        }
        Expr::Like(like) if !like.negated && !like.case_insensitive && is_column(&like.expr) => {
            match &*like.pattern {
                Expr::Literal(pattern, _)
                    if pattern.try_as_str().flatten().is_some_and(|text| !text.starts_with(['%', '_'])) =>
                {
                    ConditionKind::Range
                }
                _ => ConditionKind::Other,
            }
        }
        Expr::IsNull(column) | Expr::Not(column) if is_column(column) => ConditionKind::Equal,
        Expr::Column(_) => ConditionKind::Equal,
        Expr::ScalarFunction(call) if is_search(call.name()) && call.args.first().is_some_and(is_column) => {
            ConditionKind::Words
        }
        _ => ConditionKind::Other,
    }
}

/// Whether an expression is a column, or a cast of one.
fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Cast(cast) => is_column(&cast.expr),
        _ => false,
    }
}

/// The rows of a plan. After the last one, records what the plan has read.
pub fn recorded(plan: Plan, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    if !has_access(&plan) {
        return rows;
    }
    let schema = rows.schema();
    let failed = Arc::new(AtomicBool::new(false));
    let has_failed = Arc::clone(&failed);
    let rows = rows.inspect_err(move |_| failed.store(true, Ordering::Relaxed));
    let record = stream::once(async move {
        if !has_failed.load(Ordering::Relaxed) {
            record(&plan).await;
        }
    });
    let rows = rows.chain(record.filter_map(|()| ready(None)));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// What a node reads of a table that records access, and the indexes that it looks up.
fn access_of(plan: &Plan) -> Option<(&Arc<ScanAccess>, BTreeSet<u32>)> {
    let (access, index) = match plan.downcast_ref::<FragmentExec>() {
        Some(exec) => (exec.fragment().access.as_ref(), exec.fragment().index.as_ref()),
        None => {
            let source = scan_of_objects(plan)?.file_source().downcast_ref::<ObjectSource>()?;
            (source.access.as_ref(), source.index.as_ref())
        }
    };
    let probes = index.and_then(|index| index.beside.as_ref().or(index.here.as_ref()));
    let indexes = probes.iter().flat_map(|probes| probes.probes()).map(|probe| probe.index).collect();
    Some((access?, indexes))
}

fn has_access(plan: &Plan) -> bool {
    access_of(plan).is_some() || plan.children().into_iter().any(has_access)
}

async fn record(plan: &Plan) {
    let mut found = Vec::new();
    collect(&mut vec![plan], &mut found);
    for (scan, access) in found {
        scan.recorder.add(scan.snapshot.table(), &access).await;
    }
}

/// The access of all scans below the last node of a path, which begins with the root.
fn collect(path: &mut Vec<&Plan>, found: &mut Vec<(Arc<ScanAccess>, Access)>) {
    let Some(plan) = path.last().copied() else { return };
    if let Some((scan, indexes)) = access_of(plan) {
        let metrics = plan.metrics().unwrap_or_default();
        let (selected, bytes_read) = match plan.downcast_ref::<FragmentExec>() {
            Some(exec) if exec.fragment().limit.is_some() => (None, 0),
            Some(_) => (
                sum(&metrics, "rows_selected"),
                sum(&metrics, "bytes_read_there").unwrap_or(0) + sum(&metrics, "bytes_moved").unwrap_or(0),
            ),
            None => (
                rows_selected(path),
                sum(&metrics, "bytes_scanned").unwrap_or(0) + sum(&metrics, "index_bytes").unwrap_or(0),
            ),
        };
        if let Some(rows_selected) = selected {
            let (objects, rows) = (scan.objects, scan.rows);
            let sums = AccessSums { queries: 1, objects, rows, rows_selected, bytes_read, last_ms: 0 };
            let mut access = Access::default();
            access.add(AccessShape { indexes, ..scan.shape.clone() }, &sums);
            found.push((Arc::clone(scan), access));
        }
    }
    for child in plan.children() {
        path.push(child);
        collect(path, found);
        path.pop();
    }
}

fn sum(metrics: &MetricsSet, name: &str) -> Option<u64> {
    metrics.sum_by_name(name).map(|value| value.as_usize() as u64)
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
