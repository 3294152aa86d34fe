use super::{nested_json, npy, text};
use benthic_array::{Dtype, Values};
use serde_json::json;

fn values(shape: &[u64], numbers: &[i16]) -> Values {
    let data = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    Values { dtype: Dtype::Int16, shape: shape.to_vec(), data }
}

#[test]
fn values_are_printed_by_rows_and_tables() {
    let cube = values(&[2, 2, 3], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -12]);
    assert_eq!(text(&cube), "1 2 3\n4 5 6\n\n7 8 9\n10 11 -12");
    assert_eq!(nested_json(&cube), json!([[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, -12]]]));
    assert_eq!(text(&values(&[], &[7])), "7");
    assert_eq!(text(&values(&[3], &[1, 2, 3])), "1 2 3");
    let empty = values(&[2, 0], &[]);
    assert_eq!(text(&empty), "");
    assert_eq!(nested_json(&empty), json!([]));
}

#[test]
fn a_file_has_an_aligned_header() {
    let file = npy(&values(&[2, 1], &[1, 2]));
    assert!(file.starts_with(
        b"\x93NUMPY\x01\x00\x76\x00{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1, ), }"
    ));
    assert_eq!(file[127], b'\n');
    assert_eq!(file[128..], [1, 0, 2, 0]);
}
