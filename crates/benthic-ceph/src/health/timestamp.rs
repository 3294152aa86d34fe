//! Parses Ceph's time stamps, such as `2026-11-23T07:24:34.509725+0000`.

const DAY_S: i64 = 86_400;

/// Seconds since 1970. `None` if the text is not a time, and for `0.000000`, which means never.
pub fn unix_s(text: &str) -> Option<u64> {
    let (date, time) = text.split_once('T')?;
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let clock = time.get(..8)?;
    let mut parts = clock.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let in_range = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    if !in_range {
        return None;
    }
    // Counting years from 1 March puts the leap day at the end of the year. There are 719,468 days
    // between 0000-03-01 and 1970-01-01.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days =
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    let there = days * DAY_S + hour * 3_600 + minute * 60 + second;
    u64::try_from(there - offset_s(&time[8..])?).ok()
}

/// The time zone's offset, from the end of a time stamp: `.509725+0000`, `Z` or nothing.
fn offset_s(rest: &str) -> Option<i64> {
    let zone = rest.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let sign = match zone.as_bytes().first() {
        None | Some(b'Z') => return Some(0),
        Some(b'+') => 1,
        Some(b'-') => -1,
        Some(_) => return None,
    };
    let digits = zone.get(1..5)?;
    let (hours, minutes) = (digits.get(..2)?.parse::<i64>().ok()?, digits.get(2..)?.parse::<i64>().ok()?);
    Some(sign * (hours * 3_600 + minutes * 60))
}

#[cfg(test)]
#[path = "timestamp_tests.rs"]
mod tests;
