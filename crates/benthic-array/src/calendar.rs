//! Dates along an axis of time, in the calendars of the CF conventions.
//!
//! A coordinate of time is a number of units since a reference date, such as "hours since
//! 1900-01-01". Climate models also use calendars in which all years have the same length, and the
//! calendar "standard" is Julian before 1582-10-15. Libraries for dates know only the proleptic
//! Gregorian calendar, so all seven calendars are computed here, in one function that counts days.
//!
//! Times are milliseconds since the first day of the year 0. A number of days in a float64 is exact
//! to about 10 µs for a reference in the year 1, so finer times would mean nothing.
//!
//! Source: "NetCDF Climate and Forecast Metadata Conventions", section 4.4.

use benthic_core::{Error, Result};
use std::fmt;

const DAY_MS: i64 = 86_400_000;
const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;
const SECOND_MS: i64 = 1_000;
/// Limit on years, so that no computation overflows.
const YEAR_MAX: i64 = 999_999;
/// Limit on the text of a date or of units.
const TEXT_BYTES_MAX: usize = 100;

/// A calendar of the CF conventions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calendar {
    /// Julian before 1582-10-15, then Gregorian.
    Standard,
    ProlepticGregorian,
    Julian,
    NoLeap,
    AllLeap,
    Days360,
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Calendar::Standard => "standard",
            Calendar::ProlepticGregorian => "proleptic_gregorian",
            Calendar::Julian => "julian",
            Calendar::NoLeap => "noleap",
            Calendar::AllLeap => "all_leap",
            Calendar::Days360 => "360_day",
        })
    }
}

/// The Gregorian calendar begins on this day.
const REFORM: (i64, i64, i64) = (1582, 10, 15);

impl Calendar {
    /// The calendar with this name in the conventions.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn from_name(name: &str) -> Result<Calendar> {
        Ok(match &name.to_ascii_lowercase()[..] {
            "standard" | "gregorian" => Calendar::Standard,
            "proleptic_gregorian" => Calendar::ProlepticGregorian,
            "julian" => Calendar::Julian,
            "noleap" | "365_day" => Calendar::NoLeap,
            "all_leap" | "366_day" => Calendar::AllLeap,
            "360_day" => Calendar::Days360,
            _ => {
                let message = "the calendar is not supported; there are standard, gregorian, proleptic_gregorian, \
                    julian, noleap, 365_day, all_leap, 366_day and 360_day";
                return Err(Error::unsupported(message).with("calendar", name));
            }
        })
    }

    fn is_julian(self, date: (i64, i64, i64)) -> bool {
        self == Calendar::Julian || (self == Calendar::Standard && date < REFORM)
    }

    fn is_leap(self, year: i64) -> bool {
        match self {
            Calendar::AllLeap => true,
            Calendar::NoLeap | Calendar::Days360 => false,
            // 1582 is no leap year in either calendar.
            _ if self.is_julian((year, 1, 1)) => year % 4 == 0,
            _ => year % 4 == 0 && (year % 100 != 0 || year % 400 == 0),
        }
    }

    fn month_days(self, year: i64, month: i64) -> i64 {
        match month {
            _ if self == Calendar::Days360 => 30,
            2 => 28 + i64::from(self.is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// The number of days before a date. `None` if the calendar does not have it.
    fn days(self, date: (i64, i64, i64)) -> Option<i64> {
        let (year, month, day) = date;
        let first_year = i64::from(matches!(self, Calendar::Standard | Calendar::Julian));
        let is_date = (first_year..=YEAR_MAX).contains(&year)
            && (1..=12).contains(&month)
            && (1..=self.month_days(year, month)).contains(&day);
        let is_skipped =
            self == Calendar::Standard && date < REFORM && date > (REFORM.0, REFORM.1, REFORM.2 - 11);
        if !is_date || is_skipped {
            return None;
        }
        // The number of leap days before the year, of which the year 0 is the first.
        let before = |divisor: i64| (year + divisor - 1).div_euclid(divisor);
        let year_days = match self {
            Calendar::Days360 => 360 * year,
            Calendar::NoLeap => 365 * year,
            Calendar::AllLeap => 366 * year,
            // 0001-01-01 in the Julian calendar is 0000-12-30 in the Gregorian one.
            _ if self.is_julian(date) => 365 * year + before(4) - 2,
            _ => 365 * year + before(4) - before(100) + before(400),
        };
        let month_days: i64 = (1..month).map(|month| self.month_days(year, month)).sum();
        Some(year_days + month_days + day - 1)
    }
}

/// A date or time, as people write it: a month, a day, an hour, a minute, a second or a part of
/// one. It stands for a period: 2024-02 is the whole month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    date: (i64, i64, i64),
    /// Time of the day.
    time_ms: i64,
    precision: Precision,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Precision {
    Month,
    Time { len_ms: i64 },
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A number of a few digits.
fn digits(text: &str, len_max: usize) -> Option<i64> {
    let is_number = (1..=len_max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Hours, minutes, seconds and a part of a second; at least the hours. Also returns the length of
/// the smallest part.
fn time_of_day(text: &str) -> Option<(i64, i64)> {
    let mut parts = text.split(':');
    let below = |text: &str, end: i64| digits(text, 2).filter(|number| *number < end);
    let mut time_ms = below(parts.next()?, 24)? * HOUR_MS;
    let Some(minutes) = parts.next() else { return Some((time_ms, HOUR_MS)) };
    time_ms += below(minutes, 60)? * MINUTE_MS;
    let Some(seconds) = parts.next() else { return Some((time_ms, MINUTE_MS)) };
    let (seconds, part) =
        seconds.split_once('.').map_or((seconds, None), |(whole, part)| (whole, Some(part)));
    time_ms += below(seconds, 60)? * SECOND_MS;
    let len_ms = match part {
        None => SECOND_MS,
        Some(part) => {
            let thousandths = format!("{:0<3}", &part[..part.len().min(3)]);
            digits(part, 9)?;
            time_ms += digits(&thousandths, 3)?;
            1
        }
    };
    parts.next().is_none().then_some((time_ms, len_ms))
}

impl Period {
    /// Parses `YYYY-MM`, `YYYY-MM-DD`, and a day with a time after `T` or a space: `HH`, `HH:MM`,
    /// `HH:MM:SS` or `HH:MM:SS.SSS`.
    pub fn parse(text: &str) -> Option<Period> {
        if text.len() > TEXT_BYTES_MAX || !text.is_ascii() {
            return None;
        }
        let (date, time) = match text.split_once(['T', ' ']) {
            Some((date, time)) => (date, Some(time)),
            None => (text, None),
        };
        let numbers: Vec<&str> = date.split('-').collect();
        let (year, month, day) = match numbers[..] {
            [year, month] if time.is_none() => (year, month, None),
            [year, month, day] => (year, month, Some(day)),
            _ => return None,
        };
        let day_number = day.map_or(Some(1), |day| digits(day, 2))?;
        let (time_ms, precision) = match (day, time) {
            (None, _) => (0, Precision::Month),
            (Some(_), None) => (0, Precision::Time { len_ms: DAY_MS }),
            (Some(_), Some(time)) => {
                let (time_ms, len_ms) = time_of_day(time)?;
                (time_ms, Precision::Time { len_ms })
            }
        };
        let date = (digits(year, 6)?, digits(month, 2)?, day_number);
        Some(Period { date, time_ms, precision, text: text.to_owned() })
    }

    /// Start and end. The end is not in the period.
    fn range_ms(&self, calendar: Calendar) -> Result<(i64, i64)> {
        let unknown = || {
            Error::invalid_argument("the calendar of the coordinates does not have this date")
                .with("date", &self.text)
                .with("calendar", calendar)
        };
        let start_ms = calendar.days(self.date).ok_or_else(unknown)? * DAY_MS + self.time_ms;
        let end_ms = match self.precision {
            Precision::Time { len_ms } => start_ms + len_ms,
            Precision::Month => {
                let (year, month, _) = self.date;
                let next = if month == 12 { (year + 1, 1, 1) } else { (year, month + 1, 1) };
                calendar.days(next).ok_or_else(unknown)? * DAY_MS
            }
        };
        Ok((start_ms, end_ms))
    }
}

/// The meaning of the numbers of a coordinate of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeUnits {
    unit_ms: f64,
    reference_ms: i64,
    calendar: Calendar,
}

impl TimeUnits {
    /// Parses the attributes `units` and `calendar`, such as "days since 1900-01-01 00:00:00".
    ///
    /// # Errors
    /// `InvalidArgument` if they are not units of time; `Unsupported` for an unknown calendar, and
    /// for units of months and years, whose length differs.
    pub fn parse(units: &str, calendar: Option<&str>) -> Result<TimeUnits> {
        let not_time = || {
            let message = "the units of the coordinates are not of the form \"days since YYYY-MM-DD\", so dates select nothing; \
                select numbers or positions instead";
            let shown: String = units.chars().take(TEXT_BYTES_MAX).collect();
            Error::invalid_argument(message).with("units", shown)
        };
        let calendar = calendar.map_or(Ok(Calendar::Standard), Calendar::from_name)?;
        let mut words = units.split_ascii_whitespace();
        let (Some(unit), Some(since)) = (words.next(), words.next()) else { return Err(not_time()) };
        if !since.eq_ignore_ascii_case("since") || units.len() > TEXT_BYTES_MAX {
            return Err(not_time());
        }
        let unit_ms = match &unit.to_ascii_lowercase()[..] {
            "days" | "day" | "d" => DAY_MS as f64,
            "hours" | "hour" | "hrs" | "hr" | "h" => HOUR_MS as f64,
            "minutes" | "minute" | "mins" | "min" => MINUTE_MS as f64,
            "seconds" | "second" | "secs" | "sec" | "s" => SECOND_MS as f64,
            "milliseconds" | "millisecond" | "millisecs" | "millisec" | "msecs" | "msec" | "ms" => 1.0,
            "microseconds" | "microsecond" | "microsecs" | "microsec" | "us" => 1e-3,
            "nanoseconds" | "nanosecond" | "ns" => 1e-6,
            "months" | "month" | "years" | "year" | "common_years" | "common_year" => {
                let message = "months and years have no fixed length, so dates select nothing; select numbers or positions instead";
                return Err(Error::unsupported(message).with("units", units));
            }
            _ => return Err(not_time()),
        };
        let rest: Vec<&str> = words.collect();
        let reference_ms = reference_ms(&rest.join(" "), calendar).ok_or_else(not_time)?;
        Ok(TimeUnits { unit_ms, reference_ms, calendar })
    }

    /// The time of a coordinate. `None` for NaN and for numbers that are out of range.
    fn time_ms(&self, coordinate: f64) -> Option<i64> {
        let since_ms = (coordinate * self.unit_ms).round();
        // Not for NaN.
        (since_ms.abs() < 1e18).then(|| self.reference_ms + since_ms as i64)
    }
}

/// The reference date, which may have a time and a time zone.
fn reference_ms(text: &str, calendar: Calendar) -> Option<i64> {
    let date_len = text.find(['T', ' ', 'Z']).unwrap_or(text.len());
    let (date, rest) = text.split_at(date_len);
    let rest = rest.trim_start_matches(['T', ' ']);
    let zone_at = rest.find(|letter: char| letter.is_ascii_alphabetic() || "+- ".contains(letter));
    let (time, zone) = rest.split_at(zone_at.unwrap_or(rest.len()));
    let time_ms = if time.is_empty() { 0 } else { time_of_day(time)?.0 };
    let day = Period::parse(date).filter(|day| day.precision != Precision::Month)?;
    let zone = zone.trim();
    let zone_ms = match zone.strip_prefix(['+', '-']) {
        None if ["", "Z", "UTC", "GMT"].contains(&zone) => 0,
        None => return None,
        Some(zone) => {
            let (hours, minutes) = match zone.split_once(':') {
                Some(parts) => parts,
                None => zone.split_at(zone.len().min(2)),
            };
            let minutes =
                if minutes.is_empty() { 0 } else { digits(minutes, 2).filter(|number| *number < 60)? };
            digits(hours, 2)? * HOUR_MS + minutes * MINUTE_MS
        }
    };
    let zone_ms = if zone.starts_with('-') { -zone_ms } else { zone_ms };
    Some(calendar.days(day.date)? * DAY_MS + time_ms - zone_ms)
}

/// A range of dates, from the start of the first period to the end of the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateRange {
    pub first: Option<Period>,
    pub last: Option<Period>,
}

impl DateRange {
    /// Parses `DATE:DATE` with one end or both, or `DATE`.
    pub fn parse(text: &str) -> Option<DateRange> {
        if let Some(period) = Period::parse(text) {
            return Some(DateRange { first: Some(period.clone()), last: Some(period) });
        }
        // Times have colons, too.
        let end = |text: &str| if text.is_empty() { Some(None) } else { Period::parse(text).map(Some) };
        text.match_indices(':').find_map(|(at, _)| {
            let range = DateRange { first: end(&text[..at])?, last: end(&text[at + 1..])? };
            (range.first.is_some() || range.last.is_some()).then_some(range)
        })
    }

    /// For each coordinate, whether it is in the range.
    ///
    /// # Errors
    /// `InvalidArgument` if the calendar does not have a date, or the range ends before it begins.
    pub fn contains(&self, coordinates: &[f64], units: &TimeUnits) -> Result<Vec<bool>> {
        let range_ms = |period: &Option<Period>| {
            period.as_ref().map(|period| period.range_ms(units.calendar)).transpose()
        };
        let (first, last) = (range_ms(&self.first)?, range_ms(&self.last)?);
        let (start_ms, end_ms) =
            (first.map_or(i64::MIN, |(start, _)| start), last.map_or(i64::MAX, |(_, end)| end));
        if start_ms >= end_ms {
            return Err(Error::invalid_argument("a range of dates ends before it begins").with("range", self));
        }
        let is_in = |value: &f64| units.time_ms(*value).is_some_and(|time| time >= start_ms && time < end_ms);
        Ok(coordinates.iter().map(is_in).collect())
    }
}

impl fmt::Display for DateRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |period: &Option<Period>| period.as_ref().map_or("", |period| &period.text).to_owned();
        write!(f, "{}:{}", text(&self.first), text(&self.last))
    }
}

#[cfg(test)]
#[path = "calendar_tests.rs"]
mod tests;
