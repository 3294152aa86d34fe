//! The history of a cluster's state, in slots of a minute, an hour and a day.
//!
//! A slot records how much of its time was observed. The history reports unobserved time as such,
//! never as healthy time.

use super::growth::{READINGS_MAX, Reading};
use super::history_file;
use super::report::{Report, Verdict};
use crate::cluster_state::Io;
use benthic_core::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;

const FORMAT: &str = "benthic status history";
const VERSION: u32 = 1;
/// Size limit of a history file: all slots and readings, with room to spare.
const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Time that a poll may take in addition to the interval between polls. A longer gap counts as
/// unobserved.
const LOOK_S_MAX: u64 = 60;

/// The length of a slot in seconds, the number of slots, and the name of each tier.
const TIERS: [(u64, usize, &str); 3] = [(60, 360, "minutes"), (3_600, 7 * 24, "hours"), (86_400, 90, "days")];
/// The columns of a row of the JSON.
const COLUMNS: [&str; 13] = [
    "start_unix_s",
    "observed_s",
    "at_risk_s",
    "down_s",
    "availability_percent_mean",
    "availability_percent_min",
    "read_bytes_per_s",
    "write_bytes_per_s",
    "read_ops_per_s",
    "write_ops_per_s",
    "probe_write_ms",
    "probe_read_ms",
    "availability_known_s",
];

/// The state that one poll saw.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time of the poll.
    pub unix_s: u64,
    pub verdict: Verdict,
    /// As in [`Report`].
    pub availability_percent: Option<f64>,
    pub io: Option<Io>,
    pub probe_write_ms: Option<f64>,
    pub probe_read_ms: Option<f64>,
}

impl Sample {
    /// Extracts from a report the values that the history keeps.
    pub fn of(report: &Report, io: Option<Io>) -> Sample {
        let probe = report.numbers.probe.as_ref();
        Sample {
            unix_s: report.unix_s,
            verdict: report.verdict,
            availability_percent: report.availability_percent,
            io,
            probe_write_ms: probe.and_then(|probe| probe.write_ms),
            probe_read_ms: probe.and_then(|probe| probe.read_ms),
        }
    }
}

/// The mean, minimum and maximum of a value over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Series {
    /// How long the value was known. If it is 0, the other fields mean nothing.
    #[serde(rename = "s")]
    known_s: u64,
    mean: f64,
    min: f64,
    max: f64,
}

impl Series {
    fn add(&mut self, value: Option<f64>, over_s: u64) {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        self.join(&Series { known_s: over_s, mean: value, min: value, max: value });
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds of a day")]
    fn join(&mut self, other: &Series) {
        if self.known_s == 0 || other.known_s == 0 {
            if self.known_s == 0 {
                *self = *other;
            }
            return;
        }
        self.known_s += other.known_s;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        let mean = self.mean + (other.mean - self.mean) * other.known_s as f64 / self.known_s as f64;
        self.mean = mean.clamp(self.min, self.max);
    }

    fn mean(&self) -> Option<f64> {
        (self.known_s > 0).then_some(self.mean)
    }

    /// Whether values between 0 and `most` can produce this series.
    fn is_possible(&self, width_s: u64, most: f64) -> bool {
        let known = [self.mean, self.min, self.max].iter().all(|value| (0.0..=most).contains(value));
        self.known_s <= width_s && known && self.min <= self.max
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Slot {
    start_unix_s: u64,
    observed_s: u64,
    at_risk_s: u64,
    down_s: u64,
    availability_percent: Series,
    read_bytes_per_s: Series,
    write_bytes_per_s: Series,
    read_ops_per_s: Series,
    write_ops_per_s: Series,
    probe_write_ms: Series,
    probe_read_ms: Series,
}

impl Slot {
    #[expect(clippy::cast_precision_loss, reason = "rates, for the eye")]
    fn add(&mut self, sample: &Sample, over_s: u64, width_s: u64) {
        // After the clock was set back, the same time is observed twice.
        let over_s = over_s.min(width_s - self.observed_s);
        if over_s == 0 {
            return;
        }
        self.observed_s += over_s;
        match sample.verdict {
            Verdict::Healthy | Verdict::Degraded => {}
            Verdict::AtRisk => self.at_risk_s += over_s,
            Verdict::Down => self.down_s += over_s,
        }
        self.availability_percent.add(sample.availability_percent, over_s);
        let rate = |of: fn(&Io) -> u64| sample.io.as_ref().map(|io| of(io) as f64);
        self.read_bytes_per_s.add(rate(|io| io.read_bytes_per_s), over_s);
        self.write_bytes_per_s.add(rate(|io| io.write_bytes_per_s), over_s);
        self.read_ops_per_s.add(rate(|io| io.read_ops_per_s), over_s);
        self.write_ops_per_s.add(rate(|io| io.write_ops_per_s), over_s);
        self.probe_write_ms.add(sample.probe_write_ms, over_s);
        self.probe_read_ms.add(sample.probe_read_ms, over_s);
    }

    /// Merges the observations of another run in the same slot.
    fn join(&mut self, other: &Slot, width_s: u64) {
        // After the clock was set back, both runs observed the same time. Keep the earlier data.
        if self.observed_s + other.observed_s > width_s {
            return;
        }
        self.observed_s += other.observed_s;
        self.at_risk_s = width_s.min(self.at_risk_s + other.at_risk_s);
        self.down_s = width_s.min(self.down_s + other.down_s);
        for (series, other) in [
            (&mut self.availability_percent, &other.availability_percent),
            (&mut self.read_bytes_per_s, &other.read_bytes_per_s),
            (&mut self.write_bytes_per_s, &other.write_bytes_per_s),
            (&mut self.read_ops_per_s, &other.read_ops_per_s),
            (&mut self.write_ops_per_s, &other.write_ops_per_s),
            (&mut self.probe_write_ms, &other.probe_write_ms),
            (&mut self.probe_read_ms, &other.probe_read_ms),
        ] {
            series.join(other);
            series.known_s = width_s.min(series.known_s);
        }
    }

    fn is_possible(&self, width_s: u64) -> bool {
        let others = [
            &self.read_bytes_per_s,
            &self.write_bytes_per_s,
            &self.read_ops_per_s,
            &self.write_ops_per_s,
            &self.probe_write_ms,
            &self.probe_read_ms,
        ];
        let seconds = [self.observed_s, self.at_risk_s, self.down_s];
        self.start_unix_s.is_multiple_of(width_s)
            && seconds.iter().all(|seconds| *seconds <= width_s)
            && self.availability_percent.is_possible(width_s, 100.0)
            && others.iter().all(|series| series.is_possible(width_s, f64::MAX))
    }

    /// The values in the order of [`COLUMNS`].
    fn row(&self) -> Value {
        let availability = &self.availability_percent;
        let least = (availability.known_s > 0).then_some(availability.min);
        json!([
            self.start_unix_s,
            self.observed_s,
            self.at_risk_s,
            self.down_s,
            // Round down, so that a day with one lost second does not show as 100 %.
            availability.mean().map(|mean| (mean * 1_000.0).floor() / 1_000.0),
            least,
            round_mean(&self.read_bytes_per_s),
            round_mean(&self.write_bytes_per_s),
            round_mean(&self.read_ops_per_s),
            round_mean(&self.write_ops_per_s),
            round_mean(&self.probe_write_ms),
            round_mean(&self.probe_read_ms),
            availability.known_s,
        ])
    }
}

fn round_mean(series: &Series) -> Option<f64> {
    series.mean().map(|mean| (mean * 100.0).round() / 100.0)
}

/// The history of a cluster, of bounded size: six hours of minutes, a week of hours, and 90 days.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// In the order of [`TIERS`]; each tier is sorted by time.
    tiers: [Vec<Slot>; TIERS.len()],
    last_unix_s: Option<u64>,
}

impl History {
    /// Adds a sample for the time since the last poll. The first sample of a run, and the first
    /// after [`record_gap`](History::record_gap), counts for one second. `interval_s` is the time
    /// between two polls.
    pub fn add(&mut self, sample: &Sample, interval_s: u64) {
        let now_unix_s = sample.unix_s;
        let since_s = self.last_unix_s.map_or(0, |last_unix_s| now_unix_s.saturating_sub(last_unix_s));
        let is_new = self.last_unix_s.is_none_or(|last_unix_s| now_unix_s < last_unix_s);
        // No poll observed the gap if the machine slept or its clock was set.
        let over_s = if is_new || since_s > 2 * interval_s + LOOK_S_MAX { 1 } else { since_s };
        self.last_unix_s = Some(now_unix_s);
        for ((width_s, slots_max, _), slots) in TIERS.into_iter().zip(&mut self.tiers) {
            let mut from_unix_s = now_unix_s.saturating_sub(over_s);
            while from_unix_s < now_unix_s {
                let start_unix_s = from_unix_s - from_unix_s % width_s;
                let to_unix_s = now_unix_s.min(start_unix_s + width_s);
                slot(slots, start_unix_s, slots_max).add(sample, to_unix_s - from_unix_s, width_s);
                from_unix_s = to_unix_s;
            }
        }
    }

    /// Merges the history of an earlier run into this one. On overlap, the earlier data win.
    pub fn merge_earlier(&mut self, earlier: History) {
        for (((width_s, slots_max, _), slots), earlier) in
            TIERS.into_iter().zip(&mut self.tiers).zip(earlier.tiers)
        {
            for own in std::mem::replace(slots, earlier) {
                slot(slots, own.start_unix_s, slots_max).join(&own, width_s);
            }
        }
    }

    /// Records a failed poll: the time until the next sample counts as unobserved.
    pub fn record_gap(&mut self) {
        self.last_unix_s = None;
    }

    /// The history up to now as JSON. For each of `minutes`, `hours` and `days` it has the length
    /// of a slot, the start of the covered period, and a row of `columns` per observed slot.
    /// Unknown values are null.
    pub fn json(&self, now_unix_s: u64) -> Value {
        let mut all = json!({ "columns": COLUMNS });
        for ((width_s, slots_max, name), slots) in TIERS.into_iter().zip(&self.tiers) {
            let span_s = width_s * slots_max as u64;
            let from_unix_s = (now_unix_s - now_unix_s % width_s + width_s).saturating_sub(span_s);
            let shown = slots.iter().filter(|slot| (from_unix_s..=now_unix_s).contains(&slot.start_unix_s));
            let rows: Vec<Value> = shown.map(Slot::row).collect();
            all[name] = json!({ "slot_s": width_s, "from_unix_s": from_unix_s, "rows": rows });
        }
        all
    }
}

/// The slot with this start time, which is created if it does not exist.
fn slot(slots: &mut Vec<Slot>, start_unix_s: u64, slots_max: usize) -> &mut Slot {
    let mut index = match slots.binary_search_by_key(&start_unix_s, |slot| slot.start_unix_s) {
        Ok(index) => index,
        Err(index) => {
            slots.insert(index, Slot { start_unix_s, ..Slot::default() });
            index
        }
    };
    if slots.len() > slots_max {
        // Drop the slot that is farthest in time. If a clock was wrong before, that slot may lie in
        // the future.
        let ahead_s = slots.last().map_or(0, |last| last.start_unix_s.saturating_sub(start_unix_s));
        if ahead_s > start_unix_s.saturating_sub(slots[0].start_unix_s) {
            slots.pop();
        } else {
            slots.remove(0);
            index -= 1;
        }
    }
    &mut slots[index]
}

#[derive(Serialize, Deserialize)]
struct File {
    format: String,
    version: u32,
    fsid: String,
    readings: Vec<Reading>,
    minutes: Vec<Slot>,
    hours: Vec<Slot>,
    days: Vec<Slot>,
}

/// Reads a cluster's history and the readings of its fullest OSD. Both are empty if the file does
/// not exist.
///
/// # Errors
/// `InvalidArgument` for a file of another kind, another version or another cluster, and for a
/// damaged file; `LimitExceeded` for a file that is too large; and errors of the file system.
pub fn read(file: &Path, fsid: &str) -> Result<(History, Vec<Reading>)> {
    let Some(bytes) = history_file::read(file, FILE_BYTES_MAX)? else {
        return Ok((History::default(), Vec::new()));
    };
    parse(&bytes, fsid).map_err(|error| error.with("file", file.display()))
}

fn parse(bytes: &[u8], fsid: &str) -> Result<(History, Vec<Reading>)> {
    let damaged = || {
        let message = "this is no history of `benthic status serve`, or it is damaged; move it away or name another file";
        Error::invalid_argument(message)
    };
    #[derive(Deserialize)]
    struct Head {
        format: String,
        version: u32,
    }
    let head: Head = serde_json::from_slice(bytes).map_err(|error| damaged().with_source(error))?;
    if head.format != FORMAT {
        return Err(damaged());
    }
    if head.version != VERSION {
        let message =
            "another version of `benthic` wrote this history; use that version or name another file";
        return Err(Error::invalid_argument(message).with("version", head.version));
    }
    let content: File = serde_json::from_slice(bytes).map_err(|error| damaged().with_source(error))?;
    if content.fsid != fsid {
        let message = "this is the history of another cluster; name another file";
        return Err(Error::invalid_argument(message).with("fsid", content.fsid));
    }
    let tiers = [content.minutes, content.hours, content.days];
    let is_possible = |((width_s, slots_max, _), slots): ((u64, usize, &str), &Vec<Slot>)| {
        slots.len() <= slots_max
            && slots.iter().all(|slot| slot.is_possible(width_s))
            && slots.is_sorted_by(|a, b| a.start_unix_s < b.start_unix_s)
    };
    let readings_are_possible = content.readings.len() <= READINGS_MAX
        && content.readings.iter().all(|reading| (0.0..=1.0).contains(&reading.used));
    if !TIERS.into_iter().zip(&tiers).all(is_possible) || !readings_are_possible {
        return Err(damaged());
    }
    Ok((History { tiers, last_unix_s: None }, content.readings))
}

/// Writes the history and the readings, replacing the file atomically.
///
/// # Errors
/// Errors of the file system.
pub fn write(file: &Path, fsid: &str, history: History, readings: Vec<Reading>) -> Result<()> {
    let [minutes, hours, days] = history.tiers;
    let content = File {
        format: FORMAT.to_owned(),
        version: VERSION,
        fsid: fsid.to_owned(),
        readings,
        minutes,
        hours,
        days,
    };
    let mut bytes = serde_json::to_vec(&content)
        .map_err(|error| Error::internal("the history cannot be written as JSON").with_source(error))?;
    bytes.push(b'\n');
    history_file::replace(file, &bytes)
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
