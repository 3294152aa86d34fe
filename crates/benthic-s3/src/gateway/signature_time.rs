//! The time of a signature.
//!
//! `s3s` has one limit for the clocks of all clients, also for forms, which browsers send long
//! after a server has signed them: their policy says until when. So `s3s` gets the limit for forms,
//! and [`check_time`] has that of all other requests.

use super::date_header::AMZ_DATE;
use super::unix_ms;
use hyper::header::HeaderMap;
use s3s::dto::{Timestamp, TimestampFormat};
use s3s::{S3Result, s3_error};

/// How far the clock of a client may be off, in milliseconds. It is that of AWS.
const CLOCK_MS_MAX: u64 = 15 * 60 * 1_000;
/// How long a signed form can be sent if its policy does not expire before, in seconds. AWS's keys
/// for signatures are valid for this time.
pub(super) const FORM_S_MAX: u32 = 7 * 24 * 3_600;

/// Refuses a signature in a header or in a URL whose time is too far from `now_ms`. `s3s` has
/// checked the signature, and that a URL has not expired.
///
/// # Errors
/// `RequestTimeTooSkewed`; `AccessDenied` without a time.
pub(super) fn check_time(headers: &HeaderMap, query: &str, now_ms: u64) -> S3Result<()> {
    let (mut is_url, mut url_time) = (false, None);
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "X-Amz-Signature" => is_url = true,
            "X-Amz-Date" if url_time.is_none() => url_time = Some(value),
            _ => {}
        }
    }
    let header_time = || headers.get(AMZ_DATE).and_then(|time| time.to_str().ok());
    let time = if is_url { url_time.as_deref() } else { header_time() };
    let signed_ms = time.and_then(amz_date_ms).ok_or_else(|| s3_error!(AccessDenied))?;
    let age_ms = if is_url { 0 } else { now_ms.saturating_sub(signed_ms) };
    if age_ms.max(signed_ms.saturating_sub(now_ms)) > CLOCK_MS_MAX {
        let message = "The difference between the request time and the current time is too large.";
        return Err(s3_error!(RequestTimeTooSkewed, "{message}"));
    }
    Ok(())
}

/// The time in the form of `x-amz-date`, in milliseconds since 1970.
pub(super) fn amz_date_ms(text: &str) -> Option<u64> {
    let part = |from: usize, to: usize| text.get(from..to);
    let (day, time) = ([part(0, 4)?, part(4, 6)?, part(6, 8)?], [part(9, 11)?, part(11, 13)?, part(13, 15)?]);
    let time = format!("{}T{}Z", day.join("-"), time.join(":"));
    unix_ms(&Timestamp::parse(TimestampFormat::DateTime, &time).ok()?)
}

#[cfg(test)]
#[path = "signature_time_tests.rs"]
mod tests;
