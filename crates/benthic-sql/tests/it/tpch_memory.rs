//! TPC-H on the memory engine.

use crate::fixtures::{memory_store, session, ways};
use crate::support::metric;
use crate::tpch;
use benthic_core::pushdown::Pushdown;
use benthic_sql::session::Settings;
use futures::TryStreamExt;
use parquet::arrow::ArrowWriter;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn tpch_is_answered_as_duckdb_does() {
    let store = memory_store();
    tpch::load(&store, 0.1).await;
    tpch::queries_are_answered(&store, "0.1", &ways()).await;
}

/// Writes the rows as Parquet files for `tests/tpch/answers.py`.
#[test]
#[ignore = "writes the files that DuckDB's answers are made from"]
fn tpch_data() {
    let dir =
        PathBuf::from(std::env::var_os("BENTHIC_TPCH_DIR").expect("BENTHIC_TPCH_DIR names no directory"));
    for scale in ["0.01", "0.1"] {
        fs::create_dir_all(dir.join(scale)).unwrap();
        for (name, batches) in tpch::tables(scale.parse().unwrap()) {
            let mut batches = batches.map(Result::unwrap).peekable();
            let file = File::create(dir.join(scale).join(format!("{name}.parquet"))).unwrap();
            let mut writer = ArrowWriter::try_new(file, batches.peek().unwrap().schema(), None).unwrap();
            batches.for_each(|batch| writer.write(&batch).unwrap());
            writer.close().unwrap();
        }
    }
}

/// Prints how many bytes each query moves if all fragments run beside their objects.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints numbers for docs/design/0005"]
#[expect(clippy::print_stdout, reason = "it prints its measurements")]
async fn tpch_moved_bytes() {
    let store = memory_store();
    let scale = std::env::var("BENTHIC_TPCH_SCALE").map_or(0.01, |scale| scale.parse().unwrap());
    tpch::load(&store, scale).await;
    let session = session(&store, Settings { pushdown: Pushdown::Always, ..Settings::default() });
    for number in 1..=tpch::QUERIES {
        let work = Arc::default();
        let rows = session.query_with_work(&tpch::query(number), &work).await.unwrap();
        let rows: Vec<_> = rows.try_collect().await.unwrap();
        assert!(!rows.is_empty());
        println!("Q{number}: {} bytes", work.moved_bytes());
    }
}

/// Checks that the `always` mode really runs work beside the objects.
#[tokio::test(flavor = "multi_thread")]
async fn fragments_of_tpch_run_beside_the_objects() {
    let store = memory_store();
    tpch::load(&store, 0.01).await;
    let settings = Settings { pushdown: Pushdown::Always, ..Settings::default() };
    let plan = tpch::explained(&store, settings, 6).await;
    assert!(metric(&plan, "objects_pushed") > 0 && metric(&plan, "objects_pruned") > 0, "{plan}");
}
