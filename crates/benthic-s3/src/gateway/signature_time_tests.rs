use super::{amz_date_ms, check_time};
use crate::gateway::date_header::AMZ_DATE;
use hyper::header::{HeaderMap, HeaderValue};

const SIGNED: &str = "20261201T120000Z";
const MINUTE_MS: i64 = 60_000;

/// Whether a signature of this time is accepted some minutes later.
fn is_accepted(header: Option<&'static str>, query: &str, minutes_later: i64) -> bool {
    let headers: HeaderMap =
        header.into_iter().map(|time| (AMZ_DATE.parse().unwrap(), HeaderValue::from_static(time))).collect();
    let now_ms = amz_date_ms(SIGNED).unwrap().checked_add_signed(minutes_later * MINUTE_MS).unwrap();
    check_time(&headers, query, now_ms).is_ok()
}

#[test]
fn the_clock_of_a_client_may_be_off_by_15_minutes() {
    assert_eq!(amz_date_ms(SIGNED), Some(1_796_126_400_000));
    for (minutes_later, expected) in [(-16, false), (-15, true), (0, true), (15, true), (16, false)] {
        assert_eq!(is_accepted(Some(SIGNED), "", minutes_later), expected, "{minutes_later}");
        // A parameter is no signature.
        let later = is_accepted(Some(SIGNED), "X-Amz-Date=20261201T121600Z", minutes_later);
        assert_eq!(later, expected, "{minutes_later}");
    }
    assert!(!is_accepted(None, "", 0) && !is_accepted(Some("nonsense"), "", 0));
}

#[test]
fn a_url_is_valid_until_it_expires() {
    let query = format!("X-Amz-Date={SIGNED}&X-Amz-Expires=86400&X-Amz-Signature=00");
    for (minutes_later, expected) in [(-16, false), (-15, true), (24 * 60, true)] {
        assert_eq!(is_accepted(None, &query, minutes_later), expected, "{minutes_later}");
    }
    // The header is not that of the signature.
    assert!(!is_accepted(Some("20261201T114000Z"), &query, -20));
    assert!(!is_accepted(Some(SIGNED), "X-Amz-Signature=00", 0));
}
