//! Signatures whose time is in the header `Date`. AWS takes the time from it if there is no
//! `x-amz-date`, but `s3s` only knows `x-amz-date`. So the gateway adds this header.
//!
//! The added header is not among the signed headers. That is safe, because every signature covers
//! its time anyway: with another time, the signature is wrong.

use super::{date, unix_ms};
use hyper::header::{AUTHORIZATION, DATE, HeaderMap, HeaderValue};
use s3s::dto::{Timestamp, TimestampFormat};

/// The header from which `s3s` takes the time of a signature.
pub(super) const AMZ_DATE: &str = "x-amz-date";
const AMZ_DATE_LEN: usize = "YYYYMMDDTHHMMSSZ".len();

/// Adds `x-amz-date` to a signed request that has only `Date`. A date that is not valid adds
/// nothing.
pub(super) fn add_amz_date(headers: &mut HeaderMap) {
    if !headers.contains_key(AUTHORIZATION) || headers.contains_key(AMZ_DATE) {
        return;
    }
    let mut dates = headers.get_all(DATE).iter();
    let (Some(given), None) = (dates.next(), dates.next()) else { return };
    let time = given.to_str().ok().and_then(amz_date);
    if let Some(time) = time.and_then(|time| HeaderValue::try_from(time).ok()) {
        headers.insert(AMZ_DATE, time);
    }
}

/// Brings a date of HTTP or of mail into the form of `x-amz-date`. `s3s` checks a date that seems
/// to have this form already.
fn amz_date(text: &str) -> Option<String> {
    if text.len() == AMZ_DATE_LEN && text.ends_with('Z') {
        return Some(text.to_owned());
    }
    // Python's `email.utils.formatdate`, which boto3 uses, writes the zone of UTC as `-0000`.
    let without_zone = ["-0000", "+0000", "UTC"].iter().find_map(|zone| text.strip_suffix(zone));
    let http_date = without_zone.map_or_else(|| text.to_owned(), |rest| format!("{rest}GMT"));
    let time = Timestamp::parse(TimestampFormat::HttpDate, &http_date).ok()?;
    let text = date(unix_ms(&time)?)?;
    Some(text.get(.."YYYY-MM-DDTHH:MM:SS".len())?.replace(['-', ':'], "") + "Z")
}

#[cfg(test)]
#[path = "date_header_tests.rs"]
mod tests;
