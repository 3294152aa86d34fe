//! The same operations on a store of another process, through its socket, and on a store of this
//! process.

use crate::child::{POOL, next, start_child};
use crate::rounds::{Side, run_rounds};
use crate::{MIB, Setting, store};
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, noise};
use benthic_core::{ObjectId, Pool, WriteOp};
use benthic_embedded::EmbeddedStore;
use bytes::Bytes;
use std::sync::Arc;

const OBJECT_BYTES: usize = 65_536;
const OBJECTS: u64 = 1_024;
const IN_FLIGHT: [usize; 2] = [1, 16];
const AIM: Aim = Aim::OfReference(0.6);

#[derive(Clone, Copy)]
enum Work {
    Reads,
    Buffered,
    Durable,
}

/// Kinds of work, with the number of operations for the first and second entry of [`IN_FLIGHT`].
const WORK: [(&str, Work, [u64; 2]); 3] = [
    ("reads", Work::Reads, [16_384, 32_768]),
    ("buffered writes", Work::Buffered, [4_096, 8_192]),
    ("durable writes", Work::Durable, [1_024, 4_096]),
];

struct Place {
    store: Arc<EmbeddedStore>,
    pool: Arc<dyn Pool>,
    objects: Vec<ObjectId>,
    data: Bytes,
}

pub fn run(setting: &Setting) -> Outcome<Section> {
    let theirs = setting.dir.join("theirs");
    let mut owner = start_child("own", &theirs, &[])?;
    next(&mut owner)?;
    let there = Place::new(store::open(&theirs)?)?;
    if there.store.is_owner() {
        return Err("the store is in this process, not behind a socket".into());
    }
    let own = store::open(&setting.dir.join("ours"))?;
    let here = Place::new(own)?;
    let mut rows = Vec::new();
    for (what, work, counts) in WORK {
        for (in_flight, count) in IN_FLIGHT.into_iter().zip(counts) {
            let what = format!("{what}, {in_flight} in flight");
            let count = setting.count(count);
            let sides: Vec<Side<'_>> = vec![
                Box::new(|round| there.run(work, round.count, in_flight)),
                Box::new(|round| here.run(work, round.count, in_flight)),
            ];
            let rates = run_rounds(setting, &what, (count, OBJECT_BYTES as f64 / MIB), sides)?;
            rows.push(Row::compared(what, "MiB/s", &rates[0], &rates[1], AIM));
        }
    }
    there.close()?;
    here.close()?;
    owner.finish()?;
    Ok(Section {
        title: "64 KiB through the socket, against in-process",
        note: "Ours: this process uses a store that another process owns. Reference: this process owns the store. Whole \
               objects, 1,024 of them again and again; buffered writes end with a flush, which is timed."
            .to_owned(),
        rows,
    })
}

impl Place {
    fn new(store: Arc<EmbeddedStore>) -> Outcome<Place> {
        let pool = store::pool(&*store, POOL)?;
        let place = Place {
            store,
            pool,
            objects: store::objects("object", OBJECTS)?,
            data: Bytes::from(noise(OBJECT_BYTES)),
        };
        store::fill(&*place.pool, &place.objects, |_| place.data.clone())?;
        store::flush(&*place.store)?;
        Ok(place)
    }

    fn run(&self, work: Work, count: u64, in_flight: usize) -> Outcome<f64> {
        let write = WriteOp::new().write_full(self.data.clone());
        let object = |index: u64| &self.objects[(index * 397 % OBJECTS) as usize];
        let read = |index| async move {
            self.pool.read_range(object(index), 0, OBJECT_BYTES as u64).await.map(|_| ())
        };
        let seconds = match work {
            Work::Reads => store::run(count, in_flight, read)?,
            Work::Buffered | Work::Durable => store::run(count, in_flight, |index| {
                let op =
                    if matches!(work, Work::Buffered) { write.clone().buffered() } else { write.clone() };
                async move { self.pool.write(object(index), op).await.map(|_| ()) }
            })?,
        };
        Ok(if matches!(work, Work::Buffered) { seconds + store::flush(&*self.store)? } else { seconds })
    }

    fn close(self) -> Outcome {
        Ok(self.store.close()?)
    }
}
