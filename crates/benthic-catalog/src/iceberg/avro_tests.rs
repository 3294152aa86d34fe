use super::{
    AvroFile, FILE_BYTES_MAX, READ_BYTES_MAX, Value, encode_bytes, encode_len, encode_number, header, read,
};
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use benthic_core::ErrorKind;
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

#[test]
fn a_library_reads_what_we_write() {
    for records in [0, 1, 100_000] {
        let batches = read(&file(records), SCHEMA).unwrap();
        let numbers: Vec<i64> = batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
            .collect();
        let expected: Vec<i64> =
            (0..records).map(|number| if number % 2 == 0 { number } else { -number }).collect();
        assert_eq!(numbers, expected);
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
    assert_eq!(read(file, SCHEMA).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_damaged_file_is_refused_or_read_as_other_records() {
    let valid = file(20);
    for len in 0..valid.len() {
        // A file may end after its header.
        if read(&valid[..len], SCHEMA).is_ok_and(|batches| batches.iter().any(|batch| batch.num_rows() > 0)) {
            panic!("a file of {len} bytes was read");
        }
    }
    for place in 0..valid.len() {
        for bit in [0, 3, 7] {
            let mut damaged = valid.clone();
            damaged[place] ^= 1 << bit;
            if let Err(error) = read(&damaged, SCHEMA) {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            }
        }
    }
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
    assert_eq!(read(&with_block("null", 1, &[0, 0]), SCHEMA).unwrap()[0].num_rows(), 1);
}
