use super::StoreUri;
use benthic_core::ErrorKind;

#[test]
fn store_uris_parse_and_print() {
    for text in [
        "file:/a/b",
        "file:./benthic-data",
        "mem:",
        "ceph:",
        "ceph:?conf=/x/ceph.conf&id=client.x",
        "ceph:?id=a",
        "ceph:?conf=/x/ceph.conf&id=a&read=near",
    ] {
        assert_eq!(text.parse::<StoreUri>().unwrap().to_string(), text);
    }
    for text in
        ["", "file:", "mem:x", "ceph:x", "ceph:?x=1", "ceph:?read=far", "ceph:?conf=", "http://x", "/a/b"]
    {
        assert_eq!(text.parse::<StoreUri>().unwrap_err().kind(), ErrorKind::InvalidArgument, "{text:?}");
    }
}
