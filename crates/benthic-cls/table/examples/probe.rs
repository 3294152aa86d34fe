//! Measures fragments inside the OSDs of a cluster: `probe CONF POOL OSD_PID COMMAND`.
//!
//! Commands: `put` writes the objects; `hostile` sends plans that must be refused; `first` calls once; `time CALLS` times
//! calls; `memory CALLERS CALLS` watches the OSD's memory under calls at once.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for the console")]

#[allow(dead_code, reason = "shared with the tests")]
#[path = "../../../benthic-fragment/tests/common/mod.rs"]
mod common;

use benthic_core::{ClassCall, ErrorKind, Fetch, ObjectId, Pool, Result, Stopwatch, Store, SystemClock};
use benthic_fragment::fragment::{Envelope, Ranges, Reply, Status, encode, run};
use benthic_rados::{Options, RadosStore};
use bytes::Bytes;
use common::Plan;
use futures::executor::block_on;
use futures::future::join_all;
use prost::Message;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const OBJECTS: usize = 16;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let [conf, pool, pid, command @ ..] = words.as_slice() else { panic!("probe CONF POOL OSD_PID COMMAND") };
    let store = RadosStore::connect(Some(Path::new(conf)), None, Options::default()).unwrap();
    match block_on(store.create_pool(pool)) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{error}"),
        _ => {}
    }
    let pool = block_on(store.open_pool(pool)).unwrap();
    match command {
        ["put"] => put(&pool),
        ["hostile"] => hostile(&pool),
        ["first"] => first(&pool),
        ["time", calls] => time(&pool, calls.parse().unwrap()),
        ["memory", callers, calls] => memory(&pool, pid, callers.parse().unwrap(), calls.parse().unwrap()),
        _ => panic!("no such command"),
    }
}

fn object(index: usize) -> ObjectId {
    ObjectId::new(format!("lineitem-{index}")).unwrap()
}

fn put(pool: &Arc<dyn Pool>) {
    let parquet = common::lineitem().parquet;
    println!(
        "object_bytes={} rows={} row_group_rows={}",
        parquet.len(),
        common::ROWS,
        common::ROW_GROUP_ROWS
    );
    for index in 0..OBJECTS {
        block_on(pool.write_full(&object(index), parquet.clone())).unwrap();
    }
}

async fn push(pool: &Arc<dyn Pool>, index: usize, envelope: Bytes) -> Result<Reply> {
    let call = ClassCall { class: "table".to_owned(), method: "scan".to_owned(), input: envelope };
    let output = pool.exec(&object(index), call).await?;
    Ok(Reply::decode(output).unwrap())
}

/// The object as a client sees it.
struct Away<'a> {
    pool: &'a Arc<dyn Pool>,
    size_bytes: u64,
}

impl Ranges for Away<'_> {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn gap_bytes_max(&self) -> u64 {
        64 * 1024
    }

    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let reads = ranges.iter().map(|range| Fetch::read(range.start, range.end - range.start));
        block_on(self.pool.fetch(&object(0), Fetch::all(reads))).map(|(data, _)| data)
    }

    fn go_on(&mut self) -> Result<()> {
        Ok(())
    }
}

fn plans() -> Vec<(&'static str, Envelope)> {
    let envelope =
        |plan: &Plan| Envelope { output_bytes_max: 16 * 1024 * 1024, ..Envelope::new(encode(plan).unwrap()) };
    vec![
        ("footer only (no row group left)", envelope(&common::point(0))),
        ("point, pruned to a page", envelope(&common::point(20_000))),
        ("q6", envelope(&common::q6())),
        ("q1", envelope(&common::q1())),
        ("1% of rows, 5 columns", envelope(&common::parts(2_000))),
        ("1%, LZ4", Envelope { compress: true, ..envelope(&common::parts(2_000)) }),
        ("all rows, 5 columns", envelope(&common::parts(i64::MAX))),
        ("all rows, LZ4", Envelope { compress: true, ..envelope(&common::parts(i64::MAX)) }),
    ]
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let time = Stopwatch::start(&SystemClock);
    let result = work();
    (time.elapsed(), result)
}

fn first(pool: &Arc<dyn Pool>) {
    let envelope = Envelope::new(encode(&common::q6()).unwrap());
    for name in ["first", "second", "third"] {
        let (took, reply) = timed(|| block_on(push(pool, 0, envelope.to_bytes())).unwrap());
        println!(
            "{name:8} call_us={} plan_us={} run_us={} read_us={} {}",
            took.as_micros(),
            reply.plan_us,
            reply.run_us,
            reply.read_us,
            reply.message
        );
    }
    // Another plan, also for the first time.
    let other = Envelope { batch_rows: 8_191, ..envelope };
    let (took, reply) = timed(|| block_on(push(pool, 0, other.to_bytes())).unwrap());
    println!("new plan call_us={} plan_us={} run_us={}", took.as_micros(), reply.plan_us, reply.run_us);
}

fn middle(mut values: Vec<u64>) -> (u64, u64) {
    values.sort_unstable();
    (values[values.len() / 2], values[values.len() * 95 / 100])
}

fn time(pool: &Arc<dyn Pool>, calls: usize) {
    let (stat, _) = block_on(pool.stat(&object(0))).unwrap();
    println!("object_bytes={} calls={calls}", stat.size_bytes);
    println!(
        "{:32} {:>8} {:>8} {:>7} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8}",
        "plan",
        "push_p50",
        "push_p95",
        "read1",
        "pull_p50",
        "pull_p95",
        "plan_us",
        "run_us",
        "read_us",
        "moved_B",
        "read_B",
        "reads",
        "envel_B"
    );
    for (name, envelope) in plans() {
        let bytes = envelope.to_bytes();
        let heavy = name.starts_with("all") || name.starts_with("q1");
        let calls = if heavy { calls.div_ceil(10) } else { calls };
        let (mut pushed, mut one, mut pulled) = (Vec::new(), Vec::new(), Vec::new());
        let (mut plan, mut ran, mut read) = (Vec::new(), Vec::new(), Vec::new());
        let mut last = Reply::default();
        for call in 0..calls {
            let (took, reply) = timed(|| block_on(push(pool, 0, bytes.clone())).unwrap());
            assert_eq!(reply.status, i32::from(Status::Ok), "{}", reply.message);
            pushed.push(took.as_micros() as u64);
            plan.push(reply.plan_us);
            ran.push(reply.run_us);
            read.push(reply.read_us);
            let (took, _) = timed(|| block_on(pool.read_range(&object(0), 0, 1)).unwrap());
            one.push(took.as_micros() as u64);
            if call % 4 == 0 {
                let mut away = Away { pool, size_bytes: stat.size_bytes };
                let (took, here) = timed(|| run(&mut away, &bytes).unwrap());
                pulled.push(took.as_micros() as u64);
                assert_eq!((here.rows, &here.ipc), (reply.rows, &reply.ipc), "there and here differ");
            }
            last = reply;
        }
        let (pushed, one, pulled) = (middle(pushed), middle(one), middle(pulled));
        println!(
            "{name:32} {:8} {:8} {:7} {:8} {:8} {:8} {:8} {:8} {:8} {:9} {:9} {:8}",
            pushed.0,
            pushed.1,
            one.0,
            pulled.0,
            pulled.1,
            middle(plan).0,
            middle(ran).0,
            middle(read).0,
            last.ipc.len(),
            last.read_bytes,
            last.reads,
            bytes.len()
        );
    }
}

/// A line of the process' status, in MiB.
fn status_mib(pid: &str, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn memory(pool: &Arc<dyn Pool>, pid: &str, callers: usize, calls: usize) {
    for (name, envelope) in plans() {
        let bytes = envelope.to_bytes();
        // Resets the peak.
        std::fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
        let before = status_mib(pid, "VmRSS:");
        let (mut reserved, mut busy, time) = (0, 0, Stopwatch::start(&SystemClock));
        for _ in 0..calls {
            let replies =
                block_on(join_all((0..callers).map(|index| push(pool, index % OBJECTS, bytes.clone()))));
            for reply in replies {
                let reply = reply.unwrap();
                if reply.status == i32::from(Status::Busy) {
                    busy += 1;
                    continue;
                }
                assert_eq!(reply.status, i32::from(Status::Ok), "{}", reply.message);
                reserved = reserved.max(reply.reserved_bytes_max);
            }
        }
        let per_call_us = time.elapsed().as_micros() as u64 / (calls * callers) as u64;
        println!(
            "{name:32} callers={callers} busy={busy} rss_before_mib={before} peak_mib={} rss_after_mib={} pool_peak_kib={} per_call_us={per_call_us}",
            status_mib(pid, "VmHWM:"),
            status_mib(pid, "VmRSS:"),
            reserved / 1024
        );
    }
}

fn hostile(pool: &Arc<dyn Pool>) {
    for (name, envelope, why) in common::hostile::refused() {
        let reply = block_on(push(pool, 0, envelope.to_bytes())).unwrap();
        assert_eq!(reply.status, i32::from(Status::Unsupported), "{name}: {}", reply.message);
        assert!(reply.message.contains(why), "{name}: {}", reply.message);
        println!("refused  {name:40} {}", reply.message);
    }
    for (name, envelope) in common::hostile::wrong() {
        match block_on(push(pool, 0, envelope.to_bytes())) {
            Ok(reply) => println!("answered {name:40} status={} {}", reply.status, reply.message),
            Err(error) => println!("failed   {name:40} {error}"),
        }
    }
    let reply = block_on(push(pool, 0, Envelope::new(encode(&common::q6()).unwrap()).to_bytes())).unwrap();
    assert_eq!(reply.status, i32::from(Status::Ok));
    println!("the OSD lives: q6 answers {} row", reply.rows);
}
