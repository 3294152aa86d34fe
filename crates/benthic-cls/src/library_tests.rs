use super::{method_limits, osd_flags};
use benthic_core::{MethodFlags, limits};

#[test]
fn a_deadline_can_only_become_shorter() {
    let deadline_ms = |value| method_limits(value).deadline_ms;
    assert_eq!(deadline_ms(Some("250")), 250);
    for value in
        [None, Some(""), Some("0"), Some("-1"), Some("1 s"), Some("10001"), Some("99999999999999999999")]
    {
        assert_eq!(deadline_ms(value), limits::METHOD_DEADLINE_MS, "{value:?}");
    }
}

#[test]
fn flags_are_those_of_the_osd() {
    assert_eq!(osd_flags(MethodFlags::READ), 1);
    assert_eq!(osd_flags(MethodFlags::WRITE), 2);
    assert_eq!(osd_flags(MethodFlags::READ_WRITE), 3);
}
