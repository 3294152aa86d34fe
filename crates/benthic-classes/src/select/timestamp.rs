//! Timestamps, and S3 Select's functions of them.
//!
//! A timestamp has a precision, from years to parts of a second, and keeps the offset from UTC with
//! which it was written. [`Timestamp::parse`] and [`Timestamp::text`] use the notation of Amazon
//! Ion: `2010T`, `2010-02T`, `2010-02-03`, `2010-02-03T04:05Z`, `2010-02-03T04:05:06.789+01:30`.
//! `-00:00` is an unknown offset, and counts as UTC.
//!
//! Sources: "Date functions" of the S3 user guide; the timestamps of the Ion specification.

use super::failure::{Fault, fault};
use super::value::excerpt;
use std::cmp::Ordering;
use std::iter::Peekable;
use std::str::Chars;
use time::{Date, Duration, Month, OffsetDateTime, PrimitiveDateTime, Time};

/// Digits of a fraction of a second.
const FRACTION_DIGITS_MAX: usize = 9;
/// Limit of a pattern of TO_STRING.
const PATTERN_BYTES_MAX: usize = 1024;
/// Minutes of a day, which an offset from UTC cannot reach.
const DAY_MINUTES: i16 = 24 * 60;

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timestamp {
    /// At the offset.
    local: PrimitiveDateTime,
    /// Minutes east of UTC; `None` if unknown.
    offset_minutes: Option<i16>,
    precision: Precision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Precision {
    Year,
    Month,
    Day,
    Minute,
    /// Digits of the fraction.
    Second(usize),
}

/// A part of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DatePart {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    TimezoneHour,
    TimezoneMinute,
}

impl DatePart {
    /// The part with this name, in capital letters.
    pub fn of_name(name: &str) -> Option<DatePart> {
        Some(match name {
            "YEAR" => DatePart::Year,
            "MONTH" => DatePart::Month,
            "DAY" => DatePart::Day,
            "HOUR" => DatePart::Hour,
            "MINUTE" => DatePart::Minute,
            "SECOND" => DatePart::Second,
            "TIMEZONE_HOUR" => DatePart::TimezoneHour,
            "TIMEZONE_MINUTE" => DatePart::TimezoneMinute,
            _ => return None,
        })
    }

    pub fn is_of_offset(self) -> bool {
        matches!(self, DatePart::TimezoneHour | DatePart::TimezoneMinute)
    }
}

impl Timestamp {
    /// A time of a clock, in milliseconds since 1970 (UTC).
    pub fn of_unix_ms(unix_ms: u64) -> Option<Timestamp> {
        let utc = OffsetDateTime::from_unix_timestamp_nanos(i128::from(unix_ms) * 1_000_000).ok()?;
        let local = PrimitiveDateTime::new(utc.date(), utc.time());
        Some(Timestamp { local, offset_minutes: Some(0), precision: Precision::Second(3) })
    }

    /// A time in the years 1 to 9999, in nanoseconds since 1970.
    pub fn of_unix_nanos(nanos: i128, digits: usize, is_utc: bool) -> Option<Timestamp> {
        let utc = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()?;
        let local = PrimitiveDateTime::new(utc.date(), utc.time());
        let precision = Precision::Second(digits.min(FRACTION_DIGITS_MAX));
        let offset_minutes = is_utc.then_some(0);
        (1..=9999).contains(&local.year()).then_some(Timestamp { local, offset_minutes, precision })
    }

    /// A day in the years 1 to 9999, in days since 1970.
    pub fn of_days(days: i32) -> Option<Timestamp> {
        let day = Timestamp::of_unix_nanos(i128::from(days) * 86_400_000_000_000, 0, false)?;
        Some(Timestamp { precision: Precision::Day, ..day })
    }

    pub fn parse(text: &str) -> Option<Timestamp> {
        let mut input = Input(text.trim());
        let year = input.digits(4)?;
        let (mut month, mut day) = (1, 1);
        let mut precision = Precision::Year;
        if input.skip("-") {
            month = input.digits(2)?;
            precision = Precision::Month;
            if input.skip("-") {
                day = input.digits(2)?;
                precision = Precision::Day;
            }
        }
        let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
        let year = i32::try_from(year).ok().filter(|year| *year > 0)?;
        let date = Date::from_calendar_date(year, month, u8::try_from(day).ok()?).ok()?;
        let has_mark = input.skip("T");
        // Years and months end with `T`, because they look like numbers otherwise.
        if precision < Precision::Day && !has_mark {
            return None;
        }
        let (mut time, mut offset_minutes) = (Time::MIDNIGHT, None);
        if !input.0.is_empty() {
            if precision < Precision::Day || !has_mark {
                return None;
            }
            let hour = input.digits(2)?;
            if !input.skip(":") {
                return None;
            }
            let minute = input.digits(2)?;
            let (mut second, mut nanos) = (0, 0);
            precision = Precision::Minute;
            if input.skip(":") {
                second = input.digits(2)?;
                let fraction = if input.skip(".") { input.fraction()? } else { (0, 0) };
                nanos = fraction.0;
                precision = Precision::Second(fraction.1);
            }
            let [hour, minute, second] = [hour, minute, second].map(|part| u8::try_from(part).ok());
            time = Time::from_hms_nano(hour?, minute?, second?, nanos).ok()?;
            offset_minutes = input.offset()?;
        }
        let local = PrimitiveDateTime::new(date, time);
        input.0.is_empty().then_some(Timestamp { local, offset_minutes, precision })
    }

    /// The text that [`Timestamp::parse`] reads as this timestamp.
    pub fn text(&self) -> String {
        let Timestamp { local, precision, .. } = *self;
        let (year, month, day) = local.to_calendar_date();
        let month = u8::from(month);
        match precision {
            Precision::Year => format!("{year:04}T"),
            Precision::Month => format!("{year:04}-{month:02}T"),
            Precision::Day => format!("{year:04}-{month:02}-{day:02}"),
            Precision::Minute | Precision::Second(_) => {
                let (hour, minute, second, nanos) = local.as_hms_nano();
                let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}");
                if let Precision::Second(digits) = precision {
                    text.push_str(&format!(":{second:02}"));
                    if digits > 0 {
                        text.push('.');
                        text.push_str(&format!("{nanos:09}")[..digits]);
                    }
                }
                text.push_str(&self.offset_text("Z", ":"));
                text
            }
        }
    }

    /// The offset as `+01:30`, with this text between the hours and the minutes, or `utc` for UTC.
    fn offset_text(&self, utc: &str, between: &str) -> String {
        match self.offset_minutes {
            Some(0) if !utc.is_empty() => utc.to_owned(),
            None => format!("-00{between}00"),
            Some(minutes) => {
                let sign = if minutes < 0 { '-' } else { '+' };
                format!("{sign}{:02}{between}{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
        }
    }

    /// The date in UTC, or the local one if that is not in the years that a date can have.
    fn utc_date(&self) -> Date {
        let offset = Duration::minutes(self.offset_minutes.unwrap_or(0).into());
        self.local.checked_sub(offset).unwrap_or(self.local).date()
    }

    /// Nanoseconds since 1970 (UTC), also beyond the year 9999.
    fn utc_nanos(&self) -> i128 {
        let offset = i128::from(self.offset_minutes.unwrap_or(0)) * 60_000_000_000;
        self.local.assume_utc().unix_timestamp_nanos() - offset
    }

    pub fn compare(&self, other: &Timestamp) -> Ordering {
        self.utc_nanos().cmp(&other.utc_nanos())
    }

    pub fn part(&self, part: DatePart) -> i128 {
        let offset_minutes = self.offset_minutes.unwrap_or(0);
        match part {
            DatePart::Year => self.local.year().into(),
            DatePart::Month => u8::from(self.local.month()).into(),
            DatePart::Day => self.local.day().into(),
            DatePart::Hour => self.local.hour().into(),
            DatePart::Minute => self.local.minute().into(),
            DatePart::Second => self.local.second().into(),
            DatePart::TimezoneHour => (offset_minutes / 60).into(),
            DatePart::TimezoneMinute => (offset_minutes % 60).into(),
        }
    }

    /// Adds a number of parts, and as much precision as the part needs. A day that a month does not
    /// have becomes its last day.
    ///
    /// # Errors
    /// Of the query, if the result is not in the years 1 to 9999.
    pub fn add(&self, part: DatePart, quantity: i128) -> Result<Timestamp, Fault> {
        let out_of_range =
            || fault("EvaluatorInvalidArguments", "the result of DATE_ADD is not in the years 1 to 9999");
        let quantity = i64::try_from(quantity).map_err(|_| out_of_range())?;
        let seconds = |count: i64| quantity.checked_mul(count).map(Duration::seconds);
        let (local, needed) = match part {
            DatePart::Year => {
                (quantity.checked_mul(12).and_then(|months| add_months(self.local, months)), Precision::Year)
            }
            DatePart::Month => (add_months(self.local, quantity), Precision::Month),
            _ => {
                let (part_seconds, needed) = match part {
                    DatePart::Day => (24 * 3600, Precision::Day),
                    DatePart::Hour => (3600, Precision::Minute),
                    DatePart::Minute => (60, Precision::Minute),
                    _ => (1, Precision::Second(0)),
                };
                (seconds(part_seconds).and_then(|duration| self.local.checked_add(duration)), needed)
            }
        };
        let local = local.filter(|local| (1..=9999).contains(&local.year())).ok_or_else(out_of_range)?;
        Ok(Timestamp { local, precision: self.precision.max(needed), ..*self })
    }

    /// The number of whole parts from this timestamp to another one, less than 0 if that is
    /// earlier. Years and months are counted between the days, in UTC.
    pub fn difference(&self, part: DatePart, other: &Timestamp) -> i128 {
        let months = || months_between(self.utc_date(), other.utc_date());
        let part_seconds = match part {
            DatePart::Year => return months() / 12,
            DatePart::Month => return months(),
            DatePart::Day => 24 * 3600,
            DatePart::Hour => 3600,
            DatePart::Minute => 60,
            _ => 1,
        };
        (other.utc_nanos() - self.utc_nanos()) / (part_seconds * 1_000_000_000)
    }

    /// The text of TO_STRING.
    ///
    /// # Errors
    /// Of the query, for a pattern that is not one.
    pub fn format(&self, pattern: &str) -> Result<String, Fault> {
        let invalid = |code, message: String| Err(fault(code, message));
        if pattern.len() > PATTERN_BYTES_MAX {
            let message = "the pattern of TO_STRING is longer than 1 KiB".to_owned();
            return invalid("EvaluatorInvalidTimestampFormatPattern", message);
        }
        let (mut text, mut rest) = (String::new(), pattern.chars().peekable());
        while let Some(symbol) = rest.next() {
            if symbol == '\'' {
                if !read_quoted(&mut rest, &mut text) {
                    let message = "a text in the pattern of TO_STRING has no closing '".to_owned();
                    return invalid("EvaluatorUnterminatedTimestampFormatPatternToken", message);
                }
            } else if symbol.is_ascii_alphabetic() {
                let mut count = 1;
                while rest.next_if_eq(&symbol).is_some() {
                    count += 1;
                }
                match self.field(symbol, count) {
                    Some(field) => text.push_str(&field),
                    None => {
                        let field: String = std::iter::repeat_n(symbol, count).collect();
                        let message = format!("TO_STRING has no pattern '{}'", excerpt(&field));
                        return invalid("EvaluatorInvalidTimestampFormatPatternSymbol", message);
                    }
                }
            } else {
                text.push(symbol);
            }
        }
        Ok(text)
    }

    /// The value of a symbol of a pattern, which is repeated.
    fn field(&self, symbol: char, count: usize) -> Option<String> {
        let (year, month, day) = self.local.to_calendar_date();
        let (hour, minute, second, nanos) = self.local.as_hms_nano();
        let number = |value: u8| match count {
            1 => Some(value.to_string()),
            2 => Some(format!("{value:02}")),
            _ => None,
        };
        let name = month.to_string();
        match (symbol, count) {
            ('y', 1) => Some(year.to_string()),
            ('y', 2) => Some(format!("{:02}", year % 100)),
            ('y', 4) => Some(format!("{year:04}")),
            ('M', 1 | 2) => number(month.into()),
            ('M', 3) => Some(name[..3].to_owned()),
            ('M', 4) => Some(name),
            ('M', 5) => Some(name[..1].to_owned()),
            ('d', _) => number(day),
            ('a', 1) => Some(if hour < 12 { "AM" } else { "PM" }.to_owned()),
            ('h', _) => number((hour + 11) % 12 + 1),
            ('H', _) => number(hour),
            ('m', _) => number(minute),
            ('s', _) => number(second),
            ('S', 1..=FRACTION_DIGITS_MAX) => Some(format!("{nanos:09}")[..count].to_owned()),
            ('n', 1) => Some(nanos.to_string()),
            ('X' | 'x', 1..=5) => {
                let utc = if symbol == 'X' { "Z" } else { "" };
                let between = if matches!(count, 3 | 5) { ":" } else { "" };
                let offset = self.offset_text(utc, between);
                let is_whole_hour = self.offset_minutes.unwrap_or(0) % 60 == 0;
                // One symbol shows the hours alone if the offset has no minutes.
                Some(if count == 1 && is_whole_hour && offset != utc {
                    offset[..3].to_owned()
                } else {
                    offset
                })
            }
            _ => None,
        }
    }
}

/// Reads a text of a pattern after its opening quote. Two quotes stand for one. Returns whether it
/// has an end.
fn read_quoted(rest: &mut Peekable<Chars<'_>>, text: &mut String) -> bool {
    if rest.next_if_eq(&'\'').is_some() {
        text.push('\'');
        return true;
    }
    while let Some(symbol) = rest.next() {
        if symbol != '\'' {
            text.push(symbol);
        } else if rest.next_if_eq(&'\'').is_some() {
            text.push('\'');
        } else {
            return true;
        }
    }
    false
}

fn add_months(to: PrimitiveDateTime, count: i64) -> Option<PrimitiveDateTime> {
    let months = (i64::from(to.year()) * 12 + i64::from(u8::from(to.month())) - 1).checked_add(count)?;
    let year = i32::try_from(months.div_euclid(12)).ok()?;
    let month = Month::try_from(u8::try_from(months.rem_euclid(12) + 1).ok()?).ok()?;
    let date = Date::from_calendar_date(year, month, to.day().min(month.length(year))).ok()?;
    Some(PrimitiveDateTime::new(date, to.time()))
}

/// The number of whole months between two days.
fn months_between(from: Date, to: Date) -> i128 {
    let months = |date: Date| i128::from(date.year()) * 12 + i128::from(u8::from(date.month()));
    let difference = months(to) - months(from);
    match to.day().cmp(&from.day()) {
        Ordering::Less if difference > 0 => difference - 1,
        Ordering::Greater if difference < 0 => difference + 1,
        _ => difference,
    }
}

/// The rest of a text that is parsed.
struct Input<'t>(&'t str);

impl Input<'_> {
    fn skip(&mut self, text: &str) -> bool {
        let rest = self.0.strip_prefix(text);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// A number with this many digits.
    fn digits(&mut self, count: usize) -> Option<u32> {
        let digits = self.0.get(..count).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        self.0 = &self.0[count..];
        digits.parse().ok()
    }

    /// The nanoseconds of a fraction, and the number of its digits.
    fn fraction(&mut self) -> Option<(u32, usize)> {
        let count = self.0.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=FRACTION_DIGITS_MAX).contains(&count) {
            return None;
        }
        let digits = self.digits(count)?;
        Some((digits * 10u32.pow((FRACTION_DIGITS_MAX - count) as u32), count))
    }

    /// An offset in minutes; `None` for an unknown one, also if there is none.
    fn offset(&mut self) -> Option<Option<i16>> {
        if self.0.is_empty() {
            return Some(None);
        }
        if self.skip("Z") {
            return Some(Some(0));
        }
        let sign = if self.skip("-") { -1 } else { i16::from(self.skip("+")) };
        let hours = self.digits(2).filter(|_| sign != 0)?;
        let minutes =
            if self.skip(":") { self.digits(2).filter(|minutes| *minutes < 60)? } else { return None };
        let minutes = i16::try_from(hours * 60 + minutes).ok().filter(|minutes| *minutes < DAY_MINUTES)?;
        Some(if sign < 0 && minutes == 0 { None } else { Some(sign * minutes) })
    }
}

#[cfg(test)]
#[path = "timestamp_tests.rs"]
mod tests;
