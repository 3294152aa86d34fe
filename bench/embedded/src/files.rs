//! Disk usage and disk flushes as the file system reports them, and waiting until the disk is idle.

use bench_harness::report::{Aim, Row};
use bench_harness::{Outcome, pause};
use std::cell::RefCell;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A process that uses no CPU for this long is idle. It exceeds the interval of a store's cleaner.
const IDLE: Duration = Duration::from_millis(150);
/// How often to test for idleness before giving up.
const BUSY_MAX: usize = 100;

/// Bytes that a file, or all files of a directory, use on the disk.
pub fn disk_bytes(path: &Path) -> Outcome<u64> {
    let metadata = match fs::symlink_metadata(path) {
        // A store may remove files during the count.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        metadata => metadata?,
    };
    let mut bytes = metadata.blocks() * 512;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            bytes += disk_bytes(&entry?.path())?;
        }
    }
    Ok(bytes)
}

/// Waits until the stores of this process have no background work left and the file system has
/// written everything.
pub fn settle(dir: &Path) -> Outcome {
    for _ in 0..BUSY_MAX {
        let before = cpu_ticks()?;
        pause(IDLE);
        if cpu_ticks()? <= before + 1 {
            break;
        }
    }
    Ok(rustix::fs::syncfs(File::open(dir)?)?)
}

fn cpu_ticks() -> Outcome<u64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The process name comes first and may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')').ok_or("/proc/self/stat has no CPU time")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    Ok(ticks.sum::<Result<u64, _>>()?)
}

/// Counts flushes of the cache of the disk below a directory, by any process.
pub struct Flushes {
    dir: PathBuf,
    per_operation: RefCell<Vec<f64>>,
}

impl Flushes {
    pub fn new(dir: &Path) -> Flushes {
        Flushes { dir: dir.to_owned(), per_operation: RefCell::default() }
    }

    /// Runs a function that does `operations` operations, and counts the flushes.
    pub fn during<T>(&self, operations: u64, run: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let before = self.so_far();
        let outcome = run()?;
        if let Some((before, after)) = before.zip(self.so_far()) {
            self.per_operation.borrow_mut().push((after - before) as f64 / operations as f64);
        }
        Ok(outcome)
    }

    /// Flushes per operation for each round, without the warm-up. Empty if the system does not
    /// count flushes for this file system.
    pub fn by_round(&self) -> Vec<f64> {
        self.per_operation.borrow().iter().skip(1).copied().collect()
    }

    /// A row that compares two counts; None if the disk does not count flushes.
    pub fn against(&self, what: impl Into<String>, reference: &Flushes) -> Option<Row> {
        let row = Row::compared(what, "", &self.by_round(), &reference.by_round(), Aim::None);
        (!row.ours.is_empty() && !row.reference.is_empty()).then_some(row)
    }

    fn so_far(&self) -> Option<u64> {
        let device = fs::metadata(&self.dir).ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let counts = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
        counts.split_whitespace().nth(15)?.parse().ok().filter(|count| *count > 0)
    }
}
