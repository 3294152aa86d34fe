//! Predicts when the fullest OSD is full. Ceph keeps no history of usage, so this module fits a
//! line through its own readings.

use super::history_file;
use crate::cluster_state::OsdUsage;
use benthic_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Readings to keep: one per hour for a month.
pub const READINGS_MAX: usize = 720;
/// Minimum age of the oldest reading for a trend.
pub const SPAN_S_MIN: u64 = 3_600;
/// Minimum time between two readings in a file.
const APART_S_MIN: u64 = 3_600;
/// Size limit of the file: all readings, with room to spare.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
const DAY_S: f64 = 86_400.0;

/// The usage of the fullest OSD at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    pub unix_s: u64,
    pub osd: i32,
    /// The used share of the OSD, 0 to 1.
    pub used: f64,
}

/// The prediction of when the fullest OSD is full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Growth {
    /// There are too few readings, or they are too close together.
    Unknown,
    None,
    /// Days until the OSD is full, if the trend continues.
    Days(f64),
}

/// The usage of the fullest OSD.
pub fn fullest(usage: &[OsdUsage], now_unix_s: u64) -> Option<Reading> {
    let shares = usage.iter().filter_map(|usage| Some((usage.share()?, usage.id)));
    let (used, osd) = shares.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    Some(Reading { unix_s: now_unix_s, osd, used })
}

/// Predicts when the fullest OSD reaches `full` (0 to 1), by linear regression over all readings.
#[expect(clippy::cast_precision_loss, reason = "seconds of some years")]
pub fn growth(history: &[Reading], now: Reading, full: f64) -> Growth {
    let past = history.iter().filter(|reading| reading.unix_s < now.unix_s);
    let Some(oldest_s) = past.clone().map(|reading| reading.unix_s).min() else { return Growth::Unknown };
    if now.unix_s - oldest_s < SPAN_S_MIN {
        return Growth::Unknown;
    }
    let points: Vec<(f64, f64)> = past
        .chain([&now])
        .map(|reading| ((reading.unix_s - oldest_s) as f64 / DAY_S, reading.used))
        .collect();
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (day, used) = (mean(|point| point.0), mean(|point| point.1));
    let over = points.iter().map(|point| (point.0 - day) * (point.1 - used)).sum::<f64>();
    let slope = over / points.iter().map(|point| (point.0 - day).powi(2)).sum::<f64>();
    if !slope.is_finite() || slope <= 0.0 {
        return Growth::None;
    }
    Growth::Days(((full - now.used) / slope).max(0.0))
}

/// Whether the last reading is less than an hour older than `reading`.
pub fn is_too_early(history: &[Reading], reading: Reading) -> bool {
    history.last().is_some_and(|last| reading.unix_s < last.unix_s.saturating_add(APART_S_MIN))
}

/// Appends a reading to an in-memory history and thins the history out if it exceeds
/// [`READINGS_MAX`].
pub fn append(history: &mut Vec<Reading>, reading: Reading) {
    history.push(reading);
    if history.len() > READINGS_MAX {
        // Drop every second reading, so that the history keeps its time span.
        let mut index = 0;
        history.retain(|_| {
            index += 1;
            index % 2 == 1
        });
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    fsid: String,
    #[serde(flatten)]
    reading: Reading,
}

/// Reads a cluster's readings from a file with one JSON object per line. The result is empty if the
/// file does not exist.
///
/// # Errors
/// `InvalidArgument` for a file of another kind or another cluster, `LimitExceeded` for a file that
/// is too large, and errors of the file system.
pub fn read(file: &Path, fsid: &str) -> Result<Vec<Reading>> {
    let Some(text) = history_file::read(file, FILE_BYTES_MAX)? else { return Ok(Vec::new()) };
    let text = String::from_utf8(text).map_err(|_| no_history(file))?;
    let mut readings = Vec::new();
    for line in text.lines() {
        let line: Line = serde_json::from_str(line).map_err(|_| no_history(file))?;
        if line.fsid != fsid {
            let message = "this is the history of another cluster; name another file";
            return Err(Error::invalid_argument(message)
                .with("file", file.display())
                .with("fsid", line.fsid));
        }
        readings.push(line.reading);
    }
    Ok(readings)
}

/// Appends a reading to a file that [`read`] accepted, unless the last reading is less than an hour
/// old. Returns whether it was written. The write replaces the file atomically and keeps at most
/// [`READINGS_MAX`] readings.
///
/// # Errors
/// Errors of the file system.
pub fn write(file: &Path, fsid: &str, history: &[Reading], reading: Reading) -> Result<bool> {
    if is_too_early(history, reading) {
        return Ok(false);
    }
    let latest = &history[history.len().saturating_sub(READINGS_MAX - 1)..];
    let mut text = String::new();
    for reading in latest.iter().chain([&reading]) {
        let line = Line { fsid: fsid.to_owned(), reading: *reading };
        let line = serde_json::to_string(&line)
            .map_err(|error| Error::internal("a reading cannot be written as JSON").with_source(error))?;
        text.push_str(&line);
        text.push('\n');
    }
    history_file::replace(file, text.as_bytes())?;
    Ok(true)
}

fn no_history(file: &Path) -> Error {
    let message = "this is no history of `benthic health`; name another file, or one that does not exist yet";
    Error::invalid_argument(message).with("file", file.display())
}

#[cfg(test)]
#[path = "growth_tests.rs"]
mod tests;
