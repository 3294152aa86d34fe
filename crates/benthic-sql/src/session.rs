//! One query: from SQL to rows.

use crate::choice::Pushdown;
use crate::errors::told;
use crate::objects::Objects;
use crate::rule::{NanIsKept, RunsBeside};
use benthic_core::{Error, ErrorKind, Result};
use benthic_fragment::fragment::OBJECT_URL;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::object_store::memory::InMemory;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use std::sync::Arc;

/// The name of the table in queries of one object.
pub const OBJECT_TABLE: &str = "object";

/// Starts a query of objects, which are the table [`OBJECT_TABLE`]; its rows come as they are asked for, and dropping them
/// stops the work.
///
/// # Errors
/// `InvalidArgument` for SQL that is wrong, `Unsupported` for SQL that does more than read.
pub async fn query(objects: Objects, pushdown: Pushdown, sql: &str) -> Result<SendableRecordBatchStream> {
    let context = context(pushdown).map_err(|error| told(&error))?;
    context.register_table(OBJECT_TABLE, Arc::new(objects)).map_err(|error| told(&error))?;
    let state = context.state();
    let dialect = state.config_options().sql_parser.dialect;
    let statement = state.sql_to_statement(sql, &dialect).map_err(|error| told(&error))?;
    only_reads(&statement)?;
    let rows = async {
        let plan = state.statement_to_plan(statement).await?;
        // A statement may hide what it writes in a part of it.
        let options =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        options.verify_plan(&plan)?;
        context.execute_logical_plan(plan).await?.execute_stream().await
    };
    rows.await.map_err(|error| told(&error))
}

fn context(pushdown: Pushdown) -> datafusion::common::Result<SessionContext> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.push(Arc::new(NanIsKept));
    if pushdown != Pushdown::Never {
        // It makes one node of a partial aggregate and a final one, of which the partial one can run beside objects.
        rules.retain(|rule| rule.name() != "CombinePartialFinalAggregate");
        rules.push(Arc::new(RunsBeside { pushdown }) as Arc<dyn PhysicalOptimizerRule + Send + Sync>);
    }
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(SessionConfig::new().with_information_schema(true))
        .with_physical_optimizer_rules(rules)
        .build();
    let context = SessionContext::new_with_state(state);
    // A scan asks for the store of its address, and then reads through its own reader.
    let address = ObjectStoreUrl::parse(OBJECT_URL)?;
    context.register_object_store(address.as_ref(), Arc::new(InMemory::new()));
    Ok(context)
}

/// Refuses what writes, by its verb.
fn only_reads(statement: &Statement) -> Result<()> {
    let verb = match statement {
        Statement::Explain(explain) => return only_reads(&explain.statement),
        Statement::CreateExternalTable(_) => "CREATE EXTERNAL TABLE".to_owned(),
        Statement::CopyTo(_) => "COPY".to_owned(),
        Statement::Reset(_) => "RESET".to_owned(),
        Statement::Statement(statement) => match &**statement {
            ast::Statement::Query(_)
            | ast::Statement::Explain { .. }
            | ast::Statement::ExplainTable { .. }
            | ast::Statement::ShowTables { .. }
            | ast::Statement::ShowColumns { .. } => return Ok(()),
            other => other.to_string().split_whitespace().next().unwrap_or("this").to_uppercase(),
        },
    };
    let message =
        format!("{verb} is not for an object: queries only read; `benthic put POOL/OBJECT FILE` writes one");
    Err(Error::new(ErrorKind::Unsupported, message))
}
