use super::{CEPH_CLASSES, is_library_name};

#[test]
fn no_name_of_ceph_is_a_library_name() {
    assert!(is_library_name("benthic_1"));
    assert!(is_library_name("lock_1"));
    assert!(is_library_name(&"x".repeat(64)));
    for class in CEPH_CLASSES {
        assert!(!is_library_name(class), "{class}");
    }
    for name in ["", "A_1", "a-1", "a.1", "é", "a/b", &"x".repeat(65)] {
        assert!(!is_library_name(name), "{name:?}");
    }
}
