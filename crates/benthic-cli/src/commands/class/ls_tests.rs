use super::{Answers, warnings_about};
use benthic_ceph::CLASS_LIBRARY;
use benthic_core::{Error, ErrorKind};

#[test]
fn osds_with_the_same_failure_share_a_warning() {
    let down = || Err(Error::new(ErrorKind::Unavailable, "the OSD is down"));
    let answers: Answers = vec![(0, down()), (1, Ok(None)), (2, down())];
    let warnings = warnings_about(CLASS_LIBRARY, &answers);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].starts_with("osd.1 does not have the library benthic_1"), "{warnings:?}");
    assert_eq!(warnings[1], "osd.0, osd.2: the OSD is down");
}
