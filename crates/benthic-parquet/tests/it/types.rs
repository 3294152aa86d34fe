use crate::{batch, code, file, run, run_for};
use arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, ListArray, StringArray, StructArray,
    Time32MillisecondArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field};
use bytes::Bytes;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use std::sync::Arc;

fn all_types() -> Bytes {
    let decimals = Decimal128Array::from(vec![Some(150), None, Some(-5)]).with_precision_and_scale(38, 2);
    let dictionary: DictionaryArray<Int32Type> = vec![Some("eel"), None, Some("eel")].into_iter().collect();
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    map.keys().append_value("k");
    map.values().append_value(7);
    map.append(true).unwrap();
    map.append(false).unwrap();
    map.append(true).unwrap();
    let mut nested = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    nested.values().values().append_value("x");
    nested.values().values().append_null();
    nested.values().append(true);
    nested.append(true);
    nested.append(false);
    nested.append(true);
    let place = StructArray::from(vec![
        (
            Arc::new(Field::new("name", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec![Some("reef"), None, Some("bay")])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("since", DataType::Date32, true)),
            Arc::new(Date32Array::from(vec![Some(0), Some(1), None])) as ArrayRef,
        ),
    ]);
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
        Some(vec![Some(1), None, Some(3)]),
        None,
        Some(vec![]),
    ]);
    file(
        &batch([
            ("tiny", Arc::new(Int8Array::from(vec![Some(-1), None, Some(2)])) as ArrayRef),
            ("id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
            ("large", Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, Some(0)]))),
            ("ok", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
            ("single", Arc::new(Float32Array::from(vec![Some(0.5), None, Some(-1.0)]))),
            ("double", Arc::new(Float64Array::from(vec![Some(0.1), Some(f64::NAN), None]))),
            ("price", Arc::new(decimals.unwrap())),
            ("text", Arc::new(StringArray::from(vec![Some("Añ\"b"), None, Some("")]))),
            ("word", Arc::new(dictionary)),
            ("raw", Arc::new(BinaryArray::from(vec![Some(&b"text"[..]), None, Some(&b"\xff\x00"[..])]))),
            (
                "fixed",
                Arc::new(FixedSizeBinaryArray::try_from_iter([b"ab", b"cd", b"ef"].into_iter()).unwrap()),
            ),
            ("day", Arc::new(Date32Array::from(vec![Some(19_000), None, Some(-1)]))),
            (
                "at",
                Arc::new(
                    TimestampMicrosecondArray::from(vec![Some(1_500_000), None, Some(-1)])
                        .with_timezone("UTC"),
                ),
            ),
            ("local", Arc::new(TimestampMillisecondArray::from(vec![Some(1_500), None, Some(0)]))),
            ("nanos", Arc::new(TimestampNanosecondArray::from(vec![Some(1), None, Some(0)]))),
            ("clock", Arc::new(Time32MillisecondArray::from(vec![Some(3_723_004), None, Some(0)]))),
            ("micros", Arc::new(Time64MicrosecondArray::from(vec![Some(1), None, Some(0)]))),
            ("list", Arc::new(lists)),
            ("nested", Arc::new(nested.finish())),
            ("place", Arc::new(place)),
            ("map", Arc::new(map.finish())),
        ]),
        WriterProperties::builder(),
    )
}

#[test]
fn every_type_has_a_value() {
    let all = run("SELECT * FROM S3Object", &all_types()).unwrap();
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(
        lines[0],
        "{\"tiny\":-1,\"id\":1,\"large\":18446744073709551615,\"ok\":true,\"single\":0.5,\"double\":0.1,\"price\":1.50,\
         \"text\":\"Añ\\\"b\",\"word\":\"eel\",\"raw\":\"text\",\"fixed\":\"ab\",\"day\":\"2022-01-08\",\
         \"at\":\"1970-01-01T00:00:01.500000Z\",\"local\":\"1970-01-01T00:00:01.500-00:00\",\
         \"nanos\":\"1970-01-01T00:00:00.000000001-00:00\",\"clock\":\"01:02:03.004\",\"micros\":\"00:00:00.000001\",\
         \"list\":[1,null,3],\"nested\":[[\"x\",null]],\"place\":{\"name\":\"reef\",\"since\":\"1970-01-01\"},\"map\":{\"k\":7}}"
    );
    assert_eq!(
        lines[1],
        "{\"tiny\":null,\"id\":2,\"large\":null,\"ok\":null,\"single\":null,\"double\":null,\"price\":null,\"text\":null,\
         \"word\":null,\"raw\":null,\"fixed\":\"cd\",\"day\":null,\"at\":null,\"local\":null,\"nanos\":null,\"clock\":null,\
         \"micros\":null,\"list\":null,\"nested\":null,\"place\":{\"name\":null,\"since\":\"1970-01-02\"},\"map\":null}"
    );
    assert!(
        lines[2].contains("\"price\":-0.05,\"text\":\"\",\"word\":\"eel\",\"raw\":\"/wA=\""),
        "{}",
        lines[2]
    );
    assert!(lines[2].contains("\"at\":\"1969-12-31T23:59:59.999999Z\""), "{}", lines[2]);
    assert!(
        lines[2]
            .ends_with("\"list\":[],\"nested\":[],\"place\":{\"name\":\"bay\",\"since\":null},\"map\":{}}")
    );
}

#[test]
fn values_keep_their_types_in_expressions() {
    let data = all_types();
    let value = |expression: &str| {
        run(&format!("SELECT {expression} AS v FROM S3Object s WHERE s.id = 1"), &data).unwrap()
    };
    for (expression, expected) in [
        ("s.price * 3", "4.50"),
        ("s.large + 1", "18446744073709551616"),
        ("s.at < `1970-01-01T00:00:02Z` AND s.day > `2022T`", "true"),
        ("EXTRACT(YEAR FROM s.day)", "2022"),
        ("s.place.name", "\"reef\""),
        ("s.place.NAME || s.word", "\"reefeel\""),
        ("s.place.other IS MISSING AND s.id.x IS MISSING", "true"),
        ("s.list[2]", "3"),
        ("s.list[1] IS NULL", "true"),
        ("s.list[9] IS MISSING", "true"),
        ("s.nested[0]", "[\"x\",null]"),
        ("s.map.k", "7"),
        ("s.\"place\"['name']", "\"reef\""),
        ("S.ID", "1"),
        ("s.fixed LIKE '_b'", "true"),
        ("s.ok", "true"),
    ] {
        assert_eq!(value(expression), format!("{{\"v\":{expected}}}\n"), "{expression}");
    }
    let sum = run(
        "SELECT SUM(s.price) AS s, AVG(s.price) AS a, MAX(s.at) AS m, COUNT(s.tiny) AS c FROM S3Object s",
        &data,
    );
    assert_eq!(sum.unwrap(), "{\"s\":1.45,\"a\":0.725,\"m\":\"1970-01-01T00:00:01.500000Z\",\"c\":2}\n");
    assert_eq!(run("SELECT MIN(s.double) AS m FROM S3Object s", &data).unwrap(), "{\"m\":0.1}\n");
    assert_eq!(run("SELECT COUNT(*) AS n FROM S3Object", &data).unwrap(), "{\"n\":3}\n");
    assert_eq!(run("SELECT 1 AS n FROM S3Object LIMIT 2", &data).unwrap(), "{\"n\":1}\n{\"n\":1}\n");
    // Records of the elements of lists.
    assert_eq!(
        run("SELECT * FROM S3Object[*].list[*]", &data).unwrap(),
        "{\"_1\":1}\n{\"_1\":null}\n{\"_1\":3}\n{}\n"
    );
    assert_eq!(run("SELECT p.name FROM S3Object[*].place p", &data).unwrap().lines().count(), 3);
    for (query, expected) in [
        ("SELECT s.other FROM S3Object s", "MissingHeaders"),
        ("SELECT s.\"ID\" FROM S3Object s", "MissingHeaders"),
        ("SELECT s[0] FROM S3Object s", "InvalidKeyPath"),
        ("SELECT * FROM S3Object[*].other", "MissingHeaders"),
        ("SELECT * FROM S3Object[*][0]", "InvalidDataSource"),
        ("SELECT s.text + 1 FROM S3Object s", "CastFailed"),
    ] {
        assert_eq!(code(query, &data), expected, "{query}");
    }
}

#[test]
fn columns_of_one_name_are_ambiguous() {
    let number = || Arc::new(Int32Array::from(vec![1])) as ArrayRef;
    let data = file(&batch([("a", number()), ("A", number()), ("b", number())]), WriterProperties::builder());
    assert_eq!(run("SELECT s.A, s.b FROM S3Object s", &data).unwrap(), "{\"A\":1,\"b\":1}\n");
    let twice =
        file(&batch([("a", number()), ("a", number()), ("b", number())]), WriterProperties::builder());
    assert_eq!(code("SELECT s.a FROM S3Object s", &twice), "AmbiguousFieldName");
    assert_eq!(run("SELECT s.b FROM S3Object s", &twice).unwrap(), "{\"b\":1}\n");
}

/// The reader fetches the footer and the columns of the query, and stops at the limit.
#[test]
fn a_query_reads_its_columns_only() {
    let rows = 200_000;
    let numbers = |step: i64| {
        Arc::new(Int64Array::from_iter_values((0..rows).map(|n| n * step % 1_000_003))) as ArrayRef
    };
    let texts = StringArray::from_iter_values((0..rows).map(|n| format!("{n:08} of many texts")));
    let table = batch([("a", numbers(7)), ("b", numbers(31)), ("id", numbers(1)), ("text", Arc::new(texts))]);
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
    ] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let properties = WriterProperties::builder()
                .set_dictionary_enabled(false)
                .set_compression(compression)
                .set_max_row_group_row_count(Some(150_000));
            // The second version's own encodings are deltas.
            let properties = match version {
                WriterVersion::PARQUET_1_0 => properties,
                WriterVersion::PARQUET_2_0 => {
                    properties.set_writer_version(version).set_encoding(parquet::basic::Encoding::PLAIN)
                }
            };
            let data = file(&table, properties);
            let read = |query: &str| run_for(query, &data, u64::MAX).unwrap();
            let (sum, totals) = read("SELECT SUM(s.a) AS sum FROM S3Object s");
            let expected: i64 = (0..rows).map(|n| n * 7 % 1_000_003).sum();
            assert_eq!(sum, format!("{{\"sum\":{expected}}}\n"));
            assert!(totals.scanned_bytes < data.len() as u64 * 2 / 3, "{totals:?} of {}", data.len());
            let processed = totals.processed_bytes as i64;
            assert!((rows * 8..rows * 8 + 100_000).contains(&processed), "{totals:?}");
            let (first, totals) = read("SELECT s.text FROM S3Object s LIMIT 1");
            assert_eq!(first, "{\"text\":\"00000000 of many texts\"}\n");
            assert!(totals.scanned_bytes < 1_500_000, "{totals:?}");
            let (found, _) = read("SELECT s.b FROM S3Object s WHERE s.text = '00199999 of many texts'");
            assert_eq!(found, format!("{{\"b\":{}}}\n", 199_999 * 31 % 1_000_003));
            let sorted = "SELECT COUNT(*) AS n FROM S3Object s WHERE s.id BETWEEN 0 AND 9 AND s.a < 100000";
            let (count, totals) = read(sorted);
            assert_eq!(count, "{\"n\":10}\n");
            assert!(totals.processed_bytes < 150_000 * 16 + 100_000, "{totals:?}");
            assert_eq!(read("SELECT COUNT(*) AS n FROM S3Object s WHERE s.id > 200000").1.processed_bytes, 0);
            assert_eq!(read("SELECT COUNT(*) AS n FROM S3Object").1.processed_bytes, 0);
        }
    }
}
