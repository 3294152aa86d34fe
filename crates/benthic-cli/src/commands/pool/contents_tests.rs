use super::{Count, OBJECTS_MAX, describe_objects};

#[test]
fn statistics_describe_only_what_was_not_counted() {
    let count = |objects| Count { objects, bytes: 3 * objects };
    let described = |counted, reported| describe_objects(count(counted), count(reported));
    assert_eq!(described(0, 0), None);
    assert_eq!(described(1, 0).unwrap(), "1 object with 3 B");
    assert_eq!(described(0, 2).unwrap(), "about 2 objects with about 6 B in the cluster's last statistics");
    let most = OBJECTS_MAX + 1;
    assert_eq!(described(most, 0).unwrap(), "at least 10001 objects with at least 29.3 KiB");
    assert!(described(most, 20_000).unwrap().starts_with("about 20000 objects with about 58.6 KiB"));
}
