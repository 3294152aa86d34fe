use super::{LabelRange, decoding};
use crate::metadata::{Node, parse_v2, parse_v3};
use crate::reduce::Decoding;
use crate::selection::{Bounded, Slice};
use bytes::Bytes;
use serde_json::{Value, json};

fn decoded(data_type: &str, attributes: Value) -> benthic_core::Result<Option<Decoding>> {
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": data_type, "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": "default", "codecs": ["bytes"], "attributes": attributes,
    });
    match parse_v3(&document.to_string().into()).unwrap() {
        Node::Array(metadata) => decoding(&metadata),
        Node::Group(_) => unreachable!(),
    }
}

#[test]
fn attributes_give_the_decoding() {
    let found = decoded(
        "int16",
        json!({"scale_factor": 0.5, "add_offset": [273], "missing_value": [-1, -2], "_FillValue": -1}),
    );
    let expected = Decoding {
        missing: Bounded(vec![Bytes::from_static(&[254, 255]), Bytes::from_static(&[255, 255])]),
        scale: Some(0.5),
        offset: Some(273.0),
        ..Decoding::default()
    };
    assert_eq!(found.unwrap(), Some(expected));
    assert_eq!(decoded("int16", json!({"units": "K"})).unwrap(), None);
    assert_eq!(decoded("float32", json!({"_FillValue": "AAAAAAAA+H8="})).unwrap(), None);
    let filled = decoded("float32", json!({"_FillValue": 1e20})).unwrap().unwrap();
    assert_eq!(filled.missing.0, [Bytes::copy_from_slice(&1e20f32.to_le_bytes())]);
    let range = decoded("uint8", json!({"valid_range": [1, 9]})).unwrap().unwrap();
    assert_eq!((range.valid_min, range.valid_max), (Some(1.0), Some(9.0)));
    assert_eq!(decoded("uint8", json!({"_FillValue": -1, "missing_value": 1e20})).unwrap(), None);
    assert_eq!(decoded("int16", json!({"missing_value": "NaN"})).unwrap(), None);
    let open = decoded("int16", json!({"valid_max": "Infinity"})).unwrap().unwrap();
    assert_eq!(open.valid_max, Some(f64::INFINITY));
    assert!(decoded("int8", json!({"_Unsigned": "true"})).is_err());
    assert!(decoded("uint8", json!({"scale_factor": "two"})).is_err());
}

#[test]
fn a_fill_value_of_version_2_marks_missing_elements_unless_it_is_0() {
    let of = |fill: Value| {
        let document = json!({
            "zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<i2", "order": "C", "fill_value": fill,
            "filters": null, "compressor": null,
        });
        decoding(&parse_v2(document.to_string().as_bytes(), None).unwrap()).unwrap()
    };
    assert_eq!(of(json!(-1)).unwrap().missing.0, [Bytes::from_static(&[255, 255])]);
    assert_eq!((of(json!(0)), of(json!(null))), (None, None));
}

#[test]
fn labels_select_neighbours() {
    let of = |min, max, coordinates: &[f64]| LabelRange { min, max }.positions(coordinates).ok();
    assert_eq!(of(10.0, 20.0, &[0.0, 10.0, 20.0, 30.0]), Some(Slice { start: 1, step: 1, count: 2 }));
    assert_eq!(of(10.0, 20.0, &[30.0, 20.0, 10.0, 0.0]), Some(Slice { start: 1, step: 1, count: 2 }));
    assert_eq!(of(10.0, 20.0, &[10.0, 30.0, 20.0]), None);
    assert_eq!(of(40.0, 50.0, &[10.0, 30.0, f64::NAN]), None);
}
