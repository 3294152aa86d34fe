//! Methods of deployed WebAssembly classes in queries.

use crate::data::parquet;
use crate::support::{ALL, POOL, explained_when_free, memory, memory_with, metric, put, query, rows};
use crate::text_class::deploy;
use arrow::array::{ArrayRef, BinaryArray, Int64Array, LargeStringArray, RecordBatch, StringArray};
use benthic_core::pushdown::Pushdown;
use benthic_core::{ClassRegistry, ErrorKind, Pool};
use benthic_fragment::Table;
use benthic_wasm::{Limits, Wasm, call_function};
use parquet::basic::Compression;
use std::sync::Arc;

/// A pool with the class `texts` and the object `object` of a few rows.
async fn pool() -> Arc<dyn Pool> {
    let table = Table::with_wasm(call_function);
    with_rows(memory_with(ClassRegistry::new().with(table).with(Wasm::new())).await).await
}

async fn with_rows(pool: Arc<dyn Pool>) -> Arc<dyn Pool> {
    deploy(&*pool, 1, Limits { fuel: 1_000_000, ..Limits::default() }).await;
    let texts = [Some("ab"), None, Some(""), Some("Grün")];
    let columns: [(&str, ArrayRef); 4] = [
        ("n", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
        ("body", Arc::new(StringArray::from(texts.to_vec()))),
        ("large", Arc::new(LargeStringArray::from(texts.to_vec()))),
        ("data", Arc::new(texts.iter().map(|text| text.map(str::as_bytes)).collect::<BinaryArray>())),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    put(&pool, "object", parquet(&batch, Compression::SNAPPY)).await;
    pool
}

async fn fails(pool: &Arc<dyn Pool>, sql: &str) -> (ErrorKind, String) {
    let mut errors = Vec::new();
    for pushdown in ALL {
        let error = query(pool, "object", pushdown, sql).await.unwrap_err();
        errors.push((error.kind(), error.to_string()));
    }
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
    errors.remove(0)
}

#[tokio::test]
async fn a_method_is_a_function_of_its_input() {
    let pool = pool().await;
    for pushdown in ALL {
        let selected = async |sql: &str| rows(&query(&pool, "object", pushdown, sql).await.unwrap());
        for column in ["body", "large", "arrow_cast(body, 'Utf8')"] {
            let sql = format!("SELECT n, wasm('texts.upper', {column}) FROM object");
            assert_eq!(selected(&sql).await, ["1|AB", "2|null", "3|", "4|GRüN"], "{column}");
        }
        let sql = "SELECT n, CAST(wasm('texts.upper', data) AS VARCHAR) FROM object";
        assert_eq!(selected(sql).await, ["1|AB", "2|null", "3|", "4|GRüN"]);
        let sql = "SELECT n FROM object WHERE wasm('texts.upper', body) = 'AB'";
        assert_eq!(selected(sql).await, ["1"]);
        // A trap in rows that the other condition excludes would end the query.
        let sql = "SELECT n FROM object WHERE wasm('texts.traps', body) = '' AND n = 2";
        assert_eq!(selected(sql).await, Vec::<String>::new());
        let sql = "SELECT wasm('texts.upper', body) AS b, count(*) FROM object WHERE n <> 3 GROUP BY b";
        assert_eq!(selected(sql).await, ["AB|1", "GRüN|1", "null|1"]);
        let sql = "SELECT DISTINCT WASM('texts.upper', 'constant'), wasm('texts.upper', NULL) FROM object";
        assert_eq!(selected(sql).await, ["CONSTANT|null"]);
    }
}

#[tokio::test]
async fn calls_run_beside_the_objects() {
    let pool = pool().await;
    for sql in [
        "SELECT n FROM object WHERE n < 4 AND wasm('texts.upper', body) = 'AB'",
        "SELECT wasm('texts.upper', body) FROM object WHERE n < 4",
        "SELECT max(wasm('texts.upper', body)) FROM object",
    ] {
        let explained = explained_when_free(&pool, "object", Pushdown::Always, sql).await;
        assert_eq!(metric(&explained, "objects_pushed"), 1, "{explained}");
        let fragment = explained.split("FragmentExec").nth(1).unwrap();
        assert!(fragment.contains("wasm("), "{explained}");
    }
}

/// Where the engine runs no modules, the rest of the plan still runs beside the objects.
#[tokio::test]
async fn without_the_class_wasm_only_the_rest_is_pushed() {
    let pool = with_rows(memory(Some(Table)).await).await;
    let sql = "SELECT n FROM object WHERE n < 4 AND wasm('texts.upper', body) = 'AB'";
    assert_eq!(rows(&query(&pool, "object", Pushdown::Always, sql).await.unwrap()), ["1"]);
    let explained = explained_when_free(&pool, "object", Pushdown::Always, sql).await;
    assert_eq!(metric(&explained, "objects_pushed"), 1, "{explained}");
    let fragment = explained.split("FragmentExec").nth(1).unwrap();
    assert!(!fragment.contains("wasm(") && fragment.contains("n@0 < 4"), "{explained}");
}

#[tokio::test]
async fn more_than_four_calls_run_in_the_client() {
    let pool = pool().await;
    for (depth, pushed) in [(4, 1), (5, 0)] {
        let nested = (0..depth).fold("body".to_owned(), |value, _| format!("wasm('texts.upper', {value})"));
        let sql = format!("SELECT n FROM object WHERE {nested} = 'AB'");
        assert_eq!(rows(&query(&pool, "object", Pushdown::Always, &sql).await.unwrap()), ["1"]);
        let explained = explained_when_free(&pool, "object", Pushdown::Always, &sql).await;
        assert_eq!(metric(&explained, "objects_pushed"), pushed, "{explained}");
    }
}

#[tokio::test]
async fn planning_refuses_what_no_call_can_do() {
    let pool = pool().await;
    let cases = [
        ("'texts.lower', body", ErrorKind::Unsupported, "`benthic class show"),
        ("'nothing.upper', body", ErrorKind::NotFound, "`benthic class ls"),
        ("'upper', body", ErrorKind::InvalidArgument, "CLASS.METHOD"),
        ("'texts.writes', body", ErrorKind::InvalidArgument, "the method writes"),
        ("'texts.collects', body", ErrorKind::InvalidArgument, "`benthic exec --object` calls it"),
        ("body, body", ErrorKind::InvalidArgument, "as a text in quotes"),
        ("'texts.' || 'upper', body", ErrorKind::InvalidArgument, "as a text in quotes"),
        ("'texts.upper', n", ErrorKind::InvalidArgument, "CAST"),
        ("'texts.upper'", ErrorKind::InvalidArgument, "two arguments"),
        ("'texts.upper', body, body", ErrorKind::InvalidArgument, "two arguments"),
        ("", ErrorKind::InvalidArgument, "wasm"),
    ];
    for (arguments, kind, text) in cases {
        // EXPLAIN plans the query and does not run it.
        let sql = format!("EXPLAIN SELECT wasm({arguments}) FROM object");
        let (found, message) = fails(&pool, &sql).await;
        assert!(found == kind && message.contains(text), "{arguments}: {message}");
    }
}

#[tokio::test]
async fn an_error_of_a_call_ends_the_query() {
    let pool = pool().await;
    let cases = [
        ("traps", ErrorKind::ClassFailed, "trapped"),
        ("endless", ErrorKind::LimitExceeded, "fuel"),
        ("hungry", ErrorKind::LimitExceeded, "memory"),
        ("not_a_text", ErrorKind::ClassFailed, "UTF-8"),
        ("reads", ErrorKind::NotFound, ""),
    ];
    for (method, kind, text) in cases {
        let sql = format!("SELECT wasm('texts.{method}', body) FROM object");
        let (found, message) = fails(&pool, &sql).await;
        assert!(found == kind && message.contains(text), "{method}: {message}");
        assert!(
            message.contains("class=texts") && message.contains(&format!("method={method}")),
            "{message}"
        );
    }
    let sql = "SELECT n FROM object WHERE wasm('texts.not_a_text', data) = X'FF' ORDER BY n";
    assert_eq!(rows(&query(&pool, "object", Pushdown::Never, sql).await.unwrap()), ["1", "3", "4"]);
}

/// A query uses the version that is current when it starts.
#[tokio::test]
async fn a_new_version_is_used_at_once() {
    let pool = pool().await;
    deploy(&*pool, 2, Limits { fuel: 10, ..Limits::default() }).await;
    let (kind, _) = fails(&pool, "SELECT wasm('texts.upper', body) FROM object").await;
    assert_eq!(kind, ErrorKind::LimitExceeded);
    assert_eq!(pool.name(), POOL);
}
