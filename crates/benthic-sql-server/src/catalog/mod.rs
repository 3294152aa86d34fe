//! Answers the questions that Postgres clients ask about tables in SQL: queries of `pg_catalog`, of
//! `information_schema`, and of functions such as `current_database`.
//!
//! [`tables`] builds the parts of the catalog that Benthic has, as tables in memory. [`functions`]
//! has the catalog's functions. [`rewrite`] changes a query into one that the query engine plans.
//!
//! Why not the crate `datafusion-pg-catalog`? It enables every feature of the query engine, which
//! adds C libraries and functions to all programs, and also to the library in the OSDs.

mod ast;
mod columns;
mod functions;
mod rewrite;
mod tables;

use crate::DATABASE;
use crate::postgres::SessionSettings;
use crate::users::User;
use benthic_core::Result;
use benthic_sql::bounded;
use benthic_sql::errors::from_datafusion;
use benthic_sql::prepared::PreparedQuery;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider};
use datafusion::common::DataFusionError;
use datafusion::datasource::MemTable;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use std::sync::Arc;

/// The schema of Postgres' catalog.
const PG_CATALOG: &str = "pg_catalog";
/// The schema of the catalog that SQL defines.
const INFORMATION_SCHEMA: &str = "information_schema";

/// Plans a query of the catalog. Returns `None` for all other queries.
///
/// # Errors
/// `InvalidArgument`, `Unsupported`, errors of the store.
pub async fn plan(
    sql: &str,
    user: &User,
    access_key: &str,
    settings: &SessionSettings,
) -> Result<Option<PreparedQuery>> {
    let Some(statement) = rewrite::catalog_query(sql) else { return Ok(None) };
    let tables = user.tables().await?;
    let objects = tables::Objects::new(&tables);
    let context = context(user, access_key, settings, &objects).map_err(|error| from_datafusion(&error))?;
    let rewritten = statement.to_string();
    let statement = Statement::Statement(Box::new(statement));
    let planned = PreparedQuery::plan(context, statement).await;
    planned.map(Some).inspect_err(|error| {
        tracing::debug!(sql, rewritten, %error, "cannot plan a query of the catalog");
    })
}

fn context(
    user: &User,
    access_key: &str,
    settings: &SessionSettings,
    objects: &tables::Objects<'_>,
) -> std::result::Result<SessionContext, DataFusionError> {
    let config =
        SessionConfig::new().with_default_catalog_and_schema(DATABASE, PG_CATALOG).with_target_partitions(1);
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&user.memory)).build()?;
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_runtime_env(Arc::new(runtime));
    let context = SessionContext::new_with_state(state.build());
    bounded::register(&context)?;
    for function in functions::all(access_key, settings, objects) {
        context.register_udf(function);
    }
    let catalog = context.catalog(DATABASE);
    let catalog = catalog.ok_or_else(|| DataFusionError::Internal("no catalog".to_owned()))?;
    for schema in [PG_CATALOG, INFORMATION_SCHEMA] {
        let provider = MemorySchemaProvider::new();
        for (name, batch) in tables::of_schema(schema, access_key, settings, objects)? {
            let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
            provider.register_table(name.to_owned(), Arc::new(table))?;
        }
        catalog.register_schema(schema, Arc::new(provider))?;
    }
    Ok(context)
}
