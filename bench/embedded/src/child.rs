//! Child processes of this program. They own a store, are killed, or have their memory measured.

use crate::scale;
use crate::store::{MANY_IN_FLIGHT, open, pool, run as run_ops};
use bench_harness::process::{Child, memory_mib};
use bench_harness::{Noise, Outcome, seconds, start};
use benthic_core::{ListRequest, ObjectId, Store, WriteOp};
use bytes::Bytes;
use futures::executor::block_on;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

pub const MARK: &str = "--child";
pub const POOL: &str = "many";
/// A child reports its progress after this many objects.
const REPORT_EVERY: usize = 1_000_000;
pub const TINY_BYTES: usize = 100;

/// Starts a child with its task, the store's directory, and numbers.
pub fn start_child(work: &str, dir: &Path, numbers: &[u64]) -> Outcome<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    Child::start(command.args([MARK, work]).arg(dir).args(numbers.iter().map(u64::to_string)))
}

pub fn next(child: &mut Child) -> Outcome<Value> {
    Ok(serde_json::from_str(&child.next_line()?)?)
}

pub fn number(line: &Value, name: &str) -> Outcome<f64> {
    line[name].as_f64().ok_or_else(|| format!("a child reported no {name}: {line}").into())
}

/// Names a tiny object. The order of names differs from the order of creation.
pub fn tiny(index: u64) -> benthic_core::Result<ObjectId> {
    ObjectId::new(format!("{:016x}", Noise::new(index).next_u64()))
}

pub fn run(mut args: impl Iterator<Item = OsString>) -> Outcome {
    // Kill the child when its parent dies.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut text = || -> Outcome<String> {
        let arg = args.next().ok_or("an argument is missing")?;
        arg.into_string().map_err(|_| "an argument is not UTF-8".into())
    };
    let (what, dir) = (text()?, text()?);
    let mut next = || -> Outcome<u64> { Ok(text()?.parse()?) };
    let dir = Path::new(&dir);
    match what.as_str() {
        "own" => own(dir),
        "fill" => fill(dir, next()?, next()?),
        "churn" => churn(dir, next()?, next()?),
        "open" => open_again(dir, next()? == 1),
        "scale" => scale::measure(dir, next()?, next()?),
        "make-sparse" => scale::make_sparse(dir, next()?),
        "sparse" => scale::measure_sparse(dir, next()?),
        _ => Err(format!("unknown task of a child: {what}").into()),
    }
}

/// Prints a line for the parent.
pub fn report(line: &Value) -> Outcome {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Owns the store until standard input closes.
fn own(dir: &Path) -> Outcome {
    let store = open(dir)?;
    pool(&*store, POOL)?;
    report(&json!({ "owns": true }))?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(store.close()?)
}

/// Creates the objects with numbers `from` up to `to`.
fn fill(dir: &Path, from: u64, to: u64) -> Outcome {
    let store = open(dir)?;
    let pool = pool(&*store, POOL)?;
    let data = Bytes::from(vec![b'x'; TINY_BYTES]);
    let mut seconds = 0.0;
    for first in (from..to).step_by(REPORT_EVERY) {
        let last = to.min(first + REPORT_EVERY as u64);
        let step_s = run_ops(last - first, MANY_IN_FLIGHT, |index| {
            let (pool, op) = (&pool, WriteOp::new().write_full(data.clone()).buffered());
            async move { pool.write(&tiny(first + index)?, op).await.map(|_| ()) }
        })?;
        eprintln!(
            "    {last} objects exist; the last ones were created at {:.0}/s",
            (last - first) as f64 / step_s
        );
        seconds += step_s;
    }
    seconds += crate::store::flush(&*store)?;
    report(&json!({ "seconds": seconds, "memory_mib_max": memory_mib(std::process::id(), "VmHWM:")? }))?;
    drop(pool);
    Ok(store.close()?)
}

/// Overwrites random objects until it is killed; reports once after `report_after` writes.
fn churn(dir: &Path, objects: u64, report_after: u64) -> Outcome {
    let store = open(dir)?;
    let pool = pool(&*store, POOL)?;
    let data = Bytes::from(vec![b'y'; TINY_BYTES]);
    let write = |index| {
        let (pool, op) = (&pool, WriteOp::new().write_full(data.clone()).buffered());
        async move { pool.write(&tiny(Noise::new(index).below(objects))?, op).await.map(|_| ()) }
    };
    run_ops(report_after, MANY_IN_FLIGHT, write)?;
    report(&json!({ "done": report_after }))?;
    run_ops(u64::MAX, MANY_IN_FLIGHT, write)?;
    Ok(())
}

/// Opens a store; reports the time until the first object could be read, and the process' memory.
/// Lists all objects if `list` is set.
fn open_again(dir: &Path, list: bool) -> Outcome {
    let object = tiny(0)?;
    let stopwatch = start();
    let store = open(dir)?;
    let pool = block_on(store.open_pool(POOL));
    // The empty store has no pool.
    if let Ok(pool) = &pool {
        block_on(pool.stat(&object))?;
    }
    let opened_s = seconds(stopwatch);
    report(&json!({ "seconds": opened_s, "memory_mib": memory_mib(std::process::id(), "VmRSS:")? }))?;
    if list {
        let pool = pool?;
        let stopwatch = start();
        let (mut count, mut request) = (0, ListRequest::default());
        loop {
            let page = block_on(pool.list(request))?;
            count += page.objects.len();
            if page.next.is_none() {
                break;
            }
            request = ListRequest { after: page.next, ..ListRequest::default() };
        }
        let listed_s = seconds(stopwatch);
        report(&json!({ "seconds": listed_s, "objects": count }))?;
    }
    Ok(store.close()?)
}
