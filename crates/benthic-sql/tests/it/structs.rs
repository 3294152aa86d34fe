//! Fields of structs.

use crate::data::parquet;
use crate::support::{ALL, explained_when_free, memory, metric, put, query, rows};
use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, Field};
use benthic_core::pushdown::Pushdown;
use benthic_fragment::Table;
use parquet::basic::Compression;
use std::sync::Arc;

const ROWS: i64 = 20_000;

/// A struct of a small number, a struct, and a long text.
fn batch() -> RecordBatch {
    // Digits that do not compress.
    let text = |row: i64| (row * 10..row * 10 + 10).map(|n| (n * 2_654_435_761 % 4_294_967_291).to_string());
    let texts = (0..ROWS).map(|row| text(row).collect::<String>());
    let inner = Arc::new(Field::new("b", DataType::Int64, true));
    let inner = StructArray::from(vec![(inner, Arc::new(Int64Array::from_iter_values(0..ROWS)) as ArrayRef)]);
    let pair = StructArray::from(vec![
        (
            Arc::new(Field::new("a", DataType::Int64, true)),
            Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row % 10))) as ArrayRef,
        ),
        (Arc::new(Field::new("in", inner.data_type().clone(), true)), Arc::new(inner)),
        (Arc::new(Field::new("text", DataType::Utf8, true)), Arc::new(StringArray::from_iter_values(texts))),
    ]);
    RecordBatch::try_from_iter_with_nullable([("s", Arc::new(pair) as ArrayRef, true)]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_is_read_without_its_neighbours() {
    let pool = memory(Some(Table)).await;
    let object = parquet(&batch(), Compression::SNAPPY);
    let size_bytes = object.len() as u64;
    put(&pool, "structs", object).await;
    for (sql, expected) in [
        ("SELECT count(*) FROM object WHERE s['a'] = 3", "2000"),
        ("SELECT sum(s['a']) FROM object", "90000"),
        ("SELECT max(s['in']['b']) FROM object WHERE s['a'] > 5", "19999"),
    ] {
        for pushdown in ALL {
            assert_eq!(rows(&query(&pool, "structs", pushdown, sql).await.unwrap()), [expected], "{sql}");
        }
        let plan = explained_when_free(&pool, "structs", Pushdown::Always, sql).await;
        assert_eq!(metric(&plan, "objects_pushed"), 1, "{sql}: {plan}");
        assert!(metric(&plan, "bytes_read_there") < size_bytes / 2, "{sql}, {size_bytes}: {plan}");
    }
}
