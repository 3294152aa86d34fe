use super::{FailureReport, REPORT_TEXT_BYTES_MAX};
use crate::{Error, ErrorKind};

#[test]
fn a_report_has_the_whole_text_up_to_its_limit() {
    let error = Error::new(ErrorKind::Busy, "the lock is held").with_op("exec").with("holder", "a b");
    let report = FailureReport::new(&error, Some(3));
    assert_eq!((report.osd, report.kind()), (Some(3), Some(ErrorKind::Busy)));
    assert_eq!(report.text, "the lock is held holder=\"a b\"");
    let long = FailureReport::new(&Error::new(ErrorKind::Busy, "é".repeat(REPORT_TEXT_BYTES_MAX)), None);
    assert_eq!(long.text, "é".repeat(REPORT_TEXT_BYTES_MAX / 2));
}
