//! Bytes on the disk after a working set was overwritten ten times and half of it removed.

use crate::files::disk_bytes;
use crate::{MIB, Setting, store};
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Noise, Outcome, noise, pause, seconds, start};
use benthic_core::{ObjectId, Pool, WriteOp};
use bytes::Bytes;
use std::path::Path;
use std::time::Duration;

/// Object sizes and counts: 384, 112 and 16 MiB in total.
const OBJECTS: [(&str, usize, u64); 3] =
    [("large", 4 << 20, 96), ("middle", 64 << 10, 1_792), ("small", 1 << 10, 16_384)];
/// Number of overwrites of all data, in whole objects and again in parts.
const TIMES: u64 = 5;
const PART_BYTES: usize = 4_096;
/// Disk usage must stay the same for `STILL_S`; the wait ends after `WAIT_S_MAX`.
const STILL_S: f64 = 3.0;
const WAIT_S_MAX: f64 = 60.0;
const POLL: Duration = Duration::from_millis(250);

pub fn run(setting: &Setting) -> Outcome<Section> {
    let dir = setting.dir.join("store");
    let store = store::open(&dir)?;
    let pool = store::pool(&*store, "space")?;
    let data = Bytes::from(noise((4 << 20) + 65_536));
    let mut sets = Vec::new();
    for (name, size, count) in OBJECTS {
        sets.push((size, store::objects(name, if setting.quick { count / 8 } else { count })?));
    }
    for (size, objects) in &sets {
        store::fill(&*pool, objects, |index| data.slice(index % 65_536..index % 65_536 + size))?;
    }
    for time in 0..TIMES {
        eprintln!("    overwriting whole and in parts, {} of {TIMES}", time + 1);
        for (size, objects) in &sets {
            let from = |index: usize| (index + time as usize * 7) % 65_536;
            store::fill(&*pool, objects, |index| data.slice(from(index)..from(index) + size))?;
        }
        for (size, objects) in &sets {
            overwrite_parts(&*pool, objects, *size, &data, time)?;
        }
    }
    store::flush(&*store)?;
    let mib = |path: &Path| -> Outcome<f64> { Ok(disk_bytes(path)? as f64 / MIB) };
    let before_mib = mib(&dir)?;
    let mut live_bytes = 0;
    for (size, objects) in &mut sets {
        let (gone, kept): (Vec<_>, Vec<_>) =
            objects.drain(..).enumerate().partition(|(index, _)| index % 2 == 0);
        let gone: Vec<ObjectId> = gone.into_iter().map(|(_, object)| object).collect();
        store::remove(&*pool, &gone)?;
        live_bytes += *size * kept.len();
    }
    store::flush(&*store)?;
    let cleaned_s = wait_until_still(&dir)?;
    let live_mib = live_bytes as f64 / MIB;
    let after_mib = mib(&dir)?;
    let one = |what: &str, unit, value, aim| Row::alone(what, unit, vec![value], aim);
    let mut rows = vec![
        one("live data before half was removed", "MiB", 2.0 * live_mib, Aim::None),
        one("on the disk before half was removed", "MiB", before_mib, Aim::None),
        one("live data", "MiB", live_mib, Aim::None),
        one("on the disk", "MiB", after_mib, Aim::None),
        one("on the disk / live data", "times", after_mib / live_mib, Aim::AtMost(1.3)),
        one("time until the disk was still", "s", cleaned_s, Aim::None),
    ];
    let mut parts: Vec<_> = std::fs::read_dir(&dir)?.collect::<Result<_, _>>()?;
    parts.extend(std::fs::read_dir(dir.join("log"))?.collect::<Result<Vec<_>, _>>()?);
    parts.sort_by_key(|entry| entry.path());
    for part in parts {
        let path = part.path();
        let part_mib = mib(&path)?;
        if part_mib >= 0.1 {
            let name = path.strip_prefix(&dir)?.display().to_string();
            rows.push(one(&format!("of that: {name}"), "MiB", part_mib, Aim::None));
        }
    }
    drop(pool);
    store.close()?;
    rows.push(one("on the disk when closed / live data", "times", mib(&dir)? / live_mib, Aim::None));
    Ok(Section {
        title: "Space",
        note: "Objects of 4 MiB, 64 KiB and 1 KiB, 512 MiB in all, overwritten five times whole and, in turns with that, five \
               times in parts of 4 KiB in random order; then every second one is removed. All buffered, with a flush. On the \
               disk: the blocks of all files of the store, while it is open, once they were the same for 3 s."
            .to_owned(),
        rows,
    })
}

/// Overwrites all data of all objects in parts, in random order.
fn overwrite_parts(pool: &dyn Pool, objects: &[ObjectId], size: usize, data: &Bytes, time: u64) -> Outcome {
    let parts_each = size.div_ceil(PART_BYTES);
    let mut parts: Vec<usize> = (0..objects.len() * parts_each).collect();
    let mut random = Noise::new(time);
    for last in (1..parts.len()).rev() {
        parts.swap(last, random.below(last as u64 + 1) as usize);
    }
    let len = size.min(PART_BYTES);
    store::run(parts.len() as u64, store::MANY_IN_FLIGHT, |index| {
        let part = parts[index as usize];
        let from = (index as usize * 8) % 65_536;
        let offset_bytes = (part % parts_each * PART_BYTES) as u64;
        let op = WriteOp::new().write(offset_bytes, data.slice(from..from + len)).buffered();
        async move { pool.write(&objects[part / parts_each], op).await.map(|_| ()) }
    })
    .map(|_| ())
}

/// Waits until disk usage stays the same; returns the seconds until its last change.
pub fn wait_until_still(dir: &Path) -> Outcome<f64> {
    let stopwatch = start();
    let (mut bytes, mut changed_s) = (disk_bytes(dir)?, 0.0);
    while seconds(stopwatch) - changed_s < STILL_S && seconds(stopwatch) < WAIT_S_MAX {
        pause(POLL);
        let now = disk_bytes(dir)?;
        if now != bytes {
            (bytes, changed_s) = (now, seconds(stopwatch));
        }
    }
    Ok(changed_s)
}
