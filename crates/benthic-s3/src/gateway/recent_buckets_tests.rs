use super::{AGE_MS_MAX, RecentBuckets};
use crate::sal::{Attributes, Bucket, Id, Quota, Versioning};

fn bucket(revision: u64) -> Bucket {
    Bucket {
        name: "b".to_owned(),
        id: Id([7; 16]),
        owner: "lab".to_owned(),
        created_ms: 0,
        shards: 1,
        revision,
        deleting_ms: None,
        versioning: Versioning::Off,
        quota: Quota::default(),
        attributes: Attributes::new(),
    }
}

#[test]
fn a_record_is_known_for_a_second_from_the_begin_of_its_read() {
    let recent = RecentBuckets::default();
    assert_eq!(recent.get("b", 5_000), None);
    let begun = recent.begin(5_000);
    recent.remember(&begun, &bucket(1));
    assert_eq!(recent.get("b", 5_000 + AGE_MS_MAX - 1), Some(bucket(1)));
    assert_eq!(recent.get("b", 5_000 + AGE_MS_MAX), None);
    assert_eq!(recent.get("other", 5_000), None);
}

#[test]
fn a_change_has_an_effect_at_once() {
    let recent = RecentBuckets::default();
    let begun = recent.begin(0);
    recent.remember(&begun, &bucket(1));
    let before = recent.begin(0);
    recent.forget("b");
    assert_eq!(recent.get("b", 0), None);
    // This read may have seen the bucket as it was before the change.
    recent.remember(&before, &bucket(1));
    assert_eq!(recent.get("b", 0), None);
    let after = recent.begin(0);
    recent.remember(&after, &bucket(2));
    assert_eq!(recent.get("b", 0), Some(bucket(2)));
}
