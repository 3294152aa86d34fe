//! Counts the rows that satisfied the conditions of a scan.

use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::aggregates::AggregateExec;
use datafusion_physical_plan::execution_plan::EmissionType;
use datafusion_physical_plan::filter::FilterExec;
use std::sync::Arc;

/// The rows that passed the filters above a scan, after the plan has run. `path` is the scan and the nodes
/// above it, from the top. `None` if a limit may have ended the scan before it read all rows.
pub fn rows_selected(path: &[&Arc<dyn ExecutionPlan>]) -> Option<u64> {
    let (scan, above) = path.split_last()?;
    let rows = |plan: &Arc<dyn ExecutionPlan>| Some(plan.metrics()?.output_rows()? as u64);
    let mut selected = rows(scan).filter(|_| scan.fetch().is_none())?;
    for node in above.iter().rev() {
        let needs_all_rows =
            node.is::<AggregateExec>() || node.properties().emission_type == EmissionType::Final;
        if needs_all_rows || node.children().len() > 1 {
            break;
        }
        if node.fetch().is_some() {
            return None;
        }
        if node.is::<FilterExec>() {
            selected = rows(node)?;
        }
    }
    Some(selected)
}

/// The rows that passed the filters of a fragment, which is a chain of nodes.
pub fn rows_selected_by(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let mut path = vec![plan];
    while let Some([child]) = path.last().map(|plan| plan.children()).as_deref() {
        path.push(child);
    }
    rows_selected(&path)
}
