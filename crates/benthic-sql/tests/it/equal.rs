//! Queries of an object return the same rows in every pushdown mode.

use crate::data::{lineitem, parquet};
use crate::queries::{OTHERS, PUSHED};
use crate::support::{ALL, embedded, explained, explained_when_free, memory, metric, put, query, rows};
use benthic_core::Pool;
use benthic_core::pushdown::Pushdown;
use benthic_fragment::Table;
use parquet::basic::Compression;
use std::sync::Arc;
use tempfile::TempDir;

async fn answers_are_equal(pool: &Arc<dyn Pool>) {
    put(pool, "lineitem", parquet(&lineitem(20_000), Compression::SNAPPY)).await;
    for sql in PUSHED.iter().chain(&OTHERS) {
        let expected = rows(&query(pool, "lineitem", Pushdown::Never, sql).await.unwrap());
        for pushdown in ALL {
            let answer = rows(&query(pool, "lineitem", pushdown, sql).await.unwrap());
            assert_eq!(answer, expected, "{pushdown:?} {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_equal_in_memory() {
    answers_are_equal(&memory(Some(Table)).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_equal_in_a_directory() {
    let dir = TempDir::new().unwrap();
    let (_store, pool) = embedded(&dir, Table).await;
    answers_are_equal(&pool).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fragments_that_can_be_pushed_are_pushed() {
    let pool = memory(Some(Table)).await;
    put(&pool, "lineitem", parquet(&lineitem(20_000), Compression::SNAPPY)).await;
    for sql in PUSHED {
        let always = explained_when_free(&pool, "lineitem", Pushdown::Always, sql).await;
        let counts = ["objects_pushed", "objects_pulled"].map(|name| metric(&always, name));
        assert_eq!(counts, [1, 0], "{sql}: {always}");
        let never = explained(&pool, "lineitem", Pushdown::Never, sql).await;
        assert!(!never.contains("FragmentExec"), "{sql}: {never}");
    }
}

/// Compares with known rows, to find errors that all modes share.
#[tokio::test(flavor = "multi_thread")]
async fn not_a_number_is_larger_than_all_numbers_and_never_lost() {
    let pool = memory(Some(Table)).await;
    let batch = lineitem(20_000);
    let ratios =
        arrow::array::AsArray::as_primitive::<arrow::datatypes::Float64Type>(batch.column(5)).clone();
    put(&pool, "lineitem", parquet(&batch, Compression::SNAPPY)).await;
    let large = ratios.iter().flatten().filter(|ratio| ratio.is_nan() || *ratio > 1e300).count();
    assert!(large > 500);
    for pushdown in ALL {
        let sql = "SELECT count(*) FROM object WHERE ratio > 1e300";
        assert_eq!(rows(&query(&pool, "lineitem", pushdown, sql).await.unwrap()), [large.to_string()]);
        let sql = "SELECT ratio FROM object ORDER BY ratio DESC NULLS LAST LIMIT 1";
        assert_eq!(rows(&query(&pool, "lineitem", pushdown, sql).await.unwrap()), ["NaN"], "{pushdown:?}");
        let sql = "SELECT max(ratio) FROM object";
        assert_eq!(rows(&query(&pool, "lineitem", pushdown, sql).await.unwrap()), ["NaN"], "{pushdown:?}");
    }
}
