//! Cached reads compared with pread and the same checksum, by one thread and by four.

use crate::rounds::{Round, Side, run_rounds};
use crate::{MIB, Setting, store};
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Noise, Outcome, noise, seconds, start};
use benthic_core::{Error, ErrorKind, ObjectId, Pool};
use bytes::Bytes;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

const SMALL_BYTES: u64 = 65_536;
const LARGE_BYTES: u64 = 4 << 20;
/// Total size of the objects of one size, and size of the file.
const ALL_BYTES: u64 = 256 << 20;
const AT_ONCE: [usize; 2] = [1, 4];
const AIM: Aim = Aim::OfReference(0.8);

/// Name, object size, size of a read, and number of reads.
const LOADS: [(&str, u64, u64, u64); 3] = [
    ("64 KiB, whole objects", SMALL_BYTES, SMALL_BYTES, 131_072),
    ("64 KiB, within objects of 4 MiB", LARGE_BYTES, SMALL_BYTES, 131_072),
    ("4 MiB, whole objects", LARGE_BYTES, LARGE_BYTES, 2_048),
];

pub fn run(setting: &Setting) -> Outcome<Section> {
    let all_bytes = if setting.quick { ALL_BYTES / 8 } else { ALL_BYTES };
    let store = store::open(&setting.dir.join("store"))?;
    let pool = store::pool(&*store, "reads")?;
    let data = Bytes::from(noise(all_bytes as usize));
    let path = setting.dir.join("file");
    std::fs::write(&path, &data)?;
    let file = File::open(&path)?;
    let small = store::objects("small", all_bytes / SMALL_BYTES)?;
    let large = store::objects("large", all_bytes / LARGE_BYTES)?;
    for (objects, size) in [(&small, SMALL_BYTES as usize), (&large, LARGE_BYTES as usize)] {
        store::fill(&*pool, objects, |index| data.slice(index * size..(index + 1) * size))?;
    }
    store::flush(&*store)?;
    let mut rows = Vec::new();
    for (what, object_bytes, read_bytes, count) in LOADS {
        let objects = if object_bytes == SMALL_BYTES { &small } else { &large };
        let load = Load { pool: &*pool, objects, object_bytes, read_bytes, file: &file, data: &data };
        load.check()?;
        for at_once in AT_ONCE {
            let count = setting.count(count);
            let places = load.places(count);
            let places = |round: Round| &places[..round.count as usize];
            let what = format!("{what}, {at_once} at once");
            let sides: Vec<Side<'_>> = vec![
                Box::new(|round| load.ours(places(round), at_once)),
                Box::new(|round| load.pread(places(round), at_once, true)),
                Box::new(|round| load.pread(places(round), at_once, false)),
            ];
            let rates = run_rounds(setting, &what, (count, read_bytes as f64 / MIB), sides)?;
            let reused = format!("{what}, reference with one buffer");
            rows.extend([
                Row::compared(what, "MiB/s", &rates[0], &rates[1], AIM),
                Row::compared(reused, "MiB/s", &rates[0], &rates[2], Aim::None),
            ]);
        }
    }
    store.close()?;
    Ok(Section {
        title: "Cached reads",
        note: "Random places, all of it in the page cache. The reference: pread into a new buffer, which every reader of \
               ours gets, and crc32c of it with the instruction of the processor, from a file with the same bytes; 4 at once \
               are 4 threads on both sides. With one buffer: the reference reads into the \
               same one again and again."
            .to_owned(),
        rows,
    })
}

struct Load<'a> {
    pool: &'a dyn Pool,
    objects: &'a [ObjectId],
    object_bytes: u64,
    read_bytes: u64,
    file: &'a File,
    data: &'a Bytes,
}

impl Load<'_> {
    /// Random offsets in the file, which holds the objects' data one after the other.
    fn places(&self, count: u64) -> Vec<u64> {
        let mut random = Noise::new(0);
        let all = self.objects.len() as u64 * self.object_bytes / self.read_bytes;
        (0..count).map(|_| random.below(all) * self.read_bytes).collect()
    }

    /// Fails on wrong data, because the time of a wrong result is meaningless.
    fn check(&self) -> Outcome {
        let count = self.objects.len() as u64;
        store::run(count, 1, |index| async move {
            let at = index * self.object_bytes + (index % 2) * (self.object_bytes - self.read_bytes);
            let read = self.read(at).await?;
            if read == self.data.slice(at as usize..(at + self.read_bytes) as usize) {
                return Ok(());
            }
            Err(Error::new(ErrorKind::Internal, "a read returned other bytes than were written")
                .with("offset_bytes", at))
        })
        .map(|_| ())
    }

    async fn read(&self, at: u64) -> benthic_core::Result<Bytes> {
        let object = &self.objects[(at / self.object_bytes) as usize];
        self.pool.read_range(object, at % self.object_bytes, self.read_bytes).await
    }

    fn ours(&self, places: &[u64], threads: usize) -> Outcome<f64> {
        let read = |places: &[u64]| -> benthic_core::Result<()> {
            for at in places {
                black_box(futures::executor::block_on(self.read(*at))?);
            }
            Ok(())
        };
        in_threads(places, threads, read)
    }

    fn pread(&self, places: &[u64], threads: usize, fresh: bool) -> Outcome<f64> {
        let len = self.read_bytes as usize;
        let read = |places: &[u64]| -> std::io::Result<()> {
            let mut buffer = vec![0; len];
            for at in places {
                if fresh {
                    buffer = vec![0; len];
                }
                self.file.read_exact_at(&mut buffer, *at)?;
                black_box(crc32c::crc32c(&buffer));
            }
            Ok(())
        };
        in_threads(places, threads, read)
    }
}

/// Splits the offsets over threads; returns seconds.
fn in_threads<E: std::error::Error + Send + Sync + 'static>(
    places: &[u64],
    threads: usize,
    read: impl Fn(&[u64]) -> Result<(), E> + Sync,
) -> Outcome<f64> {
    let stopwatch = start();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let parts = places.chunks(places.len().div_ceil(threads));
        let running: Vec<_> = parts.map(|part| scope.spawn(|| read(part))).collect();
        running.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    for outcome in outcomes {
        outcome.map_err(|_| "a reader panicked")??;
    }
    Ok(seconds(stopwatch))
}
