//! Records the access of queries, for tables that record it.
//!
//! A scan knows at planning time which columns it reads and which conditions it has
//! ([`ScanAccess`]). When the query has returned all rows, the metrics of its plan tell how many
//! rows satisfied the conditions and how many bytes were read. The sums go to the table's records
//! ([`Table::add_access`]). Only kinds of conditions are recorded, never values.
//!
//! If a limit or a dynamic filter takes part, the numbers say nothing about the conditions. Of such
//! a scan, only the columns and indexes are recorded. A query whose rows are not all read is not
//! recorded. An error of recording is logged, and a recording that takes long is given up.

use crate::common_subplan::CommonSubplanExec;
use crate::expr::{Plan, is_dynamic};
use crate::fragment_exec::FragmentExec;
use crate::plan::scan_of_objects;
use crate::probe::keeps_keys;
use crate::scan::ObjectSource;
use benthic_core::ErrorKind;
use benthic_fragment::fragment::{has_limit, rows_selected};
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
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time limit of the recording of a query.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Writes by one query. Under load, each contains the records of several queries.
const WRITES_MAX: u32 = 3;
/// Limit of the tables that a session does not record because it may not write their records.
const DENIED_MAX: usize = 1_000;

/// Whether and when queries of tables that record access are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recording {
    /// For programs that must not write.
    Off,
    /// The stream of a query's rows ends when the query is recorded.
    #[default]
    BeforeEnd,
    /// For servers: a task records the query after its last row, without the query's time limit.
    InBackground,
}

/// The records of a session that wait for their write, by table. One query at a time writes those
/// of a table, so that queries of one program do not compete.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    recording: Recording,
    waiting: Arc<Mutex<HashMap<Id, Pending>>>,
    denied: Arc<Mutex<HashSet<Id>>>,
}

#[derive(Debug, Default)]
struct Pending {
    access: Access,
    is_written: bool,
}

impl Recorder {
    /// The same records, written at another time.
    #[must_use]
    pub fn with_recording(&self, recording: Recording) -> Recorder {
        Recorder { recording, ..self.clone() }
    }

    async fn add(&self, table: &Table, access: &Access) {
        if self.denied.lock().contains(&table.id()) {
            return;
        }
        {
            let mut all = self.waiting.lock();
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
                self.waiting.lock().get_mut(&table.id()).map(|pending| std::mem::take(&mut pending.access));
            let Some(access) = access.filter(|access| !access.shapes.is_empty()) else { break };
            if let Err(error) = table.add_access(&access).await {
                tracing::debug!(%error, "the access of a query is not recorded");
                let mut denied = self.denied.lock();
                if error.kind() == ErrorKind::PermissionDenied && denied.len() < DENIED_MAX {
                    denied.insert(table.id());
                }
            }
        }
    }
}

struct Writing<'a>(&'a Recorder, Id);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut all = self.0.waiting.lock();
        if let Some(pending) = all.get_mut(&self.1) {
            pending.is_written = false;
            if pending.access.shapes.is_empty() {
                all.remove(&self.1);
            }
        }
    }
}

/// The access of a scan to a table, as far as planning tells.
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
    /// The access of a scan of these columns and objects with these filters. `None` if the table
    /// does not record access, or the session does not.
    pub fn of(
        snapshot: &Snapshot,
        recorder: &Recorder,
        read: &[usize],
        filters: &[Expr],
        entries: &[FileEntry],
    ) -> Option<Arc<ScanAccess>> {
        if !snapshot.records_access() || recorder.recording == Recording::Off {
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
pub fn conditions(filters: &[Expr], schema: &TableSchema) -> BTreeSet<(u32, ConditionKind)> {
    let mut found = BTreeSet::new();
    for condition in filters.iter().flat_map(split_conjunction) {
        let kind = kind(condition, schema);
        for column in condition.column_refs() {
            if let Ok(column) = schema.by_name(&column.name) {
                found.insert((column.id, kind));
            }
        }
    }
    found
}

/// The kind of a condition.
pub fn kind(condition: &Expr, schema: &TableSchema) -> ConditionKind {
    let is_column = |expr: &Expr| is_column(expr, schema);
    let is_value = |expr: &Expr| expr.column_refs().is_empty();
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (one, other) = (kind(left, schema), kind(right, schema));
            // An index of values answers alternatives of one column.
            let has_words = one == ConditionKind::Words || other == ConditionKind::Words;
            match condition.column_refs().len() == 1 && !has_words {
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

/// Whether an expression is a column, or a cast of one that an index answers.
fn is_column(expr: &Expr, schema: &TableSchema) -> bool {
    let Expr::Cast(cast) = expr else { return matches!(expr, Expr::Column(_)) };
    let Expr::Column(column) = &*cast.expr else { return false };
    schema.by_name(&column.name).is_ok_and(|column| keeps_keys(&column.data_type, cast.field.data_type()))
}

/// The rows of a plan. After the last one, records the reads of the plan.
pub fn record_when_done(plan: Plan, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let Some(recording) = recording(&plan) else { return rows };
    let schema = rows.schema();
    let failed = Arc::new(AtomicBool::new(false));
    let has_failed = Arc::clone(&failed);
    let rows = rows.inspect_err(move |_| failed.store(true, Ordering::Relaxed));
    let record = stream::once(async move {
        if has_failed.load(Ordering::Relaxed) {
            return;
        }
        let record = async move {
            if tokio::time::timeout(TIMEOUT, record(&plan)).await.is_err() {
                tracing::debug!("the access of a query is not recorded: the store is slow");
            }
        };
        match recording {
            Recording::InBackground => drop(tokio::spawn(record)),
            _ => record.await,
        }
    });
    let rows = rows.chain(record.filter_map(|()| ready(None)));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// The access of a node to a table that records it, and the indexes that the node looks up.
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

/// When to record the reads of a plan. `None` if it reads no table that records access.
fn recording(plan: &Plan) -> Option<Recording> {
    let of_scan = access_of(plan).map(|(access, _)| access.recorder.recording);
    of_scan.or_else(|| plan.children().into_iter().find_map(recording))
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
        let total = |one, other| sum(&metrics, one).saturating_add(sum(&metrics, other));
        let (rows_selected, bytes_read) = match plan.downcast_ref::<FragmentExec>() {
            Some(exec) => (
                selected_by_fragments(exec, path).then(|| sum(&metrics, "rows_selected")),
                total("bytes_read_there", "bytes_moved"),
            ),
            None => (
                rows_selected(path).filter(|_| !is_filtered_dynamically(plan)),
                total("bytes_scanned", "index_bytes"),
            ),
        };
        let AccessShape { mut conditions, columns, .. } = scan.shape.clone();
        let sums = match rows_selected {
            Some(rows_selected) => {
                let (objects, rows) = (scan.objects, scan.rows);
                AccessSums { queries: 1, objects, rows, rows_selected, bytes_read, last_ms: 0 }
            }
            None => {
                conditions = conditions.into_iter().map(|(id, _)| (id, ConditionKind::Other)).collect();
                AccessSums { queries: 1, ..AccessSums::default() }
            }
        };
        let mut access = Access::default();
        access.add(AccessShape { conditions, columns, indexes }, &sums);
        found.push((Arc::clone(scan), access));
    }
    if plan.downcast_ref::<CommonSubplanExec>().is_some_and(|subplan| !subplan.has_run()) {
        return;
    }
    for child in plan.children() {
        path.push(child);
        collect(path, found);
        path.pop();
    }
}

/// Whether the rows that fragments selected are those that satisfy the conditions.
fn selected_by_fragments(exec: &FragmentExec, path: &[&Plan]) -> bool {
    let fragment = exec.fragment();
    let is_limited = fragment.limit.is_some() || any_node(&fragment.plan, &has_limit);
    !is_limited && fragment.dynamic.is_none() && !path.iter().copied().any(has_limit)
}

fn any_node(plan: &Plan, wanted: &dyn Fn(&Plan) -> bool) -> bool {
    wanted(plan) || plan.children().into_iter().any(|child| any_node(child, wanted))
}

/// Whether nodes above a scan add conditions to it while they run: the keys of a join, or the rows
/// that a sort still needs.
fn is_filtered_dynamically(scan: &Plan) -> bool {
    let filter = scan_of_objects(scan).and_then(|scan| scan.file_source().filter());
    filter.is_some_and(|filter| is_dynamic(&filter))
}

fn sum(metrics: &MetricsSet, name: &str) -> u64 {
    metrics.sum_by_name(name).map_or(0, |value| value.as_usize() as u64)
}
