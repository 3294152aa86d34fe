use super::vector_file;
use serde_json::{Value, json};

/// The parts of a file: its footer, and the bitmap.
fn parts(file: &[u8], (offset, len): (i64, i64)) -> (Value, Vec<u8>) {
    let end = file.len() - 12;
    let footer_bytes = u32::from_le_bytes(file[end..end + 4].try_into().unwrap()) as usize;
    assert_eq!((&file[..4], &file[end + 4..]), (&b"PFA1"[..], &b"\0\0\0\0PFA1"[..]));
    let footer = &file[end - footer_bytes..end];
    assert_eq!(&file[end - footer_bytes - 4..end - footer_bytes], b"PFA1");
    let blob = &file[offset as usize..(offset + len) as usize];
    assert_eq!(u32::from_be_bytes(blob[..4].try_into().unwrap()) as usize, blob.len() - 8);
    assert_eq!(blob[4..8], [0xd1, 0xd3, 0x39, 0x64]);
    (serde_json::from_slice(footer).unwrap(), blob[8..].to_vec())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_vector_is_a_roaring_bitmap_in_a_puffin_file() {
    let file = vector_file("s3://tables/a.parquet", &[3..5, 900..901, 65_530..65_540, 200_000..200_001]);
    let (footer, bitmap) = parts(&file.bytes, file.blob.unwrap());
    assert_eq!(
        footer["blobs"][0],
        json!({
            "type": "deletion-vector-v1",
            "fields": [2_147_483_645],
            "snapshot-id": -1,
            "sequence-number": -1,
            "offset": 4,
            "length": file.blob.unwrap().1,
            "properties": { "referenced-data-file": "s3://tables/a.parquet", "cardinality": "14" },
        })
    );
    assert_eq!(
        hex(&bitmap),
        "0100000000000000000000003b3002000700000800010003000300000003000300010084030000faff05000100000003000100400d0000ece03d0c"
    );
}

#[test]
fn four_containers_have_places() {
    let ranges: Vec<_> = (0..9).map(|container| container << 16..(container << 16) + 2).collect();
    let file = vector_file("x", &ranges);
    let (_, bitmap) = parts(&file.bytes, file.blob.unwrap());
    let expected = [
        "0100000000000000000000003b300800ff01000001000100010002000100030001000400010005000100060001000700",
        "0100080001004e000000540000005a00000060000000660000006c00000072000000780000007e000000010000000100",
        "010000000100010000000100010000000100010000000100010000000100010000000100010000000100010000000100",
        "114d1206",
    ];
    assert_eq!(hex(&bitmap), expected.concat());
}
