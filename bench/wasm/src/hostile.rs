//! The effect on ordinary clients of modules that use all that their limits allow.
//!
//! Clients read and write objects of 64 KiB at a fixed rate. A latency counts from the time at
//! which the operation was due: otherwise a client that waits for one slow operation would hide
//! those that it could not send meanwhile. Modules in the same pool loop, recurse and fill their
//! memory, one call after another, under several rules. The settings run in turns, so that a change
//! of the machine's speed meets all.

use crate::{Args, Module};
use bench_harness::cluster::Cluster;
use bench_harness::process::run as run_program;
use bench_harness::{Latencies, Noise, Outcome};
use benthic_core::{ErrorKind, ObjectId, Pool};
use benthic_wasm::{Call, Limits};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

const CLIENTS: usize = 8;
/// Time between two operations of a client.
const INTERVAL: Duration = Duration::from_millis(40);
const OBJECT_BYTES: usize = 64 << 10;
const OBJECTS: usize = 256;
const PHASE: Duration = Duration::from_secs(8);
/// Time for new rules to take effect, and for the last calls to end.
const SETTLING: Duration = Duration::from_secs(2);
/// Calls in flight of the hostile client.
const HOSTILE: usize = 4;
/// Methods that end by a limit.
const METHODS: [&str; 3] = ["spin", "recurse", "hoard"];

/// A name, and the administrator's rules; `None` if no module is called.
const SETTINGS: [(&str, Option<&str>); 5] = [
    ("no hostile module", None),
    ("no rules", Some(r#"{"unsigned":{}}"#)),
    (
        "20 M fuel a second, 10 M a call",
        Some(r#"{"unsigned":{"fuel":10000000},"client_fuel_per_s":20000000}"#),
    ),
    (
        "10 M fuel a second, 1 M a call",
        Some(r#"{"unsigned":{"fuel":1000000,"memory_bytes":4194304},"client_fuel_per_s":10000000}"#),
    ),
    ("no hostile module, again", None),
];

/// The results of one setting, a number each round.
#[derive(Default)]
struct Results {
    p50_ms: Vec<f64>,
    p99_ms: Vec<f64>,
    max_ms: Vec<f64>,
    calls_per_s: Vec<f64>,
}

/// Prints a row for each setting.
pub async fn measure(args: &Args, module: &Module, interpret: bool) -> Outcome {
    let environment = [("BENTHIC_WASM_INTERPRET", if interpret { "1" } else { "0" })];
    let cluster = Cluster::up_with(&args.benthic, "hostile", &["--osds", "1"], &environment)?;
    let library = args.benthic.with_file_name("libcls_wasm_1.so");
    run_program(cluster.benthic(["class", "install"]).arg(&library).arg("--cluster").arg(cluster.dir()))?;
    for (name, value) in &args.ceph {
        cluster.ceph(&["config", "set", "osd", name, value])?;
    }
    if !args.ceph.is_empty() {
        let dir = cluster.dir().to_string_lossy().into_owned();
        for verb in ["kill", "start"] {
            run_program(&mut cluster.benthic(["cluster", verb, "osd.0", "--dir", &dir]))?;
        }
    }
    let (ordinary, hostile) = (cluster.connect().await?, cluster.connect().await?);
    ordinary.create_pool("bench").await?;
    let pool = ordinary.open_pool("bench").await?;
    let hostile = hostile.open_pool("bench").await?;
    for number in 0..OBJECTS {
        pool.write_full(&object(number)?, Noise::new(number as u64).bytes(OBJECT_BYTES)).await?;
    }
    let mut results: Vec<Results> = SETTINGS.iter().map(|_| Results::default()).collect();
    for _ in 0..args.rounds.min(5) {
        for ((_, rules), results) in SETTINGS.iter().zip(&mut results) {
            set_rules(&cluster, rules.unwrap_or(r#"{"unsigned":{}}"#))?;
            sleep(SETTLING).await;
            let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
            let callers: Vec<_> = (0..if rules.is_some() { HOSTILE } else { 0 })
                .map(|number| {
                    let (pool, module) = (Arc::clone(&hostile), Module::new(module.wasm.clone()));
                    let (stop, calls) = (Arc::clone(&stop), Arc::clone(&calls));
                    tokio::spawn(async move { attack(&*pool, &module, number, &stop, &calls).await })
                })
                .collect();
            sleep(Duration::from_secs(1)).await;
            let before = calls.load(Ordering::Relaxed);
            let latencies = ordinary_load(&pool).await?;
            results.calls_per_s.push((calls.load(Ordering::Relaxed) - before) as f64 / PHASE.as_secs_f64());
            results.p50_ms.push(latencies.quantile_ms(0.5));
            results.p99_ms.push(latencies.quantile_ms(0.99));
            results.max_ms.push(latencies.max_ms());
            stop.store(true, Ordering::Relaxed);
            for caller in callers {
                caller.await??;
            }
        }
    }
    println!(
        "| rules for hostile modules | calls a second | p50, ms | p99, ms | longest, ms | p99 of each round |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for ((name, _), results) in SETTINGS.iter().zip(results) {
        let each: Vec<String> = results.p99_ms.iter().map(|ms| format!("{ms:.1}")).collect();
        let [calls, p50, p99, max] =
            [results.calls_per_s, results.p50_ms, results.p99_ms, results.max_ms].map(crate::median);
        println!("| {name} | {calls:.1} | {p50:.2} | {p99:.1} | {max:.0} | {} |", each.join(", "));
    }
    println!();
    Ok(())
}

fn object(number: usize) -> benthic_core::Result<ObjectId> {
    ObjectId::new(format!("object {number}"))
}

fn set_rules(cluster: &Cluster, json: &str) -> Outcome {
    let file = std::env::temp_dir().join("benthic-bench-rules.json");
    std::fs::write(&file, json)?;
    run_program(
        cluster.benthic(["class", "install", "--rules"]).arg(file).arg("--cluster").arg(cluster.dir()),
    )
}

/// Calls methods that end by a limit, one after another. While the quota is used up, it asks 100
/// times a second.
async fn attack(
    pool: &dyn Pool,
    module: &Module,
    number: usize,
    stop: &AtomicBool,
    calls: &AtomicU64,
) -> benthic_core::Result<()> {
    let mut random = Noise::new(1_000 + number as u64);
    for round in number.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let call = Call {
            module: module.id,
            limits: Limits::default(),
            method: METHODS[round % METHODS.len()].to_owned(),
            input: Bytes::new(),
            attached: None,
        };
        let object = object(usize::from(random.bytes(1)[0]) % OBJECTS)?;
        match benthic_wasm::exec(pool, &object, call, false, async || Ok(module.wasm.clone())).await {
            Err(error) if error.kind() == ErrorKind::Busy => sleep(Duration::from_millis(10)).await,
            Err(error) if matches!(error.kind(), ErrorKind::LimitExceeded | ErrorKind::ClassFailed) => {
                calls.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => return Err(error),
            Ok(_) => unreachable!("no method ends by itself"),
        }
    }
    Ok(())
}

/// Reads and writes at the fixed rate, and returns the latencies.
async fn ordinary_load(pool: &Arc<dyn Pool>) -> Outcome<Latencies> {
    let began = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let pool = Arc::clone(pool);
            tokio::spawn(async move {
                let mut random = Noise::new(number as u64);
                let data = Bytes::from(random.bytes(OBJECT_BYTES));
                let mut due = began + INTERVAL * number as u32 / CLIENTS as u32;
                let mut times = Vec::new();
                while due < began + PHASE {
                    sleep_until(due).await;
                    let choice = random.bytes(2);
                    let object = object(usize::from(choice[0]) % OBJECTS)?;
                    if choice[1] % 2 == 0 {
                        pool.write_full(&object, data.clone()).await?;
                    } else {
                        pool.read_range(&object, 0, OBJECT_BYTES as u64).await?;
                    }
                    times.push(due.elapsed());
                    due += INTERVAL;
                }
                Ok::<Vec<Duration>, benthic_core::Error>(times)
            })
        })
        .collect();
    let mut latencies = Latencies::default();
    for client in clients {
        client.await??.into_iter().for_each(|time| latencies.record(time));
    }
    Ok(latencies)
}
