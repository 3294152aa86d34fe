//! How a cluster was: what its looks saw, in slots of a minute, an hour and a day.
//!
//! A slot knows how much of its time was looked at. What was not is told as such, never as a time when all was well.

use super::growth::{READINGS_MAX, Reading};
use super::history_file;
use super::report::{Report, Verdict};
use crate::cluster_state::Io;
use benthic_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;

/// What a file says that it is.
const FORMAT: &str = "benthic status history";
const VERSION: u32 = 1;
/// What a file may be: all slots and readings, with room to spare.
const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// What a look may take, beside the time between two: longer ago is a time that nobody looked at.
const LOOK_S_MAX: u64 = 60;

/// How long a slot is, how many there are, and what they are called.
const TIERS: [(u64, usize, &str); 3] = [(60, 360, "minutes"), (3_600, 7 * 24, "hours"), (86_400, 90, "days")];
/// What a row of the JSON has.
const COLUMNS: [&str; 12] = [
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
];

/// What one look saw.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When.
    pub unix_s: u64,
    /// How the cluster was.
    pub verdict: Verdict,
    /// As in a [`Report`].
    pub availability_percent: Option<f64>,
    /// What clients did.
    pub io: Option<Io>,
    /// What writing a small object took.
    pub probe_write_ms: Option<f64>,
    /// What reading it took.
    pub probe_read_ms: Option<f64>,
}

impl Sample {
    /// What is kept of a look.
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

/// A number over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Series {
    /// How long it was known; the others mean nothing if that is 0.
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

    /// Whether it can have come of numbers between 0 and `most`.
    fn is_possible(&self, width_s: u64, most: f64) -> bool {
        let known = [self.mean, self.min, self.max].iter().all(|value| (0.0..=most).contains(value));
        self.known_s <= width_s && known && self.min <= self.max
    }
}

/// What was seen in a minute, an hour or a day.
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
        // A clock that was put back sees the same time twice.
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

    /// Adds what was seen of the same time by another run.
    fn join(&mut self, other: &Slot, width_s: u64) {
        // A clock that was put back saw the same time twice: what was known first stays.
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

    /// In the order of [`COLUMNS`].
    fn row(&self) -> Value {
        let availability = &self.availability_percent;
        let least = (availability.known_s > 0).then_some(availability.min);
        json!([
            self.start_unix_s,
            self.observed_s,
            self.at_risk_s,
            self.down_s,
            // Of a day with one lost second nobody is to read that there was none.
            availability.mean().map(|mean| (mean * 1_000.0).floor() / 1_000.0),
            least,
            round_mean(&self.read_bytes_per_s),
            round_mean(&self.write_bytes_per_s),
            round_mean(&self.read_ops_per_s),
            round_mean(&self.write_ops_per_s),
            round_mean(&self.probe_write_ms),
            round_mean(&self.probe_read_ms),
        ])
    }
}

fn round_mean(series: &Series) -> Option<f64> {
    series.mean().map(|mean| (mean * 100.0).round() / 100.0)
}

/// How a cluster was. Its size has a bound: six hours of minutes, a week of hours, 90 days.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// In the order of [`TIERS`], each by time.
    tiers: [Vec<Slot>; TIERS.len()],
    /// When this run looked last.
    last_unix_s: Option<u64>,
}

impl History {
    /// Adds what a look saw, for the time since the last one; for the first of a run, and after [`missed`](History::missed), for
    /// a second. `interval_s` is the time between two looks.
    pub fn add(&mut self, sample: &Sample, interval_s: u64) {
        let now_unix_s = sample.unix_s;
        let since_s = self.last_unix_s.map_or(0, |last_unix_s| now_unix_s.saturating_sub(last_unix_s));
        let is_new = self.last_unix_s.is_none_or(|last_unix_s| now_unix_s < last_unix_s);
        // A machine that slept, or a clock that was put right, did not look meanwhile.
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

    /// Goes on from what an earlier run kept; what was seen since the start is added to it.
    pub fn go_on_from(&mut self, earlier: History) {
        for (((width_s, slots_max, _), slots), earlier) in
            TIERS.into_iter().zip(&mut self.tiers).zip(earlier.tiers)
        {
            for seen in std::mem::replace(slots, earlier) {
                slot(slots, seen.start_unix_s, slots_max).join(&seen, width_s);
            }
        }
    }

    /// Notes that a look failed: until the next one nothing is known.
    pub fn missed(&mut self) {
        self.last_unix_s = None;
    }

    /// What there is of the time up to now: for each of `minutes`, `hours` and `days`, how long a slot is, of what time there can be
    /// any, and a row of `columns` for each slot in which somebody looked. What is not known is null.
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

/// The slot that starts then, which is made if it is not there.
fn slot(slots: &mut Vec<Slot>, start_unix_s: u64, slots_max: usize) -> &mut Slot {
    let mut index = match slots.binary_search_by_key(&start_unix_s, |slot| slot.start_unix_s) {
        Ok(index) => index,
        Err(index) => {
            slots.insert(index, Slot { start_unix_s, ..Slot::default() });
            index
        }
    };
    if slots.len() > slots_max {
        // The one that is farthest away goes: where a clock was wrong once, that may lie ahead.
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

/// What a file has.
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

/// What is kept of a cluster in a file: its history, and readings of its fullest OSD. Both are empty if there is no file yet.
///
/// # Errors
/// `InvalidArgument` for a file that is something else, damaged, of a newer version or of another cluster; `LimitExceeded` for one that
/// is too large; and what the file system says.
pub fn read(file: &Path, fsid: &str) -> Result<(History, Vec<Reading>)> {
    let Some(bytes) = history_file::read(file, FILE_BYTES_MAX)? else {
        return Ok((History::default(), Vec::new()));
    };
    parse(&bytes, fsid).map_err(|error| error.with("file", file.display()))
}

fn parse(bytes: &[u8], fsid: &str) -> Result<(History, Vec<Reading>)> {
    let damaged = || {
        let message = "this is no history of `benthic status serve`, or it is damaged; move it away, or name another file: a \
            new one is made";
        Error::new(ErrorKind::InvalidArgument, message)
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
        let message = "another version of `benthic` wrote this history; use that one, or name another file";
        return Err(Error::new(ErrorKind::InvalidArgument, message).with("version", head.version));
    }
    let content: File = serde_json::from_slice(bytes).map_err(|error| damaged().with_source(error))?;
    if content.fsid != fsid {
        let message = "this is the history of another cluster; name another file";
        return Err(Error::new(ErrorKind::InvalidArgument, message).with("fsid", content.fsid));
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

/// Writes all that is kept of a cluster. After a crash the file is the old one or the new one.
///
/// # Errors
/// What the file system says.
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
    let mut bytes = serde_json::to_vec(&content).map_err(|error| {
        Error::new(ErrorKind::Internal, "the history cannot be written as JSON").with_source(error)
    })?;
    bytes.push(b'\n');
    history_file::replace(file, &bytes)
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
