use super::{GENERATION_MAX, Handles, Item};
use benthic_core::ErrorKind;
use std::sync::Arc;

struct One(u32);
struct Other;

impl Item for One {
    const TYPE: &str = "one";
}

impl Item for Other {
    const TYPE: &str = "other";
}

#[test]
fn only_open_handles_of_the_right_type_are_found() {
    let handles = Handles::new();
    let one = handles.add(Arc::new(One(7))).unwrap();
    assert_eq!(handles.get::<One>(one).unwrap().0, 7);
    for wrong in [0, 1, one + 1, one ^ (1 << 63), one ^ (1 << 32), u64::MAX] {
        assert_eq!(handles.get::<One>(wrong).err().unwrap().kind(), ErrorKind::InvalidArgument);
        assert_eq!(handles.remove::<One>(wrong).err().unwrap().kind(), ErrorKind::InvalidArgument);
    }
    assert!(handles.get::<Other>(one).is_err());
    assert!(handles.remove::<Other>(one).is_err());
    assert!(handles.get::<One>(one).is_ok());
}

#[test]
fn a_closed_handle_stays_invalid_when_its_place_is_used_again() {
    let handles = Handles::new();
    let first = handles.add(Arc::new(One(1))).unwrap();
    handles.remove::<One>(first).unwrap();
    assert!(handles.remove::<One>(first).is_err());
    let second = handles.add(Arc::new(One(2))).unwrap();
    assert_eq!(first & 0xffff_ffff, second & 0xffff_ffff);
    assert!(handles.get::<One>(first).is_err());
    assert_eq!(handles.get::<One>(second).unwrap().0, 2);
}

#[test]
fn the_last_generation_is_followed_by_the_first() {
    let handles = Handles::new();
    let first = handles.add(Arc::new(One(1))).unwrap();
    handles.0.write().slots[0].generation = GENERATION_MAX;
    assert!(handles.get::<One>(first).is_err());
    handles.0.write().slots[0].item = None;
    handles.0.write().free.push(0);
    let next = handles.add(Arc::new(One(2))).unwrap();
    assert_eq!(handles.get::<One>(next).unwrap().0, 2);
}
