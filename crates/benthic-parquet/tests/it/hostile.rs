//! Files that would crash an OSD, fill its memory or hold it for long.

use crate::{batch, code, file, run, run_for};
use arrow_array::{
    ArrayRef, FixedSizeBinaryArray, Int32Array, Int64Array, ListArray, StringArray, new_null_array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use benthic_classes::select::Fault;
use benthic_core::ErrorKind;
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::sync::Arc;

fn texts(rows: usize, len: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("{row:08}").repeat(len.div_ceil(8)))))
}

#[test]
fn what_is_no_parquet_file_is_refused() {
    let all = "SELECT * FROM S3Object";
    for data in [
        &b""[..],
        b"PAR1",
        b"PAR1PAR1",
        b"a,b\n1,2\n3,4\n",
        b"PAR1\xff\xff\xff\x7fPAR1",
        b"PAR1\x00\x00\x00\x00PAR1",
    ] {
        let found = code(all, &Bytes::copy_from_slice(data));
        assert!(["ParquetParsingError", "OverMaxParquetBlockSize"].contains(&&*found), "{found}");
    }
    let encrypted = b"PAR1\x01\x00\x00\x00PARE";
    assert_eq!(code(all, &Bytes::from_static(encrypted)), "UnsupportedParquetType");
}

/// Two billion values in a page of a few bytes.
#[test]
fn lists_of_nulls_have_a_limit() {
    let nulls = |len: usize| {
        let item = Arc::new(Field::new("element", DataType::Int64, true));
        let values = new_null_array(&DataType::Int64, len);
        let list = ListArray::new(item, OffsetBuffer::from_lengths([len]), values, None);
        file(&batch([("s", Arc::new(list) as ArrayRef)]), WriterProperties::builder())
    };
    assert_eq!(code("SELECT s.s FROM S3Object s", &nulls(10_000_000)), "OverMaxParquetBlockSize");
    assert_eq!(code("SELECT s.s FROM S3Object s", &nulls(600_000)), "OverMaxRecordSize");
    assert!(run("SELECT s.s FROM S3Object s", &nulls(1_000)).is_ok());
}

/// Pages that a decoder expands a thousand times.
#[test]
fn pages_have_a_limit() {
    let rows = 200_000;
    for compression in [Compression::ZSTD(ZstdLevel::default()), Compression::GZIP(GzipLevel::default())] {
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_dictionary_enabled(false)
            .set_data_page_size_limit(usize::MAX)
            .set_data_page_row_count_limit(usize::MAX)
            .set_write_batch_size(rows);
        let wide: ArrayRef =
            Arc::new(StringArray::from_iter_values(std::iter::repeat_n("x".repeat(800), rows)));
        let data = file(&batch([("s", wide), ("id", Arc::new(Int32Array::from(vec![7; rows])))]), properties);
        assert!(data.len() < 2 << 20, "{}", data.len());
        assert_eq!(code("SELECT MAX(s.s) FROM S3Object s", &data), "OverMaxParquetBlockSize");
        assert_eq!(run("SELECT MAX(s.id) AS id FROM S3Object s", &data).unwrap(), "{\"id\":7}\n");
    }
}

/// The budget is for the pages of a batch, not for those of a row group.
#[test]
fn a_large_row_group_with_a_dictionary_is_read() {
    let rows = 200_000;
    let texts = (0..rows).map(|row| format!("{row:0800}"));
    let column: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_page_size_limit(4_096);
    let data = file(&batch([("s", column)]), properties);
    let query = "SELECT COUNT(*) AS n FROM S3Object s WHERE s.s > '0'";
    assert_eq!(run(query, &data).unwrap(), "{\"n\":200000}\n");
}

/// A dictionary's value is in every row. Views of it are not copies.
#[test]
fn long_values_of_a_dictionary_are_not_copied() {
    let rows = 100_000;
    let text = "x".repeat(900_000);
    let column: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..rows).map(|row| if row == 0 { text.as_str() } else { "y" }),
    ));
    let properties = WriterProperties::builder().set_dictionary_page_size_limit(usize::MAX);
    let data = file(&batch([("s", column)]), properties);
    assert_eq!(
        run("SELECT COUNT(*) AS n FROM S3Object s WHERE s.s = 'y'", &data).unwrap(),
        "{\"n\":99999}\n"
    );
    let large = file(&batch([("s", texts(1, 2 << 20))]), WriterProperties::builder());
    assert_eq!(code("SELECT s.s FROM S3Object s", &large), "OverMaxRecordSize");
}

#[test]
fn values_and_encodings_that_need_much_memory_are_refused() {
    let wide = FixedSizeBinaryArray::try_from_iter([vec![0_u8; 100_000]].into_iter()).unwrap();
    let data = file(&batch([("s", Arc::new(wide) as ArrayRef)]), WriterProperties::builder());
    assert_eq!(code("SELECT s.s FROM S3Object s", &data), "UnsupportedParquetType");
    let deltas =
        WriterProperties::builder().set_dictionary_enabled(false).set_encoding(Encoding::DELTA_BYTE_ARRAY);
    let data = file(&batch([("s", texts(10, 8)), ("n", texts(10, 8))]), deltas);
    assert_eq!(code("SELECT s.s FROM S3Object s", &data), "UnsupportedParquetType");
    let brotli = WriterProperties::builder().set_compression(Compression::LZ4);
    let data = file(&batch([("s", texts(10, 8))]), brotli);
    assert_eq!(code("SELECT s.s FROM S3Object s", &data), "ParquetUnsupportedCompressionCodec");
}

#[test]
fn a_query_ends_at_its_deadline() {
    let rows = 400_000;
    let data = file(
        &batch([("n", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef)]),
        WriterProperties::builder().set_dictionary_enabled(false),
    );
    for query in ["SELECT SUM(s.n) FROM S3Object s", "SELECT COUNT(*) FROM S3Object s WHERE 'a' LIKE '%a%'"] {
        match run_for(query, &data, 10) {
            Err(Fault::Host(error)) => assert_eq!(error.kind(), ErrorKind::LimitExceeded),
            other => panic!("{other:?}"),
        }
    }
}

/// Damage anywhere ends in a fault or in an answer: no panic, and no read outside of the object.
#[test]
fn damaged_files_end_in_a_fault() {
    let list = |row: i32| Some(vec![Some(row), None]);
    let lists = ListArray::from_iter_primitive::<arrow_array::types::Int32Type, _, _>((0..300).map(list));
    let table = batch([
        ("n", Arc::new(Int64Array::from_iter_values(0..300)) as ArrayRef),
        ("s", texts(300, 8)),
        ("l", Arc::new(lists)),
    ]);
    let (mut answered, mut refused) = (0, 0);
    for seed in seed::many(if seed::is_long() { 100_000 } else { 600 }) {
        let rng = &mut Rng(seed);
        let compression = if rng.one_in(2) { Compression::SNAPPY } else { Compression::UNCOMPRESSED };
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_dictionary_enabled(rng.one_in(2))
            .set_data_page_row_count_limit(64)
            .set_write_batch_size(64)
            .set_max_row_group_row_count(Some(200));
        let mut data = file(&table, properties).to_vec();
        for _ in 0..1 + rng.below(3) {
            // Often in the footer.
            let part = if rng.one_in(2) { data.len() } else { data.len().min(1_500) };
            let at = data.len() - 1 - rng.below(part);
            data[at] = match rng.below(4) {
                0 => data[at] ^ 1 << rng.below(8),
                1 => 0xff,
                2 => 0,
                _ => rng.below(256) as u8,
            };
        }
        let data = Bytes::from(data);
        for query in ["SELECT * FROM S3Object", "SELECT s.n, s.l[0] FROM S3Object s WHERE s.s > '0'"] {
            match run_for(query, &data, 10_000) {
                Ok(_) => answered += 1,
                Err(Fault::Query(failure)) => {
                    assert!(!failure.message.is_empty());
                    refused += 1;
                }
                Err(Fault::Host(error)) => assert_eq!(error.kind(), ErrorKind::LimitExceeded),
            }
        }
    }
    assert!(answered > 10 && refused > 10, "{answered} {refused}");
}

/// Files that a fuzzer made up.
#[test]
fn files_of_the_fuzzer_end_in_a_fault() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/parquet");
    let mut files = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let data = Bytes::from(std::fs::read(entry.unwrap().path()).unwrap());
        // No answer is wrong; a panic or a file that takes all memory is.
        let _ = run_for("SELECT * FROM S3Object", &data, 10_000);
        files += 1;
    }
    assert!(files > 10);
}
