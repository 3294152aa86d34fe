use super::{AttributeValue, NewArray, document, fill_attribute};
use crate::codec::Compressor;
use crate::dtype::Dtype;
use crate::metadata::{Node, parse_v3};
use bytes::Bytes;
use serde_json::json;

fn array(dtype: Dtype, fill: Vec<u8>) -> NewArray {
    NewArray {
        dtype,
        shape: vec![10, 7],
        chunk_shape: vec![4, 7],
        fill: fill.into(),
        dimensions: vec![Some("y".to_owned()), None],
        attributes: vec![("units".to_owned(), AttributeValue::Text("K \"\n".to_owned()))],
        compressor: Compressor::Blosc,
    }
}

#[test]
fn a_document_has_what_the_array_has() {
    let fills: [(Dtype, Vec<u8>); 6] = [
        (Dtype::Bool, vec![1]),
        (Dtype::Int8, vec![0x80]),
        (Dtype::Uint64, u64::MAX.to_le_bytes().to_vec()),
        (Dtype::Float32, f32::NAN.to_le_bytes().to_vec()),
        // netCDF's default, which serde_json reads as its neighbour.
        (Dtype::Float64, 9.969209968386869e36f64.to_le_bytes().to_vec()),
        // A NaN with other bits than the usual one.
        (Dtype::Float64, (f64::NAN.to_bits() | 0x123).to_le_bytes().to_vec()),
    ];
    for (dtype, fill) in fills {
        let Node::Array(parsed) = parse_v3(&array(dtype, fill.clone()).document().unwrap()).unwrap() else {
            panic!("a group")
        };
        assert_eq!((parsed.format.dtype, &parsed.format.fill), (dtype, &Bytes::from(fill)));
        assert_eq!((&parsed.shape[..], &parsed.format.shape.0[..]), (&[10, 7][..], &[4, 7][..]));
        assert_eq!(parsed.dimensions, [Some("y".to_owned()), None]);
        assert_eq!(parsed.attributes["units"], "K \"\n");
        assert_eq!(parsed.codecs, ["blosc"]);
    }
}

#[test]
fn attributes_may_have_numbers_that_json_lacks() {
    let numbers = [1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(AttributeValue::Float).to_vec();
    let attributes = vec![
        ("list".to_owned(), AttributeValue::List(numbers)),
        ("large".to_owned(), AttributeValue::Unsigned(u64::MAX)),
        ("whole".to_owned(), AttributeValue::Float(2.0)),
    ];
    let text = document(&json!({ "zarr_format": 3 }), &attributes).unwrap();
    let expected = r#"{"zarr_format":3,"attributes":{"list":[1.5,NaN,Infinity,-Infinity],"large":18446744073709551615,"whole":2.0}}"#;
    assert_eq!(text, expected);
}

#[test]
fn the_attribute_fill_value_is_as_xarray_writes_it() {
    // base64.b64encode(struct.pack("<d", -9999.0))
    let text = AttributeValue::Text("AAAAAICHw8A=".to_owned());
    assert_eq!(fill_attribute(Dtype::Float32, &(-9999f32).to_le_bytes()), text);
    assert_eq!(fill_attribute(Dtype::Float64, &(-9999f64).to_le_bytes()), text);
    assert_eq!(fill_attribute(Dtype::Int16, &(-5i16).to_le_bytes()), AttributeValue::Integer(-5));
    assert_eq!(fill_attribute(Dtype::Uint8, &[255]), AttributeValue::Unsigned(255));
}
