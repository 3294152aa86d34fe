use super::{is_chunk, is_metadata};

#[test]
fn names_of_chunks_and_metadata_are_recognized() {
    for name in ["t/c/0/1", "c", "t/c", "t/0.1", "t/c.0.1", "t/12"] {
        assert!(is_chunk(name), "{name}");
    }
    for name in ["t/cat.jpg", "t/", "t/c.x", "t/1.", "t/-1", "zarr.json"] {
        assert!(!is_chunk(name), "{name}");
    }
    assert!(is_metadata("zarr.json") && is_metadata("t/.zarray") && !is_metadata("t/zarr.json.bak"));
}
