//! Sizes, times, names and paths: parses the input of users, and formats output for them.

pub use benthic_core::names::shell_word;
use std::path::Path;
use std::time::Duration;

const KIB: u64 = 1024;
const SUFFIXES: [(&str, u64); 9] = [
    ("KiB", KIB),
    ("MiB", KIB * KIB),
    ("GiB", KIB * KIB * KIB),
    ("TiB", KIB * KIB * KIB * KIB),
    ("K", KIB),
    ("M", KIB * KIB),
    ("G", KIB * KIB * KIB),
    ("T", KIB * KIB * KIB * KIB),
    ("B", 1),
];

/// Parses `4096`, `64KiB`, `4MiB` or `1GiB`; `K`, `M`, `G` and `T` are the same units. clap uses it
/// as a value parser.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = SUFFIXES
        .iter()
        .find_map(|(suffix, unit)| text.strip_suffix(suffix).map(|digits| (digits, *unit)))
        .unwrap_or((text, 1));
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(|| {
        "a size is a number, optionally with B, K, KiB, M, MiB, G, GiB, T or TiB after it".to_owned()
    })
}

/// Parses an age such as `90s`, `30m`, `12h`, `7d` or `2w`. clap uses it as a value parser.
pub fn parse_age(text: &str) -> Result<Duration, String> {
    const UNITS: [(char, u64); 5] = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400), ('w', 604_800)];
    UNITS
        .iter()
        .find_map(|(unit, seconds)| text.strip_suffix(*unit).map(|digits| (digits, *seconds)))
        .and_then(|(digits, seconds)| digits.parse::<u64>().ok()?.checked_mul(seconds))
        .map(Duration::from_secs)
        .ok_or_else(|| "an age is a number with s, m, h, d or w after it, such as 12h".to_owned())
}

/// Formats a size: `1.5 MiB`.
#[expect(clippy::cast_precision_loss, reason = "only for display")]
pub fn size(len_bytes: u64) -> String {
    match SUFFIXES[..4].iter().rev().find(|(_, unit)| len_bytes >= *unit) {
        Some((suffix, unit)) => format!("{:.1} {suffix}", len_bytes as f64 / *unit as f64),
        None => format!("{len_bytes} B"),
    }
}

/// Throughput in MiB per second.
#[expect(clippy::cast_precision_loss, reason = "only for display")]
pub fn mib_per_s(len_bytes: u64, seconds: f64) -> f64 {
    len_bytes as f64 / (1024.0 * 1024.0) / seconds.max(1e-9)
}

/// A rate per second.
#[expect(clippy::cast_precision_loss, reason = "only for display")]
pub fn per_s(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds.max(1e-9)
}

/// Formats a time in UTC: `2026-03-21T14:05:09Z`.
pub fn utc(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    // Years that begin on 1 March have the leap day at their end. 719,468 days lie between
    // 0000-03-01 and 1970.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second_of_day / 3_600, second_of_day / 60 % 60, second_of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Formats a count with its noun: `1 object`, `2 objects`.
pub fn count(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Escapes a name or value so that it fits on one line and cannot control the terminal. It escapes
/// control characters, and backslashes so that different names look different.
pub fn one_line(text: &str) -> String {
    escape(text, |c| c.is_control() || c == '\\')
}

/// Escapes the control characters of a message. Names in it are escaped already.
pub fn no_control(text: &str) -> String {
    escape(text, char::is_control)
}

fn escape(text: &str, special: impl Fn(char) -> bool) -> String {
    text.chars().map(|c| if special(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Formats bytes as one line of text. If they are not UTF-8, it escapes bytes as `\xNN`.
pub fn one_line_bytes(data: &[u8]) -> String {
    match std::str::from_utf8(data) {
        Ok(text) => one_line(text),
        Err(_) => data.escape_ascii().to_string(),
    }
}

/// Formats a path as one line of text.
pub fn one_line_path(path: &Path) -> String {
    one_line(&path.to_string_lossy())
}

/// Formats bytes as lower-case hexadecimal.
pub fn hex(data: &[u8]) -> String {
    data.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses hexadecimal digits of either case.
pub fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;
