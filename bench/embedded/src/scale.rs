//! How the cost of each operation grows with the number of tiny objects, and what very sparse data
//! cost.

use crate::child::{POOL, TINY_BYTES, next, number, report, start_child, tiny};
use crate::files::settle;
use crate::space::wait_until_still;
use crate::store::{MANY_IN_FLIGHT, flush, objects, open, pool, remove, run as run_ops};
use crate::{MIB, Setting};
use bench_harness::process::memory_mib;
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Noise, Outcome, median, noise, seconds, start};
use benthic_core::{ListRequest, ObjectId, Pool, Store, WriteOp, limits};
use benthic_embedded::EmbeddedStore;
use bytes::Bytes;
use futures::executor::block_on;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;

type Opened = (Arc<EmbeddedStore>, Arc<dyn Pool>);

/// A quantity: its name in the report of a child, what it is, and its unit.
type Quantity = (&'static str, &'static str, &'static str);

const BY_OBJECTS: [Quantity; 13] = [
    ("open_s", "open, until it answers", "s"),
    ("opened_mib", "memory after opening", "MiB"),
    ("stat_us", "stat of a random object, 1 in flight", "µs"),
    ("get_us", "get of a random object, 1 in flight", "µs"),
    ("list_ms", "page of 1,000 of a listing, from a random place", "ms"),
    ("put_us", "put of a new object, 64 in flight", "µs"),
    ("overwrite_us", "overwrite of a random object, 64 in flight", "µs"),
    ("remove_us", "removal of an object, 64 in flight", "µs"),
    ("cleaned_s", "time until the disk was still after removals", "s"),
    ("memory_mib", "most memory until then", "MiB"),
    ("scrub_s", "scrub", "s"),
    ("fsck_s", "fsck", "s"),
    ("checked_mib", "most memory with scrub and fsck", "MiB"),
];
const OF_SPARSE: [Quantity; 11] = [
    ("open_s", "open, until it answers", "s"),
    ("opened_mib", "memory after opening", "MiB"),
    ("stat_us", "stat", "µs"),
    ("hole_us", "read of 4 KiB in a hole", "µs"),
    ("block_us", "read of a block of 4 KiB", "µs"),
    ("truncate_us", "truncation of 1,000 blocks by half", "µs"),
    ("remove_blocks_us", "removal of an object with the other half", "µs"),
    ("remove_us", "removal of an object with two blocks", "µs"),
    ("scrub_s", "scrub", "s"),
    ("fsck_s", "fsck", "s"),
    ("checked_mib", "most memory", "MiB"),
];

/// Operations of each kind at each size.
const OPERATIONS: u64 = 10_000;
const PAGE_OBJECTS: usize = 1_000;
const PAGES: u64 = 100;

const BLOCK_BYTES: u64 = 4_096;
/// 10 TiB of the largest objects.
const SPARSE_OBJECTS: u64 = (10 << 40) / limits::OBJECT_BYTES_MAX;
/// The first sparse objects have this many blocks more than two.
const BLOCKS: u64 = 1_000;
const OBJECTS_WITH_BLOCKS: u64 = 10;

pub fn run(setting: &Setting) -> Outcome<Section> {
    let dir = setting.dir.join("store");
    let operations = setting.count(OPERATIONS);
    let mut sizes = vec![("10,000", 10_000), ("100,000", 100_000), ("1,000,000", 1_000_000)];
    if setting.ten_million {
        sizes.push(("10,000,000", 10_000_000));
    }
    let (mut created, mut measured) = (0, Vec::new());
    for (name, count) in sizes {
        let count = setting.count(count);
        eprintln!("    {name} objects");
        answer("fill", &dir, &[created, count])?;
        settle(&setting.dir)?;
        measured.push((name, count, answer("scale", &dir, &[count, operations])?));
        created = count;
    }
    let mut rows = Vec::new();
    for (key, what, unit) in BY_OBJECTS {
        let mut points = Vec::new();
        for (name, count, answer) in &measured {
            let value = number(answer, key)?;
            rows.push(Row::alone(format!("{what}: {name} objects"), unit, vec![value], Aim::None));
            points.push((*name, *count, value));
        }
        if let [.., (from, n, before), (to, m, after)] = points[..] {
            let what = format!("{what}: from {from} to {to}, {}", growth((n, before), (m, after)));
            rows.push(Row::alone(what, "times", vec![after / before.max(SMALL)], Aim::None));
        }
    }
    eprintln!("    10 TiB of sparse objects");
    let (dir, count) = (setting.dir.join("sparse"), setting.count(SPARSE_OBJECTS));
    answer("make-sparse", &dir, &[count])?;
    settle(&setting.dir)?;
    let sparse = answer("sparse", &dir, &[count])?;
    for (key, what, unit) in OF_SPARSE {
        let value = number(&sparse, key)?;
        rows.push(Row::alone(format!("10 TiB sparse: {what}"), unit, vec![value], Aim::None));
    }
    Ok(Section {
        title: "Every operation by the number of objects",
        note: format!(
            "Objects of {TINY_BYTES} bytes as in the section before, in a store that is filled further for each size. Everything else at a size is \
             done once by one new process, in the order of the table, with {OPERATIONS} operations of each kind; times of single operations are \
             medians, those of 64 in flight the whole time divided by their number. The removed objects are those that were put. The law \
             is the exponent of the number of objects between the two largest sizes: constant below 0.15, proportional from 0.85 to 1.15. Sparse: \
             {SPARSE_OBJECTS} objects of {:.0} MiB, which have two blocks of 4 KiB each, and {OBJECTS_WITH_BLOCKS} of them {BLOCKS} more, at random \
             places.",
            limits::OBJECT_BYTES_MAX as f64 / MIB
        ),
        rows,
    })
}

/// Runs a child to its end, and returns its report.
fn answer(work: &str, dir: &Path, numbers: &[u64]) -> Outcome<Value> {
    let mut child = start_child(work, dir, numbers)?;
    let answer = next(&mut child)?;
    child.finish()?;
    Ok(answer)
}

/// Quantities below this count as this much, so that their growth is defined.
const SMALL: f64 = 0.001;

/// How a quantity grows between two numbers of objects.
fn growth((n, before): (u64, f64), (m, after): (u64, f64)) -> String {
    let exponent = (after.max(SMALL) / before.max(SMALL)).ln() / (m as f64 / n as f64).ln();
    match exponent {
        -0.15..0.15 => "constant".to_owned(),
        0.85..1.15 => "proportional".to_owned(),
        _ => format!("n^{exponent:.1}"),
    }
}

/// The work of a child: measures a store with `count` tiny objects.
pub fn measure(dir: &Path, count: u64, operations: u64) -> Outcome {
    let mut found = Map::new();
    let (store, pool) = open_again(dir, &tiny(0)?, &mut found)?;
    let random = |index: u64| tiny(Noise::new(!index).below(count));
    let each = |seconds: f64| seconds * 1e6 / operations as f64;
    let stat_us = median_us(operations, |index| {
        block_on(pool.stat(&random(index)?))?;
        Ok(())
    })?;
    let get_us = median_us(operations, |index| {
        block_on(pool.read_range(&random(index)?, 0, TINY_BYTES as u64))?;
        Ok(())
    })?;
    let list_us = median_us(PAGES, |index| {
        let after = pool.token_after(&random(index)?);
        block_on(pool.list(ListRequest { after, objects_max: PAGE_OBJECTS, ..ListRequest::default() }))?;
        Ok(())
    })?;
    let data = Bytes::from(vec![b'z'; TINY_BYTES]);
    let write = |index: u64| {
        let (pool, op) = (&pool, WriteOp::new().write_full(data.clone()).buffered());
        async move { pool.write(&tiny(index)?, op).await.map(|_| ()) }
    };
    let put_s = run_ops(operations, MANY_IN_FLIGHT, |index| write(count + index))?;
    let overwrite_s = run_ops(operations, MANY_IN_FLIGHT, |index| write(Noise::new(!index).below(count)))?;
    let new = (count..count + operations).map(tiny).collect::<benthic_core::Result<Vec<_>>>()?;
    let stopwatch = start();
    remove(&*pool, &new)?;
    let remove_s = seconds(stopwatch);
    flush(&*store)?;
    let cleaned_s = wait_until_still(dir)?;
    found.extend([
        ("stat_us".to_owned(), json!(stat_us)),
        ("get_us".to_owned(), json!(get_us)),
        ("list_ms".to_owned(), json!(list_us / 1e3)),
        ("put_us".to_owned(), json!(each(put_s))),
        ("overwrite_us".to_owned(), json!(each(overwrite_s))),
        ("remove_us".to_owned(), json!(each(remove_s))),
        ("cleaned_s".to_owned(), json!(cleaned_s)),
        ("memory_mib".to_owned(), json!(memory_mib(std::process::id(), "VmHWM:")?)),
    ]);
    check(&*store, &*pool, &mut found)?;
    report(&Value::Object(found))?;
    drop(pool);
    Ok(store.close()?)
}

/// The work of a child: creates a store with sparse objects.
pub fn make_sparse(dir: &Path, count: u64) -> Outcome {
    let store = open(dir)?;
    let pool = pool(&*store, POOL)?;
    let names = objects("sparse", count)?;
    let block = Bytes::from(noise(BLOCK_BYTES as usize));
    let end_bytes = limits::OBJECT_BYTES_MAX - BLOCK_BYTES;
    run_ops(count, MANY_IN_FLIGHT, |index| {
        let op = WriteOp::new().write(place(index), block.clone()).write(end_bytes, block.clone()).buffered();
        let (pool, name) = (&pool, &names[index as usize]);
        async move { pool.write(name, op).await.map(|_| ()) }
    })?;
    run_ops(OBJECTS_WITH_BLOCKS * BLOCKS, MANY_IN_FLIGHT, |index| {
        let op = WriteOp::new().write(place(count + index), block.clone()).buffered();
        let (pool, name) = (&pool, &names[(index / BLOCKS) as usize]);
        async move { pool.write(name, op).await.map(|_| ()) }
    })?;
    flush(&*store)?;
    report(&json!({ "objects": count }))?;
    drop(pool);
    Ok(store.close()?)
}

/// The work of a child: measures a store with sparse objects.
pub fn measure_sparse(dir: &Path, count: u64) -> Outcome {
    let mut found = Map::new();
    let names = objects("sparse", count)?;
    let (store, pool) = open_again(dir, &names[0], &mut found)?;
    let random = |index: u64| Noise::new(!index).below(count);
    let operations = OPERATIONS.min(count);
    let stat_us = median_us(operations, |index| {
        block_on(pool.stat(&names[random(index) as usize]))?;
        Ok(())
    })?;
    let read = |object: u64, at_bytes: u64| -> Outcome {
        block_on(pool.read_range(&names[object as usize], at_bytes, BLOCK_BYTES))?;
        Ok(())
    };
    // A random place is a block in one of 16,384 cases.
    let hole_us = median_us(operations, |index| read(random(index), place(!index)))?;
    let block_us = median_us(operations, |index| read(random(index), place(random(index))))?;
    check(&*store, &*pool, &mut found)?;
    let write = |object: u64, op: WriteOp| -> Outcome {
        block_on(pool.write(&names[object as usize], op.buffered()))?;
        Ok(())
    };
    let half_bytes = limits::OBJECT_BYTES_MAX / 2;
    let truncate_us =
        median_us(OBJECTS_WITH_BLOCKS, |index| write(index, WriteOp::new().truncate(half_bytes)))?;
    let remove_blocks_us = median_us(OBJECTS_WITH_BLOCKS, |index| write(index, WriteOp::new().remove()))?;
    let others = operations - OBJECTS_WITH_BLOCKS;
    let remove_us = median_us(others, |index| write(OBJECTS_WITH_BLOCKS + index, WriteOp::new().remove()))?;
    found.extend([
        ("stat_us".to_owned(), json!(stat_us)),
        ("hole_us".to_owned(), json!(hole_us)),
        ("block_us".to_owned(), json!(block_us)),
        ("truncate_us".to_owned(), json!(truncate_us)),
        ("remove_blocks_us".to_owned(), json!(remove_blocks_us)),
        ("remove_us".to_owned(), json!(remove_us)),
    ]);
    report(&Value::Object(found))?;
    drop(pool);
    Ok(store.close()?)
}

/// Opens a store until it answers.
fn open_again(dir: &Path, object: &ObjectId, found: &mut Map<String, Value>) -> Outcome<Opened> {
    let stopwatch = start();
    let store = open(dir)?;
    let pool = block_on(store.open_pool(POOL))?;
    block_on(pool.stat(object))?;
    found.insert("open_s".to_owned(), json!(seconds(stopwatch)));
    found.insert("opened_mib".to_owned(), json!(memory_mib(std::process::id(), "VmRSS:")?));
    Ok((store, pool))
}

/// Scrubs the pool and runs fsck. Nothing may be damaged.
fn check(store: &dyn Store, pool: &dyn Pool, found: &mut Map<String, Value>) -> Outcome {
    let (stopwatch, mut after) = (start(), None);
    loop {
        let page = block_on(pool.scrub(after))?;
        if let Some(damage) = page.damage.first() {
            return Err(format!("the scrub found damage: {}", damage.message).into());
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    found.insert("scrub_s".to_owned(), json!(seconds(stopwatch)));
    let stopwatch = start();
    let checked = block_on(store.fsck())?;
    found.insert("fsck_s".to_owned(), json!(seconds(stopwatch)));
    found.insert("checked_mib".to_owned(), json!(memory_mib(std::process::id(), "VmHWM:")?));
    match checked.findings.first() {
        Some(finding) => Err(format!("fsck found: {}", finding.message).into()),
        None => Ok(()),
    }
}

/// The median time of an operation with each number below `count`, one after the other.
fn median_us(count: u64, operation: impl Fn(u64) -> Outcome) -> Outcome<f64> {
    let mut times_us = Vec::new();
    for index in 0..count {
        let stopwatch = start();
        operation(index)?;
        times_us.push(seconds(stopwatch) * 1e6);
    }
    Ok(median(times_us))
}

/// A random block of an object.
fn place(index: u64) -> u64 {
    Noise::new(index).below(limits::OBJECT_BYTES_MAX / BLOCK_BYTES) * BLOCK_BYTES
}
