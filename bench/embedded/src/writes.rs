//! Durable writes of new objects of 64 KiB, one at a time and 16 in flight, compared with fio and
//! the same number of syncs.

use crate::files::Flushes;
use crate::rounds::{Side, run_rounds};
use crate::{MIB, Setting, fio, store};
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, noise};
use benthic_core::WriteOp;
use bytes::Bytes;

const OBJECT_BYTES: u64 = 65_536;
/// Operations in flight, which is also the number of writes between two syncs of fio, and total
/// number of operations.
const LOADS: [(usize, u64); 2] = [(1, 1_024), (16, 8_192)];
const AIM: Aim = Aim::OfReference(0.8);

pub fn run(setting: &Setting) -> Outcome<Section> {
    let store = store::open(&setting.dir.join("store"))?;
    let pool = store::pool(&*store, "writes")?;
    let data = Bytes::from(noise(OBJECT_BYTES as usize));
    let (new, laid_out) = (setting.dir.join("fio-new"), setting.dir.join("fio-laid-out"));
    let mut rows = Vec::new();
    for (in_flight, count) in LOADS {
        let count = setting.count(count);
        let (our_flushes, fio_flushes) = (Flushes::new(&setting.dir), Flushes::new(&setting.dir));
        let ours: Side<'_> = Box::new(|round| {
            let objects = store::objects(&format!("round-{}", round.number), round.count)?;
            let seconds = our_flushes.during(round.count, || {
                store::run(round.count, in_flight, |index| {
                    let (pool, object) = (&pool, &objects[index as usize]);
                    let op = WriteOp::new().write_full(data.clone());
                    async move { pool.write(object, op).await.map(|_| ()) }
                })
            })?;
            store::remove(&*pool, &objects)?;
            store::flush(&*store)?;
            Ok(seconds)
        });
        let options = |count: u64| {
            format!("--rw=write --bs=64k --size={} --fdatasync={in_flight}", count * OBJECT_BYTES)
        };
        let appending: Side<'_> = Box::new(|round| {
            let seconds = fio_flushes.during(round.count, || fio::seconds(&new, &options(round.count)))?;
            std::fs::remove_file(&new)?;
            Ok(seconds)
        });
        let overwriting: Side<'_> =
            Box::new(|round| fio::seconds(&laid_out, &format!("{} --overwrite=1", options(round.count))));
        let work = (count, OBJECT_BYTES as f64 / MIB);
        let sides = vec![ours, appending, overwriting];
        let measured = run_rounds(setting, &format!("{in_flight} in flight"), work, sides)?;
        let what = |against: &str| format!("{in_flight} in flight, against {against}");
        rows.extend([
            Row::compared(what("fio into a new file"), "MiB/s", &measured[0], &measured[1], AIM),
            Row::compared(what("fio over a laid-out file"), "MiB/s", &measured[0], &measured[2], Aim::None),
        ]);
        rows.extend(our_flushes.against(what("fio into a new file: flushes a write"), &fio_flushes));
    }
    store.close()?;
    Ok(Section {
        title: "Durable writes of new objects of 64 KiB",
        note: format!(
            "`write_full` of objects that are new in every round, each acknowledged when it is durable. fio: \
             `--rw=write --bs=64k --fdatasync=N {}`, N being what we have in flight, as many bytes, into a file that did \
             not exist before, so that it takes new space as we do; and, harder, with `--overwrite=1` over a file that \
             was laid out before. The aim is judged against the new file. Each round removes what it wrote, untimed. \
             Flushes are counted by the disk, for the whole machine.",
            fio::COMMON
        ),
        rows,
    })
}
