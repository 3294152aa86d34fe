use super::{
    AvroFile, FILE_BYTES_MAX, READ_BYTES_MAX, Record, Value, encode_bytes, encode_len, encode_number, header,
};
use benthic_core::{ErrorKind, Result};
use miniz_oxide::deflate::compress_to_vec;

const SCHEMA: &str = r#"{"type":"record","name":"r","fields":[{"name":"number","type":"long"},{"name":"text","type":"string"}]}"#;

fn file(records: i64) -> Vec<u8> {
    let mut file = AvroFile::new(SCHEMA, &[("own", "entry".to_owned())]);
    for number in 0..records {
        let number = if number % 2 == 0 { number } else { -number };
        file.push(&Value::Record(vec![Value::Number(number), Value::Text(format!("text {number}"))]))
            .unwrap();
    }
    file.finish().to_vec()
}

fn read(file: &[u8]) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    super::read(file, |record| {
        records.push(record);
        Ok(())
    })?;
    Ok(records)
}

#[test]
fn what_is_written_is_read() {
    for records in [0, 1, 100_000] {
        let read = read(&file(records)).unwrap();
        assert_eq!(read.len(), records as usize);
        for (number, record) in (0..).zip(&read) {
            let number = if number % 2 == 0 { number } else { -number };
            assert_eq!(record.number("number").unwrap(), Some(number));
            assert_eq!(record.text("text").unwrap(), format!("text {number}"));
            assert_eq!(record.number("other").unwrap(), None);
            assert!(record.number("text").is_err() && record.record("text").is_err());
        }
    }
}

#[test]
fn numbers_are_in_zigzag_coding() {
    // The examples of the specification.
    for (number, bytes) in
        [(0, &[0][..]), (-1, &[1]), (1, &[2]), (-64, &[0x7f]), (64, &[0x80, 1]), (-65, &[0x81, 1])]
    {
        let mut encoded = Vec::new();
        encode_number(number, &mut encoded);
        assert_eq!(encoded, bytes, "{number}");
    }
    for number in [i64::MIN, i64::MAX] {
        let mut encoded = Vec::new();
        encode_number(number, &mut encoded);
        assert_eq!(super::read_number(&mut &encoded[..]).unwrap(), number);
    }
}

fn refused(file: &[u8]) {
    assert_eq!(read(file).err().map(|error| error.kind()), Some(ErrorKind::InvalidArgument));
}

#[test]
fn a_damaged_file_is_refused_or_read_as_other_records() {
    let valid = file(20);
    for len in 0..valid.len() {
        // A file may end after its header.
        assert!(read(&valid[..len]).is_err() || read(&valid[..len]).is_ok_and(|records| records.is_empty()));
    }
    for place in 0..valid.len() {
        for bit in 0..8 {
            let mut damaged = valid.clone();
            damaged[place] ^= 1 << bit;
            if let Err(error) = read(&damaged) {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            }
        }
    }
}

/// A file with this schema and block.
fn of_schema(schema: &str, block: &[u8]) -> Vec<u8> {
    let mut file = header(schema, "null", &[]);
    file.extend_from_slice(&[7; 16]);
    encode_len(1, &mut file);
    encode_bytes(block, &mut file);
    file.extend_from_slice(&[7; 16]);
    file
}

#[test]
fn few_bytes_do_not_stand_for_many_items() {
    let field = |data_type: &str| {
        format!(r#"{{"type":"record","name":"r","fields":[{{"name":"a","type":{data_type}}}]}}"#)
    };
    let mut many = Vec::new();
    encode_number(i64::MAX, &mut many);
    many.push(0);
    for data_type in [
        r#"{"type":"array","items":"null"}"#,
        r#"{"type":"array","items":{"type":"record","name":"e","fields":[]}}"#,
        r#"{"type":"map","values":"null"}"#,
    ] {
        refused(&of_schema(&field(data_type), &many));
    }
    // A type that contains itself, an unknown one, and a type of all memory.
    refused(&of_schema(&field(r#"["null","r"]"#), &[2, 2, 2, 0]));
    refused(&of_schema(&field(r#""other""#), &[0]));
    refused(&of_schema(&field(r#"{"type":"fixed","size":18446744073709551615}"#), &[0]));
    let deep = format!("{}\"null\"{}", "[".repeat(100_000), "]".repeat(100_000));
    refused(&of_schema(&field(&deep), &[0]));
    let mut nested = r#""int""#.to_owned();
    for _ in 0..60 {
        nested = format!(r#"{{"type":"array","items":{nested}}}"#);
    }
    refused(&of_schema(&field(&nested), &[2; 40]));
}

#[test]
fn few_bytes_do_not_stand_for_many_values() {
    let field = |name: &str, data_type: &str| format!(r#"{{"name":"{name}","type":{data_type}}}"#);
    let record =
        |fields: &[String]| format!(r#"{{"type":"record","name":"r","fields":[{}]}}"#, fields.join(","));
    // Each record takes one byte, and has a thousand values.
    let mut fields = vec![field("number", "\"long\"")];
    fields.extend((0..1_000).map(|number| field(&format!("n{number}"), "\"null\"")));
    let schema = record(&fields);
    let of_records = |count: usize| {
        let mut file = header(&schema, "null", &[]);
        file.extend_from_slice(&[7; 16]);
        encode_len(count, &mut file);
        encode_bytes(&vec![0; count], &mut file);
        file.extend_from_slice(&[7; 16]);
        file
    };
    assert_eq!(read(&of_records(100)).unwrap().len(), 100);
    let found = super::read(&of_records(100_000), |record| record.number("number").map(drop));
    assert_eq!(found.err().map(|error| error.kind()), Some(ErrorKind::InvalidArgument));
    // Many blocks of items that take no bytes.
    let mut many = Vec::new();
    for _ in 0..40_000 {
        encode_number(60_000, &mut many);
    }
    many.push(0);
    let array = record(&[field("a", r#"{"type":"array","items":"null"}"#)]);
    refused(&of_schema(&array, &many));
}

/// A file with one block.
fn with_block(codec: &str, records: usize, block: &[u8]) -> Vec<u8> {
    let mut file = header(SCHEMA, codec, &[]);
    file.extend_from_slice(&[7; 16]);
    encode_len(records, &mut file);
    encode_bytes(block, &mut file);
    file.extend_from_slice(&[7; 16]);
    file
}

#[test]
fn a_file_that_expands_too_far_is_refused() {
    let bomb = compress_to_vec(&vec![0; READ_BYTES_MAX + 1], 9);
    assert!(bomb.len() < FILE_BYTES_MAX / 1_000);
    refused(&with_block("deflate", 10, &bomb));
    refused(&with_block("null", 10, &vec![0; READ_BYTES_MAX + 1]));
    refused(&with_block("null", usize::MAX >> 1, &[0, 0]));
    refused(&with_block("snappy", 1, &[0, 0]));
    assert_eq!(read(&with_block("null", 1, &[0, 0])).unwrap().len(), 1);
    // Bytes after the last record.
    refused(&with_block("null", 1, &[0, 0, 0]));
}
