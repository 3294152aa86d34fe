use super::{Coordinates, LabelRange, NumberRange, decoding};
use crate::calendar::DateRange;
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

fn coordinates(values: &[f64], units: &str, calendar: Option<&str>) -> Coordinates {
    let values = values.to_vec();
    Coordinates { values, units: Some(units.to_owned()), calendar: calendar.map(str::to_owned) }
}

#[test]
fn labels_select_neighbours() {
    let of = |min, max, values: &[f64]| {
        LabelRange::Numbers(NumberRange { min, max }).positions(&coordinates(values, "", None)).ok()
    };
    assert_eq!(of(10.0, 20.0, &[0.0, 10.0, 20.0, 30.0]), Some(Slice { start: 1, step: 1, count: 2 }));
    assert_eq!(of(10.0, 20.0, &[30.0, 20.0, 10.0, 0.0]), Some(Slice { start: 1, step: 1, count: 2 }));
    assert_eq!(of(10.0, 20.0, &[10.0, 30.0, 20.0]), None);
    assert_eq!(of(40.0, 50.0, &[10.0, 30.0, f64::NAN]), None);
}

#[test]
fn dates_select_neighbours() {
    let of = |range: &str, coordinates: &Coordinates| {
        LabelRange::Dates(DateRange::parse(range).unwrap()).positions(coordinates)
    };
    let slice = |start, count| Slice { start, step: 1, count };
    // 2024-01-30 00:00, 06:00 and so on.
    let values: Vec<f64> = (0..20).map(|step| 45_319.0 + f64::from(step) / 4.0).collect();
    let days = coordinates(&values, "days since 1900-01-01", Some("gregorian"));
    assert_eq!(of("2024-01-31:2024-02-01", &days).unwrap(), slice(4, 8));
    assert_eq!(of("2024-01-31", &days).unwrap(), slice(4, 4));
    assert_eq!(of("2024-01", &days).unwrap(), slice(0, 8));
    assert_eq!(of("2024-02-02:", &days).unwrap(), slice(12, 8));
    assert_eq!(of(":2024-01-30T05:59", &days).unwrap(), slice(0, 1));
    assert_eq!(of("2024-01-30T06:00:00:2024-01-30T12", &days).unwrap(), slice(1, 2));
    let missing = of("2023-01-01:2023-02-01", &days).unwrap_err().to_string();
    for part in ["range=2023-01-01:2023-02-01", "coordinates=45319..45323.75", "days since 1900-01-01"] {
        assert!(missing.contains(part), "{missing}");
    }
    for (range, coordinates, message) in [
        ("2024-02-01:2024-01-01", days.clone(), "ends before it begins"),
        ("2023-02-29", days.clone(), "does not have this date"),
        ("2024-01-01", coordinates(&values, "degrees_north", None), "not of the form"),
        ("2024-01-01", coordinates(&values, "months since 1900-01-01", None), "no fixed length"),
        ("2024-01-01", coordinates(&values, "days since 1900-01-01", Some("lunar")), "calendar=lunar"),
    ] {
        let error = of(range, &coordinates).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}
