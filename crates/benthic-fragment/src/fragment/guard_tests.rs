//! Tests of splitting batches.

use super::parts;
use arrow::array::{RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::Schema;
use std::sync::Arc;

fn rows(batch: &RecordBatch, rows_max: usize, bytes_max: u64) -> Vec<usize> {
    parts(batch, rows_max, bytes_max).unwrap().iter().map(RecordBatch::num_rows).collect()
}

#[test]
fn a_batch_without_columns_is_split() {
    let options = RecordBatchOptions::new().with_row_count(Some(10));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options).unwrap();
    assert_eq!(rows(&batch, 3, 1), [3, 3, 3, 1]);
    assert_eq!(rows(&batch, 10, 1), [10]);
}

#[test]
fn a_part_has_at_most_so_many_bytes() {
    let texts = StringArray::from(vec!["four", "four", "", "four", "eight by"]);
    let batch = RecordBatch::try_from_iter([("s", Arc::new(texts) as _)]).unwrap();
    assert_eq!(rows(&batch, 100, 8), [3, 1, 1]);
    let error = parts(&batch, 100, 7).unwrap_err().to_string();
    assert!(error.contains("a row has 8 bytes"), "{error}");
}
