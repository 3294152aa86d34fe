//! Tables and queries: `benthic sql` and `benthic table`.

use crate::commands::console::Console;
use crate::commands::console::children::Printed;
use crate::commands::console::plan;
use crate::commands::console::query::Query;
use crate::commands::console::reply::{Reply, json_reply};
use crate::commands::other;
use benthic_core::names::{check_namespace, check_pool_name};
use benthic_core::{Error, ObjectAddress, Result, Stopwatch, SystemClock};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt;

const ROWS_MAX: usize = 10_000;
const ROWS_DEFAULT: usize = 1_000;
/// Rows that the preview of a Parquet object shows.
const PREVIEW_ROWS: usize = 50;
const TABLES_MAX: usize = 10_000;
/// The largest integer that JavaScript represents exactly.
const SAFE_INTEGER: u64 = (1 << 53) - 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    sql: String,
    #[serde(default)]
    pushdown: Option<String>,
    #[serde(default)]
    rows_max: Option<usize>,
}

pub async fn sql(console: &Console<'_>, statement: Statement) -> Result<Reply> {
    let pushdown = statement.pushdown.as_deref().unwrap_or("auto");
    let rows_max = statement.rows_max.unwrap_or(ROWS_DEFAULT);
    if !["auto", "always", "never"].contains(&pushdown) || !(1..=ROWS_MAX).contains(&rows_max) {
        let message = "pushdown is auto, always or never, and rows_max is a number from 1 to 10000";
        return Err(Error::invalid_argument(message));
    }
    if statement.sql.trim().is_empty() {
        return Err(Error::invalid_argument("the statement is empty"));
    }
    let mut args = vec!["--pushdown".into(), pushdown.into()];
    if !console.is_writable {
        args.push("--read-only".into());
    }
    args.extend(["--".into(), statement.sql.into()]);
    rows(console, args, rows_max).await
}

/// Runs `benthic sql` and returns the rows that it prints.
async fn rows(console: &Console<'_>, args: Vec<OsString>, rows_max: usize) -> Result<Reply> {
    let args = ["sql".into(), "--no-local-files".into()].into_iter().chain(args).collect();
    let clock = Stopwatch::start(&SystemClock);
    let printed = console.children.run(&other::SQL, args, rows_max).await?;
    let seconds = clock.elapsed().as_secs_f64();
    let mut answer = table_of(&printed)?;
    answer["seconds"] = json!(seconds);
    Ok(json_reply(&answer))
}

fn table_of(printed: &Printed) -> Result<Value> {
    let rows: Vec<Row> = printed.values()?;
    let columns: Vec<&str> =
        rows.first().map(|row| row.0.iter().map(|(name, _)| name.as_str()).collect()).unwrap_or_default();
    let is_plan = columns == ["plan_type", "plan"];
    let plans = rows.iter().filter(|_| is_plan).filter_map(|row| {
        let [(_, kind), (_, text)] = row.0.as_slice() else { return None };
        Some(json!({ "plan": kind, "nodes": plan::parse(text.as_str()?) }))
    });
    let plans: Vec<Value> = plans.collect();
    let values = rows.iter().map(|row| row.0.iter().map(|(_, value)| exact(value)).collect());
    Ok(json!({
        "columns": columns,
        "rows": values.collect::<Vec<Vec<Value>>>(),
        "truncated": printed.is_cut,
        "plans": plans,
    }))
}

/// A value that JavaScript reads without loss: larger integers become strings.
fn exact(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.as_i64().is_some_and(|int| int.unsigned_abs() > SAFE_INTEGER) => {
            json!(number.to_string())
        }
        Value::Number(number) if number.as_u64().is_some_and(|int| int > SAFE_INTEGER) => {
            json!(number.to_string())
        }
        Value::Array(values) => values.iter().map(exact).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), exact(value))).collect())
        }
        other => other.clone(),
    }
}

/// A row: a JSON object with its fields in their order.
struct Row(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Row, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Row;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Row, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Row(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Schema and first rows of a Parquet object.
pub async fn parquet(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let pool = query.required("pool")?.to_owned();
    check_pool_name(&pool)?;
    let object = query.object()?;
    if object.namespace().contains('/') {
        return Err(Error::unsupported("a namespace with '/' has no address"));
    }
    let address = ObjectAddress { pool, object }.to_string();
    let of_object = |sql: &str| -> Vec<OsString> {
        let object = format!("--object={address}");
        ["sql", "--no-local-files", &object, "--", sql].map(OsString::from).into()
    };
    let schema = console.children.run(&other::SQL, of_object("DESCRIBE object"), ROWS_MAX);
    let rows = format!("SELECT * FROM object LIMIT {PREVIEW_ROWS}");
    let rows = console.children.run(&other::SQL, of_object(&rows), PREVIEW_ROWS);
    let (schema, rows) = futures::try_join!(schema, rows)?;
    let mut answer = table_of(&rows)?;
    answer["schema"] = schema.values::<Value>()?.into();
    Ok(json_reply(&answer))
}

/// The tables of a pool, or of all pools.
pub async fn list(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let mut args: Vec<OsString> = vec!["table".into(), "ls".into(), "--long".into()];
    if !query.text("pool").is_empty() {
        check_pool_name(query.text("pool"))?;
        args.extend(["--".into(), query.text("pool").into()]);
    }
    let printed = console.children.list(&other::SQL, args, TABLES_MAX).await?;
    Ok(json_reply(&json!({ "tables": printed.values::<Value>()?, "truncated": printed.is_cut })))
}

/// The address of a table, which no option can be mistaken for.
fn address(query: &Query) -> Result<OsString> {
    let (pool, table) = (query.required("pool")?, query.required("table")?);
    check_pool_name(pool)?;
    check_namespace(table)?;
    Ok(format!("{pool}/{table}").into())
}

pub async fn show(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let mut args: Vec<OsString> = vec!["table".into(), "show".into()];
    if !query.text("snapshot").is_empty() {
        args.push(format!("--snapshot={}", query.text("snapshot")).into());
    }
    args.extend(["--".into(), address(query)?]);
    let printed = console.children.run(&other::SQL, args, 1).await?;
    Ok(json_reply(&printed.value()?))
}

pub async fn history(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let args = vec!["table".into(), "history".into(), "--".into(), address(query)?];
    let printed = console.children.run(&other::SQL, args, TABLES_MAX).await?;
    Ok(json_reply(&json!({ "snapshots": printed.values::<Value>()?, "truncated": printed.is_cut })))
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
