use super::{AMZ_DATE, add_amz_date};
use hyper::header::{AUTHORIZATION, DATE, HeaderMap, HeaderValue};

fn with_dates(dates: &[&'static str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_static("AWS4-HMAC-SHA256 a"));
    for date in dates {
        headers.append(DATE, HeaderValue::from_static(date));
    }
    headers
}

fn added(mut headers: HeaderMap) -> Option<HeaderValue> {
    add_amz_date(&mut headers);
    headers.remove(AMZ_DATE)
}

#[test]
fn the_header_date_becomes_the_time_of_the_signature() {
    for date in [
        "Mon, 30 Nov 2026 08:05:09 GMT",
        "Mon, 30 Nov 2026 08:05:09 -0000",
        "Mon, 30 Nov 2026 08:05:09 +0000",
        "20261130T080509Z",
    ] {
        assert_eq!(added(with_dates(&[date])).unwrap(), "20261130T080509Z", "{date}");
    }
    for invalid in ["", "now", "Mon, 30 Nov 2026 08:05:09 +0100", "Mon, 31 Nov 2026 08:05:09 GMT", "GMT"] {
        assert_eq!(added(with_dates(&[invalid])), None, "{invalid}");
    }
    let date = "20261130T080509Z";
    assert_eq!(added(with_dates(&[date, date])), None);
}

#[test]
fn x_amz_date_wins_and_unsigned_requests_stay_as_they_are() {
    let mut headers = with_dates(&["Mon, 30 Nov 2026 08:05:09 GMT"]);
    headers.insert(AMZ_DATE, HeaderValue::from_static("20200101T000000Z"));
    assert_eq!(added(headers).unwrap(), "20200101T000000Z");
    let mut headers = with_dates(&["Mon, 30 Nov 2026 08:05:09 GMT"]);
    headers.remove(AUTHORIZATION);
    assert_eq!(added(headers), None);
}
