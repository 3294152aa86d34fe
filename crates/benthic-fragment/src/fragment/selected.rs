//! Counts the rows that satisfied the conditions of a scan.

use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::aggregates::AggregateExec;
use datafusion_physical_plan::execution_plan::EmissionType;
use datafusion_physical_plan::filter::FilterExec;
use std::sync::Arc;

/// The rows that passed the filters above a scan, after the plan has run. `path` is the scan and
/// the nodes above it, from the top. `None` if a node has a limit, which may have ended the scan
/// early.
pub fn rows_selected(path: &[&Arc<dyn ExecutionPlan>]) -> Option<u64> {
    if path.iter().copied().any(has_limit) {
        return None;
    }
    let (scan, above) = path.split_last()?;
    let rows = |plan: &Arc<dyn ExecutionPlan>| Some(plan.metrics()?.output_rows()? as u64);
    let mut selected = rows(scan)?;
    for node in above.iter().rev() {
        let needs_all_rows =
            node.is::<AggregateExec>() || node.properties().emission_type == EmissionType::Final;
        if needs_all_rows || node.children().len() > 1 {
            break;
        }
        if node.is::<FilterExec>() {
            selected = rows(node)?;
        }
    }
    Some(selected)
}

/// Whether a node returns a limited number of rows, so that the nodes below it may end early.
pub fn has_limit(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let groups = plan.downcast_ref::<AggregateExec>().and_then(AggregateExec::limit_options);
    plan.fetch().is_some() || groups.is_some()
}

/// The rows that passed the filters of a fragment, which is a chain of nodes.
pub fn rows_selected_by(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let mut path = vec![plan];
    while let Some([child]) = path.last().map(|plan| plan.children()).as_deref() {
        path.push(child);
    }
    rows_selected(&path)
}
