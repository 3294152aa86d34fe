//! Random queries of random tables: all ways give the same answers, which equal those of the query
//! engine on the same rows in memory.
//!
//! `BENTHIC_TEST_LONG` runs more cases.

mod noise;
mod query;
mod same;
mod table;
mod values;

use crate::fixtures::{answer, memory_store, pool, session, ways};
use arrow::array::RecordBatch;
use benthic_core::{Pool, Result, Store};
use benthic_fragment::fragment::own_aggregates;
use benthic_fragment::json;
use benthic_sql::errors::from_datafusion;
use benthic_sql::lambdas;
use benthic_sql::literals::with_rules;
use benthic_sql::session::{Settings, SqlSession};
use benthic_testkit::seed;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider};
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::prelude::{SessionConfig, SessionContext};
use noise::Noise;
use query::Query;
use same::{Answer, differ};
use std::sync::Arc;
use table::RandomTable;

/// Number of cases. Each has two tables and `QUERIES` queries.
const CASES: u64 = 50;
const CASES_LONG: u64 = 1_000;
const QUERIES: usize = 8;
const ROWS_MAX: usize = 5_000;

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_have_the_same_answers_in_all_ways() {
    let store = memory_store();
    let pool = pool(&store, "r").await;
    for seed in seed::many(if seed::is_long() { CASES_LONG } else { CASES }) {
        case(&store, &pool, seed).await;
    }
}

async fn case(store: &Arc<dyn Store>, pool: &Arc<dyn Pool>, seed: u64) {
    let n = &mut Noise::new(seed);
    let tables = ["one", "two"].map(|name| RandomTable::random(n, name, ROWS_MAX));
    let plain = plain(&tables);
    for table in &tables {
        table.make(pool).await;
    }
    let sessions: Vec<(&str, SqlSession)> =
        ways().into_iter().map(|(way, settings): (_, Settings)| (way, session(store, settings))).collect();
    for _ in 0..QUERIES {
        let query = Query::random(n, &tables);
        let fail = |what: String| -> ! {
            let about = tables.each_ref().map(|table| format!("{}: {}", table.name, table.description));
            panic!("{}={seed}\n{}\n{}\n{what}", seed::VARIABLE, about.join("\n"), query.sql)
        };
        let mut first: Option<(&str, Answer)> = None;
        let mut answers = vec![("in memory", in_memory(&plain, &query.sql).await)];
        for (way, session) in &sessions {
            answers.push((way, answer(session, &query.sql).await.map(|(_, rows)| rows)));
        }
        for (way, rows) in answers {
            let answer = Answer::new(rows, &query);
            match &first {
                None => first = Some((way, answer)),
                Some((other, expected)) => {
                    if let Some(what) = differ(expected, &answer, &query) {
                        fail(format!("{other} (left) and {way} (right) differ: {what}"));
                    }
                }
            }
        }
    }
}

/// The plain query engine on the same rows in memory, with our rules for literals.
fn plain(tables: &[RandomTable; 2]) -> SessionContext {
    let mut config = SessionConfig::new();
    config.options_mut().execution.time_zone = Some("+00:00".to_owned());
    let state = SessionStateBuilder::new_with_default_features().with_config(config);
    let context = SessionContext::new_with_state(with_rules(state).build());
    // Its own min and max are wrong for groups of floating-point numbers.
    for aggregate in own_aggregates() {
        context.register_udaf(AggregateUDF::clone(&aggregate));
    }
    for function in json::functions() {
        context.register_udf(ScalarUDF::clone(&function));
    }
    let schema = MemorySchemaProvider::new();
    for table in tables {
        let rows = MemTable::try_new(table.rows.schema(), vec![vec![table.rows.clone()]]).unwrap();
        schema.register_table(table.name.clone(), Arc::new(rows)).unwrap();
    }
    let catalog = context.catalog("datafusion").unwrap();
    catalog.register_schema("r", Arc::new(schema)).unwrap();
    context
}

async fn in_memory(context: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>> {
    let rows = async {
        let state = context.state();
        let mut statement = state.sql_to_statement(sql, &state.config_options().sql_parser.dialect)?;
        lambdas::rewrite(&mut statement, state.higher_order_functions());
        context.execute_logical_plan(state.statement_to_plan(statement).await?).await?.collect().await
    };
    rows.await.map_err(|error| from_datafusion(&error))
}
