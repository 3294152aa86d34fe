//! The last rules of physical planning: add index lookups, keep rows with NaN, and replace plan
//! parts with fragments.

use crate::columns::has_floats;
use crate::conditions;
use crate::expr::Plan;
use crate::fragment::Fragment;
use crate::fragment_exec::{FragmentExec, PushdownOptions};
use crate::plan::{partitions, scan_of_objects, scan_of_parquet, source_of};
use crate::scan::ObjectSource;
use crate::wasm::calls_wasm;
use crate::work::Work;
use arrow::datatypes::Schema;
use benthic_core::Clock;
use benthic_core::pushdown::{FAR, Pushdown};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::sorts::sort::SortExec;
use std::sync::Arc;

/// Adds an index lookup to scans of objects, derived from their whole predicates.
#[derive(Debug)]
pub struct IndexLookup;

impl PhysicalOptimizerRule for IndexLookup {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let probing = plan.transform_up(|plan| {
            let scan = scan_of_objects(&plan);
            let source = scan.and_then(|scan| scan.file_source().downcast_ref::<ObjectSource>());
            let (Some(scan), Some(source)) = (scan, source) else {
                return Ok(Transformed::no(plan));
            };
            let Some(index) = source.filter().and_then(|filter| source.choice.plan(&filter)) else {
                return Ok(Transformed::no(plan));
            };
            let source = Arc::new(ObjectSource { index: Some(index), ..source.clone() });
            let scan = FileScanConfigBuilder::from(scan.clone()).with_source(source).build();
            Ok(Transformed::yes(DataSourceExec::from_data_source(scan) as Plan))
        })?;
        Ok(probing.data)
    }

    fn name(&self) -> &'static str {
        "IndexLookup"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Removes predicates on floating-point columns from scans of objects and local files. Bounds in a
/// file do not cover NaN, so pruning with them would lose rows. Predicates that call `wasm` prune
/// nothing, and would keep the scan from running beside objects. The filter above the scan stays.
#[derive(Debug)]
pub struct KeepNanRows;

impl PhysicalOptimizerRule for KeepNanRows {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let kept = plan.transform_up(|plan| {
            let Some(scan) = scan_of_parquet(&plan) else { return Ok(Transformed::no(plan)) };
            let prunes = |expr: &Arc<dyn PhysicalExpr>| can_prune(expr, scan.file_schema());
            if scan.file_source().filter().as_ref().is_none_or(prunes) {
                return Ok(Transformed::no(plan));
            }
            let parquet = source_of(scan, scan.file_source().projection(), prunes)?;
            let Some(source) = scan.file_source().downcast_ref::<ObjectSource>() else {
                return internal_err!("a scan of objects has another source");
            };
            let source = Arc::new(source.with(parquet));
            let scan = FileScanConfigBuilder::from(scan.clone()).with_source(source).build();
            Ok(Transformed::yes(DataSourceExec::from_data_source(scan) as Plan))
        })?;
        Ok(kept.data)
    }

    fn name(&self) -> &'static str {
        "KeepNanRows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn can_prune(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    if calls_wasm(expr) {
        return false;
    }
    let is_float =
        |index: usize| schema.fields().get(index).is_none_or(|field| has_floats(field.data_type()));
    !collect_columns(expr).iter().any(|column| is_float(column.index()))
}

/// Replaces the largest parts of a plan that can run beside objects with [`FragmentExec`].
#[derive(Debug)]
pub struct FragmentPushdown {
    pub pushdown: Pushdown,
    /// Knows the round trip time to the objects.
    pub work: Arc<Work>,
    pub clock: Arc<dyn Clock>,
}

impl PhysicalOptimizerRule for FragmentPushdown {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let is_far = self.work.round_trip() >= FAR;
        let options = PushdownOptions {
            pushdown: self.pushdown,
            is_far,
            // Over a long link, moving bytes costs more than compressing them.
            compress: is_far,
            clock: Arc::clone(&self.clock),
        };
        let replaced = plan.transform_down(|plan| {
            if let Some(fragment) = Fragment::of(&plan)? {
                match fragment.envelope(options.compress) {
                    Ok(request) => {
                        let groups = fragment.objects.len().clamp(1, partitions(&plan));
                        let exec = FragmentExec::new(fragment, request, groups, options.clone());
                        let exec = Arc::new(exec) as Plan;
                        // The fragment returns the first rows of each object, the sort the first
                        // ones of all.
                        let exec = match plan.is::<SortExec>() {
                            true => {
                                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                                plan.replace_children(vec![exec], options)?
                            }
                            false => exec,
                        };
                        return Ok(Transformed::new(exec, true, TreeNodeRecursion::Jump));
                    }
                    Err(why) => tracing::debug!("{} does not run beside objects: {why}", plan.name()),
                }
            }
            // `transform_down` then visits the inner filter, which holds the accepted conditions.
            match conditions::split(&plan)? {
                Some(split) => Ok(Transformed::yes(split)),
                None => Ok(Transformed::no(plan)),
            }
        })?;
        Ok(replaced.data)
    }

    fn name(&self) -> &'static str {
        "FragmentPushdown"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
