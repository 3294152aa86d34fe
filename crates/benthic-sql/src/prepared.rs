//! Planned queries, for servers that must describe a query's parameters and columns before it runs.

use crate::errors::from_datafusion;
use crate::record::record_when_done;
use arrow::datatypes::{DataType, SchemaRef};
use benthic_core::{Error, Result};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{DataFrame, SQLOptions, SessionContext};
use datafusion::sql::parser::Statement;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;

/// Limit on the parameters of a query.
pub const PARAMETERS_MAX: usize = 1_000;

/// Starts a query that DataFusion has planned, and records its reads.
///
/// # Errors
/// Errors of the query engine.
pub async fn start(rows: DataFrame) -> datafusion::common::Result<SendableRecordBatchStream> {
    let task = Arc::new(rows.task_ctx());
    let plan = rows.create_physical_plan().await?;
    Ok(record_when_done(Arc::clone(&plan), execute_stream(plan, task)?))
}

/// The types of parameters such as that of `value = ANY ($1)`: lists of the value's type.
fn lists(plan: &LogicalPlan) -> datafusion::common::Result<HashMap<String, DataType>> {
    let mut lists = HashMap::new();
    plan.apply_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::ScalarFunction(call) = part
                    && call.name() == "array_has"
                    && let [Expr::Placeholder(parameter), value] = call.args.as_slice()
                    && let Ok(item) = value.get_type(&schema)
                {
                    lists.insert(parameter.id.clone(), DataType::new_list(item, true));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(lists)
}

/// A planned query. It reads the snapshots that were current when it was planned.
pub struct PreparedQuery {
    context: SessionContext,
    plan: LogicalPlan,
}

impl PreparedQuery {
    /// A planned query that runs in this context.
    ///
    /// # Errors
    /// `Unsupported` for a plan that does more than read.
    pub fn new(context: SessionContext, plan: LogicalPlan) -> Result<PreparedQuery> {
        // A statement that reads may contain a part that writes.
        let options =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        options.verify_plan(&plan).map_err(|error| from_datafusion(&error))?;
        Ok(PreparedQuery { context, plan })
    }

    /// Plans a statement in a context. The future is boxed for the same reason as
    /// [`StartingQuery`](crate::session::StartingQuery).
    ///
    /// # Errors
    /// `InvalidArgument` for a statement that cannot be planned; errors of
    /// [`new`](PreparedQuery::new).
    pub fn plan<'a>(context: SessionContext, statement: Statement) -> BoxFuture<'a, Result<PreparedQuery>> {
        async move {
            let plan = context.state().statement_to_plan(statement).await;
            PreparedQuery::new(context, plan.map_err(|error| from_datafusion(&error))?)
        }
        .boxed()
    }

    /// The types of the parameters `$1`, `$2` and so on. A type is `None` if the query accepts
    /// several.
    ///
    /// # Errors
    /// `InvalidArgument` for a parameter that is not `$` and a number, and for a parameter with
    /// conflicting types; `LimitExceeded` above [`PARAMETERS_MAX`].
    pub fn parameters(&self) -> Result<Vec<Option<DataType>>> {
        let mut types = Vec::new();
        let known = self.plan.get_parameter_types().and_then(|known| Ok((known, lists(&self.plan)?)));
        let (known, lists) = known.map_err(|error| from_datafusion(&error))?;
        for (name, found) in known {
            let found = found.or_else(|| lists.get(&name).cloned());
            let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
            let Some(index) = number.and_then(|number| number.checked_sub(1)) else {
                return Err(Error::invalid_argument("a parameter must be $1, $2 and so on").with("got", name));
            };
            if index >= PARAMETERS_MAX {
                let message = "the query has too many parameters";
                return Err(Error::limit_exceeded(message).with("max", PARAMETERS_MAX));
            }
            types.resize(types.len().max(index + 1), None);
            types[index] = found;
        }
        Ok(types)
    }

    /// The query with values for its parameters, in order.
    ///
    /// # Errors
    /// `InvalidArgument` if a value is missing or has a wrong type.
    pub fn bind(self, values: Vec<ScalarValue>) -> Result<PreparedQuery> {
        let values = ParamValues::from(values);
        let plan = self.plan.replace_params_with_values(&values).map_err(|error| from_datafusion(&error))?;
        Ok(PreparedQuery { context: self.context, plan })
    }

    /// The columns of the rows. While parameters have no values, a type may still change.
    pub fn schema(&self) -> SchemaRef {
        let state = self.context.state();
        // The analyzer decides the types of columns, for example of a union.
        let analyzed =
            state.analyzer().execute_and_check(self.plan.clone(), state.config_options(), |_, _| {});
        let plan = analyzed.as_ref().unwrap_or(&self.plan);
        Arc::clone(plan.schema().inner())
    }

    /// Starts the query. The stream produces rows on demand, and dropping it cancels the work.
    ///
    /// # Errors
    /// Errors of the query engine by their kind.
    pub fn start<'a>(self) -> BoxFuture<'a, Result<SendableRecordBatchStream>> {
        async move {
            let rows = async { start(self.context.execute_logical_plan(self.plan).await?).await };
            rows.await.map_err(|error| from_datafusion(&error))
        }
        .boxed()
    }
}
