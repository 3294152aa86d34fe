use super::{MIB, Sizes};
use crate::messages::CapacityRange;

#[test]
fn sizes_are_whole_and_within_the_limits() {
    let sizes = |required_bytes, limit_bytes| Sizes::of(Some(&CapacityRange { required_bytes, limit_bytes }));
    let mib = MIB as i64;
    assert_eq!(Sizes::of(None).unwrap().choose(0).unwrap(), 1024 * MIB);
    assert_eq!(sizes(1, 0).unwrap().choose(0).unwrap(), MIB);
    assert_eq!(sizes(0, 5 * mib).unwrap().choose(0).unwrap(), 5 * MIB);
    assert_eq!(sizes(mib, 0).unwrap().choose(7 * MIB).unwrap(), 7 * MIB);
    for (required_bytes, limit_bytes) in [(1, mib - 1), (i64::MAX, 0)] {
        assert!(sizes(required_bytes, limit_bytes).unwrap().choose(0).is_err());
    }
    assert!(sizes(mib, 2 * mib).unwrap().choose(3 * MIB).is_err());
    assert!(sizes(2, 1).is_err() && sizes(-1, 0).is_err());
    assert!(sizes(2, 3).unwrap().contain(3) && !sizes(2, 3).unwrap().contain(4));
}
