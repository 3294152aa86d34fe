//! Omap inserts with random keys, and ordered scans, compared with the bare key-value crate.

use crate::reference_kv::{Batch, Tree};
use crate::rounds::{Round, Side, run_rounds};
use crate::{Setting, store};
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Noise, Outcome, seconds, start};
use benthic_core::{Fetch, ObjectId, Pool, WriteOp, limits};
use bytes::Bytes;
use futures::executor::block_on;
use std::cell::RefCell;
use std::hint::black_box;
use std::path::Path;

const ENTRIES: u64 = 1_000_000;
const ENTRIES_EACH: u64 = 100;
const OBJECTS: u64 = 100;
const AIM: Aim = Aim::OfReference(0.8);

/// Further measurements of a side, by round.
#[derive(Default)]
struct ExtraRates {
    until_closed: RefCell<Vec<f64>>,
    our_scan: RefCell<Vec<f64>>,
    scan: RefCell<Vec<f64>>,
}

pub fn run(setting: &Setting) -> Outcome<Section> {
    let batches = batches(setting.count(ENTRIES) / ENTRIES_EACH);
    let objects = store::objects("object", OBJECTS)?;
    let work = (batches.len() as u64, ENTRIES_EACH as f64);
    let mut rows = Vec::new();
    for (in_flight, threads) in [(1, 1), (16, setting.cores)] {
        let extra = ExtraRates::default();
        let ours: Side<'_> = Box::new(|round| ours(setting, round, &batches, &objects, in_flight, &extra));
        let reference: Side<'_> = Box::new(|round| reference(setting, round, &batches, threads, &extra));
        let what = format!("inserts, {in_flight} at once, {threads} in the reference");
        let measured = run_rounds(setting, &what, work, vec![ours, reference])?;
        let row = |what: String, ours: &[f64], reference: &[f64], aim| {
            Row::compared(what, "entries/s", ours, reference, aim)
        };
        rows.push(row(what, &measured[0], &measured[1], AIM));
        let until_closed = extra.until_closed.into_inner();
        rows.push(row(
            "the same until the store is closed".to_owned(),
            &until_closed,
            &measured[1],
            Aim::None,
        ));
        if in_flight == 1 {
            let (ours, reference) = (extra.our_scan.into_inner(), extra.scan.into_inner());
            rows.push(row("ordered scan, after opening again".to_owned(), &ours, &reference, AIM));
        }
    }
    Ok(Section {
        title: "Omap against the bare key-value crate",
        note: format!(
            "{} entries of 16 + 100 bytes with random keys, into {OBJECTS} objects of an empty store, {ENTRIES_EACH} \
             in one buffered operation; a flush at the end is timed. The reference, lsm-tree, gets the same batches of the \
             keys that the engine makes of them, with the engine's cache, its size of a table in memory, its \
             compaction, in the background as well, and is flushed to its tables. It has no log, no checksums of \
             operations, no attributes or versions to keep, and no order of operations to promise; our flush ends with \
             the log durable, closing writes the tables. A scan reads all entries of one object after the other, ours \
             in pages of {}.",
            batches.len() as u64 * ENTRIES_EACH,
            limits::OMAP_PAGE_ENTRIES_MAX
        ),
        rows,
    })
}

fn batches(count: u64) -> Vec<Batch> {
    let mut random = Noise::new(0);
    let mut key = || {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&random.next_u64().to_be_bytes());
        key[8..].copy_from_slice(&random.next_u64().to_be_bytes());
        key
    };
    let batch = |index| Batch {
        object: index % OBJECTS,
        keys: (0..ENTRIES_EACH).map(|_| key()).collect(),
        value: [index as u8; 100],
    };
    (0..count).map(batch).collect()
}

fn ours(
    setting: &Setting,
    round: Round,
    batches: &[Batch],
    objects: &[ObjectId],
    in_flight: usize,
    extra: &ExtraRates,
) -> Outcome<f64> {
    let dir = setting.dir.join("store");
    let batches = &batches[..round.count as usize];
    let entries = batches.len() as f64 * ENTRIES_EACH as f64;
    let store = store::open(&dir)?;
    let pool = store::pool(&*store, "omap")?;
    let values: Vec<Bytes> = batches.iter().map(|batch| Bytes::copy_from_slice(&batch.value)).collect();
    let inserting_s = store::run(batches.len() as u64, in_flight, |index| {
        let (batch, value) = (&batches[index as usize], &values[index as usize]);
        let entries = batch.keys.iter().map(|key| (Bytes::copy_from_slice(key), value.clone()));
        let op = WriteOp::new().omap_set(entries).buffered();
        let object = &objects[batch.object as usize];
        let pool = &pool;
        async move { pool.write(object, op).await.map(|_| ()) }
    })?;
    let inserted_s = inserting_s + store::flush(&*store)?;
    let stopwatch = start();
    drop(pool);
    store.close()?;
    let closing_s = seconds(stopwatch);
    if in_flight == 1 {
        // In a quick run, the warm-up round has fewer batches than there are objects.
        let rate = scan(&dir, &objects[..objects.len().min(batches.len())], entries as u64)?;
        extra.push(&extra.our_scan, round, rate);
    }
    extra.push(&extra.until_closed, round, entries / (inserted_s + closing_s));
    std::fs::remove_dir_all(dir)?;
    Ok(inserted_s)
}

fn scan(dir: &Path, objects: &[ObjectId], entries: u64) -> Outcome<f64> {
    let store = store::open(dir)?;
    let pool = block_on(benthic_core::Store::open_pool(&*store, "omap"))?;
    let stopwatch = start();
    let mut found = 0;
    for object in objects {
        found += block_on(scan_object(&*pool, object))?;
    }
    let seconds = seconds(stopwatch);
    store.close()?;
    check_count(found, entries)?;
    Ok(entries as f64 / seconds)
}

async fn scan_object(pool: &dyn Pool, object: &ObjectId) -> benthic_core::Result<u64> {
    let (mut found, mut after) = (0, None);
    loop {
        let range = Fetch::omap_range(after, Bytes::new(), limits::OMAP_PAGE_ENTRIES_MAX);
        let (page, _) = pool.fetch(object, range).await?;
        found += page.entries.len() as u64;
        after = page.entries.last().map(|(key, _)| key.clone());
        let more = page.more;
        black_box(page);
        if !more {
            return Ok(found);
        }
    }
}

fn reference(
    setting: &Setting,
    round: Round,
    batches: &[Batch],
    threads: usize,
    extra: &ExtraRates,
) -> Outcome<f64> {
    let dir = setting.dir.join("lsm-tree");
    let batches = &batches[..round.count as usize];
    let entries = batches.len() as f64 * ENTRIES_EACH as f64;
    let tree = Tree::open(&dir)?;
    let stopwatch = start();
    tree.insert(batches, threads)?;
    let inserted_s = seconds(stopwatch);
    drop(tree);
    let tree = Tree::open(&dir)?;
    let stopwatch = start();
    let mut found = 0;
    for object in 0..OBJECTS {
        found += tree.scan(object)?;
    }
    extra.push(&extra.scan, round, entries / seconds(stopwatch));
    check_count(found, entries as u64)?;
    std::fs::remove_dir_all(dir)?;
    Ok(inserted_s)
}

/// Checks the number of entries. Random keys of this length do not collide in practice.
fn check_count(found: u64, entries: u64) -> Outcome {
    if found == entries { Ok(()) } else { Err(format!("found {found} of {entries} entries").into()) }
}

impl ExtraRates {
    fn push(&self, into: &RefCell<Vec<f64>>, round: Round, value: f64) {
        if round.number > 0 {
            into.borrow_mut().push(value);
        }
    }
}
