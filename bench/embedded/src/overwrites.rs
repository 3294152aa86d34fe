//! Random overwrites of 4 KiB in objects of 4 MiB, 16 in flight: durable ones compared with fio and
//! a sync every 16 writes, buffered ones with fio without syncs.

use crate::files::{Flushes, settle};
use crate::rounds::{Round, Side, run_rounds};
use crate::{Setting, fio, store};
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Noise, Outcome, noise};
use benthic_core::{ObjectId, Pool, WriteOp};
use benthic_embedded::EmbeddedStore;
use bytes::Bytes;
use std::path::PathBuf;
use std::sync::Arc;

const OBJECT_BYTES: u64 = 4 << 20;
const OBJECTS: u64 = 256;
const PART_BYTES: u64 = 4_096;
const IN_FLIGHT: usize = 16;
const DURABLE: u64 = 16_384;
const BUFFERED: u64 = 65_536;
/// Unit that has a single checksum when it is written sequentially.
const CHUNK_BYTES: u64 = 65_536;
const AIM: Aim = Aim::OfReference(0.5);

pub fn run(setting: &Setting) -> Outcome<Section> {
    let store = store::open(&setting.dir.join("store"))?;
    let pool = store::pool(&*store, "overwrites")?;
    let objects = store::objects("object", if setting.quick { OBJECTS / 32 } else { OBJECTS })?;
    let data = noise((OBJECT_BYTES + CHUNK_BYTES) as usize).into();
    let load = Load { setting, store, pool, objects, data, laid_out: setting.dir.join("fio-laid-out") };
    let mut rows = Vec::new();
    for durable in [true, false] {
        let kind = if durable { "durable" } else { "buffered" };
        let count = setting.count(if durable { DURABLE } else { BUFFERED });
        let what = format!("{kind}, objects just written");
        let ours: Side<'_> = Box::new(|round| {
            load.write_whole()?;
            load.overwrite(round, durable)
        });
        let fio: Side<'_> = Box::new(|round| load.fio(round, durable));
        let measured = run_rounds(setting, &what, (count, 1.0), vec![ours, fio])?;
        rows.push(Row::compared(what, "writes/s", &measured[0], &measured[1], AIM));

        load.overwrite_every_chunk()?;
        let what = format!("{kind}, objects in use");
        let (our_flushes, fio_flushes) = (Flushes::new(&setting.dir), Flushes::new(&setting.dir));
        let ours: Side<'_> =
            Box::new(|round| our_flushes.during(round.count, || load.overwrite(round, durable)));
        let fio: Side<'_> = Box::new(|round| fio_flushes.during(round.count, || load.fio(round, durable)));
        let measured = run_rounds(setting, &what, (count, 1.0), vec![ours, fio])?;
        rows.push(Row::compared(&what, "writes/s", &measured[0], &measured[1], AIM));
        if durable {
            rows.extend(our_flushes.against(format!("{what}: flushes a write"), &fio_flushes));
        }
    }
    load.store.close()?;
    Ok(Section {
        title: "Random overwrites of 4 KiB in objects of 4 MiB, 16 in flight",
        note: format!(
            "1 GiB in all. Just written: each round first writes all objects whole, untimed, so that the first overwrite of a \
             chunk of 64 KiB has to verify all of it. In use: every chunk was overwritten in part before. Buffered ends \
             with a flush, which is timed. fio: `--rw=randwrite --bs=4k --overwrite=1 --norandommap {}`, over one laid-out \
             file of 1 GiB; durable with `--fdatasync=16`, for 16 in flight make groups of at most 16. Flushes are counted \
             by the disk, for the whole machine.",
            fio::COMMON
        ),
        rows,
    })
}

struct Load<'a> {
    setting: &'a Setting,
    store: Arc<EmbeddedStore>,
    pool: Arc<dyn Pool>,
    objects: Vec<ObjectId>,
    data: Bytes,
    laid_out: PathBuf,
}

impl Load<'_> {
    fn write_whole(&self) -> Outcome {
        store::fill(&*self.pool, &self.objects, |index| {
            let from = index % CHUNK_BYTES as usize;
            self.data.slice(from..from + OBJECT_BYTES as usize)
        })?;
        store::flush(&*self.store)?;
        settle(&self.setting.dir)
    }

    fn overwrite_every_chunk(&self) -> Outcome {
        let chunks = OBJECT_BYTES / CHUNK_BYTES;
        store::run(self.objects.len() as u64 * chunks, IN_FLIGHT, |index| {
            let object = &self.objects[(index / chunks) as usize];
            let op = WriteOp::new().write(index % chunks * CHUNK_BYTES, self.part(index)).buffered();
            async move { self.pool.write(object, op).await.map(|_| ()) }
        })?;
        store::flush(&*self.store)?;
        settle(&self.setting.dir)
    }

    fn overwrite(&self, round: Round, durable: bool) -> Outcome<f64> {
        let mut random = Noise::new(round.number as u64);
        let places: Vec<(usize, u64)> = (0..round.count)
            .map(|_| {
                let object = random.below(self.objects.len() as u64) as usize;
                (object, random.below(OBJECT_BYTES / PART_BYTES) * PART_BYTES)
            })
            .collect();
        let seconds = store::run(places.len() as u64, IN_FLIGHT, |index| {
            let (object, offset_bytes) = places[index as usize];
            let op = WriteOp::new().write(offset_bytes, self.part(index));
            let op = if durable { op } else { op.buffered() };
            async move { self.pool.write(&self.objects[object], op).await.map(|_| ()) }
        })?;
        Ok(if durable { seconds } else { seconds + store::flush(&*self.store)? })
    }

    fn part(&self, index: u64) -> Bytes {
        let from = (index * 8 % OBJECT_BYTES) as usize;
        self.data.slice(from..from + PART_BYTES as usize)
    }

    fn fio(&self, round: Round, durable: bool) -> Outcome<f64> {
        let (size_bytes, io_bytes) = (self.objects.len() as u64 * OBJECT_BYTES, round.count * PART_BYTES);
        let sync = if durable { " --fdatasync=16" } else { "" };
        let options = format!(
            "--rw=randwrite --bs=4k --size={size_bytes} --io_size={io_bytes} --overwrite=1 --norandommap --randseed={}{sync}",
            round.number + 1
        );
        fio::seconds(&self.laid_out, &options)
    }
}
