use super::{ArrayMetadata, Node, is_metadata, is_node, parse_v2, parse_v3, writing_order};
use crate::dtype::Dtype;
use crate::json::element_json;
use benthic_core::{ErrorKind, Result};
use serde_json::{Value, json};

fn v3(change: impl FnOnce(&mut Value)) -> Result<ArrayMetadata> {
    let mut document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [10, 7], "data_type": "float32", "fill_value": "NaN",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, "zstd"],
        "dimension_names": ["y", null],
    });
    change(&mut document);
    match parse_v3(&document.to_string().into())? {
        Node::Array(array) => Ok(*array),
        Node::Group(_) => panic!("a group"),
    }
}

#[test]
fn an_array_of_version_3() {
    let array = v3(|_| {}).unwrap();
    assert_eq!(array.shape, [10, 7]);
    assert_eq!(array.dimensions, [Some("y".to_owned()), None]);
    assert_eq!(array.codecs, ["zstd"]);
    assert_eq!(array.chunk_key(&[1, 0]), "c/1/0");
    assert_eq!(array.chunk_position("c/2/1"), Some(vec![2, 1]));
    for stray in ["c/3/1", "c/2/2", "c/2", "c/02/1", "2/1", "c/2/1/0", "c/-1/0", "c.2.1", "zarr.json"] {
        assert_eq!(array.chunk_position(stray), None, "{stray}");
    }
}

#[test]
fn chunk_keys_of_other_encodings() {
    let array = v3(|document| document["chunk_key_encoding"] = json!("v2")).unwrap();
    assert_eq!(array.chunk_key(&[1, 0]), "1.0");
    assert_eq!(array.chunk_position("1.0"), Some(vec![1, 0]));
    let scalar = v3(|document| {
        document["shape"] = json!([]);
        document["chunk_grid"]["configuration"]["chunk_shape"] = json!([]);
        document["dimension_names"] = json!([]);
    })
    .unwrap();
    assert_eq!(scalar.chunk_key(&[]), "c");
    assert_eq!(scalar.chunk_position("c"), Some(Vec::new()));
}

#[test]
fn an_array_of_version_2() {
    let document = json!({
        "zarr_format": 2, "shape": [10, 7], "chunks": [4, 6], "dtype": ">i2", "order": "F", "fill_value": null,
        "filters": [{"id": "shuffle", "elementsize": 2}], "compressor": {"id": "zlib", "level": 1},
    });
    let attributes = json!({"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"}).to_string();
    let array = parse_v2(document.to_string().as_bytes(), Some(&attributes.into())).unwrap();
    assert_eq!(array.dimensions, [Some("y".to_owned()), Some("x".to_owned())]);
    assert_eq!(array.attributes.keys().collect::<Vec<_>>(), ["units"]);
    assert_eq!(array.codecs, ["order F", "shuffle", "zlib"]);
    assert_eq!(array.chunk_key(&[1, 0]), "1.0");
    assert_eq!(array.v2_fill, None);
}

#[test]
fn malformed_and_unsupported_metadata_are_told_apart() {
    let kind = |change: fn(&mut Value)| v3(change).unwrap_err().kind();
    let corrupt: [fn(&mut Value); 9] = [
        |document| document["shape"] = json!([-1, 2]),
        |document| document["shape"] = json!([1, 2, 3]),
        |document| document["chunk_grid"]["configuration"]["chunk_shape"] = json!([0, 2]),
        |document| document["fill_value"] = json!("zero"),
        |document| document["codecs"] = json!([]),
        |document| document["codecs"] = json!(["zstd", "bytes"]),
        |document| {
            document["codecs"] = json!([{"name": "transpose", "configuration": {"order": [0, 0]}}, "bytes"])
        },
        |document| document["dimension_names"] = json!(["y"]),
        |document| document["attributes"] = json!(3),
    ];
    for change in corrupt {
        assert_eq!(kind(change), ErrorKind::Corrupt);
    }
    let unsupported: [fn(&mut Value); 5] = [
        |document| document["data_type"] = json!("complex64"),
        |document| document["codecs"] = json!(["bytes", "unknown"]),
        |document| document["chunk_grid"]["name"] = json!("rectilinear"),
        |document| document["novelty"] = json!({"name": "x"}),
        |document| document["storage_transformers"] = json!([{"name": "x"}]),
    ];
    for change in unsupported {
        assert_eq!(kind(change), ErrorKind::Unsupported);
    }
    let huge = |document: &mut Value| {
        document["chunk_grid"]["configuration"]["chunk_shape"] = json!([1 << 20, 1 << 20]);
    };
    assert_eq!(v3(huge).unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert!(v3(|document| document["novelty"] = json!({"must_understand": false})).is_ok());
}

#[test]
fn numbers_that_json_lacks_are_texts() {
    let document = r#"{"zarr_format": 3, "node_type": "group", "attributes": {"a": NaN, "b \" NaN": [-Infinity, "NaN\\"]}}"#;
    let Node::Group(group) = parse_v3(&document.into()).unwrap() else { panic!("an array") };
    assert_eq!(json!(group.attributes), json!({"a": "NaN", "b \" NaN": ["-Infinity", "NaN\\"]}));
    assert_eq!(parse_v3(&"{\"a\": NaNx, \"\\".into()).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn nested_shards_are_unsupported() {
    let shard = |inner: Value| {
        json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [2, 2], "codecs": inner, "index_codecs": ["bytes", "crc32c"]}}])
    };
    assert!(v3(|document| document["codecs"] = shard(json!(["bytes"]))).is_ok());
    for (depth, expected) in [(2, ErrorKind::Unsupported), (100, ErrorKind::Corrupt)] {
        let nested = (0..depth).fold(json!(["bytes"]), |nested, _| shard(nested));
        assert_eq!(v3(|document| document["codecs"] = nested).unwrap_err().kind(), expected);
    }
    let uneven = |document: &mut Value| {
        document["codecs"] = shard(json!(["bytes"]));
        document["codecs"][0]["configuration"]["chunk_shape"] = json!([3, 2]);
    };
    assert_eq!(v3(uneven).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn fill_values_are_elements() {
    let fill = |data_type: &str, value: Value| {
        let found = v3(|document| {
            document["data_type"] = json!(data_type);
            document["fill_value"] = value;
        });
        found.ok().map(|array| element_json(array.format.dtype, &array.format.fill))
    };
    assert_eq!(fill("int8", json!(-128)), Some(json!(-128)));
    assert_eq!(fill("int8", json!(128)), None);
    assert_eq!(fill("uint64", json!(u64::MAX)), Some(json!(u64::MAX)));
    assert_eq!(fill("uint8", json!(0.0)), Some(json!(0)));
    assert_eq!(fill("uint8", json!(0.5)), None);
    assert_eq!(fill("bool", json!(true)), Some(json!(true)));
    assert_eq!(fill("float32", json!(0.1)), Some(json!(0.1)));
    assert_eq!(fill("float32", json!("0x7fc00000")), Some(json!("NaN")));
    assert_eq!(fill("float64", json!("-Infinity")), Some(json!("-Infinity")));
    for dtype in Dtype::ALL {
        assert!(fill(dtype.name(), json!(0)).is_some(), "{dtype}");
    }
}

#[test]
fn names_of_metadata_are_recognized_and_ordered() {
    assert!(is_metadata("zarr.json") && is_metadata("t/.zattrs") && !is_metadata("t/zarr.json.bak"));
    assert!(is_node("t/.zarray") && !is_node("t/.zattrs") && !is_node(".zmetadata"));
    let mut names = ["zarr.json", ".zgroup", ".zattrs", "g/t/.zarray", "g/zarr.json", "g/t/.zattrs"];
    names.sort_by_key(|name| writing_order(name));
    assert_eq!(names, ["g/t/.zattrs", "g/t/.zarray", "g/zarr.json", ".zattrs", "zarr.json", ".zgroup"]);
}
