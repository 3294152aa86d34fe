//! Many tiny objects: rates of creating and listing them, disk space and memory per object, and the
//! time to open the store after a clean close and after a kill of its owner.

use crate::child::{POOL, TINY_BYTES, next, number, start_child};
use crate::files::{disk_bytes, settle};
use crate::{MIB, Setting, store};
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, median};
use std::path::Path;

/// Writes before a kill, multiplied by the round, so that each round replays a log of another
/// length.
const CHURN_EACH: u64 = 70_000;
const OPEN_S_MAX: Aim = Aim::AtMost(0.5);
const MEMORY_MIB_MAX: Aim = Aim::AtMost(100.0);

#[derive(Default)]
struct Opens {
    seconds: Vec<f64>,
    memory_mib: Vec<f64>,
    log_mib: Vec<f64>,
    listed_per_s: Vec<f64>,
}

pub fn run(setting: &Setting) -> Outcome<Section> {
    let (dir, empty) = (setting.dir.join("store"), setting.dir.join("empty"));
    store::open(&empty)?.close()?;
    let mut empty_opens = Opens::default();
    for _ in 0..setting.rounds {
        empty_opens.add(&empty, false)?;
    }
    let empty_mib = median(empty_opens.memory_mib.clone());
    let mut rows = vec![
        Row::alone("empty store: open, until it answers", "s", empty_opens.seconds, Aim::None),
        Row::alone("empty store: memory after opening", "MiB", empty_opens.memory_mib, Aim::None),
    ];
    let mut steps = vec![("100,000", 100_000), ("1,000,000", 1_000_000)];
    if setting.ten_million {
        steps.push(("10,000,000", 10_000_000));
    }
    let mut created = 0;
    for (name, count) in steps {
        let count = setting.count(count);
        eprintln!("    {name} objects: creating");
        let mut child = start_child("fill", &dir, &[created, count])?;
        let line = next(&mut child)?;
        child.finish()?;
        let per_s = (count - created) as f64 / number(&line, "seconds")?;
        let memory_mib = number(&line, "memory_mib_max")?;
        created = count;
        settle(&setting.dir)?;
        let each_bytes = disk_bytes(&dir)? as f64 / count as f64;
        let alone =
            |what: &str, unit, values, aim| Row::alone(format!("{name} objects: {what}"), unit, values, aim);
        rows.extend([
            alone("making the last of them", "objects/s", vec![per_s], Aim::None),
            alone("most memory of the process that made them", "MiB", vec![memory_mib], Aim::None),
            alone("bytes on the disk each, closed", "B", vec![each_bytes], Aim::None),
        ]);
        if name == "100,000" {
            continue;
        }
        let mut clean = Opens::default();
        for round in 0..setting.rounds {
            eprintln!("    {name} objects: opening after a close, round {}", round + 1);
            // List ten million objects only once, because it takes long.
            clean.add(&dir, count <= 1_000_000 || round == 0)?;
        }
        let mut killed = Opens::default();
        for round in 0..setting.rounds {
            eprintln!("    {name} objects: opening after a kill, round {}", round + 1);
            let writes = setting.count(CHURN_EACH * (round as u64 + 1));
            let mut child = start_child("churn", &dir, &[count, writes])?;
            next(&mut child)?;
            drop(child);
            killed.log_mib.push(log_mib(&dir)?);
            killed.add(&dir, false)?;
        }
        let above = |opens: &Opens| opens.memory_mib.iter().map(|mib| mib - empty_mib).collect::<Vec<_>>();
        let slowest_s = killed.seconds.iter().copied().fold(0.0, f64::max);
        let (clean_above, killed_above) = (above(&clean), above(&killed));
        rows.extend([
            alone("listing all", "objects/s", clean.listed_per_s, Aim::None),
            alone("open, closed before", "s", clean.seconds, OPEN_S_MAX),
            alone("open, killed before", "s", killed.seconds, OPEN_S_MAX),
            alone("the slowest of these", "s", vec![slowest_s], OPEN_S_MAX),
            alone("log that the killed left", "MiB", killed.log_mib, Aim::None),
            alone("memory above the empty store's, closed before", "MiB", clean_above, MEMORY_MIB_MAX),
            alone("memory above the empty store's, killed before", "MiB", killed_above, MEMORY_MIB_MAX),
        ]);
    }
    Ok(Section {
        title: "Very many tiny objects",
        note: format!(
            "Objects of {TINY_BYTES} bytes with random names in one pool (\"{POOL}\"), buffered, 64 in flight, made once by a \
             process of its own, with a flush at the end that is timed. Opening: a new process each time, from the start \
             of `EmbeddedStore::open` until the first `stat` was answered, files in the page cache. Before it, a process \
             that overwrote objects at random, 64 in flight, was killed with SIGKILL after 70,000 writes times the round, so \
             that the logs differ. Memory: resident, of the whole process."
        ),
        rows,
    })
}

impl Opens {
    fn add(&mut self, dir: &Path, list: bool) -> Outcome {
        let mut child = start_child("open", dir, &[list.into()])?;
        let line = next(&mut child)?;
        self.seconds.push(number(&line, "seconds")?);
        self.memory_mib.push(number(&line, "memory_mib")?);
        if list {
            let line = next(&mut child)?;
            self.listed_per_s.push(number(&line, "objects")? / number(&line, "seconds")?);
        }
        child.finish()
    }
}

fn log_mib(dir: &Path) -> Outcome<f64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir.join("log"))? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes as f64 / MIB)
}
