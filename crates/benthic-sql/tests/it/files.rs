//! Rows, and files of them in every format.

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use std::sync::Arc;

/// Columns `id`, `fare` and `name`; the id determines the row.
pub fn trips(ids: std::ops::Range<i64>) -> RecordBatch {
    let fares = Float64Array::from_iter(ids.clone().map(|id| (id % 7 != 0).then_some(id as f64 / 4.0)));
    let names = StringArray::from_iter_values(ids.clone().map(|id| format!("trip {id}")));
    let columns: [(&str, ArrayRef, bool); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(ids)), true),
        ("fare", Arc::new(fares), true),
        ("name", Arc::new(names), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

pub fn parquet(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

pub fn csv(batch: &RecordBatch) -> Vec<u8> {
    let mut text = Vec::new();
    arrow::csv::Writer::new(&mut text).write(batch).unwrap();
    text
}

/// Writes nulls explicitly, so that the first line has all columns.
pub fn json(batch: &RecordBatch) -> Vec<u8> {
    let mut text = Vec::new();
    let writer = arrow::json::WriterBuilder::new().with_explicit_nulls(true);
    writer.build::<_, arrow::json::writer::LineDelimited>(&mut text).write(batch).unwrap();
    text
}

pub fn arrow_file(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = arrow::ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

/// LZ4 is the default compression of other tools.
pub fn arrow_file_compressed(batch: &RecordBatch) -> Vec<u8> {
    let lz4 = Some(arrow::ipc::CompressionType::LZ4_FRAME);
    let options = arrow::ipc::writer::IpcWriteOptions::default().try_with_compression(lz4).unwrap();
    let mut writer =
        arrow::ipc::writer::FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

pub fn arrow_stream(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}
